// Package process runs one command in a process group of its own and leaves nothing of it behind.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrKill as the cause of a context asks for an end without grace.
var ErrKill = errors.New("killed")

// What Exit.Start wraps when the command, or where it is to run, is to blame.
var (
	ErrNotFound      = errors.New("command not found")
	ErrNotExecutable = errors.New("not executable")
	ErrTooLarge      = errors.New("the arguments and the environment are too large")
	ErrDir           = errors.New("working directory")
)

// Resolve returns path as a process whose working directory is dir sees it: joined to dir unless it is absolute.
func Resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Command is what to run.
type Command struct {
	Path  string // of the program; if it is empty, Argv[0] is looked up
	Argv  []string
	Dir   string
	Env   []string // the whole environment, "K=V"; of two with one name the later holds
	Stdin *os.File // nil: Input
	Input string   // what it reads from its standard input, which is /dev/null without it
	// nil: thrown away. A file is the command's own; else written to by one goroutine, never after Run has
	// returned
	Stdout  io.Writer
	Stderr  io.Writer      // the same. When it is Stdout, both are one pipe
	Timeout time.Duration  // 0: none
	Grace   time.Duration  // between SIGTERM and SIGKILL to the group, at a stop
	Cleanup *time.Duration // the same at Timeout and Expiry, where only ErrKill cuts it short; nil means Grace

	Expiry context.Context // the command is ended as at Timeout when it ends; nil means never

	Register *Register // nil: the group is not recorded

	OOM *OOMKills // reports whether it was killed for lack of memory; nil if that is not looked for

	// EndAll ends every process that the command has started with it, however it ends, also those that have
	// left the group. They are found by a mark in their environment, so a process that drops it lives on. This
	// looks at all processes of the machine.
	EndAll bool

	mark string // of this command, with EndAll
}

// Exit is how a command ended.
type Exit struct {
	Code     int    // -1 when it did not exit by itself
	Signal   string // "SIGKILL", ...; empty when it exited
	Number   int    // of Signal
	Core     bool   // Signal made it dump core
	TimedOut bool   // Timeout ended it
	Expired  bool   // Expiry ended it
	// it was killed by somebody else, and the kernel has killed a process for lack of memory while it ran
	OOM      bool
	Start    error // it could not be started; all else is zero
	Duration time.Duration
}

// Run runs the command and returns when it has ended, nothing of its group is left, and its output has been
// written. A command that fails is not an error; what prodigy could not do is: there was a shortage (see Short), or
// no place for Input. When ctx ends first, the group gets SIGTERM and after Grace SIGKILL, and the error is
// context.Cause(ctx), unless the command had succeeded all the same. A ctx whose cause is (or wraps) ErrKill
// gets SIGKILL at once.
//
// A leader that gets SIGTERM may end before its children, as sh does. They have the grace too, as long as they
// hold the output. A process that left the group with setsid lives on, unless EndAll is set, but what it writes
// from then on is not waited for.
func Run(ctx context.Context, c Command) (Exit, error) { return run(ctx, c, startChild) }

func run(ctx context.Context, c Command, start func(Command) (child, error)) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{Code: -1}, context.Cause(ctx)
	}
	began := time.Now()
	if c.Stdin == nil && c.Input != "" {
		input, end, err := inputFile(c.Input)
		if err != nil {
			return Exit{Code: -1}, err
		}
		defer end()
		c.Stdin = input
	}
	if c.EndAll {
		c.mark = newMark(c.Register)
	}
	killed, counts := c.OOM.count()
	c.Register.guard()
	kid, err := start(c)
	if Short(err) {
		return Exit{Code: -1}, err
	}
	if err != nil {
		return Exit{Start: err}, nil
	}
	line := c.Register.Begin(kid.group().id)
	cleanup := c.Grace
	if c.Cleanup != nil {
		cleanup = *c.Cleanup
	}
	k := &killer{
		group: kid.group(), marked: newMarked(c.mark, kid.group()), grace: c.Grace, cleanup: cleanup,
		expire: kid.expire,
	}
	release := k.watch(ctx, c.Timeout, c.Expiry)
	kid.drainUntilEnd()
	if k.hasEnded() {
		kid.drainRest()
		if k.marked != nil {
			_ = k.marked.wait(k.marked.over, func(group) {})
		}
	}
	release()
	c.Register.End(line)
	end, written, err := kid.reap()

	exit := k.withTimeout(end)
	exit.Duration = time.Since(began)
	killedHard := exit.Signal == "SIGKILL" || exit.Code == 128+9 // which the shell says of a program
	if counts && killedHard && !exit.TimedOut && !exit.Expired && ctx.Err() == nil {
		now, ok := c.OOM.count()
		exit.OOM = ok && now > killed
	}
	if ctx.Err() != nil && exit.Code != 0 {
		return exit, context.Cause(ctx)
	}
	if err != nil {
		return exit, fmt.Errorf("wait for %s: %w", c.Argv[0], err)
	}
	return exit, written
}

