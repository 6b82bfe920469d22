// Package events is the record of a job: the typed events, the append-only log they are written to, and its readers.
package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
)

// Record is one line of the log: an event, and where and when it happened.
type Record struct {
	// The number of the record, from 1, without gaps within a job.
	Seq int64

	Time  time.Time
	JobID string

	// The job id, or <job_id>/<item_id> for all that is about an item.
	CorrelationID string

	Event Event
}

// Event is one of the structs of this file, by value. The list types holds them all. What its fields say of
// themselves in their tags is told at plan.
type Event interface{ fact() }

// Fact is embedded in every type of event.
type Fact struct{}

func (Fact) fact() {}

// Attempt is what events that happen inside an attempt at an item say of it. Its fields are called as theirs.
type Attempt struct {
	ItemID    string
	ItemIndex int
	Phase     string
	Attempt   int

	// The name of the worker of a fleet. It is empty if the attempt runs on this machine.
	Node string
}

// Masker masks secrets in texts.
type Masker interface {
	Text(s string) string
	JSON(raw json.RawMessage) json.RawMessage
}

// BetweenRuns reports whether an event may also be written while nobody runs the job, so that its time
// belongs to no run.
func BetweenRuns(e Event) bool {
	switch e.(type) {
	case DLQItemRemoved, DLQItemsEvicted:
		return true
	}
	return false
}

// types holds a zero event of every type that a log may contain.
var types = []Event{
	JobStarted{},
	JobCompleted{},
	JobFailed{},
	JobPaused{},
	JobResumed{},
	JobCancelled{},
	PauseRequested{},
	ContinueRequested{},
	DrainRequested{},
	StopRequested{},
	CancelRequested{},
	ScaleRequested{},
	SkipRequested{},
	RetryNowRequested{},
	PhaseStarted{},
	PhaseCompleted{},
	PhaseSkipped{},
	StepCompleted{},
	StepPrinted{},
	StepSkipped{},
	FingerprintChanged{},
	ItemsSelected{},
	AgentStarted{},
	AgentCompleted{},
	AgentReused{},
	AgentFailed{},
	AgentSkipped{},
	AgentUsage{},
	BudgetReached{},
	AISessionStarted{},
	QuotaPaused{},
	QuotaResumed{},
	AgentInterrupted{},
	AgentStraggling{},
	AgentDuplicated{},
	AgentSuperseded{},
	AgentPlaced{},
	AgentLost{},
	AgentEndedLate{},
	WorktreeCreated{},
	WorktreeMerged{},
	WorktreeCleaned{},
	VerifyStarted{},
	VerifyCompleted{},
	AgentProgress{},
	StepRetrying{},
	StepRetried{},
	StepTurn{},
	ConcurrencyChanged{},
	RolloutStage{},
	RolloutHeld{},
	RetriesHeld{},
	RetriesAllowed{},
	StartsHeld{},
	StartsAllowed{},
	StepFailed{},
	CircuitOpen{},
	CircuitHalfOpen{},
	CircuitClosed{},
	DLQItemAdded{},
	DLQItemRemoved{},
	DLQItemsReprocessed{},
	DLQItemsEvicted{},
	ErrorBatch{},
}

// Types returns a zero event of every type that a log may contain.
func Types() []Event { return slices.Clone(types) }

// Decision words of AgentFailed.Action are those of errorpolicy.Action.

// JobStarted begins the log of a job.
type JobStarted struct {
	Fact

	Workflow string `json:"workflow"`
	Mode     string `json:"mode"`

	// The number of items. It is absent while that is not known.
	TotalItems *int `json:"total_items,omitempty"`

	MaxParallel int    `json:"max_parallel"`
	Seed        uint64 `json:"seed"`
	Version     string `json:"version"`

	// With workspaces: the commit that the job begins at, and the branch that was checked out then; empty
	// when HEAD was detached.
	Base string `json:"base,omitempty"`

	TargetBranch string `json:"target_branch,omitempty"`

	// With workspaces: what the user's checkout is like, which no agent is to change: HEAD, and a line of git status
	// for each file that is not committed.
	Checkout []string `json:"checkout,omitempty"`

	// What agents may cost in total. It is absent unless the command line set it.
	MaxCostUSD *limit.USD `json:"max_cost_usd,omitempty"`

	// The job whose results are the items; items.jsonl has which item each comes from.
	InputJob string `json:"input_job,omitempty"`

	// The rates of starts that the workflow sets.
	Rates []StartRate `json:"rates,omitempty"`

	// Of the fleet that the items run on, as it may be shown. It is empty if they run on this machine.
	Broker string `json:"broker,omitempty"`
}

// JobCompleted ends a run after which every item has an outcome, including dead letters and skipped items.
type JobCompleted struct {
	Fact

	DurationMS Millis              `json:"duration_ms"`
	Metrics    errorpolicy.Metrics `json:"metrics"`
	Reason     string              `json:"reason" log:"mask,clip"`

	// ReduceStale says that items have succeeded since reduce and merge ran, which do not know of it.
	ReduceStale bool `json:"reduce_stale,omitempty"`

	// ReduceHeld says that reduce and merge did not run, since their condition did not hold.
	ReduceHeld bool `json:"reduce_held,omitempty"`

	// With workspaces: the commit with everything that was merged, the branch it was delivered as (empty when
	// nothing was, or the branch could not be moved), and the branch of `into` that was moved to it.
	Head string `json:"head,omitempty"`

	Branch string `json:"branch,omitempty"`
	Into   string `json:"into,omitempty"`

	// What agents have used in all runs. It is absent if there were none.
	Spent *limit.Total `json:"spent,omitempty"`
}

