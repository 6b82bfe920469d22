package items

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ohler55/ojg/jp"

	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
)

// path is a compiled JSONPath. The zero path selects the whole value.
type path struct {
	expr jp.Expr

	// missed is where selectors note keys that are not there. Nil means that they are not noted.
	missed *missed

	// rooted reports whether a filter in it refers to the root, $, so that the whole value must be in memory.
	rooted bool
}

func (p path) empty() bool { return len(p.expr) == 0 }

// parsePath compiles a JSONPath. An error shows the place with a caret.
func parsePath(src string) (path, error) {
	if src = strings.TrimSpace(src); src == "" {
		return path{}, nil
	}
	expr, err := jp.ParseString(src)
	if err != nil {
		return path{}, pathError(src, err)
	}
	p := path{expr: expr}
	for _, frag := range expr {
		if f, ok := frag.(*jp.Filter); ok {
			p.rooted = p.rooted || strings.Contains(f.String(), "$")
		}
	}
	return p, nil
}

// pathError returns a parser error with a caret at its position. The message of the parser ends in "at <n> in <path>".
func pathError(src string, err error) error {
	what, at := "does not parse", len(src)
	if said, ok := strings.CutSuffix(err.Error(), " in "+src); ok {
		if i := strings.LastIndex(said, " at "); i >= 0 {
			if n, err := strconv.Atoi(said[i+len(" at "):]); err == nil {
				what, at = said[:i], min(n-1, len(src))
			}
		}
	}
	return fmt.Errorf("invalid JSONPath: %s\n%s", what, filter.PointAt(src, at))
}

// evaluator returns a function that evaluates the path on a value and calls emit with each match.
func (p path) evaluator(emit func([]byte) error) func([]byte) error {
	if p.empty() {
		return emit
	}
	s := &selector{reader: &reader{}, path: p, emit: p.missed.watch(emit)}
	return func(raw []byte) error {
		s.reader.open(raw)
		return s.next()
	}
}

// selector evaluates a path on documents while they are read. Names, wildcards and filters hold
// no more than one selected value or element in memory. At any other step, the value found so
// far is loaded. Of members with the same name, a step takes the first.
type selector struct {
	reader *reader
	path   path

	// emit gets each match, which is compact and only valid during the call.
	emit func(raw []byte) error
}

// next evaluates the path on the next document. The error is io.EOF when there is none.
func (s *selector) next() error {
	if _, err := s.reader.kind(); err != nil {
		return err
	}
	if s.path.rooted {
		return s.load(s.path.expr)
	}
	return s.walk(s.path.expr)
}

// values calls emit with each value. With apart set, the elements of the first value take its place.
func (f *peekReader) values(emit func([]byte) error, apart bool) error {
	if apart {
		return f.each(path{expr: jp.Expr{jp.Wildcard('#')}}, path{}, emit)
	}
	return f.each(path{}, path{}, emit)
}

// each evaluates a path on the first value, and another on the values that follow it.
func (f *peekReader) each(first, others path, emit func([]byte) error) error {
	s := &selector{reader: newReader(f), path: first, emit: first.missed.watch(emit)}
	for {
		if err := s.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		s.path = others
		f.found = true
	}
}

// walk evaluates the path on the value that comes next.
func (s *selector) walk(path jp.Expr) error {
	if len(path) == 0 {
		raw, err := s.reader.value()
		if err != nil {
			return err
		}
		return s.emit(raw)
	}
	rest := path[1:]
	switch step := path[0].(type) {
	case jp.Root, jp.At:
		return s.walk(rest)
	case jp.Child:
		return s.member(string(step), rest)
	case jp.Wildcard:
		return s.children(func() error { return s.walk(rest) })
	case *jp.Filter:
		return s.children(func() error { return s.filter(step, rest) })
	}
	return s.load(path)
}

// member continues with the member called name, if the next value is an object that has one.
func (s *selector) member(name string, rest jp.Expr) error {
	kind, err := s.reader.kind()
	if err != nil {
		return err
	}
	depth := len(s.path.expr) - len(rest)
	asked := s.path.missed.asks(depth)
	found := false
	var keys []string
	err = s.in(jsontext.KindBeginObject, func(_ int, quoted []byte) error {
		if found || !rawjson.IsNamed(quoted, name) {
			if asked && !found && len(keys) < keysKept {
				keys = append(keys, rawjson.Unquote(quoted))
			}
			return s.reader.skip()
		}
		found = true
		return s.walk(rest)
	})
	if asked && !found && err == nil && kind != jsontext.KindNull {
		s.path.missed.at = &MissingKeyError{
			Path: s.path.expr.String(), Parent: s.path.expr[:depth-1].String(),
			Key: name, Kind: byte(kind), Keys: keys,
		}
		s.path.missed.depth = depth
	}
	return err
}

