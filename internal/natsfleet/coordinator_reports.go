package natsfleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
)

// receive takes what a worker says.
func (c *coordinator) receive(m *nats.Msg) {
	var u fleet.WorkerMessage
	err := jsonv1.Unmarshal(m.Data, &u)    // which is encoding/json in all but the time that it takes
	if u.V != 0 && u.V != fleet.Protocol { // there may be no more that is the same
		c.notifyOnce(u.Instance, "worker %s cannot join: it uses fleet protocol %d, and this prodigy, "+
			"%s, uses %d", u.Node, u.V, c.o.Version, fleet.Protocol)
		return
	}
	if err != nil || u.V == 0 || u.Owner != c.owner || !sentBy(u.Instance, m.Subject, 2) {
		return
	}
	if !c.isNamed(u.Instance, u.Node, u.NameSig) {
		c.notifyOnce(u.Instance, "worker %s cannot join: its credentials are for another name: start it with the "+
			"name they were created for, or renew them (prodigy fleet remove, then add)", u.Node)
		return
	}
	c.turn(func(s *jobState) {
		w := s.workers.of(u.Instance)
		w.offset = fleet.Drifted(w.offset, u.Now, time.Now())
	})
	for _, r := range u.Reports {
		r.Holder.Instance, r.Holder.Node = u.Instance, u.Node
		c.report(r)
	}
	if u.Refuses != "" {
		go c.notifyOnce(u.Instance, "worker %s cannot join: %s", u.Node, u.Refuses)
	}
	short := false // whether its machine has too little of something has changed
	c.turn(func(s *jobState) {
		now := time.Now()
		short = s.workers.hear(u, now)
		if u.Unkept != "" {
			s.refuses.note(errors.New(u.Unkept), now)
		}
		if u.Refuses == "" {
			s.ledger.Hear(u.WorkerStatus, now)
		}
	})
	switch {
	case !short:
	case u.Short == "":
		go c.notify("worker %s accepts attempts again", u.Node)
	default:
		go c.notify("worker %s accepts no attempts for now: %s", u.Node, u.Short)
	}
}

// isNamed is the function of this name, which takes a while, for each worker and its name once.
func (c *coordinator) isNamed(instance, node, sig string) (known bool) {
	if c.o.Names == "" {
		return true
	}
	c.turn(func(s *jobState) {
		known = node != "" && s.workers[instance] != nil && s.workers[instance].named == node
	})
	if known || !isNamed(c.o.Names, instance, node, sig) {
		return known
	}
	c.turn(func(s *jobState) { s.workers.of(instance).named = node })
	return true
}

// stored takes a report that a worker has left with the broker.
func (c *coordinator) stored(m jetstream.Msg) {
	var r fleet.Report
	if err := json.Unmarshal(m.Data(), &r); err != nil || r.V != fleet.Protocol ||
		!sentBy(r.Holder.Instance, m.Subject(), 2) ||
		!c.isNamed(r.Holder.Instance, r.Holder.Node, m.Headers().Get(nameHeader)) {
		_ = m.Ack() // nobody will ever be able to read it, or believe it
		return
	}
	c.report(r, m)
}

// relayRetry is after which time the broker delivers a report again that cannot be taken yet, such as while one before
// it is passed on. Without that it would do so only after a lease, and say meanwhile that it has delivered all.
const relayRetry = 100 * time.Millisecond

// report takes what a worker says of an attempt. msgs has the message of a report that was left with the broker.
func (c *coordinator) report(r fleet.Report, msgs ...jetstream.Msg) {
	offset := c.offset(r.Holder.Instance, msgs...)
	var verdict fleet.Verdict
	var pass func() // passes on what happened inside the attempt
	c.turn(func(s *jobState) {
		f := s.flights[r.Token]
		verdict = s.ledger.Report(r, time.Now())
		if f != nil && r.Piece != nil && (verdict == fleet.Inside || verdict == fleet.Final) {
			r = f.whole(r)
			msgs = append(msgs, f.msgs...)
			f.msgs = nil
		}
		fleet.Shift(&r, offset)
		host := s.workers.hostOf(r.Holder.Instance)
		switch verdict {
		case fleet.Piecemeal:
			f.joined.Join(*r.Piece)
			f.msgs = append(f.msgs, msgs...)
		case fleet.Kept:
			if end := s.ended[r.Token]; end != nil {
				end.msgs = append(end.msgs, msgs...)
			}
		case fleet.Late:
			lost := s.ledger.TakeLost(r.Token)
			pass = func() { c.emitLate(lost, r) }
		case fleet.Inside:
			pass = func() {
				c.relay(f, r, host, offset)
				if r.Kind == fleet.Echoed {
					c.show(f, r.Echo)
				}
			}
		case fleet.Final:
			c.endReported(s, f, r, host, msgs)
		}
	})
	switch verdict {
	case fleet.Later:
		for _, m := range msgs { // without one its worker repeats it
			_ = m.NakWithDelay(relayRetry)
		}
		return
	case fleet.Late, fleet.Inside:
		pass()
		c.turn(func(s *jobState) { s.ledger.Relayed(r) })
	case fleet.Ignore, fleet.Piecemeal, fleet.Kept, fleet.Final:
		return
	}
	for _, m := range msgs {
		_ = m.Ack()
	}
}

