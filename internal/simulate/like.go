package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
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

	// How the tries of steps of an item ended.
	tries map[tryKey]Outcome

	Attempts int // at items, that are known

	// How steps of the other phases ended, by phase and label.
	phases map[string]Outcome

	// Why the work of attempts was not merged: the files in conflict, or how the steps ended that verify.
	conflicts map[tryKey][]string
	refused   map[tryKey]Outcome

	// How the runs of the steps that verify ended.
	verified []Outcome

	// Outcomes of each step, for tries that the job did not make.
	samples map[sampleKey][]Outcome
}

// tryKey names a try of a step of an attempt at an item. Without a step it is the attempt.
type tryKey struct {
	item    string
	attempt int
	step    string
	try     int
	repeat  int // how often the try was made before: one that met the limit of a plan is made again
}

// sampleKey names tries of a step at items, by its label: the first ones, or later ones.
type sampleKey struct {
	step  string
	again bool
}

// maxKept is how much of the output of a command a Log keeps. It does not know longer ones.
const maxKept = 4 << 10

// LogOf returns a Model of the job with these records, whose items were run by these steps.
func LogOf(records iter.Seq2[events.Record, error], steps []workflow.Step, seed uint64) (*Log, error) {
	b := logReader{running: map[string]*runningAttempt{}, Log: &Log{
		Seed: seed, tries: map[tryKey]Outcome{}, phases: map[string]Outcome{}, conflicts: map[tryKey][]string{},
		refused: map[tryKey]Outcome{}, samples: map[sampleKey][]Outcome{},
	}}
	for i, s := range steps {
		b.labels = append(b.labels, s.Label(i))
		b.captures = append(b.captures, s.Capture)
	}
	return b.Log, events.Each(records, b.apply)
}

// logReader reads a log into a Log.
type logReader struct {
	*Log

	// The labels of the steps of an item, in order, and the names that their outputs are captured under.
	labels, captures []string

	// The attempts that have not ended, by item.
	running map[string]*runningAttempt

	phase string

	// When the limit of a plan resets that an agent has met.
	reset time.Time
}

// runningAttempt is an attempt that has not ended, as far as the log was read.
type runningAttempt struct {
	number int
	tries  []recorded

	// When the commands began that are not among the tries yet, the index of the step of the first of them, and the
	// number of its try.
	since time.Time
	at    int
	try   int
}

// lastAgent returns the last try, if an AI agent ran in it by the step with that index; else nil.
func (a *runningAttempt) lastAgent(at int) *recorded {
	if n := len(a.tries); n > 0 && at < a.at && a.tries[n-1].agent && a.tries[n-1].at == at {
		return &a.tries[n-1]
	}
	return nil
}

// recorded is how one try of a step of an attempt ended.
type recorded struct {
	at     int // the index of the step in the labels
	try    int
	repeat int  // as in tryKey
	agent  bool // an AI agent ran
	Outcome
}

// apply takes the next record of the log.
func (b *logReader) apply(r events.Record) {
	switch e := r.Event.(type) {
	case events.PhaseStarted:
		b.phase = e.Phase
	case events.AgentStarted:
		b.running[e.ItemID] = &runningAttempt{number: e.Attempt, since: r.Time, try: 1}
	case events.AgentInterrupted, events.AgentLost, events.AgentDuplicated: // how long it would have taken is not known
		delete(b.running, events.Subject(e))
	case events.AgentUsage:
		b.used(r.Time, e)
	case events.QuotaPaused: // of those that meet a limit only the first has a record of its end
		if e.ResetAt == nil {
			break
		}
		b.reset = *e.ResetAt
		if a := b.running[e.Item]; a != nil && a.lastAgent(a.at-1) != nil {
			a.lastAgent(a.at - 1).Resets = max(time.Second, b.reset.Sub(r.Time))
		}
	case events.VerifyCompleted:
		b.verified = append(b.verified, Outcome{Takes: time.Duration(e.DurationMS), Unknown: true})
	case events.AgentProgress: // only in the log of a job that logs the steps of items
		if a := b.running[e.ItemID]; a != nil && e.StepIndex < len(b.labels) {
			a.spread(e.StepIndex-1, r.Time, nil)
		}
	case events.StepRetrying:
		a, at := b.running[e.ItemID], slices.Index(b.labels, e.Step)
		if a == nil || at < 0 || e.ErrorType == retry.TypeCircuitOpen || e.ErrorType == retry.TypeTemplate {
			return // a try that was refused ran no command
		}
		a.fail(at, r.Time, ended(e.ErrorType, nil, e.Error, "", ""))
		a.at, a.try, a.since = at, e.Attempt+1, r.Time.Add(time.Duration(e.DelayMS))
	case events.AgentCompleted:
		b.completed(r.Time, e)
	case events.AgentFailed:
		b.failed(r.Time, e)
	case events.StepCompleted:
		key := e.Phase + " " + e.Step
		b.phases[key] = Outcome{
			Takes: time.Duration(e.DurationMS), ExitCode: max(0, e.ExitCode),
			Stdout: e.Output, Stderr: e.Stderr, Unknown: e.Masked, Use: b.phases[key].Use,
		}
	case events.StepFailed:
		if key := b.phase + " " + e.Step; e.ItemID == "" {
			o := ended(e.ErrorType, e.ExitCode, e.Error, e.StdoutTail, e.StderrTail)
			o.Use = b.phases[key].Use
			b.phases[key] = o
		}
	}
}

