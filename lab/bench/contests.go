//go:build unix

package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ohler55/ojg/jp"
	"github.com/ohler55/ojg/oj"

	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
	"prodigy/lab/try"
)

// step is what all items do where nothing else is said.
const step = "true ${item}"

var shTrue = []string{"sh", "-c", `true "$0"`}

// manySlots holds the contests of 8 slots: every peer, the three durabilities, and a step that is one program.
func manySlots(s *stage) {
	const slots = 8
	n := s.scale(10_000, 1000)
	all, missing := s.invited(n, slots)
	all = append(all, xargs(n, slots, shTrue...))
	for _, durability := range []string{"batch", "none", "strict"} {
		c := s.job("prodigy "+durability, step, n, slots, "--durability", durability)
		all = append(all, c)
	}
	took := s.compete(all...)
	p, x := took["prodigy batch"], took["xargs"]
	s.add(
		row{what: "`sh -c true`, 8 slots, throughput against xargs", must: 1.05, aim: 1.15, values: ratios(p, x, rate), absolute: both(p, x, rate, "/s")},
		row{what: "CPU time an item against xargs", must: 1.1, aim: 1, atMost: true, values: ratios(p, x, cpu), absolute: both(p, x, millis, " ms")},
		row{what: "durability batch against none", must: 0.95, aim: 0.98, values: ratios(p, took["prodigy none"], rate)},
		row{what: "durability strict against xargs", must: 0.85, aim: 0.95, values: ratios(took["prodigy strict"], x, rate)},
	)
	for _, r := range peers {
		if their := took[r.name]; their != nil {
			s.add(row{what: "throughput against " + r.name, must: r.must, aim: r.aim, values: ratios(p, their, rate), absolute: both(p, their, rate, "/s")})
		}
	}
	s.add(missing...)
	s.oneProgram(n, slots)
}

// oneProgram holds a step that is one plain external command, as people write it.
func (s *stage) oneProgram(n, slots int) {
	p := s.job("prodigy", s.noop+" ${item}", n, slots)
	bare := xargs(n, slots, s.noop)
	bare.name = "xargs without sh"
	took := s.compete(p, xargs(n, slots, "sh", "-c", s.noop+` "$0"`), bare)
	ours, theirs := took["prodigy"], took["xargs"]
	s.add(
		row{what: "one program an item, throughput against xargs with sh", must: 1.4, aim: 1.6, values: ratios(ours, theirs, rate), absolute: both(ours, theirs, rate, "/s")},
		row{what: "one program an item, throughput against xargs without sh", values: ratios(ours, took["xargs without sh"], rate), absolute: both(ours, took["xargs without sh"], rate, "/s")},
	)
}

// fewAndMany holds the contests of 2 and of 64 slots.
func fewAndMany(s *stage) {
	for _, g := range []struct {
		slots     int
		must, aim float64
	}{{2, 0.9, 1.05}, {64, 1.05, 1.15}} {
		n := s.scale(5000, 1000)
		p := s.job("prodigy", step, n, g.slots)
		took := s.compete(p, xargs(n, g.slots, shTrue...))
		ours, theirs := took["prodigy"], took["xargs"]
		s.add(row{what: fmt.Sprintf("%d slots, throughput against xargs", g.slots), must: g.must, aim: g.aim, values: ratios(ours, theirs, rate), absolute: both(ours, theirs, rate, "/s")})
	}
}

func millis(u usage) float64 { return 1000 * u.cpu }

// both shows the medians of the two.
func both(a, b []usage, of func(usage) float64, unit string) string {
	show := func(runs []usage) string {
		v := median(values(runs, of))
		if v >= 100 {
			return fmt.Sprintf("%.0f%s", v, unit)
		}
		return fmt.Sprintf("%.3g%s", v, unit)
	}
	return show(a) + ", " + show(b)
}

