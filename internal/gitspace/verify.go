package gitspace

import (
	"context"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// Batch merges a list of work and verifies what comes out. It is for one call of Merge.
type Batch struct {
	// Chain merges work into head, one after another. What conflicts is left out.
	Chain func(ctx context.Context, head string, work []Work) (Merged, error)

	// Verify runs the steps that verify on a commit that has these merged; nil if there are none.
	Verify func(ctx context.Context, commit string, items []MergedItem) (agent.Outcome, error)

	Emit func(slot int, e events.Event) // as in Config; called if there is something to verify

	verified map[string]agent.Outcome // what the steps that verify said, by commit
}

// Merge merges a batch and verifies what came out. When that fails, both halves are merged and verified on
// their own, until the work that is to blame is alone. Conflicts are found again with each half: they may have
// been with work that is now left out.
func (b *Batch) Merge(ctx context.Context, head string, work []Work) (out Merged, err error) {
	all, err := b.Chain(ctx, head, work)
	if err != nil || len(all.Items) == 0 || b.Verify == nil {
		return all, err
	}
	o, err := b.verify(ctx, all.Head, all.Items)
	if err != nil {
		return out, err
	}
	if o.Failure == nil {
		return all, nil
	}
	if len(all.Items) > 1 {
		middle := all.Items[len(all.Items)/2].Work // the first of the second half
		cut := slices.IndexFunc(work, func(w Work) bool { return w.ref() == middle.ref() })
		first, err := b.Merge(ctx, head, work[:cut])
		if err != nil {
			return out, err
		}
		out, err = b.Merge(ctx, first.Head, work[cut:])
		if err != nil {
			return out, err
		}
		out.Items, out.Failed = append(first.Items, out.Items...), append(first.Failed, out.Failed...)
		return out, nil
	}
	culprit := all.Items[0].Work
	out.Head = head
	if len(all.Failed) > 0 { // without the culprit they may have no conflict
		rest := check.Each(all.Failed, func(f Rejected) Work { return f.Work })
		if out, err = b.Merge(ctx, head, rest); err != nil {
			return out, err
		}
	}
	out.Failed = append(out.Failed, Rejected{
		Work: culprit, Type: retry.TypeVerifyFailed,
		Message: fmt.Sprintf("workspace.verify: %s: %s", o.Failure.Step, o.Failure.Message),
		Outcome: &o,
	})
	return out, nil
}

// verify verifies a commit that has items merged. A commit is verified once: when the first half of a batch is
// sound, the second half ends at the commit that has failed already.
func (b *Batch) verify(ctx context.Context, commit string, items []MergedItem) (agent.Outcome, error) {
	if o, known := b.verified[commit]; known {
		return o, nil
	}
	began := time.Now()
	ids := check.Each(items, func(it MergedItem) string { return it.ItemID })
	b.Emit(0, events.VerifyStarted{Commit: commit, ItemIDs: ids})
	o, err := b.Verify(ctx, commit, items)
	if err != nil {
		return agent.Outcome{}, err
	}
	if b.verified == nil {
		b.verified = map[string]agent.Outcome{}
	}
	b.verified[commit] = o
	took := events.Millis(time.Since(began))
	e := events.VerifyCompleted{Commit: commit, Passed: o.Failure == nil, DurationMS: took}
	if f := o.Failure; f != nil {
		e.Step, e.Error = f.Step, f.Message
	}
	b.Emit(0, e)
	return o, nil
}
