package filter

import (
	"fmt"
	"strings"
	"testing"
)

// In data that is all text, what compares a field with a number or a truth value is told with its place, and what to write instead.
func TestAFilterOfTextsIsToldWhereItWantsNumbers(t *testing.T) {
	tests := []struct {
		filter string
		want   string // of each warning "written | every or no | instead | byte of the place"
	}{
		{`age > 30`, "age > 30 | no | number(age) > 30 | 0"},
		{`age>=-30.5`, "age>=-30.5 | no | number(age) >= -30.5 | 0"},
		{`name == 'x' && (30 < item.age || age != 7)`, "30 < item.age | no | 30 < number(item.age) | 16; age != 7 | every | number(age) != 7 | 33"},
		{`active == true`, `active == true | no | active == "true" | 0`},
		{`!(zip in [1, 2])`, "zip in [1, 2] | no | number(zip) in [1, 2] | 2"},
		{`zip NOT in [1, 2]`, "zip NOT in [1, 2] | every | number(zip) NOT in [1, 2] | 0"},
		{`number(age) > 30 && age > "30" && age>other && x != null && length(name) > 3 && zip in ["1", 2] && name contains 3`, ""},
	}
	for _, test := range tests {
		f, err := Parse(test.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range f.TypedComparisons {
			got = append(got, fmt.Sprintf("%s | %s | %s | %d", n.Written, n.HoldsFor(), n.Instead, n.At))
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.filter, got, test.want)
		}
	}
}