func (c Command) command() *exec.Cmd {
	cmd := &exec.Cmd{Path: c.Path, Args: c.Argv}
	if c.Path == "" {
		cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	}
	cmd.Dir, cmd.Env = c.Dir, c.environ()
	return cmd
}

// environ returns the environment of the command, in which each name is once.
func (c Command) environ() []string {
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	var own []string // by which commands are recognized
	if c.Register != nil {
		own = append(own, markVar+"="+c.Register.mark)
	}
	if c.mark != "" {
		own = append(own, marksWith(c.mark, env))
	}
	seen := make(map[string]struct{}, len(env)+len(own))
	kept := make([]string, len(env)+len(own))
	first := len(kept)
	for _, list := range [][]string{own, env} {
		for _, kv := range slices.Backward(list) {
			name, _, ok := strings.Cut(kv, "=")
			if _, later := seen[name]; ok && later {
				continue
			}
			seen[name] = struct{}{}
			first--
			kept[first] = kv
		}
	}
	return kept[first:]
}

// startError returns why c could not be started. A missing working directory looks like a missing program, and
// one that may not be entered like a program that may not be run, so the directory is checked first.
func startError(c Command, err error) error {
	if Short(err) {
		return fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	if c.Dir != "" {
		if missing := CheckDir(c.Dir); missing != nil {
			return fmt.Errorf("%w: %w", ErrDir, missing)
		}
	}
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNotFound, c.Argv[0])
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, exec.ErrDot):
		return fmt.Errorf("%w: %s", ErrNotExecutable, c.Argv[0])
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%w for %s", ErrTooLarge, c.Argv[0])
	}
	return fmt.Errorf("start %s: %w", c.Argv[0], err)
}

// killer ends a group at a stop or when its time is up.
type killer struct {
	group   group
	marked  *hunt
	grace   time.Duration // at a stop
	cleanup time.Duration // when the time is up
	expire  func()        // ends the readers of the output

	mu       sync.Mutex
	gone     bool // the id of the group may no longer be signalled
	ending   bool // the group was sent a signal
	timedOut bool
	expired  bool
	limit    *time.Timer // to the timeout
	last     *time.Timer // from SIGTERM to SIGKILL
}

// watch watches ctx, the timeout and the expiry until release is called, which also kills what is left of the group.
func (k *killer) watch(ctx context.Context, timeout time.Duration, expiry context.Context) (release func()) {
	if timeout > 0 {
		k.mu.Lock()
		k.limit = time.AfterFunc(timeout, func() { k.onTimeUp(&k.timedOut) })
		k.mu.Unlock()
	}
	unhookExpiry := func() bool { return true }
	if expiry != nil {
		unhookExpiry = context.AfterFunc(expiry, func() { k.onTimeUp(&k.expired) })
	}
	unhook := context.AfterFunc(ctx, func() { k.onStop(context.Cause(ctx)) })
	return func() {
		unhook()
		unhookExpiry()
		k.reap()
		_, _ = k.marked.end()
	}
}

// onTimeUp ends the group, and notes why unless it is being ended already.
func (k *killer) onTimeUp(why *bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return
	}
	*why = !k.expired && !k.timedOut
	k.end(k.cleanup)
}

func (k *killer) onStop(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return
	}
	if errors.Is(cause, ErrKill) {
		k.ending = true
		k.kill()
		return
	}
	k.end(k.grace)
}

// end sends the group SIGTERM, and SIGKILL after the grace.
func (k *killer) end(grace time.Duration) {
	if k.ending {
		return
	}
	k.ending = true
	if grace <= 0 {
		k.kill()
		return
	}
	k.group.terminate()
	_, _ = k.marked.send(group.terminate)
	k.last = time.AfterFunc(grace, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.gone {
			k.kill()
		}
	})
}

// kill kills the group. Whoever still holds the output after that has left the group.
func (k *killer) kill() {
	k.group.kill()
	k.marked.kill()
	k.expire()
}

// hasEnded reports whether the group was sent a signal to end.
func (k *killer) hasEnded() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ending
}

// reap kills what the leader left behind.
func (k *killer) reap() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone = true
	for _, t := range []*time.Timer{k.limit, k.last} {
		if t != nil {
			t.Stop()
		}
	}
	k.group.kill()
	k.group.close()
}

// withTimeout returns end, marked as timed out or expired if that ended the command.
func (k *killer) withTimeout(end Exit) Exit {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timedOut || k.expired {
		end.Code, end.TimedOut, end.Expired = -1, k.timedOut, k.expired
	}
	return end
}
