package view

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
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
// out: then it does not say how many are merged before it. The workflow w gives the reasons of decisions; it
// may be nil.
func Explain(records iter.Seq2[events.Record, error], itemID, key string, w *workflow.Workflow) (Explanation, error) {
	x := &explainer{
		out: Explanation{ItemID: itemID, Status: Unseen, Entries: []Entry{}}, key: key,
		policies: policiesOf(w), waited: map[string]time.Duration{}, job: New(),
	}
	if w != nil {
		x.policy, x.byItem = w.ErrorPolicy, w.Workspace.Order == workflow.OrderItems
	}
	if err := events.Each(records, x.apply); err != nil {
		return x.out, err
	}
	x.out.Now = x.now()
	return x.out, nil
}

// explainer builds an Explanation, record by record.
type explainer struct {
	out    Explanation
	policy errorpolicy.Policy

	// The retry policies of the steps, by label.
	policies map[string]*retry.Policy

	// The delay before the last try, by the label of the step; by "" for the item itself. Backoffs like
	// decorrelated jitter depend on it.
	waited map[string]time.Duration

	// The number of the attempt that was started last.
	attempt int

	// The index of the item, which is known once an attempt has started.
	index int

	// When the last attempt started.
	began time.Time

	// " on " and the worker of a fleet that runs the attempt. It is empty if the worker is not known.
	placed string

	// The attempt runs while nothing else does.
	alone bool

	// The item was killed for lack of memory, and runs alone because of that.
	killed bool

	// How often the run died while the item was running, for no known reason.
	crashes int

	// How many retries of the item were decided.
	retries int

	// When the next attempt is due. It is zero if none is.
	due time.Time

	// The label of the step that waits for its next try, or did last.
	step string

	// The step whose agent runs next, and when that is due unless the limit of its plan holds it back. The step is empty
	// if that is not known.
	asks  string
	ready time.Time

	// The end of the retry budget of the step that was to be tried again last.
	budget expiry

	// The key of the circuit breaker of the item, where each key has one.
	key string

	// When the open breaker probes. It is zero while the breaker is closed.
	until time.Time

	// Since when the breaker has been open.
	held time.Time

	// The item is a dead letter, also while it is run again.
	letter bool

	// How the last run ended. It is empty while the job runs, or if the run was killed.
	ended jobs.State

	// The next attempt resolves a conflict.
	resolves bool

	// When the work that waits to be merged was done.
	done time.Time

	// The job by the records that there are. Those of other items may be missing.
	job *Job

	// Work is merged in the order of the items.
	byItem bool

	// Who has asked to skip the item. It is empty if nobody has.
	skip string

	// There are records about other items, so that those before this one can be counted.
	others bool
}

// expiry is the end of the retry budget of a step by the wall clock, which counts after a resume.
type expiry struct {
	step   string
	at     time.Time
	counts bool
}

// policiesOf returns the retry policies of the steps of an agent by label, including nested steps.
func policiesOf(w *workflow.Workflow) map[string]*retry.Policy {
	found := map[string]*retry.Policy{}
	var walk func(steps []workflow.Step, prefix string)
	walk = func(steps []workflow.Step, prefix string) {
		for i, s := range steps {
			label := prefix + s.Label(i)
			if s.Retry != nil {
				found[label] = s.Retry
			}
			for key, inner := range s.NestedSteps() {
				walk(inner, workflow.LabelPrefix(label, key))
			}
		}
	}
	if w == nil || w.Map == nil {
		return found
	}
	walk(w.Map.AgentTemplate, "")
	walk(w.Handlers[w.ErrorPolicy.OnItemFailure.Handler], "on_item_failure/")
	return found
}

