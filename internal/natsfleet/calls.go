package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/limit"
)

// The arguments and results of the methods of agent.Host that a worker passes on.
type (
	stepArgs struct {
		Breaker agent.StepBreaker `json:"breaker"`
		Ticket  limit.Ticket      `json:"ticket,omitzero"`
		Success bool              `json:"success,omitempty"`
	}
	stepResult struct {
		Ticket  limit.Ticket `json:"ticket,omitzero"`
		Refusal string       `json:"refusal,omitempty"`
	}
	agentArgs struct {
		Ask      agent.AgentAsk    `json:"ask,omitzero"`
		Ticket   agent.AgentTicket `json:"ticket,omitzero"`
		KeepSlot bool              `json:"keep_slot,omitempty"`
		Failure  *agent.Failure    `json:"failure,omitempty"`
		Use      ai.LimitUse       `json:"use,omitzero"`
		Cost     limit.USD         `json:"cost,omitempty"`
		Usage    []byte            `json:"usage,omitempty"` // a line of a log
	}
	agentResult struct {
		Ticket  agent.AgentTicket `json:"ticket,omitzero"`
		Refusal *agent.Failure    `json:"refusal,omitempty"`
		Again   bool              `json:"again,omitempty"`
		Over    bool              `json:"over,omitempty"`
	}
	turnArgs struct {
		Turn     agent.StepTurn `json:"turn"`
		KeepSlot bool           `json:"keep_slot,omitempty"`
	}
	unmaskedArgs struct {
		Phase string `json:"phase"`
		Step  int    `json:"step"`
	}
	unmaskedResult struct {
		Printed agent.Printed `json:"printed"`
		OK      bool          `json:"ok"`
	}
)

