//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// round is one job from its first run to its end, with the kills between.
type round struct {
	number  int
	rng     *rand.Rand
	kind    kind
	fates   []string
	dir     string // the working directory of the job, with the home of prodigy in it
	prodigy string
	mark    string // in the environment of every process of the round

	parallel   int
	durability string
	maxCrashes int
	session    bool                // a kill takes the agents as well, always
	user       *syscall.Credential // who runs prodigy; nil: who runs this
	runs       int                 // of prodigy
	kills      int
	before     []snapshot   // as it was after each kill
	cut        map[int]bool // runs that were killed or interrupted
	again      int          // items that ran again since they were in flight at a kill
	overlaps   []error      // agents of a killed run that went on beside the next one
	unlogged   int          // tries that a kill took from the log
}

// snapshot is what was certain at a kill: it must not change any more.
type snapshot struct {
	log     []byte         // all of its whole lines
	settled map[string]int // items that had completed, and steps that were done → how often they had begun
}

// hung is how long prodigy gets for a run that nobody kills.
const hung = 3 * time.Minute

func newRound(n int, o options, k kind, base, prodigy string) *round {
	rng := rand.New(rand.NewPCG(o.seed, uint64(n)))
	r := &round{
		number: n, rng: rng, kind: k, prodigy: prodigy, dir: filepath.Join(base, fmt.Sprintf("%s-%d", k.name, n)),
		mark: fmt.Sprintf("TORTURE_MARK=%d-%d-%s-%d", os.Getpid(), o.seed, k.name, n),
		cut:  map[int]bool{}, session: o.session, parallel: 4 + rng.IntN(13),
		durability: []string{"batch", "strict", "none"}[rng.IntN(3)], maxCrashes: []int{0, 0, 2}[rng.IntN(3)],
	}
	if !k.standard {
		r.fates = k.deal(rng, o.items)
	}
	return r
}

// play is the round; the error tells all its violations.
func (r *round) play(ctx context.Context) error {
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.drive(ctx, 1+r.rng.IntN(4)); err != nil {
		return err
	}
	if r.kind.mends {
		if err := r.mend(ctx, 1+r.rng.IntN(3)); err != nil {
			return err
		}
	}
	return r.judge()
}