// JobFailed ends a run that a step of a phase or the policy stopped.
type JobFailed struct {
	Fact

	DurationMS Millis              `json:"duration_ms"`
	Metrics    errorpolicy.Metrics `json:"metrics"`
	Reason     string              `json:"reason" log:"mask,clip"`
	Spent      *limit.Total        `json:"spent,omitempty"` // as in JobCompleted

	// The rest of its items cannot be read any more, and all others have run: a resume can do nothing.
	InputGone bool `json:"input_gone,omitempty"`
}

// JobPaused ends a run that was interrupted and can be resumed: the job is stopped.
type JobPaused struct {
	Fact

	Reason string `json:"reason" log:"mask,clip"`

	// Too few items of a stage of the rollout have succeeded: see RolloutHeld.
	Unproven bool `json:"unproven,omitempty"`

	// The run ended as somebody wanted: it was drained, or ended outside the windows of the job.
	AsAsked bool `json:"as_asked,omitempty"`
}

// JobResumed begins every continuation of a job: by resume, and by a retry of its dead letters.
type JobResumed struct {
	Fact

	// ForResume or ForDeadLetters.
	Reason string `json:"reason,omitempty"`

	Completed int `json:"completed"`
	Pending   int `json:"pending"`
	InFlight  int `json:"in_flight"`

	// How many of Pending wait for their next attempt.
	Waiting int `json:"waiting,omitempty"`

	// The phase that has not finished. It is empty in standard mode.
	Phase string `json:"phase,omitempty"`

	// How many steps of that phase are done, if it runs once.
	StepsDone int `json:"steps_done,omitempty"`

	// The phases after the map phase are to be run again, now or by a later resume.
	Reduce bool `json:"reduce,omitempty"`

	// Ascending indexes of items in flight whose attempts did not die with the run before: they go on.
	Attached []int `json:"attached,omitempty"`

	// Died is when the run before died, if a watcher saw that, and nobody had asked the run to stop. Nothing
	// explains such a death, so one of the attempts that were in flight may be the cause.
	Died *time.Time `json:"died,omitempty"`

	// What agents may cost from now on, as in JobStarted.
	MaxCostUSD *limit.USD `json:"max_cost_usd,omitempty"`

	// The job goes on though its rollout was held (RolloutHeld); without it, the stage begins anew.
	Accepted bool `json:"accepted,omitempty"`

	// Of a retry of dead letters: other values of parameters and variables, as NAME=VALUE.
	Set []string `json:"set,omitempty" log:"mask,clip"`

	// The rates from now on, as in JobStarted: the workflow may be another.
	Rates []StartRate `json:"rates,omitempty"`

	// The fleet from now on, as in JobStarted.
	Broker string `json:"broker,omitempty"`

	// From now on, as in JobStarted; absent if it is that of before, as when the run before died.
	Checkout []string `json:"checkout,omitempty"`
}

// IsAttached reports whether the attempt at an item that was in flight when the run before died still runs.
func (e JobResumed) IsAttached(index int) bool {
	_, ok := slices.BinarySearch(e.Attached, index)
	return ok
}

// Why a job is taken up again.
const (
	ForResume      = "resume"
	ForDeadLetters = "dlq_retry"
)

// JobCancelled ends a run for good, because somebody asked for that with CancelRequested. What has not run
// does not run any more.
type JobCancelled struct {
	Fact

	DurationMS Millis              `json:"duration_ms"`
	Metrics    errorpolicy.Metrics `json:"metrics"`
	Reason     string              `json:"reason" log:"mask,clip"`
	Spent      *limit.Total        `json:"spent,omitempty"` // as in JobCompleted
}

// The requests are what people ask of a job while it runs. Each is recorded before it has an effect, so that
// a resume knows of it.

// PauseRequested has nothing start any more, until ContinueRequested or a resume. What runs goes on.
type PauseRequested struct {
	Fact

	// The name of the user, as in all requests.
	By string `json:"by"`
}

// ContinueRequested ends a pause.
type ContinueRequested struct {
	Fact

	By string `json:"by"`
}

// DrainRequested lets what runs come to its end, and then ends the run with JobPaused.
type DrainRequested struct {
	Fact

	By string `json:"by"`
}

// StopRequested begins a stop: nothing starts any more, and what runs has the grace to finish. JobPaused follows.
type StopRequested struct {
	Fact

	// A signal, or prodigy stop with the name of the user.
	Reason string `json:"reason" log:"mask,clip"`
}

// CancelRequested stops the job for good. JobCancelled follows, unless the run dies before.
type CancelRequested struct {
	Fact

	By string `json:"by"`
}

// ScaleRequested changes the number of slots. What a person asks for holds over a resume, unless that says
// another number.
type ScaleRequested struct {
	Fact

	MaxParallel int    `json:"max_parallel"`
	Was         int    `json:"was"`
	By          string `json:"by"`

	// Nobody has asked for it: these are the slots of the workers of a fleet.
	Fleet bool `json:"fleet,omitempty"`

	// How many workers of that fleet take part.
	Workers int `json:"workers,omitempty"`
}

// SkipRequested says that an item is not to run (any more). An AgentFailed with action skip settles it: at
// once if it has begun, else when its turn comes.
type SkipRequested struct {
	Fact `log:"early"`

	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
	By        string `json:"by"`
}

// RetryNowRequested has items and steps go on at once that wait for their next attempt or try.
type RetryNowRequested struct {
	Fact

	// The items that do not wait any longer. Without any, all that wait.
	ItemIDs []string `json:"item_ids,omitempty"`

	By string `json:"by"`
}

