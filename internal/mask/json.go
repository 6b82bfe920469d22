package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// JSON returns a JSON document with the secrets in its texts, keys and numbers masked; it stays valid, and its
// keys keep their order. Of a secret that is JSON itself the whole document is masked.
func (m *Masker) JSON(raw json.RawMessage) json.RawMessage {
	if m == nil || m.Text(string(raw)) == string(raw) {
		return raw
	}
	masked, err := m.document(raw)
	if err != nil || m.Text(string(masked)) != string(masked) {
		return json.RawMessage(`"` + Mark + `"`)
	}
	return masked
}

// level is an array or object that is being written.
type level struct {
	object bool
	count  int // of keys and values
}

func (m *Masker) document(raw []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out []byte
	levels := []level{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if end, ok := token.(json.Delim); ok && (end == ']' || end == '}') {
			levels = levels[:len(levels)-1]
			out = append(out, byte(end))
			continue
		}
		top := &levels[len(levels)-1]
		out = append(out, top.separator()...)
		top.count++
		switch token := token.(type) {
		case json.Delim:
			levels = append(levels, level{object: token == '{'})
			out = append(out, byte(token))
		case json.Number:
			out = append(out, m.number(token)...)
		case string:
			out = append(out, `"`+inJSON(m.Text(token))+`"`...)
		default: // true, false, null
			text, err := json.Marshal(token)
			if err != nil {
				return nil, err
			}
			out = append(out, text...)
		}
	}
}

// separator returns what stands in front of the next key or value.
func (l level) separator() string {
	switch {
	case l.count == 0:
		return ""
	case l.object && l.count%2 == 1:
		return ":"
	}
	return ","
}

func (m *Masker) number(n json.Number) string {
	if masked := m.Text(n.String()); masked != n.String() {
		return `"` + masked + `"`
	}
	return n.String()
}

// inJSON returns s as JSON writes it between quotes, in which <, > and & stay readable.
func inJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("BUG: a string has no JSON: " + err.Error())
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}
