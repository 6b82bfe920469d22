package job

import (
	"errors"
	"fmt"

	"prodigy/internal/jobs"
)

// RefusedError says why something was not begun: nothing has run, and no job is there that was not there before.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Refusef returns a *RefusedError with a reason.
func Refusef(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// ErrFiles is wrapped by errors about files of a job that are missing or cannot be read.
var ErrFiles = errors.New("cannot use the job's files")

// Unusable makes an error about the files of a job of err, which says what is wrong with one of them.
func Unusable(place jobs.Job, err error) error {
	if errors.Is(err, ErrFiles) {
		return err
	}
	return &FilesError{JobID: place.ID, Err: err}
}

// FilesError is an [ErrFiles] about a file of a job that is missing or damaged.
type FilesError struct {
	JobID string
	Err   error
}

func (e *FilesError) Error() string { return fmt.Sprintf("%v: %v", ErrFiles, e.Err) }

// Unwrap returns ErrFiles and the cause.
func (e *FilesError) Unwrap() []error { return []error{ErrFiles, e.Err} }