// Names reports whether the request is about an item; "" stands for the phases that run once.
func (e RetryNowRequested) Names(itemID string) bool {
	return len(e.ItemIDs) == 0 || slices.Contains(e.ItemIDs, itemID)
}

// PhaseStarted begins the setup, map, reduce or merge phase.
type PhaseStarted struct {
	Fact

	Phase string `json:"phase"`

	// Of map: what all of its items share; absent in logs of older versions.
	Fingerprint *Fingerprint `json:"fingerprint,omitempty"`
}

// PhaseCompleted ends a successful phase; a failed one has no such record.
type PhaseCompleted struct {
	Fact

	Phase      string `json:"phase"`
	DurationMS Millis `json:"duration_ms"`

	// With workspaces: the commit that the phase ended at; what it committed is part of the result.
	Head string `json:"head,omitempty"`
}

// PhaseSkipped says that the job ends without a phase, and those after it, because a condition does not hold.
type PhaseSkipped struct {
	Fact

	Phase  string `json:"phase"`
	Reason string `json:"reason" log:"mask,clip"`
}

// StepCompleted is written for the steps of the phases that run once (setup, reduce, merge, and the commands
// of a standard workflow, whose phase is empty), so that a resume goes on with the first step that has no
// such record, and knows what the earlier ones gave. Forgiven failures are completed steps too.
type StepCompleted struct {
	Fact

	Phase string `json:"phase,omitempty"`

	// The label of the step.
	Step string `json:"step"`

	StepIndex int    `json:"step_index"`
	Kind      string `json:"kind"`
	ID        string `json:"id,omitempty"`

	// The name that its output was captured under.
	Capture string `json:"capture,omitempty"`

	DurationMS Millis `json:"duration_ms"`
	ExitCode   int    `json:"exit_code"`

	// What it printed, bounded as process.Capture does.
	Output string `json:"output" log:"mask"`

	Stderr string `json:"stderr,omitempty" log:"mask"`

	// What the output is to later steps, such as JSON.
	CaptureFormat string `json:"capture_format,omitempty"`

	// The step failed, and was forgiven.
	Failed bool `json:"failed,omitempty"`

	// The condition of the step was not met.
	Skipped bool `json:"skipped,omitempty"`

	// There were secrets in Output or Stderr, so a resume cannot use them.
	Masked bool `json:"masked,omitempty"`

	// A StepPrinted before this record has Output already.
	Printed bool `json:"printed,omitempty"`

	// What the validation of the step found.
	Validation json.RawMessage `json:"validation,omitempty" log:"mask"`

	// What is known of the agent of an agent step.
	Agent *AgentEnd `json:"agent,omitempty"`

	// Where what the step and its hooks printed is kept; absent when that is nothing.
	Outputs *outputs.Span `json:"outputs,omitempty"`
}

// AgentEnd is what a run of an AI coding CLI leaves to the steps after it, beside its answer.
type AgentEnd struct {
	Outcome   string `json:"outcome"`
	SessionID string `json:"session_id,omitempty" log:"mask,clip"`
	Turns     int    `json:"turns,omitempty"`

	// What the agent has cost. It is absent if that is not known.
	CostUSD *limit.USD `json:"cost_usd,omitempty"`

	// The answer, of a step with a schema.
	JSON json.RawMessage `json:"json,omitempty" log:"mask,told"`

	// There were secrets in JSON, so a resume cannot use it.
	Masked bool `json:"masked,omitempty"`
}

// StepPrinted carries the output of a step, for display only, when more steps (hooks, handlers) follow before
// it completes, and the output of each of those. Like StepCompleted it is written for the phases that run
// once. A resume that runs the step again writes it again.
type StepPrinted struct {
	Fact

	Phase string `json:"phase,omitempty"`

	// The label of the step.
	Step string `json:"step"`

	// What it printed, bounded as process.Capture does.
	Output string `json:"output" log:"mask"`
}

// StepSkipped records that a step was not run because its when condition was false.
type StepSkipped struct {
	Fact

	ItemID string `json:"item_id,omitempty" log:"given"`
	Phase  string `json:"phase,omitempty" log:"given"`

	// The label of the step.
	Step string `json:"step"`

	When string `json:"when" log:"clip"`
}

// FingerprintChanged says that the items that are run from here on share another fingerprint: a resume has
// another workflow, or other values.
type FingerprintChanged struct {
	Fact

	Fingerprint Fingerprint `json:"fingerprint"`
}

// ItemsSelected records the end of the selection and the number of items.
type ItemsSelected struct {
	Fact

	TotalItems int `json:"total_items"`

	// How they differ from those of an earlier job whose results are taken over.
	Since *Difference `json:"since,omitempty"`
}

// Difference is how the items of a job differ from those of an earlier one.
type Difference struct {
	// The earlier job.
	JobID string `json:"job_id"`

	// Items whose results are reused.
	Unchanged int `json:"unchanged"`

	// Items that run again, because their fingerprint is another.
	Changed int `json:"changed"`

	// Not among the items of the earlier job, or never run by it.
	New int `json:"new"`

	// Items that run again, because they had failed.
	Failed int `json:"failed"`

	// Items that run again, because somebody asked for it.
	Forced int `json:"forced"`

	// Items of the earlier job that this one does not have.
	Gone int `json:"gone"`

	// Items that --only leaves out.
	LeftOut int `json:"left_out"`

	// Of Changed: how many by which part of the fingerprint, MaxParts at most.
	By map[string]int `json:"by,omitempty" log:"mask,clip"`

	ByMore int `json:"by_more,omitempty"`
}

// MaxParts bounds the parts in a Difference.
const MaxParts = 20

