package process

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

const (
	// A group that was sent SIGKILL is gone at once, unless the kernel holds a process in it.
	killWait = 5 * time.Second

	// To look whether they have ended is to look at all processes. Most end at once; who takes long may take
	// all of a long grace.
	pollStep    = 10 * time.Millisecond
	maxPollStep = 250 * time.Millisecond
)

// hunt finds the process groups of a run that is dead, or those that a command has left in other sessions, and ends
// them. Each look is a new one, since they may be starting others. A nil hunt finds none.
type hunt struct {
	// proves reports whether a process shows that its group is one of them.
	proves func(member) bool

	// over ends when their grace is over.
	over   context.Context
	giveUp context.CancelFunc

	// known says when the members of these groups began, by process id: a group stays one of them while any of these
	// lives, also when the one that has proved it is gone.
	mu    sync.Mutex
	known map[int]string
}

func newHunt(proves func(member) bool) *hunt {
	h := &hunt{proves: proves}
	h.over, h.giveUp = context.WithCancel(context.Background())
	return h
}

// groups returns the groups that have a running process. The group of this process is not among them.
func (h *hunt) groups() ([]int, error) {
	if h == nil {
		return nil, nil
	}
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ours, proven, running := 0, map[int]bool{}, map[int]bool{}
	for _, m := range all {
		if m.pid == os.Getpid() {
			ours = m.group
		}
		start, known := h.known[m.pid]
		proven[m.group] = proven[m.group] || known && start == m.start || h.proves(m)
		running[m.group] = running[m.group] || !m.zombie
	}
	h.known = map[int]string{}
	for _, m := range all {
		if proven[m.group] {
			h.known[m.pid] = m.start
		}
	}
	var found []int
	for id, is := range check.ByKey(running) {
		if is && proven[id] && id != ours {
			found = append(found, id)
		}
	}
	return found, nil
}

// send sends them a signal and returns which groups they were in.
func (h *hunt) send(signal func(group)) ([]int, error) {
	found, err := h.groups()
	for _, id := range found {
		signal(group{id: id})
	}
	return found, err
}

// kill kills them and ends their grace.
func (h *hunt) kill() {
	if h != nil {
		_, _ = h.send(group.kill)
		h.giveUp()
	}
}

// wait sends them a signal, also those that are started meanwhile, until they have ended or ctx has.
func (h *hunt) wait(ctx context.Context, signal func(group)) error {
	for step := pollStep; ; step = min(step+step/4, maxPollStep) {
		left, err := h.send(signal)
		if err != nil || len(left) == 0 {
			return err
		}
		if duration.Sleep(ctx, step) != nil {
			return nil
		}
	}
}

// end kills them until none is left: one that is being started while the others are looked for is found the
// next time. What the kernel holds is given up after a while.
func (h *hunt) end() (left []int, err error) {
	for limit := time.Now().Add(killWait); ; time.Sleep(pollStep) {
		left, err = h.send(group.kill)
		if err != nil || len(left) == 0 || time.Now().After(limit) {
			return left, err
		}
	}
}

// EndLeftovers ends the groups that the register at path says are running, and returns how many there were. It
// is for when the process that kept the register is dead. They get SIGTERM, and after grace SIGKILL. A file
// that is missing says that there is nothing.
//
// The id of a group is free for others once its last process has ended, and no sooner. So a group is the
// recorded one when one process of it is: its leader, as its startID shows, or any that has the mark of the
// register in its environment. A group of which neither can be shown is left alone. One that was started and
// not yet recorded is found by the mark too, unless it has left the session. What belongs to a command with
// EndAll is found in any session.
func EndLeftovers(ctx context.Context, path string, grace time.Duration) (ended int, err error) {
	owner, running, err := readRegister(path)
	if err != nil || owner.mark == "" && len(running) == 0 {
		return 0, err
	}
	return owner.end(ctx, running, grace)
}

// end ends what is left of a run: the recorded groups, and what has its mark.
func (o owner) end(ctx context.Context, running []record, grace time.Duration) (ended int, err error) {
	h := o.hunt(running)
	found, err := h.groups()
	if err != nil || len(found) == 0 {
		return 0, err
	}
	if grace > 0 {
		waiting, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		told := map[int]bool{}
		err = h.wait(waiting, func(g group) {
			if !told[g.id] {
				g.terminate()
			}
			told[g.id] = true
		})
		found = slices.Collect(maps.Keys(told))
	}
	if err != nil || ctx.Err() != nil {
		return 0, cmp.Or(err, context.Cause(ctx))
	}
	left, err := h.end()
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("cannot kill process group %d of the last run", left[0])
	}
	return max(len(found)-len(left), 0), err
}

// hunt returns the hunt for the recorded groups of a run, and for what has its mark.
func (o owner) hunt(running []record) *hunt {
	recorded, boot := map[int]record{}, BootID()
	for _, r := range running {
		if r.boot == boot {
			recorded[r.pid] = r
		}
	}
	return newHunt(func(m member) bool {
		r, known := recorded[m.group]
		switch {
		case known && m.pid == m.group && m.hasStartID(r.startID):
			return true
		case !known && o.boot == boot:
			r.mark = o.mark
		}
		return r.mark != "" && environHas(m.pid, func(kv string) bool {
			return (known || m.session == o.session) && kv == markVar+"="+r.mark ||
				hasMark(kv, func(mark string) bool { return strings.HasPrefix(mark, r.mark+ownerSeparator) })
		})
	})
}

// newMarked returns the hunt for the processes with a mark that have left the group of their command; nil without a
// mark.
func newMarked(mark string, of group) *hunt {
	if mark == "" {
		return nil
	}
	return newHunt(func(m member) bool {
		return m.group != of.id && environHas(m.pid, func(kv string) bool {
			return hasMark(kv, func(one string) bool { return one == mark })
		})
	})
}

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
	return r.mark + ownerSeparator + rand.Text()
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

// member is a process and the group it is in.
type member struct {
	pid, group, session int
	start               string // a number, in units of the system
	zombie              bool   // it has ended, and nobody has waited for it
}
