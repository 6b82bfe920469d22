package simulate

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/workflow"
)

const outcomes = `
default: {takes: 2s, output: "ok"}
outcomes:
  - {phase: setup, takes: 1m}
  - {item: [a, "b-*"], step: fetch, attempt: 1, exit: 7, stderr: "no route"}
  - {where: "host == 'sick'", attempt: 2-, error: network}
  - {item: c, try: 1-2, hangs: true, takes: 1h}
  - {item: d, signal: SIGKILL}
  - {item: "e*", chance: 0.5, exit: 3}
  - {item: f, from: 1h, to: 2h, exit: 5}
  - {item: g, output: '{"n": 1}'}
`

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	s, err := ParseScript("outcomes.yml", []byte(outcomes))
	if err != nil {
		t.Fatal(err)
	}
	s.Begin = time.Now().Add(-90 * time.Minute)
	ok := Outcome{Takes: 2 * time.Second, Stdout: "ok"}
	with := func(change func(*Outcome)) Outcome { o := ok; change(&o); return o }
	for _, c := range []struct {
		phase, item, data, step string
		attempt, try            int
		want                    Outcome
	}{
		{"setup", "", "", "prepare", 1, 1, with(func(o *Outcome) { o.Takes = time.Minute })},
		{"reduce", "", "", "sum", 1, 1, ok},
		{"map", "a", "1", "fetch", 1, 1, with(func(o *Outcome) { o.ExitCode, o.Stderr = 7, "no route" })},
		{"map", "b-9", "1", "fetch", 1, 2, with(func(o *Outcome) { o.ExitCode, o.Stderr = 7, "no route" })},
		{"map", "a", "1", "store", 1, 1, ok},
		{"map", "a", "1", "fetch", 2, 1, ok},
		{"map", "z", `{"host": "sick"}`, "fetch", 1, 1, ok},
		{"map", "z", `{"host": "sick"}`, "fetch", 3, 1, with(func(o *Outcome) { o.ExitCode, o.Type = 1, "network" })},
		{"map", "c", "1", "fetch", 1, 2, with(func(o *Outcome) { o.Hangs, o.Takes = true, time.Hour })},
		{"map", "c", "1", "fetch", 1, 3, ok},
		{"map", "d", "1", "fetch", 1, 1, with(func(o *Outcome) { o.Signal = "SIGKILL" })},
		{"map", "f", "1", "fetch", 1, 1, with(func(o *Outcome) { o.ExitCode = 5 })},
		{"map", "g", "1", "fetch", 1, 1, with(func(o *Outcome) { o.Stdout = `{"n": 1}` })},
	} {
		got := s.Outcome(try(c.phase, c.item, c.data, c.step, c.attempt, c.try))
		if got != c.want {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
	failed := 0
	for i := range 1000 {
		if s.Outcome(try("map", "e"+strings.Repeat("x", i), "1", "fetch", 1, 1)).ExitCode == 3 {
			failed++
		}
	}
	if failed < 430 || failed > 570 {
		t.Errorf("with a chance of one half %d of 1000 failed", failed)
	}
	s.Begin = time.Now()
	if got := s.Outcome(try("map", "f", "1", "fetch", 1, 1)); got != ok {
		t.Errorf("before the outage: got %+v", got)
	}
	bare, err := ParseScript("outcomes.yml", []byte("outcomes: {item: x, exit: 1}"))
	if got := bare.Outcome(try("map", "y", "1", "fetch", 1, 1)); err != nil || got != (Outcome{Unknown: true}) {
		t.Errorf("without a default: got %+v %v", got, err)
	}
}

func try(phase, item, data, step string, attempt, number int) agent.SimulatedTry {
	return agent.SimulatedTry{
		Attempt: &agent.Attempt{Phase: phase, Assignment: agent.Assignment{
			ItemID: item, Item: json.RawMessage(data),
			Number: attempt,
		}}, Label: step, Number: number,
	}
}

func TestMistakesInAScriptAreReportedWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       `o.yml:1:1: the file is empty`,
		"a: b: c":                                `o.yml:1:5: ": " is not allowed in a text without quotes`,
		"outcomes: []\n---\na: 1":                `o.yml:2:1: only one YAML document is allowed`,
		"[1]":                                    `o.yml:1:1: the file must be a mapping`,
		"outcome: []":                            `o.yml:1:1: unknown key "outcome" in the file (did you mean "outcomes"?)`,
		"outcomes: [{items: a}]":                 `o.yml:1:13: unknown key "items" in an outcome (did you mean "item"?)`,
		"outcomes: [{item: a, item: b}]":         `o.yml:1:22: key "item" is set twice (first on line 1)`,
		"outcomes: [{item: '[a'}]":               `o.yml:1:19: item: invalid pattern "[a"`,
		"outcomes: [{where: 'a =='}]":            `o.yml:1:20: where: `,
		"outcomes: [{exit: 256}]":                `o.yml:1:19: exit must be between 0 and 255, got 256`,
		"outcomes: [{exit: '1'}]":                `o.yml:1:19: exit must be an integer, got "1"`,
		"outcomes: [{takes: soon}]":              `o.yml:1:20: takes: "soon": `,
		"outcomes: [{attempt: 3-2}]":             `o.yml:1:22: attempt must be a number of at least 1 or a range: 2, 2-4 or 2-`,
		"outcomes: [{try: 0}]":                   `o.yml:1:18: try must be a number of at least 1 or a range: 2, 2-4 or 2-`,
		"outcomes: [{chance: 2}]":                `o.yml:1:21: chance must be between 0 and 1, got 2`,
		"outcomes: [{hangs: maybe}]":             `o.yml:1:20: hangs must be true or false`,
		"outcomes: [{signal: KILL}]":             `o.yml:1:21: signal: must be a name such as SIGKILL`,
		"outcomes: [{error: netwrok}]":           `o.yml:1:20: error: unknown type "netwrok" (did you mean "network"?)`,
		"outcomes: [{phase: mapp}]":              `o.yml:1:20: phase: unknown phase "mapp" (did you mean "map"?)`,
		"outcomes: [{from: 2h, to: 1h}]":         `o.yml:1:12: to: must be later than from`,
		"outcomes: [{exit: 1, signal: SIGKILL}]": `o.yml:1:12: exit and signal cannot be used together: a command killed by a signal has no exit code`,
		"outcomes: [{error: network, exit: 0}]":  `o.yml:1:12: error requires a non-zero exit code`,
		"default: {item: a}":                     `o.yml:1:11: unknown key "item" in default`,
		"outcomes: [{takes: {}}, {output: [1]}]": "o.yml:1:20: takes must be a string",
	} {
		_, err := ParseScript("o.yml", []byte(text))
		var invalid *workflow.InvalidError
		if !errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add(outcomes)
	f.Add("outcomes: [{item: &a [*a]}]")
	f.Add("default: &d {takes: 1s}\noutcomes: *d")
	for _, path := range []string{"../workflow/testdata/valid/everything.yml"} {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(string(data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScript("o.yml", []byte(text))
		if err == nil {
			s.Outcome(try("map", "a", "{}", "fetch", 1, 1))
		}
	})
}
