package natsfleet

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/limit"
)

// callArgs are the arguments of a call: each method has some of them.
type callArgs struct {
	Breaker  agent.StepBreaker `json:"breaker,omitzero"`
	Step     limit.Ticket      `json:"step,omitzero"` // start of a step
	Success  bool              `json:"success,omitempty"`
	Turn     agent.StepTurn    `json:"turn,omitzero"`
	KeepSlot bool              `json:"keep_slot,omitempty"`
	Ask      agent.AgentAsk    `json:"ask,omitzero"`
	Agent    agent.AgentTicket `json:"agent,omitzero"` // start of an AI agent
	Failure  *agent.Failure    `json:"failure,omitempty"`
	Use      ai.LimitUse       `json:"use,omitzero"`
	Cost     limit.USD         `json:"cost,omitempty"`
	Usage    []byte            `json:"usage,omitempty"` // a line of a log
	Phase    string            `json:"phase,omitempty"`
	Number   int               `json:"number,omitempty"` // of a step in the phase
	Name     string            `json:"name,omitempty"`   // of something shared, or of a file
	Want     []string          `json:"want,omitempty"`   // commits that the worker asks for
	Have     []string          `json:"have,omitempty"`   // and some that it has
}

// callResult is what methods of agent.Host return: each has some of that.
type callResult struct {
	Step    limit.Ticket      `json:"step,omitzero"`
	Refused string            `json:"refused,omitempty"`
	Shut    time.Duration     `json:"shut,omitempty"`
	Agent   agent.AgentTicket `json:"agent,omitzero"`
	Refusal *agent.Failure    `json:"refusal,omitempty"`
	Again   bool              `json:"again,omitempty"`
	Over    bool              `json:"over,omitempty"`
	Printed *agent.Printed    `json:"printed,omitempty"`
}

const (
	callAdmitStep   = "admit_step"
	callReportStep  = "report_step"
	callStepTurn    = "step_turn"
	callAdmitAgent  = "admit_agent"
	callReportAgent = "report_agent"
	callRelease     = "release"
	callAgentCost   = "agent_cost"
	callRecordUsage = "record_usage"
	callUnmasked    = "unmasked"
	callPack        = "pack"
	callShared      = "shared"
	callSendAgain   = "send_again"
	callSecrets     = "secrets"
)

// callID names a call: each worker numbers its own.
type callID struct{ from, id string }

// call is a call of a worker that is being answered, or was.
type call struct {
	// done is closed when the answer is known. What follows is set by then.
	done   chan struct{}
	answer fleet.CallAnswer
	// pieces has the answer instead if it is too large for a message.
	pieces []fleet.Piece
	// at is when the answer was known.
	at time.Time
}

// callTable has the calls of workers, and the starts that they were admitted to and have not given back.
type callTable struct {
	calls map[callID]*call
	// tickets has starts of half-open breakers and quotas, by instance.
	tickets map[string][]ticket
}

// ticket is a start that a worker has been admitted to and not answered yet.
type ticket struct {
	// name says what has admitted the start, and which one it was.
	name    string
	release func()
}

const (
	pendingAfter = 2 * time.Second // the worker is told to ask again
	callKept     = 2 * time.Minute // for a repeated request
)

// call answers a call of a worker. Repeated with the same id it has no second effect.
func (c *coordinator) call(m *nats.Msg) {
	var q fleet.Call
	if json.Unmarshal(m.Data, &q) != nil || !sentBy(q.From, m.Subject, 4) {
		return
	}
	var k *call
	c.turn(func(s *jobState) {
		if s.gone { // another coordinator answers
			return
		}
		t, id := &s.calls, callID{q.From, q.ID}
		if k = t.calls[id]; k == nil {
			k = &call{done: make(chan struct{})}
			if q.Method != callShared { // what attempts share is not kept for each worker that asks for it
				t.calls[id] = k
			}
			go c.answer(k, q)
		}
	})
	if k == nil {
		return
	}
	asked := time.Now()
	answer := fleet.CallAnswer{Pending: true}
	select {
	case <-k.done:
		answer = k.answer
		if len(k.pieces) > 0 { // what the worker has may be of another coordinator
			answer = fleet.CallAnswer{Piece: &k.pieces[q.Has/pieceSize%len(k.pieces)]}
		}
		answer.Age = max(0, asked.Sub(k.at))
	case <-time.After(pendingAfter):
	}
	if c.isGone() {
		return
	}
	_ = m.RespondMsg(c.signer.message("", signedAnswer, c.key+"\x00"+q.ID, encoded(answer)))
}

