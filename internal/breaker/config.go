package breaker

import (
	"fmt"
	"slices"
	"time"
)

// Config is a circuit_breaker block.
type Config struct {
	FailureThreshold int           `yaml:"failure_threshold"`  // failures one after another that open it
	SuccessThreshold int           `yaml:"success_threshold"`  // successful tests that close it again
	Timeout          time.Duration `yaml:"timeout"`            // how long it stays open before it is tested
	HalfOpenRequests int           `yaml:"half_open_requests"` // how many tests may run at once
	OnOpen           OnOpen        `yaml:"on_open"`            // what happens to items while it is open: `reject` makes them dead letters without running them, `wait` has them wait without a slot; default reject, with `per` wait
	Per              string        `yaml:"per"`                // a text such as `${item.host}`: items for which it is the same have one breaker, each such group its own, and an open one holds back nothing else. Items for which it cannot be told have one together; default one breaker for all items
}

// OnOpen says what an open workflow-level breaker does to the next item.
type OnOpen string

const (
	Reject OnOpen = "reject" // the item is dead-lettered without being run
	Wait   OnOpen = "wait"   // dispatch is held until the breaker half-opens
)

// Default returns the configuration of an empty circuit_breaker block.
func Default() Config {
	return Config{FailureThreshold: 5, SuccessThreshold: 3, Timeout: 30 * time.Second, HalfOpenRequests: 3, OnOpen: Reject}
}

// Finding is a problem of a block in a workflow file. It is declared here because packages retry and errorpolicy, whose blocks contain a
// circuit_breaker, use it too.
type Finding struct {
	Field   string // path of the key below the block, joined by dots, lists by index: "circuit_breaker.timeout", "retry_on.0"
	Message string // the whole sentence, with the name of the key
}

// Under returns findings about a block as findings about the block that holds it under key.
func Under(key string, findings []Finding) []Finding {
	moved := make([]Finding, 0, len(findings))
	for _, f := range findings {
		moved = append(moved, Finding{Field: key + "." + f.Field, Message: f.Message})
	}
	return moved
}

// Linter collects findings about keys that have no effect.
type Linter struct {
	Written func(key string) bool // reports whether the block has the key
	Found   []Finding
}

// Add adds a finding about the first of keys that is written. It does nothing if none is.
func (l *Linter) Add(format string, args []any, keys ...string) {
	if i := slices.IndexFunc(keys, l.Written); i >= 0 {
		l.Found = append(l.Found, Finding{Field: keys[i], Message: fmt.Sprintf(format, args...)})
	}
}

// Check returns what is wrong with c as a block of a workflow file. An absent block is not checked; an absent key has its default.
func (c Config) Check() []Finding {
	var found []Finding
	for _, count := range []struct {
		key   string
		value int
	}{
		{"failure_threshold", c.FailureThreshold},
		{"success_threshold", c.SuccessThreshold},
		{"half_open_requests", c.HalfOpenRequests},
	} {
		if count.value < 1 {
			found = append(found, Finding{count.key, fmt.Sprintf("%s must be at least 1, not %d", count.key, count.value)})
		}
	}
	if c.Timeout <= 0 {
		found = append(found, Finding{"timeout", fmt.Sprintf("timeout must be more than 0s, not %s", c.Timeout)})
	}
	if c.OnOpen != "" && c.OnOpen != Reject && c.OnOpen != Wait {
		found = append(found, Finding{"on_open", fmt.Sprintf("unknown on_open %q (want reject or wait)", c.OnOpen)})
	}
	return found
}
