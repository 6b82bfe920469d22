//go:build unix

package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fleet is a broker with workers, all on this machine.
type fleet struct {
	stage *stage
	url   string
	all   []*exec.Cmd
}

func (s *stage) newFleet(workers, slots int) (*fleet, error) {
	f := &fleet{stage: s}
	store, err := os.MkdirTemp(s.dir, "store-")
	if err != nil {
		return f, err
	}
	// A run that is weighed has a home of its own, so the broker has to let in any.
	f.url, err = f.start("--join", "broker", "--listen", "127.0.0.1:0", "--store", store, "--insecure")
	for i := 0; i < workers && err == nil; i++ {
		_, err = f.start("takes attempts", "worker", "--join", f.url, "--name", fmt.Sprint("w", i), "--slots", strconv.Itoa(slots))
	}
	return f, err
}

// start starts a program and returns what follows a word that it says when it is ready.
func (f *fleet) start(word string, args ...string) (string, error) {
	cmd := f.stage.inHome("workers", args...)
	cmd.Stderr = nil
	said, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	f.all = append(f.all, cmd)
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), word); ok {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("%v does not start", args)
}

// stop ends all of it and returns what it has taken.
func (f *fleet) stop() (sum usage, err error) {
	slices.Reverse(f.all) // the broker last
	for _, cmd := range f.all {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it says that it was interrupted
		u, usageErr := used(cmd, 0)
		sum, err = sum.plus(u), errors.Join(err, usageErr)
	}
	return sum, err
}

// inHome returns a command whose jobs are in a home of that name.
func (s *stage) inHome(home string, args ...string) *exec.Cmd {
	cmd := command(s.prodigy, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+filepath.Join(s.dir, home), "PRODIGY_FLEET=", "GOGC=")
	return cmd
}

// load is what is run by the pool of one process, and by a fleet of two workers or of one.
type load struct {
	name    string
	items   int
	command string
	workers int
	slots   int // of each worker
}

// onPool runs the first n items of a load, on the fleet that flags name, if any.
func (s *stage) onPool(l load, n int, flags ...string) (usage, error) {
	text := "map:\n  max_parallel: %d\n  input: {command: \"seq 1 %d\"}\n  agent_template: [{shell: %q}]\n"
	file, err := s.write("fleet.yml", fmt.Sprintf(text, l.workers*l.slots, n, l.command))
	if err != nil {
		return usage{}, err
	}
	return measure(s.inHome("runs", append([]string{"run", "--quiet", file}, flags...)...))
}

// onFleet runs them on a fleet that is made for that. The CPU time is that of all its processes, from their beginning to their end.
func (s *stage) onFleet(l load, n int) (u usage, err error) {
	f, err := s.newFleet(l.workers, l.slots)
	defer func() {
		rest, stopErr := f.stop()
		u.cpu, err = u.cpu+rest.cpu, errors.Join(err, stopErr)
	}()
	if err != nil {
		return u, err
	}
	if _, err := s.onPool(l, 1, "--fleet", f.url); err != nil { // which makes the streams of the broker
		return u, err
	}
	return s.onPool(l, n, "--fleet", f.url)
}

// marginal returns what each item of a load takes beside one of a single item: the start of a job, and of a fleet, is no
// part of it.
func marginal(l load, run func(load, int) (usage, error)) (usage, error) {
	all, err := run(l, l.items)
	if err != nil {
		return usage{}, err
	}
	one, err := run(l, 1)
	return usage{all.seconds - one.seconds, all.cpu - one.cpu, all.memory}.per(l.items - 1), err
}

