package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// state is how far a message is.
type state string

const (
	sending state = "sending"
	sent    state = "sent"
	givenUp state = "given_up"
)

// line is a line of the journal.
type line struct {
	// The number of the receiver in the workflow, from 0.
	Receiver int `json:"receiver"`

	// The ID of the message. The lines before and after a message have the same.
	ID string `json:"id"`

	State state `json:"state"`

	// The records of the first and the last event of the message.
	From int64 `json:"from"`

	To   int64     `json:"to"`
	Time time.Time `json:"time,omitzero"`

	// Why a message was given up.
	Error string `json:"error,omitempty"`

	// The message itself, of one that was given up, so that it can be sent again without the log.
	Body json.RawMessage `json:"body,omitempty"`
}

// mark is how far a receiver is.
type mark struct {
	// Everything up to this record was told, or given up.
	told int64

	// What was on the way when the journal ended. Its zero value means nothing.
	sending line
}

// journal is the file of what was sent. Its lines are not synced: after a loss of power a message may be sent again.
type journal struct {
	mu   sync.Mutex
	file *os.File

	// How far each receiver is, by its number in the workflow. Guarded by mu, as the file.
	marks map[int]mark
}

// openJournal opens the journal of a job, or begins one. The job must be locked: nobody else may write to it.
func openJournal(job jobs.Job) (*journal, error) {
	j := &journal{marks: map[int]mark{}}
	lines, err := readJournal(job)
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		j.apply(l)
	}
	if j.file, err = os.OpenFile(job.NotificationsFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if info, err := j.file.Stat(); err == nil && info.Size() > 0 { // a line may be cut off
		_, err = j.file.WriteString("\n")
		return j, err
	}
	return j, nil
}

// readJournal returns the lines of the journal of a job, without those that a kill has cut off.
func readJournal(job jobs.Job) ([]line, error) {
	data, err := os.ReadFile(job.NotificationsFile())
	var lines []line
	for text := range bytes.Lines(data) {
		var l line
		if json.Unmarshal(text, &l) == nil && l.State != "" {
			lines = append(lines, l)
		}
	}
	return lines, check.Unless(err, fs.ErrNotExist)
}

// apply updates how far the receiver of a line is.
func (j *journal) apply(l line) {
	m := j.marks[l.Receiver]
	if l.State == sending {
		m.sending = l
	} else {
		m.told, m.sending = max(m.told, l.To), line{}
	}
	j.marks[l.Receiver] = m
}

// write appends a line. Goroutines of several receivers call it.
func (j *journal) write(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("save notification: %w", err)
	}
	j.apply(l)
	return nil
}
