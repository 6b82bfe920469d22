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
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/rawjson"
)

// Workflow is the content of a workflow file.
type Workflow struct {
	File string // its name, for messages

	// display name, used in the log, in reports and as `${workflow.name}`; default the file name without
	// extension
	Name string `yaml:"name"`

	Description string `yaml:"description"` // description, for readers of the file
	Version     string `yaml:"version"`     // version, for readers of the file

	// whether the workflow runs over items; default mapreduce with a map, else standard
	Mode Mode `yaml:"mode" words:"standard mapreduce"`

	Commands []Step `yaml:"commands" alias:"steps"` // the steps of a standard workflow, run once and in order

	// steps that run once before the items; all later steps see the values that they capture
	Setup *Phase `yaml:"setup"`

	Map *Map `yaml:"map"` // the input items, and the steps to run for each

	// steps that run once after the items; skipped if there were no items or the job was stopped
	Reduce *Phase `yaml:"reduce"`

	// steps that run once at the end; skipped if there were no items or the job was stopped
	Merge *Phase `yaml:"merge"`

	// whether to rerun reduce and merge after a retry of dead letters, like `dlq retry --reduce`; default false
	ReduceOnRetry bool `yaml:"reduce_on_retry"`

	// conditions for running reduce and merge; if false the job ends without them, with exit code 3; default
	// always
	ReduceWhen *ReduceWhen `yaml:"reduce_when"`

	// how failed items are handled; set here, in the map, or as plain keys at the root
	ErrorPolicy errorpolicy.Policy `yaml:"error_policy"`

	Handlers map[string][]Step `yaml:"handlers"` // named lists of steps, for `on_item_failure: custom:<name>`

	// environment variables of all commands, in file order: each can use the previous ones
	Env []EnvVar `yaml:"env"`

	// files with variables, one NAME=value per line; later files override earlier ones, and `env` overrides all
	// of them
	EnvFiles []Text `yaml:"env_files"`

	// named sets of variables that override `env`; `--profile` selects one
	Profiles []Profile `yaml:"profiles"`

	// variables whose values are masked in everything that prodigy writes or prints, and never stored
	Secrets []Secret `yaml:"secrets"`

	// values passed with `--param` or `--param-file`, which all strings can use
	Parameters []Parameter `yaml:"parameters"`

	// where items run: `shared` (the job's working directory) or `git` (a git workspace for each, whose changes
	// are merged); default shared
	Workspace Workspace `yaml:"workspace"`

	// `ok` allows items to edit one git checkout concurrently, without a warning; default not set
	SharedDirectory Sharing `yaml:"shared_directory" words:"ok"`

	// new and changed presets of AI coding CLIs for the agent steps of this workflow (see agents.md)
	Agents *AgentPresets `yaml:"agents"`

	Budget limit.Budget `yaml:"budget"` // maximum cost of the job's AI agents

	// notification receivers, for dead letters, open circuit breakers, the end of the job and so on; one
	// receiver or a list
	Notify []Receiver `yaml:"notify"`

	Outputs outputs.Policy `yaml:"outputs"` // how much step output is kept for `prodigy logs`

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

// Phase is a list of steps that runs once.
type Phase struct {
	Commands []Step       `yaml:"commands"` // the steps, run in order; required
	Timeout  SecondsOrVar `yaml:"timeout"`  // timeout of the whole phase; default none
	Pos      Pos
}

// Map is the map phase.
type Map struct {
	Input Input `yaml:"input" required:"true"` // source of the items; required

	// JSONPath that selects the items in JSON; default the elements of an array, else the whole document as one
	// item
	JSONPath Text `yaml:"json_path" text:"any"`

	// expression over the fields of an item; only items for which it is true are selected
	Filter Text `yaml:"filter"`

	// sort order: `path [ASC|DESC] [NULLS FIRST|LAST], …`, or `number(path)`; default input order
	SortBy Text `yaml:"sort_by"`

	// field whose values must be unique (only the first item of each is selected), or true for the whole item
	Distinct Text `yaml:"distinct"`
	Key      Text `yaml:"key"` // field that is the item id; default `item_<index>`

	// display name of an item, such as `${item.path}`; default the item itself if it is a string, else its
	// name, id, path, title or file
	Label Text `yaml:"label"`

	// number of selected items to skip; default 0
	Offset int `yaml:"offset" least:"0"`

	MaxItems *int `yaml:"max_items" least:"0"` // maximum number of items; default all

	// whether an empty selection is an `error` or `ok`; default `error`
	OnEmpty OnEmpty `yaml:"on_empty" words:"error ok"`

	// number of items per agent, as the list `${items}`; default one, as `${item}`
	Batch int `yaml:"batch" least:"1"`

	// maximum number of items to run at a time, on a fleet by default the slots of its workers; default 10
	MaxParallel IntOrVar `yaml:"max_parallel"`

	// adaptive number of items to run at a time, for services of unknown capacity; instead of `max_parallel`
	Concurrency *Concurrency `yaml:"concurrency"`

	// maximum start rate, such as `40/s`, over all slots; retries of steps count too. Items that wait for it
	// hold no slot; default no limit
	Rate Rate `yaml:"rate"`

	// number of items to run first; the rest run only if enough of them succeed, otherwise the job stops with
	// exit code 3 until `prodigy resume --accept`; default none
	Canary *Canary `yaml:"canary"`

	// increasing numbers of items to run at a time, such as `[2, 8, 32]`: the next step starts when enough
	// items have succeeded in the current one, otherwise the job stops as after a canary; the last step is
	// `max_parallel`; default none
	Ramp *Ramp `yaml:"ramp"`

	// when an attempt is a straggler, and whether stragglers are stopped; default none
	Straggler *limit.StragglerConfig `yaml:"straggler"`

	// how long an item that waits to retry a step keeps its slot; with `never`, and with `max_parallel: 1`, it
	// always keeps it. At most 1,024 items wait without a slot; default 10s
	ParkAfter *ParkAfter `yaml:"park_after"`

	// labels that a fleet worker must have to run items, such as `gpu` or `linux/arm64`. A run without a fleet
	// warns about labels, and fails if the operating system or architecture differs
	Requires []Text `yaml:"requires"`

	// files in the working directory, such as `scripts/**`, to send to fleet workers. Commands run in the
	// directory of these files, and the files of `produces` are sent back. Default none: the directory is
	// shared
	Files []Text `yaml:"files"`

	ItemsFromArgs bool // the items are values of the command line, and ARG is the item

	// whether to reuse results of items unchanged since this workflow's latest job, like `--since`; default
	// false
	Incremental bool `yaml:"incremental"`

	// fields that determine whether an item has changed; default all
	Fingerprint []Text `yaml:"fingerprint"`

	// input files of an item, such as `${item.path}` or `scripts/*.sh`; if one changes, the item has changed. A
	// directory means all files in it. A path can have item values or wildcards, not both
	Uses []Text `yaml:"uses"`

	// output files of an item, such as `out/${item.id}.png`. An attempt that does not create them fails, and an
	// item is rerun if they are missing later
	Produces []Text `yaml:"produces"`

	// whether the files of `produces` are written under temporary names until the attempt succeeds, so that no
	// incomplete file is ever visible. Steps write to `${produces}` (`${produces[0]}` if there are several) or
	// `$PRODIGY_PRODUCES`; default false
	Atomic bool `yaml:"atomic"`

	// what happens to the `produces` files of an attempt that failed or was interrupted: `keep`, `remove`, or
	// `partial`, which appends `.partial` to their names; default `partial` for files (not directories) whose
	// paths contain item values, `remove` with `atomic`
	Incomplete Incomplete `yaml:"incomplete" words:"keep remove partial"`

	// the steps to run for each item; a list, or `{commands: [...]}`; required
	AgentTemplate []Step `yaml:"agent_template" required:"true"`

	// timeout of a whole item, including waits for retries of its steps; default none
	AgentTimeout SecondsOrVar `yaml:"agent_timeout_secs"`

	// more timeouts of items and their commands
	Timeouts Timeouts `yaml:"timeout_config"`

	// times of day at which items may start, such as `22:00-06:00 Europe/Berlin`; default always
	Windows limit.Windows `yaml:"windows" empty:"windows must not be empty"`

	Guards limit.Guards `yaml:"guards"` // free resources required to start items; Linux only

	Pos Pos
}

// Concurrency is an adaptive number of items to run at a time, between bounds.
type Concurrency struct {
	Min int `yaml:"min" least:"1"`                 // minimum and initial number; default 1
	Max int `yaml:"max" least:"1" required:"true"` // maximum number; required. `--max-parallel` can lower it

	// whether the number adapts to how the items fare; must be true, since a fixed number is `max_parallel`;
	// required
	Adapt bool `yaml:"adapt"`
}

// Rate limits how often items or steps start.
type Rate struct {
	// maximum start rate, such as `40/s`, `100/min`, `1000/h` or `3/10s`; required
	Limit limit.Rate `yaml:"limit" required:"true" short:"true"`

	// number of starts allowed at once after an idle time; default the starts of a tenth of a second, at least
	// 1
	Burst *int `yaml:"burst" range:"1 100000"`

	// string such as `${item.host}`: items with the same value share a limit. Items without a value share one
	// limit; default one limit for all items
	Per *Text `yaml:"per"`
}

// ParkAfter is how long an item that waits to retry a step keeps its slot.
type ParkAfter struct {
	Never bool
	Time  time.Duration
}

// defaultParkAfter is long enough that most items keep their slot: a short wait should not let another item
// start.
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

	// file to read, or a list of files to read in order
	File []string `yaml:"file" required:"one" text:"filled" empty:"file: the list is empty"`

	Command string `yaml:"command" required:"one" text:"filled"` // shell command whose output is read

	// glob pattern, where `**` matches any directories, or a list of them: the matching file names are the
	// items; with a format, the contents of the files
	Glob []string `yaml:"glob" required:"one" text:"filled" empty:"glob: the list is empty"`

	Stdin bool `yaml:"stdin" required:"one"` // whether to read standard input

	// use the results of another job as items: `latest:NAME` for the latest job of that workflow in this
	// project, or a job id
	Job string `yaml:"job" required:"one" text:"filled"`

	Items []json.RawMessage // a YAML list: the items themselves

	// format of the data; default from the file extension, else detected from the content
	Format string `yaml:"format"`

	Select Select `yaml:"select" words:"success failed all"` // which results of a job to use; default `success`

	// field separator of `format: csv`, or item terminator of `format: lines`; default `,`, or the end of a
	// line
	Delimiter rune `yaml:"delimiter"`

	// regular expression that splits an item of `format: lines` or `nul` into a list of columns, `${item[0]}`
	// to `${item[-1]}`; default none
	Split string `yaml:"split" text:"filled"`

	Pos Pos
}

