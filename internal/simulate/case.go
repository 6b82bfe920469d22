package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/spend"
)

// Cases are the cases of a test file: what is to become of a workflow.
type Cases struct {
	Workflow string // path of the workflow, relative to the file. Without it, the name of the file says which
	Cases    []Case
}

// Case is one simulated job, and what is expected of it.
type Case struct {
	Name        string
	Line        int
	Items       []json.RawMessage // by default those of the workflow
	ItemsFile   string            // relative to the test file
	Params      []string          // as NAME=VALUE
	Args        []string          // for each of which a standard workflow runs
	Env         []string          // as NAME=VALUE, besides the inherited ones
	Profile     string
	MaxParallel int
	Seed        int
	At          string // when the job begins
	Script      Script
	expect      expectation
}

// expectation is what is expected. What is not written may be anything.
type expectation struct {
	exit     *int
	state    string
	reason   string // that the reason contains
	items    map[string]string
	counts   map[string]*numbers
	letters  map[string]string // error types of dead letters, by item. It is nil if they are not written
	retries  *numbers
	starts   *numbers
	openings *numbers
	min, max time.Duration
	agents   *numbers // runs of AI agents
	conflict *numbers // of merges
	cheapest *spend.USD
	dearest  *spend.USD
	events   []expectedEvent
}

// numbers is a range of whole numbers.
type numbers struct{ least, most int }

func (n numbers) String() string {
	if n.least == n.most {
		return strconv.Itoa(n.least)
	}
	return fmt.Sprintf("%d to %d", n.least, n.most)
}

// expectedEvent is an event of the log that has to come, after those expected before it.
type expectedEvent struct {
	name   string
	fields map[string]string
}

func (e expectedEvent) String() string {
	var text strings.Builder
	text.WriteString(e.name)
	for _, key := range slices.Sorted(maps.Keys(e.fields)) {
		text.WriteString(" " + key + "=" + e.fields[key])
	}
	return text.String()
}

// ParseCases reads a test file. The error is a *workflow.InvalidError.
func ParseCases(file string, data []byte) (Cases, error) {
	r := &reader{file: file}
	var all Cases
	if root := r.load(data); root != nil {
		r.fields(root, "the file", r.text("workflow", &all.Workflow), field{"cases", func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				r.fail(n, "cases: want a list")
				return
			}
			r.list(n, func(n *yaml.Node) { all.Cases = append(all.Cases, r.oneCase(n)) })
		}})
		if len(all.Cases) == 0 && len(r.problems) == 0 {
			r.fail(root, "there are no cases")
		}
	}
	names := map[string]bool{}
	for _, c := range all.Cases {
		if names[c.Name] {
			r.fail(&yaml.Node{Line: c.Line}, "there are two cases named %q", c.Name)
		}
		names[c.Name] = true
	}
	return all, r.err()
}

func (r *reader) oneCase(n *yaml.Node) Case {
	c := Case{Line: n.Line, Seed: 1}
	known := append([]field{
		r.text("name", &c.Name),
		{"items", func(n *yaml.Node) { c.Items = r.values("items", n) }},
		r.text("items_file", &c.ItemsFile),
		r.pairs("params", &c.Params),
		r.texts("args", &c.Args),
		r.pairs("env", &c.Env),
		r.text("profile", &c.Profile),
		r.integer("max_parallel", 1, 1_000_000, &c.MaxParallel),
		r.integer("seed", 1, 1<<31, &c.Seed),
		r.text("at", &c.At),
		{"expect", func(n *yaml.Node) { r.expectation(n, &c.expect) }},
	}, c.Script.fields(r)...)
	r.fields(n, "a case", known...)
	if c.Name == "" {
		r.fail(n, "a case needs a name")
	}
	if c.Items != nil && c.ItemsFile != "" {
		r.fail(n, "items and items_file exclude each other")
	}
	return c
}

// values reads a list of values as JSON.
func (r *reader) values(name string, n *yaml.Node) []json.RawMessage {
	all := []json.RawMessage{}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "%s: want a list", name)
		return all
	}
	for _, each := range n.Content {
		var v any
		err := each.Decode(&v)
		var data []byte
		if err == nil {
			data, err = json.Marshal(v)
		}
		if err != nil {
			r.fail(each, "%s: %v", name, err)
			continue
		}
		all = append(all, data)
	}
	return all
}

// pairs reads a mapping of names to values as NAME=VALUE. A list or a mapping is written as JSON.
func (r *reader) pairs(name string, to *[]string) field {
	return field{name, func(n *yaml.Node) {
		r.mapping(name, n, func(key string, value *yaml.Node) {
			text := value.Value
			if value.Kind != yaml.ScalarNode {
				for _, v := range r.values(name, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{value}}) {
					text = string(v)
				}
			}
			*to = append(*to, key+"="+text)
		})
	}}
}

// mapping calls read with each key of a mapping whose keys the file chooses.
func (r *reader) mapping(name string, n *yaml.Node, read func(key string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s: want a mapping", name)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		read(n.Content[i].Value, resolved(n.Content[i+1]))
	}
}

