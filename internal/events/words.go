package events

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Grave is how much an event should worry people: the colour of a line, the level on the screen, the severity
// in telemetry.
type Grave int

const (
	Plain Grave = iota
	Good
	Odd
	Bad
)

// A Sentence is what an event says to people. A reader takes the parts that it has room for: a notification
// the text, the screen also what follows, `why` also the reasons. It is not cut and not made safe to print:
// that depends on where it goes.
type Sentence struct {
	Grave Grave
	Who   string   // the subject of Text, where it is not the job: "attempt 2", or "it" for the item
	Text  string   // what happened; empty if the event has no sentence of its own
	Then  string   // what follows from it, with the comma or colon before it
	Why   []string // reasons, one line each
}

// Clause returns who and what.
func (s Sentence) Clause() string {
	if s.Who == "" {
		return s.Text
	}
	return s.Who + " " + s.Text
}

// Line returns the sentence without its reasons.
func (s Sentence) Line() string { return s.Clause() + s.Then }

// Named returns the line about an item by its name, in place of an attempt or a pronoun.
func (s Sentence) Named(item string) string { return "item " + item + " " + s.Text + s.Then }

// Say returns what an event says. It knows nothing but the record: what an event means for an item or a job
// that was in some state is said by whoever knows that state.
func Say(r Record) Sentence {
	switch e := r.Event.(type) {
	// Runs, phases, and what belongs to the whole job.
	case JobStarted:
		return Sentence{Text: "job started"}
	case JobResumed:
		return Sentence{Text: fmt.Sprintf("job resumed: %d done, %d remaining", e.Completed, e.Pending+e.InFlight)}
	case JobCompleted:
		return Sentence{Grave: Good, Text: "completed: " + itemsOf(e.Metrics)}
	case JobFailed:
		return Sentence{Grave: Bad, Text: "failed: " + e.Reason, Then: "; " + itemsOf(e.Metrics)}
	case JobCancelled:
		return Sentence{Grave: Odd, Text: e.Reason, Then: ": " + itemsOf(e.Metrics)}
	case JobPaused:
		return Sentence{Grave: Odd, Text: "stopped: " + e.Reason}
	case PhaseSkipped:
		return Sentence{Text: e.Phase + " skipped: " + e.Reason}
	case BudgetReached:
		s := Sentence{Grave: Bad, Text: e.Spent().Text()}
		if e.Running > 0 {
			s.Then = "; no further agents start, " + check.Counted(e.Running, "running agent") + " may finish"
		}
		return s
	case VerifyCompleted:
		if !e.Passed {
			return Sentence{Grave: Odd, Text: "verify: " + cmp.Or(e.Error, "failed")}
		}
	case WorktreeCleaned:
		if e.Worker > 0 {
			return Sentence{Text: fmt.Sprintf("deleted the workspace of slot %d: %s", e.Worker, e.Reason)}
		}

	// What people have asked of the job.
	case PauseRequested:
		return Sentence{Grave: Odd, Text: "paused by " + e.By, Then: "; to continue: prodigy continue"}
	case ContinueRequested:
		return Sentence{Text: "continued by " + e.By}
	case DrainRequested:
		return Sentence{Grave: Odd, Text: "drained by " + e.By, Then: ": running items finish, then the run ends"}
	case StopRequested:
		return Sentence{Grave: Odd, Text: "stopping: " + e.Reason, Then: "; running items may finish within the grace"}
	case CancelRequested:
		return Sentence{Grave: Odd, Text: "cancelled by " + e.By}
	case ScaleRequested:
		return Sentence{Text: e.Words()}
	case SkipRequested:
		return Sentence{Text: "skip requested by " + e.By}
	case RetryNowRequested:
		return Sentence{Text: "retrying waiting items now, requested by " + e.By}

	// What holds back starts, or does so no more.
	case QuotaPaused:
		wait := duration.Seconds(e.Until.Sub(r.Time))
		return Sentence{Grave: Odd, Text: "agents of " + e.Gate() + " wait for " + wait}
	case QuotaResumed:
		return Sentence{Text: "agents of " + e.Gate() + " continue"}
	case ConcurrencyChanged:
		return Sentence{Text: e.Words() + ": " + e.Reason}
	case RolloutStage:
		return Sentence{Text: e.Words()}
	case RolloutHeld:
		return Sentence{Grave: Bad, Text: "not starting new items: " + e.Reason}
	case RetriesHeld:
		return Sentence{Grave: Odd, Text: e.Words()}
	case RetriesAllowed:
		return Sentence{Text: "first attempts are done; retries are no longer held back"}
	case StartsHeld:
		return Sentence{Grave: Odd, Text: "not starting items: " + e.Reason, Then: e.next(r.Time)}
	case StartsAllowed:
		return Sentence{Text: "starting items again, no longer held back by " + e.By}
	case CircuitOpen:
		return Sentence{Grave: Odd, Who: breakerOf(e.Scope, e.Key), Text: "opened", Then: " until " +
			e.Until.Local().Format(time.TimeOnly)}
	case CircuitHalfOpen:
		return Sentence{Who: breakerOf(e.Scope, e.Key), Text: "half-open, probing"}
	case CircuitClosed:
		return Sentence{Grave: Good, Who: breakerOf(e.Scope, e.Key), Text: "closed"}

	// Attempts and dead letters.
	case AgentCompleted:
		s := Sentence{Grave: Good, Who: attempt(e.Attempt), Text: "succeeded" + e.OnWorker() +
			" after " + e.DurationMS.String()}
		if e.Commit != "" {
			s.Text, s.Why = "succeeded after "+e.DurationMS.String(), []string{changesOf(e)}
		}
		return s
	case AgentReused:
		s := Sentence{Grave: Good, Text: fmt.Sprintf("not run: result reused from item %s of job %s",
			e.FromItem, e.FromJob)}
		s.Why = []string{"item data, steps and values are unchanged"}
		if n := len(e.Uses); n > 0 {
			s.Why = append(s.Why, "input files unchanged: "+check.Counted(n, "file"))
		}
		return s
	case AgentFailed:
		return sayFailed(e)
	case AgentSkipped:
		return Sentence{Text: "skipped: " + strings.TrimPrefix(e.Reason, "skipped ")}
	case AgentInterrupted:
		return Sentence{
			Grave: Odd, Who: attempt(e.Attempt), Text: "was stopped" + e.OnWorker() + ": " + e.Reason,
			Why: []string{"the stop does not count as an attempt; it restarts with the same number"},
		}
	case AgentStraggling:
		return Sentence{Grave: Odd, Who: attempt(e.Attempt), Text: "is a straggler", Then: ": " + e.ran()}
	case AgentDuplicated:
		return Sentence{
			Who: attempt(e.Attempt), Text: fmt.Sprintf("started in slot %d, while attempt %d continues", e.Worker, e.Of),
			Why: []string{"the first to succeed wins; the duplicate does not count as an attempt"},
		}
	case AgentPlaced:
		return Sentence{Who: attempt(e.Attempt), Text: fmt.Sprintf("running%s, in slot %d there",
			e.Machine().OnWorker(), e.Slot)}
	case AgentLost:
		return Sentence{
			Grave: Odd, Who: attempt(e.Attempt), Text: "was lost" + e.OnWorker() + ": " + e.Reason,
			Why: []string{"not counted as an attempt; retrying with the next number"},
		}
	case AgentEndedLate:
		return Sentence{
			Who: attempt(e.Attempt), Text: "finished" + Place{Node: e.Node, Slot: e.Slot}.OnWorker() +
				" after it was abandoned: " + e.ending(),
			Why: []string{"too late; ignored"},
		}
	case DLQItemAdded:
		return Sentence{Grave: Bad, Text: "dead-lettered after " +
			check.Counted(e.FailureCount, "failure")}
	case DLQItemRemoved:
		return Sentence{Grave: Good, Text: "removed from the dead letter queue: " + e.Reason}

	// Steps, and what runs in them.
	case AgentProgress:
		return Sentence{Text: fmt.Sprintf("step %s started (%d of %d)", e.Step, e.StepIndex+1, e.Steps)}
	case AISessionStarted:
		works := "started"
		if e.Resumed {
			works = "continues"
		}
		return Sentence{Text: fmt.Sprintf("step %s: %s %s in session %s", e.Step, e.Preset, works, e.SessionID)}
	case AgentUsage:
		return sayUsage(e)
	case StepSkipped:
		return Sentence{Text: "step " + e.Step + " skipped", Why: []string{"condition is false: " + e.When}}
	case StepRetrying:
		return Sentence{
			Grave: Odd, Who: "step " + e.Step, Text: fmt.Sprintf("failed on try %d", e.Attempt),
			Then: ": " + e.Error,
		}
	case StepRetried:
		return Sentence{Text: "rate limit passed: retrying the step"}
	case StepTurn:
		s := Sentence{Who: "step " + e.Step, Text: "started", Why: []string{"its rate limit"}}
		if e.Key != "" {
			s.Why[0] += " of " + e.Key
		}
		if e.WaitedMS > 0 {
			s.Text += " after waiting " + duration.Milliseconds(e.WaitedMS)
		}
		return s
	case StepFailed:
		text := "failed"
		if !e.OnlyTry() {
			text = fmt.Sprintf("failed permanently on try %d", e.Attempts)
		}
		return Sentence{Grave: Bad, Who: "step " + e.Step, Text: text + ": " + e.Error}
	}
	return Sentence{}
}

