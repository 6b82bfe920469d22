//go:build unix

package cli

import (
	"fmt"
	"syscall"
)

// become replaces this process by another program.
func become(path string, args, environ []string) error {
	if err := syscall.Exec(path, append([]string{fleetProgram}, args...), environ); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}
