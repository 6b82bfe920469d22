package process

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	// A group that was sent SIGKILL is gone at once, unless the kernel holds a process in it.
	killWait = 5 * time.Second
	pollStep = 10 * time.Millisecond
)

// EndLeftovers ends the groups that the register at path says are running, and returns how many there were. It is for when the
// process that kept the register is dead. They get SIGTERM, and after grace SIGKILL. A file that is missing says that there is nothing.
//
// The id of a group is free for others once its last process has ended, and no sooner. So a group is the recorded one when one
// process of it is: its leader, as its birth shows, or any that has the mark of the register in its environment. A
// group of which neither can be shown is left alone. One that was started and not yet recorded is found by the mark too, unless it
// has left the session.
func EndLeftovers(ctx context.Context, path string, grace time.Duration) (ended int, err error) {
	owner, running, err := readRegister(path)
	if err != nil {
		return 0, err
	}
	return endGroups(ctx, owner, running, grace)
}

func endGroups(ctx context.Context, o owner, running []record, grace time.Duration) (ended int, err error) {
	strays, err := o.strays(running)
	if err != nil {
		return 0, err
	}
	var left leftovers
	for _, r := range append(running, strays...) {
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

// strays returns the groups of the owner's session in which there is a process with its mark and which are not among the recorded.
func (o owner) strays(recorded []record) ([]record, error) {
	if o.boot != bootID() {
		return nil, nil
	}
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("look for processes of the last run: %w", err)
	}
	known := make(map[int]bool)
	for _, r := range recorded {
		known[r.pid] = true
	}
	var found []record
	for _, m := range all {
		if m.session == o.session && !known[m.group] && !m.zombie && carries(m.pid, markVar+"="+o.mark) {
			known[m.group] = true
			r := record{pid: m.group, boot: o.boot, mark: o.mark}
			if m.pid == m.group {
				r.birth = m.start
			}
			found = append(found, r)
		}
	}
	return found, nil
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
		return m.born(l.birth)
	}
	start, known := l.known[m.pid]
	return known && start == m.start || carries(m.pid, markVar+"="+l.mark)
}

// member is a process and the group it is in.
type member struct {
	pid, group, session int
	start               string
	zombie              bool // it has ended, and nobody has waited for it
}
