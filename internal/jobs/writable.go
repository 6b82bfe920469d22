package jobs

import (
	"errors"
	"slices"
	"syscall"
)

// refusals are the errors of a disk that cannot be written to.
var refusals = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EFBIG}

// CannotWrite reports whether err means that the disk cannot be written to: it is full or read-only, a quota
// is used up, or a file may not grow. No command caused this, and every other write would fail too.
func CannotWrite(err error) bool {
	return slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) })
}
