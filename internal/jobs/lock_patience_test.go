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
	if locked, err := tryLock(first, 0); !locked || err != nil {
		t.Fatalf("got %t, %v, want the lock", locked, err)
	}
	if locked, err := tryLock(flock.New(path), 0); locked || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %t, %v, want that it is held", locked, err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
}
