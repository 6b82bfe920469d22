package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// Error implements error: what does a step returns its failure as the error. All other errors are those of a stop, or of
// what prodigy itself could not do.
func (f *Failure) Error() string { return f.Message }

// failureIn returns the failure in err, or nil if err is nil or something else.
func failureIn(err error) *Failure {
	f, _ := errors.AsType[*Failure](err)
	return f
}

// fails returns a failure of the step that has no exit code.
func (s *step) fails(t retry.Type, message string) *Failure {
	return &Failure{Step: s.label, Failure: retry.Failure{Type: t, Message: message, ExitCode: -1}}
}

// failureOf returns the failure that an exit is, or nil when it is a success. stderr is where the reason is looked for.
func failureOf(st *step, exit process.Exit, stderr string) *Failure {
	f := &Failure{
		Step: st.label, Failure: retry.Failure{ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut},
	}
	if exit.Start != nil || exit.TimedOut || exit.Signal != "" {
		f.ExitCode = -1
	}
	switch {
	case exit.Start != nil: // with the exit codes that a shell has for it
		f.Message = exit.Start.Error()
		switch {
		case errors.Is(exit.Start, process.ErrNotFound):
			f.Type, f.ExitCode = retry.TypeCommandNotFound, 127
		case errors.Is(exit.Start, process.ErrNotExecutable):
			f.Type, f.ExitCode = retry.TypePermission, 126
		case errors.Is(exit.Start, process.ErrTooLarge):
			f.Type, f.ExitCode = retry.TypeTemplate, 126
			f.Message += tooLarge
		}
	case exit.TimedOut:
		f.Message = "timed out after " + duration.Format(st.Timeout)
	case exit.OOM:
		f.Type, f.Message = retry.TypeOOM, "killed for lack of memory: the kernel killed processes while it was running"
	case exit.Signal != "":
		f.Message = "killed by " + exit.Signal
	case exit.Code == 126 && strings.Contains(stderr, "rgument list too long"):
		f.Type, f.Message = retry.TypeTemplate, events.Clip(
			exitMessage(exit.Code, stderr), events.MaxError-len(tooLarge),
		)+tooLarge
	case exit.Code != 0:
		f.Message = exitMessage(exit.Code, stderr)
	default:
		return nil
	}
	return f
}

// tooLarge says what to do about a value that is too large for an argument.
const tooLarge = "; the maximum for an argument is 128 KiB: use |file for the path of a file with the value, or a heredoc"

// promptTooLarge says the same for a prompt.
const promptTooLarge = "; the maximum for a prompt argument is 128 KiB: use |file for the path of a file with the value, " +
	"or let claude read the prompt from stdin"

// exitMessage names the exit code and the last line of stderr that is not blank.
func exitMessage(code int, stderr string) string {
	message := fmt.Sprintf("exit code %d", code)
	if line := check.LastLine(stderr); line != "" {
		message += ": " + line
	}
	return events.Clip(message, events.MaxError)
}

// ErrDir is in the chain when the directory that the commands of a job run in cannot be used.
var ErrDir = errors.New("cannot use the job's working directory")

// dirError returns an error when the working directory of the attempt cannot be used. A directory that a step
// names is the step's affair.
func (r *run) dirError() error {
	if err := process.CheckDir(r.a.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrDir, err)
	}
	return nil
}

// blameless returns an error of files when no step is to blame for it: files or memory ran short, or the job
// has no directory. Else nil.
func (r *run) blameless(err error) error {
	if err == nil || process.Short(err) || errors.Is(err, ErrDir) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return r.dirError()
	}
	return nil
}

// LostError is the error of an attempt whose worker is gone: nobody knows how far it came. That is not a failure
// of the item.
type LostError struct {
	events.Place // without the slot, as far as it is known
	Reason       string

	Unbegun bool // nothing says that it had begun
	Cut     bool // the worker is well, and has ended it since it had no contact
}

func (e *LostError) Error() string { return e.Reason }

// ErrReturned is wrapped by the error of an attempt that a worker has given back: it has ended, or never began.
var ErrReturned = errors.New("returned by the worker")

// ErrDetached is the error of an attempt that its Executor no longer waits for, though it may still run
// elsewhere. Who resumes the job asks for it.
var ErrDetached = errors.New("the attempt may still be running on its worker")

// GivenBack reports whether an attempt ended without an outcome and not because of a failure of prodigy itself,
// so that others can go on.
func GivenBack(err error) bool {
	var lost *LostError
	return errors.As(err, &lost) || errors.Is(err, ErrReturned) || errors.Is(err, ErrDetached)
}
