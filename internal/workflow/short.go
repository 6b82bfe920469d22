package workflow

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/retry"
	"prodigy/internal/shell"
)

// Short is the workflow file of one command, as prodigy map makes it, with its keys in the order in which they are
// written. What is zero is not written.
type Short struct {
	Name          string        `yaml:"name"` // set by File
	Map           ShortMap      `yaml:"map"`
	Workspace     WorkspaceMode `yaml:"workspace,omitempty"`
	OnItemFailure string        `yaml:"on_item_failure,omitempty"`
	Halt          `yaml:",inline"`
	ShortLine     `yaml:"-"`
}

// ShortLine is what File makes the step and the list of items of.
type ShortLine struct {
	// Command is a program and its arguments. One word that is more than a name is a script, and with Agent the words
	// are the prompt for this AI coding CLI. In all of them shell.Shorthand has the replacement strings.
	Command []string
	Agent   string
	Replace string // stands for the item in place of {}

	// Rows are the items if they do not come from Input. A row of one is a text, and any other a list.
	Rows [][]string

	// Results is the directory, or with replacement strings the file, that stdout goes to.
	Results string
}

// ShortMap is the map phase of a Short.
type ShortMap struct {
	Input       ShortInput   `yaml:"input"`
	JSONPath    string       `yaml:"json_path,omitempty"`
	Batch       int          `yaml:"batch,omitempty"`
	OnEmpty     OnEmpty      `yaml:"on_empty,omitempty"`
	MaxParallel int          `yaml:"max_parallel,omitempty"`
	Rate        ShortRate    `yaml:"rate,omitempty,flow"`
	Requires    []string     `yaml:"requires,omitempty,flow"` // labels of workers
	Retry       ShortRetry   `yaml:"retry_config,omitempty"`  // of items; set by File
	Steps       [1]ShortStep `yaml:"agent_template"`
}

// ShortInput is where the items of a Short come from: a list, else files, else globs, else the standard input.
type ShortInput struct {
	List      []any  `yaml:"-"`               // set by File
	Stdin     bool   `yaml:"stdin,omitempty"` // set by File
	File      oneOr  `yaml:"file,omitempty"`
	Glob      oneOr  `yaml:"glob,omitempty"`
	Format    string `yaml:"format,omitempty"`
	Delimiter string `yaml:"delimiter,omitempty"`
	Split     string `yaml:"split,omitempty"`
}

// MarshalYAML implements yaml.Marshaler.
func (in ShortInput) MarshalYAML() (any, error) {
	type mapping ShortInput
	if in.List != nil {
		return in.List, nil
	}
	return mapping(in), nil
}

// ShortRate is how often the command of a Short starts.
type ShortRate struct {
	Limit string `yaml:"limit"`
	Burst int    `yaml:"burst,omitempty"`
}

// ParseApart returns the rate of starts that are so many seconds, or such a duration, apart.
func ParseApart(text string) (ShortRate, error) {
	apart, err := ParseTime(text)
	return ShortRate{"1/" + apart, 1}, err
}

// ParseTime is ParseSeconds for a workflow file.
func ParseTime(text string) (string, error) {
	d, err := ParseSeconds(text)
	return duration.Literal(d), err
}

// ShortStep is the step of a Short.
type ShortStep struct {
	Shell       string     `yaml:"shell,omitempty"`
	Agent       shortAgent `yaml:"agent,omitempty"`
	Interpreter []string   `yaml:"interpreter,omitempty,flow"`
	Timeout     string     `yaml:"timeout,omitempty"`
	Retry       ShortRetry `yaml:"retry_config,omitempty"`
	OutputFile  string     `yaml:"output_file,omitempty"`
}

type shortAgent struct {
	Use    string `yaml:"use"`
	Prompt string `yaml:"prompt"`
}

// ShortRetry is how often the command of a Short is tried.
type ShortRetry struct {
	Attempts int     `yaml:"attempts"`
	Backoff  string  `yaml:"backoff,omitempty"`       // or a fixed delay such as 10s
	Delay    string  `yaml:"initial_delay,omitempty"` // set by File
	RetryOn  ShortOn `yaml:"retry_on,omitempty,flow"`
}

// ShortOn is what a failure is tried again for: error types, exit codes, or matchers as they are in a workflow file.
type ShortOn []string

// MarshalYAML writes the matchers as they are in a workflow file.
func (o ShortOn) MarshalYAML() (any, error) {
	return check.Each(o, func(on string) any {
		var v any
		_ = yaml.Unmarshal([]byte(on), &v) // what is no YAML is a name that is refused later
		switch v.(type) {
		case int:
			return map[string]any{"exit_code": []any{v}}
		case map[string]any:
			return v
		}
		return on
	}), nil
}

// Halt says when a job stops, in the words of GNU parallel. The zero Halt never stops it.
type Halt struct {
	Now         bool     `yaml:"-"` // running commands are killed
	MaxFailures int      `yaml:"max_failures,omitempty"`
	Threshold   *float64 `yaml:"failure_threshold,omitempty"` // failure rate from 0 to 1
}

