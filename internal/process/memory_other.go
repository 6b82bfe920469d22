//go:build !linux

package process

import (
	"errors"
	"os"
)

// MemoryFile returns errors.ErrUnsupported: this system has no files without a place on a disk that another process can open.
func MemoryFile(string) (file *os.File, path string, err error) {
	return nil, "", errors.ErrUnsupported
}
