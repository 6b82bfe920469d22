package jobs

import (
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"prodigy/internal/check"
)

// Home is the root of all files of prodigy.
type Home struct {
	Root    string
	Project string // limits List and the latest job to the jobs of a [Project], unless it is empty
	Running bool   // the latest job is the latest of those that run, if any does
}

// FromEnv returns $PRODIGY_HOME, made absolute, or ~/.prodigy.
func FromEnv() (Home, error) {
	if root := os.Getenv("PRODIGY_HOME"); root != "" {
		abs, err := filepath.Abs(root)
		return Home{Root: abs}, err
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return Home{}, fmt.Errorf("cannot find a directory for jobs; set PRODIGY_HOME: %w", err)
	}
	return Home{Root: filepath.Join(user, ".prodigy")}, nil
}

// maxTries is how many ids Create tries before it gives up. There are 1296 per millisecond.
const maxTries = 1000

// Create makes the directories of a new job (mode 0700). Mode is "mapreduce" or "standard". Ids sort by time
// and are unique within a home, even for jobs started in the same millisecond. Characters of repo that a path
// cannot hold are replaced.
func (h Home) Create(repo, mode string, now time.Time) (Job, error) {
	repo = safeName(repo)
	for range maxTries {
		job := Job{ID: newID(mode, now, rand.N(suffixes)), Repo: repo, home: h}
		claimed, err := h.claim(job)
		if err != nil {
			return Job{}, fmt.Errorf("create the job: %w", err)
		}
		if claimed {
			if err := job.makeDirs(); err != nil {
				return Job{}, fmt.Errorf("create the job: %w", errors.Join(err, job.Discard()))
			}
			return job, nil
		}
	}
	return Job{}, errors.New("create the job: too many jobs started in the same millisecond")
}

// claim makes the state directory of a job, which reserves its id, and reports false if the id was taken. If
// two processes claim the same id in different repos at once, at least one of them notices and gives way.
func (h Home) claim(job Job) (bool, error) {
	if err := MakeDirs(filepath.Dir(job.StateDir())); err != nil {
		return false, err
	}
	err := os.Mkdir(job.StateDir(), 0o700)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := h.places(job.ID)
	if err != nil || n > 1 {
		return false, errors.Join(err, os.Remove(job.StateDir()))
	}
	return true, nil
}

// places returns the number of repos that have a job with this id.
func (h Home) places(id string) (int, error) {
	repos, err := subdirs(filepath.Join(h.Root, "state"))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, repo := range repos {
		_, err := os.Lstat(filepath.Join(h.Root, "state", repo, id))
		if err == nil {
			n++
		} else if !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
	}
	return n, nil
}

// makeDirs makes the other directories of a job, and syncs the name of its state directory.
func (j Job) makeDirs() error {
	for _, dir := range j.dirs(j.OutputsDir()) {
		if err := MakeDirs(dir); err != nil {
			return err
		}
	}
	return SyncDir(filepath.Dir(j.StateDir()))
}

// subdirs returns the names of the directories in dir, sorted; none when dir is not there.
func subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, check.Unless(err, os.ErrNotExist)
}

// stateDirs returns the directories of states of all repos, each as that of a job, whatever its name is.
func (h Home) stateDirs() (all []Job, err error) {
	root := filepath.Join(h.Root, "state")
	repos, err := subdirs(root)
	for _, repo := range repos {
		names, err := subdirs(filepath.Join(root, repo))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, Job{ID: name, Repo: repo, home: h})
		}
	}
	return all, err
}

// FingerprintKey returns the key of the fingerprints of secrets, which is made when it is first wanted.
// Whoever reads a fingerprint cannot find the secret by trying values without it.
func (h Home) FingerprintKey() ([]byte, error) {
	path := filepath.Join(h.Root, "fingerprint.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == keySize || err != nil && !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	key = make([]byte, keySize)
	_, _ = cryptorand.Read(key) // it never fails
	// When another process is first, its key is the one.
	if err := check.Unless(WriteNew(path, key), os.ErrExist); err != nil {
		return nil, fmt.Errorf("create the fingerprint key: %w", err)
	}
	return os.ReadFile(path)
}

const keySize = 32

// Once reports whether this is the first call with that name in the home, and remembers it there.
func (h Home) Once(name string) bool {
	f, err := os.OpenFile(filepath.Join(h.Root, name), os.O_CREATE|os.O_EXCL, 0o600)
	return err == nil && f.Close() == nil
}
