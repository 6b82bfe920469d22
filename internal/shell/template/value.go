package template

import (
	"bytes"
	"encoding/json"
	"slices"

	"prodigy/internal/rawjson"
)

// Value is what a placeholder stands for. The zero Value is an empty text.
type Value struct {
	text string

	// raw is a JSON document without space around it. If it is not nil, text is unused.
	raw []byte

	// fields are those that With added.
	fields map[string]Value
}

// Text returns the value of a text.
func Text(s string) Value { return Value{text: s} }

// JSON returns the value of a JSON document: a scalar stands for its text (numbers keep their spelling),
// anything else for its compact JSON, with keys in their order. Fields and elements are reached by steps of the
// path. The document must be valid and must not change afterwards.
func JSON(raw []byte) Value { return Value{raw: bytes.TrimSpace(raw)} }

// With returns v with more fields. A field that v's own data has wins, so ${item.output} is the item's own
// output when it has one.
func (v Value) With(fields map[string]Value) Value {
	v.fields = fields
	return v
}

// As returns v as a JSON document, with the fields that it was given.
func (v Value) As(raw json.RawMessage) Value { return JSON(raw).With(v.fields) }

// String returns the text that the value stands for.
func (v Value) String() string {
	switch {
	case v.raw == nil:
		return v.text
	case len(v.raw) == 0:
		return ""
	case v.raw[0] == '"':
		return rawjson.Unquote(v.raw)
	case v.raw[0] == '{' || v.raw[0] == '[':
		// On one line, so that a program that reads lines gets the whole value.
		return string(rawjson.Compact(new([]byte), v.raw))
	}
	return string(v.raw)
}

// Field returns the value of a key: of v's own data, else of the fields it was given by With.
func (v Value) Field(key string) (Value, bool) {
	if raw := rawjson.Member(v.raw, key); raw != nil {
		return JSON(raw), true
	}
	f, ok := v.fields[key]
	return f, ok
}

// element returns the n-th element of an array, from 0, or from -1 at the end.
func (v Value) element(n int) (Value, bool) {
	if n < 0 {
		n += len(slices.Collect(rawjson.Elements(v.raw)))
	}
	raw := rawjson.Element(v.raw, n)
	return JSON(raw), raw != nil
}

// elements returns the elements of an array. Anything else is a list of itself; null and an empty text are no elements.
func (v Value) elements() []Value {
	if !v.isArray() {
		if v.isEmpty() {
			return nil
		}
		return []Value{v}
	}
	var all []Value
	for raw := range rawjson.Elements(v.raw) {
		all = append(all, JSON(raw))
	}
	return all
}

func (v Value) isArray() bool { return len(v.raw) > 0 && v.raw[0] == '[' }

// isEmpty reports whether a default takes the place of the value.
func (v Value) isEmpty() bool {
	if v.raw == nil {
		return v.text == ""
	}
	return string(v.raw) == "null" || len(v.raw) == 0 || string(v.raw) == `""`
}

// literal returns the value as a JSON literal.
func (v Value) literal() string {
	if len(v.raw) > 0 && v.raw[0] != '"' {
		return string(rawjson.Compact(new([]byte), v.raw))
	}
	return string(rawjson.Of(v.String()))
}
