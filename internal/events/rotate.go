package events

import (
	"path/filepath"
	"time"
)

// rotate begins the next file when the lines that are to be written would make the current one too large. The old one is
// on disk before that, whatever the durability: only the newest file of a log may lack its end.
func (w *writer) rotate(now time.Time) error {
	if w.size == 0 || w.size+int64(w.lines.lines.Len()) <= w.limit() {
		return nil
	}
	if err := w.await(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if len(w.unsynced) > 0 {
		if err := w.settle(w.file, w.claim()); err != nil {
			return err
		}
	}
	full := w.file.Name()
	next, err := w.next(nextPath(filepath.Dir(full), full, now))
	if err != nil {
		return err
	}
	err = w.file.Close()
	w.file, w.size = next, 0
	if err != nil {
		return err
	}
	w.log.group.Go(func() error { return compress(full) })
	return nil
}

func (w *writer) limit() int64 {
	if most := w.log.options.MaxFileSize; most > 0 {
		return most
	}
	return maxFileSize
}
