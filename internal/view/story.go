package view

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Story is the chain of decisions about one item, in the order in which they were made.
type Story struct {
	JobID    string    `json:"job_id"`
	ItemID   string    `json:"item_id"`
	Status   Status    `json:"status"`
	Now      string    `json:"now"` // where the item is now, in words
	Chapters []Chapter `json:"chapters"`
}

// Chapter is one event of a story.
type Chapter struct {
	Seq   int64     `json:"seq"`
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // its type
	Text  string    `json:"text"`
	Why   []string  `json:"why,omitempty"` // a line each
}

// Status is where an item is.
type Status string

const (
	Unseen     Status = "unseen"  // the log says nothing of it
	Pending    Status = "pending" // it was running when it was stopped, and starts again
	InFlight   Status = "running"
	Waiting    Status = "waiting" // for its next attempt
	Succeeded  Status = "success"
	DeadLetter Status = "failed"
	Skipped    Status = "skipped"
	Rejected   Status = "rejected"
	Evicted    Status = "gone" // a dead letter that was deleted
)

// Tell reads the story of an item from the records of its job. The workflow explains the decisions; nil: it is not known.
func Tell(records iter.Seq2[events.Record, error], itemID string, w *workflow.Workflow) (Story, error) {
	t := &teller{story: Story{ItemID: itemID, Status: Unseen, Chapters: []Chapter{}}, policies: policiesOf(w), waited: map[string]time.Duration{}}
	if w != nil {
		t.policy = w.ErrorPolicy
	}
	for r, err := range records {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err != nil {
			return t.story, err
		}
		t.tell(r)
	}
	t.story.Now = t.now()
	return t.story, nil
}

// teller is a story that is being told.
type teller struct {
	story    Story
	policy   errorpolicy.Policy
	policies map[string]retry.Policy  // of the steps, by label
	waited   map[string]time.Duration // the delay before, by the label of the step; "" for the item
	attempt  int                      // the last that was started
	retries  int                      // of the item, that were decided
	due      time.Time
	step     string    // that waits for its next try, or did last
	budget   expiry    // of the step that was to be tried again last
	until    time.Time // of the open breaker
	held     time.Time // since when the breaker has been open
	letter   bool      // it is in the dead letter queue
	ended    State     // of the job; empty while it runs, or was killed
}

// expiry is the end of the retry budget of a step by the clock, which counts when a resume has taken the attempt up.
type expiry struct {
	step   string
	at     time.Time
	counts bool
}

