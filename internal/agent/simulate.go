package agent

import (
	"cmp"
	"context"
	"strings"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
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

// Simulator takes the place of all commands: what an Executor with one runs starts nothing, and neither reads
// nor writes files beside those of the job. It writes what the command would print to c.Stdout and c.Stderr,
// heeds c.Timeout and a stop like process.Run, and returns how the command would end. It is called from many
// goroutines at once.
type Simulator func(ctx context.Context, t SimulatedTry, c process.Command) (SimulatedExit, error)

// SimulatedTry is one try of a step for a Simulator, which must not change what it leads to.
type SimulatedTry struct {
	Attempt *Attempt
	Step    *workflow.Step
	Label   string // of the step; one inside another has a prefix, and a fallback the suffix /fallback
	Number  int    // of the try, from 1
	Element []int  // in foreach: the indexes of the elements, of the outermost loop first
	// how often the same try was made before and charged nothing: it met the limit of a plan, or of the budget
	Repeat int

	Agent *SimulatedAgent // of an AI coding CLI whose output is read; nil means another command
}

// SimulatedAgent is what ends a run of an AI coding CLI before its time.
type SimulatedAgent struct {
	Stall time.Duration // after so long without a sign of life it has stalled; 0 if it never has
	Cap   limit.USD     // what it may cost; 0 means no limit
}

// SimulatedExit is how a simulated command ends.
type SimulatedExit struct {
	process.Exit
	Type    retry.Type // of its failure; empty means it is classified like a real failure
	Unknown bool       // what it would print is not known, so that later steps may miss values that are made from it

	// Of an AI coding CLI.
	Usage   ai.Usage
	ResetAt time.Time // with TypeQuota: when the limit ends; zero if it does not say
	Limit   ai.LimitUse
}