// word checks that a text is one of these words.
func (r *reader) word(name string, n *yaml.Node, known ...string) string {
	if n.Kind != yaml.ScalarNode || !slices.Contains(known, n.Value) {
		r.fail(n, "%s: unknown word %q%s", name, n.Value, check.Hint(n.Value, known, check.OneOf(known)))
	}
	return n.Value
}

// numbers reads a whole number or a range of them, as in 3-5.
func (r *reader) numbers(name string, to **numbers) field {
	return field{name, func(n *yaml.Node) {
		first, last, ranged := strings.Cut(n.Value, "-")
		var is numbers
		var err error
		if is.least, err = strconv.Atoi(first); err == nil {
			is.most = is.least
			if ranged {
				is.most, err = strconv.Atoi(last)
			}
		}
		if n.Kind != yaml.ScalarNode || err != nil || is.most < is.least {
			r.fail(n, "%s: want a whole number, or a range of them as in 3-5", name)
		}
		*to = &is
	}}
}

func (r *reader) dollars(name string, to **spend.USD) field {
	return field{name, func(n *yaml.Node) {
		f, err := dollars().parse(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			r.fail(n, "%s: write an amount of US dollars, as in $12.40", name)
		}
		*to = new(spend.FromFloat(f))
	}}
}

// itemStates are what can be expected of an item.
var itemStates = []string{"success", "failed", "skipped", "rejected", "pending"}

func (r *reader) expectation(n *yaml.Node, e *expectation) {
	r.fields(n, "expect",
		field{"exit", func(n *yaml.Node) {
			e.exit = new(int)
			r.integer("exit", 0, 255, e.exit).read(n)
		}},
		field{"state", func(n *yaml.Node) {
			e.state = r.word("state", n, string(mapreduce.Completed), string(mapreduce.Failed),
				string(mapreduce.Paused))
		}},
		r.text("reason", &e.reason),
		field{"items", func(n *yaml.Node) {
			e.items = map[string]string{}
			r.mapping("items", n, func(id string, value *yaml.Node) {
				e.items[id] = r.word("items", value, itemStates...)
			})
		}},
		field{"counts", func(n *yaml.Node) {
			e.counts = map[string]*numbers{}
			var known []field
			for _, name := range []string{"items", "successful", "failed", "skipped", "rejected"} {
				known = append(known, field{name, func(n *yaml.Node) {
					var count *numbers
					r.numbers(name, &count).read(n)
					e.counts[name] = count
				}})
			}
			r.fields(n, "counts", known...)
		}},
		field{"dead_letters", func(n *yaml.Node) {
			e.letters = map[string]string{}
			if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
				return
			}
			r.mapping("dead_letters", n, func(id string, value *yaml.Node) { e.letters[id] = value.Value })
		}},
		r.numbers("starts", &e.starts),
		r.numbers("retries", &e.retries),
		r.numbers("breaker_openings", &e.openings),
		field{"duration", func(n *yaml.Node) {
			if n.Kind == yaml.ScalarNode {
				r.duration("duration", &e.max).read(n)
				e.min = e.max
				return
			}
			r.fields(n, "duration", r.duration("min", &e.min), r.duration("max", &e.max))
		}},
		r.numbers("agents", &e.agents),
		r.numbers("conflicts", &e.conflict),
		field{"cost", func(n *yaml.Node) {
			if n.Kind == yaml.ScalarNode {
				r.dollars("cost", &e.dearest).read(n)
				e.cheapest = e.dearest
				return
			}
			r.fields(n, "cost", r.dollars("min", &e.cheapest), r.dollars("max", &e.dearest))
		}},
		field{"events", func(n *yaml.Node) {
			r.list(n, func(n *yaml.Node) { e.events = append(e.events, r.event(n)) })
		}},
	)
}

// event reads an expected event: its type, or a mapping of type and fields.
func (r *reader) event(n *yaml.Node) expectedEvent {
	e := expectedEvent{fields: map[string]string{}}
	at := n
	if n.Kind == yaml.MappingNode {
		r.mapping("events", n, func(key string, value *yaml.Node) {
			if key == "type" {
				at, e.name = value, value.Value
				return
			}
			e.fields[key] = value.Value
		})
	} else {
		e.name = n.Value
	}
	name, err := events.TypeNamed(e.name)
	if err != nil {
		r.fail(at, "events: %v", err)
	}
	e.name = name
	return e
}

// Observer takes the records of the job of a case, for what is expected of it. The zero Observer has seen none.
type Observer struct {
	statuses map[string]string
	letters  map[string]retry.Type
	next     int // the expected event that has not come yet
}

