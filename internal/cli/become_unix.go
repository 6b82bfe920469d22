//go:build unix

package cli

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// become replaces this process by another program.
func become(path string, args, environ []string) error {
	if err := syscall.Exec(path, append([]string{filepath.Base(path)}, args...), environ); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}
