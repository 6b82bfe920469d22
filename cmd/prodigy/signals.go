package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

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

// requests tells what each signal asks for: the first to stop, every later one to kill.
type requests struct {
	first *signalError // nil: none came yet
	began time.Time    // when first came
}

func (r *requests) take(s os.Signal, now time.Time) request {
	switch {
	case r.first == nil:
		r.first, r.began = &signalError{s}, now
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
	signals = make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// relay turns signals into the end of the two contexts until finished is closed, and tells people so. It returns the first
// signal. A notice that nobody takes does not keep it from the next signal.
func relay(signals <-chan os.Signal, finished <-chan struct{}, notices chan<- string, stop, kill context.CancelCauseFunc) *signalError {
	var asked requests
	var untold []string
	for {
		var tell chan<- string
		var next string
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
				stop(asked.first)
				for range len(signals) { // they came before anybody could know that the first was heard: the same request
					<-signals
				}
				untold = append(untold, signalName(s)+": stopping; what runs gets some time to finish (once more kills it)")
			case toKill:
				kill(fmt.Errorf("%s: %w", signalName(s), process.ErrKill))
				untold = append(untold, signalName(s)+": killing what runs")
			case nothingNew:
			}
		}
	}
}

// untilSignal does what only looks on. A signal ends it without a word, and the exit code tells which.
func untilSignal(ctx context.Context, do func(context.Context) error) error {
	interrupted, restore := signal.NotifyContext(ctx, os.Interrupt)
	defer restore()
	terminated, restore := signal.NotifyContext(interrupted, syscall.SIGTERM, syscall.SIGHUP)
	defer restore()
	err := do(terminated)
	switch {
	case ctx.Err() != nil: // no signal has ended it
	case interrupted.Err() != nil:
		return status(exitInterrupted)
	case terminated.Err() != nil:
		return status(exitTerminated)
	}
	return err
}
