// Package outputs keeps what the steps of a job print.
//
// Where commands run, a Recorder collects what one of them prints, within the bounds of a Policy, and passes
// it on as entries. The owner of the job appends these to a Store, a sequence of files that are compressed
// when they are full. Read and Follow read them.
//
// An entry names the item, attempt, step and command that it is of, so that all entries can be found without
// the log of the job. The log has the Span of the entries of an attempt, so that these are found without
// reading all others.
package outputs

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"prodigy/internal/jobs"

	"github.com/go-json-experiment/json/jsontext"
)

// Entry is a piece of what one command printed, in the order of time.
type Entry struct {
	// of the first byte, or of the end of the command if nothing was printed since the last entry
	Time time.Time `json:"time"`

	Source
	First   bool  `json:"first,omitempty"` // of the command
	Missing int64 `json:"missing,omitempty"`

	// of Printed in all that the command printed; only known of what is behind its head
	Offset int64 `json:"offset,omitempty"`

	Printed []Part `json:"printed,omitempty"` // after Missing bytes that were left out
	End     *End   `json:"end,omitempty"`     // the command has ended, and this is the last entry of it

	// Limit makes the entry a mark of the store, which is of no command: from here on only this is kept,
	// because the store has nearly or altogether the size that the policy grants a job.
	Limit Keep `json:"limit,omitempty"`

	// Provisional entries have what may become the tail of a command that goes on. When it ends, its tail comes again.
	Provisional bool `json:"-"`
}

// Source is the command that printed something.
type Source struct {
	ItemID  string `json:"item_id,omitempty"`
	Phase   string `json:"phase,omitempty"` // of a step that is of no item; empty in a standard workflow
	Attempt int    `json:"attempt,omitempty"`
	Step    string `json:"step"`
	Try     int    `json:"try,omitempty"`   // of the step
	Command int    `json:"command"`         // numbers the commands of the attempt, in the order of their starts
	Agent   string `json:"agent,omitempty"` // the preset that its stdout is read by; empty: none
}

// Part is what a command printed to one of its streams without a break by the other.
type Part struct {
	Stream Stream
	Text   []byte
}

// Stream is stdout or stderr.
type Stream bool

const (
	Stdout Stream = false
	Stderr Stream = true
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// End is how a command ended.
type End struct {
	Failed   bool `json:"failed,omitempty"`
	Stopped  bool `json:"stopped,omitempty"` // the job was stopped, or the time of more than the command was up
	ExitCode int  `json:"exit_code"`         // -1: it did not exit by itself
}

// asBase64 follows the name of a stream in JSON where the text is not UTF-8.
const asBase64 = "_base64"

// MarshalJSON returns {"stdout": text}, with stderr or stdout_base64 and so on in its place.
func (p Part) MarshalJSON() ([]byte, error) { return p.append(nil) }

func (p Part) append(b []byte) ([]byte, error) {
	b = append(append(b, `{"`...), p.Stream.String()...)
	if !utf8.Valid(p.Text) {
		b = append(b, asBase64+`":"`...)
		b = base64.StdEncoding.AppendEncode(b, p.Text)
		return append(b, `"}`...), nil
	}
	b = append(b, `":`...)
	b, err := jsontext.AppendQuote(b, p.Text)
	return append(b, '}'), err
}

// UnmarshalJSON reads what MarshalJSON returns.
func (p *Part) UnmarshalJSON(data []byte) error {
	var fields struct {
		Stdout *string `json:"stdout"`
		Stderr *string `json:"stderr"`
		OutRaw *[]byte `json:"stdout_base64"`
		ErrRaw *[]byte `json:"stderr_base64"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	switch f := fields; {
	case f.Stdout != nil:
		*p = Part{Stdout, []byte(*f.Stdout)}
	case f.Stderr != nil:
		*p = Part{Stderr, []byte(*f.Stderr)}
	case f.OutRaw != nil:
		*p = Part{Stdout, *f.OutRaw}
	case f.ErrRaw != nil:
		*p = Part{Stderr, *f.ErrRaw}
	default:
		return errors.New("a part of an output has neither stdout nor stderr")
	}
	return nil
}

// Size returns the number of bytes that were printed.
func (e Entry) Size() int {
	n := 0
	for _, p := range e.Printed {
		n += len(p.Text)
	}
	return n
}

// appendLine appends e as a sealed line of JSON. It gives what encoding/json does, in a tenth of the time.
func (e Entry) appendLine(b []byte) ([]byte, error) {
	start := len(b)
	b = append(b, `{"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	var err error
	text := func(key, value string) {
		if err == nil && value != "" {
			b = append(b, key...)
			b, err = jsontext.AppendQuote(b, value)
		}
	}
	number := func(key string, value int64) {
		b = strconv.AppendInt(append(b, key...), value, 10)
	}
	text(`,"item_id":`, e.ItemID)
	text(`,"phase":`, e.Phase)
	if e.Attempt > 0 {
		number(`,"attempt":`, int64(e.Attempt))
	}
	if e.Step == "" {
		b = append(b, `,"step":""`...)
	}
	text(`,"step":`, e.Step)
	if e.Try > 0 {
		number(`,"try":`, int64(e.Try))
	}
	number(`,"command":`, int64(e.Command))
	text(`,"agent":`, e.Agent)
	if e.First {
		b = append(b, `,"first":true`...)
	}
	if e.Missing > 0 {
		number(`,"missing":`, e.Missing)
	}
	if e.Offset > 0 {
		number(`,"offset":`, e.Offset)
	}
	for i, p := range e.Printed {
		if i == 0 {
			b = append(b, `,"printed":[`...)
		} else {
			b = append(b, ',')
		}
		if err == nil {
			b, err = p.append(b)
		}
	}
	if len(e.Printed) > 0 {
		b = append(b, ']')
	}
	if e.End != nil {
		b = append(b, `,"end":{`...)
		if e.End.Failed {
			b = append(b, `"failed":true,`...)
		}
		if e.End.Stopped {
			b = append(b, `"stopped":true,`...)
		}
		number(`"exit_code":`, int64(e.End.ExitCode))
		b = append(b, '}')
	}
	text(`,"limit":`, string(e.Limit))
	if err != nil {
		return b[:start], err
	}
	return append(jobs.Seal(append(b, '}'), start), '\n'), nil
}
