// Package workflow defines the language of workflow files: types, a strict parser and checks.
//
// Parse returns a Workflow, whose main parts are Step, Phase and Map, or an InvalidError with all problems
// and their positions. The reader finds keys by the yaml tags of the types; their comments are the source of
// the JSON Schema and of docs/workflow.md.
//
// The package knows nothing of jobs, logs or queues. A block with behaviour is a type of the package that
// implements it: retry.Policy, errorpolicy.Policy, limit.BreakerConfig.
package workflow

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
)

// Workflow is the content of a workflow file.
type Workflow struct {
	File string // its name, for messages

	// what people call it, by default the file without its ending; stands in the log, the reports and
	// `${workflow.name}`
	Name string `yaml:"name"`

	Description string `yaml:"description"` // for people who read the file
	Version     string `yaml:"version"`     // of the workflow, for people who read the file

	// whether there are items; default mapreduce with a map, else standard
	Mode Mode `yaml:"mode"`

	Commands []Step `yaml:"commands" alias:"steps"` // the steps of a standard workflow, run once and in order

	// steps that run once before the items; what they capture is seen by all that follows
	Setup *Phase `yaml:"setup"`

	Map *Map `yaml:"map"` // the items, and what is done with each of them

	// steps that run once when the items are done; not when there were none, or the job was stopped
	Reduce *Phase `yaml:"reduce"`

	// steps that run once at the very end; not when there were no items, or the job was stopped
	Merge *Phase `yaml:"merge"`

	// whether to run reduce and merge again after a retry of dead letters, as `dlq retry --reduce` does;
	// default false
	ReduceOnRetry bool `yaml:"reduce_on_retry"`

	// when reduce and merge run: else the job ends without them, with exit code 3; default always
	ReduceWhen *ReduceWhen `yaml:"reduce_when"`

	// what a failed item does to itself and to the job; written here, in the map, or its plain keys at the root
	ErrorPolicy errorpolicy.Policy `yaml:"error_policy"`

	Handlers map[string][]Step `yaml:"handlers"` // named lists of steps, for `on_item_failure: custom:<name>`

	// variables of every command, in the order of the file: each sees those before it
	Env []EnvVar `yaml:"env"`

	// files of variables, NAME=value a line; a later one goes before an earlier, and `env` before all of them
	EnvFiles []Text `yaml:"env_files"`

	// named sets of variables that go before `env`; a run chooses one by `--profile`
	Profiles []Profile `yaml:"profiles"`

	// variables whose values are masked wherever prodigy writes or prints, and never stored
	Secrets []Secret `yaml:"secrets"`

	// values that a run is given by `--param` or `--param-file`; every text can name them
	Parameters []Parameter `yaml:"parameters"`

	// where the agents work: `shared`, all of them in the directory of the run, or `git`, each in a git
	// repository of its own, whose commits are merged; default shared
	Workspace Workspace `yaml:"workspace"`

	// `ok` says that agents are meant to edit one git checkout at once, which else is warned of; default not
	// said
	SharedDirectory Sharing `yaml:"shared_directory"`

	// changes to the presets of AI coding CLIs, and new ones, for the agent steps of this workflow (see
	// agents.md)
	Agents *AgentPresets `yaml:"agents"`

	Budget limit.Budget `yaml:"budget"` // what the AI agents of the job may cost

	// who outside is told of dead letters, of open breakers, of the end of the job and the like; one receiver
	// or a list
	Notify []Receiver `yaml:"notify"`

	Outputs outputs.Policy `yaml:"outputs"` // how much is kept of what steps print, for `prodigy logs`

	BreakerPer *Text // per of the circuit_breaker of the error policy, with its position

	Older bool // it is written as the older tool wanted it, whose agents had workspaces without being told

	Warnings []Problem // what validate and the start of a run tell, though it is no error
}

// AgentPresets is the block agents. Package ai reads it.
type AgentPresets struct{ Node *yaml.Node }

// Mode is the mode of a workflow.
type Mode string

const (
	Standard  Mode = "standard"  // a list of commands
	MapReduce Mode = "mapreduce" // an agent for each of many items
)

