package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/view"
)

// kind is the kind of a metric.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// family is a metric with its samples. Its name follows the conventions of Prometheus, with the unit at its end.
type family struct {
	name, help string

	// The values, at least one. All have the label workflow.
	samples []sample
}

// kind returns the kind of the metric, which its name and its samples tell. A family has at least one sample.
func (f family) kind() kind {
	switch {
	case f.samples[0].counts != nil:
		return histogram
	case strings.HasSuffix(f.name, "_total"):
		return counter
	}
	return gauge
}

// sample is one value of a metric, or the distribution of a histogram.
type sample struct {
	labels []label
	value  float64

	// The distribution of a histogram. It is nil for a counter or a gauge, which have a value.
	counts *distribution
}

type label struct{ name, value string }

// distribution is how often durations fell between bounds.
type distribution struct {
	counts [len(bounds) + 1]uint64 // of those up to each bound and above the one before; the last are above all
	sum    time.Duration
	n      uint64
}

// bounds of durations, in seconds. They reach from a small command to an agent of an hour.
var bounds = [...]float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}

// add counts a duration. A negative one, of a clock that was set back, adds nothing to the sum.
func (d *distribution) add(t time.Duration) {
	i, _ := slices.BinarySearch(bounds[:], t.Seconds())
	d.counts[i]++
	d.sum += max(t, 0)
	d.n++
}

// metricsEvery is how often metrics are written to their file, or exported.
const metricsEvery = 15 * time.Second

// Metrics are the metrics of a job. Counters count what happened in this run; items, their states, and costs are
// of the whole job. Their methods can be called by several goroutines.
type Metrics struct {
	mu sync.Mutex

	// The job after the records so far. It has what is known of the job as a whole, such as the states of its
	// items.
	view *view.Job

	// How many attempts have ended in this run, by outcome.
	attempts map[string]int

	// How many attempts have failed in this run, by error type.
	failures map[string]int

	// How many items were dead-lettered in this run.
	letters int

	// How long the attempts took that ended by themselves.
	took distribution

	// How long steps took, by name: those of phases by their records, those of items by Step.
	steps map[string]*distribution

	// The steps of attempts that run, by item, in the order in which they began.
	open map[string][]begun

	// How long items have waited for a turn of the rate. The log does not have it.
	waited time.Duration

	// Returns how much was exported until now. It is nil if nothing is exported.
	report func() Report
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

// newMetrics returns the metrics of a run of a workflow that has not begun. The number of slots is that of the
// workflow; the log of a new job says it too.
func newMetrics(workflow string, slots int) *Metrics {
	v := view.New()
	v.Workflow, v.MaxParallel = workflow, slots
	return &Metrics{
		view: v, attempts: map[string]int{}, failures: map[string]int{},
		steps: map[string]*distribution{}, open: map[string][]begun{},
	}
}

// Earlier takes what the earlier runs of a resumed job have done.
func (m *Metrics) Earlier(before errorpolicy.Metrics, spent limit.Total) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, slots := m.view.Workflow, m.view.MaxParallel
	m.view = view.Resumed(before)
	m.view.Workflow, m.view.MaxParallel, m.view.Spent = name, slots, spent
}

// Waited adds time in which an item could have started, but for the limit of starts.
func (m *Metrics) Waited(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waited += d
}

// exports says how much was not exported until now.
func (m *Metrics) exports(report func() Report) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report = report
}

// Step notes that an attempt begins a step.
func (m *Metrics) Step(e events.AgentProgress, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[e.ItemID] = append(m.open[e.ItemID], begun{e.Step, now})
	m.view.Step(e)
}

// observe takes the next records of the job, in their order.
func (m *Metrics) observe(records []events.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		m.apply(r)
	}
}

// apply takes the next record. The caller holds mu.
func (m *Metrics) apply(r events.Record) {
	if end, ok := events.EndOf(r.Event); ok {
		m.ended(r.Time, end)
	}
	switch e := r.Event.(type) {
	case events.StepCompleted:
		if !e.Skipped {
			m.step(e.Step, time.Duration(e.DurationMS))
		}
	case events.DLQItemAdded:
		m.letters++
	}
	m.view.Apply(r)
}

