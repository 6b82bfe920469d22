package jobs

import (
	"errors"
	"slices"
	"syscall"
)

// refusals are the errors of a disk that takes no more.
var refusals = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EFBIG}

// CannotWrite tells whether err is of a disk that takes no more: it is full, a quota is used up, it is read-only, or a file may not
// grow. What runs is not to blame, and everything else would fail by it too.
func CannotWrite(err error) bool {
	return slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) })
}