// apply adds a record about the item or its job.
func (x *explainer) apply(r events.Record) {
	x.job.Apply(r)
	if events.Subject(r.Event) == "" {
		x.jobEvent(r)
		return
	}
	if events.Subject(r.Event) != x.out.ItemID {
		x.others = true
		return
	}
	x.out.JobID = r.JobID
	if end, ok := events.EndOf(r.Event); ok {
		x.attemptEnded(r, end)
		return
	}
	switch e := r.Event.(type) {
	case events.AgentStarted:
		x.started(r, e)
	case events.StepRetrying:
		x.stepRetrying(r, e)
	case events.StepFailed:
		x.stepFailed(r, e)
	case events.AgentDuplicated:
		x.attempt, x.placed = e.Attempt, ""
		x.tell(r)
	case events.AgentUsage:
		x.tell(r)
		if t := retry.Type(e.Outcome); t == retry.TypeQuota || t == retry.TypeAuth {
			x.asks, x.ready = e.Step, r.Time
		}
	case events.AISessionStarted:
		x.tell(r, x.waitedForPlan(r.Time, e)...)
		x.asks = ""
	case events.AgentPlaced:
		x.placed = e.Machine().OnWorker()
		x.tell(r)
	case events.AgentEndedLate:
		at := x.attempt
		x.attempt = e.Attempt
		x.tell(r)
		x.attempt = at
	case events.SkipRequested:
		x.skip = e.By
		x.tell(r)
	case events.DLQItemRemoved:
		x.letter = false
		if x.out.Status != Succeeded {
			x.out.Status = Evicted
		}
		x.tell(r)
	default:
		x.tell(r)
	}
}

// attemptEnded adds the end of an attempt, or of the item without one.
func (x *explainer) attemptEnded(r events.Record, end events.End) {
	if e, failed := r.Event.(events.AgentFailed); failed {
		x.failed(r, e)
		return
	}
	if e, superseded := r.Event.(events.AgentSuperseded); superseded {
		x.superseded(r, e)
		return
	}
	switch {
	case end.How.GivenBack():
		x.givenBack(r)
	case end.Settles:
		x.out.Status, x.letter = Succeeded, false
		x.tell(r)
	default:
		x.out.Status, x.done = Merging, r.Time
		x.tell(r, "changes waiting to merge"+x.behind())
	}
}

// tell adds what an event says by itself, and further reasons.
func (x *explainer) tell(r events.Record, why ...string) {
	s := events.Say(r)
	reasons := slices.Concat(s.Why, why)
	if then, ok := strings.CutPrefix(s.Then, ": "); ok {
		reasons = append([]string{then}, reasons...)
	}
	x.add(r, s.Clause(), reasons...)
}

// givenBack adds the end of an attempt that is no failure.
func (x *explainer) givenBack(r events.Record) {
	s := events.Say(r)
	x.out.Status = Pending
	if x.letter {
		x.out.Status = DeadLetter
		s.Why[0] += "; remains a dead letter until it succeeds"
	}
	x.add(r, s.Clause(), s.Why...)
}

// add adds an entry. It belongs to the attempt that x.attempt names.
func (x *explainer) add(r events.Record, text string, why ...string) {
	end, _ := events.EndOf(r.Event)
	x.out.Entries = append(x.out.Entries, Entry{
		Seq: r.Seq, Time: r.Time, Event: events.TypeOf(r.Event), Text: text, Why: why,
		Attempt: x.attempt, How: end.How, Outputs: events.Printed(r.Event),
	})
}

// merged adds the merge of the work of the item.
func (x *explainer) merged(r events.Record, e events.WorktreeMerged) {
	at := slices.Index(e.ItemIDs, x.out.ItemID)
	if at < 0 {
		return
	}
	x.out.Status, x.letter = Succeeded, false
	why := []string{"it waited " + duration.Format(r.Time.Sub(x.done).Round(time.Millisecond)) + " for that"}
	if n := len(e.ItemIDs) - 1; n > 0 {
		why = append(why, "together with "+check.Counted(n, "other item"))
	}
	x.add(r, "merged as "+events.ShortCommit(e.Commits[at]), why...)
}

// behind says how many items are merged before the item, whose work waits to be merged.
func (x *explainer) behind() string {
	if n := x.job.before(x.index, x.byItem); n > 0 && x.others {
		return ", behind " + check.Counted(n, "other")
	}
	return ""
}

