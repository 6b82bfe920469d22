package natsfleet

import (
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
	delete(c.flights, token)
	delete(c.given, token)
	delete(c.ends, token)
	f.ended()
	if lost, ok := errors.AsType[*agent.LostError](e.err); ok && lost.Node == "" {
		lost.Node = h.Node
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
		switch e := r.Event.(type) {
		case events.AgentCompleted:
			id = e.AgentID
		case events.AgentFailed:
			id = e.AgentID
		case events.AgentInterrupted:
			id = e.AgentID
		case events.AgentLost:
			id = e.AgentID
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
		c.mu.Lock()
		told := c.refused[u.Instance]
		c.refused[u.Instance] = true
		c.mu.Unlock()
		if !told {
			c.notify("worker %s takes no part: it speaks protocol %d of the fleet, and this prodigy, %s, speaks %d", u.Node, u.V, c.o.Version, fleet.Protocol)
		}
		return
	}
	if err != nil || u.V == 0 || u.Owner != c.owner || u.Instance == "" || !sentBy(u.Instance, m.Subject, 2) {
		return
	}
	for _, r := range u.Reports {
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
	if u.Unkept != "" {
		c.refuses.note(errors.New(u.Unkept), now)
	}
	if u.Warns != "" && !c.refused[u.Instance+u.Warns] {
		c.refused[u.Instance+u.Warns] = true
		notice := c.notice
		go notice(fmt.Sprintf("worker %s has not believed something: %s", u.Node, u.Warns))
	}
	if u.Refuses != "" {
		told := c.refused[u.Instance]
		c.refused[u.Instance] = true
		if !told {
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

// stored takes a report that a worker has left with the broker.
func (c *coordinator) stored(m jetstream.Msg) {
	var r fleet.Report
	if err := json.Unmarshal(m.Data(), &r); err != nil || r.V != fleet.Protocol || !sentBy(r.Holder.Instance, m.Subject(), 2) {
		_ = m.Ack() // nobody will ever be able to read it
		return
	}
	if r.Kind == fleet.Gone {
		c.mu.Lock()
		c.dispatcher.WorkerEnded(r.Holder, r.Left, time.Now())
		c.countSlots()
		c.dispatch(time.Now())
		c.mu.Unlock()
		_ = m.Ack()
		return
	}
	c.report(r, r.Holder.Instance, m)
}

// relayRetry is after which time a report comes again that came while one before it was passed on.
const relayRetry = 100 * time.Millisecond

// report takes what a worker says of an attempt. m is the message of a report that was left with the broker.
func (c *coordinator) report(r fleet.Report, instance string, m jetstream.Msg) {
	if r.Ref != "" {
		ref := r.Ref
		err := keepTrying(c.life, func(ctx context.Context) error {
			data, err := c.get(ctx, ref)
			if errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, errAltered) {
				r = fleet.Report{Token: r.Token, Index: r.Index, Kind: fleet.Dropped, Holder: r.Holder, Reason: "the broker lost its report, or somebody altered it"}
				return nil
			}
			if err == nil {
				err = json.Unmarshal(data, &r)
			}
			return err
		})
		if err != nil {
			return
		}
	}
	r.Holder.Instance = instance
	c.mu.Lock()
	f, out := c.flights[r.Token]
	switch {
	case out && !c.isGivenTo(r.Token, instance):
		c.mu.Unlock()
		return
	case !out && c.pendingByToken[r.Token] != nil: // repeated, and not on disk yet
		if m != nil {
			end := c.pendingByToken[r.Token]
			end.msgs = append(end.msgs, m)
		}
		c.mu.Unlock()
		return
	case out && f.fetches:
		c.mu.Unlock()
		return
	case out && f.relays: // it came by another way than the one before, and would not be in order
		c.mu.Unlock()
		if m != nil {
			_ = m.NakWithDelay(relayRetry)
		}
		return
	case !out || !c.dispatcher.Reported(r.Token, r.Holder, time.Now()), f.last >= r.Index:
		c.ack(r, m)
		return
	case f.last >= 0 && r.Index != f.last+1: // one before it is missing, and will come again
		c.mu.Unlock()
		return
	}
	f.last = r.Index
	e := flightEnd{}
	switch r.Kind {
	case fleet.Ended:
		if r.Outcome == nil {
			e.err = &agent.LostError{Node: r.Holder.Node, Reason: "its report has no outcome"}
			break
		}
		e.outcome = *r.Outcome
		e.outcome.Node, e.outcome.Slot = r.Holder.Node, r.Holder.Slot
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
		if c.relay(stop.ctx, a, r); r.Kind == fleet.Echoed {
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

// relay passes on what happens inside an attempt.
func (c *coordinator) relay(stop context.Context, a *agent.Attempt, r fleet.Report) {
	switch r.Kind {
	case fleet.Placed:
		c.host.Emit(a, events.AgentPlaced{ItemID: a.ItemID, ItemIndex: a.ItemIndex, AgentID: a.ID, Attempt: a.Number, Node: r.Holder.Node, Slot: r.Holder.Slot})
	case fleet.Event:
		if rec, err := events.Decode(r.Event); err == nil {
			c.host.Emit(a, rec.Event)
		}
	case fleet.Printed:
		if r.Entry != nil {
			c.host.Output(a, *r.Entry)
		}
	case fleet.Parked: // another may be sent to the worker meanwhile; that goes on without asking
		go func() { _, _ = c.host.Pause(stop, a, r.For, false) }()
	}
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
