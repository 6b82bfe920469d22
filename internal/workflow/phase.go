package workflow

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/limit"
)

const defaultParallel = 10

// read reads setup, reduce or merge: a list of steps, or a mapping with commands.
func (p *Phase) read(r *reader, e entry) bool {
	p.Pos = posOf(e.value)
	switch e.value.Kind {
	case yaml.SequenceNode:
		p.Commands = r.steps(e)
		return true
	case yaml.MappingNode:
		if r.lacksDash(e) {
			return false
		}
	default:
		return r.wrongType(e, "a list of steps or a mapping with commands")
	}
	r.require(r.block(e.name, e, r.fields(p)), "commands")
	return true
}

func (m *Map) read(r *reader, e entry) bool {
	m.MaxParallel.Value = defaultParallel
	keys := r.fields(m)
	keys.read("distinct", into(&m.Distinct, r.distinct))
	keys.read("agent_template", func(e entry) {
		r.inTemplate = true
		defer func() { r.inTemplate = false }()
		m.AgentTemplate = r.agentTemplate(e)
	})
	keys.read("error_policy", r.errorPolicy)
	var timeouts *block
	keys.read("timeout_config", func(e entry) { timeouts = r.timeouts(e, m) })
	keys = append(keys, r.policyKeysNamed("retry_config")...)
	b := r.readWith(e, m, keys)
	if b == nil {
		return true
	}
	if m.MaxItems != nil && *m.MaxItems == 0 {
		r.warn(b.at("max_items"), "max_items: 0 selects no items")
	}
	if b.has("batch") && b.has("key") {
		r.fail(b.at("batch"), `"batch" and "key" cannot be used together`)
	}
	if b.has("batch") && m.Rate.Per != nil {
		r.fail(b.at("rate"), `"batch" and rate "per" cannot be used together: items of a batch may have different keys`)
	}
	r.checkLabels(m.Requires)
	r.checkTimeouts(m, b, timeouts)
	r.warnOfAgentLimit(m, b, timeouts)
	if c := m.Concurrency; c != nil {
		if b.has("max_parallel") {
			r.fail(b.at("max_parallel"),
				`"max_parallel" and "concurrency" cannot be used together; set concurrency.max`)
		}
		m.MaxParallel = IntOrVar{Value: max(c.Max, 1)}
		r.w.ErrorPolicy.Adapt = limit.AdaptiveConfig{Min: c.Min, Max: c.Max}
	}
	r.checkRollout(m, b)
	if s := m.Straggler; s != nil {
		r.w.ErrorPolicy.Straggler = s.After
	}
	r.stepRates(m)
	r.w.ErrorPolicy.OnTimeout, r.w.ErrorPolicy.Rate = m.Timeouts.Action, m.Rate.Limit
	return true
}

// distinct reads the name of a field, or true for the whole item.
func (r *reader) distinct(e entry) (Text, bool) {
	if !hasTag(e.value, "!!bool") {
		return r.filledText(e)
	}
	whole, ok := r.boolean(e)
	if !whole {
		return Text{}, ok
	}
	return r.withPos(e.value, "item"), ok
}

// checkLabels reports labels that no worker can have.
func (r *reader) checkLabels(all []Text) {
	for _, t := range all {
		if !IsWorkerLabel(t.Value) {
			r.failAt(t.Pos, "requires: invalid worker label %q: use letters and digits, and after the first character also . _ / : = + -", t.Value)
		}
	}
}

// workerLabel matches what IsWorkerLabel takes.
var workerLabel = check.Regexp(`^[0-9A-Za-z][0-9A-Za-z._/:=+-]*$`)

// IsWorkerLabel reports whether a worker of a fleet can have this label.
func IsWorkerLabel(text string) bool { return workerLabel().MatchString(text) }

// lacksDash reports a problem if a mapping is a step, and so was meant as a list of it.
func (r *reader) lacksDash(e entry) bool {
	isKey := func(kind string) bool { return find(e.value, kind) != nil }
	if !slices.ContainsFunc(Kinds(), isKey) {
		return false
	}
	r.fail(e.value, `%s is a list of steps: put "- " before %q`, e.name, e.value.Content[0].Value)
	return true
}

// agentTemplate reads a list of steps, or a mapping with commands.
func (r *reader) agentTemplate(e entry) []Step {
	if e.value.Kind != yaml.MappingNode {
		return r.steps(e)
	}
	if r.lacksDash(e) {
		return nil
	}
	r.w.Older = true
	var steps []Step
	commands := key{name: "commands", read: func(e entry) { steps = r.steps(e) }}
	r.require(r.block(e.name, e, keySet{commands}), "commands")
	return steps
}

