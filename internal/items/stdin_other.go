//go:build !unix

package items

import (
	"context"
	"io"
)

// interruptible checks ctx before each read: on this system, a read cannot be interrupted.
func interruptible(ctx context.Context, in io.Reader) (_ io.Reader, done func(), _ error) {
	return readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return in.Read(b)
	}), func() {}, nil
}
