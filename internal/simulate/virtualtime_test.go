package simulate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTimePassesOnlyWhileAllWait(t *testing.T) {
	start := time.Date(2031, 3, 30, 0, 30, 0, 0, time.UTC)
	began := time.Now()
	var at, then time.Time
	failed := errors.New("its error")
	err := inVirtualTime(start, func() error {
		at = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 100*24*time.Hour)
		defer cancel()
		<-ctx.Done()
		then = time.Now()
		return failed
	})
	if !errors.Is(err, failed) || !at.Equal(start) || then.Sub(at) != 100*24*time.Hour {
		t.Errorf("got %v from %v to %v, want 100 days from %v and the error of the function", err, at, then, start)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestWhatGoesWrongInVirtualTimeIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		f    func() error
		want string
		is   error
	}{
		"a panic":              {func() error { panic("no such luck") }, "panic: no such luck\n", nil},
		"a wait without end":   {func() error { <-make(chan int); return nil }, "", errStuck},
		"a goroutine left":     {func() error { go func() { <-make(chan int) }(); return nil }, "", errStuck},
		"an error before that": {func() error { go func() { <-make(chan int) }(); return errors.New("mine") }, "mine", errStuck},
	} {
		t.Run(name, func(t *testing.T) {
			err := inVirtualTime(time.Now(), c.f)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q and %v", err, c.want, c.is)
			}
		})
	}
	if err := inVirtualTime(time.Now(), func() error { return nil }); err != nil {
		t.Errorf("the next one got %v", err)
	}
}
