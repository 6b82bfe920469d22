package taint

import (
	"slices"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// What a script with placeholders is found to do is held in the tests of internal/template. Here is what Check makes of its sources.
func TestFindingsNameTheirSource(t *testing.T) {
	both := []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX}
	x := Source{Variable: "x", Offset: 7, Written: "${item.v}", Placeholder: true}
	for _, c := range []struct {
		script  string
		source  Source
		want    []string // codes
		warning bool
	}{
		{script: `eval "$x"`, source: x, want: []string{codeReaches}},
		{script: `echo "$x"`, source: x},
		{script: `y=a; t && y=$x; t && y=b; eval "$y"`, source: x, want: []string{codeReaches}, warning: true},
		{script: `"$x"`, source: x, want: []string{codeCommandName}, warning: true},
		{script: `gen "$x" | sh`, source: x, want: []string{codePiped}, warning: true},
		{script: `eval "$(gen "$x")"`, source: x, want: []string{codeOutput}, warning: true},
		{script: `python3 -c "print('$x')"`, source: x, want: []string{codeLanguage}, warning: true},
		{script: `eval "$x`, source: x}, // not valid
		{script: `sh -c "p $x"`, source: Source{Variable: "x", Quoted: true}},
		{script: `sh -c "p '$x'"`, source: Source{Variable: "x", Quoted: true}, want: []string{codeReaches}},
		{script: `sh -c "p $x"`, source: Source{Variable: "x", Word: true}},
		{script: `echo $((x))`, source: Source{Variable: "x", JSON: true}},
		{script: `sh "$x"`, source: Source{Variable: "x", File: true}, want: []string{codeReaches}},
		{script: `cat "$x"`, source: Source{Variable: "x", File: true}},
	} {
		found := Check(Script{
			Text: c.script, Dialects: both, Sources: []Source{c.source},
			Inherited: func(string) bool { return false }, Assigned: func(string) bool { return false },
		})
		var codes []string
		for _, f := range found {
			codes = append(codes, f.Code)
			if f.Offset != c.source.Offset || f.Warning != c.warning {
				t.Errorf("%s: got %+v, want offset %d, warning %t", c.script, f, c.source.Offset, c.warning)
			}
		}
		if !slices.Equal(codes, c.want) {
			t.Errorf("%s: got %v, want %v", c.script, codes, c.want)
		}
	}
}

func TestFindingsNameThePlaceThatReachesCode(t *testing.T) {
	found := Check(Script{
		Text: `echo "$V0"; eval "$V0"`, Dialects: []syntax.LangVariant{syntax.LangBash},
		Sources:   []Source{{Variable: "V0", Placeholder: true, Written: "${a}", Places: []Place{{Start: 6, Written: "${a}"}, {Start: 18, Offset: 20, Written: "${a:-}"}}}},
		Inherited: func(string) bool { return false }, Assigned: func(string) bool { return false },
	})
	if len(found) != 1 || found[0].Offset != 20 {
		t.Errorf("got %+v, want one finding at 20", found)
	}
}
