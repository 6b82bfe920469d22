package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"prodigy/internal/agent"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
)

// printAdvice prints what to do about err, if there is advice for it.
func printAdvice(w io.Writer, err error) {
	if text := advice(err); text != "" {
		_, _ = fmt.Fprintln(w, text)
	}
}

// advice returns what to do about err, or "" if the error says enough by itself.
func advice(err error) string {
	var log *events.DamagedError
	var queue *dlq.DamagedError
	var locked *jobs.LockedError
	var files *mapreduce.FilesError
	switch {
	case errors.As(err, &locked):
		return fmt.Sprintf("'prodigy status %s --watch' shows its progress.", locked.JobID)
	case jobs.CannotWrite(err):
		return "Make room on that disk, or make it writable."
	case process.Short(err):
		return "Raise that limit (ulimit -n for files, ulimit -u for processes), or let fewer agents run at once (--max-parallel)."
	case errors.Is(err, agent.ErrDir):
		return "The commands of a job run in the directory it was started in: restore that directory."
	case errors.Is(err, fs.ErrPermission):
		return "The files of jobs are in PRODIGY_HOME, by default ~/.prodigy: it must be writable by the user who runs prodigy."
	case errors.As(err, &files):
		return fmt.Sprintf("'prodigy fsck %s' says what is damaged and what is left, and with --salvage DIR writes that out.\n"+
			"Restore the file from a copy, or run the workflow again.", files.JobID)
	case errors.As(err, &log):
		return "Everything about a job is made from its log, so prodigy does not continue with a damaged one. Restore that file from a copy;\n" +
			"'prodigy fsck' says what is damaged and what is left, and with --salvage DIR writes that out."
	case errors.As(err, &queue):
		return "The dead letters are made from the log: move that file away, and the next command that needs it makes it again."
	}
	return ""
}
