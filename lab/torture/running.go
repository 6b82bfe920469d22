//go:build unix

package torture

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"prodigy/lab/try"
)

// killed is what runKilled returns of a prodigy that it killed.
const killed = -9

// run runs prodigy in a session of its own, and returns its exit code. While kills are left it is killed on the way.
func (r *round) run(ctx context.Context, kills int, args ...string) (code int) {
	if kills > 0 {
		return r.runKilled(ctx, args...)
	}
	return r.end(ctx, r.start(args...))
}

// end waits for the end of a run.
func (r *round) end(ctx context.Context, p *try.Process) (code int) {
	if endsWithin(p, ctx.Done(), hung) && ctx.Err() == nil {
		r.wantSane()
		return codeOf(p)
	}
	r.strike(p, everything)
	try.CheckIf(ctx.Err() != nil, errInterrupted)
	r.fail("prodigy hung for %s\n%s", hung, r.output())
	return 0
}

// runKilled runs prodigy and kills it at a random instant, unless it is done before.
func (r *round) runKilled(ctx context.Context, args ...string) (code int) {
	in := r.pick(args[0])
	seen := look(filepath.Join(r.home(), in.glob))
	p := r.start(args...)
	when := r.reach(ctx.Done(), p, in, seen)
	if when == "" {
		return r.end(ctx, p)
	}
	how := targets[r.rng.IntN(len(targets))]
	if r.session {
		how = everything
	}
	r.strike(p, how)
	if codeOf(p) != killed {
		r.wantSane()
		return codeOf(p)
	}
	r.kills++
	r.hits[when]++
	r.snap()
	return killed
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
func (r *round) strike(p *try.Process, t target) {
	if t == withWatcher {
		p.Signal(syscall.SIGSTOP) // the instant does not wait for the search
		r.killWatchers()
	}
	p.Signal(syscall.SIGKILL)
	if t == everything {
		r.endLeftovers()
	}
	<-p.Done
}

// codeOf waits for the end of a process, and returns its exit code, or the negative number of the signal that has ended it.
func codeOf(p *try.Process) int {
	<-p.Done
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return p.ProcessState.ExitCode()
}

// start starts prodigy; what it prints goes to a file.
func (r *round) start(args ...string) *try.Process {
	r.runs++
	out := try.To(os.Create(r.outputFile(r.runs)))
	cmd := r.command(args...)
	cmd.Stdout, cmd.Stderr = out, out
	defer func() { _ = out.Close() }()
	return try.Start(cmd)
}

func (r *round) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.prodigy, args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+r.home(), "TORTURE_RUN="+strconv.Itoa(r.runs), "PRODIGY_TORTURE_DIR="+r.dir, r.mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: r.user}
	return cmd
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

// wantSane looks at what the last run printed for the traces of a crash of its own.
func (r *round) wantSane() {
	data := try.To(os.ReadFile(r.outputFile(r.runs)))
	for _, trace := range []string{"panic: ", "goroutine ", "BUG: "} {
		r.failIf(strings.Contains(string(data), trace), "prodigy crashed by itself:\n%s", r.output())
	}
}

// leftovers returns the living processes with the mark of the round in their environment. Only Linux tells.
func (r *round) leftovers() []int {
	var found []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(data, []byte(r.mark+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// endLeftovers kills them all, also those that are just being started by another.
func (r *round) endLeftovers() {
	for pids := r.leftovers(); len(pids) > 0; pids = r.leftovers() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// watchers returns those of the leftovers that prodigy has started to look after its agents.
func (r *round) watchers() (found []int) {
	for _, pid := range r.leftovers() {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && bytes.Contains(line, []byte("\x00end-leftovers\x00")) {
			found = append(found, pid)
		}
	}
	return found
}

// killWatchers kills them, if they are there yet.
func (r *round) killWatchers() {
	for _, pid := range r.watchers() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// lingering is how long what is to be gone may be there on the slowest machine. An agent that hangs does so for longer.
const lingering = time.Minute

// wantNoneAlive waits for the end of all leftovers.
func (r *round) wantNoneAlive() {
	if pids := r.alive(); len(pids) > 0 {
		r.fail("processes are still alive: %v", pids)
	}
}

// alive waits for the end of all leftovers, and returns those that do not come to it.
func (r *round) alive() []int {
	for end := time.Now().Add(lingering); ; time.Sleep(25 * time.Millisecond) {
		if pids := r.leftovers(); len(pids) == 0 || time.Now().After(end) {
			return pids
		}
	}
}
