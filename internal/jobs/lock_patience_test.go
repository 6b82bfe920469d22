package jobs

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// A process that was kept waiting until its patience is over still takes a lock that nobody has, and none that somebody has.
func TestAFreeLockIsTakenHoweverBusyTheMachineIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := flock.New(path)
	if err := tryLock(first, 0); err != nil {
		t.Fatalf("got %v, want the lock", err)
	}
	if err := tryLock(flock.New(path), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it is held", err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
}
