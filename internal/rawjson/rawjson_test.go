package rawjson

import (
	"strings"
	"testing"

	"prodigy/internal/testenv"
)

func TestValidAcceptsWhatTheSuiteSays(t *testing.T) {
	for _, c := range testenv.JSONCases(t) {
		if got := Valid([]byte(c.JSON)); got != c.Valid {
			t.Errorf("%s: %.60q: got valid %t, want %t", c.Name, c.JSON, got, c.Valid)
		}
	}
}

func TestValuesNestNoFurtherThanRecordsCanHold(t *testing.T) {
	for _, c := range []struct {
		json string
		want bool
	}{
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), true},
		{strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), false},
		{strings.Repeat(`{"[":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth), true},
		{`["` + strings.Repeat(`[\"`, 3*MaxDepth) + `"]`, true},
		{"[" + strings.Repeat("[],", 3*MaxDepth) + "[]]", true},
		{strings.Repeat("[", 9_900) + strings.Repeat("]", 9_900), false},
	} {
		if got := Valid([]byte(c.json)); got != c.want {
			t.Errorf("%.20q of %d bytes: got valid %t, want %t", c.json, len(c.json), got, c.want)
		}
	}
}