// startUp measures what prodigy takes to do next to nothing.
func startUp(s *stage) {
	file := s.write("small.yml", "name: small\nmap:\n  input: [1]\n  agent_template:\n    - shell: "+step+"\n")
	many := func(name string, args ...string) contestant {
		return contestant{name: name, times: s.scale(50, 20), command: func() *exec.Cmd { return command(s.prodigy, args...) }}
	}
	took := s.compete(many("version", "version"), many("validate", "validate", file))
	for _, name := range []string{"version", "validate"} {
		each := values(took[name], func(u usage) float64 { return 1000 * wall(u) })
		s.add(row{what: "`prodigy " + name + "`", unit: "ms", must: 10, aim: 6, atMost: true, values: each})
	}
}

// document writes a JSON document of about size bytes whose items are at $.items[*].
func (s *stage) document(name string, size int) string {
	path := filepath.Join(s.dir, name)
	f := try.To(os.Create(path))
	out := bufio.NewWriterSize(f, 1<<20)
	_, _ = out.WriteString(`{"version":1,"items":[`)
	for i, written := 0, 0; written < size; i++ {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		n, _ := fmt.Fprintf(out, `{"id":%d,"path":"src/module_%d/file_%d.go","tags":["a","b"],"size":%d.5,"owner":{"name":"someone","mail":"someone@example.com"}}`, i, i%100, i, i)
		written += n + 1
	}
	_, _ = out.WriteString("]}\n")
	try.Check(errors.Join(out.Flush(), f.Close()))
	return path // Flush tells what went wrong before
}

// selecting compares the selection of items from a large document with what reads it whole.
func selecting(s *stage) {
	path := s.document("select.json", s.scale(100<<20, 20<<20))
	as := func(role string) contestant {
		return contestant{name: role, command: func() *exec.Cmd { return command(s.self, "bench", "-role", role, path) }}
	}
	took := s.compete(as("select"), as("oj"))
	s.add(
		row{what: "select from 100 MB, CPU time against oj.Load and jp.Get", must: 0.2, aim: 0.167, atMost: true, values: ratios(took["select"], took["oj"], cpu), absolute: both(took["select"], took["oj"], cpu, " s")},
		row{what: "select from 100 MB, peak memory", unit: "MB", must: 32, aim: 16, atMost: true, values: values(took["select"], memory), absolute: both(took["select"], took["oj"], memory, " MB")},
	)
	try.Check(os.Remove(path))
}

// play is what the bench does in processes of its own: so is told what that takes, and so the bench itself stays small. The memory of whoever
// starts a process counts as the process's.
func play(role string, args []string) {
	switch role {
	case "select":
		some(selectItems(args[0]))
	case "oj":
		some(loadAndGet(args[0]))
	case "past":
		live(args[0], try.To(strconv.Atoi(args[1])), try.To(strconv.Atoi(args[2])))
	default:
		try.Failf("no such role: %s", role)
	}
}

func some(n int) {
	try.FailIf(n == 0, "there are no items")
}

func selectItems(path string) (n int) {
	source := "map:\n  input: " + path + "\n  json_path: $.items[*]\n  agent_template:\n    - shell: x\n"
	w := try.To(workflow.Parse("select.yml", []byte(source), workflow.ParseOptions{}))
	for _, err := range items.Select(context.Background(), w.Map, items.Env{}) {
		try.Check(err)
		n++
	}
	return n
}

func loadAndGet(path string) int {
	f := try.To(os.Open(path))
	defer func() { _ = f.Close() }()
	data := try.To(oj.Load(f))
	return len(jp.MustParseString("$.items[*]").Get(data))
}

// firstAgent looks how soon the first agent of a large input starts.
func firstAgent(s *stage) {
	path := s.document("large.json", s.scale(250<<20, 50<<20))
	file := s.write("large.yml", "name: large\nmap:\n  input: "+path+"\n  json_path: $.items[*]\n  agent_template:\n    - shell: sleep 60; true ${item.id}\n")
	r := row{what: "first agent on a 250 MB input", unit: "ms", must: 100, aim: 20, atMost: true}
	for range s.rounds {
		home := filepath.Join(s.dir, "home")
		cmd := command(s.prodigy, "run", "--quiet", "--grace", "0s", file)
		cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home)
		cmd.Stderr = nil
		began := time.Now()
		try.Check(cmd.Start())
		first := awaitEvent(cmd, home, 0)
		try.Check(os.RemoveAll(home))
		r.values = append(r.values, first.Sub(began).Seconds()*1000)
	}
	s.add(r)
	try.Check(os.Remove(path))
}

