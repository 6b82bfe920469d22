package items

import (
	"fmt"

	"prodigy/internal/workflow"
)

// CheckInput looks for a missing input file. The File of a problem is left for the caller to fill in.
func CheckInput(m *workflow.Map, e Env) []workflow.Problem {
	if _, err := resolve(m.Input, e.Dir); err != nil {
		return []workflow.Problem{{Line: m.Input.Pos.Line, Col: m.Input.Pos.Col, Message: err.Error()}}
	}
	return nil
}

// Check looks for a path or filter that does not parse. Messages hold a caret under the place. The File of a problem is left for
// the caller to fill in.
func Check(m *workflow.Map) []workflow.Problem {
	var found []workflow.Problem
	add := func(at workflow.Pos, message string) {
		found = append(found, workflow.Problem{Line: at.Line, Col: at.Col, Message: message})
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
