//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// clockVariable names the file with the seconds by which the clock of a process is wrong.
const clockVariable = "PRODIGY_TORTURE_CLOCK"

// clock is the path of that file of a process.
func (r *round) clock(name string) string { return filepath.Join(r.dir, "clock-"+name) }

// setClock has a process be wrong about the time: behind by the skew, ahead by it, or not at all.
func (r *round) setClock(name string) error {
	text := strconv.Itoa((r.clocks.IntN(3) - 1) * int(r.skew/time.Second))
	if err := os.WriteFile(r.clock(name)+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(r.clock(name)+".new", r.clock(name))
}

// build builds what is tortured, unless it is there. With a skew all of its clocks can be wrong: what it tells the time by is another then.
func build(dir string, skew time.Duration) error {
	program := filepath.Join(dir, "prodigy")
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	args := []string{"build", "-o", program}
	if skew > 0 {
		overlay, err := wrongClock(dir)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.Command("go", append(args, "./cmd/prodigy")...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// wrongClock writes a package time whose Now is wrong by as many seconds as the file says that clockVariable names, and returns the overlay that has it. The
// file is read again and again: clocks jump.
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
		"time.go": strings.Replace(string(text), reads, reads+"\tsec += wrongBy.Load()\n", 1),
		"wrong.go": `package time

import (
	"sync/atomic"
	"syscall"
)

var wrongBy = func() *atomic.Int64 {
	var by atomic.Int64
	path, _ := syscall.Getenv("` + clockVariable + `")
	read := func() {
		file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer syscall.Close(file)
		var text [32]byte
		size, _ := syscall.Read(file, text[:])
		n := int64(0)
		for _, c := range text[:max(size, 0)] {
			if c != '-' {
				n = 10*n + int64(c-'0')
			}
		}
		if text[0] == '-' {
			n = -n
		}
		by.Store(n)
	}
	if path != "" {
		read()
		go func() {
			for {
				Sleep(200 * Millisecond)
				read()
			}
		}()
	}
	return &by
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
			r.weighOnce()
		}
	}
}

// weighOnce prints how much memory each process has, and what the brokers keep.
func (r *round) weighOnce() {
	var text strings.Builder
	weigh := func(name string, cmd *exec.Cmd) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		for line := range strings.Lines(string(status)) {
			if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				fmt.Fprintf(&text, "  %s %s", name, strings.TrimSpace(size))
			}
		}
	}
	r.mu.Lock()
	for _, u := range r.users {
		weigh(u.name, u.cmd)
	}
	for i, w := range r.workers {
		weigh(workerName(i), w)
	}
	for i, n := range r.brokers {
		weigh(brokerName(i), n.cmd)
	}
	r.mu.Unlock()
	_ = r.ask(func(ctx context.Context, js jetstream.JetStream) error {
		for s := range js.ListStreams(ctx).Info() {
			fmt.Fprintf(&text, "  %s %d in %d KB", strings.TrimPrefix(s.Config.Name, "KV_prodigy-"), s.State.Msgs, s.State.Bytes>>10)
		}
		return nil
	})
	fmt.Printf("  %s%s\n", time.Since(r.began).Round(time.Second), text.String())
}
