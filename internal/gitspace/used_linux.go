package gitspace

import (
	"os"
	"strings"

	"prodigy/internal/check"
)

// usedElsewhere reports whether a process has its working directory in dir. Processes of other users are not seen.
func usedElsewhere(dir string) bool {
	proc, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer check.Quietly(proc.Close)
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		cwd, err := os.Readlink("/proc/" + name + "/cwd")
		if err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
			return true
		}
	}
	return false
}
