package jobs

import (
	"os"
	"path/filepath"
)

// Project returns the directory that jobs started in dir belong to: the git top level, else dir. Symbolic
// links in it are resolved.
func Project(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	return topLevel(abs)
}

// IsCheckout reports whether dir is in a git checkout.
func IsCheckout(dir string) bool {
	_, err := os.Lstat(filepath.Join(Project(dir), ".git"))
	return err == nil
}

// Repo returns the {repo} part of the paths of jobs started in dir: the base name of the git top level, else
// of dir. Characters that a path cannot hold are replaced.
func Repo(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	return safeName(filepath.Base(topLevel(abs)))
}

// topLevel returns the git top level of an absolute path, else the path.
func topLevel(abs string) string {
	for d := abs; ; d = filepath.Dir(d) {
		// In a linked worktree or a submodule .git is a file.
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return abs
		}
	}
}

// belongs returns a function that reports whether a job belongs to a project. A job whose job.json cannot be
// read is told by the name of its repo: a damaged job must not disappear.
func belongs(project string) func(Job) bool {
	known := map[string]bool{} // by the directory of a run
	return func(j Job) bool {
		meta, err := j.ReadMeta()
		if err != nil || meta.Dir == "" {
			return j.Repo == safeName(filepath.Base(project))
		}
		yes, seen := known[meta.Dir]
		if !seen {
			yes = Project(meta.Dir) == project
			known[meta.Dir] = yes
		}
		return yes
	}
}
