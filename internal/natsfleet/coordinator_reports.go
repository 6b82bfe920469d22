package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
)

// pendingAck is the end of an attempt that is not on disk yet.
type pendingAck struct {
	token    int64
	index    int // of the report
	objects  []string
	instance string // whose it is; empty: there is no report
	msgs     []jetstream.Msg
}

type flightEnd struct {
	outcome agent.Outcome
	err     error
}

// endFlight ends a flight. by is the report that says so; zero: none does. It reports false if the attempt is not out: who reported that is late. It is
// called with the lock held.
func (c *coordinator) endFlight(token int64, e flightEnd, by pendingAck) bool {
	f, ok := c.flights[token]
	if !ok {
		return false
	}
	h, _ := c.dispatcher.Remove(token)
	if _, ok := errors.AsType[*agent.LostError](e.err); ok && by.instance == "" {
		c.noteLoss(&lostAttempt{Token: token, ItemID: f.id, Index: f.index, Number: int(f.try), Instance: h.Instance, ID: c.given[token]})
	}
	delete(c.flights, token)
	delete(c.given, token)
	delete(c.ends, token)
	f.ended()
	by.objects = append(by.objects, f.objects...)
	if lost, ok := errors.AsType[*agent.LostError](e.err); ok {
		lost.Node, lost.Host = cmp.Or(lost.Node, h.Node), c.roster.hostOf(h.Instance)
	}
	if f.stop != nil && f.stop.broke != nil && e.err != nil {
		e.err = f.stop.broke
	}
	by.token = token
	a := f.attempt()
	c.pending[a.ID] = append(c.pending[a.ID], &by)
	if by.instance != "" {
		c.pendingByToken[token] = &by
	}
	f.done(a, e.outcome, e.err)
	return true
}

// Persisted acknowledges the reports whose ends are durable now.
func (c *coordinator) Persisted(records []events.Record) {
	for _, r := range records {
		var id string
		lost := false
		switch e := r.Event.(type) {
		case events.AgentCompleted:
			id = e.AgentID
		case events.AgentFailed:
			id = e.AgentID
		case events.AgentInterrupted:
			id = e.AgentID
		case events.AgentLost:
			id, lost = e.AgentID, true
		case events.AgentSuperseded:
			id = e.AgentID
		}
		if id == "" {
			continue
		}
		c.mu.Lock()
		queue := c.pending[id]
		if len(queue) == 0 {
			c.mu.Unlock()
			continue
		}
		end := queue[0]
		delete(c.ends, end.token) // it was asked for after the end
		c.pending[id] = queue[1:]
		if len(queue) == 1 {
			delete(c.pending, id)
		}
		if end.instance != "" {
			delete(c.pendingByToken, end.token)
			s := c.outboxOf(end.instance)
			c.sendLater(end.instance, s)
			s.acks = append(s.acks, fleet.Ack{Token: end.token, Index: end.index})
		}
		c.mu.Unlock()
		if lost {
			c.lossRecorded(end.token)
		}
		for _, m := range end.msgs {
			_ = m.Ack()
		}
		if len(end.objects) > 0 {
			c.work.Go(func() {
				for _, name := range end.objects {
					_ = c.remove(c.life, name) // or with the job
				}
			})
		}
	}
}

