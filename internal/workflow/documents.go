package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// Documents calls take with each document of YAML data as JSON, with its keys in order and its numbers as they are spelled where
// JSON has that spelling. One document is in memory at a time. An error of the data names its line.
func Documents(in io.Reader, take func(json.RawMessage) error) error {
	decoder := yaml.NewDecoder(in)
	for {
		var n yaml.Node
		switch err := decoder.Decode(&n); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &DataError{Message: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
		}
		data, err := documentJSON(&n)
		if err != nil {
			return err
		}
		if err := take(data); err != nil {
			return err
		}
	}
}

// documentJSON returns a document as JSON, or the first thing that is wrong with it.
func documentJSON(n *yaml.Node) (json.RawMessage, error) {
	r := newReader("", nil, ParseOptions{})
	root := n.Content[0]
	var data []byte
	if r.inspect(root) {
		data = r.json(nil, follow(root))
	}
	if len(r.problems) == 0 {
		return data, nil
	}
	first := inOrder(r.problems)[0]
	return nil, &DataError{Message: fmt.Sprintf("line %d, column %d: %s", first.Line, first.Col, first.Message)}
}

// DataError says what is wrong with YAML data, and where.
type DataError struct{ Message string }

func (e *DataError) Error() string { return e.Message }
