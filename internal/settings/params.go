package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/workflow"
)

// Given parses the parameters of a command line: files, and texts K=V that override them. The error lists all
// invalid ones.
func Given(w *workflow.Workflow, files, texts []string) ([]workflow.Argument, error) {
	values := map[string]json.RawMessage{}
	var wrong []error
	for _, name := range files {
		found, err := ofFile(w, name)
		wrong = append(wrong, err)
		maps.Copy(values, found)
	}
	for _, text := range texts {
		name, value, err := ofText(w, text)
		wrong = append(wrong, err)
		values[name] = value
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return Arguments(values), nil
}

// Arguments returns parameters in the order of their names.
func Arguments(values map[string]json.RawMessage) (args []workflow.Argument) {
	for name, value := range check.ByKey(values) {
		args = append(args, workflow.Argument{Name: name, Value: []byte(value)})
	}
	return args
}

// ofFile returns the parameters in a YAML or JSON file.
func ofFile(w *workflow.Workflow, name string) (map[string]json.RawMessage, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--param-file: %w", err)
	}
	found, err := workflow.ParameterFile(data, w.Parameters)
	if err != nil {
		return nil, fmt.Errorf("--param-file %s: %w", name, err)
	}
	return found, nil
}

// ofText returns the parameter in a text NAME=VALUE, with its value as the type of the parameter reads it.
func ofText(w *workflow.Workflow, text string) (name string, value json.RawMessage, err error) {
	name, written, found := strings.Cut(text, "=")
	if !found {
		return "", nil, fmt.Errorf("--param %s: must be NAME=VALUE", text)
	}
	p, err := workflow.ParameterNamed(w.Parameters, name)
	if err == nil {
		value, err = p.FromText(written)
	}
	if err != nil {
		return "", nil, fmt.Errorf("--param: %w", err)
	}
	return name, value, nil
}

// parameters sets the value of each parameter.
func (r *resolver) parameters() {
	given := map[string]json.RawMessage{}
	for _, p := range r.o.Params {
		given[p.Name] = json.RawMessage(p.Value)
	}
	for _, p := range r.w.Parameters {
		value := p.Default
		if v, ok := given[p.Name]; ok {
			value = v
		}
		if value == nil && p.Required && r.o.Purpose != ToCheck {
			r.fail(p.Pos, "parameter %s is required; set it with --param %s=…", p.Name, p.Name)
		}
		r.known.params[p.Name] = value
		r.out.Args = append(r.out.Args, workflow.Argument{Name: p.Name, Value: []byte(value)})
	}
}
