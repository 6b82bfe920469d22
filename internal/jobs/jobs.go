// Package jobs creates and finds jobs, knows the paths of their files, and locks them.
//
// Home is the root directory of all files, Job one job in it, Meta how it was started, and Lock what a
// process holds while it runs the job. Whoever writes files of a job does it with what is here: WriteFile and
// Rename make them durable, Seal puts a checksum on a line, Pack replaces a complete file by a compressed
// one.
package jobs

import (
	"errors"
	"path/filepath"
)

var (
	// ErrNotFound means that no job has that name, or for "latest" that there are no jobs.
	ErrNotFound = errors.New("no such job")
	// ErrAmbiguous means that a part of an id fits several jobs.
	ErrAmbiguous = errors.New("more than one job matches")
	// ErrLocked is wrapped by every *LockedError.
	ErrLocked = errors.New("another process is running this job")
)

// Job identifies a job and the directories of its files.
type Job struct {
	ID   string
	Repo string
	home Home
}

// EventsDir returns the directory of the log.
func (j Job) EventsDir() string { return j.path("events") }

// DLQFile returns the path of the journal of dead letters.
func (j Job) DLQFile() string { return filepath.Join(j.path("dlq"), "dlq.jsonl") }

// StateDir returns the directory of all other files of the job.
func (j Job) StateDir() string { return j.path("state") }

// WorkflowFile returns the path of the recorded workflow.
func (j Job) WorkflowFile() string { return j.state("workflow.yml") }

// MetaFile returns the path of job.json.
func (j Job) MetaFile() string { return j.state("job.json") }

// ItemsFile returns the path of the list of selected items.
func (j Job) ItemsFile() string { return j.state("items.jsonl") }

// ResultsFile returns the path of the results, which exist once the map phase is over.
func (j Job) ResultsFile() string { return j.state("results.jsonl") }

// ShownFile returns the path of the list of the items whose output a run has printed, by index, if the job prints it.
func (j Job) ShownFile() string { return j.state("shown") }

// ResultsMetaFile returns the path of the file that says which part of the log the results were made from,
// and their checksum.
func (j Job) ResultsMetaFile() string { return j.state("results.meta.json") }

// MissingFile returns the path of the list of the items without a success, which is made for the phases after
// the map phase that ask for it.
func (j Job) MissingFile() string { return j.state("missing.jsonl") }

// IndexFile returns the path of the index by which another job finds the results of the items that it has too.
func (j Job) IndexFile() string { return j.state("results.index") }

// CheckpointFile returns the path of the checkpoint.
func (j Job) CheckpointFile() string { return j.state("checkpoint") }

// RegisterFile returns the path of the register of running process groups.
func (j Job) RegisterFile() string { return j.state("running") }

// ControlSocket returns the path of the socket by which a running job is steered.
func (j Job) ControlSocket() string { return j.state("control") }

// TempDir returns the directory for private files of running commands.
func (j Job) TempDir() string { return j.state("tmp") }

// OutputsDir returns the directory of outputs that are too large for the log.
func (j Job) OutputsDir() string { return j.state("outputs") }

// NotificationsFile has what was sent to those who are told of the job, and what was given up.
func (j Job) NotificationsFile() string { return j.state("notifications.jsonl") }

// StartedDir returns the directory of what the commands have printed that were started for the job from a browser.
func (j Job) StartedDir() string { return j.state("started") }

// GitDir returns the directory of what a job with workspaces keeps for git.
func (j Job) GitDir() string { return j.state("git") }

// dirs returns the directories of the log and of the dead letters, and one more.
func (j Job) dirs(last string) []string { return []string{j.EventsDir(), j.path("dlq"), last} }

func (j Job) lockFile() string { return j.state("lock") }

func (j Job) state(name string) string { return filepath.Join(j.StateDir(), name) }

func (j Job) path(kind string) string { return filepath.Join(j.home.Root, kind, j.Repo, j.ID) }
