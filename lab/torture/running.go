//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// killed is what runKilled returns of a prodigy that it killed.
const killed = -9

// run runs prodigy to its end, in a session of its own, and returns its exit code.
func (r *round) run(ctx context.Context, args ...string) (code int, err error) {
	p, err := r.start(args...)
	if err != nil {
		return 0, err
	}
	return r.end(ctx, p)
}

// end waits for the end of a run.
func (r *round) end(ctx context.Context, p *running) (code int, err error) {
	if p.endsWithin(ctx.Done(), hung) && ctx.Err() == nil {
		return p.code(), r.sane()
	}
	r.strike(p, everything)
	if ctx.Err() != nil {
		return 0, errInterrupted
	}
	return 0, r.wrong("prodigy hung for %s\n%s", hung, r.output())
}

// runKilled runs prodigy and kills it at a random instant, unless it is done before.
func (r *round) runKilled(ctx context.Context, args ...string) (code int, err error) {
	in := r.pick(args[0])
	seen := look(filepath.Join(r.home(), in.glob))
	p, err := r.start(args...)
	if err != nil {
		return 0, err
	}
	when := r.reach(ctx.Done(), p, in, seen)
	if when == "" {
		return r.end(ctx, p)
	}
	how := targets[r.rng.IntN(len(targets))]
	if r.session {
		how = everything
	}
	r.strike(p, how)
	if p.code() != killed {
		return p.code(), r.sane()
	}
	r.kills++
	r.hits[when]++
	r.snap()
	return killed, nil
}

// target is what a kill takes with it.
type target int

const (
	alone       target = iota // its watcher ends the agents
	withWatcher               // the agents live on until the resume ends them
	everything                // that it has started
)

var targets = []target{alone, withWatcher, everything}

// strike kills prodigy.
func (r *round) strike(p *running, t target) {
	if t == withWatcher {
		_ = p.cmd.Process.Signal(syscall.SIGSTOP) // the instant does not wait for the search
		r.killWatchers()
	}
	_ = p.cmd.Process.Kill()
	if t == everything {
		r.endLeftovers()
	}
	p.waiter.Wait()
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
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+r.home(), "TORTURE_RUN="+strconv.Itoa(r.runs), "PRODIGY_TORTURE_DIR="+r.dir, r.mark)
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
