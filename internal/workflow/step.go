package workflow

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/limit"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
)

// Step is one command of a phase or template. Exactly one of the command keys (see Kinds) is set.
type Step struct {
	Shell  *Text `yaml:"shell" json:"shell,omitempty"`   // script for `sh -c`
	Claude *Text `yaml:"claude" json:"claude,omitempty"` // prompt for the AI coding CLI; no shell is involved

	// prompt for an AI coding CLI whose output is parsed (see agents.md), or a mapping with more keys
	Agent *Agent `yaml:"agent" json:"agent,omitempty"`

	WriteFile *WriteFile `yaml:"write_file" json:"write_file,omitempty"` // file to write
	Foreach   *Foreach   `yaml:"foreach" json:"foreach,omitempty"`       // steps to run for each element of a list

	// validation of the step's result, and steps to run until it is complete; on its own it is a step
	Validate *Validate `yaml:"validate" json:"validate,omitempty"`

	// name of the step in the log, and of its results: `${<id>.output}`
	ID string `yaml:"id" json:"id,omitempty" text:"id"`

	// display name of a step without id
	Name string `yaml:"name" json:"name,omitempty"`

	Description string `yaml:"description" json:"description,omitempty"` // description, shown by `prodigy plan`

	// condition; if it is false, the step is skipped
	When *Text `yaml:"when" json:"when,omitempty"`

	// program that runs the script, or a list of the program and the arguments before the script; default `sh
	// -c`
	Interpreter Interpreter `yaml:"interpreter" json:"interpreter,omitempty"`

	// timeout of one attempt; default none
	Timeout time.Duration `yaml:"timeout" json:"timeout,omitempty" unit:"seconds"`

	// maximum start rate of the step, such as `40/s`, over all items; its retries count too. Items that wait
	// for it hold no slot. Only for steps of agent_template; default no limit
	Rate *Rate `yaml:"rate" json:"rate,omitempty"`

	// how the step is retried; overrides `retry_defaults`
	Retry *retry.Policy `yaml:"retry_config" alias:"retry" json:"retry,omitempty"`

	// what happens after the last failed attempt: steps that handle the failure, or a failure action; default
	// stop
	OnFailure *OnFailure `yaml:"on_failure" json:"on_failure,omitempty"`

	// steps to run after the step succeeds
	OnSuccess []Step `yaml:"on_success" json:"on_success,omitempty"`

	// steps to run for an exit code of the last attempt
	OnExitCode ExitSteps `yaml:"on_exit_code" json:"on_exit_code,omitempty"`

	// name by which later steps use the output: `${<name>}`
	Capture string `yaml:"capture" json:"capture,omitempty" text:"name"`

	// type of the captured output; default string
	Format CaptureFormat `yaml:"capture_format" json:"capture_format,omitempty" words:"string json lines number boolean"`

	// file to which stdout is also written
	OutputFile *Text `yaml:"output_file" json:"output_file,omitempty"`

	Env []EnvVar `yaml:"env" json:"env,omitempty"` // environment variables of this step

	// working directory of the step, and of its hooks and validation unless they set their own; default the
	// job's working directory
	WorkingDir *Text `yaml:"working_dir" json:"working_dir,omitempty"`

	// whether to continue with the next step after a failure, like `on_failure: continue`; default false
	AllowFailure bool `yaml:"allow_failure" json:"allow_failure,omitempty"`

	// whether the step, including nested ones, may run twice for an item, as can happen if prodigy is killed.
	// For readers only: it has no effect. Default false
	Idempotent bool `yaml:"idempotent" json:"idempotent,omitempty"`

	// whether the step fails if HEAD of its working directory did not change; default false
	CommitRequired bool `yaml:"commit_required" json:"commit_required,omitempty"`

	Test bool `json:"test,omitempty"` // it is written as test, and so its results are ${test.output} as well
	Pos  Pos  `json:"pos"`
}

// Label returns the name of the step in events and messages: its id, its name, or kind and position from 0,
// as in shell_2.
func (s Step) Label(position int) string {
	if label := cmp.Or(s.ID, s.Name); label != "" {
		return label
	}
	return s.Kind() + "_" + strconv.Itoa(position)
}

// kinds are the command keys that a step can have, in the order in which messages name them. validate is the last:
// beside another key it belongs to that.
var kinds = strings.Fields("shell claude agent write_file foreach validate")

