package workflow

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
)

// backoff reads a strategy: its name; {name: {parameters}}; or {type: name, parameters}.
func (r *reader) backoff(e entry) (retry.Backoff, bool) {
	if e.value.Kind != yaml.MappingNode {
		strategy, ok := word(r, e, retry.Strategies()...)
		return retry.Backoff{Strategy: strategy}, ok
	}
	if find(e.value, "type") != nil {
		return r.typedBackoff(e)
	}
	var found retry.Backoff
	ok := false
	var keys []key
	for _, strategy := range retry.Strategies() {
		keys = append(keys, key{name: string(strategy), read: func(e entry) { found, ok = r.parameters(e, strategy, nil) }})
	}
	b := r.block("backoff", e, keys)
	if len(b.written) > 1 {
		r.fail(e.value, "backoff has %d strategies, want one", len(b.written))
		return found, false
	}
	if len(b.guessed) == 0 {
		r.require(b, strs(retry.Strategies())...)
	}
	return found, ok
}

// typedBackoff reads the form {type: name, parameters}.
func (r *reader) typedBackoff(e entry) (retry.Backoff, bool) {
	strategy, ok := word(r, entry{name: "backoff", value: find(e.value, "type")}, retry.Strategies()...)
	if !ok {
		return retry.Backoff{}, false
	}
	return r.parameters(e, strategy, []key{{name: "type", read: func(entry) {}}})
}

// parameters reads the mapping of a strategy's parameters, which holds the keys more as well.
func (r *reader) parameters(e entry, strategy retry.Strategy, more []key) (retry.Backoff, bool) {
	b := retry.Backoff{Strategy: strategy}
	if isNull(e.value) {
		return b, true
	}
	names, _ := retry.Parameters(strategy)
	keys := slices.DeleteFunc(r.fields(&b), func(k key) bool { return !slices.Contains(names, k.name) })
	read := r.block(string(strategy)+" backoff", e, append(more, keys...))
	return b, read != nil
}

// jitter reads true, false or the name of a jitter.
func (r *reader) jitter(e entry) (retry.Jitter, bool) {
	text, ok := r.text(e)
	if !ok {
		return retry.NoJitter, false
	}
	if e.value.Tag == "!!bool" {
		text = strings.ToLower(text)
	}
	j, err := retry.ParseJitter(text)
	if err != nil {
		r.fail(e.value, "%v", err)
	}
	return j, err == nil
}
