package gitspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
)

// workspace is a directory with a checkout and a repository of its own. It is used by one attempt after another.
//
// Beside it is its seal: the index as it was when the workspace was clean, with its time, by which git sees
// which files have changed since. A workspace without a seal is made anew. The seal is taken away before
// anything is changed and written last.
type workspace struct {
	name   string
	worker int // slot; 0 if it belongs to no slot
	dir    string
	seal   string
}

// workspace returns the workspace of a name, which need not be there yet.
func (s *Space) workspace(name string, worker int) workspace {
	dir := filepath.Join(s.WorkDir, name)
	return workspace{name: name, worker: worker, dir: dir, seal: dir + ".index"}
}

func (w workspace) gitDir() string { return filepath.Join(w.dir, ".git") }

// place is for commands of this package in the workspace.
func (s *Space) in(w workspace) place {
	env := append(s.record.Identity.environ(), "GIT_DIR="+w.gitDir(), "GIT_WORK_TREE="+w.dir)
	return place{git: &s.git, dir: w.dir, env: env}
}

// start returns the directory in which commands begin, and makes it when the commit does not have it.
func (s *Space) start(w workspace) (string, error) {
	prefix := filepath.Clean(filepath.FromSlash(s.record.Prefix))
	err := within(w.dir, func(root *os.Root) error { return root.MkdirAll(prefix, 0o777) })
	return filepath.Join(w.dir, prefix), err
}

// setupFailed is a setup of a workspace that failed, as an outcome.
type setupFailed struct{ outcome agent.Outcome }

func (e *setupFailed) Error() string { return e.outcome.Failure.Message }

// prepare makes the workspace clean, at a commit. With a branch that is what HEAD is on, else HEAD is detached.
func (s *Space) prepare(ctx context.Context, w workspace, base, branch string) error {
	if exists(w.dir) || exists(w.seal) {
		err := s.reuse(ctx, w, base, branch)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.discard(w); err != nil {
			return err
		}
		s.Emit(w.worker, events.WorktreeCleaned{Worker: w.worker, Reason: err.Error()})
	}
	return s.create(ctx, w, base, branch)
}

// create makes a new workspace, and runs the setup in it.
func (s *Space) create(ctx context.Context, w workspace, base, branch string) error {
	began := time.Now()
	err := os.Mkdir(w.dir, 0o777)
	if err == nil {
		err = os.CopyFS(w.gitDir(), os.DirFS(s.templateDir()))
	}
	if err == nil {
		err = s.checkOut(ctx, w, base, branch)
	}
	if err == nil && len(s.Policy.Setup) > 0 {
		if err := s.setUp(ctx, w, base, branch); err != nil {
			return err
		}
	}
	if err == nil {
		err = s.sealAt(w)
	}
	if err != nil {
		return fmt.Errorf("create a workspace: %w", err)
	}
	took := events.Millis(time.Since(began))
	s.Emit(w.worker, events.WorktreeCreated{Worker: w.worker, Base: base, DurationMS: took})
	return nil
}

// setUp runs the setup, and removes what it left and is not to be kept: the first attempt finds what all others find.
func (s *Space) setUp(ctx context.Context, w workspace, base, branch string) error {
	dir, err := s.start(w)
	if err != nil {
		return err
	}
	o, err := s.Run(ctx, "setup", dir, base, w.worker)
	if err != nil {
		return err
	}
	if o.Failure != nil {
		failure := *o.Failure
		failure.Step = "workspace.setup/" + failure.Step
		o.Failure = &failure
		return errors.Join(&setupFailed{o}, s.discard(w))
	}
	if err := s.sealAt(w); err != nil {
		return err
	}
	return s.reuse(ctx, w, base, branch)
}

// sealAt seals a workspace that is clean at a commit.
func (s *Space) sealAt(w workspace) error {
	if err := copyWithTime(w.index(), w.seal); err != nil {
		return err
	}
	s.sealed.Store(w.name, w.indexSum())
	return nil
}

func (w workspace) index() string { return filepath.Join(w.gitDir(), "index") }

// indexSum identifies what the index of a workspace holds; it is zero for one that cannot be read.
func (w workspace) indexSum() [sha256.Size]byte {
	data, err := os.ReadFile(w.index())
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(data)
}

// asSealed reports whether the index of a workspace that this process has sealed is as it was then.
func (s *Space) asSealed(w workspace) bool {
	sum, known := s.sealed.Load(w.name)
	return known && sum == w.indexSum()
}