// ended counts the end of an attempt. How long those took that were stopped or lost says nothing.
func (m *Metrics) ended(now time.Time, end events.End) {
	if !end.Ran {
		return
	}
	byItself := !end.How.GivenBack()
	m.attempts[string(end.How)]++
	m.endSteps(end.ID, now, byItself)
	if byItself {
		m.took.add(end.Took)
	}
	if end.How == events.Failed {
		m.failures[string(end.Type)]++
	}
}

// endSteps ends the steps of an attempt that has ended at a time. The next attempt may have begun before its
// record was seen.
func (m *Metrics) endSteps(itemID string, at time.Time, count bool) {
	list := m.open[itemID]
	n := 0
	for n < len(list) && !list[n].at.After(at) {
		n++
	}
	for i := 0; count && i < n; i++ {
		end := at
		if i+1 < n {
			end = list[i+1].at
		}
		m.step(list[i].step, end.Sub(list[i].at))
	}
	if n == len(list) {
		delete(m.open, itemID)
		return
	}
	m.open[itemID] = list[n:]
}

// step counts how long a step took, under its name, or with the others once there are stepsKept names.
func (m *Metrics) step(name string, took time.Duration) {
	if m.steps[name] == nil {
		if len(m.steps) >= stepsKept {
			name = otherSteps
		}
		m.steps[name] = cmp.Or(m.steps[name], &distribution{})
	}
	m.steps[name].add(took)
}

// families returns the metrics as they are now, in a fixed order. All samples have the label workflow.
func (m *Metrics) families(now time.Time) []family {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.view.ID == "" {
		return nil
	}
	f := families{workflow: label{"workflow", m.view.Workflow}}
	m.ofJob(&f, now)
	m.ofAttempts(&f)
	m.ofLimits(&f, now)
	m.ofBreakers(&f)
	if m.view.Spent.Agents > 0 {
		m.ofAgents(&f)
	}
	if m.report != nil {
		r := m.report()
		f.add("prodigy_otel_dropped_total", "Items of telemetry that could not be exported to OpenTelemetry, by signal.",
			by(&f, "signal", map[string]int{"logs": r.Logs.Lost, "traces": r.Spans.Lost})...)
	}
	return f.list
}

// families are families that are being gathered.
type families struct {
	workflow label
	list     []family
}

// add adds a family, unless it is empty.
func (f *families) add(name, help string, samples ...sample) {
	if len(samples) > 0 {
		f.list = append(f.list, family{name, help, samples})
	}
}

// is returns a sample with labels, which are given as names and values.
func is[N int | int64 | float64](f *families, value N, labels ...string) sample {
	s := sample{labels: []label{f.workflow}, value: float64(value)}
	for pair := range slices.Chunk(labels, 2) {
		s.labels = append(s.labels, label{pair[0], pair[1]})
	}
	return s
}

// by returns a sample for each count.
func by[K ~string](f *families, label string, counts map[K]int) (list []sample) {
	for name, n := range check.ByKey(counts) {
		list = append(list, is(f, n, label, string(name)))
	}
	return list
}

// of returns a sample of a histogram.
func (f *families) of(d distribution, labels ...string) sample {
	s := is(f, 0, labels...)
	s.counts = &d
	return s
}

// ofJob adds what the job is, its state, and the numbers of its items.
func (m *Metrics) ofJob(f *families, now time.Time) {
	v := m.view
	f.add("prodigy_job_info", "Information about the job.", is(f, 1, "job_id", v.ID, "mode", v.Mode))
	var states []sample
	for _, s := range []jobs.State{jobs.Running, jobs.Completed, jobs.Failed, jobs.Stopped, jobs.Cancelled} {
		states = append(states, is(f, oneIf(v.State == s), "state", string(s)))
	}
	f.add("prodigy_job_state", "State of the job: 1 for the current state, 0 for all others.", states...)
	f.add("prodigy_job_start_time_seconds", "Start time of the current run, in seconds since the Unix epoch.",
		is(f, float64(v.RunBegan.UnixMicro())/1e6))
	running, waiting := v.Running(now), v.Waiting(now)
	items := []sample{
		is(f, max(v.ToGo()-running-waiting-v.Merging(), 0), "state", "pending"),
		is(f, running, "state", "running"),
		is(f, waiting, "state", "waiting"),
		is(f, v.Counts.Successful, "state", "succeeded"),
		is(f, v.Counts.Failed, "state", "failed"),
		is(f, v.Counts.Skipped, "state", "skipped"),
		is(f, v.Counts.Rejected, "state", "rejected"),
	}
	if n := v.Merging(); n > 0 {
		items = append(items, is(f, n, "state", "merging"))
	}
	f.add("prodigy_items", "Number of items by state.", items...)
}

