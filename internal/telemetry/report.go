package telemetry

import (
	"fmt"

	"prodigy/internal/check"
	"prodigy/internal/term"
)

// Report is how much was exported.
type Report struct {
	Spans, Logs Count

	// The last error of the collector. It is empty if there was none.
	Error string
}

// Count is how many there were, and how many of them the collector took.
type Count struct {
	Made int
	Sent int

	// Given up. The others are on their way, or were not sent before the end.
	Lost int
}

// Unsent says what was not exported; it is empty if everything was.
func (r Report) Unsent() string {
	spans, logs := r.Spans.Made-r.Spans.Sent, r.Logs.Made-r.Logs.Sent
	if spans <= 0 && logs <= 0 {
		return ""
	}
	text := fmt.Sprintf("not exported to OpenTelemetry: %d of %s, %d of %s", spans,
		check.Counted(r.Spans.Made, "span"), logs, check.Counted(r.Logs.Made, "log record"))
	if r.Error != "" {
		text += ": " + term.Ellipsis(r.Error, maxText)
	}
	return text
}
