// Package packed replaces files that are complete by compressed ones, and reads both alike.
//
// A compressed file has the name of the original with Ext behind it. It can be read by zstd tools.
package packed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"

	"prodigy/internal/jobs"
)

// Ext follows the name of a compressed file.
const Ext = ".zst"

// window is how far back a compression looks. Lines of a log resemble those just before them: a larger one takes megabytes of memory
// here and wherever the file is read, and makes the file no smaller.
const window = 256 << 10

// NewWriter returns a writer that compresses to w. Close ends the compressed data; it does not close w.
func NewWriter(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
}

// Replace replaces the file at path by a compressed one. The original stays until that one is on disk under its name, so that a crash
// leaves the one, the other, or both, which then say the same.
func Replace(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+Ext+"-*") // mode 0600
	if err != nil {
		return err
	}
	err = compress(temp, path)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	if err := jobs.Rename(temp.Name(), path+Ext); err != nil {
		return err
	}
	// Windows keeps a file that somebody reads; the next ReplaceAll tries again.
	if err := os.Remove(path); err != nil && runtime.GOOS != "windows" {
		return err
	}
	return nil
}

// compress writes the file at path to w, compressed.
func compress(w io.Writer, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read from
	z, err := NewWriter(w)
	if err != nil {
		return err
	}
	_, err = io.Copy(z, in)
	return errors.Join(err, z.Close())
}

// ReplaceAll replaces those of the files at paths that are not compressed yet.
func ReplaceAll(paths []string) error {
	for _, path := range paths {
		if Is(path) {
			continue
		}
		if err := Replace(path); err != nil {
			return err
		}
	}
	return nil
}

// RemoveTemporary removes what interrupted calls of Replace left in dir of files whose names begin with prefix.
func RemoveTemporary(dir, prefix string) error {
	left, err := filepath.Glob(filepath.Join(dir, "."+prefix+"*"+Ext+"-*"))
	if err != nil {
		return fmt.Errorf("remove temporary files: %w", err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// Is reports whether path is the name of a compressed file.
func Is(path string) bool { return strings.HasSuffix(path, Ext) }

// Stem returns path without Ext, so that a file has the same name before and after it is compressed.
func Stem(path string) string { return strings.TrimSuffix(path, Ext) }

// Open opens a file for reading, also one that was compressed since its name was read.
func Open(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !Is(path) {
		path += Ext
		if g, packedErr := os.Open(path); packedErr == nil {
			f, err = g, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if !Is(path) {
		return f, nil
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return unpacked{z, f}, nil
}

// unpacked reads a compressed file.
type unpacked struct {
	*zstd.Decoder
	file *os.File
}

// Close closes both the decoder and the file.
func (u unpacked) Close() error {
	u.Decoder.Close()
	return u.file.Close()
}
