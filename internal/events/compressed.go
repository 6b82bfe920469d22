package events

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

// compressedExt follows the name of a log file that was compressed.
const compressedExt = ".zst"

// compress replaces the log file at path by a compressed one. Until that one is on disk under its name the original stays,
// so that a crash leaves the one, the other or both, which then say the same.
func compress(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+compressedExt+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("compress log: %w", err)
	}
	err = packFile(temp, path)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("compress log: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	if err := jobs.Rename(temp.Name(), path+compressedExt); err != nil {
		return fmt.Errorf("compress log: %w", err)
	}
	// Windows keeps what somebody reads; the next Open tries again.
	if err := os.Remove(path); err != nil && runtime.GOOS != "windows" {
		return fmt.Errorf("compress log: %w", err)
	}
	return nil
}

// packFile writes the file at path to w, compressed.
func packFile(w io.Writer, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read from
	z, err := newPacker(w)
	if err != nil {
		return err
	}
	_, err = io.Copy(z, in)
	return errors.Join(err, z.Close())
}

// window is how far back a compression looks. Lines of a log resemble those just before them: a larger one takes megabytes of memory
// here and wherever the log is read, and makes the file no smaller.
const window = 256 << 10

func newPacker(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
}

// Pack writes all lines of the log in dir to w, compressed as one file. It leaves out a torn last line, which is no record.
func Pack(w io.Writer, dir string) error {
	z, err := newPacker(w)
	if err != nil {
		return err
	}
	var whole []byte
	for text, err := range ReadLines(dir, Query{}) {
		if errors.Is(err, ErrTorn) {
			break
		}
		if err == nil {
			whole = append(append(whole[:0], text...), '\n')
			_, err = z.Write(whole)
		}
		if err != nil {
			return errors.Join(err, z.Close())
		}
	}
	return z.Close()
}

// compressLeft compresses the files that a run left behind before it came to it.
func compressLeft(paths []string) error {
	for _, path := range paths {
		if compressed(path) {
			continue
		}
		if err := compress(path); err != nil {
			return err
		}
	}
	return nil
}

// removeTemporary takes away what a compression that did not end has left in dir.
func removeTemporary(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".events-*"+compressedExt+"-*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func compressed(path string) bool { return strings.HasSuffix(path, compressedExt) }

// trimCompressed strips ".zst" from path, so that a log file has the same name before and after compression.
func trimCompressed(path string) string { return strings.TrimSuffix(path, compressedExt) }

// openToRead opens a log file, also one that was compressed since its name was read.
func openToRead(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !compressed(path) {
		path += compressedExt
		if g, zipErr := os.Open(path); zipErr == nil {
			f, err = g, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if !compressed(path) {
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
