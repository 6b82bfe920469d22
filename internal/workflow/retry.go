package workflow

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// positionedPolicy is a retry policy and the positions of its keys.
type positionedPolicy struct {
	policy retry.Policy
	at     map[string]*yaml.Node // the values, by key
}

// basePolicy returns the policy of an empty retry_config in this run.
func (r *reader) basePolicy() retry.Policy {
	p := retry.Default()
	if r.options.MaxDelay > 0 {
		p.MaxDelay = r.options.MaxDelay
	}
	return p
}

// stepDefaults returns the policy that the retry_config of a step overrides: retry_defaults, or else basePolicy.
func (r *reader) stepDefaults() positionedPolicy {
	if r.defaults != nil {
		return positionedPolicy{r.defaults.policy, maps.Clone(r.defaults.at)}
	}
	return positionedPolicy{r.basePolicy(), map[string]*yaml.Node{}}
}

// retryBlock reads a retry_config into p; each key replaces the value of p as a whole. not holds keys that
// have no effect in this block, and why.
func (r *reader) retryBlock(e entry, p *positionedPolicy, not map[string]string) bool {
	keys := r.fields(&p.policy)
	keys.read("retry_budget", into(&p.policy.Budget, func(e entry) (time.Duration, bool) {
		d, ok := r.duration(e, false)
		if ok && d == 0 { // which in a policy means no limit
			r.fail(e.value, "%s must be more than 0s: leave it out for no limit, or use attempts: 1 for no retries",
				e.name)
		}
		return d, ok
	}))
	if n, err := strconv.Atoi(e.value.Value); err == nil && n > 0 && e.value.Kind == yaml.ScalarNode {
		return r.fail(e.value, "%s must be a mapping, got the number %d (for %d attempts in total use {attempts: %d}, "+
			"for %d retries {attempts: %d})", e.name, n, n, n, n, n+1)
	}
	for name, why := range not {
		keys.read(name, func(e entry) {
			r.fail(e.key, "%q in retry_config has no effect: %s", name, why)
		})
	}
	if _, refused := not["circuit_breaker"]; !refused {
		keys.read("circuit_breaker", func(e entry) {
			if c, ok := r.stepBreaker(e); ok {
				p.policy.CircuitBreaker = &c
			}
		})
	}
	b := r.block(e.name, e, keys)
	if b == nil {
		return false
	}
	for name, written := range b.written {
		p.at[name] = written.value
	}
	before := len(r.problems)
	if r.checkPolicy(*p, b.node); len(r.problems) == before {
		r.warnOfFindings(p.policy.Ineffective(b.has), b.written)
	}
	return true
}

// checkPolicy reports the findings of the policy's own check, each at its value, or at n if that is not written.
func (r *reader) checkPolicy(p positionedPolicy, n *yaml.Node) {
	var found check.Findings
	p.policy.Check(&found)
	for _, f := range found {
		r.fail(cmp.Or(p.at[f.Field], n), "%s", f.Message)
	}
}

// descend returns the node at a path of keys and indexes, joined by dots, below n, or the last one that
// exists on the way.
func descend(n *yaml.Node, path string) *yaml.Node {
	if path == "" {
		return n
	}
	step, rest, _ := strings.Cut(path, ".")
	if index, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && index < len(n.Content) {
		return descend(resolveAlias(n.Content[index]), rest)
	}
	if value := find(n, step); value != nil {
		return descend(value, rest)
	}
	for _, each := range Pairs(n) {
		if value := find(resolveAlias(each), step); value != nil {
			return descend(value, rest)
		}
	}
	return n
}

// itemRetry reads the retry_config of an error policy.
func (r *reader) itemRetry(e entry) (retry.Policy, bool) {
	p := positionedPolicy{r.basePolicy(), map[string]*yaml.Node{}}
	ok := r.retryBlock(e, &p, map[string]string{
		"on_failure":      "use on_item_failure for what happens to the item",
		"circuit_breaker": "in an error policy, put it next to retry_config",
	})
	if a := p.policy.RetryAfter; a != nil && a.File != "" {
		at := cmp.Or(p.at["retry_after"], e.value) // under a misspelled name it is at none
		r.fail(descend(at, "file"),
			"file of retry_after is only for a step's retry_config: its path is relative to the step's directory")
	}
	return p.policy, ok
}