// itemsOf says what has become of the items of a job.
func itemsOf(m errorpolicy.Metrics) string {
	if m.TotalItems == 0 {
		return "no items"
	}
	return fmt.Sprintf("%d of %d items succeeded", m.Successful, m.TotalItems) +
		check.Some(", %d failed", m.Failed) + check.Some(", %d skipped", m.Skipped)
}

// WorkflowScope is the scope of the breaker of the items, in the circuit events.
const WorkflowScope = "workflow"

// breakerOf names a circuit breaker for people.
func breakerOf(scope, key string) string {
	switch {
	case key != "":
		return "circuit breaker of " + key
	case scope == WorkflowScope:
		return "circuit breaker"
	}
	return "circuit breaker of step " + scope
}

// sayFailed speaks of a failed attempt, or of an item that was refused or left out without one.
func sayFailed(e AgentFailed) Sentence {
	s := Sentence{Grave: Bad}
	if e.Action.RunsAgain() {
		s.Grave = Odd
	}
	switch {
	case e.Rejected():
		s.Text = "rejected without running"
	case e.AgentID == "" && e.Attempt == 0:
		s.Text = "not run: " + e.Error
	case e.AgentID == "":
		s.Text = "not run again: " + e.Error
	case e.ErrorType == retry.TypeSkipped:
		s.Grave, s.Who, s.Text = Odd, attempt(e.Attempt), "was stopped"+e.OnWorker()+": "+e.Error
	default:
		took := e.DurationMS.String()
		s.Who, s.Text = attempt(e.Attempt), fmt.Sprintf("failed%s after %s%s: %s", e.OnWorker(),
			took, InStep(e.Step), e.Error)
	}
	return s
}

