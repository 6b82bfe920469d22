package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"prodigy/internal/agent"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// The exit codes. Scripts rely on them.
const (
	// Every item succeeded.
	exitOK = 0
	// The job failed, was cancelled or ended by its error policy, or prodigy could not continue.
	exitFailed = 1
	// The command line is wrong, the workflow is invalid or the job is unknown. Nothing was run.
	exitUsage = 2
	// the job completed, but items were dead-lettered or skipped, or reduce does not know of all results; or too few
	// items of a canary or a ramp succeeded
	exitLeft = 3
	// The job was drained, or stopped outside its windows with --exit-outside. Nothing went wrong, and it can be
	// resumed.
	exitAsAsked = 75
	// SIGINT stopped the job. It can be resumed.
	exitInterrupted = 130
	// SIGQUIT ended the job. It can be resumed.
	exitQuit = 131
	// SIGTERM or SIGHUP stopped the job. It can be resumed.
	exitTerminated = 143
)

// statusError ends the process with an exit code; messages have already been printed.
type statusError int

// Error is not printed: whoever returns a status has said why.
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

// Error returns the message, without the hint.
func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the mistake itself.
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

// Error returns the name of the signal, such as SIGTERM.
func (e *signalError) Error() string { return signalName(e.signal) }

// exitCode returns 128 and the number of the signal, as a shell does. SIGHUP counts as SIGTERM.
func (e *signalError) exitCode() int {
	switch e.signal {
	case os.Interrupt:
		return exitInterrupted
	case syscall.SIGQUIT:
		return exitQuit
	}
	return exitTerminated
}

// signalNames are the names that people know the signals by that stop a job.
var signalNames = map[os.Signal]string{
	os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
}

// signalName returns the name that people know a signal by.
func signalName(s os.Signal) string { return cmp.Or(signalNames[s], s.String()) }

// isA reports whether err is, or wraps, an error of type E.
func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// exitCode returns the exit code for the error that a command returned.
func exitCode(err error) int {
	var code statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case isA[*usageError](err), isA[*workflow.InvalidError](err), isA[*job.RefusedError](err),
		isA[*mapreduce.OnFleetError](err), errors.Is(err, fleet.ErrRefused),
		errors.Is(err, jobs.ErrNotFound), errors.Is(err, jobs.ErrAmbiguous), errors.Is(err, mapreduce.ErrNoMap):
		return exitUsage
	}
	return exitFailed
}

// resultCode returns the exit code for the result of a job. Stop is the signal that stopped it, or nil.
func resultCode(r mapreduce.Result, stop *signalError, partialOK bool) int {
	switch r.State {
	case jobs.Completed:
		if r.Metrics.Unsuccessful() > 0 && !partialOK || r.ReduceStale || r.ReduceHeld {
			return exitLeft
		}
		return exitOK
	case jobs.Stopped:
		if stop != nil {
			return stop.exitCode()
		}
		if r.Unproven {
			return exitLeft
		}
		if r.AsAsked {
			return exitAsAsked
		}
	case jobs.Failed:
		if r.Refused {
			return exitUsage
		}
	}
	return exitFailed
}

// endCode is resultCode for a run of another process, by what its log says of the end. Paused is the last record, or zero
// if that is of another type. The log does not have --partial-ok.
func endCode(s job.Summary, paused events.JobPaused) int {
	for sent, name := range signalNames {
		if paused.Reason == name {
			return (&signalError{sent}).exitCode()
		}
	}
	if strings.HasPrefix(paused.Reason, stoppedBy) {
		return exitTerminated
	}
	return resultCode(mapreduce.Result{
		State: s.State, Metrics: s.Metrics, ReduceStale: s.ReduceStale, ReduceHeld: s.ReduceHeld,
		Unproven: paused.Unproven, AsAsked: paused.AsAsked,
	}, nil, false)
}

// explain prints the error that cmd returned, unless it has been printed already.
func explain(con *console, cmd *cobra.Command, err error) {
	if isA[statusError](err) {
		return
	}
	if invalid, ok := errors.AsType[*workflow.InvalidError](err); ok {
		printProblems(con, invalid.Problems, "")
		return
	}
	con.sayf("prodigy: %s", term.VisibleLines(err.Error()))
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		if usage.hint {
			con.sayf("See '%s --help'.", cmd.CommandPath())
		}
	case errors.Is(err, jobs.ErrNotFound), errors.Is(err, jobs.ErrAmbiguous):
		con.sayf("'prodigy jobs' lists the jobs, and with --all those of other directories.")
	default:
		printAdvice(con, err)
	}
}

// note prints a note, if there is one.
func (c *console) note(text string) { c.say().Tell("note: ", term.Visible(text)) }

// printProblems prints one problem per line, with word before its message. Further lines of a message stay as they are:
// one may hold a caret.
func printProblems(con *console, problems []workflow.Problem, word string) {
	for _, p := range problems {
		p.Message = word + p.Message
		con.sayf("%s", term.VisibleLines(p.String()))
	}
}

// printAdvice prints what to do about err, if it does not say enough by itself.
func printAdvice(con *console, err error) {
	var log *events.DamagedError
	var queue *dlq.DamagedError
	var locked *jobs.LockedError
	var files *job.FilesError
	switch {
	case errors.As(err, &locked):
		con.sayf("'prodigy status%[1]s --watch' shows its progress; if it is paused, 'prodigy continue%[1]s' continues it.",
			named(locked.JobID))
	case jobs.CannotWrite(err):
		con.sayf("Free disk space, or make the directory writable.")
	case process.Short(err):
		con.sayf("Raise the limit (ulimit -n for files, ulimit -u for processes), or lower --max-parallel.")
	case errors.Is(err, agent.ErrDir):
		con.sayf("The job's working directory is missing. Restore it: commands run where the job was started.")
	case errors.Is(err, fs.ErrPermission):
		con.sayf("Jobs are stored in PRODIGY_HOME (default ~/.prodigy), which must be writable.")
	case errors.As(err, &files):
		con.sayf(`Run 'prodigy fsck%s' to see what is damaged.
Restore the file from a backup, or run the workflow again.`, named(files.JobID))
	case errors.As(err, &log):
		con.sayf("Run 'prodigy fsck' to see what is damaged.")
	case errors.As(err, &queue):
		con.sayf("Move the damaged file away; it is rebuilt from the log when needed.")
	}
}

// unlessClosed ignores the error of a reader that closed the pipe, such as head.
func unlessClosed(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
