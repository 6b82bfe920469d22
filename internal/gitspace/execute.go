package gitspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/workflow"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// patience is how long what an attempt did is still taken after a stop.
const patience = 30 * time.Second

// Execute runs an attempt of the map phase in the workspace of its slot, and takes what it did: Outcome.Commit.
// That of an attempt that failed is kept as well. An attempt that succeeded in a workspace whose state cannot
// be told fails with TypeWorkspace.
func (s *Space) Execute(ctx context.Context, inner Executor, a agent.Attempt) (o agent.Outcome, err error) {
	w := s.workspace(fmt.Sprint(a.Worker), a.Worker)
	err = s.prepare(ctx, w, a.Base, s.Branch(a.ItemIndex))
	if setup, failed := errors.AsType[*setupFailed](err); failed {
		return setup.outcome, nil
	}
	if err != nil {
		return o, err
	}
	if a.Resolve != "" {
		if err := s.beginMerge(ctx, w, a.Resolve); err != nil {
			return o, fmt.Errorf("start the merge for %s to resolve: %w", a.ItemID, err)
		}
	}
	if a.Dir, err = s.start(w); err != nil {
		return o, err
	}
	if o, err = inner.Execute(ctx, a); err != nil {
		return o, err
	}
	ctx, cancel := Lasting(ctx)
	defer cancel()
	what := "Changes of"
	if a.Resolve != "" {
		what = "Resolution of the conflict of"
	}
	all := s.Policy.Take != workflow.TakeCommits
	c, err := s.collect(ctx, w, task{
		base: a.Base, resolve: a.Resolve, ref: itemRef(a.ItemIndex, a.Number), all: all,
		message: fmt.Sprintf("%s %s, attempt %d\n", what, a.ItemID, a.Number),
	})
	if err == nil && all {
		err = s.checkSubmodules(ctx, w)
	}
	if err := s.conclude(&a, &o, c, err); err != nil {
		return agent.Outcome{}, err
	}
	return o, nil
}

// conclude puts into the outcome of an attempt what was found of its work. Work whose state cannot be told is a failure
// of an attempt that has no other.
func (s *Space) conclude(a *agent.Attempt, o *agent.Outcome, c events.Changes, err error) error {
	o.Changes = c
	state, is := errors.AsType[*StateError](err)
	switch {
	case is && o.Failure == nil:
		o.Failure = &agent.Failure{
			Failure: retry.Failure{Type: retry.TypeWorkspace, Message: state.Reason, ExitCode: -1},
		}
	case is: // it is a dead letter as it is
	case err != nil:
		return fmt.Errorf("collect the changes of %s: %w", a.ItemID, err)
	}
	return nil
}

// BeganAt returns the commits that the work of an attempt has to contain, first the one that its workspace was at.
func BeganAt(a *agent.Attempt) []string {
	if a.Resolve == "" {
		return []string{a.Base}
	}
	return []string{a.Base, a.Resolve}
}

// Lasting returns a context that a stop ends only after a while, and ErrKill at once. What an attempt that was
// not stopped did is worth the time.
func Lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if !errors.Is(cause, process.ErrKill) {
			_ = duration.Sleep(longer, patience)
		}
		cancel(cause)
	})
	return longer, func() { release(); cancel(context.Canceled) }
}
