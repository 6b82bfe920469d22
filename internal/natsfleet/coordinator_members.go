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

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// members is the file by which workers find the directory of a job, and which has the instances that were given
// something. A resume reads there who may have what the run before gave out. A line begins with a sign:
//
//	=EPOCH        the epoch of the last coordinator
//	+INSTANCE     it may be given something from now on
//	-INSTANCE     it has nothing any more
//
// The first line is the key of the job. Lines with other signs are of an earlier version, and are skipped.
type members struct {
	path string

	// mu guards what follows.
	mu   sync.Mutex
	file *os.File
	// present has the instances that the file has.
	present map[string]bool
	// torn is set if the last line may be a part of one.
	torn bool
}

// probeOf returns the path of the file by which workers find the directory of the run of a job.
func probeOf(dir, key string) string { return filepath.Join(dir, ".prodigy-fleet-"+key) }

// readMembers reads the file of the last coordinator that had the job in this directory: the key of the job, the epoch,
// and the instances. All are empty if there was none, or the job has ended.
func readMembers(path string) (key string, epoch int64, present map[string]bool) {
	present = map[string]bool{}
	data, _ := os.ReadFile(path)
	key, lines, _ := strings.Cut(string(data), "\n")
	for line := range strings.FieldsFuncSeq(lines, func(r rune) bool { return r == '\n' }) {
		switch rest := line[1:]; line[:1] {
		case "=":
			epoch, _ = strconv.ParseInt(rest, 10, 64)
		case "+":
			if validInstance(rest) {
				present[rest] = true
			}
		case "-":
			delete(present, rest)
		}
	}
	return key, epoch, present
}

// openMembers opens the file of the members. With adopts those of the run before are in it.
func (c *coordinator) openMembers(key string, adopts bool) error {
	m := &c.members
	var before string
	if adopts {
		before, _, m.present = readMembers(m.path)
	}
	f, err := os.OpenFile(m.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	m.file = f
	instances := slices.Collect(maps.Keys(m.present))
	c.turn(func(s *jobState) {
		s.ledger.Expect(instances, adopts && before != key, time.Now())
	})
	if _, err := fmt.Fprintf(f, "%s\n=%d\n", key, c.epoch); err != nil {
		return err
	}
	return m.note("+", instances)
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
	lines := text.String()
	if m.torn {
		lines = "\n" + lines
	}
	_, err := m.file.WriteString(lines)
	if err == nil {
		err = m.file.Sync()
	}
	m.torn = err != nil
	return err
}

// join notes new workers, and hears them then: they are given nothing before, since a resume would not know that they
// were.
func (c *coordinator) join() {
	var words []fleet.WorkerStatus
	c.turn(func(s *jobState) { words = s.ledger.Joining() })
	err := c.members.note("+", check.Each(words, func(w fleet.WorkerStatus) string { return w.Instance }))
	if err != nil { // they will say so again
		c.notifyOnce("members", "nothing can be assigned to workers: the file with their names cannot be "+
			"written: %v. Free disk space or fix its permissions; workers join as soon as it can be written", err)
	}
	c.turn(func(s *jobState) { s.ledger.Joined(len(words), err == nil, time.Now()) })
}
