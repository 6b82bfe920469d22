package mapreduce

import (
	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/outputs"
)

// Output sends what an attempt has printed to the owner, which writes it.
func (h *host) Output(a *agent.Attempt, e outputs.Entry) {
	if h.config.Printed != nil {
		h.config.Printed(e)
	}
	h.inbox <- printedBy{attempt: a.ID, entry: e}
}

// deliver writes what an attempt has printed.
func (m printedBy) deliver(p *pool) {
	kept := &p.printed
	if kept.err == nil {
		var at outputs.Span
		if at, kept.err = kept.store.Append(m.entry); kept.err == nil && at.Length > 0 {
			kept.spans[m.attempt] = kept.spans[m.attempt].To(at)
		}
	}
	p.haltForOwn(kept.err)
}

// openOutputs opens the store of what steps print, behind what earlier runs have left.
func (j *owner) openOutputs() (err error) {
	j.printed = printed{policy: j.workflow.Outputs.WithDefaults(), spans: map[string]outputs.Span{}}
	j.printed.store, err = outputs.Open(j.place.OutputsDir(), outputs.Options{
		PerJob: j.printed.policy.PerJob, PerStep: j.printed.policy.PerStep, NoSync: j.config.Durability == events.None,
	})
	return err
}