// Words returns what can be written.
func (Mode) Words() []string { return check.Words(Standard, MapReduce) }

// Phase is a list of steps that runs once.
type Phase struct {
	Commands []Step       `yaml:"commands"` // the steps, run in order; required
	Timeout  SecondsOrVar `yaml:"timeout"`  // of the whole phase; default none
	Pos      Pos
}

// Map is the map phase.
type Map struct {
	Input Input `yaml:"input" required:"true"` // where the items come from; required

	// picks the items out of JSON; default the elements of an array, else the whole as one item
	JSONPath Text `yaml:"json_path" text:"any"`

	// an expression over an item's fields: only items for which it is true are taken
	Filter Text `yaml:"filter"`

	// the order of the items: `path [ASC|DESC] [NULLS FIRST|LAST], …`, or `number(path)`; default as they come
	SortBy Text `yaml:"sort_by"`

	Distinct Text `yaml:"distinct"` // a field of which each value is taken once, or true for the whole item
	Key      Text `yaml:"key"`      // the field whose text is the item id; default `item_<index>`

	// what people call an item, such as `${item.path}`; default the item itself if it is a text, else its name,
	// id, path, title or file
	Label Text `yaml:"label"`

	// how many of the chosen items are left out at the beginning; default 0
	Offset int `yaml:"offset" least:"0"`

	MaxItems *int `yaml:"max_items" least:"0"` // how many items are taken at most; default all

	// what it means that no item is chosen: `error`, and nothing is done, or `ok`; default `error`
	OnEmpty OnEmpty `yaml:"on_empty"`

	// how many items an agent gets at once, as the list `${items}`; default one, as `${item}`
	Batch int `yaml:"batch" least:"1"`

	// how many agents run at once, unless they run on a fleet: there it is the slots of its workers if nothing
	// is written; default 10
	MaxParallel IntOrVar `yaml:"max_parallel"`

	// how many agents run at once, as it turns out that a service can take; in place of `max_parallel`
	Concurrency *Concurrency `yaml:"concurrency"`

	// how often an agent may start at most, such as `40/s`, over all slots; the retries of steps count too. An
	// agent that waits for its turn has no slot; default no limit
	Rate Rate `yaml:"rate"`

	// a number of items that run before all others: only if enough of them succeed the others follow, else the
	// job pauses with exit code 3, until `prodigy resume --accept`; default none
	Canary *Canary `yaml:"canary"`

	// how many agents run at once, in steps such as `[2, 8, 32]`: the next step begins when enough items have
	// succeeded in the one before, else the job pauses as after a canary; the last step is `max_parallel`;
	// default none
	Ramp *Ramp `yaml:"ramp"`

	// which attempts take unusually long, and whether they are stopped then; default none
	Straggler *limit.StragglerConfig `yaml:"straggler"`

	// how long an agent that waits for the next try of a step keeps its slot; `never`: all the time, as with
	// `max_parallel: 1`. At most 1,024 agents wait without a slot; default 10s
	ParkAfter *ParkAfter `yaml:"park_after"`

	// labels that a worker of a fleet must have to run items, such as `gpu` or `linux/arm64`. A run on this
	// machine alone warns of them, and refuses a system that is not its own
	Requires []Text `yaml:"requires"`

	// files below the directory of the run, such as `scripts/**`, that the workers of a fleet are sent: their
	// commands run beside them, and what `produces` names comes back. Default none: the directory is shared
	Files []Text `yaml:"files"`

	ItemsFromArgs bool // the items are values of the command line, and ARG is the item

	// whether a run takes over the results of items that the latest job of this workflow has done already, and
	// that have not changed since; `--since` says it for one run; default false
	Incremental bool `yaml:"incremental"`

	// the fields of an item whose change means that it has to be done again; default all
	Fingerprint []Text `yaml:"fingerprint"`

	// the files that an item is made from, such as `${item.path}` or `scripts/*.sh`: when one changes, the item
	// has changed. A directory is all files in it; a path names the item, or has wildcards
	Uses []Text `yaml:"uses"`

	// the files that an agent leaves, such as `out/${item.id}.png`: without them it has failed, and is done
	// again when they are gone
	Produces []Text `yaml:"produces"`

	// whether the files of `produces` have other names until the attempt has succeeded, so that there is never
	// half a file under its name: the steps write to `${produces}` (`${produces[0]}` when there are several),
	// or `$PRODIGY_PRODUCES`; default false
	Atomic bool `yaml:"atomic"`

	// what becomes of files of `produces` that an attempt has written which failed, was interrupted or killed:
	// `keep`, `remove`, or `partial`, which adds `.partial` to their names; default `partial` for files whose
	// paths name the item and are no directories, with `atomic` `remove`
	Incomplete Incomplete `yaml:"incomplete"`

	// the steps that are run for each item; a list, or `{commands: [...]}`; required
	AgentTemplate []Step `yaml:"agent_template" required:"true"`

	// of a whole agent, its waits for retries included; default none
	AgentTimeout SecondsOrVar `yaml:"agent_timeout_secs"`

	// more about the limits in time of agents and their commands
	Timeouts Timeouts `yaml:"timeout_config"`

	// the times of day in which agents may start, such as `22:00-06:00 Europe/Berlin`; default always
	Windows limit.Windows `yaml:"windows"`

	Guards limit.Guards `yaml:"guards"` // what the machine must have left for an agent to start; only on Linux

	Pos Pos
}

