package natsfleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/aicli"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/limit"
	"prodigy/internal/spend"
)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// The arguments and results of the methods of agent.Host that a worker passes on.
type (
	stepArgs struct {
		Breaker agent.StepBreaker `json:"breaker"`
		Ticket  limit.Ticket      `json:"ticket,omitzero"`
		Success bool              `json:"success,omitempty"`
		After   time.Duration     `json:"after,omitempty"`
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
		Use      aicli.LimitUse    `json:"use,omitzero"`
		Cost     spend.USD         `json:"cost,omitempty"`
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
	turnResult   struct{}
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
	callStepRefusal  = "step_refusal"
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
	callSecrets      = "secrets"
)

// callID names a call: each worker numbers its own.
type callID struct{ from, id string }

// call is a call of a worker that is being answered, or was.
type call struct {
	done   chan struct{}
	answer fleet.CallAnswer // once done is closed
	at     time.Time
	ref    string // object that has answer, which is too large for a message; empty: none does
	data   []byte // that object
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
	id := callID{q.From, q.ID}
	c.mu.Lock()
	if c.gone { // another answers
		c.mu.Unlock()
		return
	}
	k := c.calls[id]
	if k == nil {
		k = &call{done: make(chan struct{})}
		c.calls[id] = k
		go func() {
			answer := c.perform(q)
			if answer.Pending { // k stays open, so that the worker is told so whenever it asks
				return
			}
			at := time.Now()
			ref, data := c.keepAnswer(answer)
			c.mu.Lock()
			defer c.mu.Unlock()
			if k.answer, k.at = answer, at; ref != "" {
				k.answer, k.ref, k.data = fleet.CallAnswer{Ref: ref}, ref, data
			}
			c.answered = append(c.answered, id)
			close(k.done)
		}()
	}
	for len(c.answered) > 0 && time.Since(c.calls[c.answered[0]].at) > callKept {
		c.removeAnswer(c.calls[c.answered[0]])
		delete(c.calls, c.answered[0])
		c.answered = c.answered[1:]
	}
	c.mu.Unlock()
	asked := time.Now()
	answer := fleet.CallAnswer{Pending: true}
	select {
	case <-k.done:
		if k.ref == "" || c.put(c.life, k.ref, k.data) == nil { // the broker may have lost it meanwhile
			answer = k.answer
			answer.Age = max(0, asked.Sub(k.at))
		}
	case <-time.After(pendingAfter):
	}
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone {
		return
	}
	respond := func(answer fleet.CallAnswer) error {
		return m.RespondMsg(c.signer.message("", signedAnswer, c.key+"\x00"+q.ID, encoded(answer)))
	}
	if err := respond(answer); errors.Is(err, nats.ErrMaxPayload) {
		_ = respond(fleet.CallAnswer{Err: "the answer is too large for the broker: let max_payload in its configuration be at least 1MB"})
	}
}

// keepAnswer has the broker keep an answer that is too large for a message, and returns the object and its name; an empty one: it is not too large.
func (c *coordinator) keepAnswer(answer fleet.CallAnswer) (ref string, data []byte) {
	data = encoded(answer)
	if len(data) <= maxBody {
		return "", nil
	}
	ref = objectName(c.key+"/answer-"+newInstance(), data)
	_ = keepTrying(c.life, func(ctx context.Context) error {
		err := c.put(ctx, ref, data)
		c.noteKept(err)
		return err
	})
	return ref, data
}

// removeAnswer removes the object of an answer that nobody asks for any more.
func (c *coordinator) removeAnswer(k *call) {
	if k.ref != "" {
		c.work.Go(func() { _ = c.remove(c.life, k.ref) }) // or with the job
	}
}

// encoded returns v as JSON, with the items in it as they are: json.Marshal would write some characters of them in another way.
func encoded(v any) []byte {
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: " + err.Error())
	}
	return data.Bytes()[:data.Len()-1] // without the line break
}

