package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	markVar    = "PRODIGY_REGISTER"
	recordSize = 128

	// A group that was sent SIGKILL is gone at once, unless the kernel holds a process in it.
	killWait = 5 * time.Second
	pollStep = 10 * time.Millisecond
)

// Register is a file that says which process groups are running, so that they can be found when whoever started them was
// killed and could not end them: see EndLeftovers. There is one record for each slot. A nil Register keeps nothing, nor does one
// on Windows, where job objects end with their owner.
type Register struct {
	file *os.File
	boot string
	mark string // what all commands of this register carry in their environment
}

// OpenRegister makes an empty register. What path held before is lost, so EndLeftovers comes first.
func OpenRegister(path string) (*Register, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the register of processes: %w", err)
	}
	return &Register{file: file, boot: bootID(), mark: rand.Text()}, nil
}

// Close closes the file. No command may use the register any more.
func (r *Register) Close() error { return r.file.Close() }

// Begin records that the group that pid leads runs in slot, which is free and not negative. The leader must not have been waited
// for. A group that cannot be recorded runs all the same: what is lost is only that nobody ends it when nobody else can.
func (r *Register) Begin(slot, pid int) {
	if r == nil {
		return
	}
	start, ok := startOf(pid)
	if !ok {
		return
	}
	r.write(slot, record{pid: pid, start: start, boot: r.boot, mark: r.mark}.text())
}

// End records that nothing is left of the group in slot.
func (r *Register) End(slot int) {
	if r != nil {
		r.write(slot, blank)
	}
}

func (r *Register) write(slot int, text []byte) {
	_, _ = r.file.WriteAt(text, int64(slot)*recordSize)
}

// marked returns env with the mark of r in it.
func (r *Register) marked(env []string) []string {
	if r == nil {
		return env
	}
	if env == nil {
		env = os.Environ()
	}
	return append(slices.Clip(env), markVar+"="+r.mark)
}

// record is what is known of a running group.
type record struct {
	pid   int    // of the leader, and the id of the group
	start string // when the leader started, as the system tells it
	boot  string // of the machine: ids and times begin anew with each
	mark  string
}

var blank = record{}.text()

// text returns r as a line of fixed length, for people to read as well.
func (r record) text() []byte {
	line := bytes.Repeat([]byte{' '}, recordSize)
	line[recordSize-1] = '\n'
	if r.pid > 0 {
		copy(line[:recordSize-1], strconv.Itoa(r.pid)+" "+r.start+" "+r.boot+" "+r.mark)
	}
	return line
}

// readRegister returns the records of a register. What is no record, as after a crash of the machine, is passed over.
func readRegister(path string) ([]record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the register of processes: %w", err)
	}
	var records []record
	for chunk := range slices.Chunk(data, recordSize) {
		words := strings.Fields(string(chunk))
		if len(words) != 4 {
			continue
		}
		if pid, err := strconv.Atoi(words[0]); err == nil && pid > 1 {
			records = append(records, record{pid: pid, start: words[1], boot: words[2], mark: words[3]})
		}
	}
	return records, nil
}

// EndLeftovers ends the groups that the register at path says are running, and returns how many there were. It is for when the
// process that kept the register is dead. They get SIGTERM, and after grace SIGKILL. A file that is missing says that there is nothing.
//
// The id of a group is free for others once its last process has ended, and no sooner. So a group is the recorded one when one
// process of it is: its leader, started when the record says, or any that has the mark of the register in its environment. A
// group of which neither can be shown is left alone.
func EndLeftovers(ctx context.Context, path string, grace time.Duration) (ended int, err error) {
	records, err := readRegister(path)
	if err != nil {
		return 0, err
	}
	var left leftovers
	for _, r := range records {
		left = append(left, &leftover{record: r, known: make(map[int]string)})
	}
	if left, err = left.alive(); err != nil || len(left) == 0 {
		return 0, err
	}
	found := len(left)
	if grace > 0 {
		left, err = left.end(ctx, group.terminate, grace)
	}
	if err == nil && len(left) > 0 {
		left, err = left.end(ctx, group.kill, killWait)
	}
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("process group %d of the last run cannot be ended", left[0].pid)
	}
	return found - len(left), err
}

// leftover is a group that may have outlived its run.
type leftover struct {
	record
	known map[int]string // processes that were in the group when it was proven to be the recorded one, and when they started
}

type leftovers []*leftover

// end sends a signal to all groups and waits until they have ended or the time is up. It returns those that live.
func (l leftovers) end(ctx context.Context, signal func(group), wait time.Duration) (leftovers, error) {
	for _, g := range l {
		signal(group{id: g.pid})
	}
	limit := time.After(wait)
	poll := time.NewTicker(pollStep)
	defer poll.Stop()
	for {
		left, err := l.alive()
		if err != nil || len(left) == 0 {
			return left, err
		}
		select {
		case <-ctx.Done():
			return left, context.Cause(ctx)
		case <-limit:
			return left, nil
		case <-poll.C:
		}
	}
}

// alive returns the groups that are running and are those that were recorded.
func (l leftovers) alive() (leftovers, error) {
	if len(l) == 0 {
		return nil, nil
	}
	all, err := processes()
	if err != nil {
		return l, fmt.Errorf("look for processes of the last run: %w", err)
	}
	groups := make(map[int][]member)
	for _, m := range all {
		groups[m.group] = append(groups[m.group], m)
	}
	boot := bootID()
	var left leftovers
	for _, g := range l {
		if g.boot == boot && g.is(groups[g.pid]) {
			left = append(left, g)
		}
	}
	return left, nil
}

// is tells whether members are those of the recorded group, and one of them is running. The group of the caller is never one.
func (l *leftover) is(members []member) bool {
	ours := slices.ContainsFunc(members, func(m member) bool { return m.pid == os.Getpid() })
	if ours || !slices.ContainsFunc(members, l.proves) {
		return false
	}
	running := false
	for _, m := range members {
		l.known[m.pid] = m.start
		running = running || !m.zombie
	}
	return running
}

// proves tells whether the group of m is the recorded one because m is in it.
func (l *leftover) proves(m member) bool {
	if m.pid == l.pid {
		return m.start == l.start
	}
	start, known := l.known[m.pid]
	return known && start == m.start || carries(m.pid, markVar+"="+l.mark)
}

// member is a process and the group it is in.
type member struct {
	pid, group int
	start      string
	zombie     bool // it has ended, and nobody has waited for it
}
