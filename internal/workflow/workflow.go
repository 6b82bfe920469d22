// Package workflow defines the language of workflow files: types, a strict parser and checks.
//
// Parse returns a Workflow, whose main parts are Step, Phase and Map, or an InvalidError with all problems and their positions. The
// reader finds keys by the yaml tags of the types; their comments are the source of the JSON Schema and of docs/workflow.md.
//
// The package knows nothing of jobs, logs or queues. A block with behaviour is a type of the package that implements it: retry.Policy,
// errorpolicy.Policy, breaker.Config.
package workflow

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/errorpolicy"
)

// Workflow is the content of a workflow file.
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

// Mode is the mode of a workflow.
type Mode string

const (
	Standard  Mode = "standard"  // a list of commands
	MapReduce Mode = "mapreduce" // an agent for each of many items
)

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
	ItemsFromArgs bool         // the items are values of the command line, and ARG is the item
	AgentTemplate []Step       `yaml:"agent_template"`     // the steps that are run for each item; a list, or `{commands: [...]}`; required
	AgentTimeout  SecondsOrVar `yaml:"agent_timeout_secs"` // of a whole agent, its waits for retries included; default none
	Timeouts      Timeouts     `yaml:"timeout_config"`     // more about the limits in time of agents and their commands
	Pos           Pos
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

// ItemsAreTexts reports whether all items are known to be texts: file names, lines, or strings that end with a NUL byte.
func (m *Map) ItemsAreTexts() bool {
	in := m.Input
	return m.JSONPath == "" && (in.Format == "lines" || in.Format == "nul" || in.Format == "" && in.Glob != "")
}

// Input is the source of the items. Besides Format, exactly one of the fields is set.
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

// Formats returns the names of the data formats of items.
func Formats() []string {
	return []string{"json", "jsonl", "csv", "tsv", "lines", "nul", "yaml"}
}

// IntOrVar is a whole number, or the name of an environment variable that holds one.
type IntOrVar struct {
	Value int
	Var   string // written "$VAR" or "${VAR}"; empty: Value holds
	Pos   Pos
}

// SecondsOrVar is a time limit, or the name of an environment variable that holds one. The zero value is no limit.
type SecondsOrVar struct {
	Value time.Duration
	Var   string // written "$VAR" or "${VAR}"; empty: Value holds
	Pos   Pos
}

// Problem is an error in a workflow, or a warning.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Message string `json:"message"`
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
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// And returns e with the problems of err added, if that is an *InvalidError too.
func (e *InvalidError) And(err error) *InvalidError {
	more, ok := errors.AsType[*InvalidError](err)
	if !ok {
		return e
	}
	return &InvalidError{Problems: sortProblems(slices.Concat(e.Problems, more.Problems)), Read: e.Read}
}

// schema is generated from the types and their comments by TestTheSchemaIsThatOfTheTypes.
//
//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 7) of a workflow file.
func Schema() string { return schema }
