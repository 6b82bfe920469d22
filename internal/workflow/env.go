package workflow

import "gopkg.in/yaml.v3"

// env reads a block of variables, in the order of the file.
func (r *reader) env(e entry) []EnvVar {
	if e.value.Kind != yaml.MappingNode {
		r.wrong(e, "a mapping")
		return nil
	}
	var vars []EnvVar
	for _, v := range r.entries(e.value) {
		if !isName(v.name) {
			r.fail(v.key, "%q cannot be the name of a variable: use letters, digits and underscores", v.name)
		}
		if v.value.Kind == yaml.MappingNode && len(v.value.Content) > 0 {
			r.block("env value", v, nil)
			continue
		}
		if s, ok := r.text(v); ok {
			vars = append(vars, EnvVar{Name: v.name, Value: r.locate(v.value, s)})
		}
	}
	return vars
}