// sayUsage speaks of what a run of an AI agent has used.
func sayUsage(e AgentUsage) Sentence {
	var sum limit.Sum
	sum.Add(e.Use())
	outcome := strings.ReplaceAll(e.Outcome, "_", " ")
	s := Sentence{Text: fmt.Sprintf("agent of step %s (%s): %s, cost %s", e.Step, e.Preset, outcome,
		sum.CostText())}
	if tokens := sum.TokensText(); tokens != "" {
		s.Why = append(s.Why, tokens)
	}
	if e.SessionID != "" {
		s.Why = append(s.Why, "session: "+e.SessionID)
	}
	return s
}

func attempt(number int) string { return fmt.Sprintf("attempt %d", number) }

// InStep returns " in step STEP", or "" without a step.
func InStep(step string) string {
	if step == "" {
		return ""
	}
	return " in step " + step
}

// ShortCommit returns the name of a commit as people write it.
func ShortCommit(commit string) string { return commit[:min(len(commit), 10)] }

// changesOf says what an attempt has changed.
func changesOf(e AgentCompleted) string {
	text := fmt.Sprintf("changed %s (+%d −%d), kept as %s", check.Counted(e.Files, "file"), e.Insertions,
		e.Deletions, ShortCommit(e.Commit))
	if e.Discarded > 0 {
		text += "; discarded uncommitted changes in " + check.Counted(e.Discarded, "file")
	}
	return text
}