// Concurrency is how many agents run at once, between bounds.
type Concurrency struct {
	Min int `yaml:"min" least:"1"`                 // how many at least, and at first; default 1
	Max int `yaml:"max" least:"1" required:"true"` // how many at most; required. `--max-parallel` can lower it

	// that the number follows how the agents fare; required, since otherwise it is `max_parallel`
	Adapt bool `yaml:"adapt"`
}

// Rate is how often agents may start.
type Rate struct {
	// such as `40/s`, `100/min`, `1000/h` or `3/10s`; required
	Limit limit.Rate `yaml:"limit" required:"true" short:"true"`

	// how many may start at once after a time without any; default as many as there are in a tenth of a second,
	// at least 1
	Burst *int `yaml:"burst" range:"1 100000"`

	// a text such as `${item.host}`: items for which it is the same have one limit, each such group its own.
	// Items for which it cannot be told have one limit together; default one limit for all items
	Per *Text `yaml:"per"`
}

// ParkAfter is how long an agent that waits for the next try of a step keeps its slot, before another agent may use it.
type ParkAfter struct {
	Never bool
	Time  time.Duration
}

// defaultParkAfter spares most agents the way out of their slot and back: other items should not begin
// because of a short wait.
const defaultParkAfter = 10 * time.Second

// SlotWait returns when an agent that waits gives up its slot.
func (m *Map) SlotWait() ParkAfter {
	if m.ParkAfter == nil {
		return ParkAfter{Time: defaultParkAfter}
	}
	return *m.ParkAfter
}

// AgentLimit returns the time limit of an agent, from the map or its timeout_config. The zero value is no limit.
func (m *Map) AgentLimit() SecondsOrVar {
	switch {
	case m.Timeouts.Policy == PerCommand:
		return SecondsOrVar{}
	case m.AgentTimeout != (SecondsOrVar{}):
		return m.AgentTimeout
	}
	return m.Timeouts.Agent
}

// ItemsAreTexts reports whether all items are known to be texts: file names, lines, or strings that end with
// a NUL byte.
func (m *Map) ItemsAreTexts() bool {
	in := m.Input
	return m.JSONPath.Value == "" && m.Batch == 0 && in.Split == "" &&
		(FormatNamed(in.Format).Texts == TextItems || in.Format == "" && len(in.Glob) > 0)
}

