package agent

import (
	"encoding/json"
	"strconv"

	"prodigy/internal/template"
)

// loop is the element that the steps of a foreach run for. It hides what has its names outside.
type loop struct {
	as           string
	value        json.RawMessage // nil: not known before the run
	index, total int
	outer        *loop
}

// ofLoop returns what a name stands for by the loops around s: an element by its name, from the innermost out, and the index and the
// total of the innermost. The second result tells whether it is a name of a loop, the last whether its value is known.
func (s *scope) ofLoop(root string) (v template.Value, named, known bool) {
	for l := s.loop; l != nil; l = l.outer {
		switch root {
		case l.as:
			return s.withOutput(template.JSON(l.value)), true, l.value != nil
		case "index":
			return template.Text(strconv.Itoa(l.index)), true, l.value != nil
		case "total":
			return template.Text(strconv.Itoa(l.total)), true, l.value != nil
		}
	}
	return template.Value{}, false, false
}

// withOutput adds the output of the step before to v.
func (s *scope) withOutput(v template.Value) template.Value {
	if r, ok := s.results[last]; ok {
		return v.With(map[string]template.Value{"output": template.Text(r.output)})
	}
	return v
}