// ParseHalt reads a Halt such as never, soon,fail=3 or now,fail=10%. 0, 1 and 2 are those of older versions of GNU
// parallel.
func ParseHalt(text string) (Halt, error) {
	switch text {
	case "never", "0":
		return Halt{}, nil
	case "1":
		text = "soon,fail=1"
	case "2":
		text = "now,fail=1"
	}
	when, limit, ok := strings.Cut(text, ",fail=")
	if !ok || when != "now" && when != "soon" {
		return Halt{}, errors.New(
			"only fail= is supported: must be never, or soon or now with a limit: soon,fail=1, now,fail=10%")
	}
	h := Halt{Now: when == "now"}
	number, isPercentage := strings.CutSuffix(limit, "%")
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err == nil && isPercentage && n > 0 && n <= 100:
		h.Threshold = new(n / 100)
	case err == nil && !isPercentage && n >= 1 && n == float64(int(n)):
		h.MaxFailures = int(n)
	default:
		return Halt{}, fmt.Errorf("%s must be a percentage or an integer of at least 1", limit)
	}
	return h, nil
}

// ParseDelimiter reads a character, which may be written as \0, \n or \t. An end of line is the default, "".
func ParseDelimiter(text string) (string, error) {
	c, err := strconv.Unquote(`"` + strings.Replace(text, `\0`, `\x00`, 1) + `"`)
	if err != nil || len(c) != 1 {
		return "", errors.New(`must be one ASCII character, such as , or '\t'; --colsep takes more`)
	}
	return strings.TrimSuffix(c, "\n"), nil
}

// oneOr is a list that is written without its brackets when it has one element.
type oneOr []string

// MarshalYAML implements yaml.Marshaler.
func (l oneOr) MarshalYAML() (any, error) {
	if len(l) == 1 {
		return l[0], nil
	}
	return []string(l), nil
}

// IsScript reports whether the command is a script: a single word that holds more than a name.
func (l ShortLine) IsScript() bool {
	return len(l.Command) == 1 && shell.Quote(l.Command[0]) != l.Command[0]
}

// name returns the name of the workflow: what is run.
func (l ShortLine) name() string {
	first, _, _ := strings.Cut(strings.TrimSpace(l.Command[0]), " ")
	if name := filepath.Base(cmp.Or(l.Agent, first)); name != "" &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") == "" {
		return "map " + name
	}
	return "map"
}

// File returns the text of the workflow file.
func (s Short) File() ([]byte, error) {
	if s.Map.Batch == 1 { // an item for each command, which is a list nowhere
		s.Map.Batch = 0
	}
	columns, err := s.Map.Input.fill(s.Rows)
	if err == nil && columns > 0 && s.Map.Batch > 0 {
		err = errors.New("-n cannot be used with items that have columns, of several ::: or of --colsep")
	}
	if err != nil {
		return nil, err
	}
	s.Name = s.name()
	style := shell.Shorthand{Batch: s.Map.Batch > 0, Columns: columns, Replace: s.Replace}
	if err := s.fill(&s.Map.Steps[0], style); err != nil {
		return nil, err
	}
	s.Map.splitRetry()
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err = errors.Join(enc.Encode(s), enc.Close())
	return b.Bytes(), err
}

// splitRetry makes the retry for merge conflicts one of the item: they come after its step.
func (m *ShortMap) splitRetry() {
	step, conflict := &m.Steps[0].Retry, string(retry.TypeMergeConflict)
	rest := slices.DeleteFunc(slices.Clone(step.RetryOn), func(on string) bool { return on == conflict })
	if len(rest) == len(step.RetryOn) {
		return
	}
	m.Retry, step.RetryOn = *step, rest
	m.Retry.RetryOn = ShortOn{conflict}
	if len(rest) == 0 {
		*step = ShortRetry{}
	}
}

// fill sets the list of items, if there are rows, and the standard input. It returns the number of columns of an item
// as a Shorthand has it.
func (in *ShortInput) fill(rows [][]string) (columns int, err error) {
	between, err := regexp.Compile(in.Split)
	if err != nil {
		return 0, err
	}
	if in.Split != "" {
		columns = shell.ManyColumns
	}
	in.Stdin = in.File == nil && in.Glob == nil
	if rows != nil {
		in.List = make([]any, len(rows))
	}
	for i, row := range rows {
		if words := strings.Join(row, " "); !utf8.ValidString(words) {
			return 0, fmt.Errorf("item %q is not valid UTF-8", words)
		}
		switch {
		case len(row) > 1:
			columns = max(columns, len(row))
			in.List[i] = row
		case in.Split != "":
			in.List[i] = between.Split(row[0], -1)
		default:
			in.List[i] = row[0]
		}
	}
	return columns, nil
}

// fill sets the command of the step, and what depends on other keys.
func (l ShortLine) fill(step *ShortStep, style shell.Shorthand) (err error) {
	switch {
	case l.Agent != "":
		step.Interpreter, step.Agent.Use = nil, l.Agent
		step.Agent.Prompt, err = style.Text(strings.Join(l.Command, " "))
	case l.IsScript():
		step.Shell, err = style.Script(l.Command[0])
	default:
		step.Shell, err = style.Words(l.Command)
	}
	if err != nil {
		return err
	}
	if d, err := duration.Parse(step.Retry.Backoff); err == nil {
		step.Retry.Backoff, step.Retry.Delay = "fixed", duration.Literal(d)
	}
	if path := l.Results; path != "" {
		if !strings.Contains(path, "{") {
			path = filepath.Join(path, "${item_index|ordinal}", "stdout")
		}
		step.OutputFile, err = style.Text(path)
	}
	return err
}
