//go:build unix

package benchfleet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dispatch has the benchmark of the package give attempts to 1,000 workers that run nothing.
func (b bench) dispatch() ([]goal, error) {
	cmd := exec.CommandContext(b.ctx, "go", "test", "./internal/natsfleet", "-run", "^$", "-bench", "^BenchmarkDispatch$", "-benchtime", "20000x", "-timeout", "10m")
	out, err := cmd.CombinedOutput()
	found := regexp.MustCompile(`([0-9.]+) attempts/s`).FindSubmatch(out)
	if err != nil || found == nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	rate, err := strconv.ParseFloat(string(found[1]), 64)
	return []goal{{"1,000 simulated workers: attempts a second", rate, 5000, true}}, err
}

// Attempts that are out when the memory of one is measured, and when the memory without them is.
const many, few = 20_000, 16

// memory measures the resident memory of coordinators.
func (b bench) memory(items int) ([]goal, error) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		return nil, errors.New("it is read from /proc, which this system has not")
	}
	least, err := b.resident(0, many, few)
	if err != nil {
		return nil, err
	}
	most, err := b.resident(0, many, many)
	if err != nil {
		return nil, err
	}
	all, err := b.resident(2, items, 0)
	if err != nil {
		return nil, err
	}
	return []goal{
		{fmt.Sprintf("%d attempts out: resident bytes of each", many), float64(most.now-least.now) * 1024 / (many - few), 2048, false},
		{fmt.Sprintf("coordinator of %d items: the most resident, MiB", items), float64(all.most) / 1024, 38, false},
	}, nil
}

// resident is the resident memory of a process in kilobytes, as Linux counts it.
type resident struct{ now, most int }

func residentOf(pid int) (r resident, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			r.now = n
		case "VmHWM":
			r.most = n
		}
	}
	return r, err
}

// resident returns what a coordinator of items takes: with workers when all are selected and a hundredth has succeeded, without when all slots
// are filled. It is stopped then.
func (b bench) resident(workers, items, slots int) (r resident, err error) {
	f, err := b.newFleet(workers, 8)
	defer f.stop()
	if err != nil {
		return r, err
	}
	text := fmt.Sprintf("mode: mapreduce\nmap:\n  input: {command: \"seq 1 %d\"}\n  agent_template: [{shell: \"true\"}]\n", items)
	if slots > 0 {
		text += fmt.Sprintf("  max_parallel: %d\n", slots)
	}
	home := filepath.Join(b.dir, fmt.Sprintf("home-%d-%d", items, slots))
	defer func() { _ = os.RemoveAll(home) }()
	file := filepath.Join(b.dir, "memory.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return r, err
	}
	cmd := b.command("run", file, "--fleet", f.url)
	cmd.Env = append(cmd.Env, "PRODIGY_HOME="+home)
	if err := cmd.Start(); err != nil {
		return r, err
	}
	var runErr error // how the run ended, once ended is closed
	ended := make(chan struct{})
	go func() {
		runErr = cmd.Wait()
		close(ended)
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	}()
	word, want := `"AgentStarted"`, min(slots, items)
	if slots == 0 {
		word, want = `"AgentCompleted"`, items/100
	}
	for {
		select {
		case <-ended:
			return r, fmt.Errorf("the run has ended by itself: %w", runErr)
		case <-b.ctx.Done():
			return r, b.ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		n, selected, err := count(home, word)
		if err != nil {
			return r, err
		}
		if n < want || !selected {
			continue
		}
		time.Sleep(2 * time.Second) // what it has begun is out by then
		return residentOf(cmd.Process.Pid)
	}
}

// count returns how often the logs below a home have a word, and whether the selection has ended.
func count(home, word string) (n int, selected bool, err error) {
	logs, err := filepath.Glob(filepath.Join(home, "events", "*", "*", "events-*.jsonl"))
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			return 0, false, err
		}
		n += strings.Count(string(data), word)
		selected = selected || strings.Contains(string(data), `"ItemsSelected"`)
	}
	return n, selected, err
}
