//go:build !linux

package gitspace

import (
	"errors"
	"io/fs"
)

func readDir(string, func(string, fs.FileMode, func() (fileStat, error)) error) error {
	return errors.ErrUnsupported
}

// changeTime returns the zero stamp: how git compares files is only known here for Linux.
func changeTime(fs.FileInfo) stamp { return stamp{} }
