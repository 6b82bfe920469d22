package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// eventField is a key of an event and its value, as they stand in the line.
type eventField struct {
	name  string
	value json.RawMessage
}

// text returns a string without its quotes, nothing for null, and anything else as it is written.
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

// unescaped returns what is between the quotes of a string, when that stands for itself.
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

// fieldsOf yields the fields of an object of JSON, in their order. The error is for what is none, and comes before any field.
func fieldsOf(object []byte) (iter.Seq[eventField], error) {
	if !json.Valid(object) {
		var v any
		return nil, fmt.Errorf("read an event: %w", json.Unmarshal(object, &v)) // which says what is wrong
	}
	rest := blanks(object)
	if rest[0] != '{' {
		return nil, errors.New("read an event: the line is no object")
	}
	return func(yield func(eventField) bool) {
		rest := blanks(rest[1:])
		for rest[0] != '}' {
			if rest[0] == ',' {
				rest = blanks(rest[1:])
			}
			n := valueEnd(rest)
			name := eventField{value: rest[:n]}.text()
			rest = blanks(blanks(rest[n:])[1:]) // past the colon
			n = valueEnd(rest)
			if !yield(eventField{name, rest[:n]}) {
				return
			}
			rest = blanks(rest[n:])
		}
	}, nil
}

// blanks returns b without the blanks that it begins with.
func blanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// valueEnd returns how long the value is that b, a part of valid JSON, begins with.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += textEnd(b[i:])
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			continue
		default:
			i = scalarEnd(b, i)
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// textEnd returns where the quote is that ends the string that b begins with.
func textEnd(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
}

// scalarEnd returns where the last byte of the number or word at i is.
func scalarEnd(b []byte, i int) int {
	if end := bytes.IndexAny(b[i:], ",:]} \t\r\n"); end > 0 {
		return i + end - 1
	}
	return len(b) - 1
}