// started adds the start of an attempt, and why it starts just now, alone, or at all.
func (x *explainer) started(r events.Record, e events.AgentStarted) {
	x.placed = ""
	text := fmt.Sprintf("attempt %d started in slot %d", e.Attempt, e.Worker)
	var why []string
	switch {
	case x.resolves:
		text = fmt.Sprintf("attempt %d resolving the conflict in slot %d", e.Attempt, e.Worker)
		why = append(why, "with the steps of workspace.resolve, at "+events.ShortCommit(e.Base))
	case e.Base != "" && e.Worker == 0:
		text = fmt.Sprintf("attempt %d: commit provided with --with", e.Attempt)
	case e.Base != "":
		why = append(why, "in a git workspace, at "+events.ShortCommit(e.Base))
	}
	x.resolves = false
	if e.Fleet {
		text = fmt.Sprintf("attempt %d sent to the fleet", e.Attempt)
	}
	if e.Suspect {
		why = append(why, "running alone: its worker was lost before, possibly because of this item")
	}
	if e.Reason != "" {
		why = append(why, "not reused: "+e.Reason)
	}
	if x.alone = e.Alone; x.alone && x.killed {
		why = append(why, "running alone after all others: it was killed for lack of memory")
	} else if x.alone {
		why = append(why, fmt.Sprintf("running alone after all others: the run crashed %s while this item was "+
			"running, for no known reason", check.Counted(x.crashes, "time")))
	}
	switch {
	case x.out.Status == Waiting && !x.due.IsZero() && !x.killed:
		if late := r.Time.Sub(x.due); late > time.Second {
			why = append(why, fmt.Sprintf("due at %s, then waited %s for a free slot", clock(x.due),
				duration.Format(late.Round(time.Millisecond))))
		}
	case x.out.Status == DeadLetter || x.out.Status == Rejected:
		why = append(why, "retried from the dead letter queue")
	}
	x.out.Status, x.attempt, x.index, x.due, x.step, x.began = InFlight, e.Attempt, e.ItemIndex, time.Time{}, "", r.Time
	x.asks = ""
	clear(x.waited)
	x.add(r, text, why...)
}

// superseded says why one of two attempts does not count.
func (x *explainer) superseded(r events.Record, e events.AgentSuperseded) {
	const why = "not the item's failure; not counted as an attempt"
	at := x.attempt
	x.attempt = e.Attempt
	switch {
	case e.Error != "":
		x.add(r, fmt.Sprintf("attempt %d failed after %s: %s", e.Attempt,
			e.DurationMS.String(), e.Error),
			fmt.Sprintf("attempt %d is still running and decides: ", e.By)+why)
	case x.out.Status == InFlight:
		x.add(r, fmt.Sprintf("attempt %d was stopped", e.Attempt), fmt.Sprintf("attempt %d still ran: ", e.By)+why)
	default:
		x.add(r, fmt.Sprintf("attempt %d stopped after %s: attempt %d won", e.Attempt,
			e.DurationMS.String(), e.By), why)
	}
	if x.attempt = at; at == e.Attempt {
		x.attempt = e.By
	}
}

// clock returns the time of day, to the millisecond.
func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }

// stepRetrying adds a failed try of a step that is followed by another, and why.
func (x *explainer) stepRetrying(r events.Record, e events.StepRetrying) {
	x.step = e.Step
	p := x.policies[e.Step]
	said := events.Say(r)
	text := said.Clause() + of(p) + said.Then
	why := append(ruled(e.Rule), matched(p, e.ErrorType, e.Matched))
	why = append(why, x.delay(p, e.Step, e.Attempt, time.Duration(e.ComputedDelayMS), time.Duration(e.DelayMS)))
	if e.AskedMS > 0 {
		why = append(why, "the service asked to wait "+e.AskedMS.String())
	}
	if e.BudgetExpiresAt != nil {
		x.budget = expiry{step: e.Step, at: *e.BudgetExpiresAt, counts: x.budget.counts && x.budget.step == e.Step}
	}
	if e.BudgetLeftMS != nil {
		why = append(why, fmt.Sprintf("retry budget: %s used, %s left",
			e.WaitedMS.String(),
			e.BudgetLeftMS.String()))
	}
	x.add(r, text, why...)
	x.asks, x.ready = e.Step, r.Time.Add(time.Duration(e.DelayMS))
}

