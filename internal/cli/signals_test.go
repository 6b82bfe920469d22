package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/process"
)

// arrival is a signal and when it comes.
type arrival struct {
	after  time.Duration // the first
	signal os.Signal
}

func TestSignalsThatComeTogetherAreOneRequest(t *testing.T) {
	tests := []struct {
		name  string
		come  []arrival
		first os.Signal
		want  []request
	}{
		{"one", []arrival{{0, os.Interrupt}}, os.Interrupt, []request{toStop}},
		{
			"timeout(1): to the process and to its group",
			[]arrival{{0, syscall.SIGTERM}, {20 * time.Microsecond, syscall.SIGTERM}},
			syscall.SIGTERM,
			[]request{toStop, nothingNew},
		},
		{
			"a supervisor: SIGHUP behind SIGTERM",
			[]arrival{{0, syscall.SIGTERM}, {time.Millisecond, syscall.SIGHUP}},
			syscall.SIGTERM,
			[]request{toStop, nothingNew},
		},
		{
			"Ctrl-C twice by hand",
			[]arrival{{0, os.Interrupt}, {150 * time.Millisecond, os.Interrupt}},
			os.Interrupt,
			[]request{toStop, toKill},
		},
		{
			"Ctrl-C held down", // the repeatWindow is counted from the first, so it cannot be drawn out
			[]arrival{{0, os.Interrupt}, {90 * time.Millisecond, os.Interrupt}, {120 * time.Millisecond, os.Interrupt}},
			os.Interrupt,
			[]request{toStop, nothingNew, toKill},
		},
		{
			"SIGQUIT",
			[]arrival{{0, syscall.SIGQUIT}, {1, syscall.SIGQUIT}},
			syscall.SIGQUIT,
			[]request{toKill, toKill},
		},
		{
			"SIGQUIT right behind another",
			[]arrival{{0, syscall.SIGTERM}, {time.Millisecond, syscall.SIGQUIT}},
			syscall.SIGTERM,
			[]request{toStop, toKill},
		},
		{
			"at the limit",
			[]arrival{{0, syscall.SIGTERM}, {repeatWindow - 1, syscall.SIGTERM}, {repeatWindow, syscall.SIGTERM}, {repeatWindow + 1, syscall.SIGTERM}},
			syscall.SIGTERM,
			[]request{toStop, nothingNew, toKill, toKill},
		},
	}
	began := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var asked requests
			var got []request
			for _, a := range test.come {
				got = append(got, asked.take(a.signal, began.Add(a.after)))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if asked.first.signal != test.first {
				t.Errorf("first signal: got %v, want %v", asked.first.signal, test.first)
			}
		})
	}
}

// Nobody takes the notices: a terminal that was stopped must not keep the second Ctrl-C from working.
func TestTheSecondSignalKillsThoughNobodyReadsTheNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancelStop := context.WithCancelCause(t.Context())
		kill, cancelKill := context.WithCancelCause(t.Context())
		signals, finished := make(chan os.Signal, 2), make(chan struct{})
		returned := make(chan *signalError)
		go func() { returned <- relay(signals, finished, make(chan notice), defaultGrace, cancelStop, cancelKill) }()

		for range 2 { // at once: one request
			signals <- syscall.SIGTERM
		}
		synctest.Wait()
		if stop.Err() == nil || kill.Err() != nil {
			t.Fatalf("after two at once: got stop %v and kill %v, want a stop only", stop.Err(), kill.Err())
		}
		time.Sleep(time.Second)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if !errors.Is(context.Cause(kill), process.ErrKill) {
			t.Errorf("after a third: got %v, want %v", context.Cause(kill), process.ErrKill)
		}
		close(finished)
		if got := (<-returned).exitCode(); got != exitTerminated {
			t.Errorf("exit code: got %d, want %d", got, exitTerminated)
		}
	})
}

// SIGQUIT is never the same request as what came before it, even when both are heard at once.
func TestSIGQUITThatCameWithAnotherKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancelStop := context.WithCancelCause(t.Context())
		kill, cancelKill := context.WithCancelCause(t.Context())
		signals, finished := make(chan os.Signal, 3), make(chan struct{})
		signals <- syscall.SIGTERM
		signals <- syscall.SIGHUP
		signals <- syscall.SIGQUIT
		returned := make(chan *signalError)
		go func() { returned <- relay(signals, finished, make(chan notice), defaultGrace, cancelStop, cancelKill) }()
		synctest.Wait()
		if stop.Err() == nil || !errors.Is(context.Cause(kill), process.ErrKill) {
			t.Errorf("got stop %v and kill %v, want both", context.Cause(stop), context.Cause(kill))
		}
		close(finished)
		if got := <-returned; got == nil {
			t.Error("got no signal, want that which ended the run")
		}
	})
}

// On a machine that is busy with other things it may take long until the first signal has been dealt with.
func TestSignalsThatCameTogetherAreOneRequestHoweverLateTheyAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kill, cancelKill := context.WithCancelCause(t.Context())
		signals, finished := make(chan os.Signal, 2), make(chan struct{})
		signals <- syscall.SIGTERM
		signals <- syscall.SIGHUP
		slowly := func(error) { time.Sleep(time.Second) }
		returned := make(chan *signalError)
		go func() { returned <- relay(signals, finished, make(chan notice), defaultGrace, slowly, cancelKill) }()
		time.Sleep(time.Minute)
		if kill.Err() != nil {
			t.Errorf("got %v, want a stop only", context.Cause(kill))
		}
		close(finished)
		if got := <-returned; got == nil {
			t.Error("got no signal, want SIGTERM")
		}
	})
}
