package items

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"prodigy/internal/rawjson"
)

// kind is a kind of JSON value.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	array
	objectKind
)

// value is what an expression works on. The zero value is null.
type value struct {
	kind kind
	yes  bool   // of a boolean
	text string // of a text; of a number, its spelling
	raw  []byte // of an array or object

	loose bool // a text of no known kind: where a number or a boolean is wanted it is one, if it is spelled like one
}

func booleanValue(yes bool) value { return value{kind: boolean, yes: yes} }

// newValue reads valid JSON.
func newValue(raw []byte) value {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return value{}
	}
	switch raw[0] {
	case 'n':
		return value{}
	case 't', 'f':
		return booleanValue(raw[0] == 't')
	case '"':
		return value{kind: text, text: rawjson.Unquote(raw)}
	case '[':
		return value{kind: array, raw: raw}
	case '{':
		return value{kind: objectKind, raw: raw}
	}
	return value{kind: number, text: string(raw)}
}

// member returns the member of an object with that name, the last if there are several.
func (v value) member(name string) (found value, ok bool) {
	if v.kind != objectKind {
		return value{}, false
	}
	raw := rawjson.Member(v.raw, name)
	return newValue(raw), raw != nil
}

// element returns an element of an array.
func (v value) element(index int) (found value, ok bool) {
	if v.kind != array {
		return value{}, false
	}
	for element := range rawjson.Elements(v.raw) {
		if index == 0 {
			return newValue(element), true
		}
		index--
	}
	return value{}, false
}

// truth is what a value counts as where a condition is wanted: all but null, false, 0 and what is empty holds.
func (v value) truth() bool {
	switch v.kind {
	case boolean:
		return v.yes
	case number:
		return compareNumbers(v.text, "0") != 0
	case text:
		if v.loose {
			return v.looseTruth()
		}
		return v.text != ""
	case array, objectKind:
		return v.length().text != "0"
	}
	return false
}

// length returns the number of characters, elements or members; of anything else null.
func (v value) length() value {
	n := 0
	switch v.kind {
	case text:
		n = utf8.RuneCountInString(v.text)
	case array:
		for range rawjson.Elements(v.raw) {
			n++
		}
	case objectKind:
		n = len(v.members())
	default:
		return value{}
	}
	return value{kind: number, text: strconv.Itoa(n)}
}

func (v value) members() map[string][]byte {
	out := map[string][]byte{}
	for quoted, member := range rawjson.Members(v.raw) {
		out[rawjson.Unquote(quoted)] = member
	}
	return out
}

// equal compares by value: numbers whatever their spelling, objects whatever their order.
func (v value) equal(w value) bool {
	v, w = agree(v, w)
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case boolean:
		return v.yes == w.yes
	case number:
		return compareNumbers(v.text, w.text) == 0
	case text:
		return v.text == w.text
	case array:
		return v.equalElements(w)
	case objectKind:
		return v.equalMembers(w)
	}
	return true
}

func (v value) equalElements(w value) bool {
	var others [][]byte
	for element := range rawjson.Elements(w.raw) {
		others = append(others, element)
	}
	i := 0
	for element := range rawjson.Elements(v.raw) {
		if i == len(others) || !newValue(element).equal(newValue(others[i])) {
			return false
		}
		i++
	}
	return i == len(others)
}

func (v value) equalMembers(w value) bool {
	mine, others := v.members(), w.members()
	if len(mine) != len(others) {
		return false
	}
	for name, raw := range mine {
		other, ok := others[name]
		if !ok || !newValue(raw).equal(newValue(other)) {
			return false
		}
	}
	return true
}

// contains reports whether a text holds another, or an array an element.
func (v value) contains(w value) bool {
	switch {
	case v.kind == text && w.kind == text:
		return strings.Contains(v.text, w.text)
	case v.kind == array:
		for element := range rawjson.Elements(v.raw) {
			if newValue(element).equal(w) {
				return true
			}
		}
	}
	return false
}
