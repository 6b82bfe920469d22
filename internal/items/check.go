package items

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"prodigy/internal/workflow"
)

// CheckInput looks for a missing input file. The File of a problem is left for the caller to fill in.
func CheckInput(m *workflow.Map, e Env) []workflow.Problem {
	if _, err := resolve(m.Input, e); err != nil && !errors.Is(err, ErrLater) {
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
		if err := cmp.Or(unfilled(x.src), x.parse(x.src)); err != nil {
			found = append(found, workflow.Problem{Line: x.at.Line, Col: x.at.Col, Message: fmt.Sprintf("%s: %v", x.name, err)})
		}
	}
	return found
}

// unfilled is the error of an expression with a placeholder, which nothing would replace.
func unfilled(src string) error {
	if !strings.Contains(src, "${") {
		return nil
	}
	for _, at := range placeholder().FindAllString(src, -1) {
		name, ok := strings.CutPrefix(at, "${")
		switch {
		case !ok:
		case strings.HasPrefix(name, "item"):
			return fmt.Errorf("%s means nothing here: a field is written item.name", at)
		default:
			return fmt.Errorf("%s would not be replaced, since this is about items alone: choose by a value in an input command, "+
				`which has parameters in its environment, as in input: {command: 'jq --arg team "$team" … items.json'}`, at)
		}
	}
	return nil
}
