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
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"prodigy/lab/try"
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
func Main() {
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
	try.Seeded(&o.seed, "the random instants", func(ctx context.Context) { torture(ctx, o) })
}

// errInterrupted ends the torture before its time.
var errInterrupted = errors.New("interrupted")

// torture runs everything and prints what was tried. The error says what was violated.
func torture(ctx context.Context, o options) {
	try.FailIf(o.kind != "" && !slices.Contains(kindNames(), o.kind), "no kind of job is called %q", o.kind)
	// What the rounds leave behind is kept when one of them went wrong, so the directory is not cleaned up in all cases.
	base := try.To(os.MkdirTemp("", "prodigy-torture-"))
	build(base)
	fmt.Printf("seed %d, %d rounds of %d items\n", o.seed, o.rounds, o.items)
	t := newTable()
	err := try.Catch(func() {
		allRounds(ctx, o, base, t)
		if o.scenarios && o.kind == "" {
			allScenarios(ctx, o, base)
		}
	})
	t.print(os.Stdout)
	try.Check(err)
	try.Check(os.RemoveAll(base))
}

// Half of the rounds are played with a prodigy that begins a new file of the log, and compresses the old one, every few records.
const (
	plain    = "prodigy"
	rotating = "prodigy-rotating"
)

func build(base string) {
	// Agents that run as somebody else must be able to reach the binaries.
	try.Check(os.Chmod(base, 0o755))
	for name, flags := range map[string]string{plain: "", rotating: "-X prodigy/internal/cli.logFileSize=20000"} {
		try.Run(exec.Command("go", "build", "-ldflags", flags, "-o", filepath.Join(base, name), "./cmd/prodigy"))
	}
}

// allRounds plays the rounds, the kinds of jobs in turn, and stops at the first violation.
func allRounds(ctx context.Context, o options, base string, t *table) {
	began := time.Now()
	for n := o.first; n < o.first+o.rounds; n++ {
		if o.limit > 0 && time.Since(began) > o.limit {
			break
		}
		try.CheckIf(ctx.Err() != nil, errInterrupted)
		k := kinds[(n-1)%len(kinds)]
		if o.kind != "" {
			k = kindNamed(o.kind)
		}
		r := newRound(n, o, k, base)
		err := try.Catch(func() { r.play(ctx) })
		r.endLeftovers()
		t.add(r, err)
		if err != nil {
			try.Check(r.blame(err, o))
		}
		try.Check(os.RemoveAll(r.dir))
	}
}

// blame adds to a violation where its files are and how to repeat the round.
func (r *round) blame(err error, o options) error {
	kind := ""
	if o.kind != "" {
		kind = " -kind " + o.kind
	}
	return fmt.Errorf("round %d (%s):\n%w\nkept: %s\nrepeat: go run ./lab torture -seed %d -items %d -first %d -rounds 1%s -scenarios=false",
		r.number, r.kind.Name, err, r.dir, o.seed, o.items, r.number, kind)
}

// columns are what is counted of a round.
var columns = []string{"rounds", "kills", "runs", "items", "run again", "tries not in the log", "outlived the resume", "losses"}

// table sums up the rounds by kind of job.
type table struct {
	order []string
	sums  map[string][]int // by kind, and of all: a sum for each column
	hits  map[string]int   // instant → kills
}

func newTable() *table {
	return &table{sums: map[string][]int{"all": make([]int, len(columns))}, hits: map[string]int{}}
}

func (t *table) add(r *round, err error) {
	losses := 0
	if err != nil {
		losses = 1
	}
	if t.sums[r.kind.Name] == nil {
		t.sums[r.kind.Name] = make([]int, len(columns))
		t.order = append(t.order, r.kind.Name)
	}
	for i, n := range []int{1, r.kills, r.runs, len(r.fates), r.again, r.unlogged, len(r.overlaps), losses} {
		t.sums[r.kind.Name][i] += n
		t.sums["all"][i] += n
	}
	for name, n := range r.hits {
		t.hits[name] += n
	}
}

// print prints the sums, and when the kills came.
func (t *table) print(w io.Writer) {
	var sums, kills strings.Builder
	fmt.Fprintf(&sums, "job\t%s\t\n", strings.Join(columns, "\t"))
	for _, name := range append(t.order, "all") {
		cells := strings.Fields(strings.Trim(fmt.Sprint(t.sums[name]), "[]"))
		fmt.Fprintf(&sums, "%s\t%s\t\n", name, strings.Join(cells, "\t"))
	}
	kills.WriteString("kills\twhen\t\n")
	for _, name := range append([]string{atATime, atADelay}, instantNames()...) {
		fmt.Fprintf(&kills, "%d\t%s\t\n", t.hits[name], name)
	}
	for _, table := range []string{sums.String(), kills.String()} {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		try.To(io.WriteString(tw, table))
		try.Check(tw.Flush())
	}
}
