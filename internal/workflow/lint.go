package workflow

import (
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

// warnOfFindings adds a warning for each finding, at its key.
func (r *reader) warnOfFindings(found []check.Finding, written map[string]entry) {
	for _, f := range found {
		field, _, _ := strings.Cut(f.Field, ".")
		r.warn(written[field].key, "%s", f.Message)
	}
}

// warnOfAgentLimit warns of an agent timeout that is too short for the retries. phase and config are the blocks
// of the map and of its timeout_config; they can be nil.
func (r *reader) warnOfAgentLimit(m *Map, phase, config *block) {
	limit, waits := m.AgentLimit().Value, MaxRetryWait(m.AgentTemplate)
	for _, b := range []*block{phase, config} {
		if b != nil && b.has("agent_timeout_secs") && limit > 0 && waits >= limit {
			r.warn(b.at("agent_timeout_secs"),
				"agent_timeout_secs: retry delays of an agent add up to %s, at least as long as this timeout",
				duration.Format(waits))
		}
	}
}