const (
	callAdmitStep    = "admit_step"
	callReportStep   = "report_step"
	callReleaseStep  = "release_step"
	callStepTurn     = "step_turn"
	callAdmitAgent   = "admit_agent"
	callReportAgent  = "report_agent"
	callReleaseAgent = "release_agent"
	callAgentCost    = "agent_cost"
	callRecordUsage  = "record_usage"
	callUnmasked     = "unmasked"
	callPack         = "pack"
	callShared       = "shared"
	callSendAgain    = "send_again"
	callSecrets      = "secrets"
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

// callHandler answers calls of workers. f is the attempt that a call is about, or nil if it is not out.
type callHandler func(c *coordinator, q fleet.Call, f *flight) (any, error)

// handlers are the methods that workers call.
var handlers = map[string]callHandler{
	callAdmitStep:    stepCall,
	callReportStep:   stepCall,
	callReleaseStep:  stepCall,
	callStepTurn:     handler((*coordinator).stepTurn),
	callAdmitAgent:   handler((*coordinator).admitAgent),
	callReportAgent:  agentCall,
	callReleaseAgent: agentCall,
	callAgentCost:    agentCall,
	callRecordUsage:  handler((*coordinator).recordUsage),
	callUnmasked:     handler((*coordinator).unmasked),
	callPack:         handler((*coordinator).pack),
	callShared:       handler((*coordinator).shared),
	callSendAgain:    handler((*coordinator).sendAgain),
}

var (
	stepCall  = handler((*coordinator).stepCalled)
	agentCall = handler((*coordinator).agentCalled)
)

// handler returns the handler of a method with arguments of one type. Times in what agents have told are moved to the
// clock of the coordinator.
func handler[A any](do func(*coordinator, fleet.Call, *flight, A) (any, error)) callHandler {
	return func(c *coordinator, q fleet.Call, f *flight) (any, error) {
		var args A
		if err := json.Unmarshal(q.Args, &args); err != nil {
			return nil, err
		}
		if a, ok := any(&args).(*agentArgs); ok {
			fleet.Shift(a, c.offset(q.From, nil))
		}
		return do(c, q, f, args)
	}
}

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

// invoke calls the method of the host.
func (c *coordinator) invoke(q fleet.Call) (any, error) {
	if q.Method == callSecrets {
		return c.c.Secrets, nil
	}
	if do := handlers[q.Method]; do != nil {
		return do(c, q, c.flightOf(q.Token))
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

// contextOf returns a context that ends with an attempt, or nil if that is not out any more.
func (c *coordinator) contextOf(f *flight) (ctx context.Context) {
	c.turn(func(s *jobState) {
		if f != nil && s.flights[f.Token] == f {
			ctx = f.stopping().ctx
		}
	})
	return ctx
}

// keep keeps a start of a worker, so that it is given back when the worker is lost.
func (c *coordinator) keep(instance, name string, release func()) {
	c.turn(func(s *jobState) {
		s.workers.of(instance).heard = time.Now()
		s.calls.tickets[instance] = append(s.calls.tickets[instance], ticket{name, release})
	})
}

// drops forgets a start of a worker. It reports false if this coordinator has not admitted it: one before did.
func (c *coordinator) drops(instance, name string) (had bool) {
	c.turn(func(s *jobState) {
		list := s.calls.tickets[instance]
		i := slices.IndexFunc(list, func(t ticket) bool { return t.name == name })
		if had = i >= 0; had {
			s.calls.tickets[instance] = slices.Delete(list, i, i+1)
		}
	})
	return had
}

// stepTicket returns the name of a start of a step, for keep and drops. A breaker that is closed gives many starts of
// one name, which are counted each.
func stepTicket(b agent.StepBreaker, t limit.Ticket) string {
	return string(encoded(stepArgs{Breaker: b, Ticket: t}))
}

// stepCalled answers what is asked and said about the starts of a step. One that is admitted is kept until the worker
// reports or releases it: then nothing happens if the start was given back meanwhile, such as that of a worker that was
// taken for lost.
func (c *coordinator) stepCalled(q fleet.Call, _ *flight, args stepArgs) (any, error) {
	b, t := args.Breaker, args.Ticket
	switch q.Method {
	case callAdmitStep:
		t, refusal, err := c.host.AdmitStep(c.life, b)
		if err == nil && refusal == "" {
			c.keep(q.From, stepTicket(b, t), func() { c.host.ReleaseStep(b, t) })
		}
		return stepResult{t, refusal}, err
	case callReportStep:
		if c.drops(q.From, stepTicket(b, t)) {
			c.host.ReportStep(b, t, args.Success)
		}
	case callReleaseStep:
		if c.drops(q.From, stepTicket(b, t)) {
			c.host.ReleaseStep(b, t)
		}
	}
	return nil, nil
}

// stepTurn waits for a turn of the rate of a step. An attempt that ends meanwhile takes none.
func (c *coordinator) stepTurn(_ fleet.Call, f *flight, args turnArgs) (any, error) {
	ctx := c.contextOf(f)
	if ctx == nil {
		return nil, errNotOut
	}
	_, err := c.host.StepTurn(ctx, f.Attempt, args.Turn, args.KeepSlot)
	return nil, err
}

// agentTicket returns the name of a start of an AI agent, for keep and drops.
func agentTicket(id int64) string { return "agent " + strconv.FormatInt(id, 10) }

// ours returns a ticket of an agent as the host knows it. Of one that a coordinator before gave, nothing is kept any
// more.
func (c *coordinator) ours(t agent.AgentTicket) agent.AgentTicket {
	if t.Owner != c.owner {
		t.ID = -1
	}
	return t
}

// admitAgent waits until the job lets an AI agent begin, or refuses it. An error of the job ends the attempt, and
// stops the run as the error says.
func (c *coordinator) admitAgent(q fleet.Call, f *flight, args agentArgs) (any, error) {
	ctx := c.contextOf(f)
	if ctx == nil {
		return nil, errNotOut
	}
	_, t, refusal, err := c.host.AdmitAgent(ctx, f.Attempt, args.Ask, args.KeepSlot)
	if err != nil {
		if ctx.Err() == nil {
			c.broke(f, err)
		}
		return nil, overError{err}
	}
	if refusal == nil {
		c.keep(q.From, agentTicket(t.ID), func() { c.host.ReleaseAgent(t) })
	}
	t.Owner = c.owner
	return agentResult{Ticket: t, Refusal: refusal}, nil
}

// agentCalled answers what is asked and said about an AI agent that was admitted.
func (c *coordinator) agentCalled(q fleet.Call, f *flight, args agentArgs) (any, error) {
	t := c.ours(args.Ticket)
	switch q.Method {
	case callReportAgent:
		if f == nil {
			return nil, errNotOut
		}
		if t.Owner == c.owner && !c.drops(q.From, agentTicket(t.ID)) {
			return nil, nil
		}
		again, err := c.host.ReportAgent(f.Attempt, t, args.Failure, args.Use)
		if err != nil {
			c.broke(f, err)
			return nil, overError{err}
		}
		return agentResult{Again: again}, nil
	case callReleaseAgent:
		if c.drops(q.From, agentTicket(t.ID)) {
			c.host.ReleaseAgent(t)
		}
	case callAgentCost:
		return agentResult{Over: c.host.AgentCost(t, args.Cost)}, nil
	}
	return nil, nil
}

// recordUsage records what an agent has used, also one of an attempt that was given up: it has cost that.
func (c *coordinator) recordUsage(q fleet.Call, f *flight, args agentArgs) (any, error) {
	rec, err := events.Decode(args.Usage)
	e, ok := rec.Event.(events.AgentUsage)
	if err != nil || !ok {
		return nil, err
	}
	var a *agent.Attempt
	left := false
	if f != nil {
		a = f.Attempt
	} else {
		c.turn(func(s *jobState) {
			if lost := s.ledger.LostOf(q.Token, q.From); lost != nil {
				a = lostAttempt(*lost, c.jobID)
			}
			left = s.ledger.Left(q.Token)
		})
	}
	switch {
	case a != nil:
		e.ItemID, e.ItemIndex, e.Phase, e.AgentID, e.Attempt = a.ItemID, a.ItemIndex, "", a.ID, a.Number
		c.host.RecordUsage(a, c.ours(args.Ticket), e)
		return nil, nil
	case left: // to the next run, which is not said before this one ends
		<-c.life.Done()
		return nil, errNextRun
	}
	return nil, errNotOut
}

// unmasked answers with what a step of a phase has printed, secrets included. The answer is sealed for the worker.
func (c *coordinator) unmasked(_ fleet.Call, f *flight, args unmaskedArgs) (any, error) {
	if f == nil {
		return nil, errNotOut
	}
	p, ok := c.host.Unmasked(f.Attempt, args.Phase, args.Step)
	return unmaskedResult{p, ok}, nil
}

// shared returns what attempts have in common, by its name.
func (c *coordinator) shared(_ fleet.Call, _ *flight, name string) (any, error) {
	var data []byte
	c.turn(func(s *jobState) { data = s.shared.data[name] })
	if data == nil {
		return nil, overError{errors.New("another coordinator took over the job")}
	}
	return json.RawMessage(data), nil
}

// broke has the attempt end with an error that is the job's.
func (c *coordinator) broke(f *flight, err error) {
	c.turn(func(*jobState) { f.stopping().broke = err })
}
