package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/view"
)

// see takes the next record. The charts are made in the order of the log, so what a record changes is compared
// with what was known before it.
func (p *plot) see(r events.Record) {
	now := p.axis.at(r.Time)
	p.goTo(p.part(now, columns))
	l := &p.limits
	runs, depth, verify := p.job.Runs, p.job.Unmerged(), p.job.Merges.Verifying
	p.job.Apply(r)
	if p.job.Runs != runs {
		p.begin(now)
	}
	p.queued(r, now, depth, verify)
	p.hold(r, now)
	switch e := r.Event.(type) {
	case events.ScaleRequested:
		l.slots = e.MaxParallel
		l.change(now, r)
	case events.ConcurrencyChanged:
		if !l.adapted { // until now only the most was known
			l.adapted = true
			for i := range l.filled + 1 {
				l.cols[i].slots = e.Before
			}
		}
		l.slots, l.adapts = e.Limit, e.Rate
		l.change(now, r)
	case events.StepRetrying:
		p.stepWaits(e, now)
	case events.StepRetried:
		l.turns = true
		l.cols[l.filled].starts++
	case events.AgentStarted:
		l.turns = l.turns || e.Key != ""
		l.running++
		l.cols[l.filled].starts++
		p.started(e, now)
	case events.AgentPlaced:
		p.placed(e, now)
	}
	if end, ok := events.EndOf(r.Event); ok && end.How != events.Reused && end.How != events.Superseded {
		p.ended(end, now)
	}
	p.limited()
}

// hold notes what a record holds back, and what does so no more. Pauses of agents are known to the view.
func (p *plot) hold(r events.Record, now time.Duration) {
	for name := range check.ByKey(p.holding) {
		if !p.job.IsHeld(name) {
			p.lift(name, now)
		}
	}
	h, _ := events.HoldOf(r.Event)
	_, already := p.holding[h.Name]
	if _, quota := r.Event.(events.QuotaPaused); !quota && !already && p.job.IsHeld(h.Name) {
		p.holding[h.Name] = change{now, events.Say(r).Clause()}
	}
}

// lift ends a time in which something held back starts.
func (p *plot) lift(name string, now time.Duration) {
	c := p.holding[name]
	delete(p.holding, name)
	h := p.held[name]
	if h == nil {
		h = &hold{Text: c.text}
		p.held[name] = h
	}
	h.Times++
	h.Total += now - c.at
	if len(p.bands) < changesKept {
		p.bands = append(p.bands, rect{
			X: p.x(c.at), W: max(p.x(now)-p.x(c.at), 1), Class: "pause",
			Title: c.text + ", for " + exactly(now-c.at),
		})
	}
}

// begin begins a run of the job, in which what was in flight goes on only as far as the view says so.
func (p *plot) begin(now time.Duration) {
	for index, s := range p.runs {
		s.awaits = false // which of them wait for a worker is found out again
		if p.job.StatusOf(index) != view.InFlight {
			p.close(index, now, stopped)
		}
	}
	l := &p.limits
	l.running, l.slots = p.job.AtWork(), cmp.Or(l.slots, p.job.MaxParallel)
	l.fix(p.job.Rates)
}

// started puts an attempt in its slot, which is not known yet on a fleet.
func (p *plot) started(e events.AgentStarted, now time.Duration) {
	p.stopWaiting(e.ItemIndex, now)
	s := &span{From: now, lane: lane{slot: e.Worker}, ItemID: e.ItemID, Number: e.Attempt, fleet: e.Fleet}
	if e.Fleet {
		s.lane.slot = 0 // it waits for a worker
	}
	p.runs[e.ItemIndex], p.byID[e.ItemID] = s, s
}

// placed puts an attempt in the slot of the worker that runs it.
func (p *plot) placed(e events.AgentPlaced, now time.Duration) {
	s := p.runs[e.ItemIndex]
	if s == nil {
		return
	}
	s.lane, s.From = lane{e.Node, e.Slot}, now
	p.at(e.Place)
	if s.awaits {
		s.awaits = false
		p.limits.running++
	}
}

// ended draws an attempt that has ended, and counts what it means for its item.
func (p *plot) ended(end events.End, now time.Duration) {
	if s := p.runs[end.Index]; end.Ran && s != nil && !s.awaits && p.limits.running > 0 {
		p.limits.running--
	}
	if s := p.runs[end.Index]; end.How == events.Lost && s != nil && s.lane.node == "" {
		s.lane.node = end.Node
		p.at(end.Place)
	}
	if !end.How.GivenBack() {
		p.at(end.Place)
		p.ran(end, now)
	}
	how := outcomes[end.How]
	if how == failed && !end.Settles {
		how = retried
	}
	p.cols[p.part(now, columns)].ended[how]++
	p.close(end.Index, now, how)
	if how == retried {
		p.waiting[end.Index] = now
	}
}

