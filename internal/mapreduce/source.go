package mapreduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/items"
)

// source gives a pool its items.
type source struct {
	found  <-chan items.Item // closed at the end
	failed func() error      // how that ended; after found is closed
	cancel func()            // ends it early

	// Of a source that selects: chosen is closed when selection has ended, while items may still wait for their turn, and then
	// choice tells how it ended.
	chosen <-chan struct{}
	choice func() (total int, _ error)
}

const (
	lead     = 16      // items in memory that wait for a slot
	maxAhead = 1 << 20 // items that selection has recorded before their turn; then it waits, so that an endless input cannot fill the disk
)

// feed runs a producer of items on a goroutine of the job.
func (j *job) feed(produce func(ctx context.Context, give func(items.Item) bool) error) source {
	ctx, cancel := context.WithCancel(context.Background())
	found := make(chan items.Item, lead)
	var failed error
	give := func(it items.Item) bool {
		select {
		case found <- it:
			return true
		case <-ctx.Done():
			return false
		}
	}
	j.agents.Go(func() error {
		defer close(found)
		failed = produce(ctx, give)
		return nil
	})
	return source{found: found, cancel: cancel, failed: func() error { return failed }}
}

// selected is the source of a job's items: as they were recorded if selection had ended, else by selecting them. The selection runs
// ahead into items.jsonl, so that the input is needed for as short as can be, and the pool follows that file.
func (j *job) selected() source {
	todo := j.todo()
	sel := &selection{job: j, grown: make(chan struct{}, 1), taken: make(chan struct{}, 1), ended: make(chan struct{})}
	if j.state.selected {
		close(sel.grown)
		return j.feed(func(ctx context.Context, give func(items.Item) bool) error { return sel.give(ctx, todo, give) })
	}
	known := j.store.Len()
	s := j.feed(func(ctx context.Context, give func(items.Item) bool) error {
		j.agents.Go(func() error {
			defer close(sel.grown)
			defer close(sel.ended)
			sel.failed = sel.choose(ctx, known)
			return nil
		})
		return sel.give(ctx, todo, give)
	})
	s.chosen = sel.ended
	s.choice = func() (int, error) { return j.store.Len(), sel.failed }
	return s
}

// selection is a selection at work: one goroutine records what it chooses, another gives it to the pool.
type selection struct {
	job    *job
	grown  chan struct{} // the store has more; closed when there will be no more
	taken  chan struct{} // an item has had its turn
	turn   atomic.Int64  // index of the item whose turn it is
	ended  chan struct{} // closed when all is recorded
	failed error         // after ended is closed
}

// choose selects items and records each with the job. What an earlier run recorded must be what is selected now.
func (s *selection) choose(ctx context.Context, known int) error {
	j, chosen := s.job, 0
	for it, err := range items.Select(ctx, j.workflow.Map, items.Env{Dir: j.config.Dir, Environ: j.config.Environ}) {
		if err != nil {
			return err
		}
		if err := j.keep(it, known); err != nil {
			return err
		}
		chosen++
		signal(s.grown)
		if !s.notTooFar(ctx, it.Index) {
			return context.Cause(ctx)
		}
	}
	if chosen < known {
		return errInputChanged
	}
	return j.store.Sync()
}

// signal wakes the other side, which looks for itself what there is.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *selection) notTooFar(ctx context.Context, index int) bool {
	for int64(index)-s.turn.Load() >= maxAhead {
		select {
		case <-s.taken:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// give gives the recorded items that are to be started, in order, as far as the selection has come.
func (s *selection) give(ctx context.Context, todo func(int) bool, give func(items.Item) bool) error {
	c := s.job.store.Cursor()
	for {
		for c.More() {
			s.turn.Store(int64(c.Index()))
			signal(s.taken)
			if !todo(c.Index()) {
				if err := c.Skip(); err != nil {
					return err
				}
				continue
			}
			it, err := c.Next()
			if err != nil {
				return err
			}
			if !give(it) {
				return context.Cause(ctx)
			}
		}
		select {
		case _, open := <-s.grown:
			if !open && !c.More() {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errInputChanged = errors.New("the input has changed since the job began; its items cannot be told any more")

func (j *job) keep(it items.Item, known int) error {
	if it.Index >= known {
		return j.store.Append(it)
	}
	old, err := j.store.At(it.Index)
	if err != nil {
		return fmt.Errorf("read the recorded items: %w", err)
	}
	if old.ID != it.ID || !bytes.Equal(old.Data, it.Data) {
		return errInputChanged
	}
	return nil
}

// todo tells of an index whether its item is still to be started for the first time in this run. It is a picture of the state as it
// is now, so that a source can use it while the owner goes on.
func (j *job) todo() func(index int) bool {
	settled := make([]bool, len(j.state.status))
	for i, st := range j.state.status {
		settled[i] = st != errorpolicy.Pending
	}
	waiting := make(map[int]bool, len(j.state.waiting))
	for i := range j.state.waiting {
		waiting[i] = i < j.store.Len()
	}
	return func(i int) bool { return !waiting[i] && (i >= len(settled) || !settled[i]) }
}

// listed gives the items with these indexes.
func (j *job) listed(indexes []int) source {
	return j.feed(func(_ context.Context, give func(items.Item) bool) error {
		for _, index := range indexes {
			it, err := j.store.At(index)
			if err != nil {
				return fmt.Errorf("read the recorded items: %w", err)
			}
			if !give(it) {
				return nil
			}
		}
		return nil
	})
}