// receive takes what a worker says.
func (c *coordinator) receive(m *nats.Msg) {
	var u fleet.WorkerMessage
	err := decode(m.Data, &u)
	if u.V != 0 && u.V != fleet.Protocol { // there may be no more that is the same
		c.notifyOnce(u.Instance, "worker %s takes no part: it speaks protocol %d of the fleet, and this prodigy, %s, speaks %d", u.Node, u.V, c.o.Version, fleet.Protocol)
		return
	}
	if err != nil || u.V == 0 || u.Owner != c.owner || !sentBy(u.Instance, m.Subject, 2) {
		return
	}
	if !c.isNamed(u.Instance, u.Node, u.NameSig) {
		c.notifyOnce(u.Instance, "worker %s takes no part: its credentials do not say that this is its name: start it with the name that they were made for, or renew them (prodigy fleet remove, then add)", u.Node)
		return
	}
	c.mu.Lock()
	c.clocks.Note(u.Instance, u.Now, time.Now())
	c.mu.Unlock()
	for _, r := range u.Reports {
		r.Holder.Node = u.Node
		if r.V == fleet.Protocol {
			c.report(r, u.Instance, nil)
		}
	}
	if u.After != "" && !follows(u.Instance, u.After) {
		u.After = ""
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.given) > 0 {
		u.Holds = slices.DeleteFunc(u.Holds, func(token int64) bool { return !c.isGivenTo(token, u.Instance) })
	}
	c.seen[u.Instance] = now
	c.roster.heard(u, now)
	if u.Unkept != "" {
		c.refuses.note(errors.New(u.Unkept), now)
	}
	if u.Warns != "" && c.isFirst(u.Instance+u.Warns) {
		notice := c.notice
		go notice(fmt.Sprintf("worker %s has not believed something: %s", u.Node, u.Warns))
	}
	if u.Refuses != "" {
		if c.isFirst(u.Instance) {
			notice := c.notice
			go notice(fmt.Sprintf("worker %s takes no part: %s", u.Node, u.Refuses))
		}
		return
	}
	if u.Full && (u.Short == "") != (c.short[u.Instance] == "") {
		notice, text := c.notice, fmt.Sprintf("worker %s takes attempts again", u.Node)
		if c.short[u.Instance] = u.Short; u.Short != "" {
			text = fmt.Sprintf("worker %s takes no attempts for now: %s", u.Node, u.Short)
		}
		go notice(text)
	}
	if c.noted[u.Instance] {
		c.applyStatus(u.WorkerStatus, now)
		return
	}
	c.joining = append(c.joining, u.WorkerStatus)
	if len(c.joining) == 1 {
		c.work.Go(c.join)
	}
}

// isNamed is the function of this name, which takes a while, for each worker and its name once.
func (c *coordinator) isNamed(instance, node, sig string) bool {
	if c.o.Names == "" {
		return true
	}
	key := instance + " " + node
	c.mu.Lock()
	known := c.named[key]
	c.mu.Unlock()
	if known || !isNamed(c.o.Names, instance, node, sig) {
		return known
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.named) >= mostRefused {
		clear(c.named)
	}
	c.named[key] = true
	return true
}

// stored takes a report that a worker has left with the broker.
func (c *coordinator) stored(m jetstream.Msg) {
	var r fleet.Report
	if err := json.Unmarshal(m.Data(), &r); err != nil || r.V != fleet.Protocol || !sentBy(r.Holder.Instance, m.Subject(), 2) || !c.isNamed(r.Holder.Instance, r.Holder.Node, m.Headers().Get(nameHeader)) {
		_ = m.Ack() // nobody will ever be able to read it, or believe it
		return
	}
	if r.Kind == fleet.Gone {
		c.mu.Lock()
		c.dispatcher.WorkerEnded(r.Holder, r.Left, time.Now())
		delete(c.roster, r.Holder.Instance)
		c.countSlots()
		c.dispatch(time.Now())
		c.mu.Unlock()
		_ = m.Ack()
		return
	}
	c.report(r, r.Holder.Instance, m)
}

// relayRetry is after which time a report comes again that cannot be taken yet, such as while one before it is passed on.
const relayRetry = 100 * time.Millisecond

// redeliver has the broker deliver a report again soon; nil: it was not left there. Without that it would do so only after a lease, and say meanwhile that
// it has delivered all.
func redeliver(m jetstream.Msg) {
	if m != nil {
		_ = m.NakWithDelay(relayRetry)
	}
}

