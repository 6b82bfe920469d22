package mapreduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/reuse"
)

// source gives a pool its items.
type source struct {
	found  <-chan offered // closed at the end
	failed func() error   // how that ended; after found is closed
	cancel func()         // ends it early

	// Of a source that selects: chosen is closed when selection has ended, while items may still wait for their
	// turn, and then choice returns its result, with what people are to be told of it.
	chosen <-chan struct{}
	choice func() (selected events.ItemsSelected, notes []string, _ error)
	whole  bool // nothing may start before the end of the selection is recorded
}

const (
	lead = 16 // items in memory that wait for a slot

	// A selection that has recorded so many items before their turn waits, so that an endless input cannot fill
	// the disk.
	mostAhead      = 1 << 20
	mostBytesAhead = 1 << 30
)

// offered is an item whose turn it is.
type offered struct {
	items.Item
	reused *events.AgentReused // not nil: its result is taken over, and nothing is run
	reason string              // why it is run, in a job that takes over results
	retry  bool                // it follows a failure
	again  bool                // it has begun before
}

// feed runs a producer of items on a goroutine of the job.
func (j *owner) feed(produce func(ctx context.Context, give func(offered) bool) error) source {
	ctx, cancel := context.WithCancel(context.Background())
	found := make(chan offered, lead)
	var failed error
	give := func(it offered) bool {
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

// selected is the source of a job's items: as they were recorded if selection had ended, else by selecting
// them. The selection runs ahead into items.jsonl, so that the input is needed for as short as can be, and the
// pool follows that file.
func (j *owner) selected() source {
	todo := j.todo()
	sel := &selection{
		owner: j, head: j.Head, grown: make(chan struct{}, 1), ended: make(chan struct{}),
		lead: ahead{items: mostAhead, bytes: mostBytesAhead, moved: make(chan struct{}, 1)},
	}
	cutOff := j.workflow.Map.Input.Stdin && j.config.Stdin == nil // the selection of an earlier run cannot be repeated
	if j.Selected || cutOff {
		close(sel.grown)
		return j.feed(func(ctx context.Context, give func(offered) bool) error {
			if err := sel.give(ctx, todo, give); err != nil || j.Selected {
				return err
			}
			return fmt.Errorf("%w: the items read so far (%d) have run; start a new job with the rest",
				errInputGone, j.Store.Len())
		})
	}
	s := j.feed(func(ctx context.Context, give func(offered) bool) error {
		j.agents.Go(func() error {
			defer close(sel.grown)
			defer close(sel.ended)
			sel.failed = sel.record(ctx)
			sel.since = j.reuse.Difference() // before the items come once more, to Take
			return nil
		})
		if j.whole() {
			select {
			case <-sel.ended:
			case <-ctx.Done():
				return nil
			}
			if sel.failed != nil {
				return nil // choice returns how the selection ended
			}
		}
		return sel.give(ctx, todo, give)
	})
	s.chosen, s.whole = sel.ended, j.whole()
	s.choice = func() (events.ItemsSelected, []string, error) {
		return events.ItemsSelected{TotalItems: j.Store.Len(), Since: sel.since}, sel.notes, sel.failed
	}
	return s
}

var (
	errInputGone    = errors.New("the previous run was interrupted while reading standard input, which cannot be read again")
	errInputChanged = errors.New("the input has changed since the job started: restore it, or start a new job")
)

// nothingLeft reports whether no resume can run anything: the items come from standard input, which was not read to its
// end, and those that were read have ended.
func (j *owner) nothingLeft() bool {
	m := j.workflow.Map
	return m != nil && m.Input.Stdin && !j.Selected && j.Pending()+j.InFlight()+j.Unmerged() == 0
}

// selection is a selection at work: one goroutine records what it chooses, another gives it to the pool.
type selection struct {
	*owner
	head   string        // of the job, with workspaces
	grown  chan struct{} // the store has more; closed when there will be no more
	lead   ahead
	ended  chan struct{} // closed when all is recorded
	failed error         // after ended is closed
	notes  []string      // the same

	since *events.Difference // the same; nil if no results are reused
}

// whole reports whether all items are selected before the first agent starts: their keys must be known to be
// different, or people are to be told what has changed since an earlier job.
func (j *owner) whole() bool { return j.workflow.Map.Key.Value != "" || j.reuse != nil }

// record selects items and records each with the job. When no agent starts before the end, what an earlier run
// recorded does not count; else it must be what is selected now.
func (s *selection) record(ctx context.Context) error {
	whole := s.whole()
	if whole {
		if err := s.Store.Clear(); err != nil {
			return err
		}
	}
	chosen, known := 0, s.Store.Len()
	before := s.Store.Cursor()
	env := s.selectionEnv()
	env.Warn = func(text string) { s.notes = append(s.notes, text) }
	if s.space != nil { // the items are what setup has left, committed or not
		var err error
		if env.Dir, err = s.space.Phase(ctx, s.head); err != nil {
			return err
		}
	}
	for it, err := range items.Select(ctx, s.workflow.Map, env) {
		if _, empty := errors.AsType[*items.EmptyError](err); empty && known > 0 {
			break
		}
		if err != nil {
			return err
		}
		if s.reuse != nil {
			wanted, err := s.reuse.Choose(&it)
			if err != nil {
				return err
			}
			if !wanted {
				continue
			}
		}
		if it.Index >= known {
			if shown := s.config.Settings.Mask.JSON(it.Data); !bytes.Equal(shown, it.Data) {
				it.Masked = shown
			}
			if err := s.Store.Append(it); err != nil {
				return err
			}
		} else if old, err := before.Next(); err != nil {
			return fmt.Errorf("read the recorded items: %w", err)
		} else if old.ID != it.ID || !bytes.Equal(old.Data, it.Data) {
			return errInputChanged
		}
		chosen++
		check.Wake(s.grown)
		if !whole && !s.lead.wait(ctx, int64(it.Index), s.Store.Size()) {
			return context.Cause(ctx)
		}
	}
	if chosen < known {
		return errInputChanged
	}
	return s.Store.Sync()
}

func (j *owner) selectionEnv() items.Env {
	captured := map[string]string{} // by setup, without outputs that hold a secret: the log has them masked
	for _, e := range j.earlier("map") {
		if !e.Masked {
			captured[e.Capture] = e.Output
		}
	}
	c := j.config
	c.Settings = c.Settings.With(captured)
	env := c.ItemsEnv()
	env.Temp, env.Register, env.Results = j.temp, j.register, reuse.ResultsOf(c.Home, j.meta.Input)
	return env
}

// ItemsEnv returns where the items of a job come from, as far as that is known before it runs.
func (c Config) ItemsEnv() items.Env {
	return items.Env{
		Dir: c.Dir, Environ: c.Settings.Environ(c.Environ), Fill: c.Settings.Fill, Stdin: c.Stdin,
		Secret: c.Settings.Mask.Holds,
	}
}

// ahead limits how far a selection is ahead of the pool.
type ahead struct {
	items, bytes int64         // how far is too far
	moved        chan struct{} // the pool has come further
	turn, taken  atomic.Int64  // the index of the item whose turn it is, and the bytes before it
}

// move records the position of the pool.
func (a *ahead) move(c *items.Cursor) {
	a.turn.Store(int64(c.Index()))
	a.taken.Store(c.Offset())
	check.Wake(a.moved)
}

// wait blocks while the selection, which is at an index and a size, is too far ahead. It reports false if ctx
// has ended.
func (a *ahead) wait(ctx context.Context, index, size int64) bool {
	for index-a.turn.Load() >= a.items || size-a.taken.Load() >= a.bytes {
		select {
		case <-a.moved:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// give gives the recorded items that are to be started, in order, as far as the selection has come.
func (s *selection) give(ctx context.Context, todo func(int) bool, give func(offered) bool) error {
	c := s.Store.Cursor()
	for {
		for c.More() {
			s.lead.move(c)
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
			next := offered{Item: it}
			if s.reuse != nil {
				if next.reused, next.reason, err = s.reuse.Take(it, s.place); err != nil {
					return err
				}
			}
			if !give(next) {
				return context.Cause(ctx)
			}
		}
		s.lead.move(c)
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

// todo returns a function that reports whether an item, by index, is to be started for the first time in this
// run. It is a snapshot of the state, so a source can use it while the owner continues.
func (j *owner) todo() func(index int) bool {
	statuses := j.Status.Clone()
	waiting := make(map[int]bool, len(j.Waiting))
	for i := range j.Waiting {
		waiting[i] = i < j.Store.Len()
	}
	for i := range j.Running { // attached ones
		waiting[i] = true
	}
	for i := range j.Merging {
		waiting[i] = true
	}
	return func(i int) bool { return !waiting[i] && statuses.At(i) == errorpolicy.Pending }
}

// listed gives the items with these indexes.
func (j *owner) listed(indexes []int) source {
	return j.feed(func(_ context.Context, give func(offered) bool) error {
		for _, index := range indexes {
			it, err := j.Store.At(index)
			if err != nil {
				return fmt.Errorf("read the recorded items: %w", err)
			}
			if !give(offered{Item: it}) {
				return nil
			}
		}
		return nil
	})
}
