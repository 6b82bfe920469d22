package agent

import (
	"encoding/json"

	"prodigy/internal/rawjson"
)

// An Attempt and its Outcome can be sent elsewhere as JSON, and are the same to the byte when they arrive. Here are the fields that
// encoding/json alone would change: raw JSON, and what commands print, which may be no UTF-8.

type (
	plainAttempt Attempt
	attemptJSON  struct {
		*plainAttempt
		Item rawjson.Exact `json:"item,omitempty"`
	}
)

// MarshalJSON implements json.Marshaler.
func (a Attempt) MarshalJSON() ([]byte, error) {
	return json.Marshal(attemptJSON{(*plainAttempt)(&a), rawjson.Exact(a.Item)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Attempt) UnmarshalJSON(data []byte) error {
	read := attemptJSON{plainAttempt: (*plainAttempt)(a)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	a.Item = rawOf(read.Item)
	return nil
}

type (
	plainOutcome Outcome
	outcomeJSON  struct {
		*plainOutcome
		Output   rawjson.Exact            `json:"output"`
		Captured map[string]rawjson.Exact `json:"captured,omitempty"`
	}
)

// MarshalJSON implements json.Marshaler.
func (o Outcome) MarshalJSON() ([]byte, error) {
	w := outcomeJSON{plainOutcome: (*plainOutcome)(&o), Output: rawjson.Exact(o.Output)}
	for name, value := range o.Captured {
		if w.Captured == nil {
			w.Captured = make(map[string]rawjson.Exact, len(o.Captured))
		}
		w.Captured[name] = rawjson.Exact(value)
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Outcome) UnmarshalJSON(data []byte) error {
	read := outcomeJSON{plainOutcome: (*plainOutcome)(o)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	o.Output, o.Captured = string(read.Output), nil
	for name, value := range read.Captured {
		if o.Captured == nil {
			o.Captured = make(map[string]json.RawMessage, len(read.Captured))
		}
		o.Captured[name] = rawOf(value)
	}
	return nil
}

type (
	plainFailure Failure
	failureJSON  struct {
		*plainFailure
		Message rawjson.Exact `json:"message"`
		Stdout  rawjson.Exact `json:"stdout,omitempty"`
		Stderr  rawjson.Exact `json:"stderr,omitempty"`
	}
)

// MarshalJSON implements json.Marshaler.
func (f Failure) MarshalJSON() ([]byte, error) {
	return json.Marshal(failureJSON{(*plainFailure)(&f), rawjson.Exact(f.Message), rawjson.Exact(f.Stdout), rawjson.Exact(f.Stderr)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Failure) UnmarshalJSON(data []byte) error {
	read := failureJSON{plainFailure: (*plainFailure)(f)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	f.Message, f.Stdout, f.Stderr = string(read.Message), string(read.Stdout), string(read.Stderr)
	return nil
}

// rawOf returns raw JSON that was sent; nil when there was none.
func rawOf(e rawjson.Exact) json.RawMessage {
	if e == "" {
		return nil
	}
	return json.RawMessage(e)
}
