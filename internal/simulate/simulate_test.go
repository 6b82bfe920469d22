package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// filesBelow returns the names of all files below dir.
func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Whatever a workflow has: no command is started, and no file is written beside those of the job.
func TestNothingIsStartedAndNoFileIsWritten(t *testing.T) {
	list, err := filepath.Glob("../workflow/testdata/valid/*.yml")
	if err != nil || len(list) == 0 {
		t.Fatal("there are no workflows")
	}
	for _, path := range list {
		t.Run(filepath.Base(path), func(t *testing.T) {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := workflow.Parse(path, source, workflow.ParseOptions{})
			if err != nil {
				t.Skip(err)
			}
			if w.Map != nil {
				w.Map.Input = workflow.Input{Items: []json.RawMessage{
					json.RawMessage(`{"id": "a", "name": "a", "path": "a.txt", "url": "u", "host": "h", "file": "f"}`),
					json.RawMessage(`{"id": "b", "name": "b", "path": "b.txt", "url": "u", "host": "h", "file": "f"}`),
				}}
				w.Map.Filter.Value, w.Map.JSONPath.Value, w.Map.Offset, w.Map.Key.Value, w.Map.MaxParallel = "", "", 0, "", workflow.IntOrVar{Value: 2}
			}
			dir := t.TempDir()
			started := errors.New("a command was started")
			agents, err := ai.Load()
			if err != nil {
				t.Fatal(err)
			}
			c := mapreduce.Config{
				Home: jobs.Home{Root: filepath.Join(t.TempDir(), "home")}, Dir: dir, Environ: os.Environ(), Seed: 1, Agents: agents, Claude: []string{"claude"},

				EndConfig: mapreduce.EndConfig{Grace: time.Second},
				RunConfig: mapreduce.RunConfig{Runner: func(context.Context, process.Command) (process.Exit, error) {
					t.Error(started)
					return process.Exit{}, started
				}},
			}
			for _, rate := range []float64{0, 0.5, 1} {
				before := filesBelow(t, dir)
				_, err = Run(t.Context(), Job{Config: c, Workflow: w, Source: source, Model: Chance{Seed: 1, FailureRate: rate}, Begin: time.Now(), MaxTime: 24 * time.Hour})
				var invalid *workflow.InvalidError
				if err != nil && !errors.As(err, &invalid) {
					t.Errorf("failure rate %v: %v", rate, err)
				}
				if after := filesBelow(t, dir); !slices.Equal(after, before) {
					t.Errorf("failure rate %v: there are files %v, want %v", rate, after, before)
				}
			}
		})
	}
}

func TestASimulationStopsWhenItIsAskedTo(t *testing.T) {
	source := []byte("map:\n  input: [1, 2]\n  agent_template:\n    - shell: wait\n")
	w, err := workflow.Parse("w.yml", source, workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	interrupted := errors.New("SIGINT")
	ctx, stop := context.WithCancelCause(t.Context())
	hanging := modelFunc(func(agent.SimulatedTry) Outcome {
		stop(interrupted)
		return Outcome{Hangs: true}
	})
	c := mapreduce.Config{Home: jobs.Home{Root: dir}, Dir: dir, Environ: os.Environ(), Seed: 1, EndConfig: mapreduce.EndConfig{Grace: time.Second}}
	r, err := Run(ctx, Job{Config: c, Workflow: w, Source: source, Model: hanging, Begin: time.Now()})
	if err != nil || r.State != jobs.Stopped || r.Reason != "SIGINT" || r.Duration > 2*time.Minute {
		t.Errorf("got %s by %q in %v and %v, want it stopped by SIGINT in about a minute", r.State, r.Reason, r.Duration, err)
	}
	r, err = Run(t.Context(), Job{Config: c, Workflow: w, Source: source, Model: hanging, Begin: time.Now(), MaxTime: 300 * 24 * time.Hour})
	if want := (&TimeError{300 * 24 * time.Hour}).Error(); err != nil || r.Reason != want || r.State != jobs.Stopped {
		t.Errorf("got %s by %q and %v, want %s", r.State, r.Reason, err, want)
	}
}

type modelFunc func(agent.SimulatedTry) Outcome

func (f modelFunc) Outcome(t agent.SimulatedTry) Outcome { return f(t) }

func (f modelFunc) Conflicts(agent.SimulatedTry) []string { return nil }