// used notes what an agent has used, and how long it ran.
func (b *logReader) used(now time.Time, e events.AgentUsage) {
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
	if e.Outcome == string(ai.Quota) {
		o.Resets = max(0, b.reset.Sub(now))
	}
	a, at := b.running[e.ItemID], slices.Index(b.labels, e.Step)
	switch {
	case e.ItemID == "":
		b.phases[e.Phase+" "+e.Step] = o
	case a == nil:
	case at < 0: // inside of another step: nobody knows which of its tries it was
		b.sample(e.Step, a.number > 1, o)
	default:
		next := recorded{at: at, agent: true, Outcome: o}
		if last := a.lastAgent(at); last != nil { // the same try, made again
			next.try, next.repeat = last.try, last.repeat+1
		} else {
			a.spread(at-1, now.Add(-o.Takes), nil)
			next.try = a.try
		}
		a.tries = append(a.tries, next)
		a.at, a.try, a.since = at+1, 1, now
	}
}

// fail notes that the step with that index has failed: the agent that it ran, else its command.
func (a *runningAttempt) fail(at int, now time.Time, failure Outcome) {
	last := a.lastAgent(at)
	if last == nil {
		a.spread(at, now, &failure)
		return
	}
	if !failure.Hangs {
		failure.Takes = last.Takes
	}
	failure.Use, failure.Resets = last.Use, last.Resets
	last.Outcome = failure
}

// spread adds the tries from the step that runs first up to the one with index last, which shared the time until now
// that nobody told apart: each gets as much, but for one that timed out. The last of them ended with failure, if that
// is not nil.
func (a *runningAttempt) spread(last int, now time.Time, failure *Outcome) {
	n, took := last-a.at+1, max(0, now.Sub(a.since))
	if n <= 0 {
		return
	}
	if failure != nil && failure.Hangs {
		n, took = n-1, max(0, took-failure.Takes)
	}
	for ; a.at <= last; a.at++ {
		one := recorded{at: a.at, try: a.try, Outcome: Outcome{Unknown: true}}
		if a.at == last && failure != nil {
			one.Outcome = *failure
		}
		if !one.Hangs {
			one.Takes = took / time.Duration(n)
		}
		a.tries = append(a.tries, one)
		a.try = 1
	}
	a.since = now
}

