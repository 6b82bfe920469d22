package natsfleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// applyStatus takes what a worker says of itself. It is called with the lock held.
func (c *coordinator) applyStatus(w fleet.WorkerStatus, now time.Time) {
	s := c.outboxOf(w.Instance)
	if w.Full {
		clear(s.sent)
	}
	over, again := c.dispatcher.Update(w, now)
	c.countSlots()
	for _, token := range over {
		if c.pendingByToken[token] == nil {
			s.over = append(s.over, token)
		}
	}
	if w.Full && len(c.ends) > 0 {
		for _, token := range w.Holds {
			c.endAlone(token)
		}
	}
	if s.again = s.again || again; s.again || len(s.over) > 0 {
		c.sendSoon(w.Instance, s)
	}
	c.dispatch(now)
	if w.Gone {
		// One that still had something is remembered: this run may die before the log says how that has ended, and the next one must not take it for never begun.
		if w.Full && len(w.Holds) == 0 && !c.dispatcher.Knows(w.Instance) {
			c.work.Go(func() { _ = c.note("-", []fleet.WorkerStatus{w}) })
		}
		delete(c.outboxes, w.Instance)
	}
}

// join notes new workers, and hears them then: they are given nothing before, since a resume would not know that they were.
func (c *coordinator) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.joining) > 0 {
		words := slices.Clone(c.joining)
		c.mu.Unlock()
		err := c.note("+", words)
		c.mu.Lock()
		c.joining = c.joining[len(words):]
		if err != nil {
			continue // they will say so again
		}
		for _, w := range words {
			c.noted[w.Instance] = true
			c.applyStatus(w, time.Now())
		}
	}
}

// openMembers opens the file by which workers find the directory, and which has the instances that were given something. A resume reads there who may
// have what the run before gave out.
func (c *coordinator) openMembers(key string, adopts bool) error {
	var before []byte
	if adopts {
		before, _ = os.ReadFile(c.probe)
	}
	f, err := os.OpenFile(c.probe, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	c.members = f
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s%d\n", key, epochSign, c.epoch)
	known := map[string]bool{}
	lines := strings.Split(string(before), "\n")
	for _, line := range lines[min(1, len(lines)):] {
		if rest, ok := strings.CutPrefix(line, givenSign); ok {
			token, id, _ := strings.Cut(rest, " ")
			if n, err := strconv.ParseInt(token, 10, 64); err == nil {
				c.given[n] = id
			}
		} else if instance, ok := strings.CutPrefix(line, "+"); ok {
			known[instance] = true
		} else if instance, ok := strings.CutPrefix(line, "-"); ok {
			delete(known, instance)
		}
	}
	for instance := range known {
		c.noted[instance], c.present[instance] = true, true
		text.WriteString("+" + instance + "\n")
	}
	c.writeGiven(&text)
	c.mu.Lock()
	c.dispatcher.Expect(slices.Collect(maps.Keys(known)), adopts && lines[0] != key, time.Now())
	c.mu.Unlock()
	if _, err := f.WriteString(text.String()); err != nil {
		return err
	}
	return f.Sync()
}

// epochSign begins the line of that file that has the epoch of the last coordinator.
const epochSign = "="

// epochIn returns the epoch of the last coordinator that had the job in this directory; 0 if there was none, or the job has ended. The clock of that one
// may have been ahead of this one's, and the broker may have lost its lock since.
func epochIn(path string) int64 {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), epochSign); ok {
			n, _ := strconv.ParseInt(text, 10, 64)
			return n
		}
	}
	return 0
}

// note writes down that instances may be given something from now on, or have nothing any more.
func (c *coordinator) note(sign string, words []fleet.WorkerStatus) error {
	var text strings.Builder
	for _, w := range words {
		text.WriteString(sign + w.Instance + "\n")
	}
	c.noting.Lock()
	defer c.noting.Unlock()
	for _, w := range words {
		if c.present[w.Instance] = true; sign == "-" {
			delete(c.present, w.Instance)
		}
	}
	if _, err := c.members.WriteString(text.String()); err != nil {
		return err
	}
	return c.members.Sync()
}

// givenSign begins the lines of that file that say which worker an attempt was given to. They are not synced: without one, the worker that speaks first
// has the attempt.
const givenSign = ":"

// noteGiven notes the worker that attempts are about to be given to. After a resume no other one can say that it has them.
func (c *coordinator) noteGiven(instance string, tokens []int64) {
	id := idOf(instance)
	var text strings.Builder
	c.mu.Lock()
	for _, token := range tokens {
		if c.flights[token] != nil {
			c.given[token] = id
			fmt.Fprintf(&text, "%s%d %s\n", givenSign, token, id)
		}
	}
	c.mu.Unlock()
	c.noting.Lock()
	defer c.noting.Unlock()
	if c.givenSize += text.Len(); c.givenSize < mostGiven {
		_, _ = c.members.WriteString(text.String())
		return
	}
	// Most of those in the file have ended.
	text.Reset()
	fmt.Fprintf(&text, "%s\n%s%d\n", c.key, epochSign, c.epoch)
	for instance := range c.present {
		text.WriteString("+" + instance + "\n")
	}
	c.writeGiven(&text)
	path := c.probe + ".new"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	if _, err = f.WriteString(text.String()); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path, c.probe)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return
	}
	_ = c.members.Close()
	c.members = f
}

