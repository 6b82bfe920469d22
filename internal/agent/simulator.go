package agent

import (
	"context"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

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
