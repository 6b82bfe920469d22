package template

import (
	"strings"
	"testing"
)

// ${cmd:…} and its like meant something to the older tool. No shell takes them for what they were, so they are
// reported before anything runs.
func TestSourcesOfTheOlderToolAreToldBeforeAnythingRuns(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`p ${cmd:git rev-parse HEAD}`, "capture: name"},
		{`p "on ${date:%Y-%m-%d}"`, "capture: name"},
		{`p ${file:notes.txt}`, "capture: name"},
		{`p ${json:a.b:from}`, "capture: name"},
	} {
		_, err := Compile(c.src, Options{Names: testNames})
		if err == nil || !strings.Contains(err.Error(), "PS004") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want PS004 with %q", c.src, err, c.want)
		}
	}
}

func TestWhatOnlyLooksLikeASourceIsTheShells(t *testing.T) {
	for _, src := range []string{
		`file=abc; n=1; p ${file:n} ${item.v}`, `p ${file:-x} ${date:=y} ${cmd:+z} ${json:?} ${file:1:2}`, `p ${file: n}`, `p '${cmd:ls}'`, `p $${cmd:ls}`, "# ${cmd:ls}\np",
	} {
		if _, err := Compile(src, Options{Names: testNames, Shell: "bash"}); err != nil {
			t.Errorf("%s: got %v, want none", src, err)
		}
	}
}