// completed notes the rest of the tries of an attempt that has succeeded, and what they printed as far as the
// record has it.
func (b *logReader) completed(now time.Time, e events.AgentCompleted) {
	a, last := b.running[e.ItemID], len(b.labels)-1
	if a == nil || last < 0 {
		return
	}
	a.spread(last, now, nil)
	for i := range a.tries {
		one := &a.tries[i]
		if one.failed() {
			continue
		}
		if value, ok := e.Captured[b.captures[one.at]]; ok {
			// The output that the value was made from, or one that gives the same value.
			if one.Unknown = false; json.Unmarshal(value, &one.Stdout) != nil {
				one.Stdout = string(value)
			}
		} else if one.at == last && e.OutputFile == "" {
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
func (b *logReader) failed(now time.Time, e events.AgentFailed) {
	o := ended(e.ErrorType, e.ExitCode, e.Error, e.StdoutTail, e.StderrTail)
	key := tryKey{item: e.ItemID, attempt: e.Attempt}
	a, at := b.running[e.ItemID], slices.Index(b.labels, e.Step)
	switch e.ErrorType {
	case retry.TypeMergeConflict:
		paths := check.Each(e.Conflicts, func(c events.Conflict) string { return c.Path })
		b.conflicts[key] = append(paths, []string{someFile}[min(len(paths), 1):]...)
	case retry.TypeVerifyFailed:
		o.Type = ""
		b.refused[key] = o
	case retry.TypeCircuitOpen, retry.TypeTemplate, retry.TypeMissingOutput: // no command ended so
		delete(b.running, e.ItemID)
	default:
		if a == nil || e.AgentID == "" {
			return
		}
		if at >= 0 {
			a.fail(at, now, o)
		}
		b.keep(e.ItemID, a)
	}
}

// keep keeps the tries of an attempt that has ended.
func (b *logReader) keep(item string, a *runningAttempt) {
	b.Attempts++
	delete(b.running, item)
	for _, one := range a.tries {
		b.tries[tryKey{item, a.number, b.labels[one.at], one.try, one.repeat}] = one.Outcome
		b.sample(b.labels[one.at], a.number > 1 || one.try > 1, one.Outcome)
	}
}

// sample adds an outcome to those from which one is chosen for a try that did not happen.
func (b *logReader) sample(step string, again bool, o Outcome) {
	key := sampleKey{step, again}
	b.samples[key] = append(b.samples[key], o)
}

// ended returns the outcome of a command whose failure was recorded so. The log may have the exit code in the message
// only.
func ended(t retry.Type, code *int, message, stdout, stderr string) Outcome {
	o := Outcome{Unknown: true, Type: t, ExitCode: 1, Stdout: stdout, Stderr: cmp.Or(stderr, message+"\n")}
	if _, err := fmt.Sscanf(message, "killed by %s", &o.Signal); err == nil {
		o.ExitCode, o.Type = 0, ""
		return o
	}
	_, err := fmt.Sscanf(message, "exit code %d", &o.ExitCode)
	if _, said, _ := strings.Cut(message, ": "); err == nil && stderr == "" {
		o.Stderr = said + "\n"
	}
	switch {
	case code != nil:
		o.ExitCode = max(*code, 1)
	case err != nil && t == retry.TypeTimeout:
		o = Outcome{Unknown: true, Hangs: true, Stdout: stdout, Stderr: stderr}
		o.Takes, _ = duration.Parse(strings.TrimPrefix(message, "timed out after "))
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
		if bad, refused := l.refused[tryKey{item: a.ItemID, attempt: a.Number}]; refused {
			bad.Takes = o.Takes
			return bad
		}
		return o
	}
	if a.Phase != "map" {
		o, ok := l.phases[a.Phase+" "+t.Label]
		o.Unknown = o.Unknown || !ok
		return o
	}
	for repeat := t.Repeat; repeat >= 0; repeat-- { // one that charged nothing may be made more often now
		if one, ok := l.tries[tryKey{a.ItemID, a.Number, t.Label, t.Number, repeat}]; ok {
			return one
		}
	}
	first, again := l.samples[sampleKey{t.Label, false}], l.samples[sampleKey{t.Label, true}]
	if again == nil && (a.Number > 1 || t.Number > 1) { // no step of this label was ever tried again
		if o := l.tries[tryKey{a.ItemID, 1, t.Label, 1, 0}]; o.failed() {
			return o
		}
	}
	if a.Number == 1 && t.Number == 1 && first != nil || again == nil {
		again = first
	}
	if again == nil {
		return Outcome{Unknown: true}
	}
	return again[randOf(l.Seed, t).IntN(len(again))]
}

// Conflicts implements Model.
func (l *Log) Conflicts(t agent.SimulatedTry) []string {
	return l.conflicts[tryKey{item: t.Attempt.ItemID, attempt: t.Attempt.Number}]
}

// failed reports whether the command failed.
func (o Outcome) failed() bool { return o.ExitCode != 0 || o.Signal != "" || o.Hangs }