// Input is the source of the items. Besides Format, exactly one of the fields is set.
type Input struct {
	Text string // a text: the name of a file, a pattern, or a command (see package items)

	// a file to read, or several, one after the other
	File []string `yaml:"file" required:"one" text:"filled"`

	Command string `yaml:"command" required:"one" text:"filled"` // a shell command whose output is read

	// a pattern of file names, `**` for any directories, or several, one after the other: the names are the
	// items; with a format, what the files hold
	Glob []string `yaml:"glob" required:"one" text:"filled"`

	Stdin bool `yaml:"stdin" required:"one"` // the standard input of prodigy is read

	// the results of another job are the items: `latest:NAME` for the latest job of that workflow in this
	// project, or the id of a job
	Job string `yaml:"job" required:"one" text:"filled"`

	Items []json.RawMessage // a YAML list: the items themselves

	// what the data is; default told by the file's extension, else by its look
	Format string `yaml:"format"`

	Select Select `yaml:"select"` // of a job: the results that are taken; default `success`

	// the character between the fields of `format: csv`, or after each item of `format: lines`; default `,`, or
	// the end of a line
	Delimiter rune `yaml:"delimiter"`

	// a regular expression for what is between the columns of an item of `format: lines` or `nul`, which is a list
	// then, with `${item[0]}` and `${item[-1]}`; default none
	Split string `yaml:"split" text:"filled"`

	Pos Pos
}

// Incomplete says what becomes of files that an attempt has written which did not succeed.
type Incomplete string

// The choices of Incomplete.
const (
	KeepIncomplete    Incomplete = "keep"
	RemoveIncomplete  Incomplete = "remove"
	PartialIncomplete Incomplete = "partial"
)

// Words returns what can be written.
func (Incomplete) Words() []string {
	return check.Words(KeepIncomplete, RemoveIncomplete, PartialIncomplete)
}

// OnEmpty says what an empty selection is.
type OnEmpty string

// The choices of OnEmpty.
const (
	EmptyIsError OnEmpty = "error"
	EmptyIsOK    OnEmpty = "ok"
)

// Words returns what can be written.
func (OnEmpty) Words() []string { return check.Words(EmptyIsError, EmptyIsOK) }

// Select says which results of a job are taken.
type Select string

// The choices of Select.
const (
	SelectSuccess Select = "success" // those of items that succeeded
	SelectFailed  Select = "failed"  // those of items that failed for good; not of skipped ones
	SelectAll     Select = "all"
)

// Words returns what can be written.
func (Select) Words() []string { return check.Words(SelectSuccess, SelectFailed, SelectAll) }

// Takes reports whether a result with this status is taken.
func (s Select) Takes(status string) bool {
	return s == SelectAll || status == string(cmp.Or(s, SelectSuccess))
}

// LatestOf is what the job of an input begins with that is named by its workflow.
const LatestOf = "latest:"

// Format is a format of the data of items. Package items reads it.
type Format struct {
	Name       string
	Extensions []string // of files that are read in it when the workflow names no format, in lower case
	Texts      Texts
}

// Texts says what of the data in a format is text whatever it looks like, so that "5" is never a number.
type Texts int

const (
	NoTexts    Texts = iota // the data has types of its own
	TextFields              // each field of an item is text
	TextItems               // each item is text
)

// formats are the formats that data can have. Data is sniffed if neither the workflow nor the file's name
// says its format: JSON values, and lines of text for everything else.
var formats = []Format{
	{Name: "json", Extensions: []string{".json"}},
	{Name: "jsonl", Extensions: []string{".jsonl", ".ndjson"}},
	{Name: "csv", Extensions: []string{".csv"}, Texts: TextFields},
	{Name: "tsv", Extensions: []string{".tsv", ".tab"}, Texts: TextFields},
	{Name: "lines", Texts: TextItems},
	{Name: "nul", Texts: TextItems},
	{Name: "yaml", Extensions: []string{".yaml", ".yml"}},
}

// Formats returns the names of the formats that data can have.
func Formats() []string {
	return check.Each(formats, func(f Format) string { return f.Name })
}

// FormatNamed returns the format with that name, or the zero Format, which stands for data that is sniffed.
func FormatNamed(name string) Format {
	if i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name }); i >= 0 {
		return formats[i]
	}
	return Format{}
}

// FormatOfFile returns the name of the format that the extension of a file stands for, or "".
func FormatOfFile(file string) string {
	extension := strings.ToLower(filepath.Ext(file))
	for _, f := range formats {
		if slices.Contains(f.Extensions, extension) {
			return f.Name
		}
	}
	return ""
}