// reuse makes a workspace clean that others have used. After an error it is not to be used.
func (s *Space) reuse(ctx context.Context, w workspace, base, branch string) error {
	if !isDir(w.dir) {
		return errors.New("it is no longer a directory")
	}
	if !exists(w.seal) {
		return errors.New("its creation or cleanup was interrupted")
	}
	if usedElsewhere(w.dir) {
		return errors.New("a leftover process of the previous attempt is using it")
	}
	taken := w.seal + ".taken"
	if err := os.Rename(w.seal, taken); err != nil {
		return err
	}
	if err := os.Chmod(w.dir, 0o777&^s.umask); err != nil {
		return err
	}
	s.sealed.Delete(w.name)
	if err := s.sweep(w.dir); err != nil {
		return err
	}
	if err := removeAll(w.gitDir()); err != nil {
		return err
	}
	if err := os.CopyFS(w.gitDir(), os.DirFS(s.templateDir())); err != nil {
		return err
	}
	if err := os.Rename(taken, w.index()); err != nil {
		return err
	}
	// First everything goes that the index does not have and that is not to be kept. A checkout takes a file for
	// unchanged that is seen through a link to its old directory.
	clean := []string{"clean", "-q", "-ffdx"}
	for _, pattern := range s.Policy.Keep {
		clean = append(clean, "-e", pattern)
	}
	if err := s.in(w).do(ctx, clean...); err != nil {
		return err
	}
	if err := s.checkOut(ctx, w, base, branch); err != nil {
		return err
	}
	if err := s.emptySubmodules(ctx, w); err != nil {
		return err
	}
	return s.sealAt(w)
}

// checkOut makes the tracked files those of a commit, whatever is there.
func (s *Space) checkOut(ctx context.Context, w workspace, base, branch string) error {
	args := []string{"checkout", "-q", "-f", "--detach", base}
	if branch != "" {
		args = []string{"checkout", "-q", "-f", "-B", branch, base}
	}
	return s.in(w).do(ctx, args...)
}

// emptySubmodules empties the directories of submodules: their repositories were in the .git that is gone.
func (s *Space) emptySubmodules(ctx context.Context, w workspace) error {
	if !exists(filepath.Join(w.dir, submodulesFile)) {
		return nil
	}
	names, err := s.submodules(ctx, w)
	if err != nil || len(names) == 0 {
		return err
	}
	return within(w.dir, func(root *os.Root) error {
		for _, name := range names {
			if err := root.RemoveAll(name); err != nil {
				return err
			}
			if err := root.MkdirAll(name, 0o777); err != nil {
				return err
			}
		}
		return nil
	})
}

// submodulesFile names the submodules of a repository. Without it there are none.
const submodulesFile = ".gitmodules"

// submodules returns the directories of the submodules that the index of a workspace has.
func (s *Space) submodules(ctx context.Context, w workspace) (names []string, err error) {
	out, err := s.in(w).output(ctx, "ls-files", "-s", "-z")
	for _, field := range fields(out) {
		if entry, is := strings.CutPrefix(field, gitlinkMode+" "); is {
			_, name, _ := strings.Cut(entry, "\t")
			names = append(names, name)
		}
	}
	return names, err
}

// sweep removes what git does not see: pipes, sockets, devices, repositories, and changed permissions. Directories
// that are kept are not looked at.
func (s *Space) sweep(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case name == filepath.Join(dir, ".git"):
			return fs.SkipDir
		case strings.EqualFold(entry.Name(), ".git"): // git never cleans it, and whoever works beside it would work in another repository
			if err := removeAll(name); err != nil || !entry.IsDir() {
				return err
			}
			return fs.SkipDir
		case entry.IsDir(), entry.Type().IsRegular():
			kept := name != dir && s.keeps(filepath.ToSlash(name[len(dir)+1:]))
			if kept && entry.IsDir() {
				return fs.SkipDir
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			want := 0o666 &^ s.umask
			if entry.IsDir() || info.Mode()&0o100 != 0 {
				want = 0o777 &^ s.umask
			}
			switch {
			case kept, info.Mode().Perm() == want:
			case entry.IsDir():
				return os.Chmod(name, want)
			default:
				// git does not see that permissions were changed in the same instant in which it wrote the file. It
				// writes it again: to change them here would change those of every other name of the file.
				return os.Remove(name)
			}
		case entry.Type() != fs.ModeSymlink:
			return os.Remove(name)
		}
		return nil
	})
}

// keeps reports whether a file or directory is surely kept. It understands the patterns that have no ** in them.
func (s *Space) keeps(name string) bool {
	return slices.ContainsFunc(s.Policy.Keep, func(pattern string) bool {
		pattern = strings.TrimSuffix(pattern, "/")
		if rooted, is := strings.CutPrefix(pattern, "/"); is || strings.Contains(pattern, "/") {
			is, _ := path.Match(rooted, name)
			return is
		}
		is, _ := path.Match(pattern, path.Base(name))
		return is
	})
}

// discard deletes a workspace. It is renamed first, so that nothing takes a half deleted one for a workspace.
func (s *Space) discard(w workspace) error {
	for _, name := range [...]string{w.seal, w.seal + ".taken", w.seal + ".tmp", w.moving()} {
		if err := check.Unless(os.Remove(name), fs.ErrNotExist); err != nil {
			return err
		}
	}
	if !exists(w.dir) {
		return nil
	}
	trash := w.dir + ".trash-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	err := os.Rename(w.dir, trash)
	if err == nil {
		err = removeAll(trash)
	}
	if err != nil {
		return fmt.Errorf("delete a workspace: %w", err)
	}
	return nil
}
