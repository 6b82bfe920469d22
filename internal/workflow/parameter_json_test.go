package workflow

import (
	"testing"

	"prodigy/internal/testenv"
)

func TestParametersInJSONAreWhatTheSuiteSays(t *testing.T) {
	for _, c := range testenv.JSONCases(t) {
		accepted := false
		for _, kind := range []ParameterType{StringParameter, NumberParameter, BooleanParameter, ArrayParameter, ObjectParameter} {
			_, ok := Parameter{Name: "p", Type: kind}.fromJSON([]byte(c.JSON))
			accepted = accepted || ok
		}
		if null := c.Name == "y_structure_lonely_null"; accepted != c.Valid && !null {
			t.Errorf("%s: %.60q: got accepted %t, want %t", c.Name, c.JSON, accepted, c.Valid)
		}
	}
}
