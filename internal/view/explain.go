package view

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// Explanation is what happened to one item, and why, in order.
type Explanation struct {
	JobID  string `json:"job_id"`
	ItemID string `json:"item_id"`
	Status Status `json:"status"`

	// The present status, in words.
	Now string `json:"now"`

	Entries []Entry `json:"chapters"`

	// What the agents of the job have spent, if that allows no further one.
	Budget *limit.JobSpent `json:"-"`
}

// Entry is one event of an Explanation.
type Entry struct {
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`

	// The type of the event, as in the log.
	Event string `json:"event"`

	Text string `json:"text"`

	// The reasons, one line each.
	Why []string `json:"why,omitempty"`

	// The number of the attempt that the event is about; 0 before the first one.
	Attempt int `json:"-"`

	// How the attempt ended with the event. It is empty if it did not.
	How events.How `json:"-"`

	// Where what the steps of the attempt printed is kept. It is nil if nothing is.
	Outputs *outputs.Span `json:"-"`

	// The end of what they printed. Explain leaves it nil: whoever shows it looks it up.
	Printed *outputs.Tail `json:"printed,omitempty"`
}

// Explain returns the explanation of an item from the records of its job. Those of other items may be left
// out. The key is that of the circuit breaker of the item, where each key has one. The workflow w gives the
// reasons of decisions; it may be nil. runs says that a process runs the job.
func Explain(
	records iter.Seq2[events.Record, error], itemID, key string, w *workflow.Workflow, runs bool,
) (Explanation, error) {
	x := &explainer{
		out: Explanation{ItemID: itemID, Entries: []Entry{}}, key: key, runs: runs, policies: policiesOf(w),
		waited: map[string]time.Duration{}, job: New(),
	}
	if w != nil {
		x.policy = w.ErrorPolicy
	}
	err := events.Each(records, x.apply)
	x.out.Status, x.out.Now, x.out.Budget = x.status(), x.now(), x.job.Budget()
	return x.out, err
}

// explainer builds an Explanation, record by record. What the events mean for the item follows from its status
// before and after each of them, which is that in the view of the job.
type explainer struct {
	out    Explanation
	key    string
	runs   bool
	policy errorpolicy.Policy

	// The retry policies of the steps, by label.
	policies map[string]*retry.Policy

	// The delay before the last try, by the label of the step; by "" for the item itself. Backoffs like
	// decorrelated jitter depend on it.
	waited map[string]time.Duration

	// The job by the records that there are. Those of other items may be missing.
	job *Job

	// The index of the item, once it is known.
	index int
	known bool

	// The number of the attempt that was started last.
	attempt int

	// The next attempt resolves a conflict.
	resolves bool

	// A person has deleted the dead letter that the item was.
	evicted bool

	// Who has asked to skip the item. It is empty if nobody has.
	skip string
}

// policiesOf returns the retry policies of the steps of an agent by label, including nested steps.
func policiesOf(w *workflow.Workflow) map[string]*retry.Policy {
	found := map[string]*retry.Policy{}
	if w == nil {
		return found
	}
	handler := "handlers." + w.ErrorPolicy.OnItemFailure.Handler
	for at, s := range w.EachStep() {
		switch {
		case s.Retry == nil:
		case at.Section == "map":
			found[at.Logged] = s.Retry
		case at.Section == handler:
			found["on_item_failure/"+at.Logged] = s.Retry
		}
	}
	return found
}

// status returns the status of the item after the records so far.
func (x *explainer) status() Status {
	switch {
	case x.evicted:
		return Evicted
	case !x.known:
		return Unseen
	}
	return x.job.StatusOf(x.index)
}

// apply adds a record if it is about the item, or about its job and mattered to the item.
func (x *explainer) apply(r events.Record) {
	before := x.status()
	attempt := x.job.running[x.index]
	x.job.Apply(r)
	switch events.Subject(r.Event) {
	case x.out.ItemID:
		item, ok := events.ItemOf(r.Event)
		if _, asked := r.Event.(events.SkipRequested); ok && !asked {
			x.index, x.known = item.Index, true
		}
		x.out.JobID = r.JobID
		x.itemEvent(r, before)
	case "":
		x.jobEvent(r, before, attempt)
	}
}

// itemEvent adds an event about the item.
func (x *explainer) itemEvent(r events.Record, before Status) {
	switch e := r.Event.(type) {
	case events.AgentStarted:
		x.started(r, e, before)
	case events.AgentFailed:
		x.failed(r, e, before)
	case events.AgentSuperseded:
		x.add(r, fmt.Sprintf("attempt %d was superseded by attempt %d", e.Attempt, e.By), "not counted as an attempt")
	case events.StepRetrying:
		x.stepRetrying(r, e)
	case events.StepFailed:
		x.stepFailed(r, e)
	case events.SkipRequested:
		x.skip = e.By
		x.tell(r)
	case events.DLQItemRemoved:
		x.evicted = before != Succeeded
		x.tell(r)
	default:
		end, ended := events.EndOf(r.Event)
		switch after := x.status(); {
		case after == Merging:
			x.tell(r, "changes waiting to merge")
		case ended && end.How.GivenBack() && after == DeadLetter:
			x.tell(r, "remains a dead letter until it succeeds")
		default:
			x.tell(r)
		}
	}
}

// tell adds what an event says by itself, and further reasons.
func (x *explainer) tell(r events.Record, why ...string) {
	s := events.Say(r)
	x.add(r, s.Line(), slices.Concat(s.Why, why)...)
}

// add adds an entry. It belongs to the attempt that the event names, else to the last one.
func (x *explainer) add(r events.Record, text string, why ...string) {
	end, _ := events.EndOf(r.Event)
	item, _ := events.ItemOf(r.Event)
	x.out.Entries = append(x.out.Entries, Entry{
		Seq: r.Seq, Time: r.Time, Event: events.TypeOf(r.Event), Text: text, Why: why,
		Attempt: cmp.Or(item.Attempt, x.attempt), How: end.How, Outputs: events.Printed(r.Event),
	})
}

// started adds the start of an attempt, and why it starts alone, or at all.
func (x *explainer) started(r events.Record, e events.AgentStarted, before Status) {
	text := fmt.Sprintf("attempt %d started in slot %d", e.Attempt, e.Worker)
	switch {
	case e.Fleet:
		text = fmt.Sprintf("attempt %d sent to the fleet", e.Attempt)
	case x.resolves:
		text = fmt.Sprintf("attempt %d resolving the conflict in slot %d", e.Attempt, e.Worker)
	case e.Base != "" && e.Worker == 0:
		text = fmt.Sprintf("attempt %d: commit provided with --with", e.Attempt)
	}
	var why []string
	if e.Base != "" && e.Worker > 0 {
		why = append(why, "in a git workspace, at "+events.ShortCommit(e.Base))
	}
	if e.Suspect {
		why = append(why, "running alone: its worker was lost before, possibly because of this item")
	}
	if e.Alone {
		why = append(why, "running alone after all others: the run crashed, or the item was killed, while other items were running")
	}
	if e.Reason != "" {
		why = append(why, "not reused: "+e.Reason)
	}
	if before == DeadLetter || before == Rejected {
		why = append(why, "retried from the dead letter queue")
	}
	x.attempt, x.resolves, x.evicted = e.Attempt, false, false
	clear(x.waited)
	x.add(r, text, why...)
}

// stepRetrying adds a failed try of a step that is followed by another, and why.
func (x *explainer) stepRetrying(r events.Record, e events.StepRetrying) {
	p := x.policies[e.Step]
	said := events.Say(r)
	text := said.Clause()
	if p != nil && p.Attempts > 0 {
		text += fmt.Sprintf(" of %d", p.Attempts)
	}
	why := append(ruled(e.Rule), matched(p, e.ErrorType, e.Matched),
		x.delay(p, e.Step, e.Attempt, time.Duration(e.DelayMS)))
	if e.AskedMS > 0 {
		why = append(why, "the service asked to wait "+e.AskedMS.String())
	}
	if e.BudgetLeftMS != nil {
		why = append(why, fmt.Sprintf("retry budget: %s used, %s left", e.WaitedMS, e.BudgetLeftMS))
	}
	x.add(r, text+said.Then, why...)
}

// ruled says which rule told the type of a failure: one of the preset of an AI coding CLI, or one of package retry.
func ruled(rule string) []string {
	preset, name, ok := strings.Cut(rule, "/")
	switch {
	case rule == "":
		return nil
	case !ok || strings.ContainsAny(rule, " \""):
		return []string{"recognised by " + rule}
	}
	return []string{fmt.Sprintf("rule %s of agent %s (prodigy agents show %s)", name, preset, preset)}
}

// matched says why the failure was retried.
func matched(p *retry.Policy, typ retry.Type, entry string) string {
	switch {
	case entry != "":
		return fmt.Sprintf("type %s; %s in retry_on matched", typ, entry)
	case p != nil && len(p.RetryOn) == 0:
		return fmt.Sprintf("type %s; retried, because no retry_on is set", typ)
	}
	return fmt.Sprintf("type %s", typ)
}

// delay says how the delay before the next try was computed. Key is the label of the step, or "" for the item.
func (x *explainer) delay(p *retry.Policy, key string, n int, drawn time.Duration) string {
	text := "retry in " + duration.Format(drawn)
	if drawn == 0 {
		text = "retry at once"
	} else if p != nil {
		text += fmt.Sprintf(" (%s)", p.Explain(n, x.waited[key]))
	}
	x.waited[key] = drawn
	return text
}

// consequences explain what happens after the last try of a step.
var consequences = map[string]string{
	"stop":     "so the attempt fails",
	"continue": "on_failure: continue, so the attempt continues",
	"fallback": "its fallback runs",
	"handler":  "its handler runs",
}

// stepFailed adds the last try of a step, why there is no other, and what follows.
func (x *explainer) stepFailed(r events.Record, e events.StepFailed) {
	p, reason := x.policies[e.Step], cmp.Or(reasons[e.Reason], string(e.Reason))
	switch {
	case e.OnlyTry():
		reason = "the step has no retries of its own"
	case e.Reason == retry.NotRetryable && p != nil:
		entries := strings.Join(check.Each(p.RetryOn, retry.Matcher.String), ", ")
		reason = fmt.Sprintf("no retry_on entry (%s) matched", entries)
	}
	why := append(ruled(e.Rule), fmt.Sprintf("type %s; %s", e.ErrorType, reason))
	if what := consequences[e.Action]; what != "" {
		why = append(why, what)
	}
	x.tell(r, why...)
}

// failed adds a failed attempt, or work that was not merged, and what the policy made of it.
func (x *explainer) failed(r events.Record, e events.AgentFailed, before Status) {
	if e.Rejected() {
		x.tell(r, "the circuit breaker was open", "dead letter; retry it after fixing the cause")
		return
	}
	text := events.Say(r).Clause()
	if before == Merging {
		text = fmt.Sprintf("changes of attempt %d were not merged%s: %s", e.Attempt, events.InStep(e.Step), e.Error)
	}
	why := append(ruled(e.Rule), "type "+string(e.ErrorType))
	for _, c := range e.Conflicts {
		why = append(why, "conflict in "+c.Path+term.Prefixed(", also changed by ", strings.Join(c.With, ", ")))
	}
	if e.Commit != "" {
		why = append(why, "changes kept as "+events.ShortCommit(e.Commit))
	}
	if e.Matched != "" {
		why = append(why, e.Matched+" in retry_on matched")
	}
	why = append(why, "action "+string(e.Action)+term.Prefixed(": ", e.Reason)+term.Prefixed("; ", e.Action.Note()))
	if s := e.Retry; e.Action.RunsAgain() && s != nil && !s.Alone {
		p := x.policy.Retries()
		due := e.RetryAt.Local().Format("15:04:05.000")
		why = append(why, x.delay(p, "", s.Attempts, time.Duration(*e.DelayMS))+", due at "+due)
		if !s.ExpiresAt.IsZero() && p != nil {
			why = append(why, fmt.Sprintf("retry budget: %s of %s used", s.Waited, duration.Format(p.Budget)))
		}
	}
	x.resolves = e.Resolve
	x.add(r, text, why...)
}

// unsettled says what a resume does with an item that has no outcome, by its status.
var unsettled = map[Status]string{
	Pending: "the item restarts",
	Waiting: "the item keeps its due time",
	Merging: "its changes are merged first, without running it again",
}

// jobEvent adds an event of the job if it mattered to the item. attempt is the one that ran before it, if any.
func (x *explainer) jobEvent(r events.Record, before Status, attempt *Attempt) {
	switch e := r.Event.(type) {
	case events.WorktreeMerged:
		if at := slices.Index(e.ItemIDs, x.out.ItemID); at >= 0 {
			x.add(r, "merged as "+events.ShortCommit(e.Commits[at]))
		}
	case events.QuotaPaused:
		if e.Item == x.out.ItemID {
			x.tell(r, e.Cause()+"; not counted as an attempt"+term.Prefixed(": ", e.Error))
		}
	case events.RetryNowRequested:
		if e.Names(x.out.ItemID) && (before == Waiting || before == InFlight) {
			x.tell(r)
		}
	case events.JobResumed:
		x.resumed(r, e, before, attempt)
	}
	if h, ok := events.HoldOf(r.Event); ok && h.Name == events.ByPerson && before == Waiting {
		x.add(r, "job "+events.Say(r).Text)
	}
	if _, ok := events.RunEndOf(r.Event); ok && unsettled[before] != "" {
		x.add(r, "job "+events.Say(r).Line(), "on resume "+unsettled[before])
	}
	if scope, t, ok := events.Transition(r.Event); ok && x.mayHold(scope, t, before, attempt) {
		x.breaker(r, t)
	}
}

// mayHold reports whether the item waits for the breaker with that scope, or is about to try its step again.
func (x *explainer) mayHold(scope string, t limit.Transition, status Status, attempt *Attempt) bool {
	if scope != events.WorkflowScope {
		return status == InFlight && attempt.Step == scope && !attempt.Due.IsZero()
	}
	return t.Key == "" && status == Waiting || t.Key != "" && t.Key == x.key && (status == Waiting || status == Unseen)
}

// breaker adds that a breaker has opened or closed.
func (x *explainer) breaker(r events.Record, t limit.Transition) {
	text := events.Say(r).Line()
	switch t.To {
	case limit.Open:
		x.add(r, text, "after "+check.Counted(t.ConsecutiveFailures, "consecutive failure"))
	case limit.Closed:
		x.add(r, text)
	}
}

// resumed adds what a resume does with the item, if it has no outcome.
func (x *explainer) resumed(r events.Record, e events.JobResumed, before Status, attempt *Attempt) {
	after := x.status()
	if before != InFlight {
		switch {
		case before == Waiting && after == DeadLetter:
			x.add(r, "job resumed; its retry did not finish", "still a dead letter")
		case unsettled[after] != "":
			x.add(r, "job resumed", unsettled[after])
		}
		return
	}
	why := []string{fmt.Sprintf("outcome of attempt %d unknown; restarted as attempt %d, not counted", x.attempt,
		x.attempt+1)}
	switch after {
	case InFlight:
		why[0] = "the attempt may still be running" + term.Prefixed(" on ", attempt.Where()) + ", and counts if it finishes"
	case DeadLetter:
		why[0] = "still a dead letter"
	}
	if e.Died != nil {
		why = append(why, "run crashed "+duration.Milliseconds(e.Died.Sub(attempt.Began))+" after the item started")
	}
	x.add(r, fmt.Sprintf("run crashed during attempt %d; job resumed", x.attempt), why...)
}

// statusWords are the statuses in words, but for those that say more of the item.
var statusWords = map[Status]string{
	Unseen:     "not started yet",
	Pending:    "waiting for a resume or a free slot",
	Merging:    "changes waiting to merge",
	Succeeded:  "succeeded",
	DeadLetter: "dead letter",
	Rejected:   "dead letter, rejected by an open circuit breaker",
	Skipped:    "skipped",
	Evicted:    "deleted from the dead letter queue",
}

// now returns the present status of the item in words, and what people have asked for.
func (x *explainer) now() string {
	status := x.status()
	words := statusWords[status]
	switch status {
	case InFlight:
		words = x.inFlight()
	case Waiting:
		words = "waiting to retry, due at " + check.Moment(x.job.waiting[x.index].due)
	case Unseen, Pending:
	default:
		return words
	}
	if x.skip != "" {
		words += "; skip requested by " + x.skip
	}
	if b := x.job.Budget(); b != nil && status != InFlight {
		words += "; " + b.Text()
	}
	if b, ok := x.job.Breaker(events.WorkflowScope, x.key); ok && b.State == Open && status != InFlight {
		words += "; circuit breaker open until " + b.Until.Local().Format(time.TimeOnly)
	}
	for _, e := range x.job.StartsHeld() {
		if status != InFlight {
			words += "; not starting items: " + e.Reason
		}
	}
	if h := x.job.Hold(); h != nil {
		words += "; the job is paused by " + h.By + " since " + check.Moment(h.Since)
	}
	return words
}

// inFlight says what the attempt does that has not ended.
func (x *explainer) inFlight() string {
	due := x.job.running[x.index].Due
	switch {
	case !x.runs:
		return fmt.Sprintf("attempt %d was running when prodigy was killed", x.attempt)
	case !due.IsZero():
		what := "to retry its step"
		if len(x.job.Paused()) > 0 {
			what = "for the plan limit"
		}
		return fmt.Sprintf("attempt %d waits %s until %s", x.attempt, what, check.Moment(due))
	}
	return fmt.Sprintf("attempt %d is running", x.attempt)
}
