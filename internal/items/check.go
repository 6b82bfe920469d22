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

// Check looks for a path, filter, order or field that does not parse. Messages hold a caret under the place. The File of a problem is
// left for the caller to fill in.
func Check(m *workflow.Map) []workflow.Problem {
	var found []workflow.Problem
	for _, x := range new(chooser).expressions(m) {
		if x.src == "" {
			continue
		}
		if err := x.parse(x.src); err != nil {
			found = append(found, workflow.Problem{Line: x.at.Line, Col: x.at.Col, Message: fmt.Sprintf("%s: %v", x.name, err)})
		}
	}
	return found
}
