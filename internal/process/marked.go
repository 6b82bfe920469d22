package process

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"
)

// markedVar is the variable that the processes of a command with EndAll carry: its mark and, when this prodigy
// runs in a command of another one, the marks of the commands around it, with colons between them.
const markedVar = "PRODIGY_MARKS"

const (
	marksSeparator = ":"
	ownerSeparator = "." // behind the mark of the register in that of a command
)

// newMark returns a mark for one command. It begins with that of the register, so that its processes can also
// be found by who reads the register when this process is dead.
func newMark(r *Register) string {
	if r == nil {
		return rand.Text()
	}
	return r.owner.mark + ownerSeparator + rand.Text()
}

// marksWith returns the variable that adds mark to those in env.
func marksWith(mark string, env []string) string {
	for _, kv := range slices.Backward(env) {
		if strings.HasPrefix(kv, markedVar+"=") {
			return kv + marksSeparator + mark
		}
	}
	return markedVar + "=" + mark
}

// environHas reports whether a process was started with a variable of ours that is wanted.
func environHas(pid int, wanted func(kv string) bool) bool {
	environ, _ := environOf(pid) // one that is not shown has none
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.HasPrefix(kv, []byte(ourPrefix)) && wanted(string(kv)) {
			return true
		}
	}
	return false
}

// hasMark reports whether kv holds marks, and one of them is wanted.
func hasMark(kv string, wanted func(mark string) bool) bool {
	list, ok := strings.CutPrefix(kv, markedVar+"=")
	return ok && slices.ContainsFunc(strings.Split(list, marksSeparator), wanted)
}

// marked are the processes of one command that have left its group. They are known by its mark in their
// environment. A nil marked has none.
type marked struct {
	mark   string
	group  int           // of the command
	killed chan struct{} // closed when their grace is over
	once   sync.Once

	mu sync.Mutex
	// when the members of these groups began, by process id: a group stays one of them while any of these lives
	known map[int]string
}

func newMarked(mark string, of group) *marked {
	if mark == "" {
		return nil
	}
	return &marked{mark: mark, group: of.id, killed: make(chan struct{})}
}

func (m *marked) isIn(kv string) bool {
	return hasMark(kv, func(mark string) bool { return mark == m.mark })
}

// groups returns the groups that they are in. When the processes cannot be listed there are none.
func (m *marked) groups() []record {
	all, err := processes()
	if err != nil {
		return nil
	}
	began := "" // where the leader is not seen any more
	for _, p := range all {
		if p.pid == m.group {
			began = p.start
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := groupsOf(all, func(p member) bool {
		if p.group == m.group {
			return false
		}
		start, known := m.known[p.pid]
		return known && start == p.start || !p.startedBefore(began) && environHas(p.pid, m.isIn)
	})
	// A process that carries the mark may end before others of its group that have hidden it.
	m.known = map[int]string{}
	for _, p := range all {
		if !p.zombie && slices.ContainsFunc(found, func(r record) bool { return r.pid == p.group }) {
			m.known[p.pid] = p.start
		}
	}
	return found
}

// send sends them a signal and returns how many groups they were in.
func (m *marked) send(signal func(group)) int {
	if m == nil {
		return 0
	}
	found := m.groups()
	for _, r := range found {
		signal(group{id: r.pid})
	}
	return len(found)
}

// kill kills them and ends their grace.
func (m *marked) kill() {
	if m == nil {
		return
	}
	m.send(group.kill)
	m.once.Do(func() { close(m.killed) })
}

// wait waits until they have ended or their grace is over.
func (m *marked) wait() {
	if m == nil {
		return
	}
	for step := pollStep; len(m.groups()) > 0; step = min(step+step/4, maxPollStep) {
		select {
		case <-m.killed:
			return
		case <-time.After(step):
		}
	}
}

// end kills them until none is left: one that is being started while the others are looked for is found the
// next time. What the kernel holds is given up after a while.
func (m *marked) end() {
	limit := time.Now().Add(killWait)
	for m.send(group.kill) > 0 && time.Now().Before(limit) {
		time.Sleep(pollStep)
	}
}