// policiesOf returns the retry policies of the steps of an agent by their labels, those of steps inside of steps too.
func policiesOf(w *workflow.Workflow) map[string]retry.Policy {
	found := map[string]retry.Policy{}
	var walk func(steps []workflow.Step, prefix string)
	walk = func(steps []workflow.Step, prefix string) {
		for i, s := range steps {
			label := prefix + s.Label(i)
			if s.Retry != nil {
				found[label] = *s.Retry
			}
			for key, inner := range s.Following() {
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

// tell adds a record, when it has to do with the item.
func (t *teller) tell(r events.Record) {
	if r.Event.About() == "" {
		t.tellJob(r)
		return
	}
	if r.Event.About() != t.story.ItemID {
		return
	}
	t.story.JobID = r.JobID
	switch e := r.Event.(type) {
	case events.AgentStarted:
		t.started(r, e)
	case events.AgentProgress:
		t.say(r, fmt.Sprintf("step %s begins (%d of %d)", e.Step, e.StepIndex+1, e.Steps))
	case events.StepRetrying:
		t.stepRetrying(r, e)
	case events.StepFailed:
		t.stepFailed(r, e)
	case events.StepSkipped:
		t.say(r, fmt.Sprintf("step %s is not run", e.Step), "its condition is not met: "+e.When)
	case events.AgentCompleted:
		t.story.Status, t.letter = Succeeded, false
		t.say(r, fmt.Sprintf("attempt %d succeeded after %s", e.Attempt, duration.Format(time.Duration(e.DurationMS))))
	case events.AgentFailed:
		t.failed(r, e)
	case events.AgentInterrupted:
		t.story.Status = Pending
		why := "a stop is not a failure: the attempt is given back, and the next one has the same number"
		if t.letter {
			t.story.Status = DeadLetter
			why += "; it stays a dead letter until it succeeds"
		}
		t.say(r, fmt.Sprintf("attempt %d was stopped: %s", e.Attempt, e.Reason), why)
	case events.AgentSkipped:
		t.say(r, "counted as skipped: "+e.Reason)
	case events.DLQItemAdded:
		t.say(r, fmt.Sprintf("put into the dead letter queue after %s", tries(e.FailureCount)))
	case events.DLQItemRemoved:
		t.removed(r, e)
	}
}

func (t *teller) say(r events.Record, text string, why ...string) {
	t.story.Chapters = append(t.story.Chapters, Chapter{Seq: r.Seq, Time: r.Time, Event: r.Event.Type(), Text: text, Why: why})
}

func tries(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}

func (t *teller) started(r events.Record, e events.AgentStarted) {
	text := fmt.Sprintf("attempt %d starts in slot %d", e.Attempt, e.Worker)
	var why []string
	switch {
	case t.story.Status == Waiting && !t.due.IsZero():
		if late := r.Time.Sub(t.due); late > time.Second {
			why = append(why, fmt.Sprintf("it was due at %s, and waited %s more for a free slot", clock(t.due), duration.Format(late.Round(time.Millisecond))))
		}
	case t.story.Status == DeadLetter || t.story.Status == Rejected:
		why = append(why, "it is run again from the dead letter queue")
	}
	t.story.Status, t.attempt, t.due, t.step = InFlight, e.Attempt, time.Time{}, ""
	clear(t.waited)
	t.say(r, text, why...)
}

func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }

func (t *teller) stepRetrying(r events.Record, e events.StepRetrying) {
	t.step = e.Step
	p, known := t.policies[e.Step]
	text := fmt.Sprintf("step %s failed on try %d%s: %s", e.Step, e.Attempt, of(p.Attempts, known), e.Error)
	why := []string{matched(p, known, e.ErrorType, e.Matched)}
	why = append(why, t.delay(p, known, e.Step, e.Attempt, time.Duration(e.ComputedDelayMS), time.Duration(e.DelayMS)))
	if e.BudgetExpiresAt != nil {
		t.budget = expiry{step: e.Step, at: *e.BudgetExpiresAt, counts: t.budget.counts && t.budget.step == e.Step}
	}
	if e.BudgetLeftMS != nil {
		why = append(why, fmt.Sprintf("retry budget: %s waited with this, %s left", duration.Format(time.Duration(e.WaitedMS)),
			duration.Format(time.Duration(*e.BudgetLeftMS))))
	}
	t.say(r, text, why...)
}

// of says how many tries there are in all.
func of(attempts int, known bool) string {
	if !known || attempts == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d", attempts)
}

// matched says why the failure was worth another try.
func matched(p retry.Policy, known bool, typ retry.Type, entry string) string {
	switch {
	case entry != "":
		return fmt.Sprintf("type %s; %s in retry_on matched", typ, entry)
	case known && len(p.RetryOn) == 0:
		return fmt.Sprintf("type %s; without a retry_on any failure is tried again", typ)
	}
	return fmt.Sprintf("type %s", typ)
}

// delay says how the wait before the next try came about. Key is the label of the step, or "" for the item.
func (t *teller) delay(p retry.Policy, known bool, key string, n int, computed, drawn time.Duration) string {
	previous := t.waited[key]
	t.waited[key] = drawn
	if !known {
		return fmt.Sprintf("next try in %s (%s before jitter)", duration.Format(drawn), duration.Format(computed))
	}
	return fmt.Sprintf("next try in %s (%s)", duration.Format(drawn), p.Explain(n, previous))
}

// reasons say why a step was not tried again.
func reasons() map[retry.Reason]string {
	return map[retry.Reason]string{
		retry.Exhausted:    "its tries are used up",
		retry.NotRetryable: "nothing in retry_on matched",
		retry.Budget:       "the retry budget has no room for the next wait",
		retry.CircuitOpen:  "its circuit breaker is open",
		retry.Permanent:    "another try would fail the same way",
	}
}

// consequences say what follows when a step is given up.
func consequences() map[string]string {
	return map[string]string{
		"stop":     "so the attempt fails",
		"continue": "on_failure: continue, so the attempt goes on",
		"fallback": "its fallback is run",
		"handler":  "its handler is run",
	}
}

func (t *teller) stepFailed(r events.Record, e events.StepFailed) {
	p, known := t.policies[e.Step]
	why := []string{fmt.Sprintf("type %s; %s", e.ErrorType, t.gaveUp(r, p, known, e))}
	if what := consequences()[e.Action]; what != "" {
		why = append(why, what)
	}
	t.say(r, fmt.Sprintf("step %s is given up after %s: %s", e.Step, tries(e.Attempts), e.Error), why...)
}

func (t *teller) gaveUp(r events.Record, p retry.Policy, known bool, e events.StepFailed) string {
	if e.Reason == retry.Exhausted && known && p.Attempts <= 1 || e.Reason == retry.Exhausted && !known && e.Attempts == 1 {
		return "it has no retry_config"
	}
	if e.Reason == retry.NotRetryable && known {
		return fmt.Sprintf("none of retry_on (%s) matched", entries(p.RetryOn))
	}
	if b := t.budget; e.Reason == retry.Budget && b.counts && b.step == e.Step && r.Time.After(b.at) {
		return "the retry budget ended at " + clock(b.at) + ", which counts since the job went on"
	}
	if words := reasons()[e.Reason]; words != "" {
		return words
	}
	return string(e.Reason)
}

func entries(list []retry.Matcher) string {
	words := make([]string, len(list))
	for i, m := range list {
		words[i] = m.String()
	}
	return strings.Join(words, ", ")
}

func (t *teller) failed(r events.Record, e events.AgentFailed) {
	t.budget = expiry{}
	if e.Rejected() {
		t.story.Status, t.letter = Rejected, true
		t.say(r, "refused without being run", t.breaker(r.Time), "it can be sent again from the dead letter queue once the cause is mended")
		return
	}
	text := fmt.Sprintf("attempt %d failed after %s%s: %s", e.Attempt, duration.Format(time.Duration(e.DurationMS)), in(e.Step), e.Error)
	why := []string{"type " + string(e.ErrorType)}
	if e.Action.RunsAgain() {
		t.story.Status = Waiting
		t.say(r, text, append(why, t.itemRetry(e)...)...)
		return
	}
	t.story.Status, t.letter = Status(e.Status().Result()), e.Status().DeadLetter()
	action := fmt.Sprintf("action %s: %s", e.Action, e.Reason)
	if note := e.Action.Note(); note != "" {
		action += "; " + note
	}
	t.say(r, text, append(why, action)...)
}

func in(step string) string {
	if step == "" {
		return ""
	}
	return " in step " + step
}

// itemRetry says how the policy came to run the item again.
func (t *teller) itemRetry(e events.AgentFailed) []string {
	t.due = *e.RetryAt
	p := retry.Default()
	if t.policy.RetryConfig != nil {
		p = *t.policy.RetryConfig
	}
	known := t.policy.OnItemFailure.Kind == errorpolicy.Retry
	n := t.retries + 1
	if e.Retry != nil {
		n = e.Retry.Attempts
	}
	t.retries = n
	why := []string{"action retry: " + e.Reason}
	if e.Matched != "" {
		why = append(why, e.Matched+" in retry_on matched")
	}
	why = append(why, t.delay(p, known, "", n, time.Duration(*e.DelayMS), time.Duration(*e.DelayMS))+", due at "+clock(t.due))
	if e.Retry != nil && e.Retry.ExpiresAt != nil {
		why = append(why, fmt.Sprintf("retry budget: %s of %s waited with this", duration.Format(time.Duration(e.Retry.WaitedMS)), duration.Format(p.Budget)))
	}
	return why
}

func (t *teller) breaker(now time.Time) string {
	if t.until.IsZero() {
		return "the circuit breaker is open"
	}
	return fmt.Sprintf("the circuit breaker has been open for %s, and tests again at %s",
		duration.Format(now.Sub(t.held).Round(time.Millisecond)), clock(t.until))
}

func (t *teller) removed(r events.Record, e events.DLQItemRemoved) {
	t.letter = false
	if t.story.Status != Succeeded {
		t.story.Status = Evicted
	}
	t.say(r, "taken out of the dead letter queue: "+e.Reason)
}
