package mapreduce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// production is how the files come to be that the agents of a map phase leave: under which names, and what
// becomes of those that are not whole.
type production struct {
	atomic bool // they have other names until the attempt has succeeded
	// empty: those of an item's own are kept under another name, if they are not directories
	incomplete workflow.Incomplete
	mark       string // part of these names, so that no other job has the same
	sync       bool   // they are on disk before they get their names
}

// partialSuffix is added to the names of files that are kept though they may not be whole.
const partialSuffix = ".partial"

// newProduction returns nil when files are left as they are. With a fleet whose workers are sent files, those
// have directories of their own, and only whole files come back.
func (j *job) newProduction() *production {
	m := j.workflow.Map
	if m == nil || len(m.Produces) == 0 || j.config.Simulate != nil || j.config.OnFleet && len(m.Files) > 0 {
		return nil
	}
	p := &production{
		atomic: m.Atomic, incomplete: m.Incomplete, mark: j.place.ID[max(0, len(j.place.ID)-10):],
		sync: j.config.Durability != events.None,
	}
	if p.incomplete == "" && p.atomic {
		p.incomplete = workflow.RemoveIncomplete
	}
	if !p.atomic && p.incomplete == workflow.KeepIncomplete {
		return nil
	}
	return p
}

// written returns the name that an attempt writes a file under.
func (p *production) written(path string) string {
	if p == nil || !p.atomic {
		return path
	}
	return filepath.Join(filepath.Dir(path), partialSuffix+"-"+p.mark+"-"+filepath.Base(path))
}

// fileBefore is a file that an attempt may write, as it was when the attempt began.
type fileBefore struct {
	final, written string // full paths
	info           fs.FileInfo
}

// changed reports whether the file is there and not as it was.
func (b fileBefore) changed() bool {
	info, err := os.Lstat(b.written)
	return err == nil && (b.info == nil || info.Size() != b.info.Size() || !info.ModTime().Equal(b.info.ModTime()))
}

// beginProducing tells an attempt under which names it writes its files, and removes what an earlier one has
// left under these names.
func (j *job) beginProducing(e *attemptEnd) error {
	a := e.attempt
	if j.files == nil || j.files.produces == nil {
		return nil
	}
	paths, err := j.files.produces(a.ItemID, a.Item)
	if err != nil {
		return fmt.Errorf("produces: %w", err)
	}
	a.Produces = make([]string, len(paths))
	for i, path := range paths {
		a.Produces[i] = j.production.written(path)
	}
	if j.production == nil || a.Adopted && !j.production.atomic {
		return nil
	}
	if e.before, err = j.filesBefore(paths); err != nil || !j.production.atomic || a.Adopted {
		return err
	}
	for _, b := range e.before {
		if err := os.Remove(b.written); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("produces: %w", err)
		}
	}
	return nil
}

// filesBefore returns the files with these paths, as they are now.
func (j *job) filesBefore(paths []string) ([]fileBefore, error) {
	var all []fileBefore
	for i, path := range paths {
		if j.production.incomplete == "" && !dependsOnItem(j.workflow.Map.Produces[i]) {
			continue
		}
		final, err := j.files.files.Local(path)
		if err != nil {
			return nil, fmt.Errorf("produces: %w", err)
		}
		b := fileBefore{final: j.files.files.Full(final)}
		b.written = j.production.written(b.final)
		if b.info, err = os.Lstat(b.written); err != nil {
			b.info = nil
		}
		all = append(all, b)
	}
	return all, nil
}

// deliverProduced gives the files of an attempt that has succeeded their names. It returns what is wrong with
// them, or "". All are there before the first gets its name, and each name has the file of before or the whole
// new one at any time.
func (j *job) deliverProduced(e *attemptEnd) string {
	if j.production == nil || !j.production.atomic {
		return ""
	}
	for i, b := range e.before {
		info, err := os.Lstat(b.written)
		switch {
		case err != nil:
			return fmt.Sprintf("it did not leave %s: until the attempt has succeeded that is to be written as ${produces} ($PRODIGY_PRODUCES), here %s", b.final, e.attempt.Produces[i])
		case !info.Mode().IsRegular():
			return fmt.Sprintf("%s is no file, and atomic is for files", e.attempt.Produces[i])
		}
	}
	for _, b := range e.before {
		if err := j.production.rename(b.written, b.final); err != nil {
			return err.Error()
		}
	}
	return ""
}

// rename gives a file its name, after it is on disk.
func (p *production) rename(from, to string) error {
	if p.sync {
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
	if !p.sync {
		return nil
	}
	return jobs.SyncDir(filepath.Dir(to))
}

// dropIncomplete does what the workflow says with the files that an attempt has left which did not succeed.
func (j *job) dropIncomplete(e *attemptEnd) {
	if j.fleet != nil && e.err != nil {
		return // it may still run
	}
	for _, b := range e.before {
		if b.changed() {
			j.production.drop(b, j.notice)
		}
	}
}

func (p *production) drop(b fileBefore, notice func(string)) {
	var err error
	switch p.incomplete {
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
		notice("files of an attempt that did not succeed: " + err.Error())
	}
}

// clockSlack is how much older than the time of a write the time of a file may be.
const clockSlack = 20 * time.Millisecond

// dropInterrupted is dropIncomplete for the attempts that ran when the run before was killed. What they had
// written is told by its time.
func (j *job) dropInterrupted(attached []int) error {
	if j.production == nil || j.fleet != nil {
		return nil
	}
	still := map[int]bool{}
	for _, index := range attached {
		still[index] = true
	}
	for index, f := range j.state.Running.all() {
		if still[index] || f.Fleet || index >= j.store.Len() {
			continue
		}
		it, err := j.store.At(index)
		if err != nil {
			return fmt.Errorf("read the recorded item: %w", err)
		}
		paths, err := j.files.produces(it.ID, json.RawMessage(it.Data))
		if err != nil {
			continue // then it has not begun either
		}
		files, err := j.filesBefore(paths)
		if err != nil {
			continue
		}
		for _, b := range files {
			if b.info != nil && (j.production.atomic || !b.info.ModTime().Before(f.Began.Add(-clockSlack))) {
				j.production.drop(b, j.notice)
			}
		}
	}
	return nil
}

// checkProduction reports keys about files that agents leave, where they leave none.
func checkProduction(w *workflow.Workflow) []workflow.Problem {
	m := w.Map
	if len(m.Produces) > 0 || !m.Atomic && m.Incomplete == "" {
		return nil
	}
	return []workflow.Problem{problemAt(w, m.Pos,
		"atomic and incomplete are about the files of produces, and there are none")}
}
