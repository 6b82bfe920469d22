package job

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"prodigy/internal/jobs"
)

// Salvage is Examine, and writes what is sound to files in dir, which must be empty or not be there: job.json,
// workflow.yml, events.jsonl, items.jsonl, results.jsonl and dlq.jsonl, as far as the job has them. Lines are
// written as they are found.
func Salvage(place jobs.Job, dir string) (Examination, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Examination{}, err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return Examination{}, err
	}
	if len(there) > 0 {
		return Examination{}, fmt.Errorf("%s is not empty", dir)
	}
	files := map[string]*bufio.Writer{}
	var ends []func() error
	report, err := Examine(place, func(name string, text []byte) error {
		w := files[name]
		if w == nil {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			w = bufio.NewWriter(f)
			files[name] = w
			ends = append(ends, func() error { return errors.Join(w.Flush(), f.Sync(), f.Close()) })
		}
		_, err := w.Write(text)
		return err
	})
	for _, end := range ends {
		err = errors.Join(err, end())
	}
	return report, err
}
