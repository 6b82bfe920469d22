// Package check has the words for what is wrong with something that a person wrote: a Finding about a key of a block,
// and the known word that is nearest to a misspelled one.
package check

import (
	"fmt"
	"slices"
)

// Finding is a problem of a block in a workflow file.
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
