package process

import (
	"os"
	"path/filepath"
	"strings"
)

// oomCounts returns the files that may have the count of the processes killed for lack of memory, the best
// first: memory.events of control groups of version 2, memory.oom_control of version 1, each of the group of
// this process, or at the top where the group is hidden; then that of the machine.
func oomCounts() (paths []string) {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			paths = append(paths, filepath.Join("/sys/fs/cgroup", parts[2], "memory.events"))
		case parts[1] == "memory":
			const top = "/sys/fs/cgroup/memory"
			paths = append(
				paths, filepath.Join(top, parts[2], "memory.oom_control"), filepath.Join(top, "memory.oom_control"),
			)
		}
	}
	return append(paths, "/proc/vmstat")
}
