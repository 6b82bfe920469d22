package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// checked is a valid workflow with its settings and warnings.
type checked struct {
	*workflow.Workflow
	// source is the content of the file.
	source   []byte
	warnings []workflow.Problem
	// dir is the current directory, where commands will run.
	dir string
	// maxDelay is the cap of delays. Zero means no cap.
	maxDelay time.Duration
	settings settings.Settings
	// values are those of --args and --map, for each of which the steps run once.
	values []string
}

// load reads the workflow at path, finds its settings and checks it as it would be run by c, in the current directory.
// The error is a *workflow.InvalidError with all problems if the workflow is invalid.
func load(ctx context.Context, path string, c mapreduce.Config, o settingOptions, p settings.Purpose) (checked, error) {
	source, err := readNamed(path)
	if err != nil {
		return checked{}, err
	}
	return loadSource(ctx, path, source, c, o, p)
}

// loadSource is load with the content of the file, which need not exist.
func loadSource(ctx context.Context, path string, source []byte, c mapreduce.Config, o settingOptions,
	p settings.Purpose,
) (checked, error) {
	dir, err := currentDir()
	if err == nil {
		c.MaxDelay, err = delayCap(c.MaxDelay)
	}
	if err != nil {
		return checked{}, err
	}
	values, err := o.values(ctx, dir)
	if err != nil {
		return checked{}, err
	}
	w, err := workflow.Parse(path, source,
		workflow.ParseOptions{MaxDelay: c.MaxDelay, Values: values, Workspace: o.workspace})
	c.Dir, c.Environ = dir, os.Environ()
	if err != nil {
		if invalid, ok := errors.AsType[*workflow.InvalidError](err); ok && invalid.Read != nil {
			_, more := mapreduce.Check(c, invalid.Read) // the problems of commands and paths
			err = invalid.And(more)
		}
		return checked{}, err
	}
	found, missing := o.resolve(ctx, w, dir, p)
	if _, ok := problemsOf(missing); missing != nil && !ok {
		return checked{}, missing
	}
	c.Settings = found
	warnings, err := mapreduce.Check(c, w)
	if p != settings.ToRun { // a run finds that out when it looks for its tools
		home, homeless := jobs.FromEnv()
		if homeless != nil {
			return checked{}, homeless
		}
		if _, wrong := agentsOf(home, w); wrong != nil {
			if _, ok := problemsOf(wrong); !ok {
				return checked{}, wrong
			}
			err = joinProblems(wrong, err)
		}
	}
	return checked{
		Workflow: w, source: source, warnings: slices.Concat(found.Warnings,
			warnings), dir: dir, maxDelay: c.MaxDelay, settings: found, values: values,
	}, joinProblems(missing, err)
}

// elsewhere returns a note for a workflow of another project than the directory that its commands run in, or "".
func (w checked) elsewhere() string {
	if w.Workflow == nil {
		return "" // it could not be read
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(w.File))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	here, wrong := filepath.EvalSymlinks(w.dir)
	if w.File == "" || cmp.Or(err, wrong) != nil || within(here, jobs.Project(dir)) {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(jobs.Project(dir), ".git")); err != nil && within(dir, here) {
		return "" // it is in no project of its own
	}
	return fmt.Sprintf("commands run in %s, and relative paths start there; the workflow is in %s", w.dir, dir)
}

// within reports whether path is dir or below it. Both are absolute.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// joinProblems joins two errors with problems of the same file.
func joinProblems(a, b error) error {
	if first, ok := errors.AsType[*workflow.InvalidError](a); ok {
		return first.And(b)
	}
	return cmp.Or(a, b)
}

// changedSince returns the path of the workflow file of a job if it is another than the recorded one, and nothing
// replaces that. It returns "" if the file is gone, as it may well be.
func changedSince(job jobs.Job, replaced *mapreduce.Replacement) string {
	meta, err := job.ReadMeta()
	if err != nil || replaced != nil || meta.WorkflowPath == "" {
		return ""
	}
	recorded, err := job.ReadWorkflow(meta)
	if err != nil {
		return ""
	}
	source, err := os.ReadFile(meta.WorkflowPath)
	if err != nil || bytes.Equal(source, recorded) {
		return ""
	}
	w, err := workflow.Parse(meta.WorkflowPath, source, recordedOptions(meta))
	if err == nil && bytes.Equal(w.Redact(source), recorded) {
		return ""
	}
	return meta.WorkflowPath
}

// loadRecorded reads the recorded workflow of a job.
func loadRecorded(place jobs.Job) (*workflow.Workflow, error) {
	meta, err := place.ReadMeta()
	var source []byte
	if err == nil {
		source, err = place.ReadWorkflow(meta)
	}
	if err != nil {
		return nil, &job.FilesError{JobID: place.ID, Err: err}
	}
	return workflow.Parse(place.WorkflowFile(), source, recordedOptions(meta))
}

// recordedOptions returns the options that the workflow of a job was parsed with.
func recordedOptions(meta jobs.Meta) workflow.ParseOptions {
	return workflow.ParseOptions{
		MaxDelay: time.Duration(meta.MaxDelayMS) * time.Millisecond, Values: meta.Values,
		Workspace: workflow.WorkspaceMode(meta.Workspace),
	}
}

// delayCap returns the cap of delays: the flag's, else the environment's, else none.
func delayCap(flag time.Duration) (time.Duration, error) {
	text := os.Getenv("PRODIGY_MAX_DELAY")
	if flag > 0 || text == "" {
		return flag, nil
	}
	d, err := duration.Parse(text)
	if err != nil {
		return 0, refusef("PRODIGY_MAX_DELAY: %w", err)
	}
	return d, nil
}

// problemsOf returns the problems of a workflow if err is a *workflow.InvalidError.
func problemsOf(err error) ([]workflow.Problem, bool) {
	invalid, ok := errors.AsType[*workflow.InvalidError](err)
	if !ok {
		return nil, false
	}
	return invalid.Problems, true
}

// recordedOrNil returns the workflow of a job, or nil if it cannot be read: then labels are guessed, and some details are
// not shown.
func recordedOrNil(job jobs.Job) *workflow.Workflow {
	w, _ := loadRecorded(job)
	return w
}
