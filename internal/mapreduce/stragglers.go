package mapreduce

import (
	"container/heap"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// An attempt that takes much longer than the others is a straggler. With `duplicate` a second attempt at its item begins then, in a slot that nothing else
// needs. The first success counts; a failure only when no other attempt at the item runs. What does not count is superseded: it uses up no try, and
// neither breaker nor budget of retries learns of it. Both attempts are in the state until one of them counts (Running and Doubles), so that a run that
// dies leaves the item with one attempt in flight, whatever it died between.

// double begins a second attempt at an item.
func (s *state) double(r events.Record, e events.AgentDuplicated) errorpolicy.Effects {
	s.Rate.Start(e.Key, r.Time)
	s.Adapt.Start(r.Time)
	ticket, effects := s.Policy.Started(e.BreakerKey, r.Time)
	f, runs := s.Running.get(e.ItemIndex)
	if !runs {
		s.Policy.Released(ticket)
		return effects
	}
	f.Doubled = e.Attempt
	s.Running.set(e.ItemIndex, f)
	s.Doubles[e.ItemIndex] = running{
		ID: f.ID, Number: e.Attempt, Began: r.Time, Ticket: ticket, Retry: f.Retry, Token: r.Seq, Key: e.Key, Doubled: e.Attempt, Fleet: f.Fleet,
	}
	return effects
}

// supersede ends one of two attempts at an item. One that ends after the other has given the item its outcome changes nothing.
func (s *state) supersede(index, number int) {
	f, d := s.Running.at(index), s.Doubles[index]
	if d.Number == 0 {
		return
	}
	switch number {
	case f.Number:
		s.single(index, d.Number)
	case d.Number:
		s.single(index, f.Number)
	}
	delete(s.Retrying, f.ID) // it may be of the one that has ended
}

// single leaves an item that has two attempts with the one that has a number.
func (s *state) single(index, number int) {
	f, d := s.Running.at(index), s.Doubles[index]
	if d.Number == 0 {
		return
	}
	if number == d.Number {
		f, d = d, f
	}
	s.Policy.Released(d.Ticket)
	s.Running.set(index, f)
	delete(s.Doubles, index)
}

// runs returns the attempt at an item that has a number, if it is one of those whose end may count.
func (s *state) runs(index, number int) (running, bool) {
	for _, f := range []running{s.Running.at(index), s.Doubles[index]} {
		if f.Number == number && number > 0 {
			return f, true
		}
	}
	return running{}, false
}

// flight is an attempt of a pool that has not ended, or whose end the pool has not heard of.
type flight struct {
	index  int
	number int
	slot   int      // 0 while it is parked
	waits  *parking // that it gets a slot again with; nil: it is not parked
	keys   itemKeys
	end    context.CancelCauseFunc // stops it alone
	placed bool                    // it is known to have begun; of one on a fleet that comes later
	by     int                     // the attempt that counts in its place; 0: there is none yet
	began  time.Time               // when it began, or went on after it had left its slot
}

// watch are the stragglers of a pool.
type watch struct {
	clocks clockHeap // of the attempts that are no stragglers yet
	slow   []int64   // tokens of the stragglers that have no duplicate yet
	dry    time.Time // since when there has been a free slot and nothing to start, while new items may still come; zero: there is not
	ending int       // attempts that are being stopped, since the other one counts
	later  time.Time // when a duplicate may start for which there is a slot; zero: there is none
}

// clock is when an attempt began, as far as that is known.
type clock struct {
	since time.Time
	token int64
}

// clockHeap has the attempt that has run longest at its top.
type clockHeap []clock

func (h clockHeap) Len() int { return len(h) }

func (h clockHeap) Less(i, k int) bool { return h[i].since.Before(h[k].since) }

func (h clockHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }

func (h *clockHeap) Push(x any) { *h = append(*h, x.(clock)) }

func (h *clockHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// duplicates reports whether stragglers get a second attempt.
func (j *job) duplicates() bool {
	m := j.workflow.Map
	return m != nil && m.Straggler != nil && m.Straggler.Duplicate && j.shared == nil && j.space == nil
}

// sinceOf returns since when the present try of an attempt runs. One that waits for its next try begins then, and one that waits for a worker of a fleet when
// it has that.
func (p *pool) sinceOf(f *flight, id string, now time.Time) time.Time {
	if f.waits != nil || !f.placed {
		return now
	}
	if k, retrying := p.job.state.Retrying[id]; retrying && k.Due.After(f.began) {
		return k.Due
	}
	return f.began
}

// placed notes that a worker of a fleet runs an attempt.
func (p *pool) placed(e events.AgentPlaced) {
	one, _ := p.job.state.runs(e.ItemIndex, e.Attempt)
	if f := p.flights[one.Token]; f != nil && !f.placed {
		f.placed, f.began = true, time.Now()
	}
}

// findStragglers records which attempts have become stragglers.
func (p *pool) findStragglers(now time.Time) {
	w, j := &p.watch, p.job
	limit, known := j.state.Times.Limit()
	if !known || len(j.state.Quotas) > 0 {
		return
	}
	for len(w.clocks) > 0 && now.Sub(w.clocks[0].since) >= limit {
		c := &w.clocks[0]
		f := p.flights[c.token]
		one := running{}
		if f != nil {
			one, _ = j.state.runs(f.index, f.number)
		}
		if one.Token != c.token || one.Doubled > 0 { // it has ended, or is one of two
			heap.Pop(&w.clocks)
			continue
		}
		if since := p.sinceOf(f, one.ID, now); since.After(c.since) {
			c.since = since
			heap.Fix(&w.clocks, 0)
			continue
		}
		e := events.AgentStraggling{
			ItemID: one.ID, ItemIndex: f.index, AgentID: j.attemptID(one.ID, f.number), Attempt: f.number, Worker: f.slot, RanMS: events.Millis(now.Sub(c.since)),
			LimitMS: events.Millis(limit), After: j.workflow.Map.Straggler.After.String(),
		}
		if t := j.state.Times.Percentile(); t > 0 {
			e.PercentileMS, e.Attempts = events.Millis(t), j.state.Times.N()
		}
		if j.duplicates() {
			w.slow = append(w.slow, c.token)
		}
		heap.Pop(&w.clocks)
		j.record(e)
	}
}

// restartClocks has all attempts begin now, as far as stragglers are concerned, after a time in which they may have stood still.
func (p *pool) restartClocks() {
	now := time.Now()
	for _, f := range p.flights {
		f.began = now
	}
}

// dryTime is how long a slot has to be free before a duplicate starts while new items may still come.
const dryTime = 100 * time.Millisecond

// duplicateNext starts a second attempt at the item of a straggler, in a slot that nothing else can use now. It reports false when there is none to start.
func (p *pool) duplicateNext(now time.Time) bool {
	w, j := &p.watch, p.job
	w.later = time.Time{}
	w.slow = slices.DeleteFunc(w.slow, func(token int64) bool {
		f := p.flights[token]
		if f == nil {
			return true
		}
		one, runs := j.state.runs(f.index, f.number)
		return !runs || one.Doubled > 0 || j.state.Skips[f.index] != ""
	})
	if len(w.slow) == 0 || len(j.state.Doubles)+w.ending >= limit.MostDuplicates(j.parallel) {
		return false
	}
	if p.fresh == nil && p.source.found != nil {
		if w.dry.IsZero() {
			w.dry = now
		}
		if w.later = w.dry.Add(dryTime); now.Before(w.later) {
			return false
		}
		w.later = time.Time{}
	}
	for i, token := range w.slow {
		f := p.flights[token]
		at := p.mayDouble(f, now)
		if !at.After(now) {
			w.slow = slices.Delete(w.slow, i, i+1)
			p.startDuplicate(f)
			return true
		}
		if w.later.IsZero() || at.Before(w.later) {
			w.later = at
		}
	}
	return false
}

// mayDouble returns when a second attempt may start, as far as limits and breakers are concerned. It is asked again after each outcome in any case.
func (p *pool) mayDouble(f *flight, now time.Time) time.Time {
	s := p.job.state
	if a := s.Policy.Admit(f.keys.breaker, now); a.Verdict != errorpolicy.Run {
		return now.Add(time.Hour)
	}
	at := s.Adapt.Next(now)
	if turn := s.Rate.Next(f.keys.rate, now); turn.After(at) {
		at = turn
	}
	return at
}

// startDuplicate runs a second attempt at the item of a straggler in a free slot.
func (p *pool) startDuplicate(f *flight) {
	j := p.job
	first := j.state.Running.at(f.index)
	a := p.attempt(items.Item{ID: first.ID, Index: f.index}, first.Number+1, p.takeSlot())
	a.Retrying, a.Due, a.Session = nil, time.Time{}, nil // they are those of the first
	a.Beside = first.Token
	a.Token = j.record(events.AgentDuplicated{
		ItemID: first.ID, ItemIndex: f.index, AgentID: a.ID, Attempt: a.Number, Of: first.Number, Worker: a.Worker, Key: f.keys.rate, BreakerKey: f.keys.breaker,
	}).Seq
	p.fly(a, f.keys)
}

// nextStraggler returns when an attempt may become a straggler, or a duplicate may start, or latest if that is sooner.
func (p *pool) nextStraggler(latest time.Time, vacant bool) time.Time {
	w := &p.watch
	if limit, known := p.job.state.Times.Limit(); known && len(w.clocks) > 0 && len(p.job.state.Quotas) == 0 {
		if at := w.clocks[0].since.Add(limit); at.Before(latest) {
			latest = at
		}
	}
	if vacant && !w.later.IsZero() && w.later.Before(latest) {
		latest = w.later
	}
	return latest
}

// other returns the token of the other attempt at the item of an attempt; 0: there is none.
func (s *state) other(index, number int) int64 {
	f, d := s.Running.at(index), s.Doubles[index]
	switch {
	case d.Number == 0:
		return 0
	case d.Number == number:
		return f.Token
	}
	return d.Token
}

// counts reports whether the end of an attempt is the outcome of its item.
func (p *pool) counts(e *attemptEnd) bool {
	a, s := e.attempt, p.job.state
	_, runs := s.runs(a.ItemIndex, a.Number)
	return limit.Counts(e.err == nil && e.outcome.Failure == nil, !runs, s.other(a.ItemIndex, a.Number) != 0)
}

// supersede records the end of an attempt that does not count, because another one at its item does, and returns the number of the record.
func (p *pool) supersede(e *attemptEnd) int64 {
	a, s := e.attempt, p.job.state
	record := events.AgentSuperseded{
		ItemID: a.ItemID, ItemIndex: a.ItemIndex, AgentID: a.ID, Attempt: a.Number, Worker: a.Worker, DurationMS: events.Millis(e.outcome.Duration),
		Outputs: p.job.printed.take(a.ID),
	}
	own := p.flights[a.Token]
	if own.by != 0 {
		p.watch.ending--
	}
	if other := p.flights[s.other(a.ItemIndex, a.Number)]; other != nil {
		own.by = other.number
	}
	record.By = own.by
	if e.err != nil {
		record.DurationMS = events.Millis(time.Since(own.began))
		if lost, ok := errors.AsType[*agent.LostError](e.err); ok {
			record.Error = lost.Error()
		}
	} else if f := e.outcome.Failure; f != nil {
		record.Error, record.ErrorType = f.Message, retry.Classify(f.Failure)
	}
	if e.outputFile != "" {
		_ = os.Remove(e.outputFile) // no record names it
	}
	return p.job.record(record).Seq
}

// supersededError ends an attempt at an item that has its outcome from another one.
type supersededError struct{ by int }

func (e supersededError) Error() string { return "attempt " + strconv.Itoa(e.by) + " has succeeded" }

// endOther stops the other attempt at an item after one has succeeded, which is by its number.
func (p *pool) endOther(token int64, by int) {
	f := p.flights[token]
	if f == nil {
		return
	}
	f.by = by
	p.watch.ending++
	f.end(supersededError{by})
}