// awaitEvent interrupts a run once an agent has started behind a record of the only job in home, and returns the time of that.
func awaitEvent(cmd *exec.Cmd, home string, behind int64) time.Time {
	word := []byte(`"type":"AgentStarted"`)
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it says that it was interrupted
	}()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		logs, _ := filepath.Glob(filepath.Join(home, "events", "*", "*", "*.jsonl")) // the pattern is good
		if len(logs) == 0 {
			continue
		}
		for text := range bytes.Lines(lastBytes(logs[len(logs)-1], 64<<10)) {
			if !bytes.Contains(text, word) {
				continue
			}
			if r, err := events.Decode(text); err == nil && r.Seq > behind {
				return r.Time
			}
		}
	}
	try.Failf("no agent has started")
	return time.Time{}
}

// lastBytes returns the last n bytes of a file, or fewer if it has not so many or cannot be read now.
func lastBytes(path string, n int64) (data []byte) {
	_ = try.Catch(func() {
		f := try.To(os.Open(path))
		defer func() { _ = f.Close() }()
		size := try.To(f.Stat()).Size()
		data = make([]byte, min(n, size))
		_ = try.To(f.ReadAt(data, size-int64(len(data))))
	})
	return data
}

// past makes a job in home whose first done items have ended, one of a hundred badly, without running anything. Its steps would sleep.
func (s *stage) past(home string, total, done int) jobs.Job {
	try.Check(command(s.self, "bench", "-role", "past", home, strconv.Itoa(total), strconv.Itoa(done)).Run())
	return try.To(jobs.Home{Root: home}.Find("latest"))
}

func live(home string, total, done int) {
	source := fmt.Sprintf("name: past\nmap:\n  input: {command: \"seq %d\"}\n  max_parallel: 8\n  agent_template:\n    - shell: sleep 60; true ${item}\n", total)
	w := try.To(workflow.Parse("past.yml", []byte(source), workflow.ParseOptions{}))
	stop, halt := context.WithCancelCause(context.Background())
	defer halt(nil)
	var ran atomic.Int64
	c := mapreduce.Config{
		Home: jobs.Home{Root: home}, Dir: home, Environ: []string{"PATH=" + os.Getenv("PATH")}, Version: "bench",

		EndConfig: mapreduce.EndConfig{Stop: stop},
		LogConfig: job.LogConfig{Durability: events.None},
		RunConfig: mapreduce.RunConfig{Runner: func(context.Context, process.Command) (process.Exit, error) {
			n := ran.Add(1)
			if n == int64(done) {
				halt(errors.New("enough"))
			}
			if n%100 == 0 {
				return process.Exit{Code: 1}, nil
			}
			return process.Exit{}, nil
		}},
	}
	_ = try.To(mapreduce.Run(context.Background(), c, w, []byte(source)))
}

// readEvents reads a log of a million events.
func readEvents(s *stage) {
	home := filepath.Join(s.dir, "past")
	n := s.scale(1_000_000, 200_000)
	s.past(home, n/2, n/2)
	ask := func(name string, args ...string) contestant {
		return contestant{name: name, command: func() *exec.Cmd {
			cmd := exec.Command(s.prodigy, args...)
			cmd.Dir = home // where its jobs were started
			cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home)
			return cmd
		}}
	}
	took := s.compete(
		ask("ls", "events", "ls", "--event-type", "DLQItemAdded"), ask("search", "events", "search", "item_4321"), ask("stats", "events", "stats"),
		ask("last", "events", "ls", "--limit", "10"), ask("dlq", "dlq", "stats"), ask("status", "status", "latest"),
	)
	s.add(
		row{what: "`events ls --event-type` of " + strconv.Itoa(n) + " events, CPU time", unit: "s", must: 0.5, aim: 0.25, atMost: true, values: values(took["ls"], cpu)},
		row{what: "the same, peak memory", unit: "MB", must: 48, aim: 24, atMost: true, values: values(took["ls"], memory)},
	)
	for _, name := range []string{"search", "stats", "last", "dlq", "status"} {
		s.add(row{what: titles[name], unit: "s", values: values(took[name], cpu), absolute: fmt.Sprintf("%.3g s, %.0f MB", median(values(took[name], wall)), median(values(took[name], memory)))})
	}
	try.Check(os.RemoveAll(home))
}

