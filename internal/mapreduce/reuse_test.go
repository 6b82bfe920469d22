package mapreduce

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/testenv"
)

// project is a directory that people work in: items, the files that they are made from, and a workflow.
type project struct {
	t      *testing.T
	c      Config
	rnd    *rand.Rand
	keyed  bool
	items  []string       // their ids, in order
	data   map[string]int // by id
	input  map[string]int // content of in/ID
	script int
	step   int
	value  int
	writes int

	mu     sync.Mutex
	ran    []string
	limit  int // of starts, at which the run is stopped; 0: none
	cancel context.CancelCauseFunc
	broken map[string]bool // items that fail

	jobs []*madeJob // the newest first
}

// madeJob is what the model knows of a job.
type madeJob struct {
	id      string
	settled map[string]madeItem // by identity
	whole   bool                // it completed
}

type madeItem struct {
	ok    bool
	print string // everything that its result depends on
}

func (p *project) identity(id string) string {
	if p.keyed {
		return id
	}
	return fmt.Sprint(id, " ", p.data[id])
}

func (p *project) print(id string) string {
	return fmt.Sprint(p.data[id], p.input[id], p.script, p.step, p.value)
}

// due returns the ids of the items that a run must run: all those whose result is not to be had from earlier jobs.
func (p *project) due() []string {
	var ids []string
	for _, id := range p.items {
		if !p.reusable(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (p *project) reusable(id string) bool {
	if _, err := os.Stat(filepath.Join(p.c.Dir, "out", id)); err != nil {
		return false
	}
	for _, j := range p.jobs {
		if was, ok := j.settled[p.identity(id)]; ok {
			return was.ok && was.print == p.print(id)
		}
		if j.whole {
			return false
		}
	}
	return false
}

func (p *project) write(path string, content any) {
	p.t.Helper()
	full := filepath.Join(p.c.Dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if was, err := os.ReadFile(full); err == nil && string(was) == fmt.Sprint(content) {
		return
	}
	if err := os.WriteFile(full, fmt.Append(nil, content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.writes++
	at := time.Now().Add(-time.Hour + time.Duration(p.writes)*time.Second) // long ago, so that the time is believed
	if err := os.Chtimes(full, at, at); err != nil {
		p.t.Fatal(err)
	}
}

// edit does something that people do between two runs.
func (p *project) edit() string {
	one := func() string { return p.items[p.rnd.IntN(len(p.items))] }
	switch p.rnd.IntN(11) {
	case 0:
		id := fmt.Sprint("new", len(p.data))
		p.items = slices.Insert(p.items, p.rnd.IntN(len(p.items)+1), id)
		p.data[id], p.input[id] = 0, 0
		return "add " + id
	case 1:
		if len(p.items) < 3 {
			return "nothing"
		}
		id := one()
		p.items = slices.DeleteFunc(p.items, func(other string) bool { return other == id })
		return "delete " + id
	case 2:
		id := one()
		p.data[id] = p.rnd.IntN(3)
		return "edit the data of " + id
	case 3:
		id := one()
		p.input[id] = p.rnd.IntN(3)
		return "edit the input of " + id
	case 4:
		p.script = p.rnd.IntN(3)
		return "edit the script"
	case 5:
		p.step = p.rnd.IntN(2)
		return "edit the step"
	case 6:
		p.value = p.rnd.IntN(2)
		return "edit the value"
	case 7:
		p.rnd.Shuffle(len(p.items), func(i, k int) { p.items[i], p.items[k] = p.items[k], p.items[i] })
		return "shuffle"
	case 8:
		id := one()
		_ = os.Remove(filepath.Join(p.c.Dir, "out", id))
		return "delete the output of " + id
	case 9:
		clear(p.broken)
		p.broken[one()] = true
		return "break one"
	}
	clear(p.broken)
	return "mend all"
}

// source writes the files, and returns the workflow.
func (p *project) source() string {
	p.write("scripts/a.sh", p.script)
	var list []any
	for _, id := range p.items {
		list = append(list, map[string]any{"id": id, "data": p.data[id]})
		p.write("in/"+id, p.input[id])
	}
	data, err := json.Marshal(list)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("items.json", string(data))
	key := ""
	if p.keyed {
		key = "  key: id\n"
	}
	return fmt.Sprintf(`name: w
env: {VALUE: "%d"}
map:
  max_parallel: 3
  input: items.json
  incremental: true
%s  uses: ["in/${item.id}", "scripts/*.sh"]
  produces: "out/${item.id}"
  agent_template:
    - shell: work %d ${item.id}
`, p.value, key, p.step)
}

// work is what the command of an item does.
func (p *project) work(c call) answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := c.item
	if index, ok := strings.CutPrefix(id, "item_"); ok && !p.keyed {
		n, err := strconv.Atoi(index)
		if err != nil {
			p.t.Error(err)
		}
		id = p.items[n]
	}
	p.ran = append(p.ran, id)
	if p.limit > 0 && len(p.ran) >= p.limit {
		p.cancel(errEnough)
	}
	if p.broken[id] {
		return answer{takes: time.Second, code: 1}
	}
	p.write("out/"+id, "made")
	return answer{takes: time.Second, stdout: "made " + id}
}

// run runs the workflow once, to its end or until it is stopped, and holds what ran against the model.
func (p *project) run(stopAt int) {
	p.t.Helper()
	source := p.source()
	due := p.due()
	p.ran, p.limit = nil, stopAt
	stop, cancel := context.WithCancelCause(p.t.Context())
	defer cancel(nil)
	p.cancel = cancel
	c := p.c
	c.Stop = stop
	r, err := Run(p.t.Context(), c, parse(p.t, source), []byte(source))
	if err != nil {
		p.t.Fatal(err)
	}
	for r.State == jobs.Stopped && p.rnd.IntN(2) == 0 {
		again, cancel := context.WithCancelCause(p.t.Context())
		defer cancel(nil)
		c.Stop, p.limit = again, 0
		if r, err = Resume(p.t.Context(), c, r.Job); err != nil {
			p.t.Fatal(err)
		}
	}
	made := &madeJob{id: r.Job.ID, settled: map[string]madeItem{}, whole: r.State == jobs.Completed}
	ids := map[string]string{}
	started := map[string]bool{}
	for _, rec := range recordsOf(p.t, r.Job) {
		switch e := rec.Event.(type) {
		case events.AgentReused:
			id := p.items[e.ItemIndex]
			ids[id] = "reused"
			made.settled[p.identity(id)] = madeItem{true, p.print(id)}
			if slices.Contains(due, id) {
				p.t.Errorf("item %s is taken over, and has changed", id)
			}
			if e.Output != "made "+id {
				p.t.Errorf("item %s: output %q", id, e.Output)
			}
		case events.AgentStarted:
			started[p.items[e.ItemIndex]] = true
		case events.AgentCompleted:
			id := p.items[e.ItemIndex]
			ids[id] = "run"
			made.settled[p.identity(id)] = madeItem{true, p.print(id)}
		case events.AgentFailed:
			id := p.items[e.ItemIndex]
			ids[id] = "failed"
			made.settled[p.identity(id)] = madeItem{false, ""}
		}
	}
	for id := range started {
		if !slices.Contains(due, id) {
			p.t.Errorf("item %s was run, and has not changed", id)
		}
	}
	if r.State == jobs.Completed && len(ids) != len(p.items) {
		p.t.Errorf("items with an end: %v, want %v", slices.Sorted(maps.Keys(ids)), p.items)
	}
	p.jobs = append([]*madeJob{made}, p.jobs...)
}

// Whatever people do between two runs, exactly the items run whose results may have changed.
func TestExactlyWhatMayHaveChangedRunsAgain(t *testing.T) {
	for seed := 0; seed < 200; seed += testenv.OneIn(40, 16) {
		synctest.Test(t, func(t *testing.T) {
			p := &project{
				t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 5)), keyed: seed%3 > 0, data: map[string]int{}, input: map[string]int{}, broken: map[string]bool{},
			}
			p.c = config(t, fake(p.work))
			for i := range 6 {
				id := fmt.Sprint("item", i)
				p.items = append(p.items, id)
				p.data[id], p.input[id] = i, i
			}
			var told []string
			for range 8 {
				stopAt := 0
				if p.rnd.IntN(3) == 0 {
					stopAt = 1 + p.rnd.IntN(4)
					told = append(told, fmt.Sprint("stop at ", stopAt))
				}
				p.run(stopAt)
				time.Sleep(time.Second) // the next job has another id
				if t.Failed() {
					t.Fatalf("seed %d, after: %s", seed, strings.Join(told, ", "))
				}
				for range 1 + p.rnd.IntN(2) {
					told = append(told, p.edit())
				}
			}
		})
	}
}
