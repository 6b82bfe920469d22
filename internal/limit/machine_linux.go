package limit

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// CanMeasure reports whether MachineNow can measure anything here.
const CanMeasure = true

// MachineNow measures what the machine has left, on the fullest of the disks with these directories. The
// memory is that of the control group, if that has a limit below the machine's.
func MachineNow(dirs ...string) (Machine, error) {
	m := Machine{CPUs: runtime.NumCPU()}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, fmt.Errorf("measure the load: %w", err)
	}
	first, _, _ := strings.Cut(string(load), " ")
	if m.Load, err = strconv.ParseFloat(first, 64); err != nil {
		return m, fmt.Errorf("measure the load: %w", err)
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("measure the memory: %w", err)
	}
	m.MemoryTotal, m.MemoryFree = 1024*procField(string(memory), "MemTotal:"), 1024*procField(string(memory),
		"MemAvailable:")
	m.limitOfGroup()
	for i, dir := range dirs {
		var disk syscall.Statfs_t
		if err := syscall.Statfs(dir, &disk); err != nil {
			return m, fmt.Errorf("measure the disk of %s: %w", dir, err)
		}
		free, total := disk.Bavail*uint64(disk.Bsize), disk.Blocks*uint64(disk.Bsize)
		if i == 0 || free < m.DiskFree {
			m.DiskFree, m.DiskTotal = free, total
		}
	}
	return m, nil
}

// procField returns the number behind a name at the beginning of a line, or 0.
func procField(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			words := strings.Fields(rest)
			if len(words) == 0 {
				return 0
			}
			n, _ := strconv.ParseUint(words[0], 10, 64)
			return n
		}
	}
	return 0
}

// limitOfGroup lowers the memory to what the control group (version 2) of this process has left, if it has a
// limit. What the group has of files that can be read again counts as free, as it does for the machine.
func (m *Machine) limitOfGroup() {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(own)), "0::")
	if !ok {
		return
	}
	read := func(name string) string {
		data, _ := os.ReadFile("/sys/fs/cgroup" + path + "/" + name)
		return strings.TrimSpace(string(data))
	}
	limit, err := strconv.ParseUint(read("memory.max"), 10, 64)
	used, err2 := strconv.ParseUint(read("memory.current"), 10, 64)
	if err != nil || err2 != nil || limit == 0 || limit > m.MemoryTotal {
		return // "max", or no such file
	}
	used -= min(used, procField(read("memory.stat"), "inactive_file "))
	m.MemoryTotal, m.MemoryFree = limit, min(m.MemoryFree, limit-min(used, limit))
}