var titles = map[string]string{
	"search": "`events search` for an item, CPU time", "stats": "`events stats`, CPU time", "last": "`events ls --limit 10`, CPU time",
	"dlq": "`dlq stats` of one item in a hundred, CPU time", "status": "`status`, CPU time",
}

// resuming takes a job up whose items have ended but for a tenth, and stops it as soon as it has started an agent.
func resuming(s *stage) {
	home := filepath.Join(s.dir, "resumed")
	n := s.scale(1_000_000, 100_000)
	job := s.past(home, n, n/10*9)
	r := row{what: fmt.Sprintf("resume with %d of %d done, CPU time", n/10*9, n), unit: "s", must: 1, aim: 0.4, atMost: true}
	peak := row{what: "the same, peak memory", unit: "MB", must: 48, aim: 24, atMost: true}
	for range s.rounds {
		u := s.takeUp(home, job)
		r.values, peak.values = append(r.values, u.cpu), append(peak.values, u.memory)
	}
	s.add(r, peak)
	try.Check(os.RemoveAll(home))
}

func (s *stage) takeUp(home string, job jobs.Job) usage {
	last := try.To(events.Last(job.EventsDir()))
	cmd := command(s.prodigy, "resume", "--quiet", "--grace", "0s", job.ID)
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home)
	cmd.Stderr = nil
	shrink()
	began := time.Now()
	try.Check(cmd.Start())
	awaitEvent(cmd, home, last.Seq)
	return used(cmd, time.Since(began))
}

// flatMemory runs few items and many, and compares the peaks.
func flatMemory(s *stage) {
	few, many := s.scale(10_000, 1000), s.scale(1_000_000, 10_000)
	var peaks [2]usage
	for i, n := range []int{few, many} {
		peaks[i] = s.job("memory", s.noop+" ${item}", n, 8).run()
	}
	s.add(
		row{what: fmt.Sprintf("peak memory of %d items", many), unit: "MB", must: 48, aim: 24, atMost: true, values: []float64{peaks[1].memory}},
		row{what: fmt.Sprintf("the same against %d items", few), must: 1.3, aim: 1.15, atMost: true, values: []float64{peaks[1].memory / peaks[0].memory}, absolute: strings.TrimSpace(fmt.Sprintf("%.1f MB, %.1f MB", peaks[1].memory, peaks[0].memory))},
	)
}

// keptOutputs compares jobs whose items print a line each, with and without keeping that: a few items in turn, and then a million once.
func keptOutputs(s *stage) {
	few, many := s.scale(10_000, 1000), s.scale(1_000_000, 10_000)
	pair := func(n int) (kept, not contestant) {
		return s.jobWith("outputs: {keep: all}\n", "kept", "echo line ${item}", n, 8),
			s.jobWith("outputs: {keep: none}\n", "not kept", "echo line ${item}", n, 8)
	}
	kept, not := pair(few)
	took := s.compete(kept, not)
	s.add(
		row{what: "a line printed an item, time with outputs kept against without", must: 1.15, aim: 1.05, atMost: true, values: ratios(took["kept"], took["not kept"], wall)},
		row{what: "the same, CPU time", must: 1.15, aim: 1.05, atMost: true, values: ratios(took["kept"], took["not kept"], cpu), absolute: both(took["kept"], took["not kept"], millis, " ms")},
	)
	kept, not = pair(many)
	a, b := kept.run(), not.run()
	s.add(
		row{what: fmt.Sprintf("the same of %d items, time", many), must: 1.15, aim: 1.05, atMost: true, values: []float64{wall(a) / wall(b)}, absolute: both([]usage{a}, []usage{b}, millis, " ms")},
		row{what: fmt.Sprintf("the same of %d items, peak memory", many), unit: "MB", must: 48, aim: 24, atMost: true, values: []float64{a.memory}, absolute: both([]usage{a}, []usage{b}, memory, " MB")},
	)
}