// backoff reads a strategy: its name; {name: {parameters}}; or {type: name, parameters}.
func (r *reader) backoff(e entry) (retry.Backoff, bool) {
	if e.value.Kind != yaml.MappingNode {
		strategy, ok := word(r, e, retry.Strategies()...)
		return retry.Backoff{Strategy: strategy}, ok
	}
	if kind := find(e.value, "type"); kind != nil {
		strategy, ok := word(r, entry{name: "backoff", value: kind}, retry.Strategies()...)
		if !ok {
			return retry.Backoff{}, false
		}
		return r.parameters(e, strategy, keySet{{name: "type", read: func(entry) {}}})
	}
	var found retry.Backoff
	ok := false
	var keys keySet
	for _, strategy := range retry.Strategies() {
		keys = append(keys, key{
			name: string(strategy),
			read: func(e entry) { found, ok = r.parameters(e, strategy, nil) },
		})
	}
	b := r.block("backoff", e, keys)
	if len(b.written) > 1 {
		return found, r.fail(e.value, "backoff must have one strategy, got %d", len(b.written))
	}
	if len(b.guessed) == 0 {
		r.require(b, check.Words(retry.Strategies()...)...)
	}
	return found, ok
}

// parameters reads the mapping of a strategy's parameters. more are further keys of that mapping.
func (r *reader) parameters(e entry, strategy retry.Strategy, more keySet) (retry.Backoff, bool) {
	b := retry.Backoff{Strategy: strategy}
	if isNull(e.value) {
		return b, true
	}
	if e.value.Kind != yaml.MappingNode {
		return b, r.wrongType(e, "a mapping")
	}
	names, _ := retry.Parameters(strategy)
	keys := slices.DeleteFunc(r.fields(&b), func(k key) bool { return !slices.Contains(names, k.name) })
	e.name = string(strategy) + " backoff"
	return b, r.readWith(e, &b, append(more, keys...)) != nil
}

// retryAfter reads true, false, or a mapping.
func (r *reader) retryAfter(e entry) (*retry.After, bool) {
	a := new(retry.After)
	if e.value.Kind == yaml.MappingNode {
		return a, r.read(e, a)
	}
	wanted, ok := r.boolean(e)
	if !wanted {
		return nil, ok
	}
	return a, ok
}

// matcher reads {pattern: regex} or {exit_code: [75]}.
func (r *reader) matcher(e entry) (m retry.Matcher, ok bool) {
	pattern := func(e entry) {
		if expr, ok := r.nonBlank(e); ok {
			if err := retry.CheckPattern(expr); err != nil {
				r.fail(e.value, "%v", err)
				return
			}
			m.Pattern = expr
		}
	}
	b := r.block(e.name, e, keySet{
		{name: "pattern", read: pattern},
		{name: "exit_code", read: func(e entry) {
			r.value(e, reflect.ValueOf(&m.ExitCodes).Elem(), `least:"1" empty:"exit_code must list at least one exit code"`)
		}},
	})
	r.require(b, "pattern", "exit_code")
	if b.has("pattern") && b.has("exit_code") {
		return m, r.fail(e.value, `an entry of retry_on has both "pattern" and "exit_code": split it into two entries`)
	}
	return m, m.Pattern != "" || len(m.ExitCodes) > 0
}

// failureAction reads what follows when the attempts are used up: stop, continue, or {fallback: {command: …}}.
func (r *reader) failureAction(e entry) (retry.FailureAction, bool) {
	var a retry.FailureAction
	if e.value.Kind != yaml.MappingNode {
		text, ok := r.text(e)
		words := []retry.ActionKind{retry.Stop, retry.Continue}
		if a.Kind = retry.ActionKind(text); ok && !slices.Contains(words, a.Kind) {
			return a, r.fail(e.value, "unknown %s %q%s", e.name, text,
				check.Hint(text, words, `stop, continue or {fallback: {command: "…"}}`))
		}
		return a, ok
	}
	var form struct {
		Fallback *struct {
			Command string `yaml:"command" required:"true" text:"filled"`
		} `yaml:"fallback" required:"true"`
	}
	if r.read(e, &form); form.Fallback != nil {
		a = retry.FailureAction{Kind: retry.Fallback, Command: form.Fallback.Command}
	}
	return a, a.Command != ""
}

