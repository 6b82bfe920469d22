// Package ai knows AI coding CLIs: how each is called, and what its output means.
//
// What is known of a CLI is a Preset, which is data (presets.yml), so that users can change it when a CLI
// changes. A Reading reads the output of one run while it is printed, in bounded memory. Its Verdict says what
// became of the run: the first rule of the preset whose condition holds decides. Nothing is a success without
// positive evidence, whatever the exit code is.
package ai

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"prodigy/internal/duration"

	_ "embed"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

//go:embed presets.yml
var builtIn []byte

// Preset is what is known of one CLI. It does not change after Load, so several goroutines may use it.
type Preset struct {
	Name string `yaml:"-"`

	// Tested are the versions of the CLI that the rules were written for.
	Tested string `yaml:"tested,omitempty"`

	// Argv is the program with its arguments, and Args are further arguments after these.
	Argv []string `yaml:"argv,omitempty"`
	Args []string `yaml:"args,omitempty"`

	// Env are variables that the CLI gets where nothing else sets them.
	Env map[string]string `yaml:"env,omitempty"`

	// Model is that of steps that name none. Empty means that the CLI decides.
	Model string `yaml:"model,omitempty"`

	// Pool names what agents have in common that share a plan. Empty means the name of the preset.
	Pool string `yaml:"pool,omitempty"`

	// Models are the limits that hold for some models only, by their names: each is a part of the names of its models.
	Models  map[string]string `yaml:"models,omitempty"`
	Prompt  Prompt            `yaml:"prompt,omitempty"`
	Options Options           `yaml:"options,omitempty"`
	May     May               `yaml:"may,omitempty"`

	// Ignore are patterns, as in a .gitignore, of files that the CLI leaves in its directory and that are no work.
	Ignore []string `yaml:"ignore,omitempty"`

	// Prices are those of models, where the CLI says how many tokens it used and not what they cost.
	Prices map[string]Price `yaml:"prices,omitempty"`
	Parse  Format           `yaml:"parse,omitempty"`
	Pick   map[string]*Pick `yaml:"pick,omitempty"`
	Take   map[string]Take  `yaml:"take,omitempty"`
	Watch  Watching         `yaml:"watch,omitempty"`
	Show   []*Shown         `yaml:"show,omitempty"`

	// Rules are asked in their order. The first that holds decides.
	Rules []*Rule `yaml:"rules,omitempty"`

	// The rest is what compile has made: picks in the order of their names, and of the sources those that add up.
	picks []*Pick
	sums  []*source
}

// TellsCost reports whether what a run with that model costs is known: the CLI says so, or there is a price. An empty
// model is that of the CLI.
func (p *Preset) TellsCost(model string) bool {
	if _, priced := p.price(model); priced || len(p.Take["cost_usd"]) > 0 {
		return true
	}
	return model == "" && len(p.Prices) > 0 && len(p.Take["model"]) > 0
}

// AddsUpCost reports whether a run says while it goes on what it has cost by then.
func (p *Preset) AddsUpCost() bool { return len(p.Take["cost_usd"]) > 0 && p.Take["cost_usd"][0].sum }

// Price is what a million tokens of a model cost, in US dollars: input, cached, which is by default as much as input,
// and output.
type Price map[string]float64

// check returns what is wrong with a price.
func (p Price) check() error {
	if err := known("prices", p, []string{"input", "cached", "output"}); err != nil {
		return err
	}
	for name, dollars := range check.ByKey(p) {
		if !(dollars >= 0 && dollars <= maxPrice) {
			return fmt.Errorf("prices: %s must be from 0 to %d dollars", name, maxPrice)
		}
	}
	_, input := p["input"]
	if _, output := p["output"]; !input || !output {
		return errors.New("a price needs input and output, in dollars for a million tokens")
	}
	return nil
}

// maxPrice bounds what a million tokens may cost, in dollars.
const maxPrice = 1_000_000

// price returns the price of a model: that under its name, else under the longest part of it, else under *.
func (p *Preset) price(model string) (found Price, ok bool) {
	longest := -1
	for name, price := range p.Prices {
		length := len(name)
		if name == "*" {
			length = 0
		} else if !strings.Contains(model, name) {
			continue
		}
		if length > longest {
			found, longest = price, length
		}
	}
	return found, longest >= 0
}

// CostOf returns what tokens of a model cost in US dollars. It reports false if there is no price.
func (p *Preset) CostOf(model string, t Tokens) (dollars float64, ok bool) {
	price, ok := p.price(model)
	cached, written := price["cached"]
	if !written {
		cached = price["input"]
	}
	return (float64(t.Input)*price["input"] + float64(t.Cached)*cached + float64(t.Output)*price["output"]) / 1e6, ok
}

