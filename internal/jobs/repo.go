package jobs

import (
	"os"
	"path/filepath"
)

// Repo returns the {repo} part of the paths of jobs started in dir: the base name of the git top level, else of dir. Characters that a
// path cannot hold are replaced.
func Repo(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	for d := abs; ; d = filepath.Dir(d) {
		// In a linked worktree or a submodule .git is a file.
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return safeName(filepath.Base(d))
		}
		if d == filepath.Dir(d) {
			return safeName(filepath.Base(abs))
		}
	}
}