// IntOrVar is a whole number, or the name of an environment variable that holds one.
type IntOrVar struct {
	Value int
	Var   string // written "$VAR" or "${VAR}". Without it, Value counts
	Pos   Pos
}

// SecondsOrVar is a time limit, or the name of an environment variable that holds one. The zero value is no limit.
type SecondsOrVar struct {
	Value time.Duration
	Var   string // written "$VAR" or "${VAR}". Without it, Value counts
	Pos   Pos
}

// Timeouts is a timeout_config block. After Parse, the limits of commands are also in Step.Timeout.
type Timeouts struct {
	// the same as in the map, which has it instead
	Agent SecondsOrVar `yaml:"agent_timeout_secs"`

	// which limits count: that of the agent, those of the commands, or both; default hybrid
	Policy TimeoutPolicy `yaml:"timeout_policy" case:"any"`

	// limits of commands that have no `timeout` of their own
	Commands map[string]time.Duration `yaml:"command_timeouts"`

	// what happens to an item when a time is up; default what `on_item_failure` says
	Action errorpolicy.TimeoutAction `yaml:"timeout_action" case:"any"`

	// between SIGTERM and SIGKILL when a time is up; default 5s, and 30s with `graceful_terminate`
	Cleanup *time.Duration `yaml:"cleanup_grace_period_secs"`
}

// TimeoutPolicy says which time limits apply.
type TimeoutPolicy string

const (
	PerAgent   TimeoutPolicy = "per_agent"   // that of the agent
	PerCommand TimeoutPolicy = "per_command" // those of the commands
	Hybrid     TimeoutPolicy = "hybrid"      // both
)

// Words returns what can be written.
func (TimeoutPolicy) Words() []string { return check.Words(PerAgent, PerCommand, Hybrid) }

// EnvVar is one variable of an env block. Command or Choice, if set, takes the place of Value.
type EnvVar struct {
	Name  string `json:"name"`
	Value Text   `json:"value"`

	// Value stands for itself: what looks like a placeholder in it is none
	Literal bool `json:"literal,omitempty"`

	Command *Text `json:"command,omitempty"` // its output is the value

	// Command is run once for the job, before anything else; else once for each attempt
	Cache bool `json:"cache,omitempty"`

	Choice *EnvChoice `json:"choice,omitempty"`
	Secret bool       `json:"secret,omitempty"` // the value is masked wherever it would be written, and never stored
}

// At returns the position of the value.
func (v EnvVar) At() Pos {
	switch {
	case v.Command != nil:
		return v.Command.At(1, 1)
	case v.Choice != nil:
		return v.Choice.ConditionPos
	}
	return v.Value.At(1, 1)
}

// InFile reports whether the value of a secret variable is written in the workflow file itself.
func (v EnvVar) InFile() bool {
	return v.Secret && v.Command == nil && !onePlaceholder().MatchString(v.Value.Value)
}

