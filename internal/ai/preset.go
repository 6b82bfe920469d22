// Package ai knows AI coding CLIs: how each is called, and what its output means.
//
// What is known of a CLI is a Preset, which is data (presets.yml), so that users can change it when a CLI
// changes. A Reading reads the output of one run while it is printed, in bounded memory. Its Verdict says what
// became of the run: the first rule of the preset whose condition holds decides. Nothing is a success without
// positive evidence, whatever the exit code is.
package ai

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

//go:embed presets.yml
var builtIn []byte

// Preset is what is known of one CLI. It does not change after Load, so several goroutines may use it.
type Preset struct {
	Name    string            `yaml:"-"`
	Tested  string            `yaml:"tested,omitempty"` // versions of the CLI that the rules were written for
	Argv    []string          `yaml:"argv,omitempty"`
	Args    []string          `yaml:"args,omitempty"`   // further arguments, behind Argv
	Env     map[string]string `yaml:"env,omitempty"`    // variables that the CLI gets where nothing else sets them
	Model   string            `yaml:"model,omitempty"`  // for steps that name none
	Pool    string            `yaml:"pool,omitempty"`   // what agents have in common that share a plan; default the name of the preset
	Models  map[string]string `yaml:"models,omitempty"` // limits that hold for some models only, by their names: a part of the names of these models
	Prompt  Prompt            `yaml:"prompt,omitempty"`
	Options Options           `yaml:"options,omitempty"`
	May     May               `yaml:"may,omitempty"`
	Ignore  []string          `yaml:"ignore,omitempty"` // patterns, as in a .gitignore, of files that the CLI leaves in its directory and that are no work
	Prices  map[string]Price  `yaml:"prices,omitempty"` // of models, where the CLI says how many tokens it used and not what they cost
	Parse   Format            `yaml:"parse,omitempty"`
	Pick    map[string]*Pick  `yaml:"pick,omitempty"`
	Take    map[string]Take   `yaml:"take,omitempty"`
	Watch   Watching          `yaml:"watch,omitempty"`
	Show    []*Shown          `yaml:"show,omitempty"`
	Rules   []*Rule           `yaml:"rules,omitempty"`

	picks []*Pick // in the order of their names
	sums  []*source
	shown []*Shown

	toolBegins, toolEnds, waits []*source // of Watch
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

// Price is what a million tokens of a model cost, in US dollars.
type Price struct {
	Input  float64  `yaml:"input"`
	Cached *float64 `yaml:"cached,omitempty"` // default as much as Input
	Output float64  `yaml:"output"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *Price) UnmarshalYAML(n *yaml.Node) error {
	type plain Price
	var keys map[string]float64
	if err := n.Decode(&keys); err != nil {
		return fmt.Errorf(
			"line %d: a price is {input: DOLLARS, cached: DOLLARS, output: DOLLARS} for a million tokens", n.Line,
		)
	}
	if err := known("prices", keys, []string{"input", "cached", "output"}); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	for _, name := range []string{"input", "output"} {
		if _, written := keys[name]; !written {
			return fmt.Errorf("line %d: a price needs input and output", n.Line)
		}
	}
	for name, dollars := range keys {
		if !(dollars >= 0 && dollars <= maxPrice) {
			return fmt.Errorf("line %d: %s must be from 0 to %d dollars", n.Line, name, maxPrice)
		}
	}
	return n.Decode((*plain)(p))
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
	cached := price.Input
	if price.Cached != nil {
		cached = *price.Cached
	}
	return (float64(t.Input)*price.Input + float64(t.Cached)*cached + float64(t.Output)*price.Output) / 1e6, ok
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
	var args []string
	for _, arg := range o[name] {
		args = append(args, strings.ReplaceAll(arg, "{}", value))
	}
	return args
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

// mayNames are the keys that May can have.
func mayNames() []string {
	return []string{string(workflow.MayRead), string(workflow.MayEdit), string(workflow.MayAll), maySaid}
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
	name   string
	fields []fieldTest
	line   *regexp.Regexp
	lines  int  // of a text: how many lines from the one that matches make up its text
	kept   bool // rules or takes look at its last line
	sign   sign // what its lines say of how a run gets on

	session bool // its lines name the session

	written *yaml.Node
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

	pick  string
	path  path
	sum   bool
	count bool
	join  bool
	once  path   // with sum: lines with the same value here count once
	less  path   // with sum: what is taken off
	after string // with join: what came before a line of this pick does not belong to it
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
	Name         string     `yaml:"name,omitempty"`
	Outcome      Outcome    `yaml:"outcome,omitempty"`
	Type         retry.Type `yaml:"type,omitempty"`           // of the error; default that of the outcome
	When         string     `yaml:"when,omitempty"`           // default: always
	ResetAt      string     `yaml:"reset_at,omitempty"`       // with quota: a path to the time of the reset, in seconds since 1970
	ResetAfter   string     `yaml:"reset_after,omitempty"`    // a path to the seconds until then
	ResetText    string     `yaml:"reset_text,omitempty"`     // a path to a text that names the time
	RetryAfter   string     `yaml:"retry_after,omitempty"`    // a path to the seconds that the service asks to wait
	RetryAfterMS string     `yaml:"retry_after_ms,omitempty"` // the same in milliseconds
	Scope        string     `yaml:"scope,omitempty"`          // a path to the name of the limit
	Say          string     `yaml:"say,omitempty"`            // the error, where the CLI says nothing
	About        string     `yaml:"about,omitempty"`          // a path to a text to put behind Say
	Denied       bool       `yaml:"denied,omitempty"`         // the agent was not allowed to do something: the error names the key that allows it
	NewSession   bool       `yaml:"new_session,omitempty"`    // the session that was to be continued does not exist: a new one is begun

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

// Layer is a text in YAML that changes presets or adds some: presets by name. Of a preset that is there
// already, the keys it writes replace those before it; env, options, pick and take are merged by their names;
// its rules come before the others, and one with the name of another replaces that.
type Layer struct {
	Name string // for errors: a path
	Node *yaml.Node
}

// Error is a mistake at one place of a Layer.
type Error struct {
	File      string // Layer.Name
	Line, Col int
	Message   string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Message) }

// Load returns the presets that are built in, changed by layers in their order.
func Load(layers ...Layer) (Set, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(builtIn, &doc); err != nil {
		panic("BUG: presets.yml: " + err.Error())
	}
	set := Set{}
	for _, l := range append([]Layer{{Name: "presets.yml", Node: &doc}}, layers...) {
		if err := set.add(l); err != nil {
			return nil, err
		}
	}
	for _, p := range set {
		if err := p.compile(); err != nil {
			panic("BUG: a preset that was checked: " + err.Error())
		}
	}
	return set, nil
}

// ReadLayer reads a file of presets.
func ReadLayer(name string, data []byte) (Layer, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return Layer{}, fmt.Errorf("%s: %w", name, err)
	}
	return Layer{Name: name, Node: &doc}, nil
}

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
	return nil, fmt.Errorf("there is no agent %q%s", name, check.Hint(name, s.Names(), strings.Join(s.Names(), ", ")))
}

func (s Set) add(l Layer) error {
	n := l.Node
	if n.Kind == yaml.DocumentNode {
		n = n.Content[0]
	}
	if n.Kind == 0 || n.Tag == "!!null" {
		return nil
	}
	at := func(n *yaml.Node, format string, args ...any) error {
		return &Error{File: l.Name, Line: n.Line, Col: n.Column, Message: fmt.Sprintf(format, args...)}
	}
	if n.Kind != yaml.MappingNode {
		return at(n, "agents must be a mapping of names to presets")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, body := n.Content[i], n.Content[i+1]
		if body.Kind == yaml.AliasNode {
			body = body.Alias
		}
		if body.Kind != yaml.MappingNode {
			return at(body, "agents.%s must be a mapping", key.Value)
		}
		base := s[key.Value]
		for j := 0; j+1 < len(body.Content); j += 2 {
			k, v := body.Content[j], body.Content[j+1]
			if k.Value == "extends" {
				var err error
				if base, err = s.Find(v.Value); err != nil {
					return at(v, "%s", err)
				}
				continue
			}
			if keys := workflow.PresetKeys(); !slices.Contains(keys, k.Value) {
				return at(
					k, "unknown key %q in agents.%s%s", k.Value, key.Value,
					check.Hint(k.Value, keys, strings.Join(keys, ", ")),
				)
			}
		}
		p, err := base.with(body)
		if err != nil {
			return at(key, "agents.%s: %s", key.Value, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		p.Name = key.Value
		checked := p
		if err := checked.compile(); err != nil {
			return at(key, "agents.%s: %s", key.Value, err)
		}
		s[key.Value] = &p
	}
	return nil
}

// with returns p, which may be nil, changed by what is written in body.
func (p *Preset) with(body *yaml.Node) (Preset, error) {
	over, copied := *body, yaml.Node{}
	over.Content = nil
	var with Preset
	if err := errors.Join(copied.Encode(p), copied.Decode(&with)); err != nil {
		return with, err
	}
	for i := 0; i+1 < len(body.Content); i += 2 {
		switch body.Content[i].Value {
		case "extends":
			continue
		case "prompt":
			with.Prompt = Prompt{}
		}
		over.Content = append(over.Content, body.Content[i], body.Content[i+1])
	}
	before := with.Rules
	with.Rules = nil
	if err := over.Decode(&with); err != nil {
		return with, err
	}
	for _, r := range before {
		if !slices.ContainsFunc(with.Rules, func(o *Rule) bool { return o.Name == r.Name && r.Name != "" }) {
			with.Rules = append(with.Rules, r)
		}
	}
	return with, nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *Pick) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: a pick is a mapping of fields to values, or {line: REGEX}", n.Line)
	}
	p.written = n
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		switch {
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: the value of %s must be a text, a number or a boolean", value.Line, key)
		case key == "line":
			re, err := regexp.Compile(value.Value)
			if err != nil {
				return fmt.Errorf("line %d: %w", value.Line, err)
			}
			p.line, p.lines = re, max(p.lines, 1)
		case key == "lines":
			if err := value.Decode(&p.lines); err != nil || p.lines < 1 || p.lines > maxTextLines {
				return fmt.Errorf("line %d: lines must be from 1 to %d", value.Line, maxTextLines)
			}
		default:
			want := value.Value
			if value.Tag == "!!str" {
				want = jsonText(want)
			}
			p.fields = append(p.fields, fieldTest{path: parsePath(key), want: filter.ValueOf([]byte(want))})
		}
	}
	if (p.line == nil) == (p.fields == nil) {
		return fmt.Errorf("line %d: a pick has either fields or a line", n.Line)
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

var errSource = errors.New("write a path, or one of {sum: PATH}, {count: PICK} and {join: PATH}")

func sourceOf(n *yaml.Node) (*source, error) {
	s := &source{written: n}
	if n.Kind == yaml.ScalarNode {
		s.pick, s.path = splitPath(n.Value)
		return s, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, errSource
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := n.Content[i+1].Value
		switch n.Content[i].Value {
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

// takeNames are the things that a preset can take from the output.
func takeNames() []string {
	return strings.Fields(`
		text json session_id model turns cost_usd input_tokens cached_tokens output_tokens
		message limit_used limit_reset limit_scope
	`)
}

// optionNames are the settings of a step that a preset can have arguments for.
func optionNames() []string {
	return strings.Fields("model max_turns max_cost schema session resume")
}

// documentNames are the names that conditions can use beside those of the picks.
func documentNames() []string {
	return strings.Fields("exit stderr plain at allow_denied allow_empty")
}

// compile checks p, and prepares it for reading. It changes no value that another preset may share.
func (p *Preset) compile() error {
	switch {
	case len(p.Argv) == 0:
		return errors.New("argv is missing: the program and its arguments")
	case p.Parse != JSONL && p.Parse != Text:
		return fmt.Errorf("parse must be %s or %s, not %q", JSONL, Text, p.Parse)
	case len(p.Rules) == 0:
		return errors.New("rules are missing: without one nothing can succeed")
	}
	if err := known("options", p.Options, optionNames()); err != nil {
		return err
	}
	if err := known("may", p.May, mayNames()); err != nil {
		return err
	}
	if err := known("take", p.Take, takeNames()); err != nil {
		return err
	}
	p.picks, p.sums = nil, nil
	for _, name := range slices.Sorted(maps.Keys(p.Pick)) {
		pick := *p.Pick[name]
		switch {
		case name == "item" || slices.Contains(documentNames(), name):
			return fmt.Errorf("pick.%s: choose another name", name)
		case (pick.line != nil) != (p.Parse == Text):
			return fmt.Errorf("pick.%s: line is for parse: %s, fields are for %s", name, Text, JSONL)
		}
		pick.name, pick.kept, pick.sign, pick.session = name, false, 0, false
		p.picks = append(p.picks, &pick)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Take)) {
		for _, s := range p.Take[name] {
			if s.pick == stdoutName && p.Parse == Text && name == "text" {
				continue
			}
			for _, pick := range []string{s.pick, s.after} {
				if pick != "" && p.pick(pick) == nil {
					return fmt.Errorf("take.%s: there is no pick %q", name, pick)
				}
			}
			if s.sum || s.count || s.join {
				p.sums = append(p.sums, s)
			} else {
				p.pick(s.pick).kept = true
			}
			if name == "session_id" {
				p.pick(s.pick).session = true
			}
		}
	}
	if err := p.compileWatch(); err != nil {
		return err
	}
	if err := p.compileShow(); err != nil {
		return err
	}
	rules := make([]*Rule, len(p.Rules))
	for i, r := range p.Rules {
		compiled := *r
		if compiled.Name == "" {
			compiled.Name = fmt.Sprintf("rule_%d", i+1)
		}
		if err := compiled.compile(p); err != nil {
			return fmt.Errorf("rule %s: %w", compiled.Name, err)
		}
		rules[i] = &compiled
	}
	p.Rules = rules
	return nil
}

const stdoutName = "stdout"

func known[V any](block string, m map[string]V, names []string) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown key %q in %s%s", name, block, check.Hint(name, names, strings.Join(names, ", ")))
		}
	}
	return nil
}

func (p *Preset) pick(name string) *Pick {
	for _, pick := range p.picks {
		if pick.name == name {
			return pick
		}
	}
	return nil
}

func (r *Rule) compile(p *Preset) error {
	if !slices.Contains(Outcomes(), r.Outcome) {
		names := make([]string, 0, len(Outcomes()))
		for _, o := range Outcomes() {
			names = append(names, string(o))
		}
		return fmt.Errorf(
			"unknown outcome %q%s", r.Outcome, check.Hint(string(r.Outcome), names, strings.Join(names, ", ")),
		)
	}
	for _, written := range []string{
		r.ResetAt, r.ResetAfter, r.ResetText, r.RetryAfter, r.RetryAfterMS, r.Scope, r.About,
	} {
		if written == "" {
			continue
		}
		name, _ := splitPath(written)
		switch pick := p.pick(name); {
		case pick != nil:
			pick.kept = true
		case name != "stderr" && name != "plain":
			return fmt.Errorf("%s: there is no pick %q", written, name)
		}
	}
	if r.When == "" {
		return nil
	}
	f, err := filter.Parse(r.When)
	if err != nil {
		return err
	}
	names := documentNames()
	if p.Parse == Text {
		names = append(names, stdoutName)
	}
	for _, path := range f.Paths {
		if len(path) == 0 {
			continue
		}
		name := path[0]
		pick := p.pick(name)
		if pick == nil && !slices.Contains(names, name) {
			return fmt.Errorf("%q is neither a pick nor one of %s", name, strings.Join(names, ", "))
		}
		if pick != nil {
			pick.kept = true
		}
	}
	r.condition = f
	return nil
}
