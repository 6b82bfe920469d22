package items

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"prodigy/internal/workflow"
)

// errEnough ends a walk over the data because no more of it is wanted.
var errEnough = errors.New("enough")

// Select yields the chosen items as they are found. It reads no further than it is asked to, and stops when ctx ends.
// Nothing follows an error. Data that turns out to be broken after some items is an error after those items.
func Select(ctx context.Context, m *workflow.Map, e Env) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := choose(ctx, m, e, yield); err != nil && !errors.Is(err, errEnough) {
			yield(Item{}, err)
		}
	}
}

func choose(ctx context.Context, m *workflow.Map, e Env, yield func(Item, error) bool) error {
	p, err := parsePath(m.JSONPath)
	if err != nil {
		return fmt.Errorf("json_path: %w", err)
	}
	c := &chooser{skip: m.Offset, limit: m.MaxItems, yield: yield}
	if m.Filter != "" {
		if c.filter, err = ParseFilter(m.Filter); err != nil {
			return fmt.Errorf("filter: %w", err)
		}
	}
	src, err := resolve(m.Input, e.Dir)
	if err != nil {
		return err
	}
	if c.full() {
		return nil
	}
	return src.each(ctx, e, p, func(raw []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return c.take(raw)
	})
}

// chooser passes on the values that the filter, offset and max_items of a map phase leave.
type chooser struct {
	filter *Filter // nil: all pass
	skip   int     // how many are still to be left out
	limit  *int
	next   int // index of the next item
	yield  func(Item, error) bool
}

// take looks at one value. raw belongs to the caller. The error is errEnough when no more values are wanted.
func (c *chooser) take(raw []byte) error {
	if c.filter != nil && !c.filter.Match(raw) {
		return nil
	}
	if c.skip > 0 {
		c.skip--
		return nil
	}
	it := Item{ID: itemID(c.next), Index: c.next, Data: compact(raw)}
	c.next++
	if !c.yield(it, nil) || c.full() {
		return errEnough
	}
	return nil
}

func (c *chooser) full() bool {
	return c.limit != nil && c.next >= *c.limit
}

func itemID(index int) string {
	return string(strconv.AppendInt(append(make([]byte, 0, 24), "item_"...), int64(index), 10))
}
