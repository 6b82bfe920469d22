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

// printAdvice says what to do about an error, where there is more to say than it says itself.
func printAdvice(w io.Writer, err error) {
	if text := advice(err); text != "" {
		_, _ = fmt.Fprintln(w, text)
	}
}

// advice says what to do about an error whose text alone does not tell, or nothing.
func advice(err error) string {
	var log *events.DamagedError
	var queue *dlq.DamagedError
	var locked *jobs.LockedError
	switch {
	case errors.As(err, &locked):
		return fmt.Sprintf("'prodigy status %s --watch' shows how it goes on.", locked.JobID)
	case jobs.CannotWrite(err):
		return "Make room on that disk, or make it writable."
	case process.Short(err):
		return "Raise that limit (ulimit -n for files, ulimit -u for processes), or let fewer agents run at once (--max-parallel)."
	case errors.Is(err, agent.ErrDir):
		return "The commands of a job run where it was started: bring that directory back."
	case errors.Is(err, fs.ErrPermission):
		return "The files of jobs are in PRODIGY_HOME, by default ~/.prodigy: it must be writable by who runs prodigy."
	case errors.As(err, &log):
		return "The log of a job is the one truth about it, so prodigy does not go on with what is left. Bring that file back from a copy;\n" +
			"'prodigy dlq export' writes the dead letters out as far as they are known."
	case errors.As(err, &queue):
		return "The dead letters are made from the log: move that file away, and the next command that reads them makes it again."
	case errors.Is(err, mapreduce.ErrFiles):
		return "Without that file the job cannot go on: bring it back from a copy, or run the workflow anew.\n" +
			"'prodigy events ls' and 'prodigy dlq list' show what is left of the job."
	}
	return ""
}
