package gitspace

import (
	"context"
	"fmt"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/retry"
)

// verdict is what the steps that verify said of a commit.
type verdict struct {
	outcome  agent.Outcome
	duration time.Duration
}

func (v verdict) passed() bool { return v.outcome.Failure == nil }

// merge merges a batch and verifies what came out. When that fails, both halves are merged and verified on their own, until the work that is to blame is
// alone. Conflicts are found again with each half: they may have been with work that is now left out.
func (m *merger) merge(ctx context.Context, head string, work []Work) (Merged, error) {
	all, err := m.chain(ctx, head, work)
	if err != nil || len(all.Items) == 0 || m.s.Policy.Verify == nil {
		return all, err
	}
	v, err := m.verify(ctx, all.Head, all.Items)
	if err != nil {
		return Merged{}, err
	}
	if v.passed() {
		return all, nil
	}
	if len(all.Items) > 1 {
		return m.halves(ctx, head, work, all.Items)
	}
	culprit := all.Items[0].Work
	out := Merged{Head: head}
	if len(all.Failed) > 0 { // without the culprit they may have no conflict
		rest := make([]Work, len(all.Failed))
		for i, f := range all.Failed {
			rest[i] = f.Work
		}
		if out, err = m.merge(ctx, head, rest); err != nil {
			return Merged{}, err
		}
	}
	out.Failed = append(out.Failed, Rejected{
		Work: culprit, Type: retry.TypeVerifyFailed, Message: fmt.Sprintf("workspace.verify: %s: %s", v.outcome.Failure.Step, v.outcome.Failure.Message),
		Outcome: &v.outcome, Duration: v.duration,
	})
	return out, nil
}

// halves merges the two halves of a batch, of which merged could be merged.
func (m *merger) halves(ctx context.Context, head string, work []Work, merged []MergedItem) (Merged, error) {
	middle := merged[len(merged)/2].Work // the first of the second half
	cut := 0
	for work[cut].ref() != middle.ref() {
		cut++
	}
	first, err := m.merge(ctx, head, work[:cut])
	if err != nil {
		return Merged{}, err
	}
	second, err := m.merge(ctx, first.Head, work[cut:])
	if err != nil {
		return Merged{}, err
	}
	return Merged{Head: second.Head, Items: append(first.Items, second.Items...), Failed: append(first.Failed, second.Failed...)}, nil
}

// verify runs the steps that verify in a checkout of a commit that has items merged. A commit is verified once: when the first half of a batch is sound, the second half ends
// at the commit that has failed already.
func (m *merger) verify(ctx context.Context, commit string, items []MergedItem) (verdict, error) {
	if v, known := m.verified[commit]; known {
		return v, nil
	}
	began := time.Now()
	if m.s.Verifying != nil {
		m.s.Verifying(commit, items)
	}
	w := m.s.workspace("verify", 0)
	if err := m.s.prepare(ctx, w, commit, ""); err != nil {
		return verdict{}, fmt.Errorf("verify what was merged: %w", err)
	}
	dir, err := m.s.start(w)
	if err != nil {
		return verdict{}, err
	}
	o, err := m.s.Run(ctx, "verify", dir, commit, 0)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{outcome: o, duration: time.Since(began)}
	m.verified[commit] = v
	if m.s.Verified != nil {
		m.s.Verified(commit, o, v.duration)
	}
	return v, nil
}
