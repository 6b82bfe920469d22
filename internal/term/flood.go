package term

import (
	"fmt"
	"strings"

	"prodigy/internal/check"
)

// Flood bounds the lines about what may happen by the thousand, such as the circuit breakers of keys: after the first
// lines it only counts. The log has all of it.
type Flood struct {
	shown int
	held  map[string]int // how often each thing has happened without a line, such as "circuit breakers opened"
}

// floodLines is how many lines are shown.
const floodLines = 20

// Admit reports whether what has happened gets a line of its own. Otherwise it is counted.
func (f *Flood) Admit(what string) bool {
	if f.shown < floodLines {
		f.shown++
		return true
	}
	if f.held == nil {
		f.held = map[string]int{}
	}
	f.held[what]++
	return false
}

// Rest returns a line about what got none, or "" if all did.
func (f *Flood) Rest() string {
	var parts []string
	for what, n := range check.ByKey(f.held) {
		parts = append(parts, fmt.Sprintf("%d more %s", n, what))
	}
	if len(parts) == 0 {
		return ""
	}
	return "… and " + strings.Join(parts, ", ") + ": prodigy status, why and events ls show them"
}