// Kinds returns the command keys that a step can have, in the order in which messages name them.
func Kinds() []string { return slices.Clone(kinds) }

// Kind returns the command key of the step, such as "shell". It is empty only for the zero Step.
func (s Step) Kind() string {
	has := [...]bool{
		s.Shell != nil, s.Claude != nil, s.Agent != nil, s.WriteFile != nil, s.Foreach != nil, s.Validate != nil,
	}
	for i, kind := range kinds {
		if has[i] {
			return kind
		}
	}
	return ""
}

// IsCommand reports whether s starts a process, so that only a timeout bounds how long a try takes.
func (s *Step) IsCommand() bool { return s.Shell != nil || s.Claude != nil || s.Agent != nil }

// Interpreter is the argv that runs a script. The script is appended to it.
type Interpreter []string

// ForFile returns the argv that runs a script from a file. The path is appended to it. It returns false for
// an interpreter that is not in scriptFlags.
func (i Interpreter) ForFile() ([]string, bool) {
	if len(i) != 2 {
		return nil, false
	}
	flag := scriptFlag(i[0])
	if flag == "" || flag != i[1] {
		return nil, false
	}
	return slices.Clone(i[:1]), true
}

// scriptFlags are the options by which interpreters take a script as an argument, and then the programs.
var scriptFlags = []string{
	"-c sh bash dash ash zsh ksh mksh fish nu python pypy", "-e node bun ruby perl lua Rscript julia elixir",
	"-r php", "-Command pwsh powershell",
}

// scriptFlag returns the option of an interpreter, whose name may have a version, as in python3.12; empty if it is not
// known.
func scriptFlag(interpreter string) string {
	name := strings.TrimRight(path.Base(interpreter), "0123456789.")
	for _, row := range scriptFlags {
		if words := strings.Fields(row); slices.Contains(words[1:], name) {
			return words[0]
		}
	}
	return ""
}

// CaptureFormat is how the captured output of a step is parsed for later steps.
type CaptureFormat string

const (
	FormatString  CaptureFormat = "string"  // a text
	FormatJSON    CaptureFormat = "json"    // a JSON document, whose fields have names: ${name.field[0]}
	FormatLines   CaptureFormat = "lines"   // a list of its lines: ${name[0]}, ${name[*]}
	FormatNumber  CaptureFormat = "number"  // a number as JSON has them
	FormatBoolean CaptureFormat = "boolean" // whether the command succeeded, whatever it printed
)

// Agent is an agent step: a run of an AI coding CLI.
type Agent struct {
	// preset of the CLI; default `claude`
	Use string `yaml:"use" json:"use,omitempty" text:"constant"`

	// the prompt; no shell is involved; required
	Prompt Text `yaml:"prompt" json:"prompt" required:"true" short:"true"`

	// the model; default that of the preset or CLI
	Model string `yaml:"model" json:"model,omitempty" text:"constant"`

	// maximum cost of this step per item in US dollars, over all attempts; beyond it, the step fails with type
	// `budget`; default no limit
	MaxCost limit.USD `yaml:"max_cost" json:"max_cost,omitempty"`

	// maximum number of turns of the CLI, counted by prodigy if the CLI cannot limit them. Default that of the
	// CLI
	MaxTurns int `yaml:"max_turns" json:"max_turns,omitempty" least:"1"`

	// file with a JSON Schema that the answer must match; `${agent.json}` is the answer
	Schema string `yaml:"schema" json:"schema,omitempty" text:"constant"`

	// additional arguments of the CLI
	Args []string `yaml:"args" json:"args,omitempty" text:"constant" list:"strings"`

	// what the CLI may do without asking: `read`, `edit` (files in its directory) or `all`; default edit in a
	// workspace, otherwise what the CLI itself allows
	May May `yaml:"may" json:"may,omitempty" words:"read edit all"`

	// whether the step can succeed although a tool was denied; default false
	AllowDenied bool `yaml:"allow_denied" json:"allow_denied,omitempty"`

	// whether the step can succeed with an empty answer; default false
	AllowEmpty bool `yaml:"allow_empty" json:"allow_empty,omitempty"`

	// maximum time without progress of the CLI (see agents.md), 0s for no limit; default that of the preset,
	// 10m
	StallTimeout *time.Duration `yaml:"stall_timeout" json:"stall_timeout,omitempty"`

	// the same while one of its tools is running; default that of the preset, 15m
	ToolTimeout *time.Duration `yaml:"tool_timeout" json:"tool_timeout,omitempty"`

	// whether a CLI that was interrupted or stalled resumes its session (`auto`) or starts a new one (`never`);
	// default auto
	Resume SessionUse `yaml:"resume" json:"resume,omitempty" words:"auto never"`
}

