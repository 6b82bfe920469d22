package template

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestNamesAreNotChangedByWhatIsAddedToThem(t *testing.T) {
	var n Names
	var before []Names
	for i := range 100 {
		before = append(before, n)
		_ = n.With("branch"+strconv.Itoa(i), Name{Root: true}).Packed()
		n = n.With("n"+strconv.Itoa(i), Name{Declared: true}).Packed()
	}
	for i, at := range before {
		if got := len(at.all()); got != i {
			t.Errorf("got %d names %v, want the first %d", got, at.all(), i)
		}
	}
	frames := 0
	for f := n.top; f != nil; f = f.below {
		frames++
	}
	if frames > 8 {
		t.Errorf("got %d frames for 100 names, want no more than 8", frames)
	}
}

func TestANameCanBeTwoThings(t *testing.T) {
	fields := []string{"output"}
	n := Names{}.With("a", Name{Declared: true}).With("a", Name{Root: true, Data: true, Fields: fields})
	n = n.With("b", Name{Root: true, Fields: fields}).With("b", Name{Declared: true, Root: true, Fields: fields})
	a, _ := n.Lookup("a")
	b, _ := n.Lookup("b")
	if !a.Root || !a.Declared || !a.Data || a.Fields != nil || !b.Root || !b.Declared || !slices.Equal(b.Fields, fields) {
		t.Errorf("got %+v and %+v, want both to be roots and declared, and b to keep its fields", a, b)
	}
}

func TestFieldsThatARootDoesNotHaveAreTold(t *testing.T) {
	n := Names{}.With("map", Name{Root: true, Fields: []string{"total", "failed"}}).With("doc", Name{Root: true, Declared: true})
	tests := []struct{ text, want string }{
		{"x ${map.totl}", "1:3: PS004 unknown value ${map.totl} (did you mean ${map.total}?)"},
		{"x '${map.results_of_all|json:-y}'", "1:4: PS004 unknown value ${map.results_of_all|json:-y} (map has total, failed)"},
		{"x ${map.total} ${map[0]:-x} ${doc.any.thing} $${map.totl}", ""},
	}
	for _, test := range tests {
		for name, compile := range map[string]func() error{
			"shell": func() error { _, err := Compile(test.text, Options{Names: n}); return err },
			"plain": func() error { _, err := CompilePlain(strings.ReplaceAll(test.text, "'", " "), n); return err },
		} {
			if err := compile(); err == nil && test.want != "" || err != nil && err.Error() != test.want {
				t.Errorf("%s: %s: got %v, want %s", name, test.text, err, test.want)
			}
		}
	}
}

// A text that no shell reads would hand ${itm} on as it stands.
func TestBareNamesThatLookLikeOnesOfProdigyAreRefusedInPlainText(t *testing.T) {
	n := Names{}.With("map", Name{Root: true}).With("summary", Name{Root: true, Declared: true})
	tests := []struct{ text, want string }{
		{"sum ${item}", "1:5: PS004 ${item} is known only in agent_template, handlers and foreach; $${item} stands for this very text"},
		{"${sumary} x", "1:1: PS004 ${sumary} is no value of prodigy (did you mean ${summary}?); $${sumary} stands for this very text"},
		{"${SUMARY} ${HOME} ${mp} ${other} ${error:-x} $item", ""},
	}
	for _, test := range tests {
		if _, err := CompilePlain(test.text, n); err == nil && test.want != "" || err != nil && err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
	if _, err := CompilePlain("a $${item} of ${map} $${other} $$${item}", n.With("x", Name{})); err == nil {
		t.Errorf("$$${item}: got no error, want one for its last part, since $$ is a dollar")
	}
	p, err := CompilePlain("a $${item} ${map}, $${other}", n)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Render(values{}); got != "a ${item} ${map}, $${other}" {
		t.Errorf("got %q, want the text of ${item} without a dollar", got)
	}
}
