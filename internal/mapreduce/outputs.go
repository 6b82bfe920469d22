package mapreduce

import (
	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/outputs"
)

// printed is what the steps of a job print, as the owner of the job keeps it.
type printed struct {
	policy outputs.Policy
	store  *outputs.Store
	spans  map[string]outputs.Span // of the attempts that run, by ID
	err    error                   // of the first entry that could not be written
}

// printedBy is a message of an attempt: a piece of what it printed.
type printedBy struct {
	attempt string // its ID
	entry   outputs.Entry
}

// Output sends what an attempt has printed to the owner, which writes it.
func (h *host) Output(a *agent.Attempt, e outputs.Entry) {
	if h.job.config.Printed != nil {
		h.job.config.Printed(e)
	}
	h.job.inbox <- message{printed: &printedBy{attempt: a.ID, entry: e}}
}

// openOutputs opens the store of what steps print, behind what earlier runs have left.
func (j *owner) openOutputs() (err error) {
	j.printed = printed{policy: j.workflow.Outputs.WithDefaults(), spans: map[string]outputs.Span{}}
	j.printed.store, err = outputs.Open(j.place.OutputsDir(), outputs.Options{
		PerJob: j.printed.policy.PerJob, PerStep: j.printed.policy.PerStep, NoSync: j.config.Durability == events.None,
	})
	return err
}

// granted returns what is kept of an attempt that begins now.
func (p *printed) granted() outputs.Policy {
	granted := p.policy
	granted.Keep = p.store.Granted(granted.Keep)
	return granted
}

// keep writes what an attempt has printed.
func (p *printed) keep(m *printedBy) error {
	if p.err != nil {
		return p.err
	}
	at, err := p.store.Append(m.entry)
	if err != nil {
		p.err = err
		return err
	}
	if at.Length > 0 {
		p.spans[m.attempt] = p.spans[m.attempt].To(at)
	}
	return nil
}

// of returns where the outputs of an attempt are that it has printed by now, or nil.
func (p *printed) of(attempt string) *outputs.Span {
	span, ok := p.spans[attempt]
	if !ok {
		return nil
	}
	return &span
}

// take is of, for an attempt or step that has ended: what follows is of the next.
func (p *printed) take(attempt string) *outputs.Span {
	span := p.of(attempt)
	delete(p.spans, attempt)
	return span
}

// withOutputs adds to an event of an attempt, when it ends a step of a phase that runs once, where the outputs
// of the step are.
func (p *printed) withOutputs(e events.Event, attempt string) events.Event {
	switch e := e.(type) {
	case events.StepCompleted:
		e.Outputs = p.take(attempt)
		return e
	case events.StepFailed:
		if e.ItemID == "" {
			e.Outputs = p.of(attempt)
		}
		return e
	}
	return e
}
