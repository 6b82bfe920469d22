package events

import (
	"encoding/json"
	"slices"
)

// Masker masks secrets in texts.
type Masker interface {
	Text(s string) string
	JSON(raw json.RawMessage) json.RawMessage
}

// Masked returns e without the secrets that m knows in what commands printed and in what was made of it. Names, ids and the words of
// prodigy's own stay as they are: a job is a fold over them.
func Masked(e Event, m Masker) Event {
	switch e := e.(type) {
	case JobCompleted:
		e.Reason = m.Text(e.Reason)
		return e
	case JobFailed:
		e.Reason = m.Text(e.Reason)
		return e
	case JobPaused:
		e.Reason = m.Text(e.Reason)
		return e
	case StepCompleted:
		e.Output, e.Stderr = m.Text(e.Output), m.Text(e.Stderr)
		if len(e.Validation) > 0 {
			e.Validation = m.JSON(e.Validation)
		}
		return e
	case StepPrinted:
		e.Output = m.Text(e.Output)
		return e
	case AgentCompleted:
		e.Output, e.Captured = m.Text(e.Output), maskedFields(e.Captured, m)
		return e
	case AgentFailed:
		return e.masked(m)
	case AgentSkipped:
		e.Reason = m.Text(e.Reason)
		return e
	case AgentInterrupted:
		e.Reason = m.Text(e.Reason)
		return e
	case StepRetrying:
		e.Error = m.Text(e.Error)
		return e
	case StepFailed:
		e.Error, e.StdoutTail, e.StderrTail = m.Text(e.Error), m.Text(e.StdoutTail), m.Text(e.StderrTail)
		return e
	case DLQItemAdded:
		e.ErrorSignature = m.Text(e.ErrorSignature)
		return e
	case ErrorBatch:
		e.Errors = slices.Clone(e.Errors)
		for i := range e.Errors {
			e.Errors[i].Error = m.Text(e.Errors[i].Error)
		}
		return e
	}
	return e
}

func (e AgentFailed) masked(m Masker) AgentFailed {
	e.Output, e.Captured = m.Text(e.Output), maskedFields(e.Captured, m)
	e.Error, e.ErrorSignature, e.Reason = m.Text(e.Error), m.Text(e.ErrorSignature), m.Text(e.Reason)
	e.StdoutTail, e.StderrTail = m.Text(e.StdoutTail), m.Text(e.StderrTail)
	return e
}

func maskedFields(fields map[string]json.RawMessage, m Masker) map[string]json.RawMessage {
	if fields == nil {
		return nil
	}
	masked := make(map[string]json.RawMessage, len(fields))
	for name, raw := range fields {
		masked[name] = m.JSON(raw)
	}
	return masked
}
