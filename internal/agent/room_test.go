package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// crowded returns a runner that has room for so many commands at once, each of which takes a second.
func crowded(most int, shortage error) Runner {
	var mu sync.Mutex
	running := 0
	return func(ctx context.Context, c process.Command) (process.Exit, error) {
		mu.Lock()
		if running >= most {
			mu.Unlock()
			return process.Exit{Code: -1}, fmt.Errorf("start %s: %w", c.Argv[0], shortage)
		}
		running++
		mu.Unlock()
		err := duration.Sleep(ctx, time.Second)
		mu.Lock()
		running--
		mu.Unlock()
		return process.Exit{}, err
	}
}

// forEach runs a command for so many elements, all at once.
func forEach(n int) workflow.Step {
	f := &workflow.Foreach{Parallel: n, Do: []workflow.Step{shellStep("work ${item}")}}
	for i := range n {
		f.Input.List = append(f.Input.List, workflow.Element{JSON: fmt.Append(nil, i)})
	}
	return workflow.Step{Foreach: f}
}

func TestFewerCommandsRunAtOnceWhenThereIsAShortage(t *testing.T) {
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		for _, most := range []int{1, 3, 29} {
			synctest.Test(t, func(t *testing.T) {
				var bounds []int
				x := New(Config{Run: crowded(most, shortage)}, &fakeHost{lowered: func(n int, why error) {
					if !errors.Is(why, shortage) {
						t.Errorf("got %v, want %v", why, shortage)
					}
					bounds = append(bounds, n)
				}})
				same(t, "failure", execute(t, x, ofItem(forEach(30))).Failure, (*Failure)(nil))
				if len(bounds) == 0 || len(bounds) > 5 || bounds[len(bounds)-1] > most {
					t.Errorf("room for %d: got bounds %v, want few, and the last one to fit", most, bounds)
				}
			})
		}
	}
}

func TestNoMoreCommandsRunAtOnceThanTheExecutorMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Config{Run: crowded(4, errors.New("too many at once")), MaxCommands: 4}, new(noJob))
		same(t, "failure", execute(t, x, ofItem(forEach(30))).Failure, (*Failure)(nil))
	})
}

// What no step is to blame for is retried by no policy, forgiven by none and counted by no breaker.
func TestAShortageThatStaysIsNoFailureOfAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Config{Run: crowded(0, syscall.EAGAIN)}, new(noJob))
		forgiven := retried(linear(3))
		forgiven.AllowFailure = true
		for _, st := range []workflow.Step{forgiven, forEach(30), guarded(2, 1, time.Second)} {
			if _, err := x.Execute(t.Context(), ofItem(st)); !errors.Is(err, syscall.EAGAIN) {
				t.Errorf("got %v, want the shortage", err)
			}
		}
	})
}

func TestAStopEndsTheWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cancel(errStop) })
		x := New(Config{Run: crowded(1, syscall.EMFILE), MaxCommands: 1}, new(noJob))
		if _, err := x.Execute(ctx, ofItem(forEach(4))); !errors.Is(err, errStop) {
			t.Errorf("got %v, want the stop", err)
		}
	})
}

func TestAMissingDirectoryIsAFailureOnlyOfTheStepThatNamesIt(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	named := func(dir string) workflow.Step {
		st := shellStep("echo")
		st.WorkingDir = &workflow.Text{Value: dir}
		return st
	}
	toFile := shellStep("echo")
	toFile.OutputFile = &workflow.Text{Value: "out"}
	writes := workflow.Step{WriteFile: &workflow.WriteFile{Path: workflow.Text{Value: "sub/out"}, Content: workflow.Text{Value: "x"}, CreateDirs: true}}
	commits := shellStep("echo")
	commits.CommitRequired = true
	for name, test := range map[string]struct {
		dir  string
		step workflow.Step
		own  bool
	}{
		"gone":                      {gone, shellStep("echo"), true},
		"a file now":                {file, shellStep("echo"), true},
		"gone, without a shell":     {gone, shellStep("true"), true},
		"gone, below it":            {gone, named("sub"), true},
		"gone, with an output_file": {gone, toFile, true},
		"gone, write_file":          {gone, writes, true},
		"gone, commit_required":     {gone, commits, true},
		"there, below it not":       {dir, named("sub"), false},
		"there, elsewhere not":      {dir, named(gone), false},
		"gone, elsewhere there":     {gone, named(dir), false},
		"no such program":           {dir, shellStep("no-such-program-anywhere"), false},
	} {
		t.Run(name, func(t *testing.T) {
			a := ofItem(test.step)
			a.Dir = test.dir
			o, err := local(t).Execute(t.Context(), a)
			if errors.Is(err, ErrDir) != test.own || !test.own && err != nil {
				t.Errorf("got %v with %+v, want an error of prodigy: %t", err, o.Failure, test.own)
			}
			if strings.HasPrefix(name, "there") && (o.Failure == nil || !strings.HasPrefix(o.Failure.Message, "working directory: ")) {
				t.Errorf("got %+v, want the step to fail by its directory", o.Failure)
			}
		})
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the directory was made anew")
	}
}
