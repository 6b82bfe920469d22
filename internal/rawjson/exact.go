package rawjson

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Exact is a text whose JSON keeps every byte of it: a JSON string, or an object with base64 when the text is not UTF-8. It is for
// texts that an encoder of JSON would change: raw JSON, which it compacts and escapes, and bytes that are not UTF-8, which it replaces.
type Exact string

// notUTF8 is the JSON of an Exact that is not UTF-8.
type notUTF8 struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (e Exact) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(e)) {
		return json.Marshal(string(e))
	}
	return json.Marshal(notUTF8{[]byte(e)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Exact) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*e = Exact(text)
		return nil
	}
	var bytes notUTF8
	if err := json.Unmarshal(data, &bytes); err != nil {
		return fmt.Errorf("neither a string nor base64: %w", err)
	}
	*e = Exact(bytes.Base64)
	return nil
}

// Raw is JSON that is kept as an Exact where it is a part of other JSON.
type Raw []byte

// MarshalJSON implements json.Marshaler.
func (r Raw) MarshalJSON() ([]byte, error) { return Exact(r).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Raw) UnmarshalJSON(data []byte) error {
	var e Exact
	err := e.UnmarshalJSON(data)
	*r = Raw(e)
	return err
}
