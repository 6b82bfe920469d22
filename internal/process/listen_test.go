package process

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/testenv"
)

// A beat that was written in time is heard also by a watcher that gets no processor until its time is over.
func TestABeatThatIsReadLateCounts(t *testing.T) {
	for name, c := range map[string]struct {
		pause  time.Duration // between two beats of a second each
		silent int
	}{"in the same moment": {time.Second, 0}, "a little late": {time.Second + unreadFor/2, 0}, "too late": {time.Second + 2*unreadFor, 20}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				silent := 0
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					listen(r, time.Now, func() { silent++ })
				}()
				for range 20 {
					if _, err := fmt.Fprintln(w, time.Second); err != nil {
						t.Error(err)
					}
					time.Sleep(c.pause)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				<-ended
				if silent != c.silent {
					t.Errorf("it was taken for silent %d times, want %d", silent, c.silent)
				}
			})
		})
	}
}

// The time of a beat is over also when the machine was suspended meanwhile, and not later when the clock was set back.
func TestABeatIsOverAfterTheMachineWasSuspended(t *testing.T) {
	const beat, after = time.Minute, 10 * time.Second
	clocks := time.Now() // there is only one in the bubbles
	for name, c := range map[string]struct {
		suspended, least, most time.Duration
	}{
		"it was not suspended":       {0, beat, beat + unreadFor},
		"for longer than that":       {2 * beat, after, after + lookEvery + unreadFor},
		"for a part of that":         {20 * time.Second, 40 * time.Second, 40*time.Second + lookEvery + unreadFor},
		"its clock was set back":     {-2 * beat, beat, beat + unreadFor},
		"its clock was set to later": {time.Second, beat - time.Second, beat + unreadFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				began := time.Now()
				now := func() time.Time {
					passed := time.Since(began)
					if passed < after {
						return clocks.Add(passed)
					}
					return testenv.Suspended(clocks.Add(passed), c.suspended)
				}
				silent := make(chan time.Duration)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					listen(r, now, func() { silent <- time.Since(began) })
				}()
				if _, err := fmt.Fprintln(w, beat); err != nil {
					t.Error(err)
				}
				if got := <-silent; got < c.least || got > c.most {
					t.Errorf("it was taken for silent after %s, want %s to %s", got, c.least, c.most)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				<-ended
			})
		})
	}
}
