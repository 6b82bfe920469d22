package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Single is one placeholder that stands alone: its value keeps its kind.
type Single struct {
	expr    *expr
	written string
}

// CompileSingle compiles what would stand between the braces of a placeholder. The error is a *CompileError.
func CompileSingle(inner string, n Names) (*Single, error) {
	src := "${" + inner + "}"
	c := newCompiler(src, Options{Names: n})
	if err := c.scan(); err != nil {
		return nil, err
	}
	if len(c.refs) != 1 || c.refs[0].start != 0 || c.refs[0].end != len(src) {
		c.report(Error, 0, finding{codeUnknown, c.unknownSingle(inner)})
		return nil, c.failure()
	}
	r := c.refs[0]
	if r.fault.code != "" {
		c.report(Error, r.start, r.fault)
	}
	return &Single{expr: r.expr, written: r.written}, c.failure()
}

// unknownSingle is the message for a text that is no placeholder of a known name.
func (c *compiler) unknownSingle(inner string) string {
	if end := nameLen(inner); end == len(inner) {
		return c.unknown(0, len("${")+end)
	}
	return fmt.Sprintf("%q is not a value (it is written like item.name or ${item.name})", shortText(inner))
}

func shortText(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), 60)]
}

// Value returns the value, or false when there is none. The error is a *BindError.
func (s *Single) Value(r Resolver) (Value, bool, error) {
	v, err := s.value(r)
	if missing, ok := errors.AsType[*BindError](err); ok && missing.Missing {
		return Value{}, false, nil
	}
	return v, err == nil, err
}

func (s *Single) value(r Resolver) (Value, error) {
	if !s.expr.isList() {
		return s.expr.value(r, s.written)
	}
	list, err := s.expr.values(r, s.written)
	return listValue(list), err
}

// listValue returns a list as one value, a JSON array.
func listValue(list []Value) Value {
	elements := make([]string, len(list))
	for i, v := range list {
		elements[i] = v.literal()
	}
	return JSON(json.RawMessage("[" + strings.Join(elements, ",") + "]"))
}

// Document returns the JSON document that v stands for; false when it is a text that nothing else is known of.
func (v Value) Document() (json.RawMessage, bool) { return v.raw, len(v.raw) > 0 }
