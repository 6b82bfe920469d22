package mapreduce

import (
	"container/heap"
	"errors"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/retry"
)

// An attempt that takes much longer than the others is a straggler. People are told of it. With `stop` it is
// ended, and what follows is what follows any timeout of an agent.

// sinceOf returns since when the present try of an attempt runs. One that waits for its next try begins then,
// and one that waits for a worker of a fleet when it has that.
func (p *pool) sinceOf(f *flight, id string, now time.Time) time.Time {
	if f.waits != nil || !f.placed {
		return now
	}
	if k, retrying := p.Retrying[id]; retrying && k.Due.After(f.began) {
		return k.Due
	}
	return f.began
}

// findStragglers records which attempts have become stragglers.
func (p *pool) findStragglers(now time.Time) {
	w := &p.watch
	limit, known := p.Times.Limit()
	if !known || len(p.Quotas) > 0 {
		return
	}
	for len(w.clocks) > 0 && now.Sub(w.clocks[0].since) >= limit {
		c := &w.clocks[0]
		f := p.flights[c.token]
		one := job.Running{}
		if f != nil {
			one = p.Running[f.index]
		}
		if one.Token != c.token { // it has ended
			w.clocks.pop()
			continue
		}
		if since := p.sinceOf(f, one.ItemID, now); since.After(c.since) {
			c.since = since
			heap.Fix(&w.clocks, 0)
			continue
		}
		e := events.AgentStraggling{
			AttemptID: one.AttemptID,
			Worker:    f.slot, RanMS: events.Millis(now.Sub(c.since)),
			LimitMS: events.Millis(limit), After: p.workflow.Map.Straggler.After.String(),
		}
		if t := p.Times.Percentile(); t > 0 {
			e.PercentileMS, e.Attempts = events.Millis(t), p.Times.N()
		}
		w.clocks.pop()
		p.Record(e)
		if p.workflow.Map.Straggler.Stop {
			f.slow = errors.New("the agent timed out as a straggler, after " + duration.Format(limit.Round(10*time.Millisecond)))
			f.end(f.slow)
		}
	}
	p.soonStraggling()
}

// soonStraggling notes when the next attempt may be a straggler.
func (p *pool) soonStraggling() {
	if limit, known := p.Times.Limit(); known && len(p.watch.clocks) > 0 {
		p.soon(p.watch.clocks[0].since.Add(limit))
	}
}

// restartClocks has all attempts begin now, as far as stragglers are concerned, after a time in which they may
// have stood still.
func (p *pool) restartClocks() {
	now := time.Now()
	for _, f := range p.flights {
		f.began = now
	}
}

// asTimeout makes the end of an attempt that was stopped as a straggler the timeout that it stands for. Its
// handler does not run any more.
func (p *pool) asTimeout(e *attemptEnd) {
	f := p.flights[e.Token]
	if _, lost := errors.AsType[*agent.LostError](e.err); e.err == nil || f.slow == nil || lost {
		return
	}
	e.err = nil
	e.Duration = time.Since(f.began)
	e.Failure = &agent.Failure{
		Failure: retry.Failure{Type: retry.TypeTimeout, Message: f.slow.Error(), TimedOut: true, ExitCode: -1},
	}
}
