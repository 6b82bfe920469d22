package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// removedPrefix begins the name of the state directory of a job that is being removed. No id begins with it,
// so that from then on there is no such job.
const removedPrefix = ".removed-"

// Remove deletes all files of the job, whose lock the caller holds, and releases the lock. A crash leaves the
// whole job, or files that List does not find and FinishRemovals deletes.
func (j Job) Remove(lock *Lock) error {
	if runtime.GOOS == "windows" {
		// What is open cannot be renamed there. Nor can it when somebody else takes the lock meanwhile.
		if err := lock.Unlock(); err != nil {
			return fmt.Errorf("remove job %s: %w", j.ID, err)
		}
	}
	repo := filepath.Dir(j.StateDir())
	err := os.Rename(j.StateDir(), filepath.Join(repo, removedPrefix+j.ID))
	if err == nil {
		err = SyncDir(repo)
	}
	if err == nil {
		err = j.finishRemoval()
	}
	if err = errors.Join(err, lock.Unlock()); err != nil {
		return fmt.Errorf("remove job %s: %w", j.ID, err)
	}
	return nil
}

// Discard deletes a job that could not be started. Nothing of it has run, and its id has not been printed.
func (j Job) Discard() error {
	var errs []error
	for _, dir := range j.dirs(j.StateDir()) {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// finishRemoval ends with the directory that says that there is something left to do.
func (j Job) finishRemoval() error {
	state := filepath.Join(filepath.Dir(j.StateDir()), removedPrefix+j.ID)
	for _, dir := range j.dirs(state) {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// FinishRemovals deletes what interrupted removals have left.
func (h Home) FinishRemovals() error {
	all, err := h.stateDirs()
	if err != nil {
		return fmt.Errorf("remove jobs: %w", err)
	}
	for _, j := range all {
		id, removed := strings.CutPrefix(j.ID, removedPrefix)
		if !removed || sortKey(id) == "" {
			continue
		}
		j.ID = id
		if err := j.finishRemoval(); err != nil {
			return fmt.Errorf("remove job %s: %w", id, err)
		}
	}
	return nil
}

// Size returns the bytes of all files of the job. It does not follow links.
func (j Job) Size() (size int64, err error) {
	for _, dir := range j.dirs(j.StateDir()) {
		walked := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				size += info.Size()
			}
			return err
		})
		if !errors.Is(walked, fs.ErrNotExist) {
			err = errors.Join(err, walked)
		}
	}
	return size, err
}
