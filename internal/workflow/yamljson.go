package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/rawjson"
)

// items reads a list of items written in the workflow itself, each as JSON with its keys in the order of the file.
func (r *reader) items(e entry) []json.RawMessage {
	all := make([]json.RawMessage, 0, len(e.value.Content))
	for _, n := range e.value.Content {
		all = append(all, r.json(nil, resolveAlias(n)))
	}
	return all
}

// json appends n to b as JSON.
func (r *reader) json(b []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		for i, e := range r.entries(n) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(jsonText(b, e.name), ':')
			b = r.json(b, e.value)
		}
		return append(b, '}')
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, element := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.json(b, resolveAlias(element))
		}
		return append(b, ']')
	}
	switch n.Tag {
	case "!!null":
		return append(b, "null"...)
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err == nil {
			return strconv.AppendBool(b, v)
		}
	case "!!int", "!!float":
		if number, ok := jsonNumber(n); ok {
			return append(b, number...)
		}
		r.fail(n, "%s is not a JSON number: quote it", n.Value)
		return append(b, "null"...)
	}
	return jsonText(b, n.Value)
}

// jsonNumber returns a number as it is written if that is valid JSON, else converted. It returns false if
// JSON has no such number.
func jsonNumber(n *yaml.Node) (string, bool) {
	if rawjson.Valid([]byte(n.Value)) {
		return n.Value, true
	}
	var whole int64
	if n.Tag == "!!int" && n.Decode(&whole) == nil {
		return strconv.FormatInt(whole, 10), true
	}
	var f float64
	if n.Decode(&f) != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}

// jsonText appends s to b as a JSON string, without escaping <, > and &.
func jsonText(b []byte, s string) []byte {
	return append(b, rawjson.Of(s)...)
}

// Documents calls take with each document of YAML data as JSON. Keys keep their order, and numbers their
// spelling where JSON allows it. One document is in memory at a time. An error of the data is a *DataError.
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
		r := &reader{}
		var data json.RawMessage
		if root := n.Content[0]; r.inspect(root) {
			data = r.json(nil, resolveAlias(root))
		}
		if len(r.problems) > 0 {
			first := sortProblems(r.problems)[0]
			return &DataError{Message: fmt.Sprintf("line %d, column %d: %s", first.Line, first.Col, first.Message)}
		}
		if err := take(data); err != nil {
			return err
		}
	}
}

// DataError is a mistake in YAML data. Its message names the line.
type DataError struct{ Message string }

func (e *DataError) Error() string { return e.Message }