// decode reads what is sent with each attempt. It is encoding/json in all but the time that it takes.
func decode(data []byte, v any) error { return jsonv1.Unmarshal(data, v) }

// perform makes a call.
func (c *coordinator) perform(q fleet.Call) fleet.CallAnswer {
	result, err := c.invoke(q)
	if errors.Is(err, errNextRun) {
		return fleet.CallAnswer{Pending: true}
	}
	if err != nil {
		_, over := errors.AsType[overError](err)
		return fleet.CallAnswer{Err: err.Error(), Over: over}
	}
	data := encoded(result)
	if q.Method != callSecrets && q.Method != callUnmasked {
		return fleet.CallAnswer{Result: data}
	}
	box, err := c.curve.Seal(data, q.Curve)
	if err != nil {
		return fleet.CallAnswer{Err: "seal the answer: " + err.Error()}
	}
	return fleet.CallAnswer{Sealed: box, Key: c.curvID}
}

// overError is why the coordinator does not want an attempt to go on: the job has to stop, or is stopping, or the attempt is given up.
type overError struct{ error }

var errNotOut error = overError{errors.New("the attempt is not out any more")}

// invoke calls the method of the host.
func (c *coordinator) invoke(q fleet.Call) (any, error) {
	if q.Method == callSecrets {
		return c.c.Secrets, nil
	}
	f := c.flightOf(q.Token)
	switch q.Method {
	case callAdmitStep, callStepRefusal, callReportStep, callReleaseStep:
		var args stepArgs
		if err := json.Unmarshal(q.Args, &args); err != nil {
			return nil, err
		}
		return c.step(q, args)
	case callAdmitAgent, callReportAgent, callReleaseAgent, callAgentCost, callRecordUsage:
		var args agentArgs
		if err := json.Unmarshal(q.Args, &args); err != nil {
			return nil, err
		}
		fleet.Shift(&args, c.offset(q.From, nil))
		return c.agent(q, f, args)
	case callStepTurn:
		var args turnArgs
		if err := json.Unmarshal(q.Args, &args); err != nil {
			return nil, err
		}
		return c.stepTurn(f, args)
	case callPack:
		var args packArgs
		if err := json.Unmarshal(q.Args, &args); err != nil {
			return nil, err
		}
		return c.pack(f, q.Token, args)
	case callUnmasked:
		var args unmaskedArgs
		if err := json.Unmarshal(q.Args, &args); err != nil {
			return nil, err
		}
		if f == nil {
			return nil, errNotOut
		}
		p, ok := c.host.Unmasked(f.attempt(), args.Phase, args.Step)
		return unmaskedResult{p, ok}, nil
	}
	return nil, errors.New("there is no method " + q.Method)
}

