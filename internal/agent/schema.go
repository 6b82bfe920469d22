package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"prodigy/internal/ai"
	"prodigy/internal/rawjson"
)

// compileSchema reads a JSON Schema, without fetching anything.
func compileSchema(data []byte) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	return s.Resolve(nil)
}

// answerOf returns the answer of a CLI as JSON, if it fits the schema: what the CLI gives as JSON, else its
// text, or the last code block in it.
func answerOf(v ai.Verdict, output, schema string) (json.RawMessage, error) {
	answer := []byte(v.JSON)
	if answer == nil {
		text := v.Text
		if v.Whole {
			text = output
		}
		if answer = jsonIn(text); answer == nil {
			return nil, errors.New("the answer is not JSON, as required by the schema")
		}
	}
	compiled, err := compileSchema([]byte(schema))
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		return nil, err
	}
	if err := compiled.Validate(value); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("the answer does not fit the schema: %s", line)
	}
	return answer, nil
}

// jsonIn returns the JSON that a text is, or that its last code block is.
func jsonIn(text string) []byte {
	text = strings.TrimSpace(text)
	if rawjson.Valid([]byte(text)) {
		return []byte(text)
	}
	const fence = "```"
	end := strings.LastIndex(text, fence)
	if end < 0 {
		return nil
	}
	begin := strings.LastIndex(text[:end], fence)
	if begin < 0 {
		return nil
	}
	_, block, _ := strings.Cut(text[begin:end], "\n")
	if block = strings.TrimSpace(block); rawjson.Valid([]byte(block)) {
		return []byte(block)
	}
	return nil
}