var outcomes = map[events.How]outcome{
	events.Succeeded: succeeded, events.Failed: failed, events.Stopped: stopped, events.Lost: lost,
}

// ran notes where an attempt ran that ends now. One that ends soon is placed nowhere before.
func (p *plot) ran(end events.End, now time.Duration) {
	if s := p.runs[end.Index]; s != nil && end.Node != "" {
		s.lane = lane{end.Node, end.Slot}
		s.From = max(s.From, now-end.Took)
	}
}

// waitsKept bounds the waits of one attempt.
const waitsKept = 20

// stepWaits notes a wait for the next try of a step. Those of one attempt beyond waitsKept are not drawn.
func (p *plot) stepWaits(e events.StepRetrying, now time.Duration) {
	if s := p.byID[e.ItemID]; s != nil && len(s.Waits) < waitsKept {
		s.Waits = append(s.Waits, wait{From: now, To: now + time.Duration(e.DelayMS)})
	}
}

// close ends the attempt of an item, if one runs, and draws it: the breaker may have refused to start it.
func (p *plot) close(index int, now time.Duration, o outcome) {
	s := p.runs[index]
	if s == nil {
		return // rejected by the breaker
	}
	delete(p.runs, index)
	delete(p.byID, s.ItemID)
	s.To, s.Outcome = now, o
	if s.lane == (lane{}) {
		return // it never came to a worker
	}
	if s.lane.node != "" {
		t := p.tally(s.lane.node)
		t.attempts++
		switch o {
		case lost:
			t.lost++
		case stopped:
			t.back++
		}
	}
	if p.lanes[s.lane] == nil && len(p.lanes) < lanesKept {
		p.lanes[s.lane] = make([]cell, p.width)
	}
	if cells := p.lanes[s.lane]; cells != nil {
		p.fillCells(cells, s.From, s.To, o == failed || o == retried || o == lost)
	}
	if p.many = p.many || len(p.spans) == p.kept.spans; p.many {
		p.spans = nil
		return
	}
	p.spans = append(p.spans, *s)
}

// tally returns the counts of a worker of a fleet.
func (p *plot) tally(node string) *tally {
	t := p.nodes[node]
	if t == nil {
		t = new(tally)
		p.nodes[node] = t
	}
	return t
}

// at notes the machine of a worker.
func (p *plot) at(place events.Place) {
	if place.Host != "" {
		p.tally(place.Node).host = place.Host
	}
}

// stopWaiting ends the time in which an item waited for its next attempt. Only where it began and ended is
// counted, which finish adds up.
func (p *plot) stopWaiting(index int, now time.Duration) {
	from, ok := p.waiting[index]
	if !ok {
		return
	}
	delete(p.waiting, index)
	p.changes[p.part(from, columns)]++
	p.changes[p.part(now, columns)+1]--
}

// finish ends the attempts and waits that have no end in the log, and adds up the columns. Running says that
// the job goes on.
func (p *plot) finish(running bool) {
	how := stopped
	if running {
		how = unended
	}
	if v := p.job.Merges.Verifying; v != nil {
		p.verified(v, p.length, how)
	}
	p.deepen(p.length)
	for name := range check.ByKey(p.holding) {
		p.lift(name, p.length)
	}
	for index := range p.runs {
		p.close(index, p.length, how)
	}
	for index := range p.waiting {
		p.stopWaiting(index, p.length)
	}
	finished, bad, waits := 0, 0, 0
	for i := range p.cols {
		c := &p.cols[i]
		finished += c.ended[succeeded] + c.ended[failed]
		bad += c.ended[failed]
		waits += p.changes[i]
		c.finished, c.failedSoFar, c.waiting = finished, bad, waits
	}
}

// addTo adds a bar to a track. Bad says that it is about a failure.
func (p *plot) addTo(t *track, b bar, bad bool) {
	if len(t.bars) <= p.kept.spans {
		t.bars = append(t.bars, b)
	}
	p.fillCells(t.cells, b.From, b.To, bad)
}

