package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
)

const (
	defaultCleanup  = 5 * time.Second // of a map phase with a timeout_config
	gracefulCleanup = 30 * time.Second
)

// timeouts reads timeout_config.
func (r *reader) timeouts(e entry, m *Map) *block {
	t := &m.Timeouts
	keys := r.fields(t)
	keys.read("command_timeouts", func(e entry) { t.Commands = r.commandTimeouts(e) })
	keys.read("cleanup_grace_period_secs", func(e entry) {
		if d, ok := r.grace(e); ok {
			t.Cleanup = &d
		}
	})
	keys = append(keys, r.policyKeysNamed("retry_config")...)
	b := r.block("timeout_config", e, keys)
	switch {
	case t.Cleanup != nil:
	case t.Action == errorpolicy.GracefulTerminate:
		t.Cleanup = new(gracefulCleanup)
	default:
		t.Cleanup = new(defaultCleanup)
	}
	return b
}

// grace reads a duration or seconds, from 0.
func (r *reader) grace(e entry) (time.Duration, bool) {
	d, ok := r.seconds(e)
	if ok && d < 0 {
		return 0, r.fail(e.value, "%s cannot be less than 0", e.name)
	}
	return d, ok
}

// read reads a duration or seconds, from 0, or never.
func (p *ParkAfter) read(r *reader, e entry) (ok bool) {
	switch {
	case !isScalar(e.value):
		r.wrongType(e, "a duration or never")
	case e.value.Value == "never":
		p.Never, ok = true, true
	default:
		p.Time, ok = r.grace(e)
	}
	return ok
}

// commandTimeouts reads the limits of commands. checkCommandNames checks their names later, when the steps are known.
func (r *reader) commandTimeouts(e entry) map[string]time.Duration {
	limits := map[string]time.Duration{}
	for _, limit := range r.namedEntries(e) {
		told := limit
		told.name = e.name + ": " + limit.name
		if d, ok := r.duration(told, true); ok {
			limits[limit.name] = d
		}
	}
	return limits
}

// checkTimeouts reports settings that contradict each other, warns of those without effect, and sets the timeouts of
// the steps. config is the block of timeout_config, or nil.
func (r *reader) checkTimeouts(m *Map, phase, config *block) {
	if config == nil {
		return
	}
	if before, twice := phase.written["agent_timeout_secs"]; twice {
		r.refuse(config, "agent_timeout_secs", true, `"agent_timeout_secs" is set twice (also on line %d)`, before.key.Line)
	}
	unused := map[TimeoutPolicy]string{PerCommand: "agent_timeout_secs", PerAgent: "command_timeouts"}
	for _, b := range []*block{phase, config} {
		if e, ok := b.written[unused[m.Timeouts.Policy]]; ok {
			r.warn(e.key, "%q has no effect with \"timeout_policy: %s\"", e.name, m.Timeouts.Policy)
		}
	}
	if m.Timeouts.Policy == PerAgent {
		m.Timeouts.Commands = nil
	}
	if e, ok := config.written["command_timeouts"]; ok && e.value.Kind == yaml.MappingNode {
		r.checkCommandNames(e, m.AgentTemplate)
	}
	for i := range m.AgentTemplate {
		s := &m.AgentTemplate[i]
		s.Timeout = cmp.Or(s.Timeout, m.Timeouts.Commands[s.Kind()+"_"+strconv.Itoa(i)])
	}
	limitKinds(m.AgentTemplate, m.Timeouts.Commands)
}

// checkCommandNames reports names that match no step of the template.
func (r *reader) checkCommandNames(e entry, steps []Step) {
	known := Kinds()
	for i, s := range steps {
		known = append(known, s.Kind()+"_"+strconv.Itoa(i))
	}
	for _, limit := range r.entries(e.value) {
		if !slices.Contains(known, limit.name) {
			r.fail(limit.key, "command_timeouts: %q is neither a kind of step nor a step of agent_template%s",
				limit.name, hint(limit.name, known))
		}
	}
}

// limitKinds sets the timeout of each step that has none, nested ones included, to the limit of its kind.
func limitKinds(steps []Step, limits map[string]time.Duration) {
	for i := range steps {
		s := &steps[i]
		s.Timeout = cmp.Or(s.Timeout, limits[s.Kind()])
		for _, steps := range s.NestedSteps() {
			limitKinds(steps, limits)
		}
	}
}

// ParseSeconds parses a time in a flag or an environment variable: a number of seconds, or a duration.
func ParseSeconds(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := duration.Parse(text)
	if err != nil {
		if _, notNumber := strconv.ParseFloat(text, 64); notNumber == nil {
			text += "s"
		}
		d, err = time.ParseDuration(text) // with fractions
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("invalid timeout %q: use seconds or a duration such as 90s", text)
	}
	return d, nil
}