// callOptions is the block `with` of a step.
type callOptions struct {
	Retry int           `yaml:"retry" least:"0"` // retries after the first attempt; default 0
	Delay time.Duration `yaml:"delay"`           // delay before the first retry; default 0s

	// how the delay grows: not at all, n·delay, or delay·2^(n−1); default fixed
	Backoff retry.Strategy `yaml:"backoff" words:"fixed linear exponential"`

	Timeout  time.Duration `yaml:"timeout" unit:"seconds"` // timeout of one attempt; default none
	MaxDelay time.Duration `yaml:"max_delay"`              // maximum delay; default 30s
}

// callOptions reads `with`, a short form of timeout and retry_config, from its mapping or its text.
func (r *reader) callOptions(s *Step, step *block, e entry) {
	policy := r.basePolicy()
	o := callOptions{Backoff: retry.Fixed, MaxDelay: policy.MaxDelay, Timeout: s.Timeout}
	if isScalar(e.value) {
		if e.value = r.callText(e); e.value == nil {
			return
		}
	}
	b := r.block(e.name, e, r.fields(&o))
	if b == nil {
		return
	}
	if before, twice := step.written["timeout"]; twice {
		r.refuse(b, "timeout", true, `"timeout" is set twice: in "with" and in the step (line %d)`, before.key.Line)
	}
	// Some options have no effect without another.
	if b.has("backoff") && !b.has("delay") {
		r.warn(b.written["backoff"].key, `"backoff" has no effect without "delay"`)
	}
	for _, name := range []string{"backoff", "delay"} {
		if b.has(name) && !b.has("retry") {
			r.warn(b.written[name].key, `%q has no effect without "retry"`, name)
		}
	}
	policy.Attempts = o.Retry + 1
	policy.InitialDelay, policy.MaxDelay = o.Delay, o.MaxDelay
	policy.Backoff = retry.Backoff{Strategy: o.Backoff}
	r.checkPolicy(positionedPolicy{policy, map[string]*yaml.Node{
		"attempts": b.at("retry"), "backoff": b.at("backoff"),
		"initial_delay": b.at("delay"), "max_delay": b.at("max_delay"),
	}}, b.node)
	s.Retry, s.Timeout = &policy, o.Timeout
}

// callText parses the text form of `with`, as in "retry: 5, delay: 500ms", into a mapping. It returns nil for what is
// not such a text.
func (r *reader) callText(e entry) *yaml.Node {
	at := r.contentPos(e.value)
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Col}
	for part := range strings.SplitSeq(e.value.Value, ",") {
		name, value, _ := strings.Cut(part, ":")
		for _, word := range []string{strings.TrimSpace(name), strings.TrimSpace(value)} {
			if word == "" {
				r.fail(e.value, `%s must be options as in "retry: 5, delay: 500ms", got %q`, e.name,
					strings.TrimSpace(part))
				return nil
			}
			scalar := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word, Line: n.Line, Column: n.Column}
			if _, err := strconv.Atoi(word); err == nil {
				scalar.Tag = "!!int"
			}
			n.Content = append(n.Content, scalar)
		}
	}
	return n
}

// breaker reads the circuit_breaker of an error policy.
func (r *reader) breaker(e entry) (limit.BreakerConfig, bool) {
	c := limit.DefaultBreaker()
	keys := r.fields(&c)
	keys.read("per", func(e entry) {
		if text, ok := r.filledText(e); ok {
			c.Per, r.w.BreakerPer = text.Value, &text
		}
	})
	onOpen := c.OnOpen
	c.OnOpen = ""
	ok := r.readWith(e, &c, keys) != nil
	if c.OnOpen == "" && c.Per != "" {
		onOpen = limit.Wait
	}
	c.OnOpen = cmp.Or(c.OnOpen, onOpen)
	return c, ok
}

// stepBreaker reads the circuit_breaker of a step. It has no on_open: an open breaker always refuses the step.
func (r *reader) stepBreaker(e entry) (limit.BreakerConfig, bool) {
	c := limit.DefaultBreaker()
	keys := r.fields(&c)
	keys.read("on_open", func(e entry) {
		r.fail(e.key, `"on_open" is only for the circuit_breaker of error_policy: a step's never waits`)
	})
	keys.read("per", func(e entry) {
		r.fail(e.key, `"per" is only for the circuit_breaker of error_policy`)
	})
	ok := r.readWith(e, &c, keys) != nil
	return c, ok
}
