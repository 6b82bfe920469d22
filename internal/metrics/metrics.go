// Package metrics counts what a job does, for Prometheus and its like.
//
// A [Job] is told of the records of the job when they are durable, and returns its metrics as families of
// samples. text.go writes them in Prometheus' text format, and serve.go has them fetched over HTTP, or kept
// in a file.
package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/spend"
	"prodigy/internal/view"
)

// Kind is the kind of a metric.
type Kind string

const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Family is a metric with its samples.
type Family struct {
	Name    string // after the conventions of Prometheus, with the unit at its end
	Help    string
	Kind    Kind
	Unit    string // as UCUM writes it; empty: a number of something
	Samples []Sample
}

// Sample is one value of a metric.
type Sample struct {
	Labels []Label
	Value  float64       // but of a histogram
	Counts *Distribution // of a histogram
}

// Label is a label of a sample.
type Label struct{ Name, Value string }

// Distribution is how often durations fell between bounds.
type Distribution struct {
	Counts [len(bounds) + 1]uint64 // of those up to each bound and above the one before; the last are above all
	Sum    time.Duration
	N      uint64
}

// bounds of durations, in seconds. They reach from a small command to an agent of an hour.
var bounds = [...]float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}

// Bounds returns the upper bounds of a Distribution, in seconds.
func Bounds() []float64 { return slices.Clone(bounds[:]) }

func (d *Distribution) add(t time.Duration) {
	i, _ := slices.BinarySearch(bounds[:], t.Seconds())
	d.Counts[i]++
	d.Sum += max(t, 0)
	d.N++
}

// Job is the metrics of a job. Counters count what happened in this run; items, their states, and costs are
// of the whole job. Its methods can be called by several goroutines. Create one with New.
type Job struct {
	mu       sync.Mutex
	view     *view.Job
	attempts map[string]int // that ended, by outcome
	failures map[string]int // of attempts, by error type
	retries  map[string]int // by error type
	letters  int
	took     Distribution // attempts
	steps    map[string]*Distribution
	open     map[string][]begun // steps of attempts that run, by item
	opened   map[string]int     // by scope of the breaker
	waited   time.Duration      // for a turn of the rate
	dropped  map[string]int     // by signal; nil: nothing is exported
}

// begun is a step that has begun.
type begun struct {
	step string
	at   time.Time
}

// stepsKept bounds the labels of steps that have a distribution of their own. The others share one.
const (
	stepsKept  = 100
	otherSteps = "other"
)

// New returns the metrics of a run of a workflow that has not begun. The number of slots is that of the
// workflow; the log of a new job says it too.
func New(workflow string, slots int) *Job {
	v := view.New()
	v.Workflow, v.MaxParallel = workflow, slots
	return &Job{
		view: v, attempts: map[string]int{}, failures: map[string]int{}, retries: map[string]int{}, steps: map[string]*Distribution{},
		open: map[string][]begun{}, opened: map[string]int{},
	}
}

// Earlier takes what the earlier runs of a resumed job have done.
func (j *Job) Earlier(m errorpolicy.Metrics, spent spend.Total) {
	j.mu.Lock()
	defer j.mu.Unlock()
	name, slots := j.view.Workflow, j.view.MaxParallel
	j.view = view.Resumed(m)
	j.view.Workflow, j.view.MaxParallel, j.view.Spent = name, slots, spent
}

// Waited adds time in which an item could have started, but for the limit of starts.
func (j *Job) Waited(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waited += d
}

// Dropped says how much of a signal of OpenTelemetry was not exported until now.
func (j *Job) Dropped(signals map[string]int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dropped = maps.Clone(signals)
}

// Step notes that an attempt begins a step.
func (j *Job) Step(e events.AgentProgress, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[e.ItemID] = append(j.open[e.ItemID], begun{e.Step, now})
	j.view.Step(e)
}

// Observe takes the next records of the job, in their order.
func (j *Job) Observe(records []events.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range records {
		j.apply(r)
	}
}

func (j *Job) apply(r events.Record) {
	if end, ok := events.EndOf(r.Event); ok {
		j.ended(r.Time, end)
	}
	switch e := r.Event.(type) {
	case events.StepRetrying:
		j.retries[string(e.ErrorType)]++
	case events.StepCompleted:
		if !e.Skipped {
			j.step(e.Step, time.Duration(e.DurationMS))
		}
	case events.DLQItemAdded:
		j.letters++
	case events.CircuitOpen:
		j.opened[e.Scope]++
	}
	j.view.Apply(r)
}

