package mapreduce

import (
	"context"
	"maps"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/items"
)

// attempt returns what all attempts of a phase have in common. The breakers of its steps continue in the state
// that the log has.
func (j *owner) attempt(phase string) agent.Attempt {
	j.host.Continue(phase, maps.Clone(j.Circuits[phase]))
	a := agent.Attempt{
		JobID: j.place.ID, Workflow: j.workflow.Name, Phase: phase, Dir: j.config.Dir, Env: j.config.Settings.Env,
		Secrets: j.config.Settings.Final, Args: j.config.Settings.Args,
		Earlier: j.earlier(phase),
	}
	if a.Env == nil { // the settings have not been resolved
		a.Env = j.workflow.Env
	}
	j.setSteps(a)
	return a
}

// start runs one attempt of an item in a free slot. The keys are those of the limits that it takes a turn of.
func (p *pool) start(it offered, keys itemKeys) {
	p.turnTaken()
	a := p.attempt(it.Item, p.NextNumber(it.Index), p.takeSlot())
	a.Token = p.Record(events.AgentStarted{
		AttemptID: a.AttemptID(), Worker: a.Worker, Alone: p.suspects.alone, Base: a.Base,
		Fleet: p.fleet != nil, Suspect: it.Index == p.suspects.out, Reason: it.reason, Key: keys.rate,
		BreakerKey: keys.breaker,
	}).Seq
	p.fly(a, keys)
}

// fly has a worker run an attempt whose start is recorded.
func (p *pool) fly(a agent.Attempt, keys itemKeys) {
	f := &flight{
		index: a.ItemIndex, slot: a.Worker, keys: keys, began: time.Now(),
		placed: p.fleet == nil || a.Adopted,
	}
	p.flights[a.Token] = f
	if p.Times.Limits() {
		p.watch.clocks.push(clock{f.began, a.Token})
		p.soonStraggling()
	}
	if p.config.Trace {
		a.Trace = p.span().Of("attempt", a.Token).String()
	}
	p.runners.running++
	p.startWorker(a)
}

// adopt takes over attempts that outlived the run before. If there are more of them than slots, the others have none.
func (p *pool) adopt() {
	for index, f := range check.ByKey(p.Running) {
		slot := 0
		if f.Suspect {
			p.suspects.out = index
		}
		if len(p.slots.free) > 0 {
			slot = p.takeSlot()
		}
		a := p.attempt(items.Item{ID: f.ItemID, Index: index}, f.Attempt, slot)
		a.Token, a.Adopted, a.RanOn = f.Token, true, f.Node
		if p.space != nil {
			p.inWorkspace(&a, f.Base, f.Resolve)
		}
		p.fly(a, itemKeys{f.Key, p.Limits.Breaker.Tickets[index].Key})
		if p.Skips[index] != "" {
			p.flights[a.Token].end(errSkipped)
		}
	}
}

// attempt returns an attempt at an item in a slot.
func (p *pool) attempt(it items.Item, number, slot int) agent.Attempt {
	a := p.template
	a.ItemID, a.ItemIndex, a.Item = it.ID, it.Index, it.Data
	a.ItemTotal = p.Total
	if m := p.workflow.Map; m.ItemsFromArgs { // the values of a command line are known from the first on
		a.ItemTotal = len(m.Input.Items)
	}
	a.Outputs = p.printed.granted()
	p.TakeUp(&a, it.ID)
	a.Number, a.Worker = number, slot
	// of attempts that are lost there is a number and no failure
	a.Lost = p.fleet != nil && number-1 > p.Failures[it.Index]
	a.CorrelationID = p.place.ID + "/" + it.ID
	a.ID = p.attemptID(it.ID, number)
	if again := p.workflow.ErrorPolicy.RetryConfig; again != nil && len(a.Handler) > 0 {
		a.Again = &agent.Again{Policy: *again, State: p.RetryOf(it.Index)}
	}
	if p.space != nil {
		base, resolve := p.base(it.Index), p.Waiting[it.Index].Resolve
		if resolve != "" {
			base = p.Head
		}
		p.inWorkspace(&a, base, resolve)
	}
	return a
}

// inWorkspace has an attempt begin at a commit in a workspace. resolve is the work whose conflict it resolves;
// empty: it is none of those.
func (p *pool) inWorkspace(a *agent.Attempt, base, resolve string) {
	a.Base, a.Branch = base, gitspace.Config{JobID: a.JobID}.Branch(a.ItemIndex)
	if resolve != "" {
		a.Resolve, a.Steps, a.Handler = resolve, p.workflow.Workspace.Resolve, nil
		a.SetSpec()
	}
}

// startWorker gives an attempt to an idle goroutine, whose stack has grown already, or to a new one. One for a
// fleet does not keep its goroutine.
func (p *pool) startWorker(a agent.Attempt) {
	if p.fleet != nil && a.ItemID != "" {
		token := a.Token // the function is kept while the attempt is out, which holds no attempt then
		p.flights[token].end = func(cause error) { p.fleet.End(token, cause) }
		p.submit(a)
		return
	}
	t := task{p.runners.ctx, a}
	if f := p.flights[a.Token]; f != nil {
		t.ctx, f.end = context.WithCancelCause(p.runners.ctx)
	}
	select {
	case p.runners.idle <- t:
	default:
		p.agents.Go(func() error {
			p.execute(t.ctx, t.attempt)
			for t := range p.runners.idle {
				p.execute(t.ctx, t.attempt)
			}
			return nil
		})
	}
}