// AgentStarted begins one attempt of an item.
type AgentStarted struct {
	Fact
	AttemptID

	Worker int `json:"worker"`

	// Nothing else runs meanwhile, because it may be what killed earlier runs.
	Alone bool `json:"alone,omitempty"`

	// With workspaces: the commit that the attempt begins at.
	Base string `json:"base,omitempty"`

	// It is given to a worker on some machine, so that it does not die with the run.
	Fleet bool `json:"fleet,omitempty"`

	// No other such attempt is given to a worker meanwhile, because it may be what killed earlier workers.
	Suspect bool `json:"suspect,omitempty"`

	// Reason is, of the first attempt in a job that takes over results, why the item is run: new, failed,
	// forced, or "changed: " with the part of its fingerprint that is another.
	Reason string `json:"reason,omitempty" log:"mask,clip"`

	// The key of the item's circuit breaker, where each key has one.
	BreakerKey string `json:"breaker_key,omitempty" log:"mask,clip"`

	// Which of the limits of a map phase with `per` it takes a turn of; without one: that of the items
	// without a key.
	Key string `json:"key,omitempty" log:"mask,clip"`
}

// AgentCompleted ends an attempt that succeeded.
type AgentCompleted struct {
	Fact
	AttemptID

	Worker int `json:"worker"`
	Place
	DurationMS Millis `json:"duration_ms"`
	ExitCode   int    `json:"exit_code"`
	ItemOutput

	// Where what its steps printed is kept; absent when that is nothing.
	Outputs *outputs.Span `json:"outputs,omitempty"`

	// With workspaces: the merge of the commit settles the item. Without one this record settles it.
	Changes

	// As they were when the attempt began.
	ItemFiles
}