// ended counts the end of an attempt. How long those took that were stopped or lost says nothing.
func (j *Job) ended(now time.Time, end events.End) {
	if end.Action.RunsAgain() {
		j.retries[string(end.Type)]++
	}
	if !end.Ran {
		return
	}
	byItself := !end.How.GivenBack()
	j.attempts[string(end.How)]++
	j.endSteps(end.ID, now, byItself)
	if byItself {
		j.took.add(end.Took)
	}
	if end.How == events.Failed {
		j.failures[string(end.Type)]++
	}
}

// endSteps ends the steps of an attempt that has ended at a time. The next attempt may have begun before its
// record was seen.
func (j *Job) endSteps(itemID string, at time.Time, count bool) {
	list := j.open[itemID]
	n := 0
	for n < len(list) && !list[n].at.After(at) {
		n++
	}
	for i := 0; count && i < n; i++ {
		end := at
		if i+1 < n {
			end = list[i+1].at
		}
		j.step(list[i].step, end.Sub(list[i].at))
	}
	if n == len(list) {
		delete(j.open, itemID)
		return
	}
	j.open[itemID] = list[n:]
}

func (j *Job) step(label string, took time.Duration) {
	d := j.steps[label]
	if d == nil {
		if len(j.steps) >= stepsKept {
			label = otherSteps
			d = j.steps[label]
		}
		if d == nil {
			d = &Distribution{}
			j.steps[label] = d
		}
	}
	d.add(took)
}

// Families returns the metrics as they are now, in a fixed order. All samples have the label workflow.
func (j *Job) Families(now time.Time) []Family {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.view.ID == "" {
		return nil
	}
	v := j.view
	one := func(value float64, labels ...Label) Sample {
		return Sample{Labels: append([]Label{{"workflow", v.Workflow}}, labels...), Value: value}
	}
	by := func(label string, counts map[string]int) []Sample {
		var list []Sample
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			list = append(list, one(float64(counts[name]), Label{label, name}))
		}
		return list
	}
	running, waiting := v.Running(now), v.Waiting(now)
	merging, _ := v.Merging(now)
	items := []Sample{
		one(float64(max(v.ToGo()-running-waiting-merging, 0)), Label{"state", "pending"}),
		one(float64(running), Label{"state", "running"}),
		one(float64(waiting), Label{"state", "waiting"}),
		one(float64(v.Counts.Successful), Label{"state", "succeeded"}),
		one(float64(v.Counts.Failed), Label{"state", "failed"}),
		one(float64(v.Counts.Skipped), Label{"state", "skipped"}),
		one(float64(v.Counts.Rejected), Label{"state", "rejected"}),
	}
	if merging > 0 {
		items = append(items, one(float64(merging), Label{"state", "merging"}))
	}
	var states []Sample
	for _, s := range []view.State{view.Running, view.Completed, view.Failed, view.Paused, view.Cancelled} {
		states = append(states, one(number(v.State == s), Label{"state", string(s)}))
	}
	slots := v.MaxParallel
	if v.Limit != nil {
		slots = v.Limit.Limit
	}
	list := []Family{
		{
			"prodigy_job_info", "The job that these metrics are of.", Gauge, "",
			[]Sample{one(1, Label{"job_id", v.ID}, Label{"mode", v.Mode})},
		},
		{"prodigy_job_state", "Which state the job is in: 1 for that, 0 for the others.", Gauge, "", states},
		{
			"prodigy_job_start_time_seconds", "When this run of the job began, in seconds since 1970.", Gauge, "s",
			[]Sample{one(float64(v.RunBegan.UnixMicro()) / 1e6)},
		},
		{"prodigy_items", "Items of the job, by their state.", Gauge, "", items},
		{
			"prodigy_attempts_total", "Attempts at items that have ended, by outcome.", Counter, "",
			by("outcome", j.attempts),
		},
		{
			"prodigy_attempt_failures_total", "Attempts that failed, by error type.", Counter, "",
			by("error_type", j.failures),
		},
		{
			"prodigy_retries_total", "Retries of items and steps, by the error type of the failure before.", Counter, "",
			by("error_type", j.retries),
		},
		{
			"prodigy_dead_letters_total", "Items that were dead-lettered.", Counter, "",
			[]Sample{one(float64(j.letters))},
		},
		{
			"prodigy_attempt_duration_seconds", "How long attempts at items took.", Histogram, "s",
			[]Sample{{Labels: one(0).Labels, Counts: &j.took}},
		},
		{
			"prodigy_step_duration_seconds", "How long steps took, with their retries and the waits for them.",
			Histogram, "s", j.stepSamples(one),
		},
		{"prodigy_slots", "How many items may run at once.", Gauge, "", []Sample{one(float64(slots))}},
		{"prodigy_slots_used", "How many slots are in use.", Gauge, "", []Sample{one(float64(running))}},
	}
	if v.Limit != nil && v.Limit.Rate > 0 {
		list = append(list, Family{
			"prodigy_adapted_starts_per_second",
			"Starts in a second that the adaptive limit allows.", Gauge, "",
			[]Sample{one(v.Limit.Rate)},
		})
	}
	var rates []Sample
	for _, r := range v.Rates {
		rates = append(rates, one(r.PerSecond, Label{"per", r.Per}, Label{"step", r.Step}))
	}
	list = append(list,
		Family{"prodigy_rate_starts_per_second", "Starts in a second that a rate of the workflow allows: of agents, or of a step; for each value of per, if it has one.", Gauge, "", rates},
		Family{"prodigy_rate_wait_seconds_total", "Time in which an item had a slot and waited for its turn of the rate.", Counter, "s", []Sample{one(j.waited.Seconds())}},
		Family{
			"prodigy_starts_held", "Whether nothing starts, by what holds it back: windows, guards, or a person.",
			Gauge, "",
			[]Sample{
				one(number(v.StartsHeld["guards"].By != ""), Label{"by", "guards"}),
				one(number(v.Hold != nil), Label{"by", "person"}),
				one(number(v.StartsHeld["windows"].By != ""), Label{"by", "windows"}),
			},
		},
	)
	list = append(list, j.breakers(one)...)
	if v.Spent.Agents > 0 {
		list = append(list, j.costs(one)...)
	}
	if j.dropped != nil {
		list = append(list, Family{
			"prodigy_otel_dropped_total", "What was not exported to OpenTelemetry, by signal.",
			Counter, "", by("signal", j.dropped),
		})
	}
	return slices.DeleteFunc(list, func(f Family) bool { return len(f.Samples) == 0 })
}

