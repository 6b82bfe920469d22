package events

import (
	"errors"
	"fmt"
	"io"

	"prodigy/internal/jobs"
)

// compress replaces log files by compressed ones.
func compress(paths ...string) error {
	if err := jobs.PackAll(paths); err != nil {
		return fmt.Errorf("compress log: %w", err)
	}
	return nil
}

// Pack writes all lines of the log in dir to w, compressed as one file. It leaves out a torn last line, which
// is no record.
func Pack(w io.Writer, dir string) error {
	z, err := jobs.NewPacker(w)
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