// mostGiven is how many bytes there are about attempts in that file before it is written anew.
const mostGiven = 1 << 20

// writeGiven writes who has which attempts.
func (c *coordinator) writeGiven(text *strings.Builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := text.Len()
	for token, id := range c.given {
		fmt.Fprintf(text, "%s%d %s\n", givenSign, token, id)
	}
	c.givenSize = (text.Len() - before) / 2 // it may double
}

// isGivenTo reports whether an instance may have an attempt. It is called with the lock held.
func (c *coordinator) isGivenTo(token int64, instance string) bool {
	id, known := c.given[token]
	return !known || id == idOf(instance)
}

// starvation is a time in which attempts wait and no worker takes part.
type starvation struct {
	since time.Time // zero: there are some
	told  bool
}

// starvedFor is how long that may last before somebody is told.
const starvedFor = 2 * time.Second

func (d *starvation) look(c *coordinator, now time.Time) {
	c.mu.Lock()
	alone, waiting := c.dispatcher.NoWorkers() && c.ups != nil && !c.held, c.dispatcher.Len()
	c.mu.Unlock()
	switch {
	case !alone:
		*d = starvation{}
	case d.since.IsZero():
		d.since = now
	case !d.told && now.Sub(d.since) >= starvedFor:
		d.told = true
		c.notify("no worker takes part, and attempts wait: %d; start one with: prodigy worker %s", waiting, c.o.WorkerFlags())
	}
}

// monitor finds lost attempts, and now and then what the broker has lost.
func (c *coordinator) monitor() {
	tick := time.NewTicker(c.dispatcher.Every)
	defer tick.Stop()
	checked, renewed := time.Now(), time.Now()
	var away absence
	var suspected []fleet.Loss // that were silent the last time
	var alone starvation
	for {
		select {
		case <-c.life.Done():
			return
		case <-tick.C:
		}
		if !c.nc.IsConnected() {
			away.missing(c, time.Now())
			continue
		}
		if err := c.nc.FlushTimeout(c.dispatcher.Every); err != nil { // nobody can be heard
			away.missing(c, time.Now())
			c.mu.Lock()
			c.restartLeases()
			c.mu.Unlock()
			continue
		}
		away.back(c)
		now := time.Now()
		c.mu.Lock()
		refused := c.refuses.now(now)
		c.mu.Unlock()
		if past := now.Sub(renewed); past > c.o.Lease/4 || refused && past > refusedFor/5 {
			renewed = now
			ctx, cancel := context.WithTimeout(c.life, requestTime)
			if err := c.renewLock(ctx); errors.Is(err, errTaken) {
				c.taken()
			} else if err != nil { // there may be room for so little, and no more
				c.noteKept(err)
			}
			cancel()
		}
		c.lookAtStore(now)
		alone.look(c, now)
		c.mu.Lock()
		silent := c.dispatcher.Lost(now)
		c.countSlots()
		unread := 0
		if c.ups != nil {
			unread, _, _ = c.ups.Pending()
		}
		c.mu.Unlock()
		if len(silent) > 0 && (unread > 0 || !c.heardAll()) { // the end of some may be among what is to be read
			silent = nil
		}
		had := map[string]int{} // attempts that were lost, by the worker
		c.mu.Lock()
		for _, lost := range silent {
			if !slices.Contains(suspected, lost) {
				continue // what was read when it was asked about has been taken by the next time
			}
			if f := c.flights[lost.Token]; lost.Left && f != nil && f.fetches { // it has come
				continue
			}
			reason := fmt.Sprintf("its worker has not been heard of for %s", c.o.Lease)
			if lost.Left {
				reason = "the broker has lost the report of its end"
			}
			if c.endFlight(lost.Token, flightEnd{err: &agent.LostError{Node: lost.Node, Reason: reason, Unbegun: !lost.Began}}, pendingAck{}) {
				had[lost.Node]++
			}
		}
		suspected = silent
		var back []ticket
		for instance, list := range c.tickets {
			if now.Sub(c.seen[instance]) > c.o.Lease {
				back = append(back, list...)
				delete(c.tickets, instance)
			}
		}
		c.mu.Unlock()
		for _, node := range slices.Sorted(maps.Keys(had)) {
			c.notify("worker %s is lost, and what it had goes elsewhere: %d", cmp.Or(node, "(of the run before)"), had[node])
		}
		for _, t := range back {
			t.release()
		}
		if now.Sub(checked) > time.Minute {
			checked = now
			c.reconcile(false)
			c.sweep(c.life)
		}
	}
}
