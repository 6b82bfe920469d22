//go:build unix

package torture

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// leftovers returns the living processes with the mark of the round in their environment. Only Linux tells.
func (r *round) leftovers() []int {
	var found []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(data, []byte(r.mark+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// endLeftovers kills them all, also those that are just being started by another.
func (r *round) endLeftovers() {
	for pids := r.leftovers(); len(pids) > 0; pids = r.leftovers() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// watchers returns those of the leftovers that prodigy has started to look after its agents.
func (r *round) watchers() (found []int) {
	for _, pid := range r.leftovers() {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && bytes.Contains(line, []byte("\x00end-leftovers\x00")) {
			found = append(found, pid)
		}
	}
	return found
}

// killWatchers kills them, if they are there yet.
func (r *round) killWatchers() {
	for _, pid := range r.watchers() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// lingering is how long what is to be gone may be there on the slowest machine. An agent that hangs does so for longer.
const lingering = time.Minute

// alive waits for the end of all leftovers, and returns those that do not come to it.
func (r *round) alive() []int {
	for end := time.Now().Add(lingering); ; time.Sleep(25 * time.Millisecond) {
		if pids := r.leftovers(); len(pids) == 0 || time.Now().After(end) {
			return pids
		}
	}
}
