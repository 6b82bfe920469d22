package natsfleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/fleet"
)

// A worker takes part in a job if it has all that the job needs. Else it says what it lacks.
func TestWhatAWorkerLacks(t *testing.T) {
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, ".prodigy-fleet-k"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	fits := fleet.Job{V: fleet.Protocol, Version: "1.0", Dir: shared, Probe: ".prodigy-fleet-k", Requires: []string{"gpu"}}
	for name, c := range map[string]struct {
		change func(j *fleet.Job, o *fleet.WorkerOptions)
		want   string // empty: it takes part
	}{
		"nothing":              {func(*fleet.Job, *fleet.WorkerOptions) {}, ""},
		"an older job":         {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.V, j.Version = 1, "0.1" }, "and prodigy 0.1 uses 1"},
		"another version":      {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Version = "1.1" }, "it is prodigy 1.0, and the job is run by prodigy 1.1: install the same version on both"},
		"a label":              {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Requires = []string{"gpu", "big"} }, "it lacks big"},
		"the directory":        {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Dir = filepath.Join(shared, "other") }, "the working directory is not shared with here: " + filepath.Join(shared, "other", ".prodigy-fleet-k")},
		"one of its own":       {func(j *fleet.Job, o *fleet.WorkerOptions) { j.Dir, o.Dir = "/nowhere", shared }, ""},
		"its own is not there": {func(_ *fleet.Job, o *fleet.WorkerOptions) { o.Dir = filepath.Join(shared, "other") }, filepath.Join(shared, "other") + " (--dir) is not a directory on here"},
		"its own is a file":    {func(j *fleet.Job, o *fleet.WorkerOptions) { o.Dir = filepath.Join(shared, j.Probe) }, "(--dir) is not a directory on here"},
		"files, no directory":  {func(j *fleet.Job, o *fleet.WorkerOptions) { j.Files, o.Dir = "list", filepath.Join(shared, "other") }, ""},
		"files are sent":       {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Dir, j.Files = "/nowhere", "list" }, ""},
		"git":                  {func(j *fleet.Job, o *fleet.WorkerOptions) { j.Seed, o.Environ = "seed", nil }, "workspaces need git, which is not on PATH"},
		"git, not needed":      {func(_ *fleet.Job, o *fleet.WorkerOptions) { o.Environ = nil }, ""},
		"a program":            {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Programs = []string{"sh", "no-such-cli"} }, "no-such-cli is not on its PATH"},
		"programs":             {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Programs = []string{"sh"} }, ""},
		"a sent program":       {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Programs = []string{"./no-such-cli"} }, ""},
		"a program, files":     {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Files, j.Programs = "list", []string{"no-such-cli"} }, "no-such-cli is not on its PATH"},
		"a program, git":       {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Seed, j.Programs = "seed", []string{"no-such-cli"} }, "no-such-cli is not on its PATH"},
		"workspaces":           {func(j *fleet.Job, _ *fleet.WorkerOptions) { j.Dir, j.Seed = "/nowhere", "seed" }, ""},
	} {
		j, o := fits, fleet.WorkerOptions{Version: "1.0", Labels: []string{"gpu", "linux/amd64"}, Environ: os.Environ()}
		c.change(&j, &o)
		if t.Setenv("PATH", path); o.Environ == nil {
			t.Setenv("PATH", shared) // which has no git
		}
		w := newWorker(o)
		w.life = t.Context()
		w.node.Host = "here"
		if got := w.unfit(j); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