// answer makes a call, and keeps its answer. One that the next run gives stays open, so that the worker is told to ask
// again whenever it asks.
func (c *coordinator) answer(k *call, q fleet.Call) {
	result, err := c.invoke(q)
	if errors.Is(err, errNextRun) {
		return
	}
	var answer fleet.CallAnswer
	if err != nil {
		answer.Err = err.Error()
		_, answer.Over = errors.AsType[overError](err)
	} else if answer.Result = encoded(result); q.Method == callSecrets || q.Method == callUnmasked {
		box, err := c.curve.Seal(answer.Result, q.Curve)
		if answer = (fleet.CallAnswer{Sealed: box, Key: c.curveID}); err != nil {
			answer = fleet.CallAnswer{Err: "seal the answer: " + err.Error()}
		}
	}
	data := encoded(answer)
	c.turn(func(s *jobState) {
		if k.answer, k.at = answer, time.Now(); len(data) > maxBody {
			k.answer, k.pieces = fleet.CallAnswer{}, fleet.Pieces(data, pieceSize)
		}
		close(k.done)
	})
	time.AfterFunc(callKept, func() {
		c.turn(func(s *jobState) { delete(s.calls.calls, callID{q.From, q.ID}) })
	})
}

// overError is why the coordinator does not want an attempt to go on: the job has to stop, or is stopping, or the
// attempt is given up.
type overError struct{ error }

var (
	errNotOut error = overError{errors.New("the attempt is no longer running")}

	// errNextRun is the error for a call about an attempt that this run has left to the next one: its worker is to ask
	// that.
	errNextRun = errors.New("the next run will answer")
)

// invoke makes the call of a worker. A start that is admitted is kept until the worker reports or releases it: then
// nothing happens if the start was given back meanwhile, such as that of a worker that was taken for lost.
func (c *coordinator) invoke(q fleet.Call) (any, error) {
	var a callArgs
	if err := json.Unmarshal(q.Args, &a); err != nil {
		return nil, err
	}
	fleet.Shift(&a, c.offset(q.From))
	f := c.flightOf(q.Token)
	start := c.ours(a.Agent)
	switch q.Method {
	case callSecrets:
		return c.c.Secrets, nil
	case callAdmitStep:
		t, refused, err := c.host.AdmitStep(c.life, a.Breaker)
		if err == nil && refused == "" {
			c.keep(q.From, callArgs{Breaker: a.Breaker, Step: t}, func() { c.host.ReleaseStep(a.Breaker, t) })
		}
		return callResult{Step: t, Refused: refused}, err
	case callReportStep:
		var shut time.Duration
		if c.drops(q.From, a) != nil {
			shut = c.host.ReportStep(a.Breaker, a.Step, a.Success)
		}
		return callResult{Shut: shut}, nil
	case callRelease:
		if release := c.drops(q.From, a); release != nil {
			release()
		}
		return nil, nil
	case callAgentCost:
		return callResult{Over: c.host.AgentCost(start, a.Cost)}, nil
	case callRecordUsage:
		return nil, c.recordUsage(q, f, a)
	case callShared:
		return c.shared(a.Name)
	case callSendAgain:
		return nil, c.sendAgain(a.Name)
	}
	if f == nil {
		return nil, errNotOut
	}
	switch q.Method {
	case callStepTurn: // an attempt that ends meanwhile takes none
		_, err := c.host.StepTurn(f.ctx, f.Attempt, a.Turn, a.KeepSlot)
		return nil, err
	case callAdmitAgent:
		_, t, refusal, err := c.host.AdmitAgent(f.ctx, f.Attempt, a.Ask, a.KeepSlot)
		if err != nil {
			return nil, c.broke(f, err)
		}
		t.Owner = c.owner
		if refusal == nil {
			c.keep(q.From, callArgs{Agent: t}, func() { c.host.ReleaseAgent(t) })
		}
		return callResult{Agent: t, Refusal: refusal}, nil
	case callReportAgent:
		if start.ID >= 0 && c.drops(q.From, a) == nil {
			return nil, nil
		}
		again, err := c.host.ReportAgent(f.Attempt, start, a.Failure, a.Use)
		if err != nil {
			return nil, c.broke(f, err)
		}
		return callResult{Again: again}, nil
	case callUnmasked: // secrets included: the answer is sealed for the worker
		if p, ok := c.host.Unmasked(f.Attempt, a.Phase, a.Number); ok {
			return callResult{Printed: &p}, nil
		}
		return callResult{}, nil
	case callPack:
		return c.pack(f.Attempt, a.Want, a.Have)
	}
	return nil, errors.New("unknown method " + q.Method)
}

