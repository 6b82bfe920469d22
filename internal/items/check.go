package items

import (
	"fmt"

	"prodigy/internal/workflow"
)

// Check looks for what can be known to be wrong before anything runs: a missing input file, a path or filter that does not parse.
// Messages about a path or filter hold a caret under the place. The File of a problem is left for the caller to fill in.
func Check(m *workflow.Map, e Env) []workflow.Problem {
	var found []workflow.Problem
	add := func(at workflow.Pos, message string) {
		found = append(found, workflow.Problem{Line: at.Line, Col: at.Col, Message: message})
	}
	if _, err := resolve(m.Input, e.Dir); err != nil {
		add(m.Input.Pos, err.Error())
	}
	if _, err := parsePath(m.JSONPath); err != nil {
		add(m.JSONPathPos, fmt.Sprintf("json_path: %v", err))
	}
	if m.Filter == "" {
		return found
	}
	if _, err := ParseFilter(m.Filter); err != nil {
		add(m.FilterPos, fmt.Sprintf("filter: %v", err))
	}
	return found
}