// Incomplete is what happens to the output files of a failed attempt.
type Incomplete string

// The choices of Incomplete.
const (
	KeepIncomplete    Incomplete = "keep"
	RemoveIncomplete  Incomplete = "remove"
	PartialIncomplete Incomplete = "partial"
)

// OnEmpty is whether an empty selection is an error.
type OnEmpty string

// The choices of OnEmpty.
const (
	EmptyIsError OnEmpty = "error"
	EmptyIsOK    OnEmpty = "ok"
)

// Select filters the results of an input job by status.
type Select string

// The choices of Select.
const (
	SelectSuccess Select = "success" // those of items that succeeded
	SelectFailed  Select = "failed"  // those of items that failed for good; not of skipped ones
	SelectAll     Select = "all"
)

// Takes reports whether a result with this status is taken.
func (s Select) Takes(status string) bool {
	return s == SelectAll || status == string(cmp.Or(s, SelectSuccess))
}

// LatestOf is the prefix of an input job that is given as a workflow name.
const LatestOf = "latest:"

// Format is a format of the data of items. Package items reads it.
type Format struct {
	Name       string
	Extensions []string // of files that are read in it when the workflow names no format, in lower case
	Texts      Texts
}

// Texts is which values of a format are always strings, so that "5" is never a number.
type Texts int

