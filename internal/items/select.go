package items

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// Select yields the chosen items as they are found, or with sort_by when all are found. It reads no further
// than it must, and stops when ctx ends. The Data of an item is only valid until the next one. An error is
// the last thing it yields: also for data that is broken behind some items, and for two items with the same
// key.
func Select(ctx context.Context, m *workflow.Map, e Env) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := runPipeline(ctx, m, e, yield); err != nil && !errors.Is(err, errStop) {
			yield(Item{}, err)
		}
	}
}

// Texts returns the texts of an input whose items are texts, such as lines.
func Texts(ctx context.Context, in workflow.Input, e Env) (texts []string, err error) {
	for it, err := range Select(ctx, &workflow.Map{Input: in}, e) {
		if err != nil {
			return nil, err
		}
		texts = append(texts, rawjson.Unquote(it.Data))
	}
	return texts, nil
}

// runPipeline sends the items of a map phase to yield. The error is errStop when yield wants no more.
func runPipeline(ctx context.Context, m *workflow.Map, e Env, yield func(Item, error) bool) error {
	c, err := compile(m)
	if err != nil {
		return err
	}
	src, err := resolve(m.Input, e)
	if err != nil {
		return err
	}
	c.yield = yield
	if !c.full() {
		if err := c.choose(ctx, src, e); err != nil {
			return err
		}
	}
	if c.next == 0 && m.OnEmpty != workflow.EmptyIsOK {
		return c.empty(m, src, e)
	}
	c.hint(m, e)
	return nil
}

// choose yields the items of a source. The error is errStop when the caller of Select wants no more. A last batch may
// be smaller than the others. Keys are checked when all items have their names.
func (c *pipeline) choose(ctx context.Context, src source, e Env) error {
	if c.keys == nil {
		err := c.run(ctx, src, e)
		if len(c.batched) > 0 && !c.stopped && (err == nil || errors.Is(err, errStop)) {
			err = c.yieldBatch()
		}
		if errors.Is(err, errStop) && !c.stopped { // max_items are chosen
			return nil
		}
		return err
	}
	c.keys.secret, c.keys.given.dir = e.Secret, e.Temp
	defer c.keys.given.close()
	if err := c.run(ctx, src, e); err != nil && (c.stopped || !errors.Is(err, errStop)) {
		return err
	}
	return c.keys.check()
}

// run sends the values of a source through the pipeline. With sort_by they wait in a sorter, each after its origin if
// they are results of a job.
func (c *pipeline) run(ctx context.Context, src source, e Env) error {
	e.origin = &c.origin
	if c.order == nil {
		return cmp.Or(src.each(ctx, e, c.path, c.filtered(ctx, c.emit)), c.path.missed.err())
	}
	sorted := &sorter{dir: e.Temp}
	defer sorted.close()
	var key, with []byte
	err := src.each(ctx, e, c.path, c.filtered(ctx, func(raw []byte) error {
		key = c.order.AppendKey(key[:0], raw)
		c.seen.noteOrder(raw, c.order)
		if src.job {
			with = append(append(append(with[:0], c.origin...), 0), raw...)
			raw = with
		}
		return sorted.add(key, raw)
	}))
	if err := cmp.Or(err, c.path.missed.err()); err != nil {
		return err
	}
	return sorted.each(func(_, raw []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if src.job {
			origin, data, _ := bytes.Cut(raw, []byte{0}) // ids have no NUL
			c.origin, raw = string(origin), data
		}
		return c.emit(raw)
	})
}