// PoolName returns the pool of the agents that the preset starts.
func (p *Preset) PoolName() string { return cmp.Or(p.Pool, p.Name) }

// Prompt says how a CLI gets its prompt.
type Prompt struct {
	Stdin bool     `yaml:"stdin,omitempty"`
	Arg   string   `yaml:"arg,omitempty"`  // the last argument, with Stdin; without, the last argument is the prompt
	File  []string `yaml:"file,omitempty"` // arguments that name a file with the prompt, with {} for its path
}

// String says it for people.
func (p Prompt) String() string {
	switch {
	case len(p.File) > 0:
		return "in a file"
	case p.Stdin:
		return "on stdin"
	}
	return "as the last argument"
}

// Options are the arguments for a setting of a step, by its name. {} stands for the value.
type Options map[string][]string

// Of returns the arguments for a setting; none if the value is empty, or the CLI has no such setting.
func (o Options) Of(name, value string) []string {
	if value == "" {
		return nil
	}
	return check.Each(o[name], func(arg string) string { return strings.ReplaceAll(arg, "{}", value) })
}

// May has the arguments for what an agent may do, by the words of agent.may, with variables in front as in a command
// of a shell. An empty list says that the CLI does so by itself. Under said are the arguments by which users may have
// said it.
type May map[string][]string

// maySaid is the key of May that is not a value of agent.may.
const maySaid = "said"

// Of returns the arguments and variables that let an agent do that much. It reports false if the CLI cannot be told.
func (m May) Of(may workflow.May) (args, env []string, ok bool) {
	args, ok = m[string(may)]
	options := slices.IndexFunc(
		args, func(arg string) bool { return strings.HasPrefix(arg, "-") || !strings.Contains(arg, "=") },
	)
	if options < 0 {
		options = len(args)
	}
	return args[options:], args[:options], ok
}

// Said returns the first of args that says what an agent may do, or "".
func (m May) Said(args []string) string {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if slices.Contains(m[maySaid], name) {
			return name
		}
	}
	return ""
}

// more names the key that allows an agent more than it was allowed.
func (m May) more(than workflow.May) string {
	switch {
	case than == workflow.MayAll || m[string(workflow.MayAll)] == nil:
		return ""
	case than == workflow.MayEdit:
		return `; "may: all" in the agent step permits it`
	}
	return `; "may: edit" or "may: all" in the agent step permits more`
}

// Format is how the stdout of a CLI is read.
type Format string

const (
	JSONL Format = "jsonl" // each line is a JSON document, or a list of them
	Text  Format = "text"
)

// Pick names lines of stdout: with JSONL those whose fields have certain values, with Text those that match a
// regular expression.
type Pick struct {
	written *yaml.Node
	fields  []fieldTest
	line    *regexp.Regexp

	// lines is how many lines of a text, from the one that matches, make up the text of the pick.
	lines int

	// What follows is only known of the picks of a preset that is compiled.
	name string

	// kept means that rules or takes look at the last line of the pick.
	kept bool

	// sign is what the lines of the pick say of how a run gets on. begins and ends are where they have the ids of tools,
	// and waits where they have milliseconds that the run is going to wait.
	sign                sign
	begins, ends, waits []path
}

// MarshalYAML implements yaml.Marshaler.
func (p *Pick) MarshalYAML() (any, error) { return p.written, nil }

// fieldTest is a field that must have a value.
type fieldTest struct {
	path path
	want filter.Value
}

// Take says where a thing is in the output: the first of its sources that has something.
type Take []*source

// MarshalYAML implements yaml.Marshaler.
func (t Take) MarshalYAML() (any, error) {
	if len(t) == 1 {
		return t[0].written, nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range t {
		list.Content = append(list.Content, s.written)
	}
	return list, nil
}

// source is one place in the output.
type source struct {
	written *yaml.Node

	// pick has the lines that path is looked up in.
	pick string
	path path

	// One of these at most is set: the numbers are added up, the lines are counted, or the texts are joined.
	sum, count, join bool

	// once makes lines with the same value at that path count once in a sum.
	once path

	// less is what is taken off a sum.
	less path

	// after is the pick whose lines empty what was joined before them.
	after string
}

// Outcome is what became of a run of a CLI.
type Outcome string

const (
	Success        Outcome = "success"
	Incomplete     Outcome = "incomplete"      // it ended in order, without all of the work
	Refused        Outcome = "refused"         // by the model, or a filter around it
	InvalidRequest Outcome = "invalid_request" // the same request would fail again
	Overloaded     Outcome = "overloaded"      // the service is busy, broken or out of reach
	Quota          Outcome = "quota"           // the limit of a plan is used up, for some time
	Auth           Outcome = "auth"            // somebody has to log in or to pay
	Stalled        Outcome = "stalled"         // it did nothing any more
	Budget         Outcome = "budget"          // it would have cost more than it may
	Failed         Outcome = "failed"          // anything else
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Success, Incomplete, Refused, InvalidRequest, Overloaded, Quota, Auth, Stalled, Budget, Failed}
}

