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
)

// document writes a JSON document of about size bytes whose items are at $.items[*].
func (s *stage) document(name string, size int) (string, error) {
	path := filepath.Join(s.dir, name)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
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
	return path, errors.Join(out.Flush(), f.Close()) // Flush tells what went wrong before
}

// selecting compares the selection of items from a large document with what reads it whole.
func selecting(s *stage) error {
	path, err := s.document("select.json", s.scale(100<<20, 20<<20))
	if err != nil {
		return err
	}
	as := func(role string) contestant {
		return contestant{name: role, command: func() *exec.Cmd { return command(s.self, "bench", "-role", role, path) }}
	}
	took, err := s.compete(as("select"), as("oj"))
	if err != nil {
		return err
	}
	s.add(
		row{what: "select from 100 MB, CPU time against oj.Load and jp.Get", must: 0.2, aim: 0.167, atMost: true, values: ratios(took["select"], took["oj"], cpu), absolute: both(took["select"], took["oj"], cpu, " s")},
		row{what: "select from 100 MB, peak memory", unit: "MB", must: 32, aim: 16, atMost: true, values: values(took["select"], memory), absolute: both(took["select"], took["oj"], memory, " MB")},
	)
	return os.Remove(path)
}

// play is what the bench does in processes of its own: so is told what that takes, and so the bench itself stays small. The memory of whoever
// starts a process counts as the process's.
func play(role string, args []string) error {
	switch role {
	case "select":
		return some(selectItems(args[0]))
	case "oj":
		return some(loadAndGet(args[0]))
	case "past":
		total, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		done, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return live(args[0], total, done)
	}
	return errors.New("no such role: " + role)
}

func some(n int, err error) error {
	if err == nil && n == 0 {
		return errors.New("there are no items")
	}
	return err
}

func selectItems(path string) (n int, err error) {
	source := "map:\n  input: " + path + "\n  json_path: $.items[*]\n  agent_template:\n    - shell: x\n"
	w, err := workflow.Parse("select.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		return 0, err
	}
	for _, err := range items.Select(context.Background(), w.Map, items.Env{}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

func loadAndGet(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	data, err := oj.Load(f)
	if err != nil {
		return 0, err
	}
	return len(jp.MustParseString("$.items[*]").Get(data)), nil
}

// firstAgent looks how soon the first agent of a large input starts.
func firstAgent(s *stage) error {
	path, err := s.document("large.json", s.scale(250<<20, 50<<20))
	if err != nil {
		return err
	}
	file, err := s.write("large.yml", "name: large\nmap:\n  input: "+path+"\n  json_path: $.items[*]\n  agent_template:\n    - shell: sleep 60; true ${item.id}\n")
	if err != nil {
		return err
	}
	r := row{what: "first agent on a 250 MB input", unit: "ms", must: 100, aim: 20, atMost: true}
	for range s.rounds {
		home := filepath.Join(s.dir, "home")
		cmd := command(s.prodigy, "run", "--quiet", "--grace", "0s", file)
		cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home)
		cmd.Stderr = nil
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return err
		}
		first, err := awaitEvent(home, events.TypeOf(events.AgentStarted{}), 0)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it says that it was interrupted
		if err := errors.Join(err, os.RemoveAll(home)); err != nil {
			return err
		}
		r.values = append(r.values, first.Sub(began).Seconds()*1000)
	}
	s.add(r)
	return os.Remove(path)
}

// awaitEvent returns the time of the first event of a type behind a record of the only job in home, once it is written.
func awaitEvent(home, name string, behind int64) (time.Time, error) {
	word := []byte(`"type":"` + name + `"`)
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		logs, _ := filepath.Glob(filepath.Join(home, "events", "*", "*", "*.jsonl")) // the pattern is good
		if len(logs) == 0 {
			continue
		}
		tail, err := lastBytes(logs[len(logs)-1], 64<<10)
		if err != nil {
			continue
		}
		for text := range bytes.Lines(tail) {
			if !bytes.Contains(text, word) {
				continue
			}
			if r, err := events.Decode(text); err == nil && r.Seq > behind {
				return r.Time, nil
			}
		}
	}
	return time.Time{}, errors.New("no " + name + " came")
}

func lastBytes(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(n, info.Size()))
	_, err = f.ReadAt(data, info.Size()-int64(len(data)))
	return data, err
}

// past makes a job in home whose first done items have ended, one of a hundred badly, without running anything. Its steps would sleep.
func (s *stage) past(home string, total, done int) (jobs.Job, error) {
	if err := command(s.self, "bench", "-role", "past", home, strconv.Itoa(total), strconv.Itoa(done)).Run(); err != nil {
		return jobs.Job{}, err
	}
	return jobs.Home{Root: home}.Find("latest")
}

func live(home string, total, done int) error {
	source := fmt.Sprintf("name: past\nmap:\n  input: {command: \"seq %d\"}\n  max_parallel: 8\n  agent_template:\n    - shell: sleep 60; true ${item}\n", total)
	w, err := workflow.Parse("past.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		return err
	}
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
	_, err = mapreduce.Run(context.Background(), c, w, []byte(source))
	return err
}

