package workflow

import (
	"encoding/json"

	"prodigy/internal/rawjson"
)

// Steps can be sent elsewhere as JSON, and are the same to the byte when they arrive. Here are the fields
// that encoding/json alone would change: raw JSON, and the values of variables, which may be no UTF-8.

type (
	plainText Text
	textJSON  struct {
		*plainText
		Value rawjson.Exact `json:"value"`
	}
)

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	return json.Marshal(textJSON{(*plainText)(&t), rawjson.Exact(t.Value)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	read := textJSON{plainText: (*plainText)(t)}
	err := json.Unmarshal(data, &read)
	t.Value = string(read.Value)
	return err
}

type elementJSON struct {
	Text *Text         `json:"text,omitempty"`
	JSON rawjson.Exact `json:"json,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e Element) MarshalJSON() ([]byte, error) {
	return json.Marshal(elementJSON{e.Text, rawjson.Exact(e.JSON)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Element) UnmarshalJSON(data []byte) error {
	var read elementJSON
	err := json.Unmarshal(data, &read)
	*e = Element{Text: read.Text, JSON: raw(read.JSON)}
	return err
}

type argumentJSON struct {
	Name  string        `json:"name"`
	Value rawjson.Exact `json:"value,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (a Argument) MarshalJSON() ([]byte, error) {
	return json.Marshal(argumentJSON{a.Name, rawjson.Exact(a.Value)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Argument) UnmarshalJSON(data []byte) error {
	var read argumentJSON
	err := json.Unmarshal(data, &read)
	*a = Argument{Name: read.Name, Value: raw(read.Value)}
	return err
}

// raw returns the JSON that was sent; nil if there was none.
func raw(e rawjson.Exact) json.RawMessage {
	if e == "" {
		return nil
	}
	return json.RawMessage(e)
}
