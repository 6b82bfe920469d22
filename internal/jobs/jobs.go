// Package jobs names jobs and knows where their files lie.
package jobs

import (
	"errors"
	"path/filepath"
)

var (
	// ErrNotFound says that no job has that id, prefix or, for "latest", that there is none at all.
	ErrNotFound = errors.New("no such job")
	// ErrAmbiguous says that a prefix fits several jobs.
	ErrAmbiguous = errors.New("more than one job has that prefix")
	// ErrLocked is in the chain of a *LockedError.
	ErrLocked = errors.New("another process is running this job")
)

// Job is one job's place on disk.
type Job struct {
	ID   string
	Repo string
	home Home
}

// EventsDir is where the log is.
func (j Job) EventsDir() string { return j.path("events") }

// DLQFile is the journal of the dead letters.
func (j Job) DLQFile() string { return filepath.Join(j.path("dlq"), "dlq.jsonl") }

// StateDir holds what belongs to the job and is no record of what happened.
func (j Job) StateDir() string { return j.path("state") }

// WorkflowFile is the workflow as it was run.
func (j Job) WorkflowFile() string { return j.state("workflow.yml") }

// MetaFile is where WriteMeta writes.
func (j Job) MetaFile() string { return j.state("job.json") }

// ItemsFile lists the chosen items.
func (j Job) ItemsFile() string { return j.state("items.jsonl") }

// ResultsFile lists the results, once the map phase is over.
func (j Job) ResultsFile() string { return j.state("results.jsonl") }

// ResultsMetaFile says what of the log the results were made from, and what they are byte for byte.
func (j Job) ResultsMetaFile() string { return j.state("results.meta.json") }

// CheckpointFile is what the log comes to up to one of its records.
func (j Job) CheckpointFile() string { return j.state("checkpoint") }

// RegisterFile says which process groups are running.
func (j Job) RegisterFile() string { return j.state("running") }

// TempDir is for private files of commands that are running.
func (j Job) TempDir() string { return j.state("tmp") }

// OutputsDir is for outputs that are too large for the log.
func (j Job) OutputsDir() string { return j.state("outputs") }

func (j Job) lockFile() string { return j.state("lock") }

func (j Job) state(name string) string { return filepath.Join(j.StateDir(), name) }

func (j Job) path(kind string) string { return filepath.Join(j.home.Root, kind, j.Repo, j.ID) }
