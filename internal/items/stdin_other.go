//go:build !unix

package items

import (
	"context"
	"io"
)

// interruptible returns in as it is: on this system a read cannot be called off.
func interruptible(ctx context.Context, in io.Reader) (_ io.Reader, done func(), _ error) {
	return readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return in.Read(b)
	}), func() {}, nil
}
