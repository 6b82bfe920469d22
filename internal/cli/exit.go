package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"prodigy/internal/agent"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// The exit codes. Scripts rely on them.
const (
	exitOK     = 0 // every item succeeded
	exitFailed = 1 // the job failed, was cancelled or stopped by its policy, or prodigy could not go on
	exitUsage  = 2 // a wrong command line, an invalid workflow, an unknown job: nothing was run
	// the job completed, but items were dead-lettered or skipped, or reduce does not know of all results; or too few
	// items of a canary or a ramp succeeded
	exitLeft        = 3
	exitOutside     = 75  // paused outside of the windows of the job, with --exit-outside; can be resumed
	exitInterrupted = 130 // stopped by SIGINT; can be resumed
	exitQuit        = 131 // ended by SIGQUIT; can be resumed
	exitTerminated  = 143 // stopped by SIGTERM or SIGHUP, or drained; can be resumed
)

// statusError ends the process with an exit code; messages have already been printed.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// status returns the error for an exit code: nil for 0.
func status(code int) error {
	if code == exitOK {
		return nil
	}
	return statusError(code)
}

// usageError is a mistake of the caller, found before anything ran. With hint set, the message points to the help of
// the command.
type usageError struct {
	err  error
	hint bool
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef returns a usageError about the arguments, with a hint to the help.
func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: true}
}

// refusef returns a usageError about something that the arguments name: a file, a job, a setting.
func refusef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// signalError is the cause of a stop by a signal.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return signalName(e.signal) }

func (e *signalError) exitCode() int {
	switch e.signal {
	case os.Interrupt:
		return exitInterrupted
	case syscall.SIGQUIT:
		return exitQuit
	}
	return exitTerminated
}

func signalName(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGQUIT:
		return "SIGQUIT"
	}
	return s.String()
}

// exitCode returns the exit code for the error that a command returned.
func exitCode(err error) int {
	var code statusError
	var usage *usageError
	var invalid *workflow.InvalidError
	var refused *job.RefusedError
	var onFleet *mapreduce.OnFleetError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage), errors.As(err, &invalid), errors.As(err, &refused),
		errors.As(err, &onFleet), errors.Is(err, fleet.ErrRefused),
		errors.Is(err, jobs.ErrNotFound), errors.Is(err, jobs.ErrAmbiguous), errors.Is(err, mapreduce.ErrNoMap):
		return exitUsage
	}
	return exitFailed
}

// resultCode returns the exit code for the result of a job. Stop is the signal that stopped it, or nil.
func resultCode(r mapreduce.Result, stop *signalError, partialOK bool) int {
	switch r.State {
	case job.Completed:
		m := r.Metrics
		if m.Failed+m.Skipped+m.Rejected > 0 && !partialOK || r.ReduceStale || r.ReduceHeld {
			return exitLeft
		}
		return exitOK
	case job.Paused:
		if stop != nil {
			return stop.exitCode()
		}
		if r.Unproven {
			return exitLeft
		}
		if r.Drained {
			return exitTerminated
		}
		if r.Outside {
			return exitOutside
		}
	case job.Failed:
		if r.Refused {
			return exitUsage
		}
	}
	return exitFailed
}

// explain prints the error that cmd returned, unless it has been printed already.
func explain(l term.Lines, cmd *cobra.Command, err error) {
	var code statusError
	if errors.As(err, &code) {
		return
	}
	var invalid *workflow.InvalidError
	if errors.As(err, &invalid) {
		printProblems(l, invalid.Problems, "")
		return
	}
	l.Printf("prodigy: %s", term.VisibleLines(err.Error()))
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		if usage.hint {
			l.Printf("See '%s --help'.", cmd.CommandPath())
		}
	case errors.Is(err, jobs.ErrNotFound), errors.Is(err, jobs.ErrAmbiguous):
		l.Print("'prodigy jobs' lists the jobs.")
	default:
		printAdvice(l, err)
	}
}

func printNote(l term.Lines, text string) {
	if text != "" {
		l.Printf("note: %s", term.Visible(text))
	}
}

// printProblems prints one problem per line, with word before its message. Further lines of a message stay as they are:
// one may hold a caret.
func printProblems(l term.Lines, problems []workflow.Problem, word string) {
	for _, p := range problems {
		p.Message = word + p.Message
		l.Print(term.VisibleLines(p.String()))
	}
}

// printAdvice prints what to do about err, if there is advice for it.
func printAdvice(l term.Lines, err error) {
	if text := advice(err); text != "" {
		l.Print(text)
	}
}

// advice returns what to do about err, or "" if the error says enough by itself.
func advice(err error) string {
	var log *events.DamagedError
	var queue *dlq.DamagedError
	var locked *jobs.LockedError
	var files *job.FilesError
	switch {
	case items.Mistaken(err):
		return mendFirst
	case errors.As(err, &locked):
		return fmt.Sprintf("'prodigy status %s --watch' shows its progress.", locked.JobID)
	case jobs.CannotWrite(err):
		return "Free disk space, or make the directory writable."
	case process.Short(err):
		return "Raise the limit (ulimit -n for files, ulimit -u for processes), or lower --max-parallel."
	case errors.Is(err, agent.ErrDir):
		return "The job's working directory is missing. Restore it: commands run where the job was started."
	case errors.Is(err, fs.ErrPermission):
		return "Jobs are stored in PRODIGY_HOME (default ~/.prodigy), which must be writable."
	case errors.As(err, &files):
		return fmt.Sprintf(`Run 'prodigy fsck %s' to see what is damaged, and with --salvage DIR to copy what is intact.
Restore the file from a backup, or run the workflow again.`, files.JobID)
	case errors.As(err, &log):
		return `The event log is damaged, so the job cannot continue. Restore it from a backup; 'prodigy fsck' shows
what is damaged, and --salvage DIR copies what is intact.`
	case errors.As(err, &queue):
		return "Move the damaged file away; it is rebuilt from the log when needed."
	}
	return ""
}

// mendFirst is printed before the command that resumes a job whose items could not be selected.
const mendFirst = "Fix the workflow file or its input first."

// unlessClosed ignores the error of a reader that closed the pipe, such as head.
func unlessClosed(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
