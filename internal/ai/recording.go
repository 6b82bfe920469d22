package ai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Recording is one run of a CLI, as it was recorded in a file.
type Recording struct {
	CLI    string          `json:"cli"`
	Stdout *string         `json:"stdout"`
	Stderr string          `json:"stderr"`
	Exit   int             `json:"exit"` // below 0: minus the signal that ended it
	Want   json.RawMessage `json:"want"` // an outcome or a list of them; absent: any
}

// Judgement is what a recorded run means.
type Judgement struct {
	File  string `json:"file"`
	Agent string `json:"agent"`
	Verdict
	RetryAfterMS int64     `json:"retry_after_ms,omitempty"`
	Model        string    `json:"model,omitempty"`
	Turns        int       `json:"turns,omitempty"`
	CostUSD      *float64  `json:"cost_usd,omitempty"`
	Tokens       *Tokens   `json:"tokens,omitempty"`
	Want         []Outcome `json:"want,omitempty"`
	Right        *bool     `json:"right,omitempty"`
}

// ErrUnnamed means that neither a recording nor its reader names the CLI.
var ErrUnnamed = errors.New("which CLI printed this?")

// ReadRecording reads a file: a recording as JSON, else what a CLI printed to stdout before it ended with an exit code.
func ReadRecording(data []byte, exit int) Recording {
	var r Recording
	if json.Unmarshal(data, &r) == nil && r.Stdout != nil {
		return r
	}
	text := string(data)
	return Recording{Stdout: &text, Exit: exit}
}

// Judge says what a recorded run means to the preset that is named, or without a name to that of the recording. The
// end has what the recording lacks.
func (s Set) Judge(r Recording, name string, end End) (Judgement, error) {
	if name == "" {
		name = r.CLI
		if s[name] == nil {
			name = strings.TrimRight(name, "0123456789.") // claude197 is a version of claude
		}
	}
	if name == "" {
		return Judgement{}, ErrUnnamed
	}
	p, err := s.Find(name)
	if err != nil {
		return Judgement{}, err
	}
	want, err := r.wanted()
	if err != nil {
		return Judgement{}, fmt.Errorf("want: %w", err)
	}

	end.ExitCode = r.Exit
	if r.Exit < 0 {
		end.Signal = "signal " + strconv.Itoa(-r.Exit)
	}
	if end.Signal != "" {
		end.ExitCode = -1
	}
	reading := p.Read()
	_, _ = reading.Write([]byte(*r.Stdout))
	reading.WriteStderr([]byte(r.Stderr))
	v := reading.Verdict(end)

	j := Judgement{
		Agent: p.Name, Verdict: v, RetryAfterMS: v.RetryAfter.Milliseconds(), Model: v.Usage.Model,
		Turns: v.Usage.Turns, Want: want,
	}
	if v.Usage.Costed {
		j.CostUSD = &v.Usage.CostUSD
	}
	if v.Usage.Counted {
		j.Tokens = &v.Usage.Tokens
	}
	if want != nil {
		j.Right = new(slices.Contains(want, v.Outcome))
	}
	return j, nil
}

// wanted returns the outcomes that are right, or nil if any is.
func (r Recording) wanted() (want []Outcome, err error) {
	if len(r.Want) == 0 {
		return nil, nil
	}
	var one Outcome
	if json.Unmarshal(r.Want, &one) == nil {
		return []Outcome{one}, nil
	}
	return want, json.Unmarshal(r.Want, &want)
}

// Wrong reports whether the outcome is not one of those that were wanted.
func (j Judgement) Wrong() bool { return j.Right != nil && !*j.Right }