// readEvents reads a log of a million events.
func readEvents(s *stage) error {
	home := filepath.Join(s.dir, "past")
	n := s.scale(1_000_000, 200_000)
	if _, err := s.past(home, n/2, n/2); err != nil {
		return err
	}
	ask := func(name string, args ...string) contestant {
		return contestant{name: name, command: func() *exec.Cmd {
			cmd := exec.Command(s.prodigy, args...)
			cmd.Dir = home // where its jobs were started
			cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home)
			return cmd
		}}
	}
	took, err := s.compete(
		ask("ls", "events", "ls", "--event-type", "DLQItemAdded"), ask("search", "events", "search", "item_4321"), ask("stats", "events", "stats"),
		ask("last", "events", "ls", "--limit", "10"), ask("dlq", "dlq", "stats"), ask("status", "status", "latest"),
	)
	if err != nil {
		return err
	}
	s.add(
		row{what: "`events ls --event-type` of " + strconv.Itoa(n) + " events, CPU time", unit: "s", must: 0.5, aim: 0.25, atMost: true, values: values(took["ls"], cpu)},
		row{what: "the same, peak memory", unit: "MB", must: 48, aim: 24, atMost: true, values: values(took["ls"], memory)},
	)
	for _, name := range []string{"search", "stats", "last", "dlq", "status"} {
		s.add(row{what: titles[name], unit: "s", values: values(took[name], cpu), absolute: fmt.Sprintf("%.3g s, %.0f MB", median(values(took[name], wall)), median(values(took[name], memory)))})
	}
	return os.RemoveAll(home)
}

var titles = map[string]string{
	"search": "`events search` for an item, CPU time", "stats": "`events stats`, CPU time", "last": "`events ls --limit 10`, CPU time",
	"dlq": "`dlq stats` of one item in a hundred, CPU time", "status": "`status`, CPU time",
}

// resuming takes a job up whose items have ended but for a tenth, and stops it as soon as it has started an agent.
func resuming(s *stage) error {
	home := filepath.Join(s.dir, "resumed")
	n := s.scale(1_000_000, 100_000)
	job, err := s.past(home, n, n/10*9)
	if err != nil {
		return err
	}
	r := row{what: fmt.Sprintf("resume with %d of %d done, CPU time", n/10*9, n), unit: "s", must: 1, aim: 0.4, atMost: true}
	peak := row{what: "the same, peak memory", unit: "MB", must: 48, aim: 24, atMost: true}
	for range s.rounds {
		u, err := s.takeUp(home, job)
		if err != nil {
			return err
		}
		r.values, peak.values = append(r.values, u.cpu), append(peak.values, u.memory)
	}
	s.add(r, peak)
	return os.RemoveAll(home)
}

func (s *stage) takeUp(home string, job jobs.Job) (usage, error) {
	last, err := events.Last(job.EventsDir())
	if err != nil {
		return usage{}, err
	}
	cmd := command(s.prodigy, "resume", "--quiet", "--grace", "0s", job.ID)
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home)
	cmd.Stderr = nil
	shrink()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	_, err = awaitEvent(home, events.TypeOf(events.AgentStarted{}), last.Seq)
	took := time.Since(began)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait() // it says that it was interrupted
	if err != nil {
		return usage{}, err
	}
	return used(cmd, took)
}

// flatMemory runs few items and many, and compares the peaks.
func flatMemory(s *stage) error {
	few, many := s.scale(10_000, 1000), s.scale(1_000_000, 10_000)
	var peaks [2]usage
	for i, n := range []int{few, many} {
		c, err := s.job("memory", s.noop+" ${item}", n, 8)
		if err != nil {
			return err
		}
		if peaks[i], err = c.run(); err != nil {
			return err
		}
	}
	s.add(
		row{what: fmt.Sprintf("peak memory of %d items", many), unit: "MB", must: 48, aim: 24, atMost: true, values: []float64{peaks[1].memory}},
		row{what: fmt.Sprintf("the same against %d items", few), must: 1.3, aim: 1.15, atMost: true, values: []float64{peaks[1].memory / peaks[0].memory}, absolute: strings.TrimSpace(fmt.Sprintf("%.1f MB, %.1f MB", peaks[1].memory, peaks[0].memory))},
	)
	return nil
}

// keptOutputs compares jobs whose items print a line each, with and without keeping that: a few items in turn, and then a million once.
func keptOutputs(s *stage) error {
	few, many := s.scale(10_000, 1000), s.scale(1_000_000, 10_000)
	pair := func(n int) (kept, not contestant, err error) {
		kept, err = s.jobWith("outputs: {keep: all}\n", "kept", "echo line ${item}", n, 8)
		if err == nil {
			not, err = s.jobWith("outputs: {keep: none}\n", "not kept", "echo line ${item}", n, 8)
		}
		return kept, not, err
	}
	kept, not, err := pair(few)
	if err != nil {
		return err
	}
	took, err := s.compete(kept, not)
	if err != nil {
		return err
	}
	s.add(
		row{what: "a line printed an item, time with outputs kept against without", must: 1.15, aim: 1.05, atMost: true, values: ratios(took["kept"], took["not kept"], wall)},
		row{what: "the same, CPU time", must: 1.15, aim: 1.05, atMost: true, values: ratios(took["kept"], took["not kept"], cpu), absolute: both(took["kept"], took["not kept"], millis, " ms")},
	)
	if kept, not, err = pair(many); err != nil {
		return err
	}
	a, err := kept.run()
	if err != nil {
		return err
	}
	b, err := not.run()
	if err != nil {
		return err
	}
	s.add(
		row{what: fmt.Sprintf("the same of %d items, time", many), must: 1.15, aim: 1.05, atMost: true, values: []float64{wall(a) / wall(b)}, absolute: both([]usage{a}, []usage{b}, millis, " ms")},
		row{what: fmt.Sprintf("the same of %d items, peak memory", many), unit: "MB", must: 48, aim: 24, atMost: true, values: []float64{a.memory}, absolute: both([]usage{a}, []usage{b}, memory, " MB")},
	)
	return nil
}