// Preset returns the name of the preset.
func (a *Agent) Preset() string { return cmp.Or(a.Use, DefaultAgent) }

// May says what a CLI may do without being asked. The empty May leaves that to the CLI.
type May string

const (
	MayRead May = "read"
	MayEdit May = "edit"
	MayAll  May = "all"
)

// SessionUse says whether a CLI goes on in the session of a run that did not end by itself.
type SessionUse string

const (
	ResumeAuto  SessionUse = "auto"
	ResumeNever SessionUse = "never"
)

// DefaultAgent is the preset of agent steps that name none, and of claude steps.
const DefaultAgent = "claude"

// WriteFile is a write_file step.
type WriteFile struct {
	// path of the file, which must stay inside the working directory; required
	Path Text `yaml:"path" json:"path" required:"true"`

	// content of the file; required
	Content Text `yaml:"content" json:"content" required:"true" text:"any"`

	// format of the content; default text
	Format FileFormat `yaml:"format" json:"format,omitempty" words:"text json yaml"`

	// permissions in octal; default those of the existing file, else 0644 minus the umask
	Mode *Permissions `yaml:"mode" json:"mode,omitempty"`

	// whether to create missing directories; default false
	CreateDirs bool `yaml:"create_dirs" json:"create_dirs,omitempty"`
}

// FileFormat is the format that the content of a written file must have.
type FileFormat string

const (
	TextFile FileFormat = "text"
	JSONFile FileFormat = "json"
	YAMLFile FileFormat = "yaml"
)

// Permissions are the permissions of a file.
type Permissions int

// ReadText reads permissions in octal, in quotes or not.
func (p *Permissions) ReadText(text string) error {
	const least, all = 0o10, 0o777
	n, err := strconv.ParseInt(text, 8, 32)
	if err != nil || n < least || n > all || len(text) < 3 {
		return check.Want(`permissions in octal, such as "0644"`)
	}
	*p = Permissions(n)
	return nil
}

// Foreach is a foreach step.
type Foreach struct {
	// the elements: a list, a command whose output is read, or a placeholder for a list; required
	Input Elements `yaml:"input" alias:"foreach" json:"input" required:"true"`

	// the steps to run for each element; required
	Do []Step `yaml:"do" json:"do" required:"true"`

	// the name of the element in the steps; default item
	As string `yaml:"as" json:"as,omitempty"`

	// maximum number of elements to run at a time; default 1
	Parallel int `yaml:"parallel" json:"parallel,omitempty"`

	// whether to run all elements, and succeed, despite failures; default false
	Continue bool `yaml:"continue_on_error" json:"continue,omitempty"`

	// maximum number of elements; default all
	MaxItems *int `yaml:"max_items" json:"max_items,omitempty" least:"0"`
}

// ElementName returns the name that the steps use for the element.
func (f *Foreach) ElementName() string {
	if f.As != "" {
		return f.As
	}
	return "item"
}

// Elements is the source of the elements of a foreach. Exactly one of its fields is set.
type Elements struct {
	List    []Element `json:"list"`
	Command *Text     `json:"command,omitempty"` // a text that is one placeholder stands for its value instead
}

// Element is one element of a list: a text, which can hold placeholders, or any other JSON.
type Element struct {
	Text *Text       `json:"text,omitempty"`
	JSON rawjson.Raw `json:"json,omitempty"`
}

// Validate is a validation of the step that it is part of, or a step by itself.
type Validate struct {
	// steps that determine how complete the work is; alternatively the keys of a single step, or just a
	// `result_file` that the validated step writes
	Commands []Step `yaml:"commands" json:"commands"`

	// file with the validation result; default the output of the last step
	ResultFile *Text `yaml:"result_file" json:"result_file,omitempty"`

	// minimum percentage of complete work; default 100
	Threshold float64 `yaml:"threshold" json:"threshold" range:"0 100"`

	// timeout of all these steps; default none
	Timeout time.Duration `yaml:"timeout" json:"timeout,omitempty" unit:"seconds"`

	// steps to run on incomplete work, before it is validated again; default none
	OnIncomplete *OnIncomplete `yaml:"on_incomplete" json:"on_incomplete,omitempty"`
}

