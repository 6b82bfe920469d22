package mapreduce

import (
	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/outputs"
)

// Output sends what an attempt has printed to the owner, which writes it.
func (h *host) Output(a *agent.Attempt, e outputs.Entry) {
	if h.job.config.Printed != nil {
		h.job.config.Printed(e)
	}
	h.job.inbox <- printedBy{attempt: a.ID, entry: e}
}

func (m printedBy) deliver(p *pool) { p.haltForOwn(p.job.printed.keep(m)) }

// openOutputs opens the store of what steps print, behind what earlier runs have left.
func (j *owner) openOutputs() (err error) {
	j.printed = printed{policy: j.workflow.Outputs.WithDefaults(), spans: map[string]outputs.Span{}}
	j.printed.store, err = outputs.Open(j.place.OutputsDir(), outputs.Options{
		PerJob: j.printed.policy.PerJob, PerStep: j.printed.policy.PerStep, NoSync: j.config.Durability == events.None,
	})
	return err
}
