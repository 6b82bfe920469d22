package natsfleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/duration"
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
		if c.pendingByToken[token] == nil && !c.detachedTokens[token] {
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
		if err != nil { // they will say so again
			c.mu.Unlock()
			c.notifyOnce("members", "workers cannot be given anything: the file with their names cannot be written: %v. Make room on its disk, or let prodigy write it; they take part as soon as it can", err)
			c.mu.Lock()
			continue
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
			if n, err := strconv.ParseInt(token, 10, 64); err == nil && isCapital(id) {
				c.given[n] = id
			}
		} else if strings.HasPrefix(line, lostSign) {
			c.readLost(line)
		} else if instance, ok := strings.CutPrefix(line, "+"); ok && validInstance(instance) {
			known[instance] = true
		} else if instance, ok := strings.CutPrefix(line, "-"); ok {
			delete(known, instance)
		}
	}
	for instance := range known {
		c.noted[instance], c.present[instance] = true, true
		text.WriteString("+" + instance + "\n")
	}
	c.writeAttempts(&text)
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
	err := c.appendMembers(text.String())
	if err == nil {
		err = c.members.Sync()
		c.torn = err != nil
	}
	return err
}

// appendMembers adds lines to that file. It is called with noting held.
func (c *coordinator) appendMembers(lines string) error {
	if c.torn {
		lines = "\n" + lines
	}
	_, err := c.members.WriteString(lines)
	c.torn = err != nil
	return err
}

// givenSign begins the lines of that file that say which worker an attempt was given to. They are not synced: without one, the worker that speaks first
// has the attempt.
const givenSign = ":"

// noteGiven notes the worker that attempts are about to be given to. No other one can say that it has them, also after a resume. What another one was given
// since is sent too late, and refused.
func (c *coordinator) noteGiven(instance string, tokens []int64) {
	id := idOf(instance)
	var text strings.Builder
	c.mu.Lock()
	for _, token := range tokens {
		if c.flights[token] != nil && c.dispatcher.HolderOf(token) == instance {
			c.given[token] = id
			fmt.Fprintf(&text, "%s%d %s\n", givenSign, token, id)
		}
	}
	c.mu.Unlock()
	c.addMembers(text.String())
}

// addMembers adds lines about attempts to that file.
func (c *coordinator) addMembers(lines string) {
	c.noting.Lock()
	defer c.noting.Unlock()
	if c.life.Err() != nil { // the file may be removed
		return
	}
	if c.attemptsSize += len(lines); c.attemptsSize < mostOfAttempts {
		_ = c.appendMembers(lines)
		return
	}
	// Most of those in the file have ended.
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s%d\n", c.key, epochSign, c.epoch)
	for instance := range c.present {
		text.WriteString("+" + instance + "\n")
	}
	c.writeAttempts(&text)
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
	c.members, c.torn = f, false
}

// mostOfAttempts is how many bytes there are about attempts in that file before it is written anew.
const mostOfAttempts = 1 << 20

// writeAttempts writes who has which attempts, and which are lost.
func (c *coordinator) writeAttempts(text *strings.Builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := text.Len()
	for token, id := range c.given {
		fmt.Fprintf(text, "%s%d %s\n", givenSign, token, id)
	}
	c.writeLost(text)
	c.attemptsSize = (text.Len() - before) / 2 // it may double
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
	alone, waiting, refusing := c.dispatcher.NoWorkers() && c.ups != nil && !c.held, c.dispatcher.Len(), c.roster.refusing()
	c.mu.Unlock()
	switch {
	case !alone:
		*d = starvation{}
	case d.since.IsZero():
		d.since = now
	case !d.told && now.Sub(d.since) >= starvedFor:
		d.told = true
		var flags strings.Builder
		flags.WriteString(c.o.WorkerFlags())
		for _, label := range c.o.Requires {
			flags.WriteString(" --label " + label)
		}
		c.notify("no worker takes part%s, and attempts wait: %d; start one with: prodigy worker %s", refusing, waiting, flags.String())
	}
}

// silence has the instances whose silence was told.
type silence map[string]bool

// look says which workers are silent, and which of those are back.
func (s silence) look(c *coordinator, now time.Time) {
	c.mu.Lock()
	unread := 0
	if c.ups != nil {
		unread, _, _ = c.ups.Pending()
	}
	silent := c.dispatcher.Silent(now)
	back := map[string]bool{}
	for instance := range s {
		switch {
		case slices.ContainsFunc(silent, func(w fleet.Silence) bool { return w.Instance == instance }):
		case c.dispatcher.IsHeard(instance, now):
			back[c.roster[instance].name] = true
			delete(s, instance)
		case !c.dispatcher.Knows(instance): // it has ended, or is lost
			delete(s, instance)
		}
	}
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(back)) {
		c.notify("worker %s is back", name)
	}
	for _, w := range silent {
		if unread > 0 || s[w.Instance] { // what is to be read may be from it
			continue
		}
		s[w.Instance] = true
		text := ", and is given nothing"
		if w.Holds > 0 {
			text = fmt.Sprintf(", and what it has goes elsewhere in %s: %d", duration.Format((c.dispatcher.Lease - w.For).Round(time.Second)), w.Holds)
		}
		c.notify("worker %s has been silent for %s%s", w.Node, duration.Format(w.For.Round(time.Second)), text)
	}
}

