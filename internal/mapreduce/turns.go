package mapreduce

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/workflow"
)

// turns are what waits for its turn, of a job with a limit of its starts. Nothing of it has a slot but what asks from within one.
type turns struct {
	keysOf  func(id string, item json.RawMessage) itemKeys // nil: all items have the same
	rateKey bool                                           // each key has a rate of its own
	starts  lanes[itemKeys, offered]                       // items, with keysOf; without their data, which their agents read
	full    map[string][]itemKeys                          // of those in starts, by the key of a breaker that waits for the outcomes of its tests
	woken   lanes[string, *parking]                        // agents whose wait for the next try of a step is over, by the key of their rate
	asking  lanes[string, *parking]                        // the same of those that have kept their slots
	retries int                                            // of items in starts that are tried again
	again   int                                            // of items in starts that have begun before
	free    time.Time                                      // when to ask again whether a retry may start; zero: none was held
	all     time.Time                                      // when to ask again what may start, whatever its key is; zero: nothing was held
	single  bool                                           // the next item waits for the limit that all items have
	since   time.Time                                      // from when on a slot has been free for what waits for its turn; zero: nothing waits
}

// wait notes that nothing could start now though there is a slot.
func (t *turns) wait(now time.Time) {
	switch {
	case !t.single && t.all.IsZero() && (!t.rateKey || t.starts.len() == 0) && t.woken.len() == 0:
		t.since = time.Time{} // it is not because of a limit
	case t.since.IsZero():
		t.since = now
	}
}

// turnTaken ends the wait for a turn.
func (p *pool) turnTaken() {
	if p.turns.since.IsZero() {
		return
	}
	if p.job.config.RateWaited != nil {
		p.job.config.RateWaited(time.Since(p.turns.since))
	}
	p.turns.since = time.Time{}
}

// itemKeys are the keys of the limits that hold an item back. They are empty where all items have one.
type itemKeys struct {
	rate    string
	breaker string
}

// mostHeld bounds the items that wait for the turns of their keys. When there are so many, those behind them wait too, whatever their keys are.
const mostHeld = 1 << 16

// newTurns returns what the workflow says about starts.
func (j *job) newTurns() (turns, error) {
	rate, err := j.keyOf(j.workflow.Map.Rate.Per)
	if err != nil {
		return turns{}, fmt.Errorf("rate: %w", err)
	}
	breaker, err := j.keyOf(j.workflow.BreakerPer)
	if err != nil {
		return turns{}, fmt.Errorf("circuit_breaker: %w", err)
	}
	if rate == nil && breaker == nil {
		return turns{}, nil
	}
	t := turns{rateKey: rate != nil, full: map[string][]itemKeys{}}
	t.keysOf = func(id string, item json.RawMessage) (k itemKeys) {
		if rate != nil {
			k.rate = rate(id, item)
		}
		if breaker != nil {
			k.breaker = cmp.Or(breaker(id, item), noKey)
		}
		return k
	}
	return t, nil
}

// noKey is the key of a breaker for the items for which it cannot be told.
const noKey = "(no key)"

// BreakerKey returns the key of the circuit breaker of an item whose data is as it may be shown; "" if all items have one breaker.
func BreakerKey(w *workflow.Workflow, id string, item json.RawMessage) string {
	if w == nil || w.BreakerPer == nil {
		return ""
	}
	of, err := agent.Keys(*w.BreakerPer)
	if err != nil {
		return ""
	}
	return cmp.Or(bounded(of(id, item)), noKey)
}

// keyOf returns the key of an item, as the log may have it; nil if per is.
func (j *job) keyOf(per *workflow.Text) (func(id string, item json.RawMessage) string, error) {
	if per == nil {
		return nil, nil
	}
	of, err := agent.Keys(*per)
	if err != nil {
		return nil, err
	}
	return func(id string, item json.RawMessage) string {
		return bounded(j.config.Settings.Mask.Text(of(id, item)))
	}, nil
}

// maxKey bounds a key, in bytes.
const maxKey = 200