const (
	NoTexts    Texts = iota // the format has its own types
	TextFields              // each field of an item is a string
	TextItems               // each item is a string
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
	// same as `agent_timeout_secs` in the map, which can be set instead
	Agent SecondsOrVar `yaml:"agent_timeout_secs"`

	// which timeouts apply: that of the item, those of its commands, or both; default hybrid
	Policy TimeoutPolicy `yaml:"timeout_policy" case:"any" words:"per_agent per_command hybrid"`

	// timeouts of commands without `timeout`
	Commands map[string]time.Duration `yaml:"command_timeouts"`

	// what happens to an item that times out; default as set by `on_item_failure`
	Action errorpolicy.TimeoutAction `yaml:"timeout_action" case:"any" words:"dlq skip fail graceful_terminate"`

	// time between SIGTERM and SIGKILL after a timeout; default 5s, and 30s with `graceful_terminate`
	Cleanup *time.Duration `yaml:"cleanup_grace_period_secs"`
}

// TimeoutPolicy is which timeouts apply.
type TimeoutPolicy string

const (
	PerAgent   TimeoutPolicy = "per_agent"   // the timeout of the item
	PerCommand TimeoutPolicy = "per_command" // the timeouts of its commands
	Hybrid     TimeoutPolicy = "hybrid"      // both
)

// EnvVar is one variable of an env block. Command or Choice, if set, takes the place of Value.
type EnvVar struct {
	Name  string `json:"name"`
	Value Text   `json:"value"`

	// Literal means that Value has no placeholders, whatever it looks like.
	Literal bool `json:"literal,omitempty"`

	Command *Text `json:"command,omitempty"` // its output is the value

	// Cache means that Command runs once, before the job starts, instead of once for each attempt.
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
var onePlaceholder = check.Regexp(`^\$\{[^}]+\}$`)

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
	return oneNamed("profile", name, w.Profiles, func(p Profile) string { return p.Name })
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
		mask := Masked
		if before := string(runes[:start]); !strings.HasSuffix(before, `"`) && !strings.HasSuffix(before, "'") {
			mask = strconv.Quote(mask) // a bare *** would be an alias in YAML
		}
		line = string(runes[:start]) + mask + string(runes[end:])
		if bom {
			line = "\ufeff" + line
		}
		lines[index] = line
	}
	return []byte(strings.Join(lines, ""))
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
	Type ParameterType `yaml:"type" words:"string number integer boolean array object"`

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

// Argument is the value of a parameter; nil if it has none.
type Argument struct {
	Name  string      `json:"name"`
	Value rawjson.Raw `json:"value,omitempty"`
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
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
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
