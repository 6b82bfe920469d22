// Package agent runs a list of steps for one item: processes, timeouts, output, command-level retry, handlers.
package agent

import (
	"context"
	"encoding/json"
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/events"
	"prodigy/internal/mask"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Attempt is one execution of a list of steps, and all that is needed to do it here or elsewhere: it survives JSON.
// In the map phase it is one try of one item; in the other phases Item is nil and ItemID empty.
type Attempt struct {
	ID            string                 `json:"id"` // <job>/<item>/<n>: its dedupe key, and the agent id
	JobID         string                 `json:"job_id"`
	Workflow      string                 `json:"workflow"`
	CorrelationID string                 `json:"correlation_id"`
	Phase         string                 `json:"phase"` // setup, map, reduce, merge; empty in standard mode
	ItemID        string                 `json:"item_id,omitempty"`
	ItemIndex     int                    `json:"item_index"`
	ItemTotal     int                    `json:"item_total"` // 0 while unknown
	Item          json.RawMessage        `json:"item,omitempty"`
	Number        int                    `json:"number"` // from 1
	Worker        int                    `json:"worker"` // slot, from 1
	Dir           string                 `json:"dir"`
	Env           []workflow.EnvVar      `json:"env,omitempty"`       // of the workflow; those that are secret have no value here
	Secrets       []string               `json:"secrets,omitempty"`   // names of variables that go before all others
	PerValue      bool                   `json:"per_value,omitempty"` // ARG is the item
	Args          []workflow.Argument    `json:"args,omitempty"`      // the parameters
	Steps         []workflow.Step        `json:"steps"`
	Handler       []workflow.Step        `json:"handler,omitempty"`  // of on_item_failure: custom:<name>
	Earlier       []events.StepCompleted `json:"earlier,omitempty"`  // of earlier phases: what they captured is visible
	Done          []events.StepCompleted `json:"done,omitempty"`     // the first steps of this phase, which are not run again
	Retrying      *events.StepRetrying   `json:"retrying,omitempty"` // what a step had used up when the run before this one ended
	Due           time.Time              `json:"due,omitzero"`       // of the next try of that step
	Map           *MapResult             `json:"map,omitempty"`      // in reduce and merge

	// Circuits are the last transitions of the breakers of these steps by their scope, in the runs of the job before this one: the
	// breakers go on from there.
	Circuits map[string]breaker.Transition `json:"circuits,omitempty"`
	Limits   Limits                        `json:"limits,omitzero"`
}

// Limits are the limits in time of an attempt.
type Limits struct {
	Agent   time.Duration  `json:"agent,omitempty"`   // for all of its steps, their waits included; 0: none
	Cleanup *time.Duration `json:"cleanup,omitempty"` // between SIGTERM and SIGKILL when a time is up; nil: the executor's Grace

	// Decided says that what follows when a time is up has been decided for all items, so that Handler is not asked.
	Decided bool `json:"decided,omitempty"`
}

// MapResult is what ${map.…} stands for.
type MapResult struct {
	Total       int           `json:"total"`
	Successful  int           `json:"successful"`
	Failed      int           `json:"failed"`
	Skipped     int           `json:"skipped"`
	FailureRate float64       `json:"failure_rate"`
	Duration    time.Duration `json:"duration"`
	ResultsFile string        `json:"results_file"`
}

// Outcome is how an attempt ended.
type Outcome struct {
	Failure  *Failure                   `json:"failure,omitempty"` // nil: success
	Handled  bool                       `json:"handled,omitempty"` // failed, and Attempt.Handler ran and succeeded
	ExitCode int                        `json:"exit_code"`         // of the last step that ran; -1: it had none
	Output   string                     `json:"output"`            // of the last step that ran, bounded (see process.Capture)
	Captured map[string]json.RawMessage `json:"captured,omitempty"`
	Duration time.Duration              `json:"duration"`
}

// Failure is a retry.Failure with the label of the step it happened in.
type Failure struct {
	retry.Failure
	Step string `json:"step"`
}

// Runner runs one command. process.Run is one; tests and dry runs are functions.
type Runner func(ctx context.Context, c process.Command) (process.Exit, error)

// Executor runs attempts on this machine.
type Executor struct {
	Run      Runner
	Claude   []string // argv of the AI coding CLI, to which its prompt is given as claude.bind says
	Seed     uint64
	Grace    time.Duration // between SIGTERM and SIGKILL
	LogSteps bool          // emit AgentProgress

	// Progress, when set, is told which step each agent of the map phase begins, logged or not. It is called from the goroutine of
	// the attempt.
	Progress func(events.AgentProgress)

	TempDir string   // private files of a step; ""= os.TempDir
	Environ []string // the inherited environment

	Secrets map[string]string // the values of secret variables, which are in no Attempt
	Mask    *mask.Masker      // takes them out of outcomes and events

	// Register, when there is one, has a record of each command that runs.
	Register *process.Register

	// Emit is told what happens inside an attempt (StepRetrying, StepFailed, StepSkipped, StepCompleted outside the map phase, AgentProgress,
	// the circuit events of steps). It is called from the goroutine of the attempt.
	Emit func(a *Attempt, e events.Event)

	// MaxCommands bounds how many commands run at once, whoever runs them; 0: nothing does. It is made smaller when there are too few
	// files, processes or memory for so many, and then Lowered, when set, is told the new bound and why.
	MaxCommands int
	Lowered     func(most int, why error)

	// Pause waits d between two tries of a step. When it returns, a.Worker may have changed: a waiting agent need not keep its slot,
	// unless a is nil.
	// nil: a timer.
	Pause func(ctx context.Context, a *Attempt, d time.Duration) error

	// Stopping gives the reason when no more steps are to begin. It is asked by the phases that run once, which go on after their last
	// step, and not by the map phase, where an agent that gets to end is not run again. Nil: they all begin.
	Stopping func() error

	shell     shellPath
	inherited inherited
	plans     plans
	withheld  withheld
	room      room
}
