package natsfleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/aicli"
	"prodigy/internal/breaker"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
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
		Ticket  breaker.Ticket    `json:"ticket,omitzero"`
		Success bool              `json:"success,omitempty"`
		After   time.Duration     `json:"after,omitempty"`
	}
	stepResult struct {
		Ticket  breaker.Ticket `json:"ticket,omitzero"`
		Refusal string         `json:"refusal,omitempty"`
	}
	agentArgs struct {
		Ask      agent.AgentAsk    `json:"ask,omitzero"`
		Ticket   agent.AgentTicket `json:"ticket,omitzero"`
		Owner    string            `json:"owner,omitempty"` // the coordinator that gave the ticket
		KeepSlot bool              `json:"keep_slot,omitempty"`
		Failure  *agent.Failure    `json:"failure,omitempty"`
		Use      aicli.LimitUse    `json:"use,omitzero"`
		Cost     spend.USD         `json:"cost,omitempty"`
		Usage    []byte            `json:"usage,omitempty"` // a line of a log
	}
	agentResult struct {
		Ticket  agent.AgentTicket `json:"ticket,omitzero"`
		Owner   string            `json:"owner,omitempty"`
		Refusal *agent.Failure    `json:"refusal,omitempty"`
		Again   bool              `json:"again,omitempty"`
		Over    bool              `json:"over,omitempty"`
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
	callStepRefusal  = "step_refusal"
	callReportStep   = "report_step"
	callReleaseStep  = "release_step"
	callAdmitAgent   = "admit_agent"
	callReportAgent  = "report_agent"
	callReleaseAgent = "release_agent"
	callAgentCost    = "agent_cost"
	callRecordUsage  = "record_usage"
	callUnmasked     = "unmasked"
	callPack         = "pack"
	callSecrets      = "secrets"
)

// call is a call of a worker that is being answered, or was.
type call struct {
	done   chan struct{}
	answer []byte // once done is closed
	at     time.Time
}

const (
	pendingAfter = 2 * time.Second // the worker is told to ask again
	callKept     = 2 * time.Minute // for a repeated request
)

// call answers a call of a worker. Repeated with the same id it has no second effect.
func (c *crew) call(m *nats.Msg) {
	var q fleet.Call
	if json.Unmarshal(m.Data, &q) != nil || !sentBy(q.From, m.Subject, 4) {
		return
	}
	c.mu.Lock()
	k := c.calls[q.ID]
	if k == nil {
		k = &call{done: make(chan struct{})}
		c.calls[q.ID] = k
		go func() {
			answer := c.perform(q)
			c.mu.Lock()
			defer c.mu.Unlock()
			k.answer, k.at = answer, time.Now()
			close(k.done)
		}()
	}
	for id, old := range c.calls {
		if !old.at.IsZero() && time.Since(old.at) > callKept {
			delete(c.calls, id)
		}
	}
	c.mu.Unlock()
	answer := encoded(fleet.CallAnswer{Pending: true})
	select {
	case <-k.done:
		answer = k.answer
	case <-time.After(pendingAfter):
	}
	_ = m.RespondMsg(c.signer.message("", signedAnswer, c.key+"\x00"+q.ID, answer))
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
func (c *crew) perform(q fleet.Call) []byte {
	result, err := c.invoke(q)
	if err != nil {
		return encoded(fleet.CallAnswer{Err: err.Error()})
	}
	data := encoded(result)
	if q.Method != callSecrets && q.Method != callUnmasked {
		return encoded(fleet.CallAnswer{Result: data})
	}
	box, err := c.curve.Seal(data, q.Curve)
	if err != nil {
		return encoded(fleet.CallAnswer{Err: "seal the answer: " + err.Error()})
	}
	return encoded(fleet.CallAnswer{Sealed: box, Key: c.curvID})
}

var errNotOut = errors.New("the attempt is not out any more")

// invoke calls the method of the host.
func (c *crew) invoke(q fleet.Call) (any, error) {
	if q.Method == callSecrets {
		return c.c.Secrets, nil
	}
	c.mu.Lock()
	f := c.flights[q.Token]
	c.mu.Unlock()
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
		return c.agent(q, f, args)
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
		p, ok := c.host.Unmasked(f.attempt, args.Phase, args.Step)
		return unmaskedResult{p, ok}, nil
	}
	return nil, errors.New("there is no method " + q.Method)
}

// ticket is a start that a worker has been admitted to and not answered yet.
type ticket struct {
	name    string // of what admitted it, and which start that was
	release func()
}

// hold keeps a ticket of a worker, so that it is given back when the worker is lost.
func (c *crew) hold(instance, name string, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[instance] = time.Now()
	c.tickets[instance] = append(c.tickets[instance], ticket{name, release})
}

// drops removes a ticket of a worker. It reports false if this coordinator has given none: one before did.
func (c *crew) drops(instance, name string) bool {
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

func (c *crew) step(q fleet.Call, args stepArgs) (any, error) {
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

func (c *crew) agent(q fleet.Call, f *flight, args agentArgs) (any, error) {
	named := "agent " + strconv.FormatInt(args.Ticket.ID, 10)
	if args.Owner != c.owner {
		args.Ticket.ID = -1 // a coordinator before gave it, and nothing is kept for it any more
	}
	switch q.Method {
	case callReleaseAgent:
		if c.drops(q.From, named) {
			c.host.ReleaseAgent(args.Ticket)
		}
		return agentResult{}, nil
	case callAgentCost:
		return agentResult{Over: c.host.AgentCost(args.Ticket, args.Cost)}, nil
	}
	if f == nil {
		return nil, errNotOut
	}
	a := f.attempt
	switch q.Method {
	case callAdmitAgent:
		c.mu.Lock()
		stop := f.context()
		c.mu.Unlock()
		_, t, refusal, err := c.host.AdmitAgent(stop, a, args.Ask, args.KeepSlot)
		if err == nil && refusal == nil {
			c.hold(q.From, "agent "+strconv.FormatInt(t.ID, 10), func() { c.host.ReleaseAgent(t) })
		}
		if err != nil && stop.Err() == nil {
			c.broke(f, err)
		}
		return agentResult{Ticket: t, Owner: c.owner, Refusal: refusal}, err
	case callRecordUsage:
		rec, err := events.Decode(args.Usage)
		if err != nil {
			return nil, err
		}
		if e, ok := rec.Event.(events.AgentUsage); ok {
			c.host.RecordUsage(a, args.Ticket, e)
		}
		return agentResult{}, nil
	}
	if !c.drops(q.From, named) {
		return agentResult{}, nil
	}
	again, err := c.host.ReportAgent(a, args.Ticket, args.Failure, args.Use)
	if err != nil {
		c.broke(f, err)
	}
	return agentResult{Again: again}, err
}

// broke has the attempt end with an error that is the job's.
func (c *crew) broke(f *flight, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.broke = err
}

// ask makes a call of the coordinator of a job, until it answers or ctx ends.
func (w *worker) ask(ctx context.Context, j *workerJob, method string, token int64, args, result any) error {
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
				return context.Cause(ctx)
			}
		}
		var answer fleet.CallAnswer
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return err
		}
		switch {
		case answer.Pending:
			continue
		case answer.Err != "":
			return errors.New(answer.Err)
		case answer.Sealed != nil:
			if answer.Result, err = w.curve.Open(answer.Sealed, answer.Key); err != nil {
				return err
			}
		}
		return json.Unmarshal(answer.Result, result)
	}
}
