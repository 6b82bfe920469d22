package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// captured returns r with its output in the format of the capture of st. An output that does not fit fails the step; that of a
// step that has failed anyway stays a text then.
func (r result) captured(st *step, stdout *process.Capture, failure *Failure) (result, *Failure) {
	data, err := formatted(st.Format, r.output)
	if err == nil && data != nil && stdout.Cut() {
		err = fmt.Errorf("the output of %d bytes is larger than what is kept of it", stdout.Total())
	}
	if err == nil {
		r.data = data
		return r, failure
	}
	if _, masked := formatted(st.Format, r.shown().output); masked != nil {
		err = masked
	}
	if failure == nil {
		failure = &Failure{Step: st.label, Failure: retry.Failure{
			Type: retry.TypeCommandFailed, Message: events.Clip(fmt.Sprintf("capture_format %s: %v", st.Format, err), events.MaxError),
		}}
	}
	return r, failure
}

// formatted returns what an output is as JSON, or nil when it is a text.
func formatted(f workflow.CaptureFormat, output string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(output)
	switch f {
	case workflow.FormatJSON:
		if !rawjson.Valid([]byte(trimmed)) {
			return nil, fmt.Errorf("the output %s is not JSON", shown(trimmed))
		}
		return json.RawMessage(trimmed), nil
	case workflow.FormatLines:
		return lines(output), nil
	case workflow.FormatNumber:
		if trimmed == "" || !rawjson.Valid([]byte(trimmed)) || strings.ContainsAny(trimmed[:1], `"[{tfn`) {
			return nil, fmt.Errorf("the output %s is not a number", shown(trimmed))
		}
		return json.RawMessage(trimmed), nil
	case workflow.FormatBoolean:
		if word := strings.ToLower(trimmed); word == "true" || word == "false" {
			return json.RawMessage(word), nil
		}
		return nil, fmt.Errorf("the output %s is neither true nor false", shown(trimmed))
	}
	return nil, nil
}

// lines returns the lines of an output, which has no newlines at its end, as a JSON array.
func lines(output string) json.RawMessage {
	if output == "" {
		return json.RawMessage("[]")
	}
	var quoted []string
	for line := range strings.SplitSeq(output, "\n") {
		quoted = append(quoted, string(jsonText(line)))
	}
	return json.RawMessage("[" + strings.Join(quoted, ",") + "]")
}

// shown quotes the beginning of an output for a message.
func shown(output string) string {
	const most = 60
	if len(output) <= most {
		return fmt.Sprintf("%q", output)
	}
	return fmt.Sprintf("%q…", strings.ToValidUTF8(output[:most], ""))
}