// whole returns the report whose last piece is r. If one was lost, the attempt is.
func (f *flight) whole(r fleet.Report) fleet.Report {
	whole := r
	if !f.joined.Join(*r.Piece) || json.Unmarshal(f.joined.Data, &whole) != nil {
		whole.Kind, whole.Reason = fleet.Dropped, "the broker lost part of its report, or the report was modified"
	}
	f.joined = fleet.Joined{}
	whole.Token, whole.Index, whole.Holder, whole.Piece = r.Token, r.Index, r.Holder, nil
	return whole
}

// endReported ends a flight by the report of its end, or has what it has produced fetched first.
func (c *coordinator) endReported(s *jobState, f *flight, r fleet.Report, host string, msgs []jetstream.Msg) {
	var e flightEnd
	switch {
	case r.Kind == fleet.Returned:
		e.err = fmt.Errorf("%s: %w", r.Reason, agent.ErrReturned)
	case r.Kind == fleet.Broken:
		e.err = fmt.Errorf("%s on %s: %w", r.Reason, r.Holder.Node, agent.ErrReturned)
	case r.Kind == fleet.Dropped, r.Outcome == nil:
		reason := cmp.Or(r.Reason, "its report has no outcome")
		e.err = &agent.LostError{Place: events.Place{Node: r.Holder.Node}, Reason: reason, Cut: r.Cut}
	default:
		e.outcome = *r.Outcome
	}
	e.outcome.Place = placeOf(r, host)
	by := fleet.Ending{Token: r.Token, Index: r.Index, Instance: r.Holder.Instance}
	e.msgs = msgs
	if c.produces == nil {
		r.Files = nil
	}
	if e.err != nil || len(r.Files) == 0 && e.outcome.Commit == "" {
		c.endFlight(s, by, e)
		return
	}
	for _, file := range r.Files {
		e.objects = append(e.objects, file.Object)
	}
	if r.Pack != nil && r.Pack.Object != "" {
		e.objects = append(e.objects, r.Pack.Object)
	}
	s.ledger.Fetch(r.Token)
	c.work.Go(func() { c.endWithResults(f, r, by, e) })
}

// endWithResults ends a flight when what it has produced or done is here.
func (c *coordinator) endWithResults(f *flight, r fleet.Report, by fleet.Ending, e flightEnd) {
	c.slow.fetching <- struct{}{}
	var err error
	if len(r.Files) > 0 {
		err = c.fetchMade(f, r.Files)
	}
	if err == nil && e.outcome.Commit != "" {
		err = c.takeWork(f, r.Pack, &e.outcome)
	}
	<-c.slow.fetching
	if c.life.Err() != nil {
		return
	}
	if err != nil {
		e.outcome, e.err = agent.Outcome{}, err
	}
	c.turn(func(s *jobState) { c.endFlight(s, by, e) })
}

// offset returns what is to be added to the times in what a worker says. msgs has the message of a report that was
// left with the broker: when nothing else is heard of the worker, the time that it was there is added too.
func (c *coordinator) offset(instance string, msgs ...jetstream.Msg) (offset time.Duration) {
	heard := false
	c.turn(func(s *jobState) {
		if w := s.workers[instance]; w != nil {
			offset, heard = w.offset, !w.heard.IsZero()
		}
	})
	if heard || len(msgs) == 0 {
		return offset
	}
	sent, err := time.Parse(time.RFC3339Nano, msgs[0].Headers().Get(nowHeader))
	if err != nil {
		return 0
	}
	return fleet.Offset(sent, time.Now())
}