// bounded returns a key that is valid and not too long. Of a longer one it has the beginning, and a checksum of all of it.
func bounded(key string) string {
	key = strings.ToValidUTF8(key, "\ufffd")
	if len(key) <= maxKey {
		return key
	}
	return fmt.Sprintf("%s… %x", events.Clip(key, maxKey/2), sha256.Sum256([]byte(key)))[:maxKey/2+40]
}

// next returns when something may have its turn that could go on then, or latest if that is sooner.
func (t *turns) next(latest time.Time, vacant, held bool) time.Time {
	sooner := func(at time.Time, ok bool) {
		if ok && at.Before(latest) {
			latest = at
		}
	}
	if !t.all.IsZero() {
		sooner(t.all, true)
		return latest
	}
	if t.free.IsZero() {
		sooner(t.asking.due())
	} else {
		sooner(t.free, true)
	}
	if vacant && t.free.IsZero() {
		sooner(t.woken.due())
	}
	if vacant && !held {
		sooner(t.starts.due())
	}
	return latest
}

// forget removes an agent that has ended, should it wait.
func (t *turns) forget(token int64) {
	for _, l := range []*lanes[string, *parking]{&t.woken, &t.asking} {
		for k := range l.all() {
			if k.token == token {
				k.gone = true
			}
		}
	}
}

// takeTurn returns the agent whose turn it is, and records that.
func (p *pool) takeTurn(l *lanes[string, *parking], now time.Time) (*parking, bool) {
	for {
		if l.len() == 0 || p.heldForAll(now) || p.retriesHeld(now) {
			return nil, false
		}
		_, k, ok := l.next(now, p.job.state.Rate.Next)
		if !ok {
			return nil, false
		}
		l.pop()
		if !k.gone {
			p.turnTaken()
			p.job.record(events.StepRetried{ItemID: k.id, ItemIndex: k.index})
			return k, true
		}
	}
}

// heldForAll reports whether nothing may start now whatever its key is, and has the loop come back when that is over.
func (p *pool) heldForAll(now time.Time) bool {
	at := p.job.state.Adapt.Next(now)
	if !p.turns.rateKey {
		at = p.job.state.nextTurn(now)
	}
	if !at.After(now) {
		return false
	}
	if p.turns.all.IsZero() || at.Before(p.turns.all) {
		p.turns.all = at
	}
	return true
}

// retriesHeld reports whether no retry may start now, and has the loop come back when that is over.
func (p *pool) retriesHeld(now time.Time) bool {
	at := p.job.state.Retries.Next(now)
	if !at.After(now) {
		return false
	}
	p.turns.free = at
	if !p.retryHold {
		p.retryHold = true
		first, retries := p.job.state.Retries.Counts(now)
		p.job.record(events.RetriesHeld{First: first, Retries: retries, Ratio: p.job.workflow.ErrorPolicy.RetryRatio.Ratio})
	}
	return true
}

// endRetryHold records that no retry waits any more because there were too many.
func (p *pool) endRetryHold(now time.Time) {
	if p.retryHold && !p.hasDue(now) && p.turns.retries == 0 && p.turns.woken.len() == 0 && p.turns.asking.len() == 0 {
		p.retryHold = false
		p.job.record(events.RetriesAllowed{})
	}
}

// hasDue reports whether the next attempt at an item is due.
func (p *pool) hasDue(now time.Time) bool { return len(p.due) > 0 && !p.due[0].due.After(now) }

// retryDue reports whether the next attempt at an item is due and may start, as far as that depends on the number of retries.
func (p *pool) retryDue(now time.Time) bool {
	return p.hasDue(now) && (!p.job.state.isRetry(p.due[0].index) || !p.retriesHeld(now))
}

// serveAsking has agents go on that have kept their slots.
func (p *pool) serveAsking(now time.Time) {
	for p.halted == nil {
		k, ok := p.takeTurn(&p.turns.asking, now)
		if !ok {
			return
		}
		k.wake <- p.flights[k.token].slot
	}
}

