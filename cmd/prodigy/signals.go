package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/process"
)

// echo is how long after the first signal others are taken for the same request. timeout(1) sends one to the process and one to its
// group, a supervisor SIGHUP behind SIGTERM; nobody asks twice that fast.
const echo = 100 * time.Millisecond

// request is what a signal asks for.
type request int

const (
	nothingNew request = iota
	toStop             // start nothing more, let what runs finish within the grace
	toKill             // end at once what runs
)

// requests tells what each signal asks for: the first to stop, every later one to kill, as SIGQUIT does at once.
type requests struct {
	first *signalError // nil: none came yet
	began time.Time    // when first came
}

func (r *requests) take(s os.Signal, now time.Time) request {
	first := r.first == nil
	if first {
		r.first, r.began = &signalError{s}, now
	}
	switch {
	case s == syscall.SIGQUIT:
		return toKill
	case first:
		return toStop
	case now.Sub(r.began) < echo:
		return nothingNew
	}
	return toKill
}

// listen returns the signals that ask for an end, until it is told to stop listening. From now on a write to a pipe that nobody
// reads is an error and not the end of the process: the job goes on though nobody watches it.
func listen() (signals chan os.Signal, stop func()) {
	// Not ignored: that would be handed down to the commands.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals = make(chan os.Signal, 8)
	signal.Notify(signals, heeded()...)
	return signals, func() { signal.Stop(signals) }
}

// debugVar is the variable with which SIGQUIT is left to Go, which prints the stacks of all goroutines and ends with 2.
const debugVar = "PRODIGY_DEBUG"

// heeded returns the signals that ask for an end. One that was ignored when prodigy was started, as by nohup, stays ignored; Go knows
// that of SIGHUP and SIGINT only.
func heeded() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	if os.Getenv(debugVar) == "" {
		signals = append(signals, syscall.SIGQUIT)
	}
	return signals
}

// notice is a line for people.
type notice struct {
	text  string
	state bool // another one follows, which says where the job stands
}

// relay turns signals into the end of the two contexts until finished is closed, and tells people so. It returns the first
// signal. A notice that nobody takes does not keep it from the next signal.
func relay(signals <-chan os.Signal, finished <-chan struct{}, notices chan<- notice, grace time.Duration, stop, kill context.CancelCauseFunc) *signalError {
	var asked requests
	var untold []notice
	stopBy := func(s os.Signal) {
		stop(asked.first)
		untold = append(untold, notice{text: signalName(s) + ": stopping; waiting up to " + duration.Format(grace) + " for running commands; " + again(s) + " kills them"})
	}
	killBy := func(s os.Signal) {
		stop(asked.first)
		kill(fmt.Errorf("%s: %w", signalName(s), process.ErrKill))
		untold = append(untold, notice{text: signalName(s) + ": killing running commands", state: s == syscall.SIGQUIT})
	}
	for {
		var tell chan<- notice
		var next notice
		if len(untold) > 0 {
			tell, next = notices, untold[0]
		}
		select {
		case <-finished:
			return asked.first
		case tell <- next:
			untold = untold[1:]
		case s := <-signals:
			switch asked.take(s, time.Now()) {
			case toStop:
				stopBy(s)
				for range len(signals) { // they came before anybody could know that the first was heard: the same request
					if s := <-signals; s == syscall.SIGQUIT {
						killBy(s)
					}
				}
			case toKill:
				killBy(s)
			case nothingNew:
			}
		}
	}
}

// again says how a person repeats s.
func again(s os.Signal) string {
	if s == os.Interrupt {
		return "Ctrl-C again"
	}
	return "another signal"
}

// untilSignal runs do, which only reads. A signal ends it without a message; the exit code says which signal.
func untilSignal(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, heeded()...)
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			cancel(&signalError{s})
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	var asked *signalError
	if errors.As(context.Cause(ctx), &asked) {
		return status(asked.exitCode())
	}
	return err
}
