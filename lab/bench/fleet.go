//go:build unix

package bench

import (
	"bufio"
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

	"prodigy/lab/try"
)

// fleet is a broker with workers, all on this machine.
type fleet struct {
	stage *stage
	url   string
	all   []*exec.Cmd
}

// onFleetOf calls do with a fleet that is made for that, and returns what the processes of that took.
func (s *stage) onFleetOf(workers, slots int, do func(f *fleet)) usage {
	f := &fleet{stage: s}
	err := try.Catch(func() {
		f.begin(workers, slots)
		do(f)
	})
	sum := f.stop()
	try.Check(err)
	return sum
}

func (f *fleet) begin(workers, slots int) {
	s := f.stage
	store := try.To(os.MkdirTemp(s.dir, "store-"))
	// A run that is weighed has a home of its own, so the broker has to let in any.
	f.url = f.start("--join", "broker", "--listen", "127.0.0.1:0", "--store", store, "--insecure")
	for i := range workers {
		f.start("accepts attempts", "worker", "--join", f.url, "--name", fmt.Sprint("w", i), "--slots", strconv.Itoa(slots))
	}
}

// start starts a program and returns what follows a word that it says when it is ready.
func (f *fleet) start(word string, args ...string) string {
	cmd := f.stage.inHome("workers", args...)
	cmd.Stderr = nil
	said := try.To(cmd.StderrPipe())
	try.Check(cmd.Start())
	f.all = append(f.all, cmd)
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), word); ok {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return strings.TrimSpace(rest)
		}
	}
	try.Failf("%v does not start", args)
	return ""
}

// stop ends all of it and returns what it has taken.
func (f *fleet) stop() (sum usage) {
	slices.Reverse(f.all) // the broker last
	for _, cmd := range f.all {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it says that it was interrupted
		sum = sum.plus(used(cmd, 0))
	}
	return sum
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
func (s *stage) onPool(l load, n int, flags ...string) usage {
	text := "map:\n  max_parallel: %d\n  input: {command: \"seq 1 %d\"}\n  agent_template: [{shell: %q}]\n"
	file := s.write("fleet.yml", fmt.Sprintf(text, l.workers*l.slots, n, l.command))
	return measure(s.inHome("runs", append([]string{"run", "--quiet", file}, flags...)...))
}

// onFleet runs them on a fleet that is made for that. The CPU time is that of all its processes, from their beginning to their end.
func (s *stage) onFleet(l load, n int) (u usage) {
	rest := s.onFleetOf(l.workers, l.slots, func(f *fleet) {
		s.onPool(l, 1, "--fleet", f.url) // which makes the streams of the broker
		u = s.onPool(l, n, "--fleet", f.url)
	})
	u.cpu += rest.cpu
	return u
}

// marginal returns what each item of a load takes beside one of a single item: the start of a job, and of a fleet, is no
// part of it.
func marginal(l load, run func(load, int) usage) usage {
	all, one := run(l, l.items), run(l, 1)
	return usage{all.seconds - one.seconds, all.cpu - one.cpu, all.memory}.per(l.items - 1)
}

// fleetItems compares fleets with the pool.
func fleetItems(s *stage) {
	items := s.scale(2000, 400)
	pool := func(l load, n int) usage { return s.onPool(l, n) }
	for _, l := range []load{
		{"trivial items, 16 slots", items, "true", 2, 8},
		{"items of 50 ms, 16 slots", items / 4, "sleep 0.05", 2, 8},
		{"trivial items, one at a time", items / 4, "true", 1, 1},
	} {
		var f, p []usage
		for range s.rounds {
			p = append(p, marginal(l, pool))
			f = append(f, marginal(l, s.onFleet))
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
}

// fleetDispatch runs the benchmark of the package, which gives attempts to 1,000 workers that run nothing.
func fleetDispatch(s *stage) {
	out := try.Run(exec.Command("go", "test", "./internal/natsfleet", "-run", "^$", "-bench", "^BenchmarkDispatch$", "-benchtime", "20000x"))
	found := regexp.MustCompile(`([0-9.]+) attempts/s`).FindStringSubmatch(out)
	try.FailIf(found == nil, "no attempts/s: %s", out)
	n := try.To(strconv.ParseFloat(found[1], 64))
	s.add(row{what: "fleet, 1,000 simulated workers", unit: "attempts/s", must: 5000, values: []float64{n}})
}

// fleetMemory measures the resident memory of coordinators.
func fleetMemory(s *stage) {
	const many, few = 20_000, 16 // attempts that are out
	n := s.scale(1_000_000, 50_000)
	least := s.resident(0, many, few)
	most := s.resident(0, many, many)
	all := s.resident(2, n, 0)
	each := float64(most.now-least.now) * 1024 / (many - few)
	s.add(
		row{what: fmt.Sprintf("fleet, %d attempts out: resident memory of each", many), unit: "B", must: 3072, atMost: true, values: []float64{each}},
		row{what: fmt.Sprintf("fleet, coordinator of %d items: the most resident memory", n), unit: "MiB", must: 38, atMost: true, values: []float64{float64(all.most) / 1024}},
	)
}

// resident is the resident memory of a process in kilobytes, as Linux counts it.
type resident struct{ now, most int }

func residentOf(pid int) (r resident) {
	data := try.To(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))
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
	return r
}

// resident returns what a coordinator of n items takes: with workers when all are selected and a hundredth has succeeded,
// without when all slots are filled. It is stopped then.
func (s *stage) resident(workers, n, slots int) (r resident) {
	s.onFleetOf(workers, 8, func(f *fleet) { r = s.residentOn(f, n, slots) })
	return r
}

func (s *stage) residentOn(f *fleet, n, slots int) (r resident) {
	text := fmt.Sprintf("map:\n  input: {command: \"seq 1 %d\"}\n  agent_template: [{shell: \"true\"}]\n", n)
	name, behind := `"AgentCompleted"`, n/100
	if slots > 0 {
		text += fmt.Sprintf("  max_parallel: %d\n", slots)
		name, behind = `"AgentStarted"`, min(slots, n)
	}
	file := s.write("memory.yml", text)
	home := fmt.Sprintf("coordinator-%d-%d", n, slots)
	defer func() { _ = os.RemoveAll(filepath.Join(s.dir, home)) }()
	cmd := s.inHome(home, "run", "--quiet", file, "--fleet", f.url)
	try.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			try.Failf("the run has ended by itself: %w", err)
		case <-time.After(500 * time.Millisecond):
		}
		if found, selected := count(filepath.Join(s.dir, home), name); found >= behind && selected {
			time.Sleep(2 * time.Second) // what it has begun is out by then
			r := residentOf(cmd.Process.Pid)
			_ = cmd.Process.Signal(syscall.SIGTERM)
			try.FailIf(<-ended == nil, "the run has ended by itself")
			return r
		}
	}
}

// count returns how often the logs below a home have a word, and whether the selection has ended.
func count(home, word string) (n int, selected bool) {
	for _, log := range try.To(filepath.Glob(filepath.Join(home, "events", "*", "*", "events-*.jsonl"))) {
		data := try.To(os.ReadFile(log))
		n += strings.Count(string(data), word)
		selected = selected || strings.Contains(string(data), `"ItemsSelected"`)
	}
	return n, selected
}
