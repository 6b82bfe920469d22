package term

import (
	"fmt"
	"strings"
	"time"
)

// Flood bounds the lines about what may happen by the thousand, such as the circuit breakers of keys: after the first
// lines it only counts, and what it has counted is told every so often. The log has all of it.
type Flood struct {
	shown int
	held  []heldBack // in the order in which they came first
	next  time.Time  // when to tell of them
}

// heldBack is how often one thing has happened without a line.
type heldBack struct {
	what string // such as "circuit breakers opened"
	n    int
}

const (
	floodLines = 20
	floodEvery = 10 * time.Second
)

// Admit reports whether what has happened at now gets a line of its own. Otherwise it is counted.
func (f *Flood) Admit(what string, now time.Time) bool {
	if f.shown < floodLines {
		f.shown++
		return true
	}
	if len(f.held) == 0 {
		f.next = now.Add(floodEvery)
	}
	for i := range f.held {
		if f.held[i].what == what {
			f.held[i].n++
			return false
		}
	}
	f.held = append(f.held, heldBack{what, 1})
	return false
}

// Summary returns a line about what got none, when it is time for it, or at the end. It is empty when there is nothing
// to say.
func (f *Flood) Summary(now time.Time, end bool) string {
	if len(f.held) == 0 || !end && now.Before(f.next) {
		return ""
	}
	parts := make([]string, len(f.held))
	for i, h := range f.held {
		parts[i] = fmt.Sprintf("%d more %s", h.n, h.what)
	}
	f.held = nil
	return "… and " + strings.Join(parts, ", ") + ": prodigy status, why and events ls show them"
}