// monitor finds lost attempts, and now and then what the broker has lost.
func (c *coordinator) monitor() {
	often := c.dispatcher.Every
	if c.o.Patience > 0 {
		often = min(often, max(c.o.Patience, time.Second)) // an answer may be on the way for so long
	}
	tick, look := time.NewTicker(often), time.NewTicker(min(often, starvedFor/2))
	defer tick.Stop()
	defer look.Stop()
	tended, lock := time.Now(), renewal{time.Now()}
	var away absence
	var alone starvation
	var suspected suspicion
	silent := silence{}
	for {
		select {
		case <-c.life.Done():
			return
		case <-look.C:
			now := time.Now()
			if !c.nc.IsConnected() {
				away.missing(c, now, now)
				continue
			}
			alone.look(c, now)
			silent.look(c, now)
			continue
		case <-tick.C:
		}
		asked := time.Now()
		if !c.nc.IsConnected() {
			away.missing(c, asked, asked)
			continue
		}
		if err := c.nc.FlushTimeout(often); err != nil { // nobody can be heard
			away.missing(c, asked, time.Now())
			c.mu.Lock()
			c.restartLeases()
			c.mu.Unlock()
			continue
		}
		away.back(c)
		now := time.Now()
		lock.look(c, now)
		c.lookAtStore(now)
		suspected.look(c, now)
		c.releaseTickets(now)
		if now.Sub(tended) > c.tendEvery && c.tending.CompareAndSwap(false, true) {
			tended = now
			c.work.Go(c.tend)
		}
	}
}

// renewal follows when the lock of the job was renewed.
type renewal struct{ last time.Time }

// look renews the lock when it is time, and more often while the broker refuses things: it may have room again.
func (r *renewal) look(c *coordinator, now time.Time) {
	c.mu.Lock()
	refused := c.refuses.now(now)
	c.mu.Unlock()
	if past := now.Sub(r.last); past <= c.o.Lease/4 && (!refused || past <= refusedFor/5) {
		return
	}
	r.last = now
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	if err := c.renewLock(ctx); errors.Is(err, errTaken) {
		c.taken()
	} else if err != nil { // there may be room for so little, and no more
		c.noteKept(err)
	}
}

// suspicion has the attempts whose workers were silent the last time.
type suspicion struct{ of []fleet.Loss }

// look ends the attempts that are lost. What was read when it was asked about has been taken by the next time, so an attempt is lost when its worker is silent
// twice.
func (s *suspicion) look(c *coordinator, now time.Time) {
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
	had, forgot := map[string]int{}, map[string]int{} // attempts that were lost, by the worker
	c.mu.Lock()
	for _, lost := range silent {
		switch {
		case !slices.Contains(s.of, lost) || !c.endLost(lost):
		case lost.Missing:
			forgot[lost.Node]++
		default:
			had[lost.Node]++
		}
	}
	c.mu.Unlock()
	s.of = silent
	for _, node := range slices.Sorted(maps.Keys(had)) {
		c.notify("worker %s is lost, and what it had goes elsewhere: %d", cmp.Or(node, "(of the run before)"), had[node])
	}
	for _, node := range slices.Sorted(maps.Keys(forgot)) {
		c.notify("worker %s has given up what it had, and it begins again: %d", node, forgot[node])
	}
}

// endLost ends an attempt that is lost, and reports whether it has: one whose end is here, and is known when all is fetched that it has left, needs its
// worker no more, and a report that is read may be such an end. It is called with the lock held.
func (c *coordinator) endLost(lost fleet.Loss) bool {
	if f := c.flights[lost.Token]; f != nil && (f.fetches || f.isReading(math.MaxInt)) {
		return false
	}
	reason := fmt.Sprintf("its worker has not been heard of for %s", c.o.Lease)
	switch {
	case lost.Left:
		reason = "the broker has lost the report of its end"
	case lost.Missing:
		reason = "its worker has it no more, and nobody knows how it ended"
	}
	return c.endFlight(lost.Token, flightEnd{err: &agent.LostError{Node: lost.Node, Reason: reason, Unbegun: !lost.Began, Cut: lost.Missing}}, pendingAck{})
}

// releaseTickets gives back the starts that workers were admitted to which have been silent for a lease.
func (c *coordinator) releaseTickets(now time.Time) {
	c.mu.Lock()
	lost := c.lostTickets(now)
	c.mu.Unlock()
	for _, t := range lost {
		t.release()
	}
}
