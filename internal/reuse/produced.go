package reuse

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// partialSuffix is added to the names of files that are kept though they may not be whole.
const partialSuffix = ".partial"

// written returns the name that an attempt writes a file under.
func (f *Files) written(path string) string {
	if !f.atomic {
		return path
	}
	mark := f.JobID[max(0, len(f.JobID)-10):] // so that no other job has the same name
	return filepath.Join(filepath.Dir(path), partialSuffix+"-"+mark+"-"+filepath.Base(path))
}

// changed reports whether the file is there and not as it was.
func (b fileBefore) changed() bool {
	info, err := os.Lstat(b.written)
	return err == nil && (b.info == nil || info.Size() != b.info.Size() || !info.ModTime().Equal(b.info.ModTime()))
}

// begin tells an attempt under which names it writes its files, and removes what an earlier one has
// left under these names. It returns the files as they are.
func (f *Files) begin(a *agent.Attempt) ([]fileBefore, error) {
	if f.produces == nil {
		return nil, nil
	}
	paths, err := f.produces(a.ItemID, a.Item)
	if err != nil {
		return nil, fmt.Errorf("produces: %w", err)
	}
	a.Produces = check.Each(paths, f.written)
	if !f.handled || a.Adopted && !f.atomic {
		return nil, nil
	}
	before, err := f.before(paths)
	if err != nil || !f.atomic || a.Adopted {
		return before, err
	}
	for _, b := range before {
		if err := check.Unless(os.Remove(b.written), fs.ErrNotExist); err != nil {
			return before, fmt.Errorf("produces: %w", err)
		}
	}
	return before, nil
}

// before returns the files with these paths, as they are now.
func (f *Files) before(paths []string) ([]fileBefore, error) {
	var all []fileBefore
	for i, path := range paths {
		if f.incomplete == "" && !dependsOnItem(f.products[i]) {
			continue
		}
		final, err := f.dir.Local(path)
		if err != nil {
			return nil, fmt.Errorf("produces: %w", err)
		}
		b := fileBefore{final: f.dir.Full(final)}
		b.written = f.written(b.final)
		if b.info, err = os.Lstat(b.written); err != nil {
			b.info = nil
		}
		all = append(all, b)
	}
	return all, nil
}

// deliver gives the files of an attempt that has succeeded their names. It returns what is wrong with
// them, or "". All are there before the first gets its name, and each name has the file of before or the whole
// new one at any time.
func (f *Files) deliver(a *agent.Attempt, before []fileBefore) string {
	if !f.atomic {
		return ""
	}
	for i, b := range before {
		info, err := os.Lstat(b.written)
		switch {
		case err != nil:
			return fmt.Sprintf("it did not create %s: commands must write to ${produces} ($PRODIGY_PRODUCES), here %s", b.final, a.Produces[i])
		case !info.Mode().IsRegular():
			return fmt.Sprintf("%s is not a file, and atomic is for files only", a.Produces[i])
		}
	}
	for _, b := range before {
		if err := f.rename(b.written, b.final); err != nil {
			return err.Error()
		}
	}
	return ""
}

// rename gives a file its name, after it is on disk.
func (f *Files) rename(from, to string) error {
	if f.Sync {
		file, err := os.OpenFile(from, os.O_RDWR, 0)
		if err != nil { // it may be read-only
			file, err = os.Open(from)
		}
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if !f.Sync {
		return nil
	}
	return jobs.SyncDir(filepath.Dir(to))
}

// Drop does what the workflow says with the files that an attempt has left which did not succeed.
func (f *Files) Drop(t Attempt) {
	for _, b := range t.before {
		if b.changed() {
			f.drop(b)
		}
	}
}

// drop removes a file that may not be whole, or gives it another name.
func (f *Files) drop(b fileBefore) {
	var err error
	switch f.incomplete {
	case workflow.RemoveIncomplete:
		err = os.RemoveAll(b.written)
	case workflow.PartialIncomplete:
		err = errors.Join(os.RemoveAll(b.final+partialSuffix), os.Rename(b.written, b.final+partialSuffix))
	default:
		if info, e := os.Lstat(b.written); e == nil && !info.IsDir() { // other items may have files in a directory
			err = os.Rename(b.written, b.final+partialSuffix)
		}
	}
	if err != nil {
		f.Notice("files of failed attempts: " + err.Error())
	}
}

// clockSlack is how much older than the time of a write the time of a file may be.
const clockSlack = 20 * time.Millisecond

// DropInterrupted is Drop for an attempt at an item that ran when the run before was killed. What it had written is
// told by its time.
func (f *Files) DropInterrupted(it items.Item, began time.Time) {
	paths, err := f.produces(it.ID, json.RawMessage(it.Data))
	if err != nil {
		return // then it has not begun either
	}
	files, err := f.before(paths)
	if err != nil {
		return
	}
	for _, b := range files {
		if b.info != nil && (f.atomic || !b.info.ModTime().Before(began.Add(-clockSlack))) {
			f.drop(b)
		}
	}
}

// Drops reports whether something is done with files of attempts that do not succeed.
func (f *Files) Drops() bool { return f != nil && f.handled }

// Attempt is what is known of the files of an attempt.
type Attempt struct {
	events.ItemFiles // as they were when the attempt began

	// before are the files that the attempt may leave, as they were when it began. It is nil if they stay as they are.
	before []fileBefore
}

// Begin notes the files that an attempt begins with, and tells it under which names it leaves its own.
func (f *Files) Begin(a *agent.Attempt) (t Attempt, err error) {
	if f == nil || a.ItemID == "" {
		return t, nil
	}
	if t.before, err = f.begin(a); err != nil || f.Simulated {
		return t, err
	}
	t.Uses, err = f.used(a.ItemID, a.Item, nil)
	if a.Adopted {
		err = nil // it has begun, and its end is wanted in any case
		for i := range t.Uses {
			t.Uses[i] = events.File{Path: t.Uses[i].Path}
		}
	}
	return t, err
}

// End notes which of the files have changed since an attempt began that has succeeded, and gives those that it has
// left their names. It returns what is wrong if it did not leave what it should.
func (f *Files) End(a *agent.Attempt, t *Attempt) (wrong string) {
	if f == nil || a.ItemID == "" || f.Simulated {
		return ""
	}
	t.Uses = f.dir.Since(t.Uses)
	if wrong := f.deliver(a, t.before); wrong != "" {
		return wrong
	}
	produced, missing, err := f.produced(a.ItemID, a.Item)
	switch {
	case err != nil:
		return err.Error()
	case missing != "":
		return "it did not create " + missing
	}
	t.Produced = produced
	return ""
}