// queued draws what a record has changed in the merge queue, whose length was depth and in which verify ran, if it
// did.
func (p *plot) queued(r events.Record, now time.Duration, depth int, verify *view.Verify) {
	m := &p.job.Merges
	p.deepen(now)
	switch e := r.Event.(type) {
	case events.WorktreeMerged:
		took := time.Duration(e.DurationMS)
		title := fmt.Sprintf("%s merged as %.10s after %s", namesOf(e.ItemIDs), e.Head, exactly(took))
		p.addTo(&p.queue.merger, bar{max(now-took, 0), now, "ok", title}, false)
	case events.AgentFailed:
		if p.job.Unmerged() == depth {
			break
		}
		class, what := "again", "rejected: "+string(e.ErrorType)
		if e.ErrorType == retry.TypeMergeConflict {
			class, what = "bad", e.Error
		}
		p.addTo(&p.queue.merger, bar{now, now, class, e.ItemID + ": " + cut(what, itemShown)}, true)
	}
	if verify == nil || m.Verifying == verify {
		return
	}
	if _, ended := r.Event.(events.VerifyCompleted); !ended {
		p.verified(verify, now, stopped)
		return
	}
	if last := m.Verifies.List[len(m.Verifies.List)-1]; last.Passed {
		p.verifiedAs(verify, now, "ok", "passed")
	} else {
		p.verifiedAs(verify, now, "bad", "failed in "+last.Step+": "+cut(last.Error, itemShown))
	}
}

// verified draws a run of verify that has no end of its own in the log.
func (p *plot) verified(v *view.Verify, now time.Duration, o outcome) {
	p.verifiedAs(v, now, classes[o].class, classes[o].word)
}

// verifiedAs draws a run of verify in a class of colours, with how it ended in words.
func (p *plot) verifiedAs(v *view.Verify, now time.Duration, class, how string) {
	since := p.axis.at(v.Began)
	title := fmt.Sprintf("verify of %s %s after %s", namesOf(v.ItemIDs), how, exactly(now-since))
	p.addTo(&p.queue.verify, bar{since, now, class, title}, class == "bad")
}

// deepen notes how many items wait to be merged from now on.
func (p *plot) deepen(now time.Duration) {
	q := &p.queue
	at := p.part(now, columns)
	for i := q.last + 1; i <= at; i++ {
		q.depths[i] = q.depth
	}
	q.last, q.depth = at, p.job.Unmerged()
	q.depths[at] = max(q.depths[at], q.depth)
}

// goTo goes on to a column. In those between nothing has changed, but that attempts are found to wait for a
// worker of a fleet.
func (p *plot) goTo(to int) {
	l := &p.limits
	for l.filled < to {
		l.filled++
		begins := p.length * time.Duration(l.filled) / columns
		for _, s := range p.runs {
			if s.fleet && !s.awaits && s.lane.node == "" && begins-s.From > view.PlacedWithin {
				s.awaits = true
				l.running = max(l.running-1, 0)
			}
		}
		l.cols[l.filled] = limitColumn{running: l.running, slots: p.allowed(), rate: l.rate}
	}
}

// limited notes what ran and what might run by now, in the column of the record.
func (p *plot) limited() {
	l := &p.limits
	c := &l.cols[l.filled]
	if l.rate = l.adapts; l.rate == 0 || l.fixed > 0 && l.fixed < l.rate {
		l.rate = l.fixed
	}
	if l.adapted {
		l.slots = max(l.slots, l.running) // the log does not have each small step of an adaptive limit
	}
	c.running, c.slots, c.rate = max(c.running, l.running), max(c.slots, p.allowed()), l.rate
}

// allowed returns how many attempts may run at once: as many as do until the slots of a fleet are known.
func (p *plot) allowed() int {
	if p.job.MaxParallel == 0 && !p.job.OnFleet {
		return p.limits.running
	}
	return p.limits.slots
}

// fix takes the rates that the workflow has from now on.
func (l *limits) fix(rates []events.StartRate) {
	l.fixed = 0
	for _, r := range rates {
		l.turns = true
		if r.Step == "" && r.Per == "" {
			l.fixed = r.PerSecond
		}
		if len(l.rates) < ratesKept && !slices.Contains(l.rates, r.Words()) {
			l.rates = append(l.rates, r.Words())
		}
	}
}

// change notes that a limit has changed, with the sentence of its event.
func (l *limits) change(at time.Duration, r events.Record) {
	if len(l.changes) < changesKept {
		l.changes = append(l.changes, change{at, events.Say(r).Clause()})
	}
}

// ratesKept bounds the rates of the workflows of a job that are written out.
const ratesKept = 20

// changesKept bounds the changes, and the times without starts, that are drawn.
const changesKept = 200
