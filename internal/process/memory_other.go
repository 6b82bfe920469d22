//go:build !linux

package process

import (
	"errors"
	"os"
)

// MemoryFile returns errors.ErrUnsupported: on this system, other processes can open only files on a disk.
func MemoryFile(string) (file *os.File, path string, err error) {
	return nil, "", errors.ErrUnsupported
}