// wakeInTurn gives a free slot to an agent whose turn it is. It returns false when there is none.
func (p *pool) wakeInTurn(now time.Time) bool {
	k, ok := p.takeTurn(&p.turns.woken, now)
	if ok {
		p.goOn(k)
	}
	return ok
}

// admitByKey is admitNext for a job whose items have limits by their keys.
func (p *pool) admitByKey(now time.Time) bool {
	if p.retryDue(now) && p.turns.retries < p.job.state.Retries.Free(now) {
		d := p.due.pop()
		it, err := p.job.store.At(d.index)
		if err != nil {
			p.haltForOwn(fmt.Errorf("read the recorded item: %w", err))
			return false
		}
		next := offered{Item: items.Item{ID: d.id, Index: d.index}, retry: p.job.state.isRetry(d.index), again: true}
		if next.retry {
			p.turns.retries++
		}
		p.turns.again++
		p.turns.starts.add(p.turns.keysOf(it.ID, it.Data), next)
		return true
	}
	keys, it, waited := p.turns.starts.next(now, p.mayStart)
	if !waited && (p.fresh == nil || !p.mayBegin()) {
		return false
	}
	if waited && p.gone[it.Index] {
		delete(p.gone, it.Index)
		p.turns.popStart(it)
		return true
	}
	if p.heldForAll(now) {
		return false
	}
	if !waited {
		it, keys = *p.fresh, p.turns.keysOf(p.fresh.ID, p.fresh.Data)
	}
	admission := p.job.state.Policy.Admit(keys.breaker, now)
	if admission.Verdict == errorpolicy.Hold && p.job.workflow.BreakerPer == nil {
		p.held, p.hold = true, admission.Until
		return false
	}
	switch {
	case waited && it.retry && p.retriesHeld(now):
		p.turns.popStart(it)
		p.due.push(dueItem{id: it.ID, index: it.Index, due: p.job.state.Waiting[it.Index].Due})
		return true
	case waited:
		p.turns.popStart(it)
	case p.turns.starts.has(keys) || p.mayStart(keys, now).After(now):
		return p.setAside(keys)
	default:
		p.fresh = nil
	}
	if p.dropped(it.Item, admission, now) {
		return true
	}
	p.start(it, keys)
	return true
}

// popStart removes the item that starts.next has returned.
func (t *turns) popStart(it offered) {
	t.starts.pop()
	if it.retry {
		t.retries--
	}
	if it.again {
		t.again--
	}
}

// mayStart returns when an item with these keys may start, or be refused: at once, if that is not after now. Where a breaker has all its tests
// running, askAgain is called for the key when that may have changed.
func (p *pool) mayStart(keys itemKeys, now time.Time) time.Time {
	at := now
	if p.job.workflow.BreakerPer != nil {
		switch a := p.job.state.Policy.Admit(keys.breaker, now); {
		case a.Verdict == errorpolicy.Refuse:
			return now
		case a.Verdict == errorpolicy.Hold && a.Until.IsZero():
			p.turns.full[keys.breaker] = append(p.turns.full[keys.breaker], keys)
			return now.Add(time.Hour)
		case a.Verdict == errorpolicy.Hold:
			at = a.Until
		}
	}
	if !p.turns.rateKey {
		return at
	}
	if rate := p.job.state.Rate.Next(keys.rate, now); rate.After(at) {
		return rate
	}
	return at
}

// askAgain has the items go on, if they may, that wait for a start of the same breaker to end.
func (p *pool) askAgain(breaker string) {
	for _, keys := range p.turns.full[breaker] {
		p.turns.starts.again(keys)
	}
	delete(p.turns.full, breaker)
}

// setAside has the new item wait for its turn, so that others can go before it. It reports false when too many wait.
func (p *pool) setAside(key itemKeys) bool {
	if p.turns.starts.len() >= mostHeld {
		return false
	}
	it := *p.fresh
	it.Data, p.fresh = nil, nil
	p.turns.starts.add(key, it)
	return true
}
