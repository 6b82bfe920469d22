package jobs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// filesOf returns how many files and directories there are of jobs below home, those of repos left out.
func filesOf(t *testing.T, home Home) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(home.Root, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(home.Root, "*", "*", ".*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, p := range append(paths, hidden...) {
		all[p] = true
	}
	return len(all)
}

func TestARemovedJobLeavesNothing(t *testing.T) {
	home := Home{Root: t.TempDir()}
	job, err := home.Create("repo", "mapreduce", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Find(job.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if n := filesOf(t, home); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestARemovalThatWasCutShortIsFinished(t *testing.T) {
	home := Home{Root: t.TempDir()}
	kept, err := home.Create("repo", "mapreduce", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	job, err := home.Create("repo", "mapreduce", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, home)
	if err := os.Rename(job.StateDir(), filepath.Join(filepath.Dir(job.StateDir()), removedPrefix+job.ID)); err != nil {
		t.Fatal(err)
	}
	all, err := home.List()
	if err != nil || len(all) != 1 || all[0].ID != kept.ID {
		t.Errorf("got jobs %v %v, want only %s", all, err, kept.ID)
	}
	if err := home.FinishRemovals(); err != nil {
		t.Fatal(err)
	}
	if n := filesOf(t, home); n != before/2 {
		t.Errorf("%d files are left of %d, want half of them", n, before)
	}
	if err := (Home{Root: filepath.Join(home.Root, "none")}).FinishRemovals(); err != nil {
		t.Errorf("without any job: %v", err)
	}
}
