package jobs

import (
	"context"
	"errors"
	"testing"
)

func TestOnlyOneCallerIsExclusive(t *testing.T) {
	home := Home{Root: t.TempDir()}
	told := func(Job) { t.Error("no job is running") }
	over, cancel := context.WithCancel(t.Context())
	cancel()
	unlock, err := home.Exclusive(over, "/w.yml", "/a", told)
	if err != nil {
		t.Fatalf("nobody is before: %v", err)
	}
	if _, err := home.Exclusive(over, "/w.yml", "/a", told); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v while another is", err)
	}
	if _, err := home.Exclusive(over, "/w.yml", "/b", told); err != nil {
		t.Errorf("in another directory: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Exclusive(over, "/w.yml", "/a", told); err != nil {
		t.Errorf("got %v after the other has ended", err)
	}
}
