// Package agent runs a list of steps for one item: processes, timeouts, output, command-level retry, handlers.
package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

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

	Limits Limits `json:"limits,omitzero"`

	// Spec tells apart what attempts of the same job and phase have in common, so that an Executor compiles it once (see SetSpec).
	// Empty: it is compiled for this attempt alone.
	Spec string `json:"spec,omitempty"`
}

// SetSpec sets a.Spec to a digest of what an Executor compiles of a.
func (a *Attempt) SetSpec() {
	digest := sha256.New()
	// Names of what is captured and of secrets and parameters decide how texts compile.
	err := json.NewEncoder(digest).Encode([]any{a.Env, a.Secrets, a.Args, a.PerValue, a.Earlier, a.Steps, a.Handler})
	if err != nil {
		panic("BUG: an attempt has no JSON: " + err.Error())
	}
	a.Spec = hex.EncodeToString(digest.Sum(nil))
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

// Config is how an Executor runs commands.
type Config struct {
	Run      Runner
	Claude   []string      // argv of the AI coding CLI, to which its prompt is given as claude.bind says
	Seed     uint64        // of the jitter of retry delays
	Grace    time.Duration // between SIGTERM and SIGKILL
	LogSteps bool          // emit AgentProgress

	TempDir string   // private files of a step; "": os.TempDir
	Environ []string // the inherited environment

	Secrets map[string]string // the values of secret variables, which are in no Attempt
	Mask    *mask.Masker      // takes them out of outcomes and events

	// MaxCommands bounds how many commands run at once, whoever runs them; 0: nothing does. The Executor lowers it when there are too
	// few files, processes or memory for so many, and reports that to its Host.
	MaxCommands int
}

// Executor runs attempts on this machine.
type Executor struct {
	Config
	host Host

	shell     shellPath
	inherited inherited
	plans     plans
	room      room
}

// New returns an Executor for attempts of a host. With a nil host they belong to no job, and their events are dropped.
func New(c Config, h Host) *Executor {
	if h == nil {
		h = new(noJob)
	}
	return &Executor{Config: c, host: h}
}
