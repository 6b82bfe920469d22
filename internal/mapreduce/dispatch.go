package mapreduce

import (
	"time"

	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/limits"
)

// burst bounds how many items are refused in one go, so that the loop stays awake while the breaker is open.
const burst = 256

// dispatch starts what may start now, and notes when more may. It returns true when it stopped before it was done.
func (p *pool) dispatch(now time.Time) bool {
	if !p.beginRound(now) {
		return false
	}
	for range burst {
		if p.halted != nil || p.runners.ctx.Err() != nil ||
			p.ask(p.gates.slot, p.asks(limits.Again, now)).Answer != limits.Go {
			p.returnShared(now)
			return false
		}
		if p.shared != nil && p.slots.seeker.slot == nil {
			p.seek(now)
			return false
		}
		if !p.serveSteps(now, true) && !p.wake(now) && !p.admitNext(now) {
			switch { // nothing could start though there is a slot
			case !p.rated && (!p.rateKey || p.starts.len() == 0) && p.woken.len() == 0:
				p.since = time.Time{} // it is not because of a limit
			case p.since.IsZero():
				p.since = now
			}
			p.soonDue(now)
			p.returnShared(now)
			return false
		}
	}
	return true
}

// beginRound says in the log what has changed by itself, and serves those that need no slot. It reports whether
// something else may start.
func (p *pool) beginRound(now time.Time) bool {
	known := p.Limits
	p.next, p.rated, p.retriesWait = time.Time{}, false, false
	retries := p.hasDue(now) || p.retries > 0 || p.woken.len() > 0 || p.asking.len() > 0
	if known.Ratio.Told && !retries {
		p.Record(events.RetriesAllowed{})
	}
	windows := time.Time{}
	if p.halted == nil {
		windows = p.gates.windows.Look(now)
		p.Tell(p.gates.windows)
		// With ExitOutside the run ends outside of the windows, once there is something that would have to wait.
		if reason := p.gates.windows.Reason(); reason != "" && p.config.ExitOutside &&
			(!p.exhausted() || len(p.suspects.waiting) > 0) {
			p.halt(Result{State: jobs.Stopped, Reason: reason, AsAsked: true}, untilTheyEnd)
		}
	}
	if p.halted == nil && known.Pause.Hold == nil {
		p.next = now.Add(mostSleep)
		p.soon(windows)
		p.soon(p.recordAt)
	}
	if p.ask(p.gates.all, p.asks(limits.Again, now)).Answer != limits.Go {
		p.returnShared(now)
		return false
	}
	if r := p.gates.rollout; p.halted == nil && p.flights != nil {
		before := r.Held
		if p.Tell(r); r.Held != before { // the stage has not gone well
			p.halt(Result{State: jobs.Stopped, Reason: r.Held, Unproven: true}, untilTheyEnd)
		}
	}
	if p.halted == nil {
		p.isolate(now)
	}
	p.findStragglers(now)
	p.wakeResting(now)
	for p.halted == nil { // agents that have kept their slots
		k, ok := p.takeTurn(&p.asking, now)
		if !ok {
			break
		}
		k.wake <- p.flights[k.token].slot
	}
	p.serveSteps(now, false)
	return true
}

// again has an item wait for its next attempt.
func (p *pool) again(d dueItem) {
	if p.dropSkipped(d) {
		return
	}
	if p.Losses[d.index].Together >= lostTogether {
		p.suspects.lone = append(p.suspects.lone, d)
		return
	}
	p.due.push(d)
}

