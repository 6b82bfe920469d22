package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// Cases are the cases of a test file: what is to become of a workflow.
type Cases struct {
	// The path of the workflow, relative to the file. Without it, the name of the file says which.
	Workflow string `yaml:"workflow"`

	Cases []Case `yaml:"cases" list:"cases" element:"a case"`
}

// Case is one simulated job, and what is expected of it.
type Case struct {
	Name        string            `yaml:"name"`
	Items       []json.RawMessage `yaml:"items"`      // by default those of the workflow
	ItemsFile   string            `yaml:"items_file"` // relative to the test file
	Params      Values            `yaml:"params"`
	Args        []string          `yaml:"args"` // for each of which a standard workflow runs
	Env         Values            `yaml:"env"`  // besides the inherited variables
	Profile     string            `yaml:"profile"`
	MaxParallel int               `yaml:"max_parallel" range:"1 1000000"`
	Seed        int               `yaml:"seed" range:"1 2147483648"`
	At          string            `yaml:"at"` // when the job begins
	Expect      expectation       `yaml:"expect"`
	Pos         workflow.Pos
	Script
}

// Values are the values of parameters or variables, by name.
type Values map[string]string

// Assignments returns them as NAME=VALUE.
func (v Values) Assignments() (all []string) {
	for name, value := range check.ByKey(v) {
		all = append(all, name+"="+value)
	}
	return all
}

// expectation is what is expected. What is not written may be anything.
type expectation struct {
	Exit   *int              `yaml:"exit" range:"0 255"`
	State  jobs.State        `yaml:"state"`
	Reason string            `yaml:"reason"` // that the reason contains
	Items  map[string]string `yaml:"items"`
	Counts counts            `yaml:"counts"`

	// Error types of dead letters, by item. It is nil if they are not written.
	Letters map[string]string `yaml:"dead_letters"`

	Retries  *numbers              `yaml:"retries"`
	Starts   *numbers              `yaml:"starts"`
	Openings *numbers              `yaml:"breaker_openings"`
	Duration bounds[time.Duration] `yaml:"duration"`
	Agents   *numbers              `yaml:"agents"`    // runs of AI agents
	Conflict *numbers              `yaml:"conflicts"` // of merges
	Cost     bounds[dollars]       `yaml:"cost"`
	Events   []expectedEvent       `yaml:"events"` // those of the log that have to come, in this order
}

// counts are the numbers of items that end so.
type counts struct {
	Items      *numbers `yaml:"items"`
	Successful *numbers `yaml:"successful"`
	Failed     *numbers `yaml:"failed"`
	Skipped    *numbers `yaml:"skipped"`
	Rejected   *numbers `yaml:"rejected"`
}

// bounds are a least and a greatest value, or one that is both.
type bounds[T cmp.Ordered] struct {
	Exact *T `short:"true"`
	Min   *T `yaml:"min"`
	Max   *T `yaml:"max"`
}

// missed returns what was wanted of a value that lies outside the bounds, in words, or "".
func (b bounds[T]) missed(got T, word func(T) string) string {
	least, most := cmp.Or(b.Exact, b.Min), cmp.Or(b.Exact, b.Max)
	switch {
	case least != nil && got < *least:
		return "at least " + word(*least)
	case most != nil && got > *most:
		return "at most " + word(*most)
	}
	return ""
}

// dollars is an amount of US dollars, also of none.
type dollars limit.USD

// ReadText reads an amount.
func (d *dollars) ReadText(text string) error {
	f, err := quantityOf[limit.USD]().parse(text)
	if *d = dollars(f); err != nil {
		return check.Want("an amount of US dollars, such as $12.40")
	}
	return nil
}

// numbers is a range of whole numbers.
type numbers struct{ least, most int }

// ReadText reads a whole number or a range of them, as in 3-5.
func (n *numbers) ReadText(text string) (err error) {
	n.least, n.most, err = fromTo(text)
	if err != nil || n.most < n.least {
		return check.Want("an integer or a range such as 3-5")
	}
	return nil
}

// String returns the range as it is written in a message.
func (n numbers) String() string {
	if n.least == n.most {
		return strconv.Itoa(n.least)
	}
	return fmt.Sprintf("%d to %d", n.least, n.most)
}

// expectedEvent has the type of an event, and fields of it.
type expectedEvent map[string]string

const eventType = "type"

// ReadText reads an event of which only the type is expected.
func (e *expectedEvent) ReadText(text string) error {
	*e = expectedEvent{eventType: text}
	return nil
}

// String returns the type of the event and its expected fields, sorted by name.
func (e expectedEvent) String() string {
	words := []string{e[eventType]}
	for key, value := range check.ByKey(e) {
		if key != eventType {
			words = append(words, key+"="+value)
		}
	}
	return strings.Join(words, " ")
}

// ParseCases reads a test file. The error is a *workflow.InvalidError.
func ParseCases(file string, data []byte) (all Cases, err error) {
	err = workflow.Read(file, "the file", data, &all)
	return all, err
}

// Check finds what is wrong with all.
func (all *Cases) Check(found *check.Findings) {
	found.Require(len(all.Cases) > 0, "", "no test cases")
	names := map[string]bool{}
	for i, c := range all.Cases {
		found.Require(!names[c.Name], "cases."+strconv.Itoa(i), "duplicate case name %q", c.Name)
		names[c.Name] = true
	}
}

