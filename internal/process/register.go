package process

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	ourPrefix  = "PRODIGY_" // of all variables that this package looks for
	markVar    = "PRODIGY_REGISTER"
	recordSize = 128
)

// Register is a file that says which process groups are running, so that they can be found when whoever started
// them was killed and could not end them: see EndLeftovers and Watch. It has a line about its owner, and one
// for each group. A nil Register keeps nothing, nor does one on Windows, where job objects end with their
// owner.
type Register struct {
	file *os.File
	owner
	first   sync.Once // command
	watcher watcher   // started before the first command

	// free are the lines whose groups have ended, which are used again before the file grows. last is the last line so
	// far: 0, the owner's, at first.
	mu   sync.Mutex
	free []int
	last int
}

// OpenRegister makes an empty register. What path held before is lost, so EndLeftovers comes first. Argv,
// unless it is empty, starts a process that calls Watch with the arguments that are put behind it: path, mark
// and grace. It is started before the first command.
func OpenRegister(path string, grace time.Duration, argv ...string) (*Register, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the register of processes: %w", err)
	}
	r := &Register{file: file, owner: owner{session: session(), boot: BootID(), mark: rand.Text()}}
	if len(argv) > 0 {
		r.watcher.argv = append(slices.Clip(argv), path, r.mark, grace.String())
	}
	r.write(0, r.owner.text())
	return r, nil
}

// Close ends the watcher and closes the file. No command may use the register any more.
func (r *Register) Close() error {
	r.watcher.dismiss()
	return r.file.Close()
}

// Beat has the watcher kill everything that the register has if this process does not call it again within d,
// because it is frozen. With d 0 it may be silent. Without a watcher there is no effect. When it returns the
// watcher has been told.
func (r *Register) Beat(d time.Duration) {
	if r == nil {
		return
	}
	if d > 0 {
		r.guard()
	}
	if lifeline := r.watcher.lifeline.Load(); lifeline != nil {
		_ = lifeline.SetWriteDeadline(time.Now().Add(time.Second)) // a watcher that is frozen reads nothing
		_, _ = lifeline.WriteString(d.String() + "\n")
	}
}

// guard sees to it that the watcher is there before a command starts, which may kill this process at once.
func (r *Register) guard() {
	if r != nil {
		r.first.Do(func() {
			if r.watcher.start(r.file); r.watcher.process != nil {
				r.note(watchedWord)
			}
		})
	}
}

// Begin records that the group that pid leads is running, and returns the line that says so, for End. The
// leader must not have been waited for. A group that cannot be recorded runs all the same: what is lost is only
// that nobody ends it when nobody else can.
func (r *Register) Begin(pid int) (at int) {
	if r == nil {
		return 0
	}
	startID, ok := startIDOf(pid)
	if !ok {
		return 0
	}
	at = r.takeLine()
	r.write(at, record{pid: pid, startID: startID, boot: r.boot, mark: r.mark}.text())
	return at
}

// End records that nothing is left of the group that Begin recorded in a line.
func (r *Register) End(at int) {
	if r == nil || at == 0 {
		return
	}
	r.write(at, blank)
	r.mu.Lock()
	r.free = append(r.free, at)
	r.mu.Unlock()
}

// takeLine returns a line that nothing stands in.
func (r *Register) takeLine() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		at := r.free[n-1]
		r.free = r.free[:n-1]
		return at
	}
	r.last++
	return r.last
}

func (r *Register) write(at int, text []byte) {
	_, _ = r.file.WriteAt(text, int64(at)*recordSize)
}

// record is what is known of a running group.
type record struct {
	pid     int    // of the leader, and the id of the group
	startID string // of the leader: no other process with its id has it, see startIDOf
	boot    string // of the machine: ids and times begin anew with each
	mark    string
}

// hasStartID reports whether m is the process that had this startID. It may have been recorded in either form.
func (m member) hasStartID(startID string) bool {
	if m.start == startID {
		return true
	}
	now, ok := startIDOf(m.pid)
	return ok && now == startID
}

func (r record) text() []byte { return line(strconv.Itoa(r.pid), r.startID, r.boot, r.mark) }

// owner is who keeps a register, and what its commands have in common.
type owner struct {
	session int    // that all of them are in, unless they leave it
	boot    string // of the machine
	mark    string // that they carry in their environment

	watched, stopping bool // it has a watcher, and had been asked to stop
}

const ownerWord = "session"

func (o owner) text() []byte { return line(ownerWord, strconv.Itoa(o.session), o.boot, o.mark) }

var blank = line()

// line returns words as a line of fixed length, for people to read as well.
func line(words ...string) []byte {
	text := bytes.Repeat([]byte{' '}, recordSize)
	text[recordSize-1] = '\n'
	copy(text[:recordSize-1], strings.Join(words, " "))
	return text
}

// readRegister returns what a register says: nothing when it is missing. What cannot be read, as after a crash
// of the machine, is passed over.
func readRegister(path string) (o owner, running []record, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return owner{}, nil, nil
	}
	if err != nil {
		return owner{}, nil, fmt.Errorf("read the register of processes: %w", err)
	}
	o, running = parseRegister(data)
	return o, running, nil
}

func parseRegister(data []byte) (o owner, running []record) {
	for chunk := range slices.Chunk(data, recordSize) {
		words := strings.Fields(string(chunk))
		if len(words) == 2 && words[1] == o.mark {
			o.watched, o.stopping = o.watched || words[0] == watchedWord, o.stopping || words[0] == stoppingWord
		}
		if len(words) != 4 {
			continue
		}
		if n, err := strconv.Atoi(words[0]); err == nil && n > 1 {
			running = append(running, record{pid: n, startID: words[1], boot: words[2], mark: words[3]})
		} else if n, err := strconv.Atoi(words[1]); err == nil && words[0] == ownerWord {
			o = owner{session: n, boot: words[2], mark: words[3]}
		}
	}
	return o, running
}
