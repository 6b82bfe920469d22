package agent

import (
	"errors"

	"prodigy/internal/events"
)

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