// prepare writes the workflow, its items and its scripts.
func (r *round) prepare() error {
	if err := os.MkdirAll(filepath.Join(r.dir, "effects"), 0o777); err != nil {
		return err
	}
	type item struct {
		N    int    `json:"n"`
		Fate string `json:"fate"`
	}
	list := make([]item, len(r.fates))
	for i, f := range r.fates {
		list[i] = item{i, f}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"items.json": string(data), "agent.sh": agentScript, "step.sh": stepScript, "workflow.yml": r.kind.workflow(r.parallel),
	} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// drive runs the job, kills it that often, and resumes it until it is done.
func (r *round) drive(ctx context.Context, kills int) error {
	for {
		command := []string{"run", "workflow.yml"}
		if r.begun() {
			command = []string{"resume", "latest", "--max-crashes", strconv.Itoa(r.maxCrashes)}
		}
		code, err := r.run(ctx, kills > 0, append(command, "--durability", r.durability)...)
		if err != nil {
			return err
		}
		switch {
		case code == killed:
			kills--
		case code == 0 || code == 3:
			return nil
		case code == 1 && r.kind.stops && r.last("JobFailed") && r.runs < 200:
		default:
			return r.wrong("prodigy %s ended with exit code %d\n%s", command[0], code, r.output())
		}
	}
}

// mend sends the dead letters again, kills that too, and goes on until none is left.
func (r *round) mend(ctx context.Context, kills int) error {
	if err := os.WriteFile(filepath.Join(r.dir, "mended"), nil, 0o644); err != nil {
		return err
	}
	for {
		code, err := r.run(ctx, kills > 0, "dlq", "retry", "--reduce", "--max-retries", "100", "--durability", r.durability)
		if err != nil {
			return err
		}
		if code == killed {
			kills--
			if r.rng.IntN(2) == 0 {
				if code, err := r.run(ctx, false, "resume", "latest", "--max-crashes", "0"); err != nil || code != 0 && code != 3 {
					return errors.Join(err, r.wrong("resume after a killed dlq retry: exit code %d\n%s", code, r.output()))
				}
			}
			continue
		}
		if code != 0 {
			return r.wrong("dlq retry ended with exit code %d\n%s", code, r.output())
		}
		return nil
	}
}

// killed is what run returns of a prodigy that it killed.
const killed = -9

// run runs prodigy once, in a session of its own. With kill it is killed at a random instant, unless it is done before.
func (r *round) run(ctx context.Context, kill bool, args ...string) (code int, err error) {
	p, err := r.start(args...)
	if err != nil {
		return 0, err
	}
	after := hung
	if kill {
		after = r.instant()
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.code(), r.sane()
	case <-ctx.Done():
		r.strike(p, true)
		return 0, errInterrupted
	case <-timer.C:
	}
	all := r.rng.IntN(2) == 0
	r.strike(p, all || r.session)
	if !kill {
		return 0, r.wrong("prodigy %s hung for %s\n%s", args[0], hung, r.output())
	}
	if p.code() != killed {
		return p.code(), r.sane()
	}
	r.kills++
	r.snap()
	return killed, nil
}

// instant is how long a run lives: as likely between 10 and 20 as between 400 and 800 milliseconds.
func (r *round) instant() time.Duration {
	const shortest, longest = float64(2 * time.Millisecond), float64(1500 * time.Millisecond)
	return time.Duration(shortest * math.Pow(longest/shortest, r.rng.Float64()))
}

// running is a prodigy that was started.
type running struct {
	cmd    *exec.Cmd
	waiter sync.WaitGroup // of the one goroutine that waits for it
	done   chan struct{}  // closed when it has ended
}

func (p *running) code() int {
	p.waiter.Wait()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// start starts prodigy; what it prints goes to a file.
func (r *round) start(args ...string) (*running, error) {
	r.runs++
	out, err := os.Create(r.outputFile(r.runs))
	if err != nil {
		return nil, err
	}
	cmd := r.command(args...)
	cmd.Stdout, cmd.Stderr = out, out
	p, err := begin(cmd)
	return p, errors.Join(err, out.Close())
}

func (r *round) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.prodigy, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+r.home(), "TORTURE_RUN="+strconv.Itoa(r.runs), r.mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: r.user}
	return cmd
}

func begin(cmd *exec.Cmd) (*running, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &running{cmd: cmd, done: make(chan struct{})}
	p.waiter.Go(func() {
		defer close(p.done)
		_ = cmd.Wait() // its state tells how it ended
	})
	return p, nil
}

// strike kills prodigy: alone, so that its agents live on, or everything that it has started.
func (r *round) strike(p *running, all bool) {
	_ = p.cmd.Process.Kill()
	if all {
		r.endLeftovers()
	}
	p.waiter.Wait()
}

func (r *round) home() string { return filepath.Join(r.dir, "home") }
func (r *round) outputFile(n int) string {
	return filepath.Join(r.dir, fmt.Sprintf("output-%d.txt", n))
}

// output returns the end of what the last run printed.
func (r *round) output() string {
	data, err := os.ReadFile(r.outputFile(r.runs))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data[max(0, len(data)-2000):]))
}

// sane looks at what the last run printed for the traces of a crash of its own.
func (r *round) sane() error {
	data, err := os.ReadFile(r.outputFile(r.runs))
	if err != nil {
		return err
	}
	for _, trace := range []string{"panic: ", "goroutine ", "BUG: "} {
		if strings.Contains(string(data), trace) {
			return r.wrong("prodigy crashed by itself:\n%s", r.output())
		}
	}
	return nil
}

func (r *round) wrong(format string, args ...any) error {
	return fmt.Errorf("run %d, after %d kills, %d slots, durability %s: %s",
		r.runs, r.kills, r.parallel, r.durability, fmt.Sprintf(format, args...))
}
