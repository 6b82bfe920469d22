package gitspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// patience is how long what an attempt did is still taken after a stop.
const patience = 30 * time.Second

// Execute runs an attempt of the map phase in the workspace of its slot, and takes what it did: Outcome.Commit.
// That of an attempt that failed is kept as well. An attempt that succeeded in a workspace whose state cannot
// be told fails with TypeWorkspace.
func (s *Space) Execute(ctx context.Context, inner Executor, a agent.Attempt) (agent.Outcome, error) {
	w := s.workspace(fmt.Sprint(a.Worker), a.Worker)
	err := s.prepare(ctx, w, a.Base, s.Branch(a.ItemIndex))
	var setup *setupFailed
	if errors.As(err, &setup) {
		return setup.outcome, nil
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	if a.Resolve != "" {
		if err := s.beginMerge(ctx, w, a.Resolve); err != nil {
			return agent.Outcome{}, fmt.Errorf("begin the merge that %s resolves: %w", a.ItemID, err)
		}
	}
	if a.Dir, err = s.start(w); err != nil {
		return agent.Outcome{}, err
	}
	o, err := inner.Execute(ctx, a)
	if err != nil {
		return o, err
	}
	ctx, cancel := Lasting(ctx)
	defer cancel()
	want := task{
		base: a.Base, ref: itemRef(a.ItemIndex, a.Number),
		message: fmt.Sprintf("Changes of %s, attempt %d\n", a.ItemID, a.Number), all: s.takesAll(),
	}
	if a.Resolve != "" {
		want.resolve, want.message = a.Resolve, fmt.Sprintf(
			"Resolution of the conflict of %s, attempt %d\n", a.ItemID, a.Number,
		)
	}
	c, err := s.collect(ctx, w, want)
	var state *StateError
	switch {
	case errors.As(err, &state) && o.Failure == nil:
		o.Failure = &agent.Failure{
			Failure: retry.Failure{Type: retry.TypeWorkspace, Message: state.Reason, ExitCode: -1},
		}
	case errors.As(err, &state): // it is a dead letter as it is
	case err != nil:
		return agent.Outcome{}, fmt.Errorf("take the work of %s: %w", a.ItemID, err)
	default:
		o.Commit, o.Files, o.Insertions, o.Deletions, o.Discarded = c.commit, c.files, c.insertions, c.deletions,
			c.discarded
		s.attributes.note(c)
	}
	return o, nil
}

// Lasting returns a context that a stop ends only after a while, and ErrKill at once. What an attempt that was
// not stopped did is worth the time.
func Lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if !errors.Is(cause, process.ErrKill) {
			select {
			case <-longer.Done():
			case <-time.After(patience):
			}
		}
		cancel(cause)
	})
	return longer, func() { release(); cancel(context.Canceled) }
}
