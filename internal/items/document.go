package items

import (
	"bytes"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ohler55/ojg/jp"

	"prodigy/internal/rawjson"
)

// document is a JSON value in a form on which ojg evaluates paths. Objects keep their order and are read on
// demand. Selected values keep their spelling: 1.0 does not become 1.
type document struct {
	value any

	// raws are the spellings of the numbers in value that are pointers. See number.
	raws map[unsafe.Pointer][]byte
}

// object is a JSON object for ojg. It is a struct, not a pointer, so that ojg does not look through it.
type object struct{ *members }

// members are those of an object. They are read when a path needs them: all by Keys, one by ValueForKey.
type members struct {
	document *document
	raw      []byte

	// names and values are nil until Keys was called. names are in the order of the object.
	names  []string
	values map[string]any
}

var _ jp.Keyed = object{}

// ValueForKey returns the member of that name, the last if there are several.
func (m *members) ValueForKey(key string) (any, bool) {
	if m.names != nil {
		v, ok := m.values[key]
		return v, ok
	}
	raw := rawjson.Member(m.raw, key)
	if raw == nil {
		return nil, false
	}
	return m.document.read(raw), true
}

// Keys returns each name once, in the order in which they first stand in the object. Of several members with one name
// the last is the value.
func (m *members) Keys() []string {
	if m.names != nil {
		return m.names
	}
	m.names, m.values = []string{}, map[string]any{}
	for quoted, value := range rawjson.Members(m.raw) {
		name := rawjson.Unquote(quoted)
		if _, twice := m.values[name]; !twice {
			m.names = append(m.names, name)
		}
		m.values[name] = m.document.read(value)
	}
	return m.names
}

func (m *members) SetValueForKey(string, any) { panic("BUG: a path changes the document") }

func (m *members) RemoveValueForKey(string) { panic("BUG: a path changes the document") }

// load reads a valid JSON value.
func load(raw []byte) *document {
	d := &document{}
	d.value = d.read(bytes.TrimSpace(raw))
	return d
}

func (d *document) read(raw []byte) any {
	switch raw[0] {
	case '{':
		return object{&members{document: d, raw: raw}}
	case '[':
		out := []any{}
		for element := range rawjson.Elements(raw) {
			out = append(out, d.read(element))
		}
		return out
	case '"':
		return rawjson.Unquote(raw)
	case 't', 'f':
		return raw[0] == 't'
	case 'n':
		return nil
	}
	return d.number(string(raw))
}

// number returns a number that ojg can compare. One that Go would spell differently is a pointer, which is
// the key to its spelling.
func (d *document) number(spelled string) any {
	if n, err := strconv.ParseInt(spelled, 10, 64); err == nil && strconv.FormatInt(n, 10) == spelled {
		return n
	}
	f, _ := strconv.ParseFloat(spelled, 64) // out of range is infinity, which compares correctly
	if string(appendFloat(nil, f)) == spelled {
		return f
	}
	p := &f
	if d.raws == nil {
		d.raws = map[unsafe.Pointer][]byte{}
	}
	d.raws[unsafe.Pointer(p)] = []byte(spelled)
	return p
}

func appendFloat(b []byte, f float64) []byte { return strconv.AppendFloat(b, f, 'f', -1, 64) }

// appendJSON appends a value of the document as JSON. The types are those that read makes.
func (d *document) appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case *float64:
		return append(b, d.raws[unsafe.Pointer(v)]...)
	case string:
		b, _ = jsontext.AppendQuote(b, v) // valid UTF-8: it was read as JSON
		return b
	case object:
		return append(b, v.raw...)
	case []any:
		return d.appendArray(b, v)
	}
	panic(fmt.Sprintf("BUG: a path selected a %T", v))
}

func (d *document) appendArray(b []byte, list []any) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = d.appendJSON(b, v)
	}
	return append(b, ']')
}
