package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"

	"prodigy/internal/check"
)

// PackedExt follows the name of a file that is complete and was replaced by a compressed one. It can be read
// by zstd tools.
const PackedExt = ".zst"

// window is how far back a compression looks. Lines of a log resemble those just before them: a larger one
// takes megabytes of memory here and wherever the file is read, and makes the file no smaller.
const window = 256 << 10

// NewPacker returns a writer that compresses to w. Close ends the compressed data; it does not close w.
func NewPacker(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
}

// Pack replaces the file at path by a compressed one. The original stays until that one is on disk under its
// name, so that a crash leaves the one, the other, or both, which then say the same.
func Pack(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+PackedExt+"-*") // mode 0600
	if err != nil {
		return err
	}
	if err := Finish(temp, path+PackedExt, compress(temp, path)); err != nil {
		return err
	}
	// Windows keeps a file that somebody reads; the next PackAll tries again.
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
	defer check.Quietly(in.Close)
	z, err := NewPacker(w)
	if err != nil {
		return err
	}
	_, err = io.Copy(z, in)
	return errors.Join(err, z.Close())
}

// PackAll replaces those of the files at paths that are not compressed yet.
func PackAll(paths []string) error {
	for _, path := range paths {
		if IsPacked(path) {
			continue
		}
		if err := Pack(path); err != nil {
			return err
		}
	}
	return nil
}

// RemoveTemporary removes what interrupted calls of Pack left in dir of files whose names begin with prefix.
func RemoveTemporary(dir, prefix string) error {
	left, err := filepath.Glob(filepath.Join(dir, "."+prefix+"*"+PackedExt+"-*"))
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

// IsPacked reports whether path is the name of a compressed file.
func IsPacked(path string) bool { return strings.HasSuffix(path, PackedExt) }

// UnpackedName returns path without PackedExt, so that a file has the same name before and after it is compressed.
func UnpackedName(path string) string { return strings.TrimSuffix(path, PackedExt) }

// Segments returns the paths of the files in dir whose names, before they were compressed, begin and end so, in their
// order. Of a file that is there compressed and as it was, which say the same, it has the latter.
func Segments(dir, prefix, suffix string) (paths []string, err error) {
	entries, err := os.ReadDir(dir) // sorted
	for _, e := range entries {
		path, name := filepath.Join(dir, e.Name()), UnpackedName(e.Name())
		twice := len(paths) > 0 && paths[len(paths)-1] == UnpackedName(path)
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) && !twice {
			paths = append(paths, path)
		}
	}
	return paths, err
}

// OpenPacked opens a file for reading, also one that was compressed since its name was read.
func OpenPacked(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !IsPacked(path) {
		path += PackedExt
		if g, packedErr := os.Open(path); packedErr == nil {
			f, err = g, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if !IsPacked(path) {
		return f, nil
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return unpacked{z, f}, nil
}

// Skip passes over the first n bytes of what OpenPacked opened.
func Skip(in io.Reader, n int64) error {
	if f, ok := in.(*os.File); ok {
		_, err := f.Seek(n, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, in, n)
	return err
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
