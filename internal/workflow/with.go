package workflow

import (
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
)

// callOptions are what `with` says of a call.
type callOptions struct {
	Retry    int            `yaml:"retry"`                  // tries after the first; default 0
	Delay    time.Duration  `yaml:"delay"`                  // D of the backoff; default 0s
	Backoff  retry.Strategy `yaml:"backoff"`                // how the delay grows: not at all, n·D, or D·2^(n−1); default fixed
	Timeout  time.Duration  `yaml:"timeout" unit:"seconds"` // of one attempt; default none
	MaxDelay time.Duration  `yaml:"max_delay"`              // cap of the delays; default 30s
}

// callOptions reads `with`, which says by other words what timeout and retry_config say.
func (r *reader) callOptions(s *Step, step *block, e entry) {
	policy := r.basePolicy()
	o := callOptions{Backoff: retry.Fixed, MaxDelay: policy.MaxDelay, Timeout: s.Timeout}
	b := r.callBlock(e, &o)
	if b == nil {
		return
	}
	if b.has("timeout") && step.has("timeout") {
		r.fail(b.written["timeout"].key, `"timeout" is written twice: in "with" and in the step (line %d)`, step.written["timeout"].key.Line)
	}
	r.warnOfCallOptions(b)
	policy.Attempts = o.Retry + 1
	policy.InitialDelay, policy.MaxDelay = o.Delay, o.MaxDelay
	policy.Backoff = retry.Backoff{Strategy: o.Backoff}
	r.checkPolicy(placed{policy, map[string]*yaml.Node{
		"attempts": b.at("retry"), "initial_delay": b.at("delay"), "max_delay": b.at("max_delay"), "backoff": b.at("backoff"),
	}}, b.node)
	s.Retry, s.Timeout = &policy, o.Timeout
}

// callBlock reads the keys of `with` from its mapping or its text.
func (r *reader) callBlock(e entry, o *callOptions) *block {
	if e.value.Kind == yaml.ScalarNode && !isNull(e.value) {
		n, ok := r.callText(e)
		if !ok {
			return nil
		}
		e.value = n
	}
	keys := r.fields(o)
	keys = reading(keys, "retry", func(e entry) { set(&o.Retry)(r.atLeast(e, 0)) })
	keys = reading(keys, "backoff", func(e entry) { set(&o.Backoff)(word(r, e, retry.Fixed, retry.Linear, retry.Exponential)) })
	return r.block(e.name, e, keys)
}

// warnOfCallOptions warns of options that do nothing for lack of another.
func (r *reader) warnOfCallOptions(b *block) {
	if b.has("backoff") && !b.has("delay") {
		r.warn(b.written["backoff"].key, `"backoff" has no effect without "delay"`)
	}
	for _, name := range []string{"backoff", "delay"} {
		if b.has(name) && !b.has("retry") {
			r.warn(b.written[name].key, `%q has no effect without "retry"`, name)
		}
	}
}

// callText turns the text form of `with`, as in "retry: 5, delay: 500ms", into the mapping that it stands for.
func (r *reader) callText(e entry) (*yaml.Node, bool) {
	t := r.locate(e.value, e.value.Value)
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: e.value.Line, Column: e.value.Column}
	offset := 0
	for part := range strings.SplitSeq(t.Value, ",") {
		name, value, ok := strings.Cut(part, ":")
		if !ok || strings.TrimSpace(name) == "" || strings.TrimSpace(value) == "" {
			r.failAt(t.at(offset+blanks(part)), `%s: want options as in "retry: 5, delay: 500ms", got %q`, e.name, strings.TrimSpace(part))
			return nil, false
		}
		n.Content = append(n.Content, t.scalar(offset, name), t.scalar(offset+len(name)+1, value))
		offset += len(part) + 1
	}
	return n, true
}

// scalar returns a word of t, which starts at a byte offset, as the scalar that YAML would make of it.
func (t Text) scalar(offset int, word string) *yaml.Node {
	at := t.at(offset + blanks(word))
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(word), Line: at.Line, Column: at.Col}
	if n.Value != "" && strings.Trim(n.Value, "-0123456789") == "" {
		n.Tag = "!!int"
	}
	return n
}

// at returns the place in the file of a byte offset inside the value.
func (t Text) at(offset int) Pos {
	before := t.Value[:min(offset, len(t.Value))]
	start := strings.LastIndexByte(before, '\n') + 1
	return t.At(strings.Count(before, "\n")+1, len([]rune(before[start:]))+1)
}

// blanks counts the white space that s starts with.
func blanks(s string) int { return len(s) - len(strings.TrimLeft(s, " \t\r\n")) }
