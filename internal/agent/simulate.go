package agent

import (
	"context"
	"errors"
	"strings"

	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// Simulator takes the place of all commands: what an Executor with one runs starts nothing, and neither reads nor writes files beside those of the
// job. It writes what the command would print to c.Stdout and c.Stderr, heeds c.Timeout and a stop like process.Run, and returns how the command
// would end. It is called from many goroutines at once.
type Simulator func(ctx context.Context, t SimulatedTry, c process.Command) (SimulatedExit, error)

// SimulatedTry is one try of a step for a Simulator, which must not change what it leads to.
type SimulatedTry struct {
	Attempt *Attempt
	Step    *workflow.Step
	Label   string // of the step; one inside another has a prefix, and a fallback the suffix /fallback
	Number  int    // of the try, from 1
	Element []int  // in foreach: the indexes of the elements, of the outermost loop first
}

// SimulatedExit is how a simulated command ends.
type SimulatedExit struct {
	process.Exit
	Type    retry.Type // of its failure; empty: as a real failure is classified
	Unknown bool       // what it would print is not known, so that later steps may miss values that are made from it
}

// simulate runs the command of a step by the Simulator.
func (r *run) simulate(st *step, c process.Command) (process.Exit, error) {
	label := st.label
	if r.fallback {
		label += "/fallback"
	}
	exit, err := r.x.Simulate(r.stop, SimulatedTry{Attempt: r.a, Step: st.Step, Label: label, Number: max(1, r.tryNumber), Element: r.element}, c)
	r.unknown, r.failsAs = exit.Unknown, exit.Type
	if exit.Unknown {
		r.x.unknown.Store(true)
	}
	return exit.Exit, err
}

// withoutValues returns what a simulated step does that misses values: nothing if it is a file or a loop. Nil: it is a command.
func withoutValues(cmd command) action {
	switch cmd.(type) {
	case *writeFile, *foreach:
		return func(context.Context, *run, *step, boundCommand) (result, *Failure, error) { return result{}, nil, nil }
	}
	return nil
}

// forgives reports whether a step can be simulated though a value for it is missing: it may be one that a simulated command would have printed. What
// items lack, they lack in a real run, too.
func (x *Executor) forgives(err error) bool {
	bind, ok := errors.AsType[*template.BindError](err)
	return ok && bind.Missing && x.unknown.Load() && !strings.HasPrefix(bind.Placeholder, "${item.")
}
