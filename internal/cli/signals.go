package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/job"
	"prodigy/internal/process"
)

// repeatWindow is how long after the first signal further ones count as the same request. timeout(1) sends one to the
// process and one to its group, and a supervisor SIGHUP after SIGTERM; no person repeats a signal that fast.
const repeatWindow = 100 * time.Millisecond

// request is what a signal asks for.
type request int

// The requests, from the weakest to the strongest.
const (
	nothingNew request = iota
	// toStop starts nothing more, and lets running commands finish within the grace period.
	toStop
	// toKill kills running commands immediately.
	toKill
)

// requests decides what each signal asks for: the first to stop, every later one to kill. SIGQUIT kills at once.
type requests struct {
	// first is nil until a signal came.
	first *signalError
	// began is when first came.
	began time.Time
}

// take decides what a signal asks for. It remembers the first, which is the cause of the stop.
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
	case now.Sub(r.began) < repeatWindow:
		return nothingNew
	}
	return toKill
}

// listen delivers the signals that ask for an end until stop is called. From then on a write to a closed pipe is an
// error and does not end the process: the job continues though nobody reads its output.
func listen() (signals chan os.Signal, stop func()) {
	// Not ignored: that would be handed down to the commands.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals = make(chan os.Signal, 8)
	signal.Notify(signals, stopSignals()...)
	return signals, func() { signal.Stop(signals) }
}

// debugVar is the variable that leaves SIGQUIT to the Go runtime, which prints all stacks and exits with 2.
const debugVar = "PRODIGY_DEBUG"

// stopSignals returns the signals that ask for an end. SIGHUP and SIGINT stay ignored if they were ignored when prodigy
// started, as by nohup; Go cannot detect that for other signals.
func stopSignals() []os.Signal {
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

// stopCommand stands among the signals for a user who has asked for the end of the run with prodigy stop.
type stopCommand struct {
	by string
	// answer gets what is done.
	answer chan string
}

// stoppedBy comes before the name of the user where others have the name of a signal.
const stoppedBy = "prodigy stop by "

// Signal implements os.Signal.
func (s *stopCommand) Signal() {}

// String implements os.Signal.
func (s *stopCommand) String() string { return stoppedBy + s.by }

// reply answers a prodigy stop with what is done. A real signal has nobody to answer.
func reply(s os.Signal, text string) {
	if s, ok := s.(*stopCommand); ok {
		s.answer <- text
	}
}

// sendStop sends relay the request of a user and returns what it does. It may be called until finished is closed, and
// after that.
func sendStop(by string, signals chan<- os.Signal, finished <-chan struct{}) job.Answer {
	s := &stopCommand{by, make(chan string, 1)}
	select {
	case signals <- s:
		select {
		case text := <-s.answer:
			return job.Done("%s", text)
		case <-finished:
		}
	case <-finished:
	}
	return job.Refused("the run has ended")
}

// notice is a line to print.
type notice struct {
	text string
	// state makes the printer add the progress of the job.
	state bool
}

// relay cancels the two contexts on signals and sends notices about it, until finished is closed. It returns the first
// signal. It does not block on a notice that nobody receives.
func relay(signals <-chan os.Signal, finished <-chan struct{}, notices chan<- notice, grace time.Duration, stop,
	kill context.CancelCauseFunc,
) *signalError {
	var asked requests
	var pending []notice
	say := func(s os.Signal, text string) {
		pending = append(pending, notice{text: signalName(s) + ": " + text, state: s == syscall.SIGQUIT})
		reply(s, text)
	}
	stopBy := func(s os.Signal) {
		stop(asked.first)
		say(s, "stopping; waiting up to "+duration.Format(grace)+" for running commands; "+repeatHint(s)+" kills them")
	}
	killBy := func(s os.Signal) {
		stop(asked.first)
		kill(fmt.Errorf("%s: %w", signalName(s), process.ErrKill))
		say(s, "killing running commands")
	}
	for {
		var out chan<- notice
		var next notice
		if len(pending) > 0 {
			out, next = notices, pending[0]
		}
		select {
		case <-finished:
			return asked.first
		case out <- next:
			pending = pending[1:]
		case s := <-signals:
			switch asked.take(s, time.Now()) {
			case toStop:
				stopBy(s)
				for range len(signals) { // sent before the first was acknowledged: the same request
					s := <-signals
					if s == syscall.SIGQUIT {
						killBy(s)
					}
					reply(s, alreadyStopping)
				}
			case toKill:
				killBy(s)
			case nothingNew:
				reply(s, alreadyStopping)
			}
		}
	}
}

// alreadyStopping answers a request that counts as the one before it.
const alreadyStopping = "already stopping"

// repeatHint says how a person repeats s.
func repeatHint(s os.Signal) string {
	if _, asked := s.(*stopCommand); asked {
		return "another prodigy stop"
	}
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
	signal.Notify(signals, stopSignals()...)
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			cancel(&signalError{s})
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	if asked, ok := errors.AsType[*signalError](context.Cause(ctx)); ok {
		return status(asked.exitCode())
	}
	return err
}