// AgentReused settles an item with the success of an item of an earlier job that has the same fingerprint.
// Nothing was run for it.
type AgentReused struct {
	Fact

	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`

	// The job in which the item was run.
	FromJob string `json:"from_job"`

	FromItem string `json:"from_item"`

	// The number of the attempt there. It and what follows is of the result.
	Attempt int `json:"attempt"`

	DurationMS Millis `json:"duration_ms"`
	ExitCode   int    `json:"exit_code"`
	ItemOutput

	// As they are now.
	ItemFiles
}

// AgentFailed is a failed attempt of an item and the decision that follows it: one record, so that no crash
// comes between. With ErrorType circuit_open nothing was run: AgentID is empty and Attempt counts the tries
// made before.
type AgentFailed struct {
	Fact
	AttemptID

	Worker int `json:"worker"`
	Place
	DurationMS Millis `json:"duration_ms"`

	// Absent when there is none: a signal, a timeout.
	ExitCode *int `json:"exit_code,omitempty"`

	ItemOutput
	Step      string     `json:"step"`
	Signal    string     `json:"signal,omitempty"`
	Error     string     `json:"error" log:"mask,clip"`
	ErrorType retry.Type `json:"error_type"`

	// What told the type: a rule of package retry, or of an AI coding CLI, as in claude/usage_limit.
	Rule string `json:"rule,omitempty" log:"clip"`

	ErrorSignature string             `json:"error_signature" log:"mask,clip"`
	StdoutTail     string             `json:"stdout_tail,omitempty" log:"mask,tail"`
	StderrTail     string             `json:"stderr_tail,omitempty" log:"mask,tail"`
	Action         errorpolicy.Action `json:"action"`

	// Why this action, where the policy has something to say.
	Reason string `json:"reason,omitempty" log:"mask,clip"`

	// The entry of the policy's retry_on that recognised it.
	Matched string `json:"matched,omitempty"`

	// With action retry: how long the item waits.
	DelayMS *Millis `json:"delay_ms,omitempty"`

	// With action retry: when the next attempt is due.
	RetryAt *time.Time `json:"retry_at,omitempty"`

	// With action retry: what the next decision needs.
	Retry *retry.State `json:"retry,omitempty"`

	Outputs *outputs.Span `json:"outputs,omitempty"` // as in AgentCompleted

	// With workspaces: what the attempt had changed, kept as a commit.
	Commit string `json:"commit,omitempty"`

	// With ErrorType merge_conflict, MaxConflicts at most.
	Conflicts []Conflict `json:"conflicts,omitempty" log:"few"`

	// With action retry: the next attempt resolves the conflict of Commit.
	Resolve bool `json:"resolve,omitempty"`
}

// Conflict is a path that could not be merged.
type Conflict struct {
	Path string `json:"path" log:"mask,clip"`

	// What git says of it.
	Message string `json:"message,omitempty" log:"mask,clip"`

	// Ids of the items that changed the path since the attempt began.
	With []string `json:"with,omitempty"`
}

// MaxConflicts bounds the conflicts in a record.
const MaxConflicts = 20

// Rejected reports whether the open circuit breaker refused the item, so that nothing was run.
func (e AgentFailed) Rejected() bool { return e.ErrorType == retry.TypeCircuitOpen && e.AgentID == "" }

// Status returns how the item is counted from then on; Pending when it is run again.
func (e AgentFailed) Status() errorpolicy.Status {
	if e.Rejected() {
		return errorpolicy.Rejected
	}
	return e.Action.Status()
}

// AgentSkipped records that an item counts as skipped without an attempt that was skipped, and why.
type AgentSkipped struct {
	Fact

	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
	Reason    string `json:"reason" log:"mask,clip"`
}

// AgentUsage is what one run of an AI coding CLI has used, however it ended. What is not known is absent.
type AgentUsage struct {
	Fact

	// The item. It is empty for a step outside the map phase.
	ItemID string `json:"item_id,omitempty"`

	ItemIndex int `json:"item_index"`

	// The phase of a step outside the map phase.
	Phase string `json:"phase,omitempty"`

	AgentID string `json:"agent_id"`
	Attempt int    `json:"attempt"`

	// The label of the step.
	Step string `json:"step"`

	Preset    string `json:"preset"`
	Model     string `json:"model,omitempty" log:"mask,clip"`
	SessionID string `json:"session_id,omitempty" log:"mask,clip"`

	// The outcome by the rules of the preset; or timeout, interrupted.
	Outcome string `json:"outcome"`

	Rule    string     `json:"rule,omitempty" log:"clip"`
	CostUSD *limit.USD `json:"cost_usd,omitempty"`

	// CostReported or CostPriced.
	CostSource string `json:"cost_source,omitempty"`

	// Without a cost: what counts against the budget in its place.
	AssumedUSD limit.USD `json:"assumed_usd,omitzero"`

	// The run was cut off: it may have used more.
	Partial bool `json:"partial,omitempty"`

	Tokens     *limit.Tokens `json:"tokens,omitempty"`
	Turns      int           `json:"turns,omitempty"`
	DurationMS Millis        `json:"duration_ms"`
}

// OutcomeInterrupted is the outcome of an agent that ended because its run was stopped. No preset gives it.
const OutcomeInterrupted = "interrupted"

// Where a cost comes from.
const (
	CostReported = "reported" // by the CLI
	CostPriced   = "priced"   // from its tokens
)

// Use returns what is added up.
func (e AgentUsage) Use() limit.Use {
	return limit.Use{
		Preset: e.Preset, Outcome: e.Outcome, Cost: e.CostUSD, Partial: e.Partial, Assumed: e.AssumedUSD,
		Tokens: e.Tokens, Stopped: e.Outcome == OutcomeInterrupted,
	}
}

// Index returns the index of the item; below 0: it is of no item.
func (e AgentUsage) Index() int {
	if e.ItemID == "" {
		return -1
	}
	return e.ItemIndex
}

// BudgetReached says that no further agent starts, because the job has spent what it may. The job stops when
// those that run have ended.
type BudgetReached struct {
	Fact

	LimitUSD limit.USD `json:"limit_usd,omitzero"`
	SpentUSD limit.USD `json:"spent_usd,omitzero"`

	// What one more agent may cost.
	NextUSD limit.USD `json:"next_usd,omitzero"`

	LimitTokens limit.Count `json:"limit_tokens,omitzero"`
	SpentTokens limit.Count `json:"spent_tokens,omitzero"`

	// The number of agents that still run.
	Running int `json:"running,omitempty"`
}

// AISessionStarted says in which session an AI coding CLI works: of itself, or one that it continues. It
// comes as soon as the session is known.
type AISessionStarted struct {
	Fact

	ItemID  string `json:"item_id,omitempty" log:"given"`
	Attempt int    `json:"attempt,omitempty" log:"given"`
	Step    string `json:"step"`
	Preset  string `json:"preset"`

	// The model as the CLI calls it, once it has said it.
	Model string `json:"model,omitempty" log:"mask,clip"`

	SessionID string `json:"session_id" log:"mask,clip"`
	Resumed   bool   `json:"resumed,omitempty"`
}

// QuotaPaused says that agents of a pool wait: the limit of the plan that they share is used up, or somebody
// has to log in. It charges nothing to any item.
type QuotaPaused struct {
	Fact

	// The pool of the agents: their preset, unless it names another.
	Pool string `json:"pool" log:"clip"`

	// Of which the limit is: a part of its name, or empty for the whole plan.
	Model string `json:"model,omitempty" log:"clip"`

	// With Model: the model of the step that met the limit.
	Step string `json:"step_model,omitempty" log:"clip"`

	// What they wait for: quota or auth.
	Kind string `json:"kind"`

	// Which limit it is, as the CLI calls it.
	Scope string `json:"scope,omitempty" log:"mask,clip"`

	// When one of the agents tries again.
	Until time.Time `json:"until"`

	// When the limit resets, if the CLI has said so.
	ResetAt *time.Time `json:"reset_at,omitempty"`

	// The item whose agent met the limit.
	Item string `json:"item,omitempty"`

	// The limit was not reached yet, but the share of it that pause_at sets.
	Near bool `json:"near,omitempty"`

	// What the CLI said.
	Error string `json:"error" log:"mask,clip"`
}

// QuotaResumed says that agents of a pool come through again.
type QuotaResumed struct {
	Fact

	Pool  string `json:"pool" log:"clip"`
	Model string `json:"model,omitempty" log:"clip"` // as in QuotaPaused
}

// AgentInterrupted is a stop, not a failure: the attempt is given back.
type AgentInterrupted struct {
	Fact
	AttemptID

	// Of the worker of a fleet that has given it back, without the slot.
	Place

	Reason  string        `json:"reason" log:"mask,clip"`
	Outputs *outputs.Span `json:"outputs,omitempty"` // as in AgentCompleted
}

// AgentStraggling says that an attempt has run longer than nearly all others have taken. It goes on.
type AgentStraggling struct {
	Fact
	AttemptID

	Worker int `json:"worker"`

	// How long it has run, without its waits for tries of steps.
	RanMS Millis `json:"ran_ms"`

	// The length that it has exceeded.
	LimitMS Millis `json:"limit_ms"`

	// The limit as the workflow has it, such as 3×p95.
	After string `json:"after"`

	// With a percentile: what it is, and of how many attempts.
	PercentileMS Millis `json:"percentile_ms,omitempty"`

	Attempts int `json:"attempts,omitempty"`
}

// AgentDuplicated begins a second attempt of an item while the first, a straggler, still runs. The first of
// the two that succeeds counts, and AgentSuperseded ends the other. It has all that AgentStarted has for a
// first one, and is the token of its attempt. No job begins one any more; logs of earlier versions have it.
type AgentDuplicated struct {
	Fact
	AttemptID

	// The attempt that it is a duplicate of.
	Of int `json:"of"`

	Worker     int    `json:"worker"`
	BreakerKey string `json:"breaker_key,omitempty" log:"mask,clip"` // as in AgentStarted
	Key        string `json:"key,omitempty" log:"mask,clip"`
}

// AgentSuperseded ends one of two attempts of an item that ran at once, because the other one counts: that
// has succeeded, or goes on after this one has failed. It is not a failure of the item, and does not count as a try.
// Only logs of earlier versions have it.
type AgentSuperseded struct {
	Fact
	AttemptID

	// The attempt that counts.
	By int `json:"by"`

	Worker     int    `json:"worker"`
	DurationMS Millis `json:"duration_ms"`

	// How it failed, if it did.
	Error string `json:"error,omitempty" log:"mask,clip"`

	ErrorType retry.Type    `json:"error_type,omitempty"` // of that failure
	Outputs   *outputs.Span `json:"outputs,omitempty"`    // as in AgentCompleted
}

// AgentPlaced says which worker of a fleet runs an attempt. One that ends soon has none: its end
// names the worker too.
type AgentPlaced struct {
	Fact
	AttemptID

	Place
}

// AgentLost ends an attempt whose worker died, or is cut off. That is not a failure and uses up no try, but its number.
type AgentLost struct {
	Fact
	AttemptID

	// Of the worker, if it is known, without the slot.
	Place

	Reason string `json:"reason" log:"mask,clip"`

	// Nothing says that the attempt had begun, so its item is not to blame.
	Unbegun bool `json:"unbegun,omitempty"`

	// Its worker is well, and has ended it since it had no contact: its item is not to blame either.
	Cut bool `json:"cut,omitempty"`

	Outputs *outputs.Span `json:"outputs,omitempty"` // as in AgentCompleted
}

// AgentEndedLate says how an attempt ended that was given up before: its worker is back, and says so. It
// changes nothing, since the AgentLost counts. It is recorded at most once for each attempt, and not when the
// job has ended or its coordinator was killed at that moment.
type AgentEndedLate struct {
	Fact
	AttemptID

	// The number of the AgentStarted or AgentDuplicated of the attempt.
	Token int64 `json:"token"`

	// The name of the worker.
	Node string `json:"node"`

	Slot    int         `json:"slot,omitempty"`
	Outcome LateOutcome `json:"outcome"`

	// How long the attempt took, if it has succeeded or failed.
	DurationMS Millis `json:"duration_ms,omitempty"`
}

// LateOutcome is how an attempt ended that was given up.
type LateOutcome string

// The outcomes of attempts that were given up.
const (
	LateSucceeded LateOutcome = "succeeded"
	LateFailed    LateOutcome = "failed"
	LateKilled    LateOutcome = "killed"   // by the worker, which had no contact
	LateReturned  LateOutcome = "returned" // the worker has stopped it, or could not run it
)

// WorktreeCreated records that a workspace was made.
type WorktreeCreated struct {
	Fact

	// The slot; 0 for the phases that run once, and for verify.
	Worker int `json:"worker"`

	// The commit that it was made at.
	Base string `json:"base"`

	DurationMS Millis `json:"duration_ms"`

	// The worker of a fleet that it is on, whose slot that is.
	Node string `json:"node,omitempty" log:"given"`
}

// WorktreeMerged records that the work of attempts is part of the result. It settles their items, and Head is
// the head of the job from then on: what is merged is what this record says, whatever the refs say.
type WorktreeMerged struct {
	Fact

	// The items in the order in which they were merged. The four lists below are in the same order.
	ItemIDs []string `json:"item_ids"`

	ItemIndexes []int `json:"item_indexes"`
	Attempts    []int `json:"attempts"`

	// The commit that has the work of each: a merge, or with `history: squash` a commit.
	Commits []string `json:"commits"`

	Head string `json:"head"`

	// The number of files that each changed.
	Files []int `json:"files"`

	Insertions int `json:"insertions"`
	Deletions  int `json:"deletions"`

	// How long all merges and their verification took.
	DurationMS Millis `json:"duration_ms"`
}

// check returns an error for a record whose lists do not fit together, or are about items that no job has
// begun by record seq.
func (e WorktreeMerged) check(seq int64) error {
	n := len(e.ItemIDs)
	if n == 0 || len(e.ItemIndexes) != n || len(e.Attempts) != n || len(e.Commits) != n || len(e.Files) != n ||
		e.Head == "" {
		return errors.New("its lists differ in length")
	}
	for i, index := range e.ItemIndexes {
		if index < 0 || int64(index) >= seq || e.ItemIDs[i] == "" {
			return fmt.Errorf("item %q has index %d, beyond the items started so far", e.ItemIDs[i], index)
		}
	}
	return nil
}

// WorktreeCleaned records that a workspace was deleted: one that could not be used again, or all of them at
// the end of the job.
type WorktreeCleaned struct {
	Fact

	// The slot, as in WorktreeCreated. It is 0 also for all of them.
	Worker int `json:"worker"`

	Reason string `json:"reason" log:"mask,clip"`
	Node   string `json:"node,omitempty" log:"given"`
}

// VerifyStarted records that the steps of workspace.verify begin on a commit that has the work of some items
// merged. One runs at a time. What a stop ends has no VerifyCompleted.
type VerifyStarted struct {
	Fact

	// The items of a batch, or of the part of one after it has failed.
	ItemIDs []string `json:"item_ids"`

	Commit string `json:"commit"`
}

// VerifyCompleted records how the verification that was started last has ended. It settles no item.
type VerifyCompleted struct {
	Fact

	Commit string `json:"commit"`
	Passed bool   `json:"passed"`

	// The step that failed.
	Step string `json:"step,omitempty"`

	Error string `json:"error,omitempty" log:"mask,clip"`

	// How long it took, with the checkout.
	DurationMS Millis `json:"duration_ms"`
}

// AgentProgress records which step an attempt has reached. It is written only with --log-steps.
type AgentProgress struct {
	Fact

	ItemID    string `json:"item_id" log:"given"`
	Step      string `json:"step"`
	StepIndex int    `json:"step_index"`
	Steps     int    `json:"steps"`
}

// StepRetrying records that a step failed and will be retried. ItemID is empty outside the map phase.
type StepRetrying struct {
	Fact

	ItemID    string `json:"item_id,omitempty" log:"given"`
	ItemIndex int    `json:"item_index,omitempty" log:"given"`
	Step      string `json:"step"`

	// The number of the try that failed.
	Attempt int `json:"attempt"`

	ErrorType retry.Type `json:"error_type"`
	Error     string     `json:"error" log:"mask,clip"`
	Rule      string     `json:"rule,omitempty" log:"clip"` // as in AgentFailed

	// The entry of retry_on that recognised the failure.
	Matched string `json:"matched,omitempty"`

	ComputedDelayMS Millis `json:"computed_delay_ms"`

	// How long the step waits, after jitter.
	DelayMS Millis `json:"delay_ms"`

	// How long the service has asked to be left alone, if it has.
	AskedMS Millis `json:"asked_ms,omitempty"`

	// How long the step has waited in total, this delay included.
	WaitedMS Millis `json:"waited_ms"`

	BudgetLeftMS    *Millis    `json:"budget_left_ms,omitempty"`
	BudgetExpiresAt *time.Time `json:"budget_expires_at,omitempty"`
}

// StepRetried says that a step is tried again, after its wait. It is only written in a job with a limit of
// its starts, which it takes a turn of.
type StepRetried struct {
	Fact

	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
}

// StepTurn says that a step has its turn of the rate that it has. Its try begins.
type StepTurn struct {
	Fact

	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
	Step      string `json:"step"`

	// The position of the step in agent_template, from 0.
	Position int `json:"position"`

	// The key whose turn it is, where each key has a rate.
	Key string `json:"key,omitempty" log:"mask,clip"`

	WaitedMS Millis `json:"waited_ms,omitempty"`
}

// ConcurrencyChanged says that another number of agents runs at once, or that they start more or less often,
// of a job that adapts both.
type ConcurrencyChanged struct {
	Fact

	// How many agents run at a time at most.
	Limit int `json:"limit"`

	Before int `json:"before"`

	// How many start in a second at most; 0 if there is no limit.
	Rate float64 `json:"rate,omitempty"`

	Reason string `json:"reason"`
}

// RolloutStage says that a stage of a rollout begins, and how the one before went.
type RolloutStage struct {
	Fact

	// The number of stages that are over.
	Stage int `json:"stage"`

	// Canary or ramp. It is empty if the rollout is over.
	Name string `json:"name,omitempty"`

	// How many agents run at a time. It is absent if as many do as there are slots.
	Slots int `json:"slots,omitempty"`

	// The number of items by which the stage is judged.
	Items int `json:"items,omitempty"`

	// The share of them that has to succeed.
	SuccessRate float64 `json:"success_rate,omitempty"`

	// How many items of the stage before succeeded.
	Successful int `json:"successful,omitempty"`

	Failed int `json:"failed,omitempty"`
}

// RolloutHeld says that too few items of a stage have succeeded. The run ends when what runs has ended.
type RolloutHeld struct {
	Fact

	Stage      int    `json:"stage"` // as in RolloutStage
	Name       string `json:"name"`
	Successful int    `json:"successful,omitempty"`
	Failed     int    `json:"failed"`
	Reason     string `json:"reason"`
}

// RetriesHeld says that retries wait, in no slot, because so many have started for the first attempts there
// were (retry_ratio). First attempts go on.
type RetriesHeld struct {
	Fact

	// The number of first attempts in the window before.
	First int `json:"first"`

	// The number of retries in that window.
	Retries int `json:"retries"`

	Ratio float64 `json:"ratio"`
}

// RetriesAllowed says that no retry waits any more because of RetriesHeld.
type RetriesAllowed struct{ Fact }

// StartsHeld says that nothing starts any more, while what runs goes on.
type StartsHeld struct {
	Fact

	// What holds them back: windows, guards, or the broker of a fleet.
	By string `json:"by"`

	Reason string `json:"reason"`

	// When it is over, if that is known.
	Until *time.Time `json:"until,omitempty"`
}

// StartsAllowed says that what By names holds starts back no more.
type StartsAllowed struct {
	Fact

	By string `json:"by"`
}

// StepFailed records that a step failed for good, and what follows. It has the end of the output of the step
// unless an AgentFailed follows, which has it then.
type StepFailed struct {
	Fact

	ItemID   string       `json:"item_id,omitempty" log:"given"`
	Step     string       `json:"step"`
	Attempts int          `json:"attempts"`
	Reason   retry.Reason `json:"reason"`

	// What follows: stop, continue, fallback or handler.
	Action string `json:"action"`

	Error     string     `json:"error" log:"mask,clip"`
	ErrorType retry.Type `json:"error_type"`
	Rule      string     `json:"rule,omitempty" log:"clip"` // as in AgentFailed
	ExitCode  *int       `json:"exit_code,omitempty"`

	StdoutTail string `json:"stdout_tail,omitempty" log:"mask,tail"`
	StderrTail string `json:"stderr_tail,omitempty" log:"mask,tail"`

	// Outside the map phase: where what the step has printed up to here is kept, as in StepCompleted.
	Outputs *outputs.Span `json:"outputs,omitempty"`
}

// OnlyTry reports whether the step has no retries of its own.
func (e StepFailed) OnlyTry() bool { return e.Reason == retry.Exhausted && e.Attempts <= 1 }

// Scope of the circuit events: "workflow", or the id of the step.

// CircuitOpen records that a breaker opened, and until when it rejects everything.
type CircuitOpen struct {
	Fact

	Scope string `json:"scope"`

	// Of the breaker, of which each key has its own.
	Key string `json:"key,omitempty" log:"mask,clip"`

	ConsecutiveFailures int       `json:"consecutive_failures"`
	Until               time.Time `json:"until"`
}

// CircuitHalfOpen records that a breaker lets tests through.
type CircuitHalfOpen struct {
	Fact

	Scope string `json:"scope"`
	Key   string `json:"key,omitempty" log:"mask,clip"` // as in CircuitOpen
}

// CircuitClosed records that a breaker closed after enough successful tests.
type CircuitClosed struct {
	Fact

	Scope     string `json:"scope"`
	Key       string `json:"key,omitempty" log:"mask,clip"` // as in CircuitOpen
	Successes int    `json:"successes"`
}

// DLQItemAdded records that an item became a dead letter.
type DLQItemAdded struct {
	Fact

	ItemID         string `json:"item_id"`
	ErrorSignature string `json:"error_signature" log:"mask,clip"`
	FailureCount   int    `json:"failure_count"`
}

// DLQItemRemoved records that an item is no longer a dead letter.
type DLQItemRemoved struct {
	Fact

	ItemID string `json:"item_id"`
	Reason string `json:"reason"`
}

// DLQItemsReprocessed summarizes a retry of dead letters.
type DLQItemsReprocessed struct {
	Fact

	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
}

// DLQItemsEvicted records that dead letters were deleted by dlq purge or dlq clear.
type DLQItemsEvicted struct {
	Fact

	Count int `json:"count"`
}

// ErrorBatch is a group of collected failures, with error_collection batched.
type ErrorBatch struct {
	Fact

	Size   int                      `json:"size"`
	Errors []errorpolicy.BatchError `json:"errors"`
}

// written returns t as the log keeps it: in UTC, to the microsecond.
func written(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Circuit returns the event for a transition of a breaker. Scope is "workflow", or the label of a step.
func Circuit(scope string, t limit.Transition) Event {
	switch t.To {
	case limit.Open:
		return CircuitOpen{Scope: scope, Key: t.Key, ConsecutiveFailures: t.ConsecutiveFailures, Until: t.Until}
	case limit.HalfOpen:
		return CircuitHalfOpen{Scope: scope, Key: t.Key}
	case limit.Closed:
		return CircuitClosed{Scope: scope, Key: t.Key, Successes: t.Successes}
	}
	panic("BUG: unknown state of a circuit breaker")
}

// Transition is the inverse of Circuit. It reports false for other events.
func Transition(e Event) (scope string, t limit.Transition, ok bool) {
	switch e := e.(type) {
	case CircuitOpen:
		return e.Scope, limit.Transition{
			To: limit.Open, Key: e.Key, ConsecutiveFailures: e.ConsecutiveFailures,
			Until: e.Until,
		}, true
	case CircuitHalfOpen:
		return e.Scope, limit.Transition{To: limit.HalfOpen, Key: e.Key}, true
	case CircuitClosed:
		return e.Scope, limit.Transition{To: limit.Closed, Key: e.Key, Successes: e.Successes}, true
	}
	return "", limit.Transition{}, false
}

// believable returns an error for a record that cannot be in the log of a job, though it can be read.
func believable(r Record) error {
	p := planOf(r.Event)
	if err := checkCounts(reflect.ValueOf(r.Event), p.givenCounts); err != nil {
		return fmt.Errorf("%s: %w", TypeOf(r.Event), err)
	}
	// Items are started in their order, so that there are at least as many records before the first about an
	// item as there are items.
	if item, ok := ItemOf(r.Event); ok && !p.early && (int64(item.Index) >= r.Seq || item.ID == "") {
		return fmt.Errorf("item %q has index %d, beyond the items started so far", item.ID, item.Index)
	}
	switch e := r.Event.(type) {
	case Unknown:
		return fmt.Errorf("unknown event type %q (written by a newer version?)", e.Name)
	case AgentFailed:
		return checkAction(e)
	case WorktreeMerged:
		return e.check(r.Seq)
	case PhaseStarted:
		return checkPhase(e.Phase)
	case PhaseCompleted:
		return checkPhase(e.Phase)
	}
	return nil
}

// checkAction returns an error for a decision that no version of prodigy makes.
func checkAction(e AgentFailed) error {
	switch {
	case !e.Action.Known():
		return fmt.Errorf("unknown action %q", e.Action)
	case e.Action.RunsAgain() && e.RetryAt == nil:
		return fmt.Errorf("action %s requires retry_at", e.Action)
	}
	return nil
}

// checkPhase returns an error for a phase that no job has.
func checkPhase(name string) error {
	if check.Among("setup map reduce merge", name) {
		return nil
	}
	return fmt.Errorf("unknown phase %q", name)
}
