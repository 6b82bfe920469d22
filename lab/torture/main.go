//go:build unix

// Package torture kills prodigy at random instants, resumes it until its job is done, and judges by what the agents did whether
// anything was lost. It trusts neither prodigy nor its packages: it reads the files of a job with a reader of its own, and each
// agent leaves a line in a file of its item.
package torture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"prodigy/lab/trials"
)

// options are the flags.
type options struct {
	rounds    int
	first     int
	items     int
	seed      uint64
	limit     time.Duration
	kind      string
	session   bool
	scenarios bool
}

// Main is the tool.
func Main() error {
	var o options
	flag.IntVar(&o.rounds, "rounds", 200, "how many jobs are tortured")
	flag.IntVar(&o.first, "first", 1, "number of the first round, to repeat one")
	flag.IntVar(&o.items, "items", 300, "items of a job")
	flag.DurationVar(&o.limit, "for", 0, "begin no more rounds after this time; 0: no limit")
	flag.StringVar(&o.kind, "kind", "", "only this kind of job: "+strings.Join(kindNames(), ", "))
	flag.BoolVar(&o.session, "session", false, "always kill the whole session, never prodigy alone")
	flag.BoolVar(&o.scenarios, "scenarios", true, "run the scenarios as well")
	if signal.Ignored(syscall.SIGHUP) { // by nohup: what is caught here is not ignored by the jobs, which are to hear it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return trials.Try(&o.seed, "the random instants", func(ctx context.Context) error { return torture(ctx, o) })
}

// errInterrupted ends the torture before its time.
var errInterrupted = errors.New("interrupted")

// torture runs everything and prints what was tried. The error says what was violated.
func torture(ctx context.Context, o options) error {
	if o.kind != "" && !slices.Contains(kindNames(), o.kind) {
		return fmt.Errorf("no kind of job is called %q", o.kind)
	}
	// What the rounds leave behind is kept when one of them went wrong, so the directory is not cleaned up in all cases.
	base, err := os.MkdirTemp("", "prodigy-torture-")
	if err != nil {
		return err
	}
	if err := build(base); err != nil {
		return errors.Join(err, os.RemoveAll(base))
	}
	fmt.Printf("seed %d, %d rounds of %d items\n", o.seed, o.rounds, o.items)
	t := newTable()
	err = allRounds(ctx, o, base, t)
	if err == nil && o.scenarios && o.kind == "" {
		err = allScenarios(ctx, o, base)
	}
	t.print(os.Stdout)
	if err != nil {
		return err
	}
	return os.RemoveAll(base)
}

// Half of the rounds are played with a prodigy that begins a new file of the log, and compresses the old one, every few records.
const (
	plain    = "prodigy"
	rotating = "prodigy-rotating"
)

func build(base string) error {
	// Agents that run as somebody else must be able to reach the binaries.
	if err := os.Chmod(base, 0o755); err != nil {
		return err
	}
	for name, flags := range map[string]string{plain: "", rotating: "-X prodigy/internal/cli.logFileSize=20000"} {
		out, err := exec.Command("go", "build", "-ldflags", flags, "-o", filepath.Join(base, name), "./cmd/prodigy").CombinedOutput()
		if err != nil {
			return fmt.Errorf("build prodigy: %w\n%s", err, out)
		}
	}
	return nil
}

// allRounds plays the rounds, the kinds of jobs in turn, and stops at the first violation.
func allRounds(ctx context.Context, o options, base string, t *table) error {
	began := time.Now()
	for n := o.first; n < o.first+o.rounds; n++ {
		if o.limit > 0 && time.Since(began) > o.limit {
			break
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		k := kinds[(n-1)%len(kinds)]
		if o.kind != "" {
			k = kindNamed(o.kind)
		}
		r := newRound(n, o, k, base)
		err := r.play(ctx)
		r.endLeftovers()
		t.add(r, err)
		if err != nil {
			return r.blame(err, o)
		}
		if err := os.RemoveAll(r.dir); err != nil {
			return err
		}
	}
	return nil
}

// blame adds to a violation where its files are and how to repeat the round.
func (r *round) blame(err error, o options) error {
	kind := ""
	if o.kind != "" {
		kind = " -kind " + o.kind
	}
	return fmt.Errorf("round %d (%s):\n%w\nkept: %s\nrepeat: go run ./lab torture -seed %d -items %d -first %d -rounds 1%s -scenarios=false",
		r.number, r.kind.name, err, r.dir, o.seed, o.items, r.number, kind)
}