// pipeline has the compiled expressions of a map phase, and its state.
// A value passes path, filter, order, distinct, skip, limit and batch, in this order, and is an item then.
type pipeline struct {
	path path

	// filter and distinct are nil if all values pass. order is nil if they stay as they come, and keys are nil if the
	// index names an item.
	filter   *filter.Filter
	order    filter.Order
	distinct *dedup
	keys     *keys

	// skip is how many values are left to skip. limit is max_items, and nil if there is none.
	skip  int
	limit *int

	// chosen counts the values chosen so far, and next is the index of the next item. They differ with a batch.
	chosen int
	next   int

	// batch is the number of values in an item. Zero means that the value itself is the item.
	batch int

	// batched is the array of the values of the next item so far, without its end, and inBatch is their number.
	batched []byte
	inBatch int

	// origin is the item of the other job whose result is at hand, if the input is a job. origins are those of the
	// values in batched.
	origin  string
	origins []string

	// stopped reports whether the caller of Select wants no more.
	stopped bool

	yield func(Item, error) bool
	seen  seen
}

// compile parses the expressions of a map phase. Errors name the key, and point at the place with a caret.
func compile(m *workflow.Map) (*pipeline, error) {
	c := &pipeline{skip: m.Offset, limit: m.MaxItems, batch: m.Batch}
	for _, x := range c.expressions(m) {
		if x.text.Value == "" {
			continue
		}
		if err := x.parse(x.text.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return c, nil
}

// expression is a key of a map phase whose value is parsed.
type expression struct {
	name  string
	text  workflow.Text
	parse func(src string) error
}

// expressions returns the expressions of a map phase. Their parse functions store the result in c.
func (c *pipeline) expressions(m *workflow.Map) []expression {
	return []expression{
		{"json_path", m.JSONPath, func(src string) (err error) {
			c.path, err = parsePath(src)
			c.path.missed = new(missed)
			return err
		}},
		{"filter", m.Filter, func(src string) (err error) {
			c.filter, err = filter.Parse(src)
			return err
		}},
		{"sort_by", m.SortBy, func(src string) (err error) {
			c.order, err = filter.ParseOrder(src)
			return err
		}},
		{"distinct", m.Distinct, func(src string) error {
			path, err := filter.ParsePath(src)
			c.distinct = &dedup{path: path, seen: map[fingerprint]struct{}{}}
			return err
		}},
		{"key", m.Key, func(src string) error {
			path, err := filter.ParsePath(src)
			c.keys = &keys{src: src, path: path}
			return err
		}},
	}
}

// filtered returns a function that calls emit with the values that pass the filter, until ctx ends.
func (c *pipeline) filtered(ctx context.Context, emit func([]byte) error) func([]byte) error {
	return func(raw []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if rawjson.TooDeep(raw) {
			return fmt.Errorf("an item is nested more than %d levels deep", rawjson.MaxDepth)
		}
		passes := c.filter == nil || c.filter.Match(raw)
		c.seen.note(raw, c.filter, passes)
		if !passes {
			return nil
		}
		return emit(raw)
	}
}

// emit yields raw, alone or in a batch, unless distinct or offset leave it out. raw is compact and belongs to
// the caller. The error is errStop when no more values are wanted.
func (c *pipeline) emit(raw []byte) error {
	if c.distinct != nil && !c.distinct.isNew(raw) {
		return nil
	}
	if c.skip > 0 {
		c.skip--
		return nil
	}
	c.chosen++
	if c.batch == 0 {
		return c.yieldItem(raw)
	}
	separator := byte(',')
	if c.inBatch == 0 {
		c.batched, separator = c.batched[:0], '['
	}
	c.batched = append(append(c.batched, separator), raw...)
	if n := len(c.origins); c.origin != "" && (n == 0 || c.origins[n-1] != c.origin) {
		c.origins = append(c.origins, c.origin)
	}
	if c.inBatch++; c.inBatch == c.batch {
		return c.yieldBatch()
	}
	return c.wantsMore()
}

// yieldBatch yields the values of the next item as one array.
func (c *pipeline) yieldBatch() error {
	err := c.yieldItem(append(c.batched, ']'))
	c.batched, c.inBatch = c.batched[:0], 0
	return err
}

// yieldItem yields raw as the next item. The error is errStop when no more values are wanted.
func (c *pipeline) yieldItem(raw []byte) error {
	it := Item{Index: c.next, Data: raw}
	switch {
	case c.batch > 0:
		it.From, c.origins = c.origins, nil
	case c.origin != "":
		it.From = []string{c.origin}
	}
	if c.keys == nil {
		it.ID = ID(it.Index)
	} else {
		var err error
		if it.ID, err = c.keys.id(raw, it.Index); err != nil {
			return err
		}
	}
	c.next++
	c.stopped = !c.yield(it, nil)
	return c.wantsMore()
}

// wantsMore returns errStop when no more values are wanted.
func (c *pipeline) wantsMore() error {
	if c.stopped || c.full() {
		return errStop
	}
	return nil
}

// full reports whether max_items are chosen. It may be 0.
func (c *pipeline) full() bool {
	return c.limit != nil && c.chosen >= *c.limit
}

// fingerprint identifies a value: 128 bits of a hash of its ordered form. The odds that two of a million
// values share one are below 1 in 10^26.
type fingerprint [16]byte

// dedup remembers the values of a field, by their fingerprints: 16 bytes for each value, however long it is.
type dedup struct {
	path filter.Path
	seen map[fingerprint]struct{}

	// form is the buffer of the ordered form of a value, which is the same for equal values such as 1 and 1.0.
	form []byte
}

// isNew reports whether no earlier item had an equal value, and remembers it. A missing value is null.
func (n *dedup) isNew(item json.RawMessage) bool {
	v, _ := n.path.In(item)
	n.form = v.AppendOrdered(n.form[:0])
	sum := sha256.Sum256(n.form)
	f := fingerprint(sum[:16])
	if _, before := n.seen[f]; before {
		return false
	}
	n.seen[f] = struct{}{}
	return true
}

// empty returns why no item was chosen.
func (c *pipeline) empty(m *workflow.Map, src source, e Env) error {
	why := ""
	words, _ := src.described()
	switch s := &c.seen; {
	case c.full():
		why = "max_items is 0"
	case s.read == 0 && m.JSONPath.Value != "" && src.glob == "":
		why = "json_path " + m.JSONPath.Value + " selects nothing in " + words
		if check.Among("csv tsv jsonl", src.format) {
			why += ", where it looks at each row: use filter in a workflow to choose rows"
		}
	case s.read == 0:
		why = src.nothing(e)
	case s.passed == 0:
		why = fmt.Sprintf("filter %s matches none of %s", m.Filter.Value, check.Counted(s.read, "item"))
		hints := s.misspelt(false)
		if s.mismatch != "" {
			hints = append(hints, s.mismatch)
		}
		if len(hints) > 0 {
			why += ": " + strings.Join(hints, "; ")
		}
	default:
		why = fmt.Sprintf("offset %d skips all of %s", m.Offset, check.Counted(s.passed, "item"))
	}
	return &EmptyError{Why: why, Glob: src.glob != "", Stdin: src.stdin}
}

// hint warns of a selection that is hardly what was meant: a field of the filter that is nearly one of the items, or a
// document that holds the items and became the only item.
func (c *pipeline) hint(m *workflow.Map, e Env) {
	if e.Warn == nil {
		return
	}
	for _, text := range c.seen.misspelt(true) {
		e.Warn("filter: " + text)
	}
	if field := c.seen.misplaced; field != "" {
		e.Warn(fmt.Sprintf("sort_by: %[1]s has strings, which sort as text, 100 before 9: use number(%[1]s)", field))
	}
	if s := &c.seen; s.read == 1 && len(s.lists) == 1 && m.JSONPath.Value == "" && m.Input.Items == nil && m.Input.Job == "" {
		path := s.lists[0]
		e.Warn(fmt.Sprintf("the input is a single item, an object: to use the %[2]d elements of its list, set json_path: %[1]q; to keep the single item, set %[3]q",
			path+"[*]", s.elements, "$"))
	}
}
