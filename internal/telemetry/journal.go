package telemetry

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

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
	Receiver int             `json:"receiver"` // its number in the workflow, from 0
	ID       string          `json:"id"`       // of the message
	State    state           `json:"state"`
	From     int64           `json:"from"` // the records of the first and the last event of the message
	To       int64           `json:"to"`
	Time     time.Time       `json:"time,omitzero"`
	Error    string          `json:"error,omitempty"` // of one that was given up
	Body     json.RawMessage `json:"body,omitempty"`  // the same
}

// mark is how far a receiver is.
type mark struct {
	told    int64 // everything up to this record was told, or given up
	sending line  // what was on the way when the journal ends; its zero value: nothing
}

// journal is the file of what was sent. Its lines are not synced: after a loss of power a message may be sent again.
type journal struct {
	mu    sync.Mutex
	file  *os.File
	marks map[int]mark
}

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
	f, err := os.Open(job.NotificationsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var lines []line
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) == nil && l.State != "" {
			lines = append(lines, l)
		}
	}
	return lines, scanner.Err()
}

func (j *journal) apply(l line) {
	m := j.marks[l.Receiver]
	if l.State == sending {
		m.sending = l
	} else {
		m.told, m.sending = max(m.told, l.To), line{}
	}
	j.marks[l.Receiver] = m
}

// mark returns how far a receiver is.
func (j *journal) mark(receiver int) mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.marks[receiver]
}

func (j *journal) write(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write down a notification: %w", err)
	}
	j.apply(l)
	return nil
}

func (j *journal) close() error { return j.file.Close() }
