package agent

import (
	"cmp"
	"context"
	"strings"

	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// simulate runs the command of a step by the Simulator.
func (r *run) simulate(st *step, b boundCommand, c process.Command) (process.Exit, error) {
	t := SimulatedTry{
		Attempt: r.a, Step: st.Step, Label: st.label, Number: max(1, r.tryNumber), Element: r.element,
		Repeat: r.repeat,
	}
	if r.fallback {
		t.Label += "/fallback"
	}
	if a := b.aiRun; a != nil {
		t.Agent = &SimulatedAgent{}
		if !a.raw {
			t.Agent.Stall = a.limits.Stall
		}
		if a.preset.Options["max_cost"] != nil || a.preset.TellsCost(a.model) {
			t.Agent.Cap = r.ticket.Cap
		}
	}
	exit, err := r.x.Simulate(r.stop, t, c)
	r.simulated = exit
	if exit.Unknown {
		r.x.unknown.Store(true)
	}
	return exit.Exit, err
}

// verdict says what became of a simulated run of an AI coding CLI, as its preset would if it printed that.
func (s SimulatedExit) verdict(a *aiRun, e ai.End, stderr, output string) ai.Verdict {
	said := s.Usage.Costed || s.Usage.Counted
	v := ai.Verdict{
		Outcome: ai.Success, Whole: true, Known: !a.raw || said, Usage: s.Usage, Limit: s.Limit, Type: s.Type,
		Reset: s.ResetAt,
	}
	if !a.preset.TellsCost(a.model) {
		v.Usage.CostUSD, v.Usage.Costed = 0, false
	}
	v.Plain = !v.Known
	failed := e.ExitCode != 0 || e.Signal != ""
	switch {
	case !failed && !s.Unknown && !e.AllowEmpty && strings.TrimSpace(output) == "":
		v.Outcome, v.Type, v.Message = ai.Incomplete, retry.TypeIncomplete, "the answer is empty"
	case failed:
		v.Outcome, v.Message = outcomeOfType(s.Type), check.LastLine(stderr)
		if s.Type == "" {
			v.Message = exitMessage(e.ExitCode, stderr)
		}
		v.Message = cmp.Or(v.Message, "simulated: "+string(s.Type))
	}
	return v
}

// outcomeOfType returns the outcome of a run whose error has that type.
func outcomeOfType(t retry.Type) ai.Outcome {
	for _, o := range ai.Outcomes() {
		if t != "" && o.ErrorType() == t {
			return o
		}
	}
	if t == retry.TypeRateLimit || t == retry.TypeNetwork {
		return ai.Overloaded
	}
	return ai.Failed
}

// nothing is the action of a step that does nothing.
func nothing(context.Context, *run, *step, boundCommand) (result, error) { return result{}, nil }