// fleetItems compares fleets with the pool.
func fleetItems(s *stage) error {
	items := s.scale(2000, 400)
	pool := func(l load, n int) (usage, error) { return s.onPool(l, n) }
	measured := func(l load) (ours, theirs []usage, err error) {
		for range s.rounds {
			p, err := marginal(l, pool)
			if err != nil {
				return nil, nil, err
			}
			f, err := marginal(l, s.onFleet)
			if err != nil {
				return nil, nil, err
			}
			ours, theirs = append(ours, f), append(theirs, p)
		}
		return ours, theirs, nil
	}
	for _, l := range []load{
		{"trivial items, 16 slots", items, "true", 2, 8},
		{"items of 50 ms, 16 slots", items / 4, "sleep 0.05", 2, 8},
		{"trivial items, one at a time", items / 4, "true", 1, 1},
	} {
		f, p, err := measured(l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		share := row{what: "fleet, " + l.name + ": throughput against the pool", values: ratios(f, p, rate), absolute: both(f, p, rate, "/s")}
		work := row{what: "fleet, " + l.name + ": CPU time against the pool", values: ratios(f, p, cpu), absolute: both(f, p, millis, " ms")}
		switch {
		case l.workers == 1:
			each := values(f, func(u usage) float64 { return 1000 * wall(u) })
			s.add(row{what: "fleet, " + l.name, unit: "ms", must: 1.8, atMost: true, values: each})
			continue
		case l.command == "true":
			share.must, work.must, work.atMost = 0.8, 1.35, true
			s.add(share, work)
		default:
			share.must = 0.97
			s.add(share)
		}
	}
	return nil
}

// fleetDispatch runs the benchmark of the package, which gives attempts to 1,000 workers that run nothing.
func fleetDispatch(s *stage) error {
	out, err := exec.Command("go", "test", "./internal/natsfleet", "-run", "^$", "-bench", "^BenchmarkDispatch$", "-benchtime", "20000x").CombinedOutput()
	found := regexp.MustCompile(`([0-9.]+) attempts/s`).FindSubmatch(out)
	if err != nil || found == nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	s.add(row{what: "fleet, 1,000 simulated workers", unit: "attempts/s", must: 5000, values: []float64{n}})
	return err
}

// fleetMemory measures the resident memory of coordinators.
func fleetMemory(s *stage) error {
	const many, few = 20_000, 16 // attempts that are out
	n := s.scale(1_000_000, 50_000)
	least, err := s.resident(0, many, few)
	if err != nil {
		return err
	}
	most, err := s.resident(0, many, many)
	if err != nil {
		return err
	}
	all, err := s.resident(2, n, 0)
	if err != nil {
		return err
	}
	each := float64(most.now-least.now) * 1024 / (many - few)
	s.add(
		row{what: fmt.Sprintf("fleet, %d attempts out: resident memory of each", many), unit: "B", must: 3072, atMost: true, values: []float64{each}},
		row{what: fmt.Sprintf("fleet, coordinator of %d items: the most resident memory", n), unit: "MiB", must: 38, atMost: true, values: []float64{float64(all.most) / 1024}},
	)
	return nil
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

// resident returns what a coordinator of n items takes: with workers when all are selected and a hundredth has succeeded,
// without when all slots are filled. It is stopped then.
func (s *stage) resident(workers, n, slots int) (r resident, err error) {
	f, err := s.newFleet(workers, 8)
	defer func() {
		_, stopErr := f.stop()
		err = errors.Join(err, stopErr)
	}()
	if err != nil {
		return r, err
	}
	text := fmt.Sprintf("map:\n  input: {command: \"seq 1 %d\"}\n  agent_template: [{shell: \"true\"}]\n", n)
	name, behind := `"AgentCompleted"`, n/100
	if slots > 0 {
		text += fmt.Sprintf("  max_parallel: %d\n", slots)
		name, behind = `"AgentStarted"`, min(slots, n)
	}
	file, err := s.write("memory.yml", text)
	if err != nil {
		return r, err
	}
	home := fmt.Sprintf("coordinator-%d-%d", n, slots)
	defer func() { _ = os.RemoveAll(filepath.Join(s.dir, home)) }()
	cmd := s.inHome(home, "run", "--quiet", file, "--fleet", f.url)
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return r, fmt.Errorf("the run has ended by itself: %w", err)
		case <-time.After(500 * time.Millisecond):
		}
		if found, selected, err := count(filepath.Join(s.dir, home), name); err != nil || found >= behind && selected {
			time.Sleep(2 * time.Second) // what it has begun is out by then
			r, statusErr := residentOf(cmd.Process.Pid)
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if waitErr := <-ended; waitErr == nil {
				statusErr = errors.Join(statusErr, errors.New("the run has ended by itself"))
			}
			return r, errors.Join(err, statusErr)
		}
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