// flightOf returns the attempt with a token, or nil if it is not out. It waits until those are known that the run
// before left.
func (c *coordinator) flightOf(token int64) (f *flight) {
	adopts := false
	c.turn(func(s *jobState) { f, adopts = s.flights[token], len(s.awaited) > 0 })
	if f != nil || !adopts || token == 0 {
		return f
	}
	select {
	case <-c.adopted:
	case <-c.life.Done():
	}
	c.turn(func(s *jobState) { f = s.flights[token] })
	return f
}

// keep keeps a start of a worker, so that it is given back when the worker is lost.
func (c *coordinator) keep(instance string, of callArgs, release func()) {
	c.turn(func(s *jobState) {
		s.workers.of(instance).heard = time.Now()
		s.calls.tickets[instance] = append(s.calls.tickets[instance], ticket{of.start(), release})
	})
}

// drops forgets a start of a worker, and returns what gives it back. It returns nil if this coordinator has not
// admitted the start: one before did.
func (c *coordinator) drops(instance string, of callArgs) (release func()) {
	name := of.start()
	c.turn(func(s *jobState) {
		list := s.calls.tickets[instance]
		if i := slices.IndexFunc(list, func(t ticket) bool { return t.name == name }); i >= 0 {
			release = list[i].release
			s.calls.tickets[instance] = slices.Delete(list, i, i+1)
		}
	})
	return release
}

// start returns the name of the start that a call is about, of a step or of an AI agent. A breaker that is closed
// gives many starts of one name, which are counted each.
func (a callArgs) start() string {
	return string(encoded(callArgs{
		Breaker: a.Breaker, Step: a.Step, Agent: agent.AgentTicket{ID: a.Agent.ID, Owner: a.Agent.Owner},
	}))
}

// ours returns a ticket of an agent as the host knows it. Of one that a coordinator before gave, nothing is kept any
// more.
func (c *coordinator) ours(t agent.AgentTicket) agent.AgentTicket {
	if t.Owner != c.owner {
		t.ID = -1
	}
	return t
}

// recordUsage records what an agent has used, also one of an attempt that was given up: it has cost that.
func (c *coordinator) recordUsage(q fleet.Call, f *flight, args callArgs) error {
	rec, err := events.Decode(args.Usage)
	e, ok := rec.Event.(events.AgentUsage)
	if err != nil || !ok {
		return err
	}
	var of events.AttemptID
	left := false
	if f != nil {
		of = f.AttemptID()
	} else {
		c.turn(func(s *jobState) {
			if lost := s.ledger.LostOf(q.Token, q.From); lost != nil {
				of = lost.AttemptID
			}
			left = s.ledger.Left(q.Token)
		})
	}
	switch {
	case of.AgentID != "":
		e.ItemID, e.ItemIndex, e.Phase, e.AgentID, e.Attempt = of.ItemID, of.ItemIndex, "", of.AgentID, of.Attempt
		c.host.RecordUsage(&agent.Attempt{}, c.ours(args.Agent), e)
		return nil
	case left: // to the next run, which is not said before this one ends
		<-c.life.Done()
		return errNextRun
	}
	return errNotOut
}

// shared returns what attempts have in common, by its name.
func (c *coordinator) shared(name string) (any, error) {
	var data []byte
	c.turn(func(s *jobState) { data = s.shared.data[name] })
	if data == nil {
		return nil, overError{errors.New("another coordinator took over the job")}
	}
	return json.RawMessage(data), nil
}

// broke has an attempt end with an error that is the job's, and stop the run as that says. It returns what the worker
// is answered.
func (c *coordinator) broke(f *flight, err error) error {
	c.turn(func(*jobState) {
		if f.ctx.Err() == nil {
			f.broke = err
		}
	})
	return overError{err}
}