// ran says how long a straggler has run.
func (e AgentStraggling) ran() string {
	ms := func(m Millis) string { return duration.Format(time.Duration(m).Round(10 * time.Millisecond)) }
	text := fmt.Sprintf("running for %s, longer than %s", ms(e.RanMS), e.After)
	if e.Attempts > 0 {
		text += fmt.Sprintf(" (%s, from %d successful attempts)", ms(e.LimitMS), e.Attempts)
	}
	return text
}

// ending says how an attempt has ended that was given up.
func (e AgentEndedLate) ending() string {
	switch e.Outcome {
	case LateKilled:
		return "the worker lost contact and killed it"
	case LateReturned:
		return "stopped, or could not start"
	}
	return fmt.Sprintf("%s after %s", e.Outcome, e.DurationMS.String())
}

// Spent returns what AI agents have spent of the budget of the job.
func (e BudgetReached) Spent() limit.JobSpent {
	return limit.JobSpent{
		Limit: e.LimitUSD, Spent: e.SpentUSD, Tokens: e.LimitTokens, Used: e.SpentTokens, Next: e.NextUSD,
	}
}

// Words says it in a sentence.
func (e ScaleRequested) Words() string {
	text := check.Counted(e.MaxParallel, "slot") + check.Some(" instead of %d", e.Was)
	switch {
	case !e.Fleet:
		return text + ", by " + e.By
	case e.Workers == 1:
		return "1 worker available: " + text
	default:
		return fmt.Sprintf("%d workers available: %s", e.Workers, text)
	}
}

// Gate names what waits: the pool, or its agents of a model.
func (e QuotaPaused) Gate() string { return gateName(e.Pool, e.Model) }

// Cause returns what waits, and for what, for people.
func (e QuotaPaused) Cause() string {
	limit := "plan limit"
	switch {
	case e.Kind == "auth":
		limit = "login or payment required"
	case e.Scope != "":
		limit = e.Scope + " limit"
	}
	return e.Gate() + ", " + limit
}

// Words returns what waits, for what, and until when, for people.
func (e QuotaPaused) Words(now time.Time) string {
	text := e.Cause()
	if left := e.Until.Sub(now); left > 0 {
		at := "15:04:05"
		if left > 12*time.Hour {
			at = time.DateTime
		}
		return text + ", continues at " + e.Until.Local().Format(at) + " (in " +
			duration.Seconds(left) + ")"
	}
	return text + ", one agent is probing it"
}

// Gate names what waits: the pool, or its agents of a model.
func (e QuotaResumed) Gate() string { return gateName(e.Pool, e.Model) }

// gateName names a pool, or its agents of a model.
func gateName(pool, model string) string {
	if model == "" {
		return pool
	}
	return pool + "/" + model
}

// Words returns the limits, for people.
func (e ConcurrencyChanged) Words() string {
	return fmt.Sprintf("%d at a time", e.Limit) + check.Some(", %.3g/s", e.Rate)
}

// Words says what the stage is.
func (e RolloutStage) Words() string {
	before := ""
	if e.Successful+e.Failed > 0 {
		before = fmt.Sprintf("%d of %d items succeeded: ", e.Successful, e.Successful+e.Failed)
	}
	what := ""
	switch {
	case e.Name == "":
		return before + "rollout finished, running all other items"
	case e.Name == "canary":
		what = fmt.Sprintf("canary: running the first %d items", e.Items) + check.Some(", %d at a time", e.Slots)
	default:
		what = fmt.Sprintf("ramp: %d at a time for %d items", e.Slots, e.Items)
	}
	return fmt.Sprintf("%s%s, %v %% of which must succeed", before, what, math.Round(e.SuccessRate*1e4)/100)
}

// Words says what waits, and why.
func (e RetriesHeld) Words() string {
	return fmt.Sprintf("retries are waiting: %d retries for %d first attempts exceed retry_ratio %v", e.Retries,
		e.First, e.Ratio)
}

// Words returns what holds starts back, for people.
func (e StartsHeld) Words(now time.Time) string {
	return "not starting items: " + e.Reason + e.next(now)
}

// next says when starts are allowed again, if that is known.
func (e StartsHeld) next(now time.Time) string {
	if e.Until == nil {
		return ""
	}
	left := duration.Seconds(max(0, e.Until.Sub(now)))
	return ", until " + check.Moment(*e.Until) + " (in " + left + ")"
}