// relay passes on what happens inside an attempt, with times moved. host is the machine of its worker.
func (c *coordinator) relay(f *flight, r fleet.Report, host string, offset time.Duration) {
	a := f.Attempt
	switch r.Kind {
	case fleet.Placed:
		c.host.Emit(a, events.AgentPlaced{
			AttemptID: a.AttemptID(),
			Place:     placeOf(r, host),
		})
	case fleet.Event:
		rec, err := events.Decode(r.Event)
		if err != nil {
			c.dropped(r, err.Error())
			return
		}
		e, ok := events.Within(rec.Event, events.Attempt{
			ItemID: a.ItemID, ItemIndex: a.ItemIndex, Phase: a.Phase, Attempt: a.Number, Node: r.Holder.Node,
		})
		if !ok {
			c.dropped(r, events.TypeOf(rec.Event)+" is not an event of an attempt")
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
		go func() { _, _ = c.host.Pause(f.ctx, a, r.For, false) }()
	}
}

// placeOf returns where a report comes from. host is the machine of the worker, if it has another name.
func placeOf(r fleet.Report, host string) events.Place {
	return events.Place{Node: r.Holder.Node, Host: host, Slot: r.Holder.Slot}
}

// dropped says once of each worker that it has sent an event that cannot be recorded.
func (c *coordinator) dropped(r fleet.Report, why string) {
	c.notifyOnce(r.Holder.Instance+"/event", "ignored an event from worker %s: %s. If this is not your worker, "+
		"remove its credentials (prodigy fleet remove)", r.Holder.Node, why)
}

// emitLate records the end of an attempt that was given up before.
func (c *coordinator) emitLate(l fleet.LostAttempt, r fleet.Report) {
	e := events.AgentEndedLate{
		AttemptID: l.AttemptID, Token: l.Token,
		Node: r.Holder.Node, Slot: r.Holder.Slot,
	}
	switch {
	case r.Kind == fleet.Dropped:
		e.Outcome = events.LateKilled
	case r.Kind != fleet.Ended:
		e.Outcome = events.LateReturned
	case r.Outcome == nil || r.Outcome.Failure != nil:
		e.Outcome = events.LateFailed
	default:
		e.Outcome = events.LateSucceeded
	}
	if r.Outcome != nil && r.Kind == fleet.Ended {
		e.DurationMS = events.Millis(r.Outcome.Duration)
	}
	c.host.Emit(&agent.Attempt{}, e)
}

// progress hears which step an attempt is at.
func (c *coordinator) progress(m *nats.Msg) {
	rec, err := events.Decode(m.Data)
	if err != nil {
		return
	}
	if e, ok := rec.Event.(events.AgentProgress); ok {
		c.host.Progress(&agent.Attempt{Assignment: agent.Assignment{ItemID: e.ItemID}}, e)
	}
}

// endLost ends an attempt that is lost, and reports whether it has: one whose end is here, and is known when all is
// fetched that it has left, needs its worker no more.
func (c *coordinator) endLost(s *jobState, lost fleet.Loss) bool {
	if f := s.flights[lost.Token]; f == nil || s.ledger.Fetches(lost.Token) {
		return false
	}
	reason := fmt.Sprintf("no contact with its worker for %s", c.o.Lease)
	switch {
	case lost.Left:
		reason = "the broker lost its result"
	case lost.Missing:
		reason = "its worker no longer has it, and its outcome is unknown"
	}
	return c.endFlight(s, fleet.Ending{Token: lost.Token}, flightEnd{
		err: &agent.LostError{
			Place:  events.Place{Node: lost.Node},
			Reason: reason, Unbegun: !lost.Began, Cut: lost.Missing,
		},
	})
}

// flightEnd is how an attempt has ended, and what the broker has of it. That goes when the record of the end is on
// disk.
type flightEnd struct {
	outcome agent.Outcome
	err     error
	objects []string        // names of what the attempt has left
	msgs    []jetstream.Msg // reports that were left with the broker, to be acknowledged
}

// endFlight ends a flight. by names the report that says so. It reports false if the attempt is not out: who reported
// that is late.
func (c *coordinator) endFlight(s *jobState, by fleet.Ending, e flightEnd) bool {
	f := s.flights[by.Token]
	if f == nil {
		return false
	}
	by.AgentID = f.ID
	lost, isLost := errors.AsType[*agent.LostError](e.err)
	var h fleet.Holder
	if isLost && by.Instance == "" {
		h, _ = s.ledger.Lose(f.Attempt)
	} else {
		h, _ = s.ledger.End(by)
	}
	if isLost {
		lost.Node, lost.Host = cmp.Or(lost.Node, h.Node), s.workers.hostOf(h.Instance)
	}
	delete(s.flights, by.Token)
	f.cancel()
	if f.broke != nil && e.err != nil {
		e.err = f.broke
	}
	s.ended[by.Token] = &e
	f.done(f.Attempt, e.outcome, e.err)
	return true
}

// Persisted does what waits for the records of ends that are on disk now.
func (c *coordinator) Persisted(records []events.Record) {
	for _, r := range records {
		end, ok := events.EndOf(r.Event)
		if !ok || end.AgentID == "" {
			continue
		}
		var after *flightEnd
		c.turn(func(s *jobState) {
			if e, ok := s.ledger.Written(end.AgentID, end.How == events.Lost); ok {
				after = s.ended[e.Token]
				delete(s.ended, e.Token)
			}
		})
		if after == nil {
			continue
		}
		for _, m := range after.msgs {
			_ = m.Ack()
		}
		for _, name := range after.objects {
			c.work.Go(func() { _ = c.remove(c.life, name) }) // or with the job
		}
	}
}
