package settings

import (
	"encoding/json"
	"slices"
	"strings"

	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// scope holds the values that are known before the job starts.
type scope struct {
	workflow  string
	inherited map[string]string
	// names are those of variables, in their order.
	names []string
	// values has the variables whose value is known.
	values map[string]string
	// params has a nil value for a parameter that is declared and not given.
	params map[string]json.RawMessage
}

var _ template.Resolver = scope{}

// newScope returns a scope with only the inherited variables.
func newScope(name string, environ []string) scope {
	s := scope{
		workflow: name, inherited: make(map[string]string, len(environ)), values: map[string]string{},
		params: map[string]json.RawMessage{},
	}
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		s.inherited[key] = value
	}
	return s
}

// set adds a variable with its value.
func (s *scope) set(name, value string) {
	s.unknown(name)
	s.values[name] = value
}

// unknown adds a variable without a value.
func (s *scope) unknown(name string) {
	if !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	delete(s.values, name)
}

// environ returns the environment of commands.
func (s scope) environ(inherited []string) []string {
	all := slices.Clone(inherited)
	for _, name := range s.names {
		if value, ok := s.values[name]; ok {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// template returns the names that texts can use, including those that get their values after the job has started.
func (s scope) template() template.Names { return s.with(workflow.BuiltinNames()) }

// with returns the names of variables and parameters, and these roots.
func (s scope) with(roots []string) template.Names {
	var n template.Names
	for _, name := range roots {
		n = n.With(name, template.Name{Root: true, Declared: true})
	}
	for _, name := range s.names {
		n = n.With(name, template.Name{Declared: true})
	}
	for name := range s.params {
		n = n.With(name, template.Name{Root: true, Declared: true})
	}
	return n
}

// Resolve implements template.Resolver.
func (s scope) Resolve(root string) (template.Value, bool) {
	if raw, ok := s.params[root]; ok {
		return template.JSON(raw), raw != nil
	}
	switch root {
	case "env": // all variables are its fields
		fields := map[string]template.Value{}
		for _, values := range []map[string]string{s.inherited, s.values} {
			for name, value := range values {
				fields[name] = template.Text(value)
			}
		}
		return template.Value{}.With(fields), true
	case "workflow":
		return template.Text("").With(map[string]template.Value{"name": template.Text(s.workflow)}), true
	}
	value, ok := s.values[root]
	return template.Text(value), ok
}
