package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"gopkg.in/yaml.v3"

	"prodigy/internal/rawjson"
)

// items reads a list of items written in the workflow itself, each as JSON with its keys in the order of the file.
func (r *reader) items(e entry) []json.RawMessage {
	all := make([]json.RawMessage, 0, len(e.value.Content))
	for _, n := range e.value.Content {
		all = append(all, r.json(nil, follow(n)))
	}
	return all
}

// json appends n as JSON to b.
func (r *reader) json(b []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		return r.jsonObject(b, n)
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, element := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.json(b, follow(element))
		}
		return append(b, ']')
	}
	return r.jsonScalar(b, n)
}

func (r *reader) jsonObject(b []byte, n *yaml.Node) []byte {
	b = append(b, '{')
	for i, e := range r.entries(n) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonText(b, e.name), ':')
		b = r.json(b, e.value)
	}
	return append(b, '}')
}

func (r *reader) jsonScalar(b []byte, n *yaml.Node) []byte {
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
		r.fail(n, "%s is not a number of JSON: put it in quotes", n.Value)
		return append(b, "null"...)
	}
	return jsonText(b, n.Value)
}

// jsonNumber returns a number in its own spelling where JSON has that one, else in the nearest that it has.
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

// jsonText appends s as a JSON text, in which <, > and & stay as they are.
func jsonText(b []byte, s string) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic(fmt.Sprintf("BUG: a text has no JSON: %v", err))
	}
	return append(b, bytes.TrimRight(buf.Bytes(), "\n")...)
}