// flightOf returns the attempt with a token; nil: it is not out. It waits until those are known that the run before left.
func (c *coordinator) flightOf(token int64) *flight {
	if token == 0 {
		return nil
	}
	c.mu.Lock()
	f, adopts := c.flights[token], len(c.awaited) > 0
	c.mu.Unlock()
	if f != nil || !adopts {
		return f
	}
	select {
	case <-c.adopted:
	case <-c.life.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flights[token]
}

// stepTurn waits for a turn of the rate of a step. An attempt that ends meanwhile takes none.
func (c *coordinator) stepTurn(f *flight, args turnArgs) (any, error) {
	if f == nil {
		return nil, errNotOut
	}
	c.mu.Lock()
	if c.flights[f.token] != f {
		c.mu.Unlock()
		return nil, errNotOut
	}
	ended := f.stopping().ctx
	c.mu.Unlock()
	_, err := c.host.StepTurn(ended, f.attempt(), args.Turn, args.KeepSlot)
	return turnResult{}, err
}

// ticket is a start that a worker has been admitted to and not answered yet.
type ticket struct {
	name    string // of what admitted it, and which start that was
	release func()
}

// hold keeps a ticket of a worker, so that it is given back when the worker is lost.
func (c *coordinator) hold(instance, name string, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[instance] = time.Now()
	c.tickets[instance] = append(c.tickets[instance], ticket{name, release})
}

// drops removes a ticket of a worker. It reports false if this coordinator has given none: one before did.
func (c *coordinator) drops(instance, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.tickets[instance]
	for i, t := range list {
		if t.name == name {
			c.tickets[instance] = append(list[:i:i], list[i+1:]...)
			if len(c.tickets[instance]) == 0 {
				delete(c.tickets, instance)
			}
			return true
		}
	}
	return false
}

// lostTickets removes and returns the tickets of workers that have not been heard of for a lease. It is called with the lock held.
func (c *coordinator) lostTickets(now time.Time) (lost []ticket) {
	for instance, list := range c.tickets {
		if now.Sub(c.seen[instance]) > c.o.Lease {
			lost = append(lost, list...)
			delete(c.tickets, instance)
		}
	}
	return lost
}

func (c *coordinator) step(q fleet.Call, args stepArgs) (any, error) {
	named := string(encoded(stepArgs{Breaker: args.Breaker, Ticket: args.Ticket}))
	switch q.Method {
	case callAdmitStep:
		t, refusal, err := c.host.AdmitStep(c.life, args.Breaker)
		if err == nil && refusal == "" {
			named = string(encoded(stepArgs{Breaker: args.Breaker, Ticket: t}))
			c.hold(q.From, named, func() { c.host.ReleaseStep(args.Breaker, t) })
		}
		return stepResult{t, refusal}, err
	case callStepRefusal:
		refusal, err := c.host.StepRefusal(c.life, args.Breaker, args.After)
		return stepResult{Refusal: refusal}, err
	case callReportStep:
		if c.drops(q.From, named) {
			c.host.ReportStep(args.Breaker, args.Ticket, args.Success)
		}
	default:
		if c.drops(q.From, named) {
			c.host.ReleaseStep(args.Breaker, args.Ticket)
		}
	}
	return stepResult{}, nil
}

// attemptOf returns the attempt that a call is about, which is out as f or was given up, or nil.
func (c *coordinator) attemptOf(q fleet.Call, f *flight) *agent.Attempt {
	if f != nil {
		return f.attempt()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lost[q.Token]; l != nil && l.isOf(q.From) {
		return l.attempt(c.jobID)
	}
	return nil
}

// errNextRun is the error for a call about an attempt that this run has left to the next one: its worker is to ask that.
var errNextRun = errors.New("the next run answers")

// notOut returns the error for an attempt that is not out. That it is left to the next run is not said before this one ends.
func (c *coordinator) notOut(token int64) error {
	c.mu.Lock()
	left := c.detachedTokens[token]
	c.mu.Unlock()
	if !left {
		return errNotOut
	}
	<-c.life.Done()
	return errNextRun
}

func (c *coordinator) agent(q fleet.Call, f *flight, args agentArgs) (any, error) {
	if args.Ticket.Owner != c.owner {
		args.Ticket.ID = -1 // a coordinator before gave it, and nothing is kept for it any more
	}
	named := "agent " + strconv.FormatInt(args.Ticket.ID, 10)
	switch q.Method {
	case callReleaseAgent:
		if c.drops(q.From, named) {
			c.host.ReleaseAgent(args.Ticket)
		}
		return agentResult{}, nil
	case callAgentCost:
		return agentResult{Over: c.host.AgentCost(args.Ticket, args.Cost)}, nil
	case callRecordUsage: // also of an attempt that was given up: it has cost that
		rec, err := events.Decode(args.Usage)
		if err != nil {
			return nil, err
		}
		if e, ok := rec.Event.(events.AgentUsage); ok {
			a := c.attemptOf(q, f)
			if a == nil {
				return nil, c.notOut(q.Token)
			}
			e.ItemID, e.ItemIndex, e.Phase, e.AgentID, e.Attempt = a.ItemID, a.ItemIndex, "", a.ID, a.Number
			c.host.RecordUsage(a, args.Ticket, e)
		}
		return agentResult{}, nil
	}
	if f == nil {
		return nil, errNotOut
	}
	a := f.attempt()
	if q.Method == callAdmitAgent {
		c.mu.Lock()
		stop := f.stopping().ctx
		c.mu.Unlock()
		_, t, refusal, err := c.host.AdmitAgent(stop, a, args.Ask, args.KeepSlot)
		if err == nil && refusal == nil {
			c.hold(q.From, "agent "+strconv.FormatInt(t.ID, 10), func() { c.host.ReleaseAgent(t) })
		}
		if err != nil {
			if stop.Err() == nil {
				c.broke(f, err)
			}
			return nil, overError{err}
		}
		t.Owner = c.owner
		return agentResult{Ticket: t, Refusal: refusal}, nil
	}
	if args.Ticket.Owner == c.owner && !c.drops(q.From, named) {
		return agentResult{}, nil
	}
	again, err := c.host.ReportAgent(a, args.Ticket, args.Failure, args.Use)
	if err != nil {
		c.broke(f, err)
		return nil, overError{err}
	}
	return agentResult{Again: again}, nil
}

// broke has the attempt end with an error that is the job's.
func (c *coordinator) broke(f *flight, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.stopping().broke = err
}

// ask makes a call of the coordinator of a job, until it answers or ctx ends.
func (w *worker) ask(ctx context.Context, j *workerJob, method string, token int64, args, result any) error {
	_, err := w.askAged(ctx, j, method, token, args, result)
	return err
}

// askAged is ask. It also returns how old the answer was when it was sent: it could not be before, if the coordinator or the broker was away.
func (w *worker) askAged(ctx context.Context, j *workerJob, method string, token int64, args, result any) (age time.Duration, err error) {
	w.mu.Lock()
	w.asked++
	q := fleet.Call{ID: w.node.Instance + "-" + strconv.Itoa(w.asked), Method: method, Token: token, Args: encoded(args), Curve: w.curveID, From: w.node.Instance}
	w.mu.Unlock()
	data := encoded(q)
	for {
		one, cancel := context.WithTimeout(ctx, pendingAfter+time.Second)
		m, err := w.nc.RequestWithContext(one, callSubject(q.From, j.key), data)
		cancel()
		if err == nil {
			if err = w.trust.checkMessage(m, signedAnswer, j.key+"\x00"+q.ID); err != nil {
				w.warn(j.key, "an answer of the coordinator of job "+w.entry(j).ID+": "+err.Error())
			}
		}
		if err != nil {
			select {
			case <-time.After(250 * time.Millisecond): // the coordinator is away
				continue
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		var answer fleet.CallAnswer
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return 0, err
		}
		if answer.Ref != "" {
			data, err := w.fetch(ctx, answer.Ref)
			if err == nil {
				err = json.Unmarshal(data, &answer)
			}
			switch {
			case ctx.Err() != nil:
				return 0, context.Cause(ctx)
			case errors.Is(err, errAltered):
				return 0, fmt.Errorf("the answer of the coordinator: %w", err)
			case err != nil: // asked again, it has the broker keep it again
				continue
			}
		}
		switch {
		case answer.Pending:
			continue
		case answer.Err != "" && answer.Over:
			return answer.Age, overError{errors.New(answer.Err)}
		case answer.Err != "":
			return answer.Age, errors.New(answer.Err)
		case answer.Sealed != nil:
			if answer.Result, err = w.curve.Open(answer.Sealed, answer.Key); err != nil {
				return answer.Age, err
			}
		}
		return answer.Age, json.Unmarshal(answer.Result, result)
	}
}
