package simulate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
)

// workspaces takes the place of package gitspace: it has neither files nor commits, only names of commits.
// What conflicts, the Model says.
type workspaces struct {
	model Model

	mu sync.Mutex

	// The attempts that are not settled, by the index of their item.
	attempts map[int]agent.Attempt

	// The attempts whose work is in the commit that is verified.
	verifying []agent.Attempt
}

// Check implements mapreduce.Workspaces.
func (w *workspaces) Check(context.Context, gitspace.Config, bool) (gitspace.Start, error) {
	return gitspace.Start{Base: commitOf("base"), Branch: "main"}, nil
}

// Open implements mapreduce.Workspaces.
func (w *workspaces) Open(_ context.Context, c gitspace.Config, _ gitspace.Start, _ string,
	_ []gitspace.Work,
) (mapreduce.Space, error) {
	w.attempts = map[int]agent.Attempt{}
	return &space{Config: c, workspaces: w}, nil
}

// outcome returns how a try ends. The steps that verify a commit end as the Model says of the first of its items for
// which they fail, else as of the first.
func (w *workspaces) outcome(t agent.SimulatedTry) (o Outcome) {
	w.mu.Lock()
	merged := w.verifying
	w.mu.Unlock()
	phase := t.Attempt.Phase
	if phase != phaseVerify || len(merged) == 0 {
		return w.model.Outcome(t)
	}
	for i, a := range merged {
		a.Phase = phase
		t.Attempt = &a
		one := w.model.Outcome(t)
		if one.failed() {
			return one
		}
		if i == 0 {
			o = one
		}
	}
	return o
}

// commitOf returns a name of a commit that stands for these.
func commitOf(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:40]
}

// space has the workspaces of one job, which all are the directory that it was started in.
type space struct {
	gitspace.Config
	*workspaces
	ready sync.Map // slots whose workspace is set up
}

var _ mapreduce.Space = (*space)(nil)

// Execute runs an attempt. One that succeeds has changed a file.
func (s *space) Execute(ctx context.Context, inner gitspace.Executor, a agent.Attempt) (agent.Outcome, error) {
	if _, ready := s.ready.LoadOrStore(a.Worker, true); !ready && len(s.Policy.Setup) > 0 {
		o, err := s.Run(ctx, "setup", s.Dir, a.Base, a.Worker)
		if o.Failure != nil {
			failure := *o.Failure
			failure.Step = "workspace.setup/" + failure.Step
			o.Failure = &failure
		}
		if err != nil || o.Failure != nil {
			s.ready.Delete(a.Worker)
			return o, err
		}
	}
	a.Dir = s.Dir
	o, err := inner.Execute(ctx, a)
	if err == nil && o.Failure == nil {
		o.Commit, o.Files = commitOf("work", a.ID), 1
		s.mu.Lock()
		s.attempts[a.ItemIndex] = agent.Attempt{Phase: "map", Assignment: a.Assignment}
		s.mu.Unlock()
	}
	return o, err
}

// Merge merges work as gitspace does. Work conflicts when the Model says so and something was merged since
// its attempt began.
func (s *space) Merge(ctx context.Context, head string, work []gitspace.Work) (gitspace.Merged, error) {
	b := gitspace.Batch{Chain: s.chain, Emit: s.Emit}
	if s.Policy.Verify != nil {
		b.Verify = func(ctx context.Context, _ string, items []gitspace.MergedItem) (agent.Outcome, error) {
			s.mu.Lock()
			s.verifying = nil
			for _, it := range items {
				s.verifying = append(s.verifying, s.attempts[it.Index])
			}
			s.mu.Unlock()
			return s.Run(ctx, "verify", s.Dir, head, 0)
		}
	}
	return b.Merge(ctx, head, work)
}

// chain takes the place of a merge: the commit is a name made of those that it has merged.
func (s *space) chain(_ context.Context, head string, work []gitspace.Work) (gitspace.Merged, error) {
	out := gitspace.Merged{Head: head}
	for _, w := range work {
		var paths []string
		if out.Head != w.Base { // else there is nothing to conflict with
			s.mu.Lock()
			a := s.attempts[w.Index]
			s.mu.Unlock()
			paths = s.model.Conflicts(agent.SimulatedTry{Attempt: &a, Label: "merge", Number: 1})
		}
		if len(paths) > 0 {
			shown := check.First(paths, events.MaxConflicts)
			out.Failed = append(out.Failed, gitspace.Rejected{
				Work: w, Type: retry.TypeMergeConflict, Message: "conflict in " + strings.Join(paths, ", "),
				Conflicts: check.Each(shown, func(path string) events.Conflict { return events.Conflict{Path: path} }),
			})
			continue
		}
		out.Head = commitOf(out.Head, w.Commit)
		out.Items = append(out.Items, gitspace.MergedItem{Work: w, Merge: out.Head})
	}
	return out, nil
}

// Publish forgets what is settled.
func (s *space) Publish(_ context.Context, _ string, settled []gitspace.Work) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range settled {
		delete(s.attempts, w.Index)
	}
	return nil
}

// Environ returns environ.
func (s *space) Environ(environ []string) []string { return environ }

// Places returns none: nothing runs.
func (s *space) Places([]string) map[string]string { return nil }

// Phase returns the directory that the job was started in.
func (s *space) Phase(context.Context, string) (dir string, err error) { return s.Dir, nil }

// PhaseHead says that nothing was changed.
func (s *space) PhaseHead(context.Context, bool, string) (commit string, err error) { return "", nil }

// Deliver delivers nothing.
func (s *space) Deliver(context.Context, string) (gitspace.Delivery, error) {
	return gitspace.Delivery{}, nil
}

// Into moves nothing.
func (s *space) Into(context.Context, string, string) error { return nil }

// Forget deletes nothing.
func (s *space) Forget() error { return nil }

// Checkout returns nothing: there is none.
func (s *space) Checkout() []string { return nil }

// Changed says that nothing has changed.
func (s *space) Changed(context.Context) []string { return nil }

// History says that nothing was committed: there are no names of files.
func (s *space) History(context.Context, string, string) (gitspace.History, error) {
	return gitspace.History{}, nil
}

// Adopt refuses: there is no dead letter of a simulated job that is run again.
func (s *space) Adopt(context.Context, string, string, int, int) (gitspace.Work, error) {
	return gitspace.Work{}, errors.New("not supported in a simulation")
}

// Clean removes nothing.
func (s *space) Clean(context.Context) error { return nil }