// admitNext starts or rejects the next item, of those that are tried again first. It reports false when there
// is nothing to do now.
func (p *pool) admitNext(now time.Time) bool {
	// Where all items have the same keys, one waits for its turn at a time, so that they keep their order.
	if p.hasDue(now) && (p.keysOf != nil || p.starts.len() == 0) {
		retry := p.IsRetry(p.due[0].index)
		if !retry || !p.retriesHeld(now) && p.retries < p.Limits.Ratio.Throttle.Free(now) {
			return p.lineUp(retry)
		}
	}
	keys, it, waited := p.starts.next(now, p.mayStart)
	if !waited && (p.fresh == nil || !p.mayBegin(now)) {
		p.soon(p.starts.due())
		return false
	}
	if waited && p.gone[it.Index] {
		delete(p.gone, it.Index)
		p.popStart(it)
		return true
	}
	a := p.asks(limits.Again, now)
	if p.ask(p.gates.paces, a).Answer != limits.Go {
		return false
	}
	if !waited {
		it, keys = *p.fresh, p.keys(p.fresh.Item)
	}
	a.Key = keys.breaker
	v := p.Limits.Breaker.Admit(a)
	if v.Answer == limits.Wait && p.workflow.BreakerPer == nil {
		p.soon(v.Until)
		return false
	}
	switch {
	case waited && it.retry && p.retriesHeld(now):
		p.popStart(it)
		p.due.push(dueItem{id: it.ID, index: it.Index, due: p.Waiting[it.Index].Due})
		return true
	case waited:
		p.popStart(it)
	case p.starts.has(keys) || p.mayStart(keys, now).After(now): // others can go before it while it waits for its turn
		if p.starts.len() >= mostHeld {
			p.soon(p.starts.due())
			return false
		}
		it.Data, p.fresh = nil, nil
		p.starts.add(keys, it)
		return true
	default:
		p.fresh = nil
	}
	if !p.dropped(it.Item, v, now) {
		p.start(it, keys)
	}
	return true
}

// lineUp has the item that is due wait for the turn of its keys.
func (p *pool) lineUp(retry bool) bool {
	d := p.due.pop()
	next := offered{Item: items.Item{ID: d.id, Index: d.index}, retry: retry, again: true}
	it := next.Item
	if p.keysOf != nil {
		var err error
		if it, err = p.item(d.index); err != nil {
			p.haltForOwn(err)
			return false
		}
	}
	if retry {
		p.retries++
	}
	p.lobby.again++
	p.starts.add(p.keys(it), next)
	return true
}

// mostHeld bounds the items that wait for the turns of their keys. When there are so many, those behind them
// wait too, whatever their keys are.
const mostHeld = 1 << 16

// mayStart returns when an item with these keys may start, or be refused: at once, if that is not after now.
// Where a breaker has all its tests running, its keys are asked again when an attempt of theirs has ended.
func (p *pool) mayStart(keys itemKeys, now time.Time) time.Time {
	at := now
	if p.workflow.BreakerPer != nil {
		switch v := p.Limits.Breaker.Admit(limits.Ask{Class: limits.Again, Now: now, Key: keys.breaker}); {
		case v.Answer == limits.Refuse:
			return now
		case v.Answer == limits.Wait && v.Until.IsZero():
			p.full[keys.breaker] = append(p.full[keys.breaker], keys)
			return now.Add(time.Hour)
		case v.Answer == limits.Wait:
			at = v.Until
		}
	}
	if p.rateKey {
		if rate := p.Limits.Rate.Next(keys.rate, now); rate.After(at) {
			return rate
		}
	}
	return at
}

// retriesHeld reports whether no retry may start now.
func (p *pool) retriesHeld(now time.Time) bool {
	return p.askOne(p.Limits.Ratio, p.asks(limits.Retry, now)).Answer != limits.Go
}

// takeTurn returns the agent whose turn it is, and records that.
func (p *pool) takeTurn(l *lanes[string, *parking], now time.Time) (*parking, bool) {
	for l.len() > 0 {
		a := p.asks(limits.Try, now)
		if p.ask(p.gates.paces, a).Answer != limits.Go || p.retriesHeld(now) {
			return nil, false
		}
		_, k, ok := l.next(now, p.Limits.Rate.Next)
		if !ok {
			p.soon(l.due())
			return nil, false
		}
		l.pop()
		if !k.gone {
			p.turnTaken()
			p.Record(events.StepRetried{ItemID: k.id, ItemIndex: k.index})
			return k, true
		}
	}
	return nil, false
}

// wake gives a free slot to the agent that has been due longest, or else to one whose turn it is. It returns false
// when there is none.
func (p *pool) wake(now time.Time) bool {
	if len(p.parked) == 0 || p.parked[0].due.After(now) {
		k, ok := p.takeTurn(&p.woken, now)
		if ok {
			p.goOn(k)
		}
		return ok
	}
	k := p.parked.pop()
	if k.turn && p.Limits.TakesTurns() {
		p.woken.add(p.flights[k.token].keys.rate, k)
		return true
	}
	p.goOn(k)
	return true
}
