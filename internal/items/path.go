package items

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ohler55/ojg/jp"

	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
)

// path is a compiled JSONPath. The zero path selects the value itself.
type path struct {
	expr   jp.Expr
	rooted bool // a filter in it looks at the whole document
	plain  bool // a filter in it measures, perhaps objects; one that looks at the whole document can only measure texts and arrays
}

func (p path) empty() bool { return len(p.expr) == 0 }

// elements is the path of the elements of an array.
func elements() path { return path{expr: jp.Expr{jp.Wildcard('#')}} }

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
			text := f.String()
			p.rooted = p.rooted || strings.Contains(text, "$")
			p.plain = p.plain || strings.Contains(text, "length") || strings.Contains(text, "empty")
		}
	}
	p.plain = p.plain && !p.rooted
	return p, nil
}

// pathError takes the place out of a message of the parser, which ends in "at <n> in <path>".
func pathError(src string, err error) error {
	what, at := "does not parse", len(src)
	if said, ok := strings.CutSuffix(err.Error(), " in "+src); ok {
		if i := strings.LastIndex(said, " at "); i >= 0 {
			if n, err := strconv.Atoi(said[i+len(" at "):]); err == nil {
				what, at = said[:i], min(n-1, len(src))
			}
		}
	}
	return fmt.Errorf("not a JSONPath: %s\n%s", what, filter.PointAt(src, at))
}

// on returns a function that evaluates the path on a value and passes each match to take.
func (p path) on(take func([]byte) error) func([]byte) error {
	if p.empty() {
		return take
	}
	s := &selector{reader: &reader{}, path: p, take: take}
	return func(raw []byte) error {
		s.reader.open(raw)
		return s.next()
	}
}

// selector evaluates a path on documents as they are read. Names, indexes, wildcards and forward slices are followed without holding
// more than one selected value in memory, and so are filters, element by element. From any other step on, the value found there
// is loaded. Where the same name stands twice in an object, a step that is followed takes the first.
type selector struct {
	reader *reader
	path   path
	take   func(raw []byte) error // raw is compact, and only valid during the call
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

// walk evaluates the path on the value that comes next.
func (s *selector) walk(path jp.Expr) error {
	if len(path) == 0 {
		raw, err := s.reader.value()
		if err != nil {
			return err
		}
		return s.take(raw)
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
	if from, to, by, ok := forward(path[0]); ok {
		return s.array(func(i int) error {
			if i < from || i >= to || (i-from)%by != 0 {
				return s.reader.pass()
			}
			return s.walk(rest)
		})
	}
	return s.load(path)
}

// forward returns the range of an index or slice that counts from the start.
func forward(frag jp.Frag) (from, to, by int, ok bool) {
	switch step := frag.(type) {
	case jp.Nth:
		return int(step), int(step) + 1, 1, step >= 0
	case jp.Slice:
		from, to, by = step[0], step[1], step[2]
		if from == jp.SliceNotSet {
			from = 0
		}
		if by == jp.SliceNotSet {
			by = 1
		}
		return from, to, by, from >= 0 && to >= 0 && by > 0
	}
	return 0, 0, 0, false
}

// member goes on with the member of that name, if the next value is an object that has one.
func (s *selector) member(name string, rest jp.Expr) error {
	found := false
	return s.object(func(quoted []byte) error {
		if found || !rawjson.IsNamed(quoted, name) {
			return s.reader.pass()
		}
		found = true
		return s.walk(rest)
	})
}

// children calls each before every value in the next value.
func (s *selector) children(each func() error) error {
	if c, err := s.reader.kind(); err == nil && c == jsontext.KindBeginArray {
		return s.reader.array(func(int) error { return each() })
	}
	return s.object(func([]byte) error { return each() })
}

// array calls each before every element of the next value, if it is an array.
func (s *selector) array(each func(i int) error) error {
	if c, err := s.reader.kind(); err != nil || c != jsontext.KindBeginArray {
		return s.reader.pass()
	}
	return s.reader.array(each)
}

// object calls each before the value of every member of the next value, if it is an object.
func (s *selector) object(each func(quoted []byte) error) error {
	if c, err := s.reader.kind(); err != nil || c != jsontext.KindBeginObject {
		return s.reader.pass()
	}
	return s.reader.object(each)
}

// filter goes on with the next value if it passes.
func (s *selector) filter(f *jp.Filter, rest jp.Expr) error {
	raw, err := s.reader.value()
	if err != nil {
		return err
	}
	ok, err := load(raw, s.path.plain).matches(f)
	if err != nil || !ok {
		return err
	}
	if len(rest) == 0 {
		return s.take(raw)
	}
	return s.get(raw, rest)
}

// load evaluates the path on the next value, held in memory.
func (s *selector) load(path jp.Expr) error {
	raw, err := s.reader.value()
	if err != nil {
		return err
	}
	return s.get(raw, path)
}

func (s *selector) get(raw []byte, rest jp.Expr) error {
	return load(raw, false).get(path{expr: rest, plain: s.path.plain}, s.take)
}
