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
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"prodigy/internal/jobs"
)

// Entry is a piece of what one command printed, in the order of time.
type Entry struct {
	// of the first byte, or of the end of the command if nothing was printed since the last entry
	Time time.Time `json:"time"`

	Source
	First   bool  `json:"first,omitzero"` // of the command
	Missing int64 `json:"missing,omitzero"`

	// of Printed in all that the command printed; only known of what is behind its head
	Offset int64 `json:"offset,omitzero"`

	Printed []Part `json:"printed,omitempty"` // after Missing bytes that were left out
	End     *End   `json:"end,omitzero"`      // the command has ended, and this is the last entry of it

	// Limit makes the entry a mark of the store, which is of no command: from here on only this is kept,
	// because the store has nearly or altogether the size that the policy grants a job.
	Limit Keep `json:"limit,omitzero"`

	// Provisional entries have what may become the tail of a command that goes on. When it ends, its tail comes again.
	Provisional bool `json:"-"`
}

// Source is the command that printed something.
type Source struct {
	ItemID string `json:"item_id,omitzero"`
	// Phase is that of a step that is of no item. It is empty in a standard workflow.
	Phase   string `json:"phase,omitzero"`
	Attempt int    `json:"attempt,omitzero"`
	Step    string `json:"step"`
	Try     int    `json:"try,omitzero"` // of the step
	// Command numbers the commands of the attempt, in the order of their starts.
	Command int    `json:"command"`
	Agent   string `json:"agent,omitzero"` // the preset by which its stdout is read; "" if none reads it
}

// Part is what a command printed to one of its streams without a break by the other.
type Part struct {
	Stream Stream
	Text   []byte
}

// Stream is stdout or stderr.
type Stream uint8

const (
	Stdout Stream = iota
	Stderr
)

// String returns the name of a stream as people know it.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// End is how a command ended.
type End struct {
	Failed bool `json:"failed,omitzero"`
	// Stopped is set if the job was stopped, or the time of more than the command was up.
	Stopped bool `json:"stopped,omitzero"`
	// ExitCode is -1 if the command did not exit by itself.
	ExitCode int `json:"exit_code"`
}

// Trouble says how a command failed. It is empty if the command succeeded.
func (e End) Trouble() string {
	switch {
	case e.Stopped:
		return "stopped"
	case e.Failed && e.ExitCode > 0:
		return "exit code " + strconv.Itoa(e.ExitCode)
	case e.Failed && e.ExitCode < 0:
		return "killed, timed out or not started"
	case e.Failed:
		return "failed"
	}
	return ""
}

// asBase64 follows the name of a stream in JSON where the text is not UTF-8.
const asBase64 = "_base64"

// MarshalJSON returns {"stdout": text}, with stderr or stdout_base64 and so on in its place.
func (p Part) MarshalJSON() ([]byte, error) {
	name, text := p.Stream.String(), string(p.Text)
	if !utf8.Valid(p.Text) {
		name, text = name+asBase64, base64.StdEncoding.EncodeToString(p.Text)
	}
	return json.Marshal(map[string]string{name: text})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (p *Part) UnmarshalJSON(data []byte) (err error) {
	var fields map[string]string
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	for _, s := range []Stream{Stdout, Stderr} {
		if text, ok := fields[s.String()]; ok {
			*p = Part{s, []byte(text)}
			return nil
		}
		if text, ok := fields[s.String()+asBase64]; ok {
			p.Stream = s
			p.Text, err = base64.StdEncoding.DecodeString(text)
			return err
		}
	}
	return errors.New("an entry has neither stdout nor stderr")
}

// Size returns the number of bytes that were printed.
func (e Entry) Size() int {
	n := 0
	for _, p := range e.Printed {
		n += len(p.Text)
	}
	return n
}

// line returns e as a sealed line of JSON.
func (e Entry) line() ([]byte, error) {
	e.Time = e.Time.UTC()
	object, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return append(jobs.Seal(object, 0), '\n'), nil
}