// keysKept is how many keys of an object are remembered for a message.
const keysKept = 1000

// missed notes the first key of a path that an object lacks, the one furthest in the path, as long as the
// path has selected nothing.
type missed struct {
	selected bool

	// at is the key, and depth counts the steps of the path up to it. At first there is none.
	at    *MissingKeyError
	depth int
}

// watch returns emit, and notes that something was selected.
func (m *missed) watch(emit func([]byte) error) func([]byte) error {
	if m == nil {
		return emit
	}
	return func(raw []byte) error {
		m.selected = true
		return emit(raw)
	}
}

// asks reports whether a missing key at that depth of the path is of interest.
func (m *missed) asks(depth int) bool {
	return m != nil && !m.selected && (m.at == nil || depth > m.depth)
}

// err returns the missing key if nothing was selected.
func (m *missed) err() error {
	if m == nil || m.selected || m.at == nil {
		return nil
	}
	return m.at
}

// MissingKeyError means that a path selects nothing, because no value that it comes to has the key which it names.
type MissingKeyError struct {
	// Parent is the part of Path in front of Key.
	Path, Parent string
	Key          string

	// Kind is the byte that the value at Parent begins with: { if it is an object.
	Kind byte

	// Keys are the first keys that the object at Parent has.
	Keys []string
}

func (e *MissingKeyError) Error() string {
	said := fmt.Sprintf("json_path %s selects nothing: %s ", e.Path, e.Parent)
	switch {
	case e.Kind == '[':
		return said + fmt.Sprintf("is a list, which has no key %q: its elements are %s[*]", e.Key, e.Parent)
	case e.Kind != '{':
		return said + fmt.Sprintf("is not an object, so it has no key %q", e.Key)
	case len(e.Keys) == 0:
		return said + fmt.Sprintf("has no keys, so no %q", e.Key)
	}
	const few = 10
	var named []string
	for _, key := range e.Keys[:min(few, len(e.Keys))] {
		named = append(named, strconv.Quote(key))
	}
	if len(e.Keys) > few {
		named = append(named, "…")
	}
	return said + fmt.Sprintf("has no key %q; it has %s", e.Key, strings.Join(named, ", "))
}

// children calls each before every element or member of the next value. A value that is neither has none.
func (s *selector) children(each func() error) error {
	begin, _ := s.reader.kind()
	if begin != jsontext.KindBeginArray {
		begin = jsontext.KindBeginObject
	}
	return s.in(begin, func(int, []byte) error { return each() })
}

// in calls each before every part of the next value, if that is an array or object as begin begins.
func (s *selector) in(begin jsontext.Kind, each func(i int, quoted []byte) error) error {
	if kind, err := s.reader.kind(); err != nil || kind != begin {
		return s.reader.skip()
	}
	return s.reader.parts(each)
}

// filter continues with the next value if it passes.
func (s *selector) filter(f *jp.Filter, rest jp.Expr) error {
	raw, err := s.reader.value()
	if err != nil {
		return err
	}
	ok, err := load(raw).matches(f)
	if err != nil || !ok {
		return err
	}
	if len(rest) == 0 {
		return s.emit(raw)
	}
	return load(raw).get(rest, s.emit)
}

// load evaluates the path on the next value, held in memory.
func (s *selector) load(path jp.Expr) error {
	raw, err := s.reader.value()
	if err != nil {
		return err
	}
	return load(raw).get(path, s.emit)
}

// matches reports whether the document passes a filter of a path.
func (d *document) matches(f *jp.Filter) (ok bool, err error) {
	defer recoverEvaluation(&err)
	return f.Match(d.value), nil
}

// recoverEvaluation turns a panic of ojg into an error. It panics, for example, if a filter compares two arrays.
func recoverEvaluation(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("json_path: cannot be evaluated on this data: %v", r)
	}
}

// get calls emit with what the path selects.
func (d *document) get(path jp.Expr, emit func([]byte) error) error {
	found, err := selected(d.value, path)
	if err != nil {
		return err
	}
	for _, v := range found {
		if err := emit(d.appendJSON(nil, v)); err != nil {
			return err
		}
	}
	return nil
}

// selected returns what ojg selects in v. A path without steps selects v itself, and below a scalar there is nothing.
func selected(v any, path jp.Expr) (found []any, err error) {
	defer recoverEvaluation(&err)
	isStep := func(frag jp.Frag) bool { return frag != jp.Root('$') && frag != jp.At('@') }
	if !slices.ContainsFunc(path, isStep) {
		return []any{v}, nil
	}
	switch v.(type) {
	case object, []any:
		return path.Get(v), nil
	}
	return nil, nil
}