// SetDefaults sets the seed of a case that names none.
func (c *Case) SetDefaults() { c.Seed = 1 }

// Check finds what is wrong with c.
func (c *Case) Check(found *check.Findings) {
	found.Require(c.Name != "", "", "a case needs a name")
	found.Require(c.Items == nil || c.ItemsFile == "", "", "items and items_file cannot be used together")
}

// itemStates are what can be expected of an item.
var itemStates = strings.Fields("success failed skipped rejected pending")

// Check finds what is wrong with e. It puts the types of events in the place of other spellings.
func (e *expectation) Check(found *check.Findings) {
	if e.State == "paused" { // as test files of earlier versions have it
		e.State = jobs.Stopped
	}
	requireWord(found, "state", "state: unknown word", string(e.State),
		check.Words(jobs.Completed, jobs.Failed, jobs.Stopped))
	for id, state := range e.Items {
		requireWord(found, "items."+id, "items: unknown word", state, itemStates)
	}
	for i, event := range e.Events {
		name, err := events.TypeNamed(event[eventType])
		found.Require(err == nil, fmt.Sprintf("events.%d.%s", i, eventType), "events: %v", err)
		event[eventType] = name
	}
}

// Observer takes the records of the job of a case, for what is expected of it. The zero Observer has seen none.
type Observer struct {
	statuses map[string]view.Status // of items that have an outcome, by id
	letters  map[string]retry.Type  // of the failures of dead letters, by the id of the item
	next     int                    // the expected event that has not come yet
}

// Watch adds records.
func (o *Observer) Watch(c *Case, records []events.Record) error {
	if o.statuses == nil {
		o.statuses, o.letters = map[string]view.Status{}, map[string]retry.Type{}
	}
	for _, r := range records {
		for item, status := range events.Settled(r.Event) {
			o.statuses[item.ID] = view.StatusOf(status)
		}
		if end, ok := events.EndOf(r.Event); ok && end.Status().DeadLetter() {
			o.letters[end.ID] = end.Type
		}
		if o.next < len(c.Expect.Events) {
			is, err := c.Expect.Events[o.next].is(r.Event)
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
	if events.TypeOf(event) != e[eventType] || len(e) == 1 {
		return events.TypeOf(event) == e[eventType], nil
	}
	data, err := json.Marshal(event)
	if err != nil {
		return false, err
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		return false, err
	}
	for key, want := range e {
		if v, ok := got[key]; key != eventType && (!ok || fmt.Sprint(v) != want) {
			return false, nil
		}
	}
	return true, nil
}

// Check returns how the job of a case differs from what is expected, a line each.
func (o *Observer) Check(c *Case, exit int, result mapreduce.Result, tally *Tally) []string {
	e := c.Expect
	var wrong []string
	differ := func(what string, got, want any) {
		wrong = append(wrong, fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
	count := func(what string, got int, want *numbers) {
		if want != nil && (got < want.least || got > want.most) {
			differ(what, got, want)
		}
	}
	if e.Exit != nil && *e.Exit != exit {
		differ("exit", exit, *e.Exit)
	}
	if e.State != "" && e.State != result.State {
		differ("state", result.State, e.State)
	}
	if !strings.Contains(result.Reason, e.Reason) {
		differ("reason", strconv.Quote(result.Reason), strconv.Quote(e.Reason)+" in it")
	}
	for id, status := range check.ByKey(e.Items) {
		if got := cmp.Or(o.statuses[id], view.Pending); string(got) != status {
			differ("item "+id, got, status)
		}
	}
	count("failed", result.Metrics.Failed, e.Counts.Failed)
	count("items", result.Metrics.TotalItems, e.Counts.Items)
	count("rejected", result.Metrics.Rejected, e.Counts.Rejected)
	count("skipped", result.Metrics.Skipped, e.Counts.Skipped)
	count("successful", result.Metrics.Successful, e.Counts.Successful)
	for id, letter := range check.ByKey(e.Letters) {
		switch got, is := o.letters[id]; {
		case !is:
			wrong = append(wrong, fmt.Sprintf("dead letter %s: not found, want %s", id, letter))
		case string(got) != letter && letter != "any":
			differ("dead letter "+id, got, letter)
		}
	}
	for id, letter := range check.ByKey(o.letters) {
		if _, wanted := e.Letters[id]; e.Letters != nil && !wanted {
			differ("dead letter "+id, letter, "none")
		}
	}
	count("starts", tally.Attempts, e.Starts)
	count("retries", tally.ItemRetries+tally.StepRetries, e.Retries)
	count("breaker_openings", tally.Opened(), e.Openings)
	count("agents", result.Spent.Agents, e.Agents)
	count("conflicts", tally.Conflicts, e.Conflict)
	took := result.Duration.Round(time.Millisecond)
	if want := e.Duration.missed(took, duration.Format); want != "" {
		differ("duration", duration.Format(took), want)
	}
	spent := dollars(result.Spent.Cost)
	if result.Spent.Unknown > 0 {
		spent = math.MaxInt64 // or less
	}
	if want := e.Cost.missed(spent, func(d dollars) string { return limit.USD(d).String() }); want != "" {
		differ("cost", result.Spent.CostText(), want)
	}
	if o.next < len(e.Events) {
		after := "at all"
		if o.next > 0 {
			after = "after " + e.Events[o.next-1].String()
		}
		wrong = append(wrong, fmt.Sprintf("events: no %s %s", e.Events[o.next], after))
	}
	return wrong
}