// ofAttempts adds what became of the attempts, and how long they and their steps took.
func (m *Metrics) ofAttempts(f *families) {
	f.add("prodigy_attempts_total", "Finished attempts by outcome.", by(f, "outcome", m.attempts)...)
	f.add("prodigy_attempt_failures_total", "Failed attempts by error type.", by(f, "error_type", m.failures)...)
	f.add("prodigy_retries_total", "Retries of items and steps, by error type of the preceding failure.",
		by(f, "error_type", m.view.Retried.Types)...)
	f.add("prodigy_dead_letters_total", "Number of dead-lettered items.", is(f, m.letters))
	f.add("prodigy_attempt_duration_seconds", "Duration of attempts.", f.of(m.took))
	var steps []sample
	for name, took := range check.ByKey(m.steps) {
		steps = append(steps, f.of(*took, "step", name))
	}
	f.add("prodigy_step_duration_seconds", "Duration of steps, including their retries and the delays between them.",
		steps...)
}

// ofLimits adds how much may run and start, and what holds starts back.
func (m *Metrics) ofLimits(f *families, now time.Time) {
	v := m.view
	f.add("prodigy_slots", "Maximum number of items that run at a time.", is(f, v.Slots()))
	f.add("prodigy_slots_used", "Number of slots in use.", is(f, v.Running(now)))
	if v.Limit != nil && v.Limit.Rate > 0 {
		f.add("prodigy_adapted_starts_per_second", "Starts per second allowed by the adaptive limit.",
			is(f, v.Limit.Rate))
	}
	var rates []sample
	for _, r := range v.Rates {
		rates = append(rates, is(f, r.PerSecond, "per", r.Per, "step", r.Step))
	}
	f.add("prodigy_rate_starts_per_second",
		"Starts per second allowed by a rate limit of the workflow: "+
			"of items or of a step, and of each key if it has per.", rates...)
	f.add("prodigy_rate_wait_seconds_total", "Total time that items with a slot waited for a rate limit.",
		is(f, m.waited.Seconds()))
	f.add("prodigy_starts_held", "1 while no items may start, by cause: windows, guards, or person (paused).",
		is(f, oneIf(v.IsHeld("guards")), "by", "guards"),
		is(f, oneIf(v.IsHeld(events.ByPerson)), "by", "person"),
		is(f, oneIf(v.IsHeld("windows")), "by", "windows"))
}

// ofBreakers adds how the breakers are that have opened.
func (m *Metrics) ofBreakers(f *families) {
	type standing struct {
		scope string
		state view.BreakerState
	}
	counts := map[standing]int{}
	for _, b := range m.view.Breakers() {
		counts[standing{b.Scope, b.State}]++
	}
	var states []sample
	for _, scope := range slices.Sorted(maps.Keys(m.view.Openings)) {
		for _, state := range []view.BreakerState{view.HalfOpen, view.Open} {
			n := counts[standing{scope, state}]
			states = append(states, is(f, n, "scope", scope, "state", string(state)))
		}
	}
	f.add("prodigy_breakers", "Open and half-open circuit breakers, by scope, once a breaker of the scope has opened.",
		states...)
	f.add("prodigy_breaker_openings_total", "Number of times that a circuit breaker has opened, by scope.",
		by(f, "scope", m.view.Openings)...)
}

// ofAgents adds what AI agents have used.
func (m *Metrics) ofAgents(f *families) {
	t := m.view.Spent
	var costs []sample
	for preset, spent := range check.ByKey(t.Presets) {
		costs = append(costs, is(f, float64(spent.Cost)/float64(limit.Dollar), "preset", preset))
	}
	f.add("prodigy_agent_cost_usd_total", "Total known cost of AI agents.", costs...)
	f.add("prodigy_agent_runs_total", "Number of AI agent runs.", is(f, t.Agents))
	f.add("prodigy_agent_runs_unknown_cost_total", "Number of AI agent runs of unknown cost.",
		is(f, t.Unknown))
	f.add("prodigy_agent_tokens_total", "Total known token use of AI agents.",
		is(f, t.Tokens.Cached, "kind", "cached"),
		is(f, t.Tokens.Input, "kind", "input"),
		is(f, t.Tokens.Output, "kind", "output"))
}

// oneIf returns 1 if b is true, else 0.
func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}
