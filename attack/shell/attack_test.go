//go:build unix

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/testenv"
)

// stillUnsaid is how many scripts of the sample run data of which nothing is said.
const stillUnsaid = 0

func TestASampleOfScriptsRunsNoDataOfWhichNothingIsSaid(t *testing.T) {
	tally := newTally(0)
	o := options{scripts: 200 / uint64(testenv.OneIn(4, 4)), seed: 10, parallel: 2, sample: 0.1}
	if err := tryAll(t.Context(), o, tally); err != nil {
		t.Fatal(err)
	}
	if tally.scripts != int(o.scripts) || tally.silentHarmless == 0 || tally.refused.tried == tally.refused.harmless {
		t.Errorf("%d scripts: %d harmless, and of the %d refused ones that were run %d", tally.scripts, tally.silentHarmless, tally.refused.tried, tally.refused.harmless)
	}
	if tally.unsaid > stillUnsaid {
		var text strings.Builder
		tally.print(&text)
		t.Errorf("got %d unsaid, want %d at most:\n%s", tally.unsaid, stillUnsaid, text.String())
	}
}

// A production that never works would prove nothing: each sink runs data as it is, and each flow brings it to eval. What is harmless does not.
func TestProductionsDoWhatTheyAreFor(t *testing.T) {
	l := testLab(t)
	captured := sources[slices.IndexFunc(sources, func(s *source) bool { return s.name == "$capture" })]
	n := testenv.OneIn(10, 2)
	for i, p := range sinks(sinkFamilies) {
		if i%n != 0 || p.notAsRoot && os.Geteuid() == 0 {
			continue
		}
		if !runsReference(t, l, &script{source: captured, sink: p}) {
			t.Errorf("sink %s runs no data", p.name)
		}
	}
	for i, p := range sinks(harmlessFamilies) {
		if i%n != 0 {
			continue
		}
		if runsReference(t, l, &script{source: captured, sink: p}) {
			t.Errorf("harmless use %s runs data", p.name)
		}
	}
	for i, p := range flows() {
		if i%n != 0 {
			continue
		}
		sink, cleans := evals[0], slices.Contains(cleaners, p)
		if cleans { // what is left may be the name of a command
			sink = evals[1]
		}
		if got := runsReference(t, l, &script{source: captured, flows: []*production{p}, sink: sink}); got == cleans {
			t.Errorf("flow %s to eval: ran data %t, want %t", p.name, got, !cleans)
		}
	}
}

// runsReference reports whether the reference form of s runs data, however its words are quoted.
func runsReference(t *testing.T, l *lab, s *script) bool {
	t.Helper()
	for _, st := range []style{quoted, bare} {
		s.styles = slices.Repeat([]style{st}, len(s.flows)+1)
		for _, payload := range s.payloads() {
			for _, sh := range l.shells {
				ran, err := l.run(t.Context(), sh, s, nil, payload, true)
				if err != nil {
					t.Fatal(err)
				}
				if ran {
					return true
				}
			}
		}
	}
	return false
}

func testLab(t *testing.T) *lab {
	t.Helper()
	l, err := newLab(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.shells) < len(shellNames) {
		t.Logf("only %d of %v are installed", len(l.shells), shellNames)
	}
	return l
}

func TestTheWorkflowAroundAScriptSaysNothing(t *testing.T) {
	for _, s := range sources {
		w, err := parse(&script{source: s, sink: plainUses[0], styles: []style{quoted}})
		if err != nil {
			t.Fatal(err)
		}
		v, err := judge(w)
		if err != nil || !v.silent() {
			t.Errorf("%s: got %v, %v, want silence", s.name, v, err)
		}
	}
}

// What counts as outside the promise is what the docs say.
func TestTheDocsSayWhatIsOutsideThePromise(t *testing.T) {
	data, err := os.ReadFile("../../docs/interpolation.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(data)), " ")
	for _, sentence := range []string{ofProgram} {
		if !strings.Contains(text, sentence) {
			t.Errorf("docs/interpolation.md does not say: %s", sentence)
		}
	}
}

// The minimal scripts of a seed are the same however often it is tried, so that what is found can be looked at again.
func TestScriptsAreThoseOfTheirSeed(t *testing.T) {
	for n := range uint64(200) {
		a, b := generate(7, n), generate(7, n)
		if a.workflowText() != b.workflowText() || a.String() != b.String() {
			t.Errorf("script %d: got\n%s\nand then\n%s", n, a.workflowText(), b.workflowText())
		}
	}
}

// A source that brings nothing would prove nothing either: each value gets to the script in the workflow itself.
func TestSourcesBringTheirValue(t *testing.T) {
	l := testLab(t)
	looks := &production{name: "look", text: "case {W} in *mark*) mark ;; esac"}
	for _, s := range sources {
		found, err := l.try(t.Context(), &script{source: s, sink: looks, styles: []style{quoted}}, always)
		if err != nil {
			t.Fatal(err)
		}
		if !found.verdict.silent() || found.ran == s.constant {
			t.Errorf("%s: ran %t, said %v", s.name, found.ran, found.verdict)
		}
	}
}