// report takes what a worker says of an attempt. m is the message of a report that was left with the broker.
func (c *coordinator) report(r fleet.Report, instance string, m jetstream.Msg) {
	ref := r.Ref
	if ref != "" && c.wants(r, instance) && !c.complete(&r) {
		c.retryReport(r, instance, m)
		return
	}
	r.Holder.Instance = instance
	offset := c.offset(instance, m)
	fleet.Shift(&r, offset)
	c.mu.Lock()
	f, out := c.flights[r.Token]
	if out && c.isGivenTo(r.Token, instance) {
		f.needs(ref)
	}
	switch {
	case out && !c.isGivenTo(r.Token, instance):
		c.mu.Unlock()
		redeliver(m)
		return
	case !out && c.detachedTokens[r.Token]:
		c.mu.Unlock()
		redeliver(m)
		return
	case !out && c.pendingByToken[r.Token] != nil: // repeated, and not on disk yet
		if m != nil {
			end := c.pendingByToken[r.Token]
			end.msgs = append(end.msgs, m)
		}
		c.mu.Unlock()
		return
	case !out && c.isLate(r, instance):
		c.late(r, m)
		return
	case out && f.fetches:
		c.mu.Unlock()
		return
	case out && f.relays: // it came by another way than the one before, and would not be in order
		c.mu.Unlock()
		redeliver(m)
		return
	case !out || !c.dispatcher.Reported(r.Token, r.Holder, time.Now()), f.last >= r.Index:
		if !out && ref != "" {
			c.work.Go(func() { _ = c.remove(c.life, ref) }) // or with the job
		}
		c.ack(r, m)
		return
	case f.last >= 0 && r.Index != f.last+1, f.isReading(r.Index): // one before it is missing, and will come again
		c.mu.Unlock()
		redeliver(m)
		return
	case r.Ref != "": // it was not its turn when it came
		c.mu.Unlock()
		redeliver(m)
		return
	}
	f.last, f.unread = r.Index, nil
	e := flightEnd{outcome: agent.Outcome{Node: r.Holder.Node, Host: c.roster.hostOf(r.Holder.Instance), Slot: r.Holder.Slot}}
	switch r.Kind {
	case fleet.Ended:
		if r.Outcome == nil {
			e.err = &agent.LostError{Node: r.Holder.Node, Reason: "its report has no outcome"}
			break
		}
		on := e.outcome
		e.outcome = *r.Outcome
		e.outcome.Node, e.outcome.Host, e.outcome.Slot = on.Node, on.Host, on.Slot
	case fleet.Returned:
		e.err = fmt.Errorf("%s: %w", r.Reason, agent.ErrReturned)
	case fleet.Broken:
		e.err = fmt.Errorf("%s on %s: %w", r.Reason, r.Holder.Node, agent.ErrReturned)
	case fleet.Dropped:
		e.err = &agent.LostError{Node: r.Holder.Node, Reason: r.Reason, Cut: r.Cut}
	default:
		a, stop := f.attempt(), f.stopping()
		f.relays = true
		c.mu.Unlock()
		if c.relay(stop.ctx, a, r, offset); r.Kind == fleet.Echoed {
			c.show(f, r.Echo)
		}
		c.mu.Lock()
		f.relays = false
		c.ack(r, m)
		return
	}
	by := pendingAck{token: r.Token, index: r.Index, instance: instance}
	if m != nil {
		by.msgs = []jetstream.Msg{m}
	}
	if c.produces == nil {
		r.Files = nil
	}
	if e.err == nil && (len(r.Files) > 0 || e.outcome.Commit != "") {
		for _, file := range r.Files {
			by.objects = append(by.objects, file.Object)
		}
		if r.Pack != nil && r.Pack.File != nil {
			by.objects = append(by.objects, r.Pack.File.Object)
		}
		f.fetches = true
		c.mu.Unlock()
		c.work.Go(func() { c.endWithResults(f, r, e, by) })
		return
	}
	c.endFlight(r.Token, e, by)
	c.mu.Unlock()
}

// unreadReport is a report that the broker has as an object, which could not be read yet.
type unreadReport struct {
	index   int // of the report
	missing missingObject
	tried   time.Time
	waits   bool // one that a worker has sent is tried again in a moment
}

// isReading reports whether an attempt has a report before an index that is read, and may not be yet. It is called with the lock held.
func (f *flight) isReading(before int) bool {
	return f.unread != nil && f.unread.index < before && time.Since(f.unread.tried) < requestTime
}

// wants reports whether it is the turn of a report.
func (c *coordinator) wants(r fleet.Report, instance string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flights[r.Token]
	return f != nil && c.isGivenTo(r.Token, instance) && !f.relays && !f.fetches && f.last < r.Index && (f.last < 0 || r.Index == f.last+1) && !f.isReading(r.Index)
}

// complete adds to a report what the broker has of it as an object. It returns false if that cannot be read yet. The report of one that is lost is that its
// attempt was dropped.
func (c *coordinator) complete(r *fleet.Report) bool {
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	whole := *r
	data, err := c.get(ctx, r.Ref)
	unreadable := errors.Is(err, errAltered)
	if err == nil {
		err = json.Unmarshal(data, &whole)
		unreadable = err != nil
	}
	if err != nil {
		c.mu.Lock()
		f := c.flights[r.Token]
		if f == nil {
			c.mu.Unlock()
			return true // it is not needed any more
		}
		if f.unread == nil || f.unread.index != r.Index {
			f.unread = &unreadReport{index: r.Index}
		}
		f.unread.tried = time.Now()
		gone := f.unread.missing.isGone(err, f.unread.tried)
		c.mu.Unlock()
		if !gone && !unreadable {
			return false
		}
		whole = fleet.Report{Token: r.Token, Index: r.Index, Kind: fleet.Dropped, Holder: r.Holder, Reason: "the broker lost its report, or somebody altered it"}
	}
	*r = whole
	r.Ref = ""
	return true
}