// ErrorType returns the type of error of a run with that outcome, where its rule names none; empty for a
// success, and for a failure that its exit code says as much about.
func (o Outcome) ErrorType() retry.Type {
	switch o {
	case Success, Failed:
		return ""
	case Overloaded:
		return retry.TypeServerError
	}
	return retry.Type(o)
}

// Rule gives the outcome of the runs that its condition holds for.
type Rule struct {
	Name    string  `yaml:"name,omitempty"`
	Outcome Outcome `yaml:"outcome,omitempty"`

	// Type is that of the error. Empty means that of the outcome.
	Type retry.Type `yaml:"type,omitempty"`

	// When is the condition. Empty means always.
	When string `yaml:"when,omitempty"`

	// ResetAt is a path to the time at which the limit of a quota ends, in seconds since 1970, ResetAfter one to the
	// seconds until then, and ResetText one to a text that names the time.
	ResetAt    string `yaml:"reset_at,omitempty"`
	ResetAfter string `yaml:"reset_after,omitempty"`
	ResetText  string `yaml:"reset_text,omitempty"`

	// RetryAfter is a path to the seconds that the service asks to wait, and RetryAfterMS one to the milliseconds.
	RetryAfter   string `yaml:"retry_after,omitempty"`
	RetryAfterMS string `yaml:"retry_after_ms,omitempty"`

	// Scope is a path to the name of the limit.
	Scope string `yaml:"scope,omitempty"`

	// Say is the error, where the CLI says nothing, and About a path to a text to put after it.
	Say   string `yaml:"say,omitempty"`
	About string `yaml:"about,omitempty"`

	// Denied means that the agent was not allowed to do something: the error names the key that allows it.
	Denied bool `yaml:"denied,omitempty"`

	// NewSession means that the session that was to be continued does not exist: the next try begins one.
	NewSession bool `yaml:"new_session,omitempty"`

	// condition is the compiled When. Nil holds always.
	condition *filter.Filter
}

// MarshalYAML implements yaml.Marshaler.
func (r *Rule) MarshalYAML() (any, error) {
	type plain Rule
	var n yaml.Node
	err := n.Encode((*plain)(r))
	n.Style = yaml.FlowStyle
	return &n, err
}

// Set is a set of presets by name.
type Set map[string]*Preset

// Names returns the names of the presets, sorted.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Ignored returns the patterns of all files that the CLIs leave and that are no work.
func (s Set) Ignored() []string {
	var patterns []string
	for _, name := range s.Names() {
		patterns = append(patterns, s[name].Ignore...)
	}
	return patterns
}

// Find returns the preset with that name.
func (s Set) Find(name string) (*Preset, error) {
	if p := s[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("unknown agent %q%s", name, check.Hint(name, s.Names(), strings.Join(s.Names(), ", ")))
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *Pick) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: a pick must be a mapping of fields to values, or {line: REGEX}", n.Line)
	}
	p.written = n
	for at, value := range workflow.Pairs(n) {
		key := at.Value
		switch {
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: the value of %s must be a string, a number or a boolean", value.Line, key)
		case key == "line":
			re, err := regexp.Compile(value.Value)
			if err != nil {
				return fmt.Errorf("line %d: %w", value.Line, err)
			}
			p.line, p.lines = re, max(p.lines, 1)
		case key == "lines":
			if err := value.Decode(&p.lines); err != nil || p.lines < 1 || p.lines > maxTextLines {
				return fmt.Errorf("line %d: lines must be between 1 and %d", value.Line, maxTextLines)
			}
		default:
			want := value.Value
			if value.Tag == "!!str" {
				want = string(rawjson.Of(want))
			}
			p.fields = append(p.fields, fieldTest{path: parsePath(key), want: filter.ValueOf([]byte(want))})
		}
	}
	if (p.line == nil) == (p.fields == nil) {
		return fmt.Errorf("line %d: a pick must have either fields or a line", n.Line)
	}
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *Take) UnmarshalYAML(n *yaml.Node) error {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	*t = make(Take, 0, len(nodes))
	for _, n := range nodes {
		s, err := sourceOf(n)
		if err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		*t = append(*t, s)
	}
	return nil
}

var errSource = errors.New("must be a path, {sum: PATH}, {count: PICK} or {join: PATH}")

