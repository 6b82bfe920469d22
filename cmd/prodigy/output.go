package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"prodigy/internal/jobs"
)

// writeOut calls write with a file, written as by writeWhole, or with stdout if file is "-".
func writeOut(con *console, file string, write func(io.Writer) error) error {
	buffered := func(w io.Writer) error {
		out := bufio.NewWriter(w)
		return errors.Join(write(out), out.Flush())
	}
	if file == "-" {
		return buffered(con.out)
	}
	err := writeWhole(file, buffered)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refusef("export to %s: there is no such directory", file)
	case err != nil:
		return fmt.Errorf("export to %s: %w", file, err)
	}
	return nil
}

// writeWhole creates or replaces the file at path with what write writes, atomically. Devices and pipes are written to directly.
func writeWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeInto(path, write)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return jobs.Rename(f.Name(), path)
}

func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