// onePlaceholder matches a value that is a single placeholder, and so not itself secret.
var onePlaceholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$\{[^}]+\}$`) })

// EnvChoice is a value that a condition selects, once for the job.
type EnvChoice struct {
	Condition    string `json:"condition"`
	ConditionPos Pos    `json:"condition_pos"`
	WhenTrue     Text   `json:"when_true"`
	WhenFalse    Text   `json:"when_false"`
}

// Profile is a named set of variables that a run can select. They override those of env.
type Profile struct {
	Name        string
	Description string
	Env         []EnvVar
	Pos         Pos
}

// ProfileNamed returns the profile with that name. The error suggests the nearest one.
func (w *Workflow) ProfileNamed(name string) (Profile, error) {
	known := make([]string, len(w.Profiles))
	for i, p := range w.Profiles {
		if p.Name == name {
			return p, nil
		}
		known[i] = p.Name
	}
	if len(known) == 0 {
		return Profile{}, fmt.Errorf("unknown profile %q: the workflow has no profiles", name)
	}
	return Profile{}, fmt.Errorf("unknown profile %q%s", name, hint(name, known))
}

// Secret is where the value of a secret comes from: exactly one of Env, File and Command is set.
type Secret struct {
	Name    string
	Env     string // the name of an environment variable
	File    *Text  `yaml:"file" required:"one"`    // a file that holds the secret
	Command *Text  `yaml:"command" required:"one"` // a shell command that prints the secret
	Pos     Pos
}

// Masked replaces a secret in all output.
const Masked = "***"

// Redact returns source, the file that w was read from, with the secrets in it masked.
func (w *Workflow) Redact(source []byte) []byte {
	lines := strings.SplitAfter(string(source), "\n")
	for _, v := range w.allVariables() {
		if !v.InFile() {
			continue
		}
		index := v.Value.Pos.Line - 1
		line, bom := strings.CutPrefix(lines[index], "\ufeff")
		runes := []rune(line)
		start := v.Value.Pos.Col - 1
		end := start + len([]rune(v.Value.Value))
		line = string(runes[:start]) + maskAfter(runes[:start]) + string(runes[end:])
		if bom {
			line = "\ufeff" + line
		}
		lines[index] = line
	}
	return []byte(strings.Join(lines, ""))
}

// maskAfter returns the mask, quoted unless before ends with a quote: a bare *** would be an alias in YAML.
func maskAfter(before []rune) string {
	if n := len(before); n > 0 && (before[n-1] == '"' || before[n-1] == '\'') {
		return Masked
	}
	return `"` + Masked + `"`
}

// allVariables returns the variables of env and of all profiles.
func (w *Workflow) allVariables() []EnvVar {
	all := w.Env[:len(w.Env):len(w.Env)]
	for _, p := range w.Profiles {
		all = append(all, p.Env...)
	}
	return all
}

// Parameter is a value that is given to a run. All texts can use its name.
type Parameter struct {
	Name string

	// what its values are; default the type of the default value, else string
	Type ParameterType `yaml:"type"`

	Default     json.RawMessage `yaml:"default"`     // its value when a run gives none; default none
	Required    bool            `yaml:"required"`    // a run must give it; default false
	Description string          `yaml:"description"` // for people
	Pos         Pos
}

// ParameterType is the type of a parameter.
type ParameterType string

const (
	StringParameter  ParameterType = "string"
	NumberParameter  ParameterType = "number"
	IntegerParameter ParameterType = "integer"
	BooleanParameter ParameterType = "boolean"
	ArrayParameter   ParameterType = "array"
	ObjectParameter  ParameterType = "object"
)

// Words returns what can be written.
func (ParameterType) Words() []string {
	return check.Words(StringParameter, NumberParameter, IntegerParameter, BooleanParameter, ArrayParameter,
		ObjectParameter)
}

// Argument is the value of a parameter; nil if it has none.
type Argument struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Problem is an error in a workflow, or a warning.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Message string `json:"message"`
}

// ProblemAt returns what is wrong at a place of the file of w.
func (w *Workflow) ProblemAt(at Pos, message string) Problem {
	p := at.Problem("%s", message)
	p.File = w.File
	return p
}

func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Col, p.Message)
}

// InvalidError holds all problems of a workflow, in the order of the file.
type InvalidError struct {
	Problems []Problem
	Read     *Workflow // what could be read all the same, to look for more problems in; nil when that is nothing
}

// Error returns all problems, a line each.
func (e *InvalidError) Error() string {
	return strings.Join(check.Each(e.Problems, Problem.String), "\n")
}

// And returns e with the problems of err added, if that is an *InvalidError too.
func (e *InvalidError) And(err error) *InvalidError {
	more, ok := errors.AsType[*InvalidError](err)
	if !ok {
		return e
	}
	return &InvalidError{Problems: sortProblems(slices.Concat(e.Problems, more.Problems)), Read: e.Read}
}

// sortProblems sorts problems by position and removes duplicates, as of a value with several aliases.
func sortProblems(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems)
}

// schema is generated from the types and their comments by TestTheSchemaIsThatOfTheTypes.
//
//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 7) of a workflow file.
func Schema() string { return schema }