// stepSamples returns copies of the distributions of steps, by label.
func (j *Job) stepSamples(one func(float64, ...Label) Sample) []Sample {
	var list []Sample
	for _, label := range slices.Sorted(maps.Keys(j.steps)) {
		s := one(0, Label{"step", label})
		d := *j.steps[label]
		s.Counts = &d
		list = append(list, s)
	}
	return list
}

// breakers returns how the breakers are that have opened.
func (j *Job) breakers(one func(float64, ...Label) Sample) []Family {
	notClosed := j.view.CountBreakers()
	var states, opened []Sample
	for _, scope := range slices.Sorted(maps.Keys(j.opened)) {
		for _, state := range []view.BreakerState{view.HalfOpen, view.Open} {
			states = append(states, one(float64(notClosed[scope][state]), Label{"scope", scope},
				Label{"state", string(state)}))
		}
		opened = append(opened, one(float64(j.opened[scope]), Label{"scope", scope}))
	}
	return []Family{
		{
			"prodigy_breakers", "How many circuit breakers are open or half-open, of a scope of which one has opened.",
			Gauge, "", states,
		},
		{"prodigy_breaker_openings_total", "How often a circuit breaker of the scope has opened.", Counter, "", opened},
	}
}

// costs returns what AI agents have used.
func (j *Job) costs(one func(float64, ...Label) Sample) []Family {
	t := j.view.Spent
	var costs []Sample
	for _, preset := range slices.Sorted(maps.Keys(t.Presets)) {
		costs = append(costs, one(float64(t.Presets[preset].Cost)/float64(spend.Dollar), Label{"preset", preset}))
	}
	return []Family{
		{
			"prodigy_agent_cost_usd_total", "What AI agents of the job have cost, as far as that is known.", Counter,
			"USD", costs,
		},
		{"prodigy_agent_runs_total", "Runs of AI agents of the job.", Counter, "", []Sample{one(float64(t.Agents))}},
		{
			"prodigy_agent_runs_unknown_cost_total", "Runs of AI agents whose cost is not known.", Counter, "",
			[]Sample{one(float64(t.Unknown))},
		},
		{
			"prodigy_agent_tokens_total", "Tokens that AI agents of the job have used, as far as that is known.",
			Counter, "",
			[]Sample{
				one(float64(t.Tokens.Cached), Label{"kind", "cached"}), one(float64(t.Tokens.Input),
					Label{"kind", "input"}), one(float64(t.Tokens.Output), Label{"kind", "output"}),
			},
		},
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
