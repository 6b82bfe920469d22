package mapreduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/items"
)

// source gives a pool its items.
type source struct {
	found   <-chan items.Item           // closed at the end
	result  func() (total int, _ error) // how it ended; after found is closed
	cancel  func()                      // ends it early
	selects bool                        // its end is the end of the selection
}

// lead is how many chosen items may wait for a slot before the reader of the input has to wait.
const lead = 16

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
	return source{found: found, cancel: cancel, result: func() (int, error) { return j.store.Len(), failed }}
}

// selected is the source of a job's items: as they were recorded if selection had ended, else by selecting them.
func (j *job) selected() source {
	if j.state.selected {
		return j.recorded()
	}
	todo := j.todo()
	s := j.feed(func(ctx context.Context, give func(items.Item) bool) error { return j.choose(ctx, todo, give) })
	s.selects = true
	return s
}

// choose selects items, records each with the job, and gives those on that are not settled. What an earlier run recorded must be
// what is selected now.
func (j *job) choose(ctx context.Context, todo func(int) bool, give func(items.Item) bool) error {
	known, chosen := j.store.Len(), 0
	for it, err := range items.Select(ctx, j.workflow.Map, items.Env{Dir: j.config.Dir, Environ: j.config.Environ}) {
		if err != nil {
			return err
		}
		if err := j.keep(it, known); err != nil {
			return err
		}
		chosen++
		if todo(it.Index) && !give(it) {
			return ctx.Err()
		}
	}
	if chosen < known {
		return errInputChanged
	}
	return j.store.Sync()
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

// recorded gives the items that were recorded with the job and are not settled.
func (j *job) recorded() source {
	todo := j.todo()
	return j.feed(func(_ context.Context, give func(items.Item) bool) error {
		for index := range j.store.Len() {
			if !todo(index) {
				continue
			}
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
