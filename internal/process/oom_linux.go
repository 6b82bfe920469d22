package process

import (
	"os"
	"path/filepath"
	"strings"
)

// oomCounts returns the files that may have the count of the processes killed for lack of memory, the best
// first: memory.events of the control group (version 2) of this process, and that of the machine.
func oomCounts() (paths []string) {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			paths = append(paths, filepath.Join("/sys/fs/cgroup", group, "memory.events"))
		}
	}
	return append(paths, "/proc/vmstat")
}