// Watch adds records.
func (o *Observer) Watch(c *Case, records []events.Record) error {
	if o.statuses == nil {
		o.statuses, o.letters = map[string]string{}, map[string]retry.Type{}
	}
	for _, r := range records {
		switch e := r.Event.(type) {
		case events.AgentCompleted:
			o.statuses[e.ItemID] = "success"
			if e.Commit != "" { // it has succeeded when that is merged
				o.statuses[e.ItemID] = "pending"
			}
		case events.WorktreeMerged:
			for _, id := range e.ItemIDs {
				o.statuses[id] = "success"
			}
		case events.AgentFailed:
			if o.statuses[e.ItemID] = "pending"; e.RetryAt == nil {
				o.statuses[e.ItemID] = e.Status().Result()
				if e.Rejected() {
					o.statuses[e.ItemID] = "rejected"
				}
			}
			if e.Status().DeadLetter() {
				o.letters[e.ItemID] = e.ErrorType
			}
		}
		if o.next < len(c.expect.events) {
			is, err := c.expect.events[o.next].is(r.Event)
			if err != nil {
				return err
			}
			if is {
				o.next++
			}
		}
	}
	return nil
}

// is reports whether an event is the expected one.
func (e expectedEvent) is(event events.Event) (bool, error) {
	if events.TypeOf(event) != e.name || len(e.fields) == 0 {
		return events.TypeOf(event) == e.name, nil
	}
	data, err := json.Marshal(event)
	if err != nil {
		return false, err
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		return false, err
	}
	for key, want := range e.fields {
		if v, ok := got[key]; !ok || fmt.Sprint(v) != want {
			return false, nil
		}
	}
	return true, nil
}

// Check returns how the job of a case differs from what is expected, a line each.
func (o *Observer) Check(c *Case, exit int, result mapreduce.Result, tally *Tally) []string {
	e := c.expect
	var wrong []string
	differ := func(what string, got, want any) {
		wrong = append(wrong, fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
	if e.exit != nil && *e.exit != exit {
		differ("exit", exit, *e.exit)
	}
	if e.state != "" && e.state != string(result.State) {
		differ("state", string(result.State), e.state)
	}
	if !strings.Contains(result.Reason, e.reason) {
		differ("reason", strconv.Quote(result.Reason), strconv.Quote(e.reason)+" in it")
	}
	for _, id := range slices.Sorted(maps.Keys(e.items)) {
		got, known := o.statuses[id]
		if !known {
			got = "pending"
		}
		if got != e.items[id] {
			differ("item "+id, got, e.items[id])
		}
	}
	wrong = append(wrong, e.checkCounts(result.Metrics)...)
	if e.letters != nil {
		for _, id := range slices.Sorted(maps.Keys(e.letters)) {
			switch got, is := o.letters[id]; {
			case !is:
				wrong = append(wrong, fmt.Sprintf("dead letter %s: there is none, want %s", id, e.letters[id]))
			case string(got) != e.letters[id] && e.letters[id] != "any":
				differ("dead letter "+id, string(got), e.letters[id])
			}
		}
		for _, id := range slices.Sorted(maps.Keys(o.letters)) {
			if _, wanted := e.letters[id]; !wanted {
				wrong = append(wrong, fmt.Sprintf("dead letter %s: got %s, want none", id, o.letters[id]))
			}
		}
	}
	for _, n := range []struct {
		what string
		got  int
		want *numbers
	}{
		{"starts", tally.Attempts, e.starts},
		{
			"retries", tally.ItemRetries + tally.StepRetries,
			e.retries,
		},
		{"breaker_openings", tally.Opened(), e.openings},
		{"agents", result.Spent.Agents, e.agents},
		{"conflicts", tally.Conflicts, e.conflict},
	} {
		if n.want != nil && (n.got < n.want.least || n.got > n.want.most) {
			differ(n.what, n.got, *n.want)
		}
	}
	took := result.Duration.Round(time.Millisecond)
	if took < e.min {
		differ("duration", duration.Format(took), "at least "+duration.Format(e.min))
	}
	if e.max > 0 && took > e.max {
		differ("duration", duration.Format(took), "at most "+duration.Format(e.max))
	}
	spent := result.Spent
	if e.cheapest != nil && spent.Cost < *e.cheapest {
		differ("cost", spent.CostText(), "at least "+e.cheapest.String())
	}
	if e.dearest != nil && (spent.Cost > *e.dearest || spent.Unknown > 0) {
		differ("cost", spent.CostText(), "at most "+e.dearest.String())
	}
	if o.next < len(e.events) {
		after := "at all"
		if o.next > 0 {
			after = "after " + e.events[o.next-1].String()
		}
		wrong = append(wrong, fmt.Sprintf("events: %s did not come %s", e.events[o.next], after))
	}
	return wrong
}

func (e expectation) checkCounts(m errorpolicy.Metrics) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(e.counts)) {
		got := map[string]int{
			"items": m.TotalItems, "successful": m.Successful, "failed": m.Failed,
			"skipped": m.Skipped, "rejected": m.Rejected,
		}[name]
		if want := e.counts[name]; got < want.least || got > want.most {
			wrong = append(wrong, fmt.Sprintf("%s: got %d, want %s", name, got, *want))
		}
	}
	return wrong
}
