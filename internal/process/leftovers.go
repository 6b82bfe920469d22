package process

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// A group that was sent SIGKILL is gone at once, unless the kernel holds a process in it.
	killWait = 5 * time.Second

	// To look whether they have ended is to look at all processes. Most end at once; who takes long may take
	// all of a long grace.
	pollStep    = 10 * time.Millisecond
	maxPollStep = 250 * time.Millisecond
)

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
	if err != nil {
		return 0, err
	}
	return endGroups(ctx, owner, running, grace)
}

// searches is how often endGroups looks for groups: those that it ends may be starting others.
const searches = 10

func endGroups(ctx context.Context, o owner, running []record, grace time.Duration) (ended int, err error) {
	for range searches {
		strays, err := o.strays(running)
		if err != nil {
			return ended, err
		}
		n, err := endRecorded(ctx, append(running, strays...), grace)
		ended += n
		if err != nil || n == 0 {
			return ended, err
		}
		running = nil
	}
	return ended, nil
}

func endRecorded(ctx context.Context, groups []record, grace time.Duration) (ended int, err error) {
	var left leftovers
	for _, r := range groups {
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

// strays returns the groups with a process that has the owner's mark and is in its session, or belongs to a
// command with EndAll. Those that are recorded are not among them.
func (o owner) strays(recorded []record) ([]record, error) {
	if o.boot != BootID() {
		return nil, nil
	}
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("look for processes of the last run: %w", err)
	}
	found := groupsOf(all, func(m member) bool {
		known := slices.ContainsFunc(recorded, func(r record) bool { return r.pid == m.group })
		return !known && environHas(m.pid, func(kv string) bool {
			return m.session == o.session && kv == markVar+"="+o.mark || hasMarkOf(o.mark, kv)
		})
	})
	for i := range found {
		found[i].boot, found[i].mark = o.boot, o.mark
	}
	return found, nil
}

// hasMarkOf reports whether kv holds the mark of a command with EndAll, whose register has this mark.
func hasMarkOf(register, kv string) bool {
	return hasMark(kv, func(mark string) bool { return strings.HasPrefix(mark, register+ownerSeparator) })
}

// groupsOf returns the groups with a running process that is wanted, and the startID of each leader that is
// one. The group of this process is not among them.
func groupsOf(all []member, wanted func(member) bool) []record {
	known := make(map[int]bool)
	if i := slices.IndexFunc(all, func(m member) bool { return m.pid == os.Getpid() }); i >= 0 {
		known[all[i].group] = true
	}
	var found []record
	for _, m := range all {
		if known[m.group] || m.zombie || !wanted(m) {
			continue
		}
		known[m.group] = true
		r := record{pid: m.group}
		if m.pid == m.group {
			r.startID = m.start
		}
		found = append(found, r)
	}
	return found
}

// leftover is a group that may have outlived its run.
type leftover struct {
	record
	// processes that were in the group when it was proven to be the recorded one, and when they started
	known map[int]string
}

type leftovers []*leftover

// end sends a signal to all groups and waits until they have ended or the time is up. It returns those that live.
func (l leftovers) end(ctx context.Context, signal func(group), wait time.Duration) (leftovers, error) {
	for _, g := range l {
		signal(group{id: g.pid})
	}
	limit := time.After(wait)
	for step := pollStep; ; step = min(step+step/4, maxPollStep) {
		left, err := l.alive()
		if err != nil || len(left) == 0 {
			return left, err
		}
		select {
		case <-ctx.Done():
			return left, context.Cause(ctx)
		case <-limit:
			return left, nil
		case <-time.After(step):
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
	boot := BootID()
	var left leftovers
	for _, g := range l {
		if g.boot == boot && g.is(groups[g.pid]) {
			left = append(left, g)
		}
	}
	return left, nil
}

// is reports whether members are those of the recorded group, and one of them is running. The group of the
// caller is never one.
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

// proves reports whether m shows that its group is the recorded one.
func (l *leftover) proves(m member) bool {
	if m.pid == l.pid {
		return m.start == l.startID
	}
	start, known := l.known[m.pid]
	return known && start == m.start || environHas(m.pid, func(kv string) bool {
		return kv == markVar+"="+l.mark || hasMarkOf(l.mark, kv)
	})
}

// member is a process and the group it is in.
type member struct {
	pid, group, session int
	start               string // a number, in units of the system
	zombie              bool   // it has ended, and nobody has waited for it
}

func (m member) startedBefore(start string) bool {
	return cmp.Or(cmp.Compare(len(m.start), len(start)), cmp.Compare(m.start, start)) < 0
}
