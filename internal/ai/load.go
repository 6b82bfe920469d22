package ai

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/workflow"
)

// Layer is a text in YAML that changes presets or adds some: presets by name. Of a preset that is there
// already, the keys it writes replace those before it; env, options, pick and take are merged by their names;
// its rules come before the others, and one with the name of another replaces that.
type Layer struct {
	Name string // for errors: a path
	Node *yaml.Node
}

// Error is a mistake at one place of a Layer, whose name is that of the file.
type Error struct{ workflow.Problem }

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

// add changes the set by a layer. After an error the set is of no use.
func (s Set) add(l Layer) error {
	n := l.Node
	if n.Kind == yaml.DocumentNode {
		n = n.Content[0]
	}
	if n.Kind == 0 || n.Tag == "!!null" {
		return nil
	}
	at := func(n *yaml.Node, format string, args ...any) error {
		message := fmt.Sprintf(format, args...)
		return &Error{workflow.Problem{File: l.Name, Line: n.Line, Col: n.Column, Message: message}}
	}
	if n.Kind != yaml.MappingNode {
		return at(n, "agents must be a mapping of names to presets")
	}
	for key, body := range workflow.Pairs(n) {
		if body.Kind == yaml.AliasNode {
			body = body.Alias
		}
		if body.Kind != yaml.MappingNode {
			return at(body, "agents.%s must be a mapping", key.Value)
		}
		base := s[key.Value]
		for k, v := range workflow.Pairs(body) {
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
	for key, value := range workflow.Pairs(body) {
		switch key.Value {
		case "extends":
			continue
		case "prompt":
			with.Prompt = Prompt{}
		}
		over.Content = append(over.Content, key, value)
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

// compile checks p, and prepares it for reading. It changes no value that another preset may share.
func (p *Preset) compile() error {
	switch {
	case len(p.Argv) == 0:
		return errors.New("argv is required: the program and its arguments")
	case p.Parse != JSONL && p.Parse != Text:
		return fmt.Errorf("parse must be %s or %s, not %q", JSONL, Text, p.Parse)
	case len(p.Rules) == 0:
		return errors.New("rules are required: without rules no run can succeed")
	}
	if err := known("options", p.Options, strings.Fields("model max_turns max_cost schema session resume")); err != nil {
		return err
	}
	may := check.Words(workflow.MayRead, workflow.MayEdit, workflow.MayAll, maySaid)
	if err := known("may", p.May, may); err != nil {
		return err
	}
	if err := known("take", p.Take, strings.Fields(`
		text json session_id model turns cost_usd input_tokens cached_tokens output_tokens
		message limit_used limit_reset limit_scope
	`)); err != nil {
		return err
	}
	for _, price := range check.ByKey(p.Prices) {
		if err := price.check(); err != nil {
			return err
		}
	}
	p.picks, p.sums = nil, nil
	for name, written := range check.ByKey(p.Pick) {
		pick := *written
		switch {
		case name == "item" || slices.Contains(documentNames(), name):
			return fmt.Errorf("pick.%s: choose another name", name)
		case (pick.line != nil) != (p.Parse == Text):
			return fmt.Errorf("pick.%s: use line with parse: %s, and fields with %s", name, Text, JSONL)
		}
		pick.name = name
		p.picks = append(p.picks, &pick)
	}
	for name, sources := range check.ByKey(p.Take) {
		for _, s := range sources {
			if s.pick == stdoutName && p.Parse == Text && name == "text" {
				continue
			}
			pick, err := p.need("take."+name, s.pick)
			if err == nil && s.after != "" {
				_, err = p.need("take."+name, s.after)
			}
			if err != nil {
				return err
			}
			if s.sum || s.count || s.join {
				p.sums = append(p.sums, s)
			} else {
				pick.kept = true
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

// compile checks r, and notes in the picks of p what r looks at.
func (r *Rule) compile(p *Preset) error {
	if !slices.Contains(Outcomes(), r.Outcome) {
		names := check.Words(Outcomes()...)
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
			return fmt.Errorf("%s: unknown pick %q", written, name)
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

// documentNames are the names that conditions can use beside those of the picks.
func documentNames() []string {
	return strings.Fields("exit stderr plain at allow_denied allow_empty")
}

func (e *Error) Error() string { return e.String() }