// sourceOf reads one source, which is a path, or a mapping with the way in which its lines are put together.
func sourceOf(n *yaml.Node) (*source, error) {
	s := &source{written: n}
	if n.Kind == yaml.ScalarNode {
		s.pick, s.path = splitPath(n.Value)
		return s, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, errSource
	}
	for key, at := range workflow.Pairs(n) {
		value := at.Value
		switch key.Value {
		case "sum":
			s.sum = true
			s.pick, s.path = splitPath(value)
		case "count":
			s.count, s.pick = true, value
		case "join":
			s.join = true
			s.pick, s.path = splitPath(value)
		case "once":
			_, s.once = splitPath(value)
		case "less":
			_, s.less = splitPath(value)
		case "after":
			s.after = value
		default:
			return nil, errSource
		}
	}
	if s.pick == "" {
		return nil, errSource
	}
	return s, nil
}

const stdoutName = "stdout"

// pick returns the compiled pick with a name, or nil.
func (p *Preset) pick(name string) *Pick {
	for _, pick := range p.picks {
		if pick.name == name {
			return pick
		}
	}
	return nil
}

// need is pick, with an error if no pick has that name. where names the key that needs it.
func (p *Preset) need(where, name string) (*Pick, error) {
	if pick := p.pick(name); pick != nil {
		return pick, nil
	}
	return nil, fmt.Errorf("%s: unknown pick %q", where, name)
}

// Watching says how the output of a CLI shows that it gets on, and how long it may be without that.
type Watching struct {
	// Progress are the picks whose lines are progress. Without any, every line is.
	Progress []string `yaml:"progress,omitempty"`

	// Idle are the picks whose lines say that the CLI tries again, or did nothing. They are not progress.
	Idle []string `yaml:"idle,omitempty"`

	// WaitMS is a path to the milliseconds that the CLI is going to wait.
	WaitMS string `yaml:"wait_ms,omitempty"`

	// Turn is the pick of the lines that are counted as turns. Empty means that the CLI counts them itself.
	Turn string `yaml:"turn,omitempty"`

	// End are the picks of the lines after which the CLI has nothing left to do.
	End []string `yaml:"end,omitempty"`

	// ToolBegins are paths to the ids of tools that begin, and ToolEnds to those of tools that end.
	ToolBegins []string `yaml:"tool_begins,omitempty"`
	ToolEnds   []string `yaml:"tool_ends,omitempty"`

	// StallTimeout is how long a run may be without progress, by default 10m, and ToolTimeout how long while a tool
	// runs, by default 15m. 0s means without end.
	StallTimeout *Span `yaml:"stall_timeout,omitempty"`
	ToolTimeout  *Span `yaml:"tool_timeout,omitempty"`

	// Linger is how long the CLI may live after its end, by default 30s.
	Linger *Span `yaml:"linger,omitempty"`

	// Loop is how many idle lines without progress are a loop, by default 20.
	Loop int `yaml:"loop,omitempty"`
}

// Span is a duration as it is written in YAML.
type Span time.Duration

// sign is what a line says of how a run gets on.
type sign uint8

const (
	progress sign = 1 << iota
	idle
	turn
	end
)

// Shown says what people see of the lines of a pick. Exactly one of Say, Tool, Result and Note is set.
type Shown struct {
	// Of is the pick.
	Of string `yaml:"of"`

	// Each is a path to parts of the line, each of which is looked at. Empty means the line itself.
	Each path `yaml:"each,omitempty"`

	// If are texts that fields of the part must have.
	If map[string]string `yaml:"if,omitempty"`

	// Say is a path to what the agent says. With Join that goes on in the next line.
	Say  path `yaml:"say,omitempty"`
	Join bool `yaml:"join,omitempty"`

	// Tool is a path to the name of a tool that the agent uses, and Args one to what the tool is given.
	Tool path `yaml:"tool,omitempty"`
	Args path `yaml:"args,omitempty"`

	// Result is a path to what the tool gave back.
	Result path `yaml:"result,omitempty"`

	// Note is a path to a message of the CLI.
	Note path `yaml:"note,omitempty"`
}

// known returns an error if a block of a preset has a key that is not among names.
func known[V any](block string, m map[string]V, names []string) error {
	for name := range check.ByKey(m) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown key %q in %s%s", name, block, check.Hint(name, names, strings.Join(names, ", ")))
		}
	}
	return nil
}

// Tokens are counts of tokens. Input includes neither Cached nor Output.
type Tokens struct {
	Input  int64 `json:"input"`
	Cached int64 `json:"cached"`
	Output int64 `json:"output"`
}

// maxTextLines bounds how many lines of a text a pick takes together.
const maxTextLines = 20

// MarshalYAML implements yaml.Marshaler.
func (s Span) MarshalYAML() (any, error) { return duration.Format(time.Duration(s)), nil }

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Span) UnmarshalYAML(decode func(any) error) error {
	var text string
	if err := decode(&text); err != nil {
		return err
	}
	d, err := duration.Parse(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	*s = Span(d)
	return err
}
