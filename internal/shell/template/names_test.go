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
		_ = n.With("branch"+strconv.Itoa(i), Name{Root: true})
		n = n.With("n"+strconv.Itoa(i), Name{Declared: true})
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
		{"sum ${item}", "1:5: PS004 unknown value ${item}: item is known in agent_template, handlers and foreach only; use $${item} for the literal text"},
		{"${sumary} x", "1:1: PS004 unknown value ${sumary} (did you mean ${summary}?); use $${sumary} for the literal text"},
		{"set ${HOME}", "1:5: PS004 unknown value ${HOME}: no shell expands this text, so use ${env.HOME} for the environment variable; use $${HOME} for the literal text"},
		{"${other}", "1:1: PS004 unknown value ${other} (known: map, summary); use $${other} for the literal text"},
		{"${other:-x}", "1:1: PS004 unknown value ${other:-x} (known: map, summary); use $${other:-x} for the literal text"},
		{"${merge.x}", "1:1: PS004 unknown value ${merge.x}: merge is known with `workspace: git` at the root of the file; use $${merge.x} for the literal text"},
		{"on ${date:%F}", "1:4: PS004 unknown value ${date:%F}: take it from the output of an earlier step, with `capture: name` and ${name}; use $${date:%F} for the literal text"},
		{"$${SUMARY} ${summary}.md $HOME $5 ${1} $(ls) $map.x ${{ x }} ${x%y}", ""},
	}
	for _, test := range tests {
		if _, err := CompilePlain(test.text, n); err == nil && test.want != "" || err != nil && err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
	if _, err := CompilePlain("a $${item} of ${map} $${other} $$${item}", n.With("x", Name{})); err == nil {
		t.Errorf("$$${item}: got no error, want one for its last part, since $$ is a dollar")
	}
	for text, want := range map[string]string{
		"a $${item} ${map}, $${other}":          "a ${item} ${map}, ${other}",
		"$$5 $5 $$$5 $$summary $${a.b} $$$${x}": "$5 $5 $$5 $summary ${a.b} $${x}",
		"$${cmd:ls} $${other:-x}":               "${cmd:ls} ${other:-x}",
	} {
		p, err := CompilePlain(text, n)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Render(values{}); got != want {
			t.Errorf("%s: got %q, want %q: a doubled dollar is one", text, got, want)
		}
	}
}

// A text that is bound before all names are known keeps those that it does not know.
func TestEarlyTextKeepsUnknownNames(t *testing.T) {
	n := Names{}.With("summary", Name{Root: true, Declared: true})
	const text = "${dir}/${a.b} $$5 ${HOME}"
	p, err := CompileEarly(text, n)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Render(values{}); got != text {
		t.Errorf("got %q, want it as it is", got)
	}
	if _, err := CompileEarly("${sumary}", n); err == nil {
		t.Error("got no error for a mistyped name")
	}
}

// $item.path is the item and then a text, which nobody means.
func TestPathsBehindShortNames(t *testing.T) {
	n := Names{}.With("item", Name{Root: true, Declared: true, Data: true}).With("out", Name{Root: true, Declared: true, Data: true, Fields: []string{"output"}}).
		With("map", Name{Root: true, Fields: []string{"total"}}).With("parameter", Name{Root: true, Declared: true}).With("text", Name{Root: true, Declared: true, Text: true, Fields: []string{"output"}})
	tests := map[string]string{
		"p $item.path":                        "PS120 $item.path expands $item and then \".path\"; use ${item.path} (or ${item}.path)",
		`p "a $item.path"`:                    "PS120 $item.path",
		"p $out.output":                       "PS120 $out.output",
		"echo $map.total":                     "PS120 $map.total expands $map and then \".total\"; use ${map.total}",
		"p $out.txt $text.txt $parameter.txt": "",
		"for item in a; do p $item.txt; done": "", "map=1; echo $map.total": "", "echo '$map.total' ${item}.txt $item. $map.x": "",
	}
	for text, want := range tests {
		tmpl, err := Compile(text, Options{Names: n})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			for _, d := range tmpl.Diags {
				got += d.String()
			}
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	plain, err := CompilePlain("read $item.path, $out.txt and $parameter.txt", n)
	if err != nil || len(plain.Diags) != 1 || !strings.HasPrefix(plain.Diags[0].String(), "1:6: PS120 $item.path") {
		t.Errorf("got %v (%v), want a warning of the item", plain.Diags, err)
	}
}
