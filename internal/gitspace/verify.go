package gitspace

import (
	"context"
	"fmt"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/retry"
)

// Batch merges a list of work and verifies what comes out. It is for one call of Merge.
type Batch struct {
	// Chain merges work into head, one after another. What conflicts is left out.
	Chain func(ctx context.Context, head string, work []Work) (Merged, error)

	// Verify runs the steps that verify on a commit that has these merged; nil if there are none.
	Verify func(ctx context.Context, commit string, items []MergedItem) (agent.Outcome, error)

	Verifying func(commit string, items []MergedItem)                  // as in Config
	Verified  func(commit string, o agent.Outcome, took time.Duration) // as in Config

	verified map[string]verdict // by commit
}

// verdict is what the steps that verify said of a commit.
type verdict struct {
	outcome  agent.Outcome
	duration time.Duration
}

// Merge merges a batch and verifies what came out. When that fails, both halves are merged and verified on
// their own, until the work that is to blame is alone. Conflicts are found again with each half: they may have
// been with work that is now left out.
func (b *Batch) Merge(ctx context.Context, head string, work []Work) (Merged, error) {
	all, err := b.Chain(ctx, head, work)
	if err != nil || len(all.Items) == 0 || b.Verify == nil {
		return all, err
	}
	v, err := b.verify(ctx, all.Head, all.Items)
	if err != nil {
		return Merged{}, err
	}
	if v.outcome.Failure == nil {
		return all, nil
	}
	if len(all.Items) > 1 {
		return b.halves(ctx, head, work, all.Items)
	}
	culprit := all.Items[0].Work
	out := Merged{Head: head}
	if len(all.Failed) > 0 { // without the culprit they may have no conflict
		rest := make([]Work, len(all.Failed))
		for i, f := range all.Failed {
			rest[i] = f.Work
		}
		if out, err = b.Merge(ctx, head, rest); err != nil {
			return Merged{}, err
		}
	}
	out.Failed = append(out.Failed, Rejected{
		Work: culprit, Type: retry.TypeVerifyFailed,
		Message: fmt.Sprintf("workspace.verify: %s: %s", v.outcome.Failure.Step, v.outcome.Failure.Message),
		Outcome: &v.outcome, Duration: v.duration,
	})
	return out, nil
}

// halves merges the two halves of a batch, of which merged could be merged.
func (b *Batch) halves(ctx context.Context, head string, work []Work, merged []MergedItem) (Merged, error) {
	middle := merged[len(merged)/2].Work // the first of the second half
	cut := 0
	for work[cut].ref() != middle.ref() {
		cut++
	}
	first, err := b.Merge(ctx, head, work[:cut])
	if err != nil {
		return Merged{}, err
	}
	second, err := b.Merge(ctx, first.Head, work[cut:])
	if err != nil {
		return Merged{}, err
	}
	return Merged{
		Head: second.Head, Items: append(first.Items, second.Items...),
		Failed: append(first.Failed, second.Failed...),
	}, nil
}

// verify verifies a commit that has items merged. A commit is verified once: when the first half of a batch is
// sound, the second half ends at the commit that has failed already.
func (b *Batch) verify(ctx context.Context, commit string, items []MergedItem) (verdict, error) {
	if v, known := b.verified[commit]; known {
		return v, nil
	}
	began := time.Now()
	if b.Verifying != nil {
		b.Verifying(commit, items)
	}
	o, err := b.Verify(ctx, commit, items)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{outcome: o, duration: time.Since(began)}
	if b.verified == nil {
		b.verified = map[string]verdict{}
	}
	b.verified[commit] = v
	if b.Verified != nil {
		b.Verified(commit, o, v.duration)
	}
	return v, nil
}
