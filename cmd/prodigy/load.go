package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// checked is a workflow in which nothing was found that would keep it from running.
type checked struct {
	*workflow.Workflow
	source   []byte
	warnings []workflow.Problem
	dir      string
	settings settings.Settings
	values   []string
}

// load reads the workflow at path, finds its settings and checks it as it would be run by c, in the current directory.
// A *workflow.InvalidError holds all that is wrong with it.
func load(ctx context.Context, path string, c mapreduce.Config, o settingOptions, p settings.Purpose) (checked, error) {
	dir, err := os.Getwd()
	if err != nil {
		return checked{}, err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return checked{}, refusef("%w", err)
	}
	values, err := o.values(ctx, dir)
	if err != nil {
		return checked{}, err
	}
	w, err := workflow.Parse(path, source, workflow.ParseOptions{MaxDelay: c.MaxDelay, Values: values})
	c.Dir, c.Environ = dir, os.Environ()
	if err != nil {
		return checked{}, withMore(c, err)
	}
	found, missing := o.resolve(ctx, w, dir, p)
	if _, ok := problemsOf(missing); missing != nil && !ok {
		return checked{}, missing
	}
	c.Settings = found
	warnings, err := mapreduce.Check(c, w)
	return checked{
		Workflow: w, source: source, warnings: slices.Concat(found.Warnings, warnings), dir: dir, settings: found, values: values,
	}, together(missing, err)
}

// together returns two errors, which hold problems of one file, as one.
func together(a, b error) error {
	if first, ok := errors.AsType[*workflow.InvalidError](a); ok {
		return first.And(b)
	}
	return cmp.Or(a, b)
}

// withMore adds to what is wrong with the structure of a workflow what is wrong with the commands and paths in it.
func withMore(c mapreduce.Config, err error) error {
	var invalid *workflow.InvalidError
	if !errors.As(err, &invalid) || invalid.Read == nil {
		return err
	}
	_, more := mapreduce.Check(c, invalid.Read)
	return invalid.And(more)
}

// loadRecorded reads the workflow of a job as it was run.
func loadRecorded(job jobs.Job) (*workflow.Workflow, error) {
	meta, err := job.ReadMeta()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mapreduce.ErrFiles, err)
	}
	source, err := os.ReadFile(job.WorkflowFile())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mapreduce.ErrFiles, err)
	}
	maxDelay := time.Duration(meta.MaxDelayMS) * time.Millisecond
	return workflow.Parse(job.WorkflowFile(), source, workflow.ParseOptions{MaxDelay: maxDelay, Values: meta.Values})
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

// problemsOf returns what is wrong with a workflow, if err is about that.
func problemsOf(err error) ([]workflow.Problem, bool) {
	var invalid *workflow.InvalidError
	if !errors.As(err, &invalid) {
		return nil, false
	}
	return invalid.Problems, true
}