// waitedForPlan says how long an agent waited for the limit of its plan before its session began, if it is known that
// the item waited for nothing else.
func (x *explainer) waitedForPlan(now time.Time, e events.AISessionStarted) []string {
	var why []string
	for _, p := range x.job.Pauses() {
		from, to := p.From, p.To
		if from.Before(x.ready) {
			from = x.ready
		}
		if to.IsZero() || to.After(now) {
			to = now
		}
		if waited := to.Sub(from); x.asks == e.Step && p.Pool == e.Preset && waited > 0 {
			why = append(why, "waited "+duration.Format(waited.Round(time.Millisecond))+": "+p.Cause())
		}
	}
	return why
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

// of returns " of N", where N is the maximum number of tries.
func of(p *retry.Policy) string {
	if p == nil || p.Attempts == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d", p.Attempts)
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
func (x *explainer) delay(p *retry.Policy, key string, n int, computed, drawn time.Duration) string {
	previous := x.waited[key]
	x.waited[key] = drawn
	if p == nil {
		return fmt.Sprintf("retry in %s (%s before jitter)", duration.Format(drawn), duration.Format(computed))
	}
	return fmt.Sprintf("retry in %s (%s)", duration.Format(drawn), p.Explain(n, previous))
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
	why := append(ruled(e.Rule), fmt.Sprintf("type %s; %s", e.ErrorType, x.gaveUp(r, e)))
	if what := consequences[e.Action]; what != "" {
		why = append(why, what)
	}
	x.tell(r, why...)
}

// gaveUp says why a step is not tried again, by its policy where the workflow has one.
func (x *explainer) gaveUp(r events.Record, e events.StepFailed) string {
	p, tries := x.policies[e.Step], e.Attempts
	if p != nil {
		tries = p.Attempts
	}
	if e.Reason == retry.Exhausted && tries <= 1 {
		return "no retry_config"
	}
	if e.Reason == retry.NotRetryable && p != nil {
		return fmt.Sprintf("no retry_on entry (%s) matched", entries(p.RetryOn))
	}
	if b := x.budget; e.Reason == retry.Budget && b.counts && b.step == e.Step && r.Time.After(b.at) {
		return "the retry budget ended at " + clock(b.at) + ", which counts since the resume"
	}
	if words := reasons[e.Reason]; words != "" {
		return words
	}
	return string(e.Reason)
}

// entries lists the matchers of retry_on, as the workflow has them.
func entries(list []retry.Matcher) string {
	return strings.Join(check.Each(list, retry.Matcher.String), ", ")
}

// failed adds a failed attempt, or work that was not merged, and what the policy made of it.
func (x *explainer) failed(r events.Record, e events.AgentFailed) {
	x.budget = expiry{}
	if e.Rejected() {
		x.out.Status, x.letter = Rejected, true
		x.tell(r, x.breaker(r.Time), "dead letter; retry it after fixing the cause")
		return
	}
	text := events.Say(r).Clause()
	why := append(ruled(e.Rule), "type "+string(e.ErrorType))
	switch {
	case x.out.Status == Merging && e.ErrorType == retry.TypeVerifyFailed:
		text = fmt.Sprintf("changes of attempt %d were rejected%s: %s", e.Attempt, events.InStep(e.Step), e.Error)
	case x.out.Status == Merging:
		text = fmt.Sprintf("changes of attempt %d could not be merged: %s", e.Attempt, e.Error)
	}
	for _, c := range e.Conflicts {
		line := "conflict in " + c.Path
		if len(c.With) > 0 {
			line += ", which was changed by " + strings.Join(c.With, ", ")
		}
		why = append(why, line)
	}
	if e.Commit != "" {
		why = append(why, "changes kept as "+events.ShortCommit(e.Commit))
	}
	if e.Action.RunsAgain() {
		x.out.Status, x.resolves = Waiting, e.Resolve
		if e.Resolve {
			x.due = *e.RetryAt
			x.add(r, text, append(why, e.Reason)...)
			return
		}
		x.add(r, text, append(why, x.itemRetry(e)...)...)
		return
	}
	x.out.Status, x.letter = Status(e.Status().Result()), e.Status().DeadLetter()
	action := "action " + string(e.Action)
	if e.Reason != "" {
		action += ": " + e.Reason
	}
	if note := e.Action.Note(); note != "" {
		action += "; " + note
	}
	x.add(r, text, append(why, action)...)
}

// itemRetry says why the policy retried the item.
func (x *explainer) itemRetry(e events.AgentFailed) []string {
	x.due = *e.RetryAt
	p, n := x.policy.Retries(), x.retries+1
	if e.Retry != nil {
		n = e.Retry.Attempts
	}
	x.retries = n
	why := []string{"action retry: " + e.Reason}
	if e.Matched != "" {
		why = append(why, e.Matched+" in retry_on matched")
	}
	if e.Retry != nil && e.Retry.Alone {
		x.killed = true
		return why
	}
	why = append(why, x.delay(p, "", n, time.Duration(*e.DelayMS),
		time.Duration(*e.DelayMS))+", due at "+clock(x.due))
	if e.Retry != nil && e.Retry.SpreadMS > 0 {
		why = append(why, e.Retry.SpreadMS.String()+
			" of it because many others are due at the same time")
	}
	if e.Retry != nil && e.Retry.ExpiresAt != nil {
		budget := retry.Default().Budget
		if p != nil {
			budget = p.Budget
		}
		why = append(why, fmt.Sprintf("retry budget: %s of %s waited including this",
			e.Retry.WaitedMS.String(), duration.Format(budget)))
	}
	return why
}

// breaker says how long the breaker of the items has been open, and until when it stays so.
func (x *explainer) breaker(now time.Time) string {
	if x.until.IsZero() {
		return "the circuit breaker is open"
	}
	return fmt.Sprintf("circuit breaker open for %s, probes at %s",
		duration.Format(now.Sub(x.held).Round(time.Millisecond)), clock(x.until))
}

// jobEvent adds events of the job that affected the item.
func (x *explainer) jobEvent(r events.Record) {
	switch e := r.Event.(type) {
	case events.WorktreeMerged:
		x.merged(r, e)
	case events.QuotaPaused:
		if e.Item == x.out.ItemID {
			x.tell(r, e.Cause()+"; no attempt is charged: "+e.Error)
		}
	case events.RetryNowRequested:
		x.retryNow(r, e)
	case events.JobResumed:
		x.resumed(r, e)
	}
	if h, ok := events.HoldOf(r.Event); ok && h.Name == events.ByPerson {
		x.paused(r)
	}
	if end, ok := events.RunEndOf(r.Event); ok {
		x.over(r, end.State, ends[end.State]+end.Reason)
	}
	if scope, t, ok := events.Transition(r.Event); ok {
		x.breakerWent(r, scope, t)
	}
}

// paused adds that a person has paused the job, or continued it.
func (x *explainer) paused(r events.Record) {
	var why []string
	if x.job.Hold() != nil {
		why = []string{"no items start until 'prodigy continue'"}
	}
	if x.out.Status == Waiting {
		x.add(r, "the job was "+events.Say(r).Text, why...)
	}
}

// breakerWent adds what has happened to the breaker that the item waits for, or that of the step that it is about to
// try again.
func (x *explainer) breakerWent(r events.Record, scope string, t limit.Transition) {
	ofStep := scope != events.WorkflowScope
	if ofStep && (x.out.Status != InFlight || x.step != scope) || !ofStep && t.Key != "" && t.Key != x.key {
		return
	}
	waits := ofStep || x.out.Status == Waiting || t.Key != "" && x.out.Status == Unseen
	name, then := "the circuit breaker", "no items start before "+clock(t.Until)
	switch {
	case ofStep:
		name, then = name+" of step "+scope, "a try of the step before "+clock(t.Until)+" would be rejected"
	case t.Key != "" && t.To == limit.Open:
		name, then = name+" of "+t.Key, "no item of it starts before "+clock(t.Until)+", then few at once"
	}
	switch t.To {
	case limit.Open:
		if !ofStep {
			x.held, x.until = r.Time, t.Until
		}
		if waits {
			x.add(r, fmt.Sprintf("%s opened after %d consecutive failures", name, t.ConsecutiveFailures), then)
		}
	case limit.Closed:
		if ofStep {
			return
		}
		x.held, x.until = time.Time{}, time.Time{}
		if waits {
			x.add(r, fmt.Sprintf("%s closed after %d successes", name, t.Successes))
		}
	}
}

// ends are what comes before the reason of the end of a run.
var ends = map[jobs.State]string{
	jobs.Completed: "the job completed: ", jobs.Cancelled: "the job was ",
	jobs.Stopped: "job stopped: ", jobs.Failed: "job failed: ",
}

// over adds the end of a run in which the item was not settled.
func (x *explainer) over(r events.Record, s jobs.State, text string) {
	x.ended = s
	switch x.out.Status {
	case Pending:
		x.add(r, text, "the item starts again on resume")
	case Waiting:
		x.add(r, text, "the item keeps its due time")
	case Merging:
		x.add(r, text, "its changes are merged first on resume")
	}
}

// resumed adds what a resume does with an unsettled item.
func (x *explainer) resumed(r events.Record, e events.JobResumed) {
	crashed := x.ended == ""
	attached := x.out.Status == InFlight && e.IsAttached(x.index)
	x.ended, x.budget.counts = "", true
	unfinished := x.out.Status == InFlight && crashed || x.out.Status == Waiting
	switch {
	case attached:
		x.add(r, fmt.Sprintf("run crashed during attempt %d; job resumed", x.attempt),
			"the attempt may still run"+x.placed+", and counts if it ends there")
	case unfinished && x.letter:
		x.out.Status = DeadLetter
		x.add(r, "dead letter retry did not finish; job resumed",
			"still a dead letter")
	case x.out.Status == InFlight && crashed:
		x.out.Status = Pending
		x.add(r, fmt.Sprintf("run crashed during attempt %d; job resumed", x.attempt),
			append([]string{
				fmt.Sprintf("outcome of attempt %d unknown; restarted as attempt %d, not counted",
					x.attempt, x.attempt+1),
			}, x.death(e)...)...)
	case x.out.Status == Merging:
		x.add(r, "job resumed; merging the item's changes without rerunning it")
	case x.out.Status == Pending:
		x.add(r, "job resumed; item restarted")
	case x.out.Status == Waiting:
		why := "due now"
		if wait := x.due.Sub(r.Time); wait > 0 {
			why = "it keeps its due time: due in " + duration.Format(wait.Round(time.Millisecond))
		}
		x.add(r, "the job continues", why)
	}
}

// death says what the death of a run means for the item that was in flight.
func (x *explainer) death(e events.JobResumed) []string {
	if e.Died == nil {
		return nil
	}
	after := duration.Format(e.Died.Sub(x.began).Round(time.Millisecond))
	x.crashes++
	if x.alone {
		return []string{fmt.Sprintf("run crashed %s after the item started, while it was running alone", after)}
	}
	return []string{fmt.Sprintf("run crashed %s after the item started, for no known reason", after)}
}

// retryNow adds that the item, or its step, does not wait any longer.
func (x *explainer) retryNow(r events.Record, e events.RetryNowRequested) {
	if !e.Names(x.out.ItemID) {
		return
	}
	switch x.out.Status {
	case Waiting:
		if x.due.After(r.Time) {
			x.due = r.Time
			x.add(r, e.By+" has made it due now")
		}
	case InFlight:
		if x.step != "" {
			x.add(r, fmt.Sprintf("%s has made the next try of step %s due now", e.By, x.step))
		}
	}
}

// now returns the present status of the item in words.
func (x *explainer) now() string {
	words := x.words()
	switch x.out.Status {
	case Unseen, Pending, Waiting, InFlight:
		if x.skip != "" {
			words += "; " + x.skip + " has asked to skip it"
		}
		if h := x.job.Hold(); h != nil && x.out.Status != InFlight {
			words += "; the job is paused by " + h.By + " since " + h.Since.Local().Format(time.DateTime)
		}
	}
	return words
}

// words is now without what people have asked for.
func (x *explainer) words() string {
	switch x.out.Status {
	case Unseen:
		return "not started yet"
	case InFlight:
		return fmt.Sprintf("attempt %d is running, or was when prodigy crashed", x.attempt)
	case Pending:
		return "waiting for a resume or a free slot"
	case Waiting:
		return "waiting to retry, due at " + x.due.Local().Format("2006-01-02 15:04:05")
	case Merging:
		return "changes waiting to merge" + x.behind()
	case Succeeded:
		return "done: it succeeded"
	case DeadLetter:
		return "it is a dead letter"
	case Rejected:
		if x.attempt > 0 {
			return "dead letter, not run again"
		}
		return "dead letter, never run"
	case Skipped:
		return "done: it was skipped"
	case Evicted:
		return "deleted from the dead letter queue"
	}
	panic("BUG: an item has an unknown status: " + string(x.out.Status))
}
