package process

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
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
					listen(r, func() { silent++ })
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
