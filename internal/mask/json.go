package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
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

func (m *Masker) document(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	as := jsontext.AllowDuplicateNames(true) // masked keys may be the same
	d := jsontext.NewDecoder(bytes.NewReader(raw), as, jsontext.AllowInvalidUTF8(true))
	e := jsontext.NewEncoder(&out, as, jsontext.AllowInvalidUTF8(true), jsontext.EscapeForJS(true))
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
		}
		if err != nil {
			return nil, err
		}
		kind, text := token.Kind(), token.String()
		if masked := m.Text(text); kind == '"' || kind == '0' && masked != text {
			token = jsontext.String(masked)
		}
		if err := e.WriteToken(token); err != nil {
			return nil, err
		}
	}
}
