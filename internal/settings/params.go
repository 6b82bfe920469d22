package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"prodigy/internal/workflow"
)

// Given reads parameters as a command line gives them: files of them, and texts K=V, which go before the files.
func Given(w *workflow.Workflow, files, texts []string) ([]workflow.Argument, error) {
	values := map[string]json.RawMessage{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--param-file: %w", err)
		}
		found, err := workflow.ParameterFile(data, w.Parameters)
		if err != nil {
			return nil, fmt.Errorf("--param-file %s: %w", name, err)
		}
		maps.Copy(values, found)
	}
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return nil, fmt.Errorf("--param %s: want NAME=VALUE", text)
		}
		p, err := workflow.ParameterNamed(w.Parameters, name)
		if err != nil {
			return nil, fmt.Errorf("--param: %w", err)
		}
		if values[name], err = p.FromText(value); err != nil {
			return nil, fmt.Errorf("--param: %w", err)
		}
	}
	var given []workflow.Argument
	for _, name := range slices.Sorted(maps.Keys(values)) {
		given = append(given, workflow.Argument{Name: name, Value: values[name]})
	}
	return given, nil
}

// parameters gives each parameter its value.
func (r *resolver) parameters() {
	given := map[string]json.RawMessage{}
	for _, p := range r.o.Params {
		given[p.Name] = p.Value
	}
	for _, p := range r.w.Parameters {
		value := p.Default
		if v, ok := given[p.Name]; ok {
			value = v
		}
		if value == nil && p.Required && r.o.Purpose != ToCheck {
			r.fail(p.Pos, "parameter %s is required: give it with --param %s=…", p.Name, p.Name)
		}
		r.known.params[p.Name] = value
		r.out.Args = append(r.out.Args, workflow.Argument{Name: p.Name, Value: value})
	}
}
