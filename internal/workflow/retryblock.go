package workflow

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
)

// placed is a retry policy and where its parts were written.
type placed struct {
	policy retry.Policy
	at     map[string]*yaml.Node // the values by key
}

// basePolicy is the policy of an empty block in this run.
func (r *reader) basePolicy() retry.Policy {
	p := retry.Default()
	if r.options.MaxDelay > 0 {
		p.MaxDelay = r.options.MaxDelay
	}
	return p
}

// base is what a step's retry_config is merged over: retry_defaults, or else the policy of an empty block.
func (r *reader) base() placed {
	if r.defaults != nil {
		return placed{r.defaults.policy, maps.Clone(r.defaults.at)}
	}
	return placed{r.basePolicy(), map[string]*yaml.Node{}}
}

// retryDefaults reads the block that is merged under the retry_config of every step.
func (r *reader) retryDefaults(e entry) {
	if p := r.base(); r.retryBlock(e, &p, nil) {
		r.defaults = &p
	}
}

// retryBlock reads a retry_config over p, whose keys it replaces whole. not holds keys that have no meaning where it
// stands, and why.
func (r *reader) retryBlock(e entry, p *placed, not map[string]string) bool {
	keys := r.fields(&p.policy)
	keys = reading(keys, "retry_budget", func(e entry) { set(&p.policy.Budget)(r.budget(e)) })
	for name, why := range not {
		keys = reading(keys, name, func(e entry) { r.fail(e.key, "%q in %s has no effect: %s", name, "retry_config", why) })
	}
	if _, refused := not["circuit_breaker"]; !refused {
		keys = reading(keys, "circuit_breaker", func(e entry) { setPointer(&p.policy.CircuitBreaker)(r.stepBreaker(e)) })
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
		r.warnOfPolicy(p.policy, b)
	}
	return true
}

// budget reads a retry_budget. The policy takes none for no limit, which a written one cannot mean.
func (r *reader) budget(e entry) (time.Duration, bool) {
	d, ok := r.duration(e, false)
	if ok && d == 0 {
		r.fail(e.value, "%s must be more than 0s: leave it out for no limit, or write attempts: 1 for no retries", e.name)
	}
	return d, ok
}

// checkPolicy reports what the policy itself finds wrong, each at the value it is about, else at n.
func (r *reader) checkPolicy(p placed, n *yaml.Node) {
	for _, f := range p.policy.Check() {
		field, rest, _ := strings.Cut(f.Field, ".")
		at := n
		if written, ok := p.at[field]; ok {
			at = descend(written, rest)
		}
		if field != "circuit_breaker" { // which was checked when it was read
			r.fail(at, "%s", f.Message)
		}
	}
}

// descend follows a path of keys and indexes, joined by dots, below n as far as it was written.
func descend(n *yaml.Node, path string) *yaml.Node {
	if path == "" {
		return n
	}
	step, rest, _ := strings.Cut(path, ".")
	if index, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && index < len(n.Content) {
		return descend(follow(n.Content[index]), rest)
	}
	if value := find(n, step); value != nil {
		return descend(value, rest)
	}
	for i := 1; i < len(n.Content); i += 2 {
		if value := find(follow(n.Content[i]), step); value != nil {
			return descend(value, rest)
		}
	}
	return n
}

// retryOf puts the retry policy of a step together.
func (r *reader) retryOf(s *Step, b *block, p parts) {
	if p.with != nil && p.retry != nil {
		r.fail(p.with.key, `"with" and %q exclude each other: write one of them`, p.retry.name)
	}
	if p.with != nil {
		r.callOptions(s, b, *p.with)
	}
	switch {
	case p.retry != nil:
		if own := r.base(); r.retryBlock(*p.retry, &own, nil) {
			s.Retry = &own.policy
			r.breakers[s.Pos] = own.at["circuit_breaker"]
		}
	case p.with == nil && r.defaults != nil && s.isCommand():
		own := r.base()
		s.Retry = &own.policy
	}
}

// itemRetry reads the retry_config of an error policy.
func (r *reader) itemRetry(e entry) (retry.Policy, bool) {
	p := placed{r.basePolicy(), map[string]*yaml.Node{}}
	ok := r.retryBlock(e, &p, map[string]string{
		"on_failure":      "what follows for an item is said by on_item_failure",
		"circuit_breaker": "that of an error policy stands beside its retry_config",
	})
	return p.policy, ok
}
