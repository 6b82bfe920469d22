//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// skewVariable has the seconds by which the clock of a process is wrong.
const skewVariable = "PRODIGY_TORTURE_SKEW"

// build builds what is tortured, unless it is there. With a skew all of its clocks can be wrong: what it tells the time by is another then.
func build(dir string, skew time.Duration) error {
	names := []string{"prodigy", "prodigy-fleet"}
	if !slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err != nil
	}) {
		return nil
	}
	args := []string{"build"}
	if skew > 0 {
		overlay, err := wrongClock(dir)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	for _, name := range names {
		out, err := exec.Command("go", append(args, "-o", filepath.Join(dir, name), "./cmd/"+name)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// wrongClock writes a package time whose Now is wrong by as many seconds as skewVariable says, and returns the overlay that has it.
func wrongClock(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	path := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(path, "time.go"))
	if err != nil {
		return "", err
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		return "", fmt.Errorf("time.Now of %s does not begin as it should: run with -skew 0", path)
	}
	files := map[string]string{
		"time.go": strings.Replace(string(text), reads, reads+"\tsec += wrongBy\n", 1),
		"wrong.go": `package time

import "syscall"

var wrongBy = func() (n int64) {
	text, _ := syscall.Getenv("` + skewVariable + `")
	for _, c := range text {
		if c != '-' {
			n = 10*n + int64(c-'0')
		}
	}
	if text != "" && text[0] == '-' {
		n = -n
	}
	return n
}()
`,
	}
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(path, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// processes returns the command lines of what still runs in the directory of the round a moment after all that was started there was killed.
func (r *round) processes() (left []string) {
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left = nil
		dirs, _ := filepath.Glob("/proc/[0-9]*/cwd") // none where there is no /proc
		for _, link := range dirs {
			if dir, err := os.Readlink(link); err == nil && (dir == r.dir || strings.HasPrefix(dir, r.dir+"/")) {
				line, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
				left = append(left, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
			}
		}
		if len(left) == 0 || time.Now().After(until) {
			return left
		}
	}
}

// weigh prints every minute how much memory each process has.
func (r *round) weigh(end <-chan struct{}) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		r.mu.Lock()
		list := append([]*exec.Cmd{r.job}, r.workers...)
		for _, n := range r.brokers {
			list = append(list, n.cmd)
		}
		r.mu.Unlock()
		var text strings.Builder
		for i, cmd := range list {
			name := "broker"
			switch {
			case i == 0:
				name = "run"
			case i <= workers:
				name = fmt.Sprintf("w%d", i-1)
			}
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			for line := range strings.Lines(string(status)) {
				if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
					fmt.Fprintf(&text, "  %s %s", name, strings.TrimSpace(size))
				}
			}
		}
		fmt.Printf("%s%s\n", time.Since(r.began).Round(time.Second), text.String())
	}
}
