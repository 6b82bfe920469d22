package agent

import (
	"strings"
	"testing"

	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

func TestCapturedJSONIsWhatTheSuiteSays(t *testing.T) {
	for _, c := range testenv.JSONCases(t) {
		data, err := formatted(workflow.FormatJSON, c.JSON, false)
		if (err == nil) != c.Valid {
			t.Errorf("%s: %.60q: got %v, want valid %t", c.Name, c.JSON, err, c.Valid)
		}
		if c.Valid && string(data) != strings.TrimSpace(c.JSON) {
			t.Errorf("%s: got %.60q, want %.60q", c.Name, data, c.JSON)
		}
		_, isNumber := formatted(workflow.FormatNumber, strings.Trim(c.JSON, "[] "), false)
		if valid := c.Valid && strings.Contains(c.Name, "_number_"); valid && isNumber != nil {
			t.Errorf("%s: %.60q is not a number: %v", c.Name, c.JSON, isNumber)
		}
	}
	for _, text := range []string{"-.5", "007", "1.", "0x1", "Infinity", "\"\xff\""} {
		if _, err := formatted(workflow.FormatNumber, text, false); err == nil {
			t.Errorf("%q is taken for a number", text)
		}
	}
}

// A line of what a foreach goes over is a value only when it is JSON, and text otherwise; an array gives its elements.
func TestListedElementsAreWhatTheSuiteSays(t *testing.T) {
	for _, c := range testenv.JSONCases(t) {
		if strings.Contains(c.JSON, "\n") || strings.HasPrefix(strings.TrimSpace(c.JSON), "[") || strings.TrimSpace(c.JSON) == "" {
			continue
		}
		elements := elementsOf(c.JSON)
		if len(elements) != 1 || (string(elements[0]) == c.JSON) != c.Valid {
			t.Errorf("%s: %.60q: got %.60q, want it as it is %t", c.Name, c.JSON, elements, c.Valid)
		}
	}
}
