// Package workflow is the language of workflow files: their types, strict reading and validation.
//
// It knows nothing of jobs, logs or queues. A block with behaviour is the type of the package that behaves:
// retry.Policy, errorpolicy.Policy, breaker.Config.
package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/retry"
)

// Mode is the mode of a workflow.
type Mode string

const (
	Standard  Mode = "standard"  // a list of commands
	MapReduce Mode = "mapreduce" // an agent for each of many items
)

// Pos is a place in the workflow file, both from 1.
type Pos struct {
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`
}

// Text is a text that is interpolated when it is used, and where it stands.
type Text struct {
	Value string `json:"value"`
	Pos   Pos    `json:"pos"`
	Block bool   `json:"block,omitempty"` // a block scalar: the text starts on the line after Pos

	Indent int `json:"indent,omitempty"` // of a block scalar: how many columns of the file are not part of the text
}

// Workflow is a workflow file.
type Workflow struct {
	File        string // its name, for messages
	Name        string `yaml:"name"`                   // what people call it, by default the file without its ending; stands in the log, the reports and `${workflow.name}`
	Description string `yaml:"description"`            // for people who read the file
	Version     string `yaml:"version"`                // of the workflow, for people who read the file
	Mode        Mode   `yaml:"mode"`                   // whether there are items; default mapreduce with a map, else standard
	Commands    []Step `yaml:"commands" alias:"steps"` // the steps of a standard workflow, run once and in order
	Setup       *Phase `yaml:"setup"`                  // steps that run once before the items; what they capture is seen by all that follows
	Map         *Map   `yaml:"map"`                    // the items, and what is done with each of them
	Reduce      *Phase `yaml:"reduce"`                 // steps that run once when the items are done; not when there were none, or the job was stopped
	Merge       *Phase `yaml:"merge"`                  // steps that run once at the very end; not when there were no items, or the job was stopped

	ErrorPolicy errorpolicy.Policy `yaml:"error_policy"` // what a failed item does to itself and to the job; written here, in the map, or its plain keys at the root
	Handlers    map[string][]Step  `yaml:"handlers"`     // named lists of steps, for `on_item_failure: custom:<name>`
	Env         []EnvVar           `yaml:"env"`          // variables of every command, in the order of the file: each sees those before it
	EnvFiles    []Text             `yaml:"env_files"`    // files of variables, NAME=value a line; a later one goes before an earlier, and `env` before all of them
	Profiles    []Profile          `yaml:"profiles"`     // named sets of variables that go before `env`; a run chooses one by `--profile`
	Secrets     []Secret           `yaml:"secrets"`      // variables whose values are masked wherever prodigy writes or prints, and never stored
	Parameters  []Parameter        `yaml:"parameters"`   // values that a run is given by `--param` or `--param-file`; every text can name them

	Warnings []Problem // what validate and the start of a run tell, though it is no error
}

// Phase is a list of steps that runs once.
type Phase struct {
	Commands []Step       `yaml:"commands"` // the steps, run in order; required
	Timeout  SecondsOrVar `yaml:"timeout"`  // of the whole phase; default none
	Pos      Pos
}

// Map is the map phase.
type Map struct {
	Input         Input  `yaml:"input"`     // where the items come from; required
	JSONPath      string `yaml:"json_path"` // picks the items out of JSON; default the elements of an array, else the whole as one item
	JSONPathPos   Pos
	Filter        string `yaml:"filter"` // an expression over an item's fields: only items for which it is true are taken
	FilterPos     Pos
	SortBy        string `yaml:"sort_by"` // the order of the items: `path [ASC|DESC] [NULLS FIRST|LAST], …`; default as they come
	SortByPos     Pos
	Distinct      string `yaml:"distinct"` // a field of which each value is taken once, or true for the whole item
	DistinctPos   Pos
	Key           string `yaml:"key"` // the field whose text is the item id; default `item_<index>`
	KeyPos        Pos
	Offset        int          `yaml:"offset"`       // how many of the chosen items are left out at the beginning; default 0
	MaxItems      *int         `yaml:"max_items"`    // how many items are taken at most; default all
	MaxParallel   IntOrVar     `yaml:"max_parallel"` // how many agents run at once; default 10
	PerValue      bool         // the items are values of the command line, and ARG is the item
	AgentTemplate []Step       `yaml:"agent_template"`     // the steps that are run for each item; a list, or `{commands: [...]}`; required
	AgentTimeout  SecondsOrVar `yaml:"agent_timeout_secs"` // of a whole agent, its waits for retries included; default none
	Timeouts      Timeouts     `yaml:"timeout_config"`     // more about the limits in time of agents and their commands
	Pos           Pos
}

// IntOrVar is a whole number, or the name of an environment variable that holds one.
type IntOrVar struct {
	Value int
	Var   string // written "$VAR" or "${VAR}"; empty: Value holds
	Pos   Pos
}

// Input says where the items come from: besides Format, exactly one of the fields is set.
type Input struct {
	Text    string            // a text: the name of a file, or a command (see package items)
	File    string            `yaml:"file"`    // a file to read
	Command string            `yaml:"command"` // a shell command whose output is read
	Glob    string            `yaml:"glob"`    // a pattern of file names, `**` for any directories: the names are the items; with a format, what the files hold
	Stdin   bool              `yaml:"stdin"`   // the standard input of prodigy is read
	Items   []json.RawMessage // a YAML list: the items themselves
	Format  string            `yaml:"format"` // what the data is; default told by the file's extension, else by its look
	Pos     Pos
}

// ItemsAreTexts tells whether the workflow says of all items that they are texts: names of files, lines, or what NUL bytes end.
func (m *Map) ItemsAreTexts() bool {
	in := m.Input
	return m.JSONPath == "" && (in.Format == "lines" || in.Format == "nul" || in.Format == "" && in.Glob != "")
}

// Step is one command of a phase or template. Exactly one of the command keys (see Kinds) is set.
type Step struct {
	Shell  *Text `yaml:"shell" json:"shell,omitempty"`   // a script for `sh -c`
	Claude *Text `yaml:"claude" json:"claude,omitempty"` // a prompt for the AI coding CLI, which passes no shell

	WriteFile *WriteFile `yaml:"write_file" json:"write_file,omitempty"` // a file to write
	Foreach   *Foreach   `yaml:"foreach" json:"foreach,omitempty"`       // steps to run for each element of a list
	Validate  *Validate  `yaml:"validate" json:"validate,omitempty"`     // how complete the work of the step is, and what is done until it is; alone it is a step of its own

	ID           string        `yaml:"id" json:"id,omitempty"`                            // names the step in the log, and its results: `${<id>.output}`
	Name         string        `yaml:"name" json:"name,omitempty"`                        // names the step for people, where it has no id
	When         *Text         `yaml:"when" json:"when,omitempty"`                        // a condition; when it is not met, the step is skipped
	Interpreter  Interpreter   `yaml:"interpreter" json:"interpreter,omitempty"`          // the program that runs the script, or a list of the arguments in front of the script; default `sh -c`
	Timeout      time.Duration `yaml:"timeout" json:"timeout,omitempty" unit:"seconds"`   // of one attempt; default none
	Retry        *retry.Policy `yaml:"retry_config" alias:"retry" json:"retry,omitempty"` // how often and when the step is tried again, over `retry_defaults`
	OnFailure    *OnFailure    `yaml:"on_failure" json:"on_failure,omitempty"`            // what follows when the tries are used up: steps that handle the failure, or a failure action; default stop
	OnSuccess    []Step        `yaml:"on_success" json:"on_success,omitempty"`            // steps to run after the step has succeeded
	OnExitCode   ExitSteps     `yaml:"on_exit_code" json:"on_exit_code,omitempty"`        // steps to run when the last try has exited with that code, by exit code
	Capture      string        `yaml:"capture" json:"capture,omitempty"`                  // the name under which later steps see the output: `${<name>}`
	Format       CaptureFormat `yaml:"capture_format" json:"capture_format,omitempty"`    // what the captured output is; default string
	OutputFile   *Text         `yaml:"output_file" json:"output_file,omitempty"`          // a file that stdout goes to as well
	Env          []EnvVar      `yaml:"env" json:"env,omitempty"`                          // variables of this step
	WorkingDir   *Text         `yaml:"working_dir" json:"working_dir,omitempty"`          // where the step runs; default where prodigy was started
	AllowFailure bool          `yaml:"allow_failure" json:"allow_failure,omitempty"`      // a failure does not end the list of steps: the same as `on_failure: continue`; default false

	CommitRequired bool `yaml:"commit_required" json:"commit_required,omitempty"` // the step fails when HEAD of its working directory did not move; default false

	Test bool `json:"test,omitempty"` // it is written as test, and so its results are ${test.output} as well
	Pos  Pos  `json:"pos"`
}

// OnFailure is a failure handler: steps that run when the tries of a step are used up.
type OnFailure struct {
	Steps        []Step `json:"steps"`
	MaxAttempts  int    `yaml:"max_attempts" json:"max_attempts,omitempty"`   // rounds of handler and original, until the original succeeds; default the handler's success forgives
	FailWorkflow bool   `yaml:"fail_workflow" json:"fail_workflow,omitempty"` // only the original's own success counts; default false
}

// Label returns what events and messages call the step: its id, its name, or kind and position from 0, as in shell_2.
func (s Step) Label(position int) string {
	if label := cmp.Or(s.ID, s.Name); label != "" {
		return label
	}
	return s.Kind() + "_" + strconv.Itoa(position)
}

// Kind returns the step's command key, as in "shell". It is empty for the zero Step only.
func (s Step) Kind() string {
	for _, k := range kinds {
		if k.is(&s) {
			return k.key
		}
	}
	return ""
}

// isCommand tells whether s is a command, and not made of other steps or of work that prodigy does itself.
func (s *Step) isCommand() bool { return s.Shell != nil || s.Claude != nil }

// kinds are the command keys of a step. is reports whether a step has the key. longest returns how long one try takes at most, apart from
// the steps inside it; false means that only a timeout ends it.
var kinds = []struct {
	key     string
	is      func(*Step) bool
	longest func(*Step) (time.Duration, bool)
}{
	{"shell", func(s *Step) bool { return s.Shell != nil }, endless},
	{"claude", func(s *Step) bool { return s.Claude != nil }, endless},
	{"write_file", func(s *Step) bool { return s.WriteFile != nil }, instant},
	{"foreach", func(s *Step) bool { return s.Foreach != nil }, instant},
	{"validate", func(s *Step) bool { return s.Validate != nil }, instant}, // last: beside another key it belongs to that
}

func endless(*Step) (time.Duration, bool) { return 0, false }
func instant(*Step) (time.Duration, bool) { return 0, true }

// Longest returns how long one try of the step takes at most, without its timeout and apart from the steps inside it. It returns false
// if only a timeout ends it.
func (s Step) Longest() (time.Duration, bool) {
	for _, k := range kinds {
		if k.is(&s) {
			return k.longest(&s)
		}
	}
	return 0, false
}

// Kinds returns the command keys that a step can have, in the order in which messages name them.
func Kinds() []string {
	keys := make([]string, len(kinds))
	for i, k := range kinds {
		keys[i] = k.key
	}
	return keys
}

// Problem is something wrong with a workflow, or something to warn of.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Message string `json:"message"`
}

func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Col, p.Message)
}

// InvalidError holds every problem of a workflow, in the order of the file.
type InvalidError struct {
	Problems []Problem
	Read     *Workflow // what could be read all the same, to look for more problems in; nil when that is nothing
}

// And returns e with the problems of another workflow error, if err is one.
func (e *InvalidError) And(err error) *InvalidError {
	more, ok := errors.AsType[*InvalidError](err)
	if !ok {
		return e
	}
	return &InvalidError{Problems: inOrder(slices.Concat(e.Problems, more.Problems)), Read: e.Read}
}

// Error returns all problems, a line each.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
