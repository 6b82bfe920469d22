package testenv

import (
	"time"
	"unsafe"
)

// Suspended returns what the clocks of a machine say at a time if it was suspended for d before, in whole seconds: the wall clock has gone on, the monotonic
// one has not. It is also what they say when the wall clock was set forward by d, or back if d is negative.
func Suspended(at time.Time, d time.Duration) time.Time {
	moved := at
	// Package time has no way to make such a time. See the comment in time.Time on how it is kept.
	(*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&moved)).wall += uint64(d/time.Second) << 30
	if moved.Sub(at) != 0 || moved.Round(0).Sub(at.Round(0)) != d {
		panic("package time keeps times in another way, or the time has no monotonic clock reading")
	}
	return moved
}
