package filter

import (
	"fmt"
	"strings"
	"testing"
)

// In data that is all text, what compares a field with a number or a truth value is told with its place.
func TestAFilterOfTextsIsToldWhereItWantsNumbers(t *testing.T) {
	tests := []struct {
		filter string
		want   string // of each comparison "written | whether its constants are texts | byte of the place"
	}{
		{`age > 30`, "age > 30 | false | 0"},
		{`age>=-30.5`, "age>=-30.5 | false | 0"},
		{`name == 'x' && (30 < item.age || age != 7)`, "30 < item.age | false | 16"},
		{`active == true`, `active == true | false | 0`},
		{`!(zip in [1, 2])`, "zip in [1, 2] | false | 2"},
		{`zip NOT in [1, 2]`, ""},
		{`age > "30"`, `age > "30" | true | 0`},
		{`number(age) > 30 && age>other && x != null && length(name) > 3 && zip in ["1", 2] && name contains 3`, ""},
	}
	for _, test := range tests {
		f, err := Parse(test.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range f.TypedComparisons {
			got = append(got, fmt.Sprintf("%s | %t | %d", n.Written, n.OfTexts, n.At))
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.filter, got, test.want)
		}
	}
}
