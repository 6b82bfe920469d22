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

// errIrregular tells that a file is none that a command may be given in place of its shell.
var errIrregular = errors.New("not a regular file")

// Resolve returns path as a process whose working directory is dir sees it: joined to dir unless it is absolute.
func Resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Command is what to run.
type Command struct {
	Path    string // of the program, for who has looked it up; empty: it is looked up as Argv[0]
	Argv    []string
	Dir     string
	Env     []string       // the whole environment, "K=V"; of two with one name the later holds
	Stdin   *os.File       // nil: Input
	Input   string         // what it reads from its standard input; empty: /dev/null
	Stdout  io.Writer      // nil: thrown away. A file is the command's own; else written to by one goroutine, never after Run has returned
	Stderr  io.Writer      // the same. When it is Stdout, both are one pipe
	Timeout time.Duration  // 0: none
	Grace   time.Duration  // between SIGTERM and SIGKILL to the group, at a stop
	Cleanup *time.Duration // the same at Timeout, where only ErrKill cuts it short; nil: Grace

	Register *Register // nil: the group is not recorded

	// EndAll says that every process which the command has started ends with it, also one that has left the group: those in the group are
	// ended as always, the others together with them, however the command ends. They are known by a mark in their environment, so who
	// hides that from us lives on. It costs a look at all processes of the machine.
	EndAll bool

	mark string // of this command, with EndAll
}

// Exit tells how a command ended.
type Exit struct {
	Code     int    // -1 when it did not exit by itself
	Signal   string // "SIGKILL", ...; empty when it exited
	Number   int    // of Signal
	Core     bool   // Signal made it leave a picture of its memory
	TimedOut bool   // Timeout ended it
	Start    error  // it could not be started; all else is zero
	Duration time.Duration
}

// Run runs the command and returns when it has ended, nothing of its group is left, and its output has been written. A command
// that fails is no error; what prodigy could not do is: there was a shortage (see Short), or no place for Input. When ctx ends first,
// the group gets SIGTERM and after Grace SIGKILL, and the error is context.Cause(ctx), unless the command had succeeded all the same.
// A ctx whose cause is (or wraps) ErrKill gets SIGKILL at once.
//
// A leader that has been told to end may do so before its children, as sh does. They have the grace too, as long as they hold the
// output. A process that left the group with setsid lives on, unless EndAll is set, but what it writes from then on is not waited for.
func Run(ctx context.Context, c Command) (Exit, error) { return run(ctx, c, startChild) }

func run(ctx context.Context, c Command, start func(Command) (child, error)) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{Code: -1}, context.Cause(ctx)
	}
	began := time.Now()
	if c.Stdin == nil && c.Input != "" {
		input, err := inputFile(c.Input)
		if err != nil {
			return Exit{Code: -1}, err
		}
		defer input.close()
		c.Stdin = input.file
	}
	if c.EndAll {
		c.mark = newMark(c.Register)
	}
	c.Register.guard()
	kid, err := start(c)
	if Short(err) {
		return Exit{Code: -1}, err
	}
	if err != nil {
		return Exit{Start: err}, nil
	}
	line := c.Register.Begin(kid.group().id)
	w := &warden{
		group: kid.group(), marked: newMarked(c.mark, kid.group()), grace: c.Grace, cleanup: c.cleanup(), expire: kid.expire,
	}
	release := w.watch(ctx, c.Timeout)
	kid.follow()
	if w.ended() {
		kid.linger()
		w.marked.linger()
	}
	release()
	c.Register.End(line)
	end, written, err := kid.reap()

	exit := w.judge(end)
	exit.Duration = time.Since(began)
	if ctx.Err() != nil && exit.Code != 0 {
		return exit, context.Cause(ctx)
	}
	if err != nil {
		return exit, fmt.Errorf("wait for %s: %w", c.Argv[0], err)
	}
	return exit, written
}

func (c Command) cleanup() time.Duration {
	if c.Cleanup == nil {
		return c.Grace
	}
	return *c.Cleanup
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
	own := c.Register.variables()
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

// startError says why c could not be started. To exec a missing working directory looks like a missing program, and one that may
// not be entered like a program that may not be run, so the directory is asked for first.
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

// warden ends a group when its time is up.
type warden struct {
	group   group
	marked  *marked
	grace   time.Duration // at a stop
	cleanup time.Duration // when the time is up
	expire  func()        // ends the readers of the output

	mu       sync.Mutex
	gone     bool // the id of the group may no longer be signalled
	ending   bool // the group has been told to end
	timedOut bool
	limit    *time.Timer // to the timeout
	last     *time.Timer // from SIGTERM to SIGKILL
}

// watch guards the group until the returned function is called, which also kills what is left of it.
func (w *warden) watch(ctx context.Context, timeout time.Duration) (release func()) {
	if timeout > 0 {
		w.mu.Lock()
		w.limit = time.AfterFunc(timeout, w.timeout)
		w.mu.Unlock()
	}
	unhook := context.AfterFunc(ctx, func() { w.stop(context.Cause(ctx)) })
	return func() {
		unhook()
		w.leave()
		w.marked.end()
	}
}

func (w *warden) timeout() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return
	}
	w.timedOut = true
	w.end(w.cleanup)
}

func (w *warden) stop(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return
	}
	if errors.Is(cause, ErrKill) {
		w.ending = true
		w.strike()
		return
	}
	w.end(w.grace)
}

// end asks the group to end and sees to it that it does.
func (w *warden) end(grace time.Duration) {
	if w.ending {
		return
	}
	w.ending = true
	if grace <= 0 {
		w.strike()
		return
	}
	w.group.terminate()
	w.marked.send(group.terminate)
	w.last = time.AfterFunc(grace, w.kill)
}

func (w *warden) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.gone {
		w.strike()
	}
}

// strike kills the group. Whoever still holds the output after that has left the group.
func (w *warden) strike() {
	w.group.kill()
	w.marked.strike()
	w.expire()
}

// ended tells whether the group was told to end.
func (w *warden) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending
}

// leave kills what the leader left behind.
func (w *warden) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, t := range []*time.Timer{w.limit, w.last} {
		if t != nil {
			t.Stop()
		}
	}
	w.group.kill()
	w.group.close()
}

// judge says whether it was the timeout that ended the command.
func (w *warden) judge(end Exit) Exit {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timedOut {
		end.Code, end.TimedOut = -1, true
	}
	return end
}
