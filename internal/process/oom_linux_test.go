package process

import (
	"slices"
	"testing"
)

func TestOOMFiles(t *testing.T) {
	for groups, want := range map[string][]string{
		"":             {"/proc/vmstat"},
		"0::/user/x\n": {"/sys/fs/cgroup/user/x/memory.events", "/proc/vmstat"},
		"9:name=systemd:/\n4:memory:/x\n1:cpu:/\n0::/\n": {
			"/sys/fs/cgroup/memory/x/memory.oom_control", "/sys/fs/cgroup/memory.events", "/proc/vmstat",
		},
	} {
		if got := oomFiles(groups); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", groups, got, want)
		}
	}
}
