package natsfleet

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"prodigy/internal/fleet"
)

// members is the file by which workers find the directory of a job, and which has the instances that were given
// something. A resume reads there who may have what the run before gave out. A line begins with a sign:
//
//	=EPOCH        the epoch of the last coordinator
//	+INSTANCE     it may be given something from now on
//	-INSTANCE     it has nothing any more
//	:TOKEN ID     the worker that an attempt was given to, with credentials
//
// The first line is the key of the job. A line with ! is of an earlier version, and is skipped.
type members struct {
	path string

	// mu guards what follows. A turn may be taken while it is held, but it is not taken in a turn.
	mu   sync.Mutex
	file *os.File
	// head has the lines of the key and the epoch.
	head string
	// present has the instances that the file has.
	present map[string]bool
	// torn is set if the last line may be a part of one.
	torn bool
	// attempts is the size in bytes of what the file has about attempts.
	attempts int
	// closed is set when the file may be removed.
	closed bool
}

const (
	epochSign = "="
	givenSign = ":"

	// mostOfAttempts is how many bytes there are about attempts in that file before it is written anew.
	mostOfAttempts = 1 << 20
)

// probeOf returns the path of the file by which workers find the directory of the run of a job.
func probeOf(dir, key string) string { return filepath.Join(dir, ".prodigy-fleet-"+key) }

// readMembers reads the file of the last coordinator that had the job in this directory: the key of the job, the epoch,
// the instances, and the workers that attempts were given to. All are empty if there was none, or the job has ended.
func readMembers(path string) (key string, epoch int64, present map[string]bool, given map[int64]string) {
	present, given = map[string]bool{}, map[int64]string{}
	data, _ := os.ReadFile(path)
	key, lines, _ := strings.Cut(string(data), "\n")
	for line := range strings.FieldsFuncSeq(lines, func(r rune) bool { return r == '\n' }) {
		switch rest := line[1:]; line[:1] {
		case epochSign:
			epoch, _ = strconv.ParseInt(rest, 10, 64)
		case givenSign:
			token, id, _ := strings.Cut(rest, " ")
			if n, err := strconv.ParseInt(token, 10, 64); err == nil && isCapital(id) {
				given[n] = id
			}
		case "+":
			if validInstance(rest) {
				present[rest] = true
			}
		case "-":
			delete(present, rest)
		}
	}
	return key, epoch, present, given
}

// openMembers opens the file of the members. With adopts those of the run before are in it.
func (c *coordinator) openMembers(key string, adopts bool) error {
	m := &c.members
	var before string
	var given map[int64]string
	if adopts {
		before, _, m.present, given = readMembers(m.path)
	}
	f, err := os.OpenFile(m.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	m.file, m.head = f, fmt.Sprintf("%s\n%s%d\n", key, epochSign, c.epoch)
	c.turn(func(s *jobState) {
		instances := slices.Collect(maps.Keys(m.present))
		s.ledger.Remember(instances, given)
		s.ledger.Expect(instances, adopts && before != key, time.Now())
	})
	if _, err := f.WriteString(m.text(given)); err != nil {
		return err
	}
	return f.Sync()
}

// text returns what the file has when it is written anew.
func (m *members) text(given map[int64]string) string {
	var text strings.Builder
	text.WriteString(m.head)
	for instance := range m.present {
		text.WriteString("+" + instance + "\n")
	}
	before := text.Len()
	for token, id := range given {
		fmt.Fprintf(&text, "%s%d %s\n", givenSign, token, id)
	}
	m.attempts = (text.Len() - before) / 2 // it may double
	return text.String()
}

// note writes down that instances may be given something from now on, or have nothing any more.
func (m *members) note(sign string, instances []string) error {
	var text strings.Builder
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, instance := range instances {
		text.WriteString(sign + instance + "\n")
		if m.present[instance] = true; sign == "-" {
			delete(m.present, instance)
		}
	}
	err := m.add(text.String())
	if err == nil {
		err = m.file.Sync()
		m.torn = err != nil
	}
	return err
}

// add adds lines. mu is held.
func (m *members) add(lines string) error {
	if m.torn {
		lines = "\n" + lines
	}
	_, err := m.file.WriteString(lines)
	m.torn = err != nil
	return err
}

// noteGiven notes the worker that attempts are about to be given to. That is not synced: without it, the worker that
// speaks first has the attempt.
func (c *coordinator) noteGiven(instance string, tokens []int64) {
	c.turn(func(s *jobState) { tokens = s.ledger.Give(instance, tokens) })
	var text strings.Builder
	for _, token := range tokens {
		fmt.Fprintf(&text, "%s%d %s\n", givenSign, token, fleet.IDOf(instance))
	}
	m := &c.members
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if m.attempts += text.Len(); m.attempts < mostOfAttempts {
		_ = m.add(text.String())
		return
	}
	var all string // most of those in the file have ended
	c.turn(func(s *jobState) { all = m.text(s.ledger.Given()) })
	m.replace(all)
}

// replace writes the file anew, if it can. mu is held.
func (m *members) replace(text string) {
	path := m.path + ".new"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	if _, err = f.WriteString(text); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path, m.path)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return
	}
	_ = m.file.Close()
	m.file, m.torn = f, false
}

// close closes the file. Nothing is added about attempts any more.
func (m *members) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed = true; m.file != nil {
		_ = m.file.Close()
	}
}

// join notes new workers, and hears them then: they are given nothing before, since a resume would not know that they
// were.
func (c *coordinator) join() {
	var words []fleet.WorkerStatus
	c.turn(func(s *jobState) { words = s.ledger.Joining() })
	instances := make([]string, len(words))
	for i, w := range words {
		instances[i] = w.Instance
	}
	err := c.members.note("+", instances)
	if err != nil { // they will say so again
		c.notifyOnce("members", "nothing can be assigned to workers: the file with their names cannot be "+
			"written: %v. Free disk space or fix its permissions; workers join as soon as it can be written", err)
	}
	c.turn(func(s *jobState) { s.ledger.Joined(len(words), err == nil, time.Now()) })
}
