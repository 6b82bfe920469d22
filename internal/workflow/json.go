package workflow

import (
	"encoding/json"

	"prodigy/internal/rawjson"
)

// Steps can be sent elsewhere as JSON, and are the same to the byte when they arrive. Raw JSON in them, which
// encoding/json alone would change, is a rawjson.Raw. Here are the values of variables, which need not be UTF-8.

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
