// Package try has what the tools share. They end at the first error, as a test does with t.Fatal: Check, To and
// Failf end what Catch runs. All of them must be called by the goroutine of Catch.
package try

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
)

// failure is what Check panics with.
type failure struct{ error }

// Check ends what Catch runs if err is not nil.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// To returns v, unless there is an error to Check.
func To[V any](v V, err error) V {
	Check(err)
	return v
}

// To2 is To for two values.
func To2[V, W any](v V, w W, err error) (V, W) {
	Check(err)
	return v, w
}

// Checkf is Check with what was being done before the error.
func Checkf(err error, format string, args ...any) {
	if err != nil {
		Failf(format+": %w", append(args, err)...)
	}
}

// Run runs a command and returns what it has printed, which is in the error too.
func Run(cmd *exec.Cmd) string {
	out, err := cmd.CombinedOutput()
	if err != nil {
		Failf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Write writes a file, and makes its directory.
func Write(path, text string) {
	Check(os.MkdirAll(filepath.Dir(path), 0o777))
	Check(os.WriteFile(path, []byte(text), 0o644))
}

// Fill fills a template. Its actions stand between <% and %>, since what is made of it may have templates of its own.
func Fill(text string, data any) string {
	var b strings.Builder
	t := To(template.New("").Delims("<%", "%>").Option("missingkey=error").Parse(text))
	Check(t.Execute(&b, data))
	return b.String()
}

// Failf ends what Catch runs with an error.
func Failf(format string, args ...any) { Check(fmt.Errorf(format, args...)) }

// FailIf is Failf if something is so.
func FailIf(is bool, format string, args ...any) {
	if is {
		Failf(format, args...)
	}
}

// CheckIf is Check if something is so.
func CheckIf(is bool, err error) {
	if is {
		Check(err)
	}
}

// Catch calls do, and returns the error that has ended it, if one has.
func Catch(do func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.error
		}
	}()
	do()
	return nil
}

// In calls do. The error that ends it says where it was.
func In(what string, do func()) { Checkf(Catch(do), "%s", what) }

// Git runs a git command, which trusts nothing of prodigy, and returns what it has printed.
func Git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s in %s: %w: %s", strings.Join(args, " "), dir, err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// Process is a process that was started.
type Process struct {
	*exec.Cmd
	Done chan struct{} // closed when it has ended
}

// Start starts a process.
func Start(cmd *exec.Cmd) *Process {
	Check(cmd.Start())
	p := &Process{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its state tells how it ended
		close(p.Done)
	}()
	return p
}

// Ended reports whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Signal sends a signal, which is lost if the process has ended.
func (p *Process) Signal(s os.Signal) { _ = p.Cmd.Process.Signal(s) }

// Seeded parses the flags of a tool that has defined its own, adds -seed for what is random in it, and calls play with a context
// that ends at SIGINT and SIGTERM.
func Seeded(seed *uint64, random string, play func(context.Context)) {
	flag.Uint64Var(seed, "seed", 0, "seed of "+random+"; 0: a random one")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64() >> 32
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	play(ctx)
}