// read reads where the items come from: a text, a mapping that names the kind of source, or the items themselves.
func (in *Input) read(r *reader, e entry) (ok bool) {
	in.Pos = posOf(e.value)
	switch e.value.Kind {
	case yaml.SequenceNode:
		in.Items = r.items(e)
	case yaml.MappingNode:
		r.inputSource(e, in)
	default:
		in.Text, ok = r.nonBlank(e)
		return ok
	}
	return true
}

// inputSource reads the mapping form of an input.
func (r *reader) inputSource(e entry, in *Input) {
	keys := r.fields(in)
	keys.read("stdin", func(e entry) {
		var ok bool
		if in.Stdin, ok = r.boolean(e); ok && !in.Stdin {
			r.fail(e.value, "stdin must be true")
		}
	})
	keys.read("format", into(&in.Format, func(e entry) (string, bool) { return word(r, e, Formats()...) }))
	keys.read("delimiter", func(e entry) { in.Delimiter = r.delimiter(e) })
	b := r.readWith(e, in, keys)
	r.checkInputJob(b.at("job"), in.Job)
	isCSV := func(file string) bool { return FormatOfFile(file) == "csv" }
	ofCSV, ofLines := in.Format == "csv" || in.Format == "" && slices.ContainsFunc(in.File, isCSV), in.Format == "lines"
	r.refuse(b, "delimiter", !ofCSV && !ofLines,
		`"delimiter" is only for "format: csv" or a .csv file, and "format: lines"`)
	if ofLines && in.Delimiter >= utf8.RuneSelf {
		r.fail(b.at("delimiter"), "delimiter of lines must be an ASCII character")
	}
	if _, err := regexp.Compile(in.Split); err != nil {
		r.fail(b.at("split"), "split: %v", err)
	}
	r.refuse(b, "split", FormatNamed(in.Format).Texts != TextItems, `"split" is only for "format: lines" or "format: nul"`)
	r.refuse(b, "select", !b.has("job"), `"select" is only for a "job"`)
	r.refuse(b, "format", b.has("job"), `"format" is not for a "job": its results are JSON`)
}

// checkInputJob reports a text that names no job whose results could be the items.
func (r *reader) checkInputJob(at *yaml.Node, text string) {
	name, latest := strings.CutPrefix(text, LatestOf)
	switch {
	case latest && strings.TrimSpace(name) == "", text == strings.TrimSuffix(LatestOf, ":"):
		r.fail(at, "job: latest needs a workflow name: latest:NAME")
	case latest, text == "", strings.Contains(text, "$"), strings.HasPrefix(text, string(MapReduce)+"-"),
		text[0] >= '0' && text[0] <= '9':
	default:
		r.fail(at, "job: %q is not a job id (did you mean latest:%s?)", text, text)
	}
}

// delimiter reads the character between the fields of CSV, or between items.
func (r *reader) delimiter(e entry) rune {
	s := e.value.Value
	c, size := utf8.DecodeRuneInString(s)
	if e.value.Kind != yaml.ScalarNode || e.value.Tag != "!!str" || s == "" || size != len(s) ||
		strings.ContainsRune("\x00\"\r\n\uFFFD", c) {
		r.fail(e.value, "delimiter must be a single character other than a quote or newline, got %s", describe(e.value))
		return 0
	}
	return c
}

// read keeps the block agents as it is written.
func (a *AgentPresets) read(r *reader, e entry) bool {
	if e.value.Kind != yaml.MappingNode {
		return r.wrongType(e, "a mapping of names to presets")
	}
	keys := keySet(check.Each(PresetKeys(), func(name string) key { return key{name: name, read: func(entry) {}} }))
	for _, one := range r.entries(e.value) {
		if !isLabel(one.name) {
			r.fail(one.key, "agents: invalid name %q: use letters, digits, underscores and dashes, not starting with a digit", one.name)
		}
		r.block("agents."+one.name, one, keys)
	}
	a.Node = e.value
	return true
}

// PresetKeys returns the keys of a preset of an AI coding CLI. Package ai reads their values.
func PresetKeys() []string {
	return strings.Fields(`extends tested argv args env model pool models prompt options may ignore prices parse pick
		take watch show rules`)
}
