package simulate

import (
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Log is a Model of what the commands of a job have done that has run: how long they took, how they ended,
// and what they printed, as far as its log says. A try that the job did not make ends like another of the
// same step. Create one with LogOf.
type Log struct {
	Seed uint64

	// The labels of the steps of an item, in order.
	labels []string

	// How the tries of each attempt ended.
	attempts map[attemptKey][]recorded

	// How steps of the other phases ended, by phase and label.
	phases map[string]Outcome

	// Why the work of attempts was not merged.
	rejected map[attemptKey]rejection

	// How the runs of the steps that verify ended.
	verified []Outcome

	// Outcomes of each step, for tries that the job did not make.
	samples map[sampleKey][]Outcome
}

// sampleKey names tries of a step at items, by its label: the first ones, or later ones.
type sampleKey struct {
	step  string
	again bool
}

// attemptKey names an attempt at an item.
type attemptKey struct {
	item   string
	number int
}

// recorded is how one try of a step of an attempt ended.
type recorded struct {
	// The index of the step in the labels.
	at int

	try int

	// How often the same try was made before: one that met the limit of a plan is made again.
	repeat int

	// An AI agent ran.
	agent bool

	Outcome
}

// rejection is why the work of an attempt was not merged.
type rejection struct {
	conflicts []string

	// How the steps that verify ended. It is nil if the work conflicted.
	verify *Outcome
}

// maxKept is how much of the output of a command a Log keeps. It does not know longer ones.
const maxKept = 4 << 10

// LogOf returns a Model of the job with these records, whose items were run by these steps.
func LogOf(records iter.Seq2[events.Record, error], steps []workflow.Step, seed uint64) (*Log, error) {
	l := &Log{
		Seed: seed, attempts: map[attemptKey][]recorded{}, phases: map[string]Outcome{},
		rejected: map[attemptKey]rejection{}, samples: map[sampleKey][]Outcome{},
	}
	b := logReader{log: l, running: map[string]*runningAttempt{}}
	for i, s := range steps {
		l.labels = append(l.labels, s.Label(i))
		b.captures = append(b.captures, s.Capture)
	}
	return l, events.Each(records, b.apply)
}

// logReader reads a log into a Log.
type logReader struct {
	log *Log

	// The time of the first record. Other times are measured from it.
	began time.Time

	// The names that the outputs of the steps are captured under.
	captures []string

	// The attempts that have not ended, by item.
	running map[string]*runningAttempt

	phase string

	// When the limit of a plan resets that an agent has met.
	reset time.Duration
}

// runningAttempt is an attempt that has not ended, as far as the log was read.
type runningAttempt struct {
	number int
	tries  []recorded

	// When the commands began that are not among the tries yet, the index of the step of the first of them, and the
	// number of its try.
	since time.Duration
	at    int
	try   int
}

// lastAgent returns the last try, if an AI agent ran in it by the step with that index; else nil.
func (a *runningAttempt) lastAgent(at int) *recorded {
	if n := len(a.tries); n > 0 && a.tries[n-1].agent && a.tries[n-1].at == at {
		return &a.tries[n-1]
	}
	return nil
}

// apply takes the next record of the log.
func (b *logReader) apply(r events.Record) {
	if b.began.IsZero() {
		b.began = r.Time
	}
	now := r.Time.Sub(b.began)
	switch e := r.Event.(type) {
	case events.PhaseStarted:
		b.phase = e.Phase
	case events.AgentStarted:
		b.running[e.ItemID] = &runningAttempt{number: e.Attempt, since: now, try: 1}
	case events.AgentInterrupted, events.AgentLost, events.AgentDuplicated: // how long it would have taken is not known
		delete(b.running, events.Subject(e))
	case events.AgentUsage:
		b.used(now, e)
	case events.QuotaPaused:
		if e.ResetAt == nil {
			break
		}
		b.reset = e.ResetAt.Sub(b.began)
		if a := b.running[e.Item]; a != nil && len(a.tries) > 0 && a.tries[len(a.tries)-1].agent {
			a.tries[len(a.tries)-1].Resets = max(time.Second, b.reset-now)
		}
	case events.VerifyCompleted:
		b.log.verified = append(b.log.verified, Outcome{Takes: time.Duration(e.DurationMS), Unknown: true})
	case events.AgentProgress:
		b.progressed(now, e)
	case events.StepRetrying:
		b.retrying(now, e)
	case events.AgentCompleted:
		b.completed(now, e)
	case events.AgentFailed:
		b.failed(now, e)
	case events.StepCompleted:
		key := e.Phase + " " + e.Step
		b.log.phases[key] = Outcome{
			Takes: time.Duration(e.DurationMS), ExitCode: max(0, e.ExitCode),
			Stdout: e.Output, Stderr: e.Stderr, Unknown: e.Masked, Use: b.log.phases[key].Use,
		}
	case events.StepFailed:
		if e.ItemID == "" {
			o, key := ended(e.ErrorType, e.ExitCode, "", e.Error, e.StdoutTail, e.StderrTail), b.phase+" "+e.Step
			o.Use = b.log.phases[key].Use
			b.log.phases[key] = o
		}
	}
}

// progressed notes the beginning of a step, in the log of a job that logs that.
func (b *logReader) progressed(now time.Duration, e events.AgentProgress) {
	a := b.running[e.ItemID]
	if a == nil || e.StepIndex <= a.at || e.StepIndex >= len(b.log.labels) {
		return
	}
	b.spread(a, e.StepIndex-1, now, nil)
}

// used notes what an agent has used, and how long it ran.
func (b *logReader) used(now time.Duration, e events.AgentUsage) {
	o := Outcome{Takes: time.Duration(e.DurationMS), Unknown: true}
	if e.CostUSD != nil {
		o.Use.Cost, o.Use.Costed = *e.CostUSD, true
	}
	if e.Tokens != nil {
		o.Use.Tokens, o.Use.Counted = *e.Tokens, true
	}
	if e.Outcome != string(ai.Success) {
		o.ExitCode, o.Type, o.Stderr = 1, ai.Outcome(e.Outcome).ErrorType(), e.Outcome+"\n"
	}
	if e.Outcome == string(ai.Quota) { // only the first that meets a limit is recorded with its end
		o.Resets = max(0, b.reset-now)
	}
	if e.ItemID == "" {
		key := e.Phase + " " + e.Step
		known, ok := b.log.phases[key]
		known.Unknown, known.Use = known.Unknown || !ok, o.Use
		b.log.phases[key] = known
		return
	}
	a := b.running[e.ItemID]
	if a == nil {
		return
	}
	at := slices.Index(b.log.labels, e.Step)
	if at < 0 { // inside of another step: nobody knows which of its tries it was
		b.sampled(e.Step, a.number > 1, o)
		return
	}
	next := recorded{at: at, try: 1, agent: true, Outcome: o}
	if last := a.lastAgent(at); last != nil && at < a.at { // the same try, made again
		next.try, next.repeat = last.try, last.repeat+1
	} else {
		b.spread(a, at-1, now-o.Takes, nil)
		next.try = a.try
	}
	a.tries = append(a.tries, next)
	a.at, a.try, a.since = at+1, 1, now
}

// retrying notes a failed try of a step, and when the next one begins. A try that was refused ran no command.
func (b *logReader) retrying(now time.Duration, e events.StepRetrying) {
	a, at := b.running[e.ItemID], slices.Index(b.log.labels, e.Step)
	if a == nil || at < 0 || e.ErrorType == retry.TypeCircuitOpen || e.ErrorType == retry.TypeTemplate {
		return
	}
	b.failedAt(a, at, now, ended(e.ErrorType, nil, "", e.Error, "", ""))
	a.at, a.try, a.since = at, e.Attempt+1, now+time.Duration(e.DelayMS)
}

// failedAt notes that the step with that index has failed: the agent that it ran, else its command.
func (b *logReader) failedAt(a *runningAttempt, at int, now time.Duration, failure Outcome) {
	last := a.lastAgent(at)
	if last == nil || at >= a.at {
		b.spread(a, at, now, &failure)
		return
	}
	if !failure.Hangs {
		failure.Takes = last.Takes
	}
	failure.Use, failure.Resets = last.Use, last.Resets
	last.Outcome = failure
}

// completed notes the rest of the tries of an attempt that has succeeded, and what they printed as far as the
// record has it.
func (b *logReader) completed(now time.Duration, e events.AgentCompleted) {
	a := b.running[e.ItemID]
	if a == nil || len(b.log.labels) == 0 {
		return
	}
	b.spread(a, len(b.log.labels)-1, now, nil)
	for i := range a.tries {
		one := &a.tries[i]
		if one.failed() {
			continue
		}
		if value, ok := e.Captured[b.captures[one.at]]; ok && b.captures[one.at] != "" {
			// The output that the value was made from, or one that gives the same value.
			if one.Unknown = false; json.Unmarshal(value, &one.Stdout) != nil {
				one.Stdout = string(value)
			}
		} else if one.at == len(b.log.labels)-1 && e.OutputFile == "" {
			// An agent that says nothing has failed, unless its step allows it.
			one.Stdout, one.Unknown = e.Output, one.agent && e.Output == ""
		}
		if len(one.Stdout) > maxKept {
			one.Stdout, one.Unknown = "", true
		}
	}
	b.keep(e.ItemID, a)
}

// failed notes the rest of the tries of an attempt that has failed, or why its work was not merged.
func (b *logReader) failed(now time.Duration, e events.AgentFailed) {
	switch key := (attemptKey{e.ItemID, e.Attempt}); e.ErrorType {
	case retry.TypeMergeConflict:
		paths := check.Each(e.Conflicts, func(c events.Conflict) string { return c.Path })
		if len(paths) == 0 {
			paths = []string{someFile}
		}
		b.log.rejected[key] = rejection{conflicts: paths}
	case retry.TypeVerifyFailed:
		o := ended("", e.ExitCode, e.Signal, e.Error, e.StdoutTail, e.StderrTail)
		b.log.rejected[key] = rejection{verify: &o}
	}
	a, at := b.running[e.ItemID], slices.Index(b.log.labels, e.Step)
	if a == nil || e.AgentID == "" {
		return
	}
	switch e.ErrorType {
	case retry.TypeCircuitOpen, retry.TypeTemplate, retry.TypeMissingOutput,
		retry.TypeMergeConflict: // no command ended so
		delete(b.running, e.ItemID)
		return
	}
	if at >= 0 {
		b.failedAt(a, at, now, ended(e.ErrorType, e.ExitCode, e.Signal, e.Error, e.StdoutTail, e.StderrTail))
	}
	b.keep(e.ItemID, a)
}

// spread adds the tries from the step that runs first up to the one with index last, which shared the time until now
// that nobody told apart: each gets as much, but for one that timed out. The last of them ended with failure, if that
// is not nil.
func (b *logReader) spread(a *runningAttempt, last int, now time.Duration, failure *Outcome) {
	n, took := last-a.at+1, max(0, now-a.since)
	if n <= 0 {
		return
	}
	hangs := failure != nil && failure.Hangs
	if hangs {
		n, took = n-1, max(0, took-failure.Takes)
	}
	for ; a.at <= last; a.at++ {
		one := recorded{at: a.at, try: a.try, Outcome: Outcome{Unknown: true}}
		if a.at == last && failure != nil {
			one.Outcome = *failure
		}
		if a.at < last || !hangs {
			one.Takes = took / time.Duration(n)
		}
		a.tries = append(a.tries, one)
		a.try = 1
	}
	a.since = now
}

// keep keeps the tries of an attempt that has ended.
func (b *logReader) keep(item string, a *runningAttempt) {
	b.log.attempts[attemptKey{item, a.number}] = slices.Clip(a.tries)
	delete(b.running, item)
	for _, one := range a.tries {
		b.sampled(b.log.labels[one.at], a.number > 1 || one.try > 1, one.Outcome)
	}
}

// sampled adds an outcome to those from which one is chosen for a try that did not happen.
func (b *logReader) sampled(step string, again bool, o Outcome) {
	key := sampleKey{step, again}
	b.log.samples[key] = append(b.log.samples[key], o)
}

// exitCode finds the exit code in the message of a failure, where the log has it nowhere else.
var exitCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^exit code (\d+)(?:: (.*))?`) })

// ended returns the outcome of a command whose failure was recorded so.
func ended(t retry.Type, code *int, signal, message, stdout, stderr string) Outcome {
	o := Outcome{Unknown: true, Stdout: stdout, Stderr: stderr}
	found := exitCode().FindStringSubmatch(message)
	switch {
	case t == retry.TypeTimeout && code == nil && found == nil:
		o.Hangs = true
		o.Takes, _ = duration.Parse(strings.TrimPrefix(message, "timed out after "))
	case signal != "":
		o.Signal = signal
	case strings.HasPrefix(message, "killed by SIG"):
		o.Signal, _, _ = strings.Cut(strings.TrimPrefix(message, "killed by "), " ")
	case code != nil && *code > 0:
		o.ExitCode = *code
	case found != nil:
		o.ExitCode, _ = strconv.Atoi(found[1])
	default:
		o.ExitCode = 1
	}
	if !o.Hangs && o.Signal == "" {
		o.Type = t
	}
	if o.Stderr == "" && !o.Hangs {
		if o.Stderr = message; found != nil {
			o.Stderr = found[2]
		}
		o.Stderr += "\n"
	}
	return o
}

// Outcome implements Model.
func (l *Log) Outcome(t agent.SimulatedTry) Outcome {
	a := t.Attempt
	if a.Phase == phaseVerify {
		o := Outcome{Unknown: true}
		if n := len(l.verified); n > 0 {
			o = l.verified[randOf(l.Seed, t).IntN(n)]
		}
		if r := l.rejected[attemptKey{a.ItemID, a.Number}]; r.verify != nil {
			took := o.Takes
			o = *r.verify
			o.Takes = took
		}
		return o
	}
	if a.Phase != "map" {
		o, ok := l.phases[a.Phase+" "+t.Label]
		o.Unknown = o.Unknown || !ok
		return o
	}
	if one, ok := l.last(a.ItemID, a.Number, t.Label, func(one recorded) bool {
		return one.try == t.Number && one.repeat <= t.Repeat // one that charged nothing may be made more often now
	}); ok {
		return one
	}
	from, other := l.samples[sampleKey{t.Label, true}], l.samples[sampleKey{t.Label, false}]
	if a.Number == 1 && t.Number == 1 && other != nil {
		from = other
	} else if from == nil { // no step of this label was ever tried again
		if o, ok := l.last(a.ItemID, 1, t.Label, func(recorded) bool { return true }); ok && o.failed() {
			return o
		}
		from = other
	}
	if from == nil {
		return Outcome{Unknown: true}
	}
	return from[randOf(l.Seed, t).IntN(len(from))]
}

// Conflicts implements Model.
func (l *Log) Conflicts(t agent.SimulatedTry) []string {
	return l.rejected[attemptKey{t.Attempt.ItemID, t.Attempt.Number}].conflicts
}

// last returns how the last try of a step of an attempt has ended, of those that which reports true for. It reports
// false if the job made none.
func (l *Log) last(item string, attempt int, step string, which func(recorded) bool) (o Outcome, ok bool) {
	for _, one := range l.attempts[attemptKey{item, attempt}] {
		if l.labels[one.at] == step && which(one) {
			o, ok = one.Outcome, true
		}
	}
	return o, ok
}

// failed reports whether the command failed.
func (o Outcome) failed() bool { return o.ExitCode != 0 || o.Signal != "" || o.Hangs }

// Attempts returns how many attempts at items the Log knows.
func (l *Log) Attempts() int { return len(l.attempts) }
