package items

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// errEnough ends a walk over the data because no more of it is wanted.
var errEnough = errors.New("enough")

// Select yields the chosen items as they are found, or with sort_by when all are found. It reads no further than it is asked to, and
// stops when ctx ends. The Data of an item is only valid until the next one is asked for. Nothing follows an error. Data that turns out to be broken after some items is an error after those items, and so is a
// name that a key gives twice.
func Select(ctx context.Context, m *workflow.Map, e Env) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := choose(ctx, m, e, yield); err != nil && !errors.Is(err, errEnough) {
			yield(Item{}, err)
		}
	}
}

func choose(ctx context.Context, m *workflow.Map, e Env, yield func(Item, error) bool) error {
	c, err := compile(m)
	if err != nil {
		return err
	}
	src, err := resolve(m.Input, e)
	if err != nil || c.full() {
		return err
	}
	c.yield = yield
	if c.keys == nil {
		return c.run(ctx, src, e)
	}
	c.keys.secret, c.keys.given.dir = e.Secret, e.Temp
	defer c.keys.given.close()
	if err := c.run(ctx, src, e); err != nil && (c.left || !errors.Is(err, errEnough)) {
		return err
	}
	return c.keys.check()
}

// run gives the values of a source to the pipeline.
func (c *chooser) run(ctx context.Context, src source, e Env) error {
	if c.order == nil {
		return src.each(ctx, e, c.path, c.filtered(ctx, c.take))
	}
	sorted := &sorter{dir: e.Temp}
	defer sorted.close()
	var key []byte
	err := src.each(ctx, e, c.path, c.filtered(ctx, func(raw []byte) error {
		key = c.order.AppendKey(key[:0], raw)
		return sorted.add(key, raw)
	}))
	if err != nil {
		return err
	}
	return sorted.each(func(_, raw []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return c.take(raw)
	})
}

// chooser is the compiled pipeline of a map phase.
type chooser struct {
	path     path
	filter   *filter.Filter // nil: all pass
	order    filter.Order   // nil: as they come
	distinct *dedup         // nil: all pass
	skip     int            // how many are still to be left out
	limit    *int
	keys     *keys // nil: items are named by their index
	next     int   // index of the next item
	left     bool  // who asked wants no more
	yield    func(Item, error) bool
}

// compile reads the expressions of a map phase. Its errors name the key, and show the place with a caret.
func compile(m *workflow.Map) (*chooser, error) {
	c := &chooser{skip: m.Offset, limit: m.MaxItems}
	for _, x := range c.expressions(m) {
		if x.src == "" {
			continue
		}
		if err := x.parse(x.src); err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return c, nil
}

// expression is what a map phase says in a language of its own.
type expression struct {
	name, src string
	at        workflow.Pos
	parse     func(src string) error
}

// expressions returns those of a map phase, each with what compiles it into c.
func (c *chooser) expressions(m *workflow.Map) []expression {
	return []expression{
		{"json_path", m.JSONPath, m.JSONPathPos, func(src string) (err error) {
			c.path, err = parsePath(src)
			return err
		}},
		{"filter", m.Filter, m.FilterPos, func(src string) (err error) {
			c.filter, err = filter.Parse(src)
			return err
		}},
		{"sort_by", m.SortBy, m.SortByPos, func(src string) (err error) {
			c.order, err = filter.ParseOrder(src)
			return err
		}},
		{"distinct", m.Distinct, m.DistinctPos, func(src string) error {
			path, err := filter.ParsePath(src)
			c.distinct = &dedup{path: path, seen: map[fingerprint]struct{}{}}
			return err
		}},
		{"key", m.Key, m.KeyPos, func(src string) error {
			path, err := filter.ParsePath(src)
			c.keys = &keys{src: src, path: path}
			return err
		}},
	}
}

// filtered returns what gives take the values that pass the filter, until ctx ends.
func (c *chooser) filtered(ctx context.Context, take func([]byte) error) func([]byte) error {
	return func(raw []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if rawjson.TooDeep(raw) {
			return fmt.Errorf("an item nests further than %d levels", rawjson.MaxDepth)
		}
		if c.filter != nil && !c.filter.Match(raw) {
			return nil
		}
		return take(raw)
	}
}

// take yields what distinct, offset and max_items leave. raw is compact and belongs to the caller. The error is errEnough when no more values are
// wanted.
func (c *chooser) take(raw []byte) error {
	if c.distinct != nil && !c.distinct.isNew(raw) {
		return nil
	}
	if c.skip > 0 {
		c.skip--
		return nil
	}
	it := Item{Index: c.next, Data: raw}
	if c.keys == nil {
		it.ID = itemID(it.Index)
	} else {
		var err error
		if it.ID, err = c.keys.id(raw, it.Index); err != nil {
			return err
		}
	}
	c.next++
	if c.left = !c.yield(it, nil); c.left || c.full() {
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
