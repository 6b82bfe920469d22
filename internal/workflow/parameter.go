package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/rawjson"
	"prodigy/internal/shell"
)

// params reads the parameters, a mapping by name.
func (r *reader) params(e entry) []Parameter {
	var all []Parameter
	for _, p := range r.namedEntries(e) {
		r.checkName(entry{name: "parameter", value: resolveAlias(p.key)}, p.name, shell.IsName,
			"letters, digits and underscores")
		all = append(all, r.parameter(p))
	}
	return all
}

func (r *reader) parameter(e entry) Parameter {
	p := Parameter{Name: e.name, Pos: posOf(e.value)}
	if e.value.Kind == yaml.SequenceNode { // the older tool had lists of required and optional ones
		r.fail(e.value, "%s must be a mapping, got a list (as in name: {required: true})", e.name)
		return p
	}
	var value *yaml.Node
	keys := r.fields(&p)
	keys.read("default", func(e entry) { value = e.value })
	b := r.block("parameter", e, keys)
	if b == nil {
		return p
	}
	r.refuse(b, "required", p.Required && value != nil, `"required" and "default" cannot be used together`)
	if p.Type == "" && !b.has("type") {
		p.Type = typeOf(value)
	}
	if value == nil || p.Type == "" {
		return p
	}
	var err error
	if p.Default, err = p.typed(value); err != nil {
		r.fail(value, "default: %v", err)
	}
	return p
}

// typeOf returns the type of a parameter that has only a default value, n, or none if n is nil.
func typeOf(n *yaml.Node) ParameterType {
	switch {
	case n == nil:
		return StringParameter
	case n.Kind == yaml.SequenceNode:
		return ArrayParameter
	case n.Kind == yaml.MappingNode:
		return ObjectParameter
	case n.Tag == "!!bool":
		return BooleanParameter
	case n.Tag == "!!int":
		return IntegerParameter
	case n.Tag == "!!float":
		return NumberParameter
	}
	return StringParameter
}

// typed returns n as a JSON value of the parameter's type.
func (p Parameter) typed(n *yaml.Node) (json.RawMessage, error) {
	n = resolveAlias(n)
	if p.Type == StringParameter && isScalar(n) {
		return jsonText(nil, n.Value), nil
	}
	r := &reader{}
	value, ok := p.fromJSON(r.json(nil, n))
	switch {
	case len(r.problems) > 0:
		return nil, fmt.Errorf("parameter %s: %s", p.Name, r.problems[0].Message)
	case !ok:
		return nil, fmt.Errorf("parameter %s must be %s, got %s", p.Name, withArticle(p.Type), describe(n))
	}
	return value, nil
}

func withArticle(t ParameterType) string {
	if strings.ContainsRune("aeiou", rune(t[0])) {
		return "an " + string(t)
	}
	return "a " + string(t)
}

// FromText parses the value of a parameter from a command line. A string is taken as it is, all other types as JSON.
func (p Parameter) FromText(text string) (json.RawMessage, error) {
	if p.Type == StringParameter {
		return jsonText(nil, text), nil
	}
	if value, ok := p.fromJSON([]byte(text)); ok {
		return value, nil
	}
	how := ""
	if p.Type == ArrayParameter || p.Type == ObjectParameter {
		how = " in JSON"
	}
	return nil, fmt.Errorf("parameter %s must be %s%s, got %q", p.Name, withArticle(p.Type), how, shorten(text))
}

var wholeNumber = check.Regexp(`^-?[0-9]+$`)

// fromJSON returns raw, compacted, if it has the parameter's type. A number or a boolean is converted to a
// string where one is wanted.
func (p Parameter) fromJSON(raw []byte) (json.RawMessage, bool) {
	if !rawjson.Valid(raw) {
		return nil, false
	}
	value := bytes.TrimSpace(rawjson.Compact(new([]byte), raw))
	switch p.Type {
	case StringParameter:
		if strings.ContainsRune(`[{n`, rune(value[0])) {
			return nil, false
		}
		if value[0] != '"' {
			value = jsonText(nil, string(value))
		}
		return value, true
	case IntegerParameter:
		return value, wholeNumber().Match(value)
	}
	return value, strings.IndexByte(firstBytes[p.Type], value[0]) >= 0
}

// firstBytes are those that the JSON of a type of parameters begins with.
var firstBytes = map[ParameterType]string{
	NumberParameter: "-0123456789", BooleanParameter: "tf", ArrayParameter: "[", ObjectParameter: "{",
}

// ParameterFile parses a file of parameter values, a mapping in YAML or JSON. params are the parameters of
// the workflow.
func ParameterFile(data []byte, params []Parameter) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if rawjson.Valid(data) && json.Unmarshal(data, &fields) == nil { // JSON has escapes that YAML reads otherwise
		return jsonParameters(fields, params)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("not valid YAML or JSON: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return map[string]json.RawMessage{}, nil
	}
	root := resolveAlias(doc.Content[0])
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("must be a mapping of names to values, got %s", describe(root))
	}
	given := map[string]json.RawMessage{}
	for key, value := range Pairs(root) {
		p, err := ParameterNamed(params, key.Value)
		if err == nil {
			given[p.Name], err = p.typed(value)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	return given, nil
}

func jsonParameters(fields map[string]json.RawMessage, params []Parameter) (map[string]json.RawMessage, error) {
	given := map[string]json.RawMessage{}
	for name, field := range check.ByKey(fields) {
		p, err := ParameterNamed(params, name)
		if err != nil {
			return nil, err
		}
		value, ok := p.fromJSON(field)
		if !ok {
			return nil, fmt.Errorf("parameter %s must be %s, got %s", name, withArticle(p.Type),
				shorten(string(field)))
		}
		given[name] = value
	}
	return given, nil
}

// ParameterNamed returns the parameter with that name. The error suggests the nearest one.
func ParameterNamed(params []Parameter, name string) (Parameter, error) {
	return oneNamed("parameter", name, params, func(p Parameter) string { return p.Name })
}

// oneNamed returns the one of its kind with that name. The error suggests the nearest one.
func oneNamed[T any](kind, name string, all []T, nameOf func(T) string) (one T, err error) {
	known := check.Each(all, nameOf)
	switch i := slices.Index(known, name); {
	case i >= 0:
		return all[i], nil
	case len(all) == 0:
		return one, fmt.Errorf("unknown %[1]s %[2]q: the workflow has no %[1]ss", kind, name)
	}
	return one, fmt.Errorf("unknown %s %q%s", kind, name, hint(name, known))
}
