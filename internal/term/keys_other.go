//go:build !linux && !darwin

package term

import (
	"context"
	"errors"
	"os"
)

// ReadKeys is not there on this system.
func ReadKeys(context.Context, *os.File, func(byte)) error {
	return errors.New("keys cannot be read on this system")
}
