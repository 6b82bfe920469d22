package events

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a file whose first sync takes until it is let go.
type slow struct {
	memory
	once sync.Once
	gate chan error
}

func (s *slow) Sync() error {
	var err error
	s.once.Do(func() { err = <-s.gate })
	if err != nil {
		return err
	}
	return s.memory.Sync()
}

// A killed prodigy loses what was not written: so a disk that takes its time must not hold up the writing.
func TestWritingGoesOnDuringASync(t *testing.T) {
	for _, d := range []Durability{Batch, Strict} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{gate: make(chan error)}
			shown := 0
			l := start(output{file: s}, "j", 0, Options{Durability: d, Durable: func(r []Record, _ Position) error { shown += len(r); return nil }})
			l.Append(start0, PhaseStarted{Phase: "map"})
			time.AfterFunc(2*syncEvery, func() { l.Append(start0, PhaseStarted{Phase: "reduce"}) })
			<-time.After(3 * syncEvery)
			synctest.Wait()
			if written, _ := s.lines(); written != 2 || shown != 0 {
				t.Errorf("%s: got %d lines written and %d shown during the sync, want 2 and 0", d, written, shown)
			}
			s.gate <- nil
			if err := l.Wait(2); err != nil || shown != 2 {
				t.Errorf("%s: got %v and %d shown, want 2 shown", d, err, shown)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
