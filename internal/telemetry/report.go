package telemetry

import (
	"fmt"

	"prodigy/internal/events"
	"prodigy/internal/term"
)

// Report is how much was exported.
type Report struct {
	Spans, Logs Count
	Error       string // the last, if there was one
}

// Count is how many there were, and how many of them the collector took.
type Count struct {
	Made int
	Sent int
	Lost int // given up; the others are on their way, or were not sent before the end
}

// Unsent says what was not exported; it is empty if everything was.
func (r Report) Unsent() string {
	spans, logs := r.Spans.Made-r.Spans.Sent, r.Logs.Made-r.Logs.Sent
	if spans <= 0 && logs <= 0 {
		return ""
	}
	text := fmt.Sprintf("not exported to OpenTelemetry: %d of %s, %d of %s", spans,
		events.Counted(r.Spans.Made, "span", "spans"), logs, events.Counted(r.Logs.Made, "log record", "log records"))
	if r.Error != "" {
		text += ": " + term.Ellipsis(r.Error, maxText)
	}
	return text
}