// OnIncomplete holds the steps that complete work that a validation found incomplete.
type OnIncomplete struct {
	Steps []Step `json:"steps"`

	// maximum number of rounds of these steps and the validation; default 2
	MaxAttempts int `yaml:"max_attempts" json:"max_attempts" least:"1"`

	// whether the step fails if the work is still incomplete; default true
	FailWorkflow bool `yaml:"fail_workflow" json:"fail_workflow"`
}

// OnFailure is a failure handler: steps that run when the tries of a step are used up.
type OnFailure struct {
	Steps []Step `json:"steps"`

	// maximum number of rounds of running the handler and then the step, until the step succeeds; default a
	// successful handler is enough
	MaxAttempts int `yaml:"max_attempts" json:"max_attempts,omitempty" least:"1"`

	// whether only the success of the step itself counts; default false
	FailWorkflow bool `yaml:"fail_workflow" json:"fail_workflow,omitempty"`
}

// ExitSteps are the steps of on_exit_code, by exit code.
type ExitSteps map[int][]Step

// NestedSteps yields the lists of steps in s and their keys, such as "on_exit_code 101", in the order of the
// documentation.
func (s Step) NestedSteps() iter.Seq2[string, []Step] {
	return func(yield func(string, []Step) bool) {
		if s.Foreach != nil && !yield("do", s.Foreach.Do) {
			return
		}
		if v := s.Validate; v != nil {
			if !yield("validate", v.Commands) || v.OnIncomplete != nil &&
				!yield("on_incomplete", v.OnIncomplete.Steps) {
				return
			}
		}
		if len(s.OnSuccess) > 0 && !yield("on_success", s.OnSuccess) {
			return
		}
		for code, steps := range check.ByKey(s.OnExitCode) {
			if !yield("on_exit_code "+strconv.Itoa(code), steps) {
				return
			}
		}
		if s.OnFailure != nil {
			yield("on_failure", s.OnFailure.Steps)
		}
	}
}

// IsPartOfTry reports whether the steps under a key of NestedSteps run in each try of the step, and not after it.
func IsPartOfTry(key string) bool { return key == "do" || key == "validate" || key == "on_incomplete" }

// LabelPrefix returns the prefix of the labels of nested steps, given the label of their step and the key
// they are under.
func LabelPrefix(label, key string) string {
	if key == "validate" || key == "on_incomplete" {
		return label + "/" + key + "/"
	}
	return label + "/"
}

// Rounds returns how often the steps under a key of NestedSteps run at most, one round after another. It
// returns 1, false if the number is known only at run time.
func (s Step) Rounds(key string) (n int, known bool) {
	switch key {
	case "on_failure":
		return max(s.OnFailure.MaxAttempts, 1), true
	case "do":
		// How many elements run one after another, given how many run in parallel.
		f := s.Foreach
		elements, known := len(f.Input.List), f.Input.Command == nil
		if f.MaxItems != nil && (!known || elements > *f.MaxItems) {
			elements, known = *f.MaxItems, true
		}
		if !known {
			return 1, false
		}
		parallel := max(f.Parallel, 1)
		return (elements + parallel - 1) / parallel, true
	case "validate":
		return s.Validate.completionTries() + 1, true
	case "on_incomplete":
		return s.Validate.completionTries(), true
	}
	return 1, true
}

// completionTries returns how often on_incomplete runs at most.
func (v *Validate) completionTries() int {
	if v.OnIncomplete == nil {
		return 0
	}
	return v.OnIncomplete.MaxAttempts
}

// MaxRetryWait returns how long steps and their nested steps wait between retries at most.
func MaxRetryWait(steps []Step) time.Duration {
	var total time.Duration
	for _, s := range steps {
		if s.Retry != nil { // a rerun after its handler is a single try, without a wait
			total = duration.Plus(total, s.Retry.MaxWait())
		}
		for key, steps := range s.NestedSteps() {
			rounds, _ := s.Rounds(key)
			total = duration.Plus(total, duration.Times(MaxRetryWait(steps), rounds))
		}
	}
	return total
}