// retryReport has a report come again that could not be read: from the broker, if it was left there, or else from here.
func (c *coordinator) retryReport(r fleet.Report, instance string, m jetstream.Msg) {
	if m != nil {
		redeliver(m)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flights[r.Token]
	if f == nil || f.unread == nil || f.unread.index != r.Index || f.unread.waits {
		return
	}
	u := f.unread
	u.waits = true
	c.work.Go(func() {
		select {
		case <-time.After(relayRetry):
		case <-c.life.Done():
			return
		}
		c.mu.Lock()
		u.waits = false
		c.mu.Unlock()
		c.report(r, instance, nil)
	})
}

// endWithResults ends a flight when what it has produced or done is here.
func (c *coordinator) endWithResults(f *flight, r fleet.Report, e flightEnd, by pendingAck) {
	c.fetching <- struct{}{}
	var err error
	if len(r.Files) > 0 {
		err = c.fetchMade(f, r.Files)
	}
	if err == nil && e.outcome.Commit != "" {
		err = c.takeWork(f, r.Pack, &e.outcome)
	}
	<-c.fetching
	if c.life.Err() != nil {
		return
	}
	if err != nil {
		e = flightEnd{err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endFlight(f.token, e, by)
}

// ack tells a worker that a report is not needed any more. It is called with the lock held, and releases it.
func (c *coordinator) ack(r fleet.Report, m jetstream.Msg) {
	s := c.outboxOf(r.Holder.Instance)
	c.sendLater(r.Holder.Instance, s)
	s.acks = append(s.acks, fleet.Ack{Token: r.Token, Index: r.Index})
	c.mu.Unlock()
	if m != nil {
		_ = m.Ack()
	}
}

// offset returns what is to be added to the times in what a worker says. m is the message of a report that was left with the broker: when nothing else is heard
// of the worker, the time that it was there is added too.
func (c *coordinator) offset(instance string, m jetstream.Msg) time.Duration {
	c.mu.Lock()
	offset, known := c.clocks[instance]
	_, heard := c.seen[instance]
	c.mu.Unlock()
	if known || heard || m == nil {
		return offset
	}
	sent, err := time.Parse(time.RFC3339Nano, m.Headers().Get(nowHeader))
	if err != nil {
		return 0
	}
	return fleet.Offset(sent, time.Now())
}

// relay passes on what happens inside an attempt, with times moved.
func (c *coordinator) relay(stop context.Context, a *agent.Attempt, r fleet.Report, offset time.Duration) {
	switch r.Kind {
	case fleet.Placed:
		c.mu.Lock()
		host := c.roster.hostOf(r.Holder.Instance)
		c.mu.Unlock()
		c.host.Emit(a, events.AgentPlaced{ItemID: a.ItemID, ItemIndex: a.ItemIndex, AgentID: a.ID, Attempt: a.Number, Node: r.Holder.Node, Host: host, Slot: r.Holder.Slot})
	case fleet.Event:
		rec, err := events.Decode(r.Event)
		if err != nil {
			c.dropped(r, err.Error())
			return
		}
		e, ok := events.Within(rec.Event, events.Attempt{ItemID: a.ItemID, ItemIndex: a.ItemIndex, Phase: a.Phase, Number: a.Number, Node: r.Holder.Node})
		if !ok {
			c.dropped(r, events.TypeOf(rec.Event)+" does not happen inside an attempt")
			return
		}
		fleet.Shift(&e, offset)
		c.host.Emit(a, e)
	case fleet.Printed:
		if r.Entry != nil {
			e := *r.Entry
			e.ItemID, e.Phase, e.Attempt, e.Limit = a.ItemID, "", a.Number, ""
			c.host.Output(a, e)
		}
	case fleet.Parked: // another may be sent to the worker meanwhile; that goes on without asking
		go func() { _, _ = c.host.Pause(stop, a, r.For, false) }()
	}
}

// dropped says once of each worker that it has sent an event that cannot be recorded.
func (c *coordinator) dropped(r fleet.Report, why string) {
	c.notifyOnce(r.Holder.Instance+"/event", "worker %s sent an event that is not recorded: %s. If that is not your worker, remove its credentials (prodigy fleet remove)", r.Holder.Node, why)
}

// progress hears which step an attempt is at.
func (c *coordinator) progress(m *nats.Msg) {
	rec, err := events.Decode(m.Data)
	if err != nil {
		return
	}
	if e, ok := rec.Event.(events.AgentProgress); ok {
		c.host.Progress(&agent.Attempt{ItemID: e.ItemID}, e)
	}
}
