package view

import (
	"fmt"
	"strconv"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/term"
)

// StatRow is one of the numbers of a job, as programs read them.
type StatRow struct {
	Name  string `json:"name"`
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// StatLines returns the statistics of a job for people, in two columns, and for programs, as rows of name, key and value.
func StatLines(jobID string, s events.Stats) (page [][]string, rows []StatRow) {
	line := func(name, format string, args ...any) {
		page = append(page, []string{name, fmt.Sprintf(format, args...)})
	}
	add := func(name, key string, value any) { rows = append(rows, StatRow{name, key, value}) }
	line("job", "%s", jobID)
	add("events", "", s.Events)
	if s.Events > 0 {
		add("first", "", s.First)
		add("last", "", s.Last)
		line("time", "%s to %s", check.Moment(s.First), check.Moment(s.Last))
	}
	d := s.Durations
	rows = append(rows, []StatRow{
		{"span_ms", "", s.SpanMS},
		{"per_second", "", strconv.FormatFloat(s.PerSecond, 'f', 3, 64)},
		{"items", "", s.Items},
		{"agents", "", s.Agents},
		{"attempts", "", s.Attempts},
		{"retries", "", s.Retries},
		{"step_retries", "", s.StepRetries},
		{"durations", "", d.Count},
		{"duration", "p50_ms", d.P50},
		{"duration", "p95_ms", d.P95},
		{"duration", "max_ms", d.Max},
	}...)
	line("events", "%d in %s, %.1f a second", s.Events, s.SpanMS, s.PerSecond)
	line("items", "%d", s.Items)
	line("attempts", "%d by %s, %d retried", s.Attempts, check.Counted(s.Agents, "agent"), s.Retries)
	line("step retries", "%d", s.StepRetries)
	if d.Count > 0 {
		line("duration", "p50 %s, p95 %s, max %s", d.P50, d.P95, d.Max)
	}
	if t := s.Spent; t != nil {
		add("agents_of_unknown_cost", "", t.Unknown)
		if t.Known() {
			add("cost_usd", "", t.Cost.Decimal())
		}
		line("cost", "%s%s", costFor(t.Sum), term.Prefixed("; ", t.TokensText()))
		for name, o := range check.ByKey(t.Outcomes) {
			if o.Known() {
				add("cost_usd", name, o.Cost.Decimal())
			}
			line("  "+name, "%s", costFor(o))
		}
		add("tokens", "", t.Tokens.All())
	}
	for node, n := range check.ByKey(s.Nodes) {
		add("node", node, n)
		line("on worker "+term.Visible(node), "%s", check.Counted(n, "attempt"))
	}
	for name, n := range check.ByKey(s.Types) {
		add("type", name, n)
		line("  "+name, "%d", n)
	}
	for name, n := range check.ByKey(s.ErrorTypes) {
		add("error_type", string(name), n)
		line("errors of type "+string(name), "%d", n)
	}
	return page, rows
}

// costFor returns what agents have cost, with how many they are and why that is not exact.
func costFor(s limit.Sum) string {
	text := s.CostText() + " for " + check.Counted(s.Agents, "agent")
	if doubt := s.Doubt(); doubt != "" {
		text += " (" + doubt + ")"
	}
	return text
}
