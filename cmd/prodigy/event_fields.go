package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// eventField is a key of an event and its value, as they stand in the line.
type eventField struct {
	name  string
	value json.RawMessage
}

// text returns a string unquoted, null as "", and anything else as JSON.
func (f eventField) text() string {
	if inner, ok := unescaped(f.value); ok {
		return string(inner)
	}
	if len(f.value) == 0 || f.value[0] != '"' {
		return strings.TrimPrefix(string(f.value), "null")
	}
	var s string
	_ = json.Unmarshal(f.value, &s) // it is valid, and a string
	return s
}

// unescaped returns the text between the quotes of a JSON string if it has no escapes and is ASCII.
func unescaped(value []byte) ([]byte, bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	inner := value[1 : len(value)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			return nil, false
		}
	}
	return inner, true
}

// fieldsOf yields the fields of a JSON object in their order. It returns an error if object is not valid.
func fieldsOf(object []byte) (iter.Seq[eventField], error) {
	if !json.Valid(object) {
		return nil, json.Unmarshal(object, new(json.RawMessage)) // returns the syntax error
	}
	if jsontext.Value(object).Kind() != jsontext.KindBeginObject {
		return nil, errors.New("the line is no object")
	}
	return func(yield func(eventField) bool) {
		// Valid JSON gives no errors.
		d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		_, _ = d.ReadToken()
		for d.PeekKind() == jsontext.KindString {
			name, _ := d.ReadToken()
			f := eventField{name: name.String()}
			value, _ := d.ReadValue()
			end := int(d.InputOffset())
			f.value = object[end-len(value) : end : end] // value itself is good until the next
			if !yield(f) {
				return
			}
		}
	}, nil
}
