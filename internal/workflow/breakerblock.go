package workflow

import "prodigy/internal/breaker"

// breaker reads the circuit_breaker of an error policy.
func (r *reader) breaker(e entry) (breaker.Config, bool) {
	c := breaker.Default()
	return c, r.breakerBlock(e, &c, r.fields(&c))
}

// stepBreaker reads the circuit_breaker of a step, where nothing waits for it.
func (r *reader) stepBreaker(e entry) (breaker.Config, bool) {
	c := breaker.Default()
	keys := reading(r.fields(&c), "on_open", func(e entry) {
		r.fail(e.key, `"on_open" is only for the circuit_breaker of error_policy: that of a step refuses`)
	})
	return c, r.breakerBlock(e, &c, keys)
}

func (r *reader) breakerBlock(e entry, c *breaker.Config, keys []key) bool {
	b := r.block("circuit_breaker", e, keys)
	if b == nil {
		return false
	}
	for _, f := range c.Check() {
		r.fail(b.at(f.Field), "%s", f.Message)
	}
	return true
}
