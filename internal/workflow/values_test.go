package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// step reads the only step of a workflow that is given as the keys of that step.
func step(t *testing.T, text string) Step {
	t.Helper()
	return parse(t, "- "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")).Commands[0]
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// defaults returns the policy of an empty block after change.
func defaults(change func(*retry.Policy)) *retry.Policy {
	p := retry.Default()
	change(&p)
	return &p
}

func TestABareListIsAStandardWorkflow(t *testing.T) {
	w := parse(t, "- shell: a\n- claude: b\n")
	equal(t, "mode", w.Mode, Standard)
	equal(t, "commands", w.Commands, []Step{
		{Shell: &Text{Value: "a", Pos: Pos{1, 10}}, Pos: Pos{1, 3}},
		{Claude: &Text{Value: "b", Pos: Pos{2, 11}}, Pos: Pos{2, 3}},
	})
}

func TestTheModeFollowsFromMap(t *testing.T) {
	for text, want := range map[string]Mode{
		"steps: [{shell: a}]":                                              Standard,
		"mode: standard\ncommands: [{shell: a}]":                           Standard,
		"map: {input: a, agent_template: [{shell: a}]}":                    MapReduce,
		"map: {input: a, agent_template: [{shell: a}]}\nmode: mapreduce\n": MapReduce,
	} {
		if got := parse(t, text).Mode; got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestAWorkspaceIsAWordOrAMapping(t *testing.T) {
	const steps = "\ncommands: [{shell: a}]\n"
	equal(t, "word", parse(t, "workspace: git"+steps).Workspace, Workspace{
		Mode: GitWorkspace, Base: "HEAD", Take: TakeAll, History: HistoryMerge, Order: OrderCompletion, Pos: Pos{1, 12},
	})
	equal(t, "none", parse(t, steps).Workspace, Workspace{})
	w := parse(t, "workspace: {history: squash, keep: node_modules, sparse: [a/, b/c], into: main, verify: {commands: [{shell: v}]}}"+steps).Workspace
	if !w.Isolated() || w.History != HistorySquash || w.Verify.Batch != 8 || w.Into != "main" {
		t.Errorf("got %+v, want a git workspace with these keys", w)
	}
	equal(t, "keep", w.Keep, []string{"node_modules"})
	equal(t, "sparse", w.Sparse, []string{"a", "b/c"})
	for flag, want := range map[WorkspaceMode]bool{GitWorkspace: true, SharedWorkspace: false} {
		for _, text := range []string{"", "workspace: git", "workspace: shared", "workspace: {take: commits}"} {
			w, err := Parse("w.yml", []byte(text+steps), ParseOptions{Workspace: flag})
			if err != nil || w.Workspace.Isolated() != want {
				t.Errorf("%q with --workspace %s: got %+v, %v", text, flag, w, err)
			}
		}
	}
	for text, want := range map[string]string{
		"workspace: gti":                                `did you mean "git"?`,
		"workspace: {base: -x}":                         "is not a commit or branch",
		"workspace: {sparse: /etc}":                     "is not a directory of the repository",
		"workspace: {sparse: a/../../b}":                "is not a directory of the repository",
		"workspace: {verify: {batch: 2}}":               `key "commands" is required in verify`,
		"workspace: {take: some}":                       "unknown take",
		"workspace: {error_policy: {}}":                 "unknown key",
		"workspace: [git]":                              "must be a string",
		"workspace: {verify: {commands: [], batch: 0}}": "at least 1",
	} {
		if _, err := Parse("w.yml", []byte(text+steps), ParseOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestAddWorkspaceWritesOneLine(t *testing.T) {
	const agents = "map:\n  input: [1]\n  agent_template:\n    - shell: a\n      commit_required: true\n"
	for source, want := range map[string]string{
		"name: n\n# items\n" + agents: "name: n\nworkspace: git\n# items\n" + agents,
		agents:                        "workspace: git\n" + agents,
		"  name: n\n  commands:\n    - shell: a\n  merge:\n    - shell: b\n":       "  name: n\n  workspace: git\n  commands:\n    - shell: a\n  merge:\n    - shell: b\n",
		"name: n\r\ncommands:\r\n  - shell: a\r\nmerge:\r\n  - shell: b\r\n":       "name: n\r\nworkspace: git\r\ncommands:\r\n  - shell: a\r\nmerge:\r\n  - shell: b\r\n",
		"workspace: shared\n" + agents:                                             "",
		"- shell: a\n":                                                             "",
		"{map: {input: [1], agent_template: [{shell: a, commit_required: true}]}}": "",
		strings.ReplaceAll(agents, "true", "false"):                                "",
	} {
		got, ok := AddWorkspace("w.yml", []byte(source), true)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%q: got %q %t, want %q", source, got, ok, want)
		}
	}
}

func TestEveryKeyReachesItsField(t *testing.T) {
	w := parse(t, `
name: n
description: d
version: 1.10
env: {A: 1, B: true, C: "x y"}
setup: {timeout: 90, commands: [{shell: s}]}
map:
  input: {file: in.json, format: json}
  json_path: "$.a"
  filter: b > 1
  offset: 2
  max_items: 3
  max_parallel: 4
  agent_template: [{shell: t}]
reduce: [{shell: r}]
merge: {commands: [{shell: m}], timeout: 1m}
workspace: shared
`)
	three := 3
	one := func(text string, pos, at Pos) []Step { return []Step{{Shell: &Text{Value: text, Pos: at}, Pos: pos}} }
	equal(t, "workflow", w, &Workflow{
		File: "w.yml", Name: "n", Description: "d", Version: "1.10", Mode: MapReduce, Workspace: Workspace{Mode: SharedWorkspace, Pos: Pos{17, 12}},
		Env: []EnvVar{
			{Name: "A", Value: Text{Value: "1", Pos: Pos{5, 10}}},
			{Name: "B", Value: Text{Value: "true", Pos: Pos{5, 16}}},
			{Name: "C", Value: Text{Value: "x y", Pos: Pos{5, 26}}},
		},
		Setup: &Phase{Timeout: SecondsOrVar{Value: 90 * time.Second, Pos: Pos{6, 18}}, Commands: one("s", Pos{6, 33}, Pos{6, 41}), Pos: Pos{6, 8}},
		Map: &Map{
			Input:    Input{File: []string{"in.json"}, Format: "json", Pos: Pos{8, 10}},
			JSONPath: Text{Value: "$.a", Pos: Pos{9, 15}}, Filter: Text{Value: "b > 1", Pos: Pos{10, 11}},
			Offset: 2, MaxItems: &three, MaxParallel: IntOrVar{Value: 4, Pos: Pos{13, 17}},
			AgentTemplate: one("t", Pos{14, 20}, Pos{14, 28}), Pos: Pos{8, 3},
		},
		Reduce: &Phase{Commands: one("r", Pos{15, 10}, Pos{15, 18}), Pos: Pos{15, 9}},
		Merge:  &Phase{Commands: one("m", Pos{16, 20}, Pos{16, 28}), Timeout: SecondsOrVar{Value: time.Minute, Pos: Pos{16, 42}}, Pos: Pos{16, 8}},
	})
}

func TestInputHasThreeForms(t *testing.T) {
	for text, want := range map[string]Input{
		"a.json":                            {Text: "a.json"},
		"cat a | jq .b":                     {Text: "cat a | jq .b"},
		"{file: a.json}":                    {File: []string{"a.json"}},
		"{command: cat a, format: json}":    {Command: "cat a", Format: "json"},
		"[]":                                {Items: []json.RawMessage{}},
		`[1, 1.50, 1e3, a, "5", null, yes]`: {Items: raws("1", "1.50", "1e3", `"a"`, `"5"`, "null", `"yes"`)},
		"[0x10, 1_000, .5, +1, True, <&>]":  {Items: raws("16", "1000", "0.5", "1", "true", `"<&>"`)},
		"[{z: 1, a: [2, {b: ~}]}, 2024-01-02, 123456789012345678901234567890]": {
			Items: raws(`{"z":1,"a":[2,{"b":null}]}`, `"2024-01-02"`, "123456789012345678901234567890"),
		},
	} {
		got := parse(t, "map: {agent_template: [{shell: a}], input: "+text+"}").Map.Input
		want.Pos = Pos{1, 44}
		equal(t, text, got, want)
		for _, item := range got.Items {
			if !json.Valid(item) {
				t.Errorf("%s: got %s, want valid JSON", text, item)
			}
		}
	}
}

func raws(texts ...string) []json.RawMessage {
	var all []json.RawMessage
	for _, text := range texts {
		all = append(all, json.RawMessage(text))
	}
	return all
}

func TestMaxParallelIsANumberOrAVariable(t *testing.T) {
	for text, want := range map[string]IntOrVar{
		"5": {Value: 5}, "$N": {Var: "N"}, `"${MAX_N}"`: {Var: "MAX_N"},
	} {
		want.Pos = Pos{1, 16}
		equal(t, text, parse(t, "map: {max_parallel: "+text+", input: a, agent_template: [{shell: a}]}").Map.MaxParallel.at(16), want)
	}
	equal(t, "default", parse(t, "map: {input: a, agent_template: [{shell: a}]}").Map.MaxParallel, IntOrVar{Value: 10})
	for _, text := range []string{"0", "-1", "1.5", "$", "$5", "N", `"${}"`, `"${N"`, `"5"`, "[1]", "{a: 1}", "true"} {
		if got := problems(t, "map: {max_parallel: "+text+", input: a, agent_template: [{shell: a}]}"); !strings.Contains(got, "max_parallel") {
			t.Errorf("%s: got %q, want a problem", text, got)
		}
	}
}

// at returns v as if it stood in another column.
func (v IntOrVar) at(col int) IntOrVar {
	v.Pos.Col = col
	return v
}

func TestATextKnowsWhereItsContentStands(t *testing.T) {
	for _, test := range []struct {
		text, content string // content is a word inside the text
		exact         Text
	}{
		{"- shell: plain X\n", "X", Text{Value: "plain X", Pos: Pos{1, 10}}},
		{"- shell: \"quoted X\"\n", "X", Text{Value: "quoted X", Pos: Pos{1, 11}}},
		{"- shell:   'quoted X'\n", "X", Text{Value: "quoted X", Pos: Pos{1, 13}}},
		{"- shell: !!str &a \"quoted X\"\n", "X", Text{Value: "quoted X", Pos: Pos{1, 20}}},
		{"- shell: &a plain X\n", "X", Text{Value: "plain X", Pos: Pos{1, 13}}},
		{"- shell: |\n    one\n\n      two X\n", "X", Text{Value: "one\n\n  two X\n", Pos: Pos{1, 10}, Block: true, Indent: 4}},
		{"- shell: |2-\n\n       one\n      two X\n", "X", Text{Value: "\n   one\n  two X", Pos: Pos{1, 10}, Block: true, Indent: 4}},
		{"- shell: >\n   one X\n   two\n", "X", Text{Value: "one X two\n", Pos: Pos{1, 10}, Block: true, Indent: 3}},
		{"- shell: ä ö X\n", "X", Text{Value: "ä ö X", Pos: Pos{1, 10}}},
	} {
		got := *parse(t, test.text).Commands[0].Shell
		equal(t, test.text, got, test.exact)
		line, col := runesTo(got.Value, test.content)
		wantLine, wantCol := runesTo(test.text, test.content)
		equal(t, test.text+" At", got.At(line, col), Pos{wantLine, wantCol})
	}
}

// runesTo returns the line and column, in runes, of a word in the text.
func runesTo(text, word string) (line, col int) {
	before, _, _ := strings.Cut(text, word)
	last := before[strings.LastIndex(before, "\n")+1:]
	return strings.Count(before, "\n") + 1, len([]rune(last)) + 1
}

func TestAnExpressionKnowsWhereItStarts(t *testing.T) {
	m := parse(t, "map:\n  json_path: ''\n  filter: |\n     a > 1\n  input: a\n  agent_template: [{shell: a}]\n").Map
	equal(t, "json_path", m.JSONPath.Value, "")
	equal(t, "filter", m.Filter.Value, "a > 1\n")
	equal(t, "place", m.Filter.At(1, 1), Pos{4, 6})
}

func TestAByteOrderMarkMovesNothing(t *testing.T) {
	equal(t, "place", parse(t, "\ufeff- shell: 'a'\n").Commands[0].Shell.Pos, Pos{1, 11})
}

func TestRetryConfigIsReadOverTheDefaults(t *testing.T) {
	two, half := 2.0, 500*time.Millisecond
	for text, want := range map[string]*retry.Policy{
		"{}":                       defaults(func(*retry.Policy) {}),
		"{max_attempts: 7}":        defaults(func(p *retry.Policy) { p.Attempts = 7 }),
		"{backoff: fibonacci}":     defaults(func(p *retry.Policy) { p.Backoff = retry.Backoff{Strategy: retry.Fibonacci} }),
		"{backoff: {fibonacci: }}": defaults(func(p *retry.Policy) { p.Backoff = retry.Backoff{Strategy: retry.Fibonacci} }),
		"{jitter: true}":           defaults(func(p *retry.Policy) { p.Jitter = retry.Proportional }),
		"{jitter: false}":          defaults(func(p *retry.Policy) { p.Jitter = retry.NoJitter }),
		"{jitter: decorrelated}":   defaults(func(p *retry.Policy) { p.Jitter = retry.Decorrelated }),
		"{retry_on: [Network, RateLimit, server-error]}": defaults(func(p *retry.Policy) {
			p.RetryOn = []retry.Matcher{{Name: "network"}, {Name: "rate_limit"}, {Name: "server_error"}}
		}),
		"{retry_on: timeout}":        defaults(func(p *retry.Policy) { p.RetryOn = []retry.Matcher{{Name: "timeout"}} }),
		"{retry_on: {exit_code: 7}}": defaults(func(p *retry.Policy) { p.RetryOn = []retry.Matcher{{ExitCodes: []int{7}}} }),
		"{retry_on: [network, {pattern: 'a+'}]}": defaults(func(p *retry.Policy) {
			p.RetryOn = []retry.Matcher{{Name: "network"}, {Pattern: "a+"}}
		}),
		"{on_failure: continue, retry_budget: 5m}": defaults(func(p *retry.Policy) {
			p.OnFailure.Kind, p.Budget = retry.Continue, 5*time.Minute
		}),
		"{on_failure: {fallback: {command: echo}}}": defaults(func(p *retry.Policy) {
			p.OnFailure = retry.FailureAction{Kind: retry.Fallback, Command: "echo"}
		}),
		"{backoff: {type: exponential, base: 2}}": defaults(func(p *retry.Policy) {
			p.Backoff = retry.Backoff{Strategy: retry.Exponential, Base: &two}
		}),
		"{backoff: {linear: {initial: 500ms, increment: 500ms}}}": defaults(func(p *retry.Policy) {
			p.Backoff = retry.Backoff{Strategy: retry.Linear, Initial: &half, Increment: &half}
		}),
		"{backoff: {custom: {delays: [500ms, 0s]}}}": defaults(func(p *retry.Policy) {
			p.Backoff = retry.Backoff{Strategy: retry.Custom, Delays: []time.Duration{half, 0}}
		}),
		"{circuit_breaker: {timeout: 1m}}": defaults(func(p *retry.Policy) {
			c := limit.DefaultBreaker()
			c.Timeout = time.Minute
			p.CircuitBreaker = &c
		}),
	} {
		equal(t, text, step(t, "shell: a\nretry_config: "+text).Retry, want)
		equal(t, text, step(t, "shell: a\nretry: "+text).Retry, want)
	}
}

func TestRetryDefaultsAreMergedUnderEveryStep(t *testing.T) {
	w := parse(t, `
commands:
  - shell: none of its own
  - shell: some of its own
    retry: {max_attempts: 2, backoff: fixed}
  - shell: with
    with: {retry: 1}
  - shell: nested
    on_failure: {shell: handler}
retry_defaults: {attempts: 9, initial_delay: 3s, backoff: {linear: {increment: 1s}}, on_failure: continue}
`)
	second := time.Second
	base := func(p *retry.Policy) {
		p.Attempts, p.InitialDelay, p.OnFailure.Kind = 9, 3*time.Second, retry.Continue
		p.Backoff = retry.Backoff{Strategy: retry.Linear, Increment: &second}
	}
	equal(t, "none", w.Commands[0].Retry, defaults(base))
	equal(t, "own", w.Commands[1].Retry, defaults(func(p *retry.Policy) {
		base(p)
		p.Attempts, p.Backoff = 2, retry.Backoff{Strategy: retry.Fixed}
	}))
	equal(t, "with", w.Commands[2].Retry, defaults(func(p *retry.Policy) {
		p.Attempts, p.InitialDelay, p.Backoff = 2, 0, retry.Backoff{Strategy: retry.Fixed}
	}))
	equal(t, "handler", w.Commands[3].OnFailure.Steps[0].Retry, defaults(base))
}

func TestABadRetryDefaultIsToldOnce(t *testing.T) {
	got := problems(t, "retry_defaults: {attempts: 0}\ncommands:\n- shell: a\n- {shell: b, retry: {jitter: true}}\n")
	if strings.Contains(got, "\n") || !strings.HasPrefix(got, "w.yml:1:28: attempts ") {
		t.Errorf("got %q, want one problem at 1:28", got)
	}
}

func TestMaxDelayOfTheRunIsTheCapThatNobodyWrote(t *testing.T) {
	text := `
on_item_failure: retry
map:
  input: a
  agent_template:
  - {shell: a, retry: {}}
  - {shell: a, retry: {max_delay: 5s}}
  - {shell: a, with: {retry: 1}}
  - {shell: a, with: {retry: 1, max_delay: 6s}}
`
	w, err := Parse("w.yml", []byte(text), ParseOptions{MaxDelay: 90 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var got []time.Duration
	for _, s := range w.Map.AgentTemplate {
		got = append(got, s.Retry.MaxDelay)
	}
	equal(t, "steps", got, []time.Duration{90 * time.Second, 5 * time.Second, 90 * time.Second, 6 * time.Second})
	equal(t, "items", w.ErrorPolicy.RetryConfig.MaxDelay, 90*time.Second)
}

func TestWithIsAPolicyAndATimeout(t *testing.T) {
	full := func(p *retry.Policy) {
		p.Attempts, p.InitialDelay, p.Backoff.Strategy = 6, 500*time.Millisecond, retry.Exponential
	}
	for text, want := range map[string]*retry.Policy{
		"{retry: 5, delay: 500ms, backoff: exponential, timeout: 5s}":             defaults(full),
		`"retry: 5, delay: 500ms, backoff: exponential, timeout: 5s"`:             defaults(full),
		"retry:5,delay:500ms , backoff:exponential,timeout:5s":                    defaults(full),
		"|\n  retry: 5,\n  delay: 500ms,\n  backoff: exponential,\n  timeout: 5s": defaults(full),
	} {
		s := step(t, "shell: a\nwith: "+text)
		equal(t, text, s.Retry, want)
		equal(t, text+" timeout", s.Timeout, 5*time.Second)
	}
	only := step(t, "shell: a\ntimeout: 7\nwith: {retry: 0}")
	equal(t, "only", only.Retry, defaults(func(p *retry.Policy) { p.Attempts, p.InitialDelay, p.Backoff.Strategy = 1, 0, retry.Fixed }))
	equal(t, "the step's own timeout", only.Timeout, 7*time.Second)
}

func TestWithWarnsOfOptionsWithoutEffect(t *testing.T) {
	for text, want := range map[string][]string{
		"{retry: 1, delay: 1s, backoff: linear}": nil,
		"{retry: 1}":                             nil,
		"{timeout: 1s}":                          nil,
		"{retry: 1, backoff: linear}":            {`w.yml:1:31: "backoff" has no effect without "delay"`},
		"{delay: 1s}":                            {`w.yml:1:21: "delay" has no effect without "retry"`},
		`"backoff: linear"`: {
			`w.yml:1:21: "backoff" has no effect without "delay"`, `w.yml:1:21: "backoff" has no effect without "retry"`,
		},
	} {
		var got []string
		for _, p := range parse(t, "- {shell: a, with: "+text+"}").Warnings {
			got = append(got, p.String())
		}
		equal(t, text, got, want)
	}
}

func TestOnFailureIsAHandlerOrAnAction(t *testing.T) {
	steps := func(texts ...string) []string { return texts }
	for text, want := range map[string]struct {
		steps []string
		max   int
		fail  bool
	}{
		"{shell: b}":                  {steps("b"), 0, false},
		"{claude: b, timeout: 3}":     {steps("b"), 0, false},
		"[{shell: b}, {shell: c}]":    {steps("b", "c"), 0, false},
		"{shell: b, max_attempts: 2}": {steps("b"), 2, false},
		"{commands: [{shell: b}, {shell: c}], max_attempts: 3, fail_workflow: true}": {steps("b", "c"), 3, true},
	} {
		s := step(t, "shell: a\non_failure: "+text)
		if s.OnFailure == nil || s.Retry != nil {
			t.Fatalf("%s: got handler %v, retry %v, want a handler only", text, s.OnFailure, s.Retry)
		}
		var got []string
		for _, each := range s.OnFailure.Steps {
			for _, command := range []*Text{each.Shell, each.Claude} {
				if command != nil {
					got = append(got, command.Value)
				}
			}
		}
		equal(t, text, got, want.steps)
		equal(t, text, s.OnFailure.MaxAttempts, want.max)
		equal(t, text, s.OnFailure.FailWorkflow, want.fail)
	}
	for text, want := range map[string]retry.FailureAction{
		"stop":                          {Kind: retry.Stop},
		"continue":                      {Kind: retry.Continue},
		"{fallback: {command: echo b}}": {Kind: retry.Fallback, Command: "echo b"},
	} {
		s := step(t, "shell: a\non_failure: "+text)
		equal(t, text, s.Retry, defaults(func(p *retry.Policy) { p.Attempts, p.OnFailure = 1, want }))
		if s.OnFailure != nil {
			t.Errorf("%s: got handler %v, want none", text, s.OnFailure)
		}
		retried := step(t, "shell: a\nretry: {attempts: 4}\non_failure: "+text)
		equal(t, text, retried.Retry, defaults(func(p *retry.Policy) { p.Attempts, p.OnFailure = 4, want }))
		called := step(t, "shell: a\nwith: {retry: 1}\non_failure: "+text)
		equal(t, text, called.Retry.OnFailure, want)
	}
}

func TestAnErrorPolicyStandsInThreePlaces(t *testing.T) {
	quarter, no := 0.25, false
	c := limit.DefaultBreaker()
	c.OnOpen = limit.Wait
	want := errorpolicy.Policy{
		OnItemFailure: errorpolicy.ItemAction{Kind: errorpolicy.Retry}, ContinueOnFailure: &no, MaxFailures: 3,
		FailureThreshold: &quarter, ErrorCollection: errorpolicy.Collection{Kind: errorpolicy.Batched, Size: 4},
		CircuitBreaker: &c, RetryConfig: defaults(func(p *retry.Policy) { p.Attempts = 2 }),
	}
	const fields = "on_item_failure: retry, continue_on_failure: false, max_failures: 3, failure_threshold: 0.25"
	const blocks = `circuit_breaker: {on_open: wait}`
	for _, text := range []string{
		"{error_policy: {" + fields + ", error_collection: 'batched:4', " + blocks + ", retry_config: {attempts: 2}}, map: {MAP}}",
		"{map: {MAP, error_policy: {" + fields + ", error_collection: {batched: {size: 4}}, " + blocks + ", retry_config: {attempts: 2}}}}",
		"{" + fields + ", error_collection: 'batched:4', error_policy: {" + blocks + "}, map: {MAP, retry_config: {max_attempts: 2}}}",
		"{error_policy: {" + fields + ", error_collection: 'batched:4', " + blocks + "}, map: {MAP, timeout_config: {retry_config: {max_attempts: 2}}}}",
	} {
		w := parse(t, strings.ReplaceAll(text, "MAP", "input: a, agent_template: [{shell: a}]"))
		equal(t, text, w.ErrorPolicy, want)
		for _, p := range w.Warnings {
			if strings.Contains(p.Message, "retry_config") {
				t.Errorf("%s: got %s, want no such warning", text, p)
			}
		}
	}
}

func TestWhatHasNoEffectIsWarnedOf(t *testing.T) {
	w := parse(t, `
map: {input: a, agent_template: [{shell: a}], retry_config: {}}
handlers: {x: [{shell: a}]}
`)
	equal(t, "warnings", w.Warnings, []Problem{
		{"w.yml", 3, 12, `handler "x" is never used`},
	})
}

func TestSettingsThatCannotBeReachedAreWarnedOf(t *testing.T) {
	for text, want := range map[string]string{
		"commands: [{shell: a}]\nerror_policy: {max_failures: 3}":                                                                   "w.yml:2:1: \"error_policy\" has no effect without items, from \"map\" or --args: a step has its own retry_config and on_failure",
		"commands: [{shell: a}]\nmax_failures: 3":                                                                                   "w.yml:2:1: \"max_failures\" has no effect without items, from \"map\" or --args: a step has its own retry_config and on_failure",
		"- {shell: a, retry: {attempts: 1, jitter: true}}":                                                                          "w.yml:1:35: jitter has no effect with attempts: 1: there are no retries",
		"retry_defaults: {retry_budget: 1s}\ncommands: [{shell: a}, {shell: a, retry: {}}]":                                         "w.yml:1:18: retry_budget 1s ends the retries after 2 tries of 3: the next delay would exceed it",
		"retry_defaults: {backoff: fixed}\ncommands: [{shell: a, retry: {attempts: 1}}]":                                            "",
		"map: {input: [], agent_timeout_secs: 3, agent_template: [{shell: a, retry: {}}]}":                                          "w.yml:1:38: agent_timeout_secs: retry delays of an agent add up to 3s, at least as long as this timeout",
		"map: {input: [], agent_timeout_secs: 9, agent_template: [{shell: a, on_failure: {shell: b, max_attempts: 3, retry: {}}}]}": "w.yml:1:38: agent_timeout_secs: retry delays of an agent add up to 9s, at least as long as this timeout",
		"map: {input: [], max_items: 0, agent_template: [{shell: a}]}":                                                              "w.yml:1:29: max_items: 0 selects no items",
	} {
		var got []string
		for _, p := range parse(t, text).Warnings {
			got = append(got, p.String())
		}
		equal(t, text, strings.Join(got, "\n"), want)
	}
}

func TestCaptureOutputNamesTheOutput(t *testing.T) {
	for text, want := range map[string]string{
		"capture: a": "a", "capture_output: a": "a", "capture_output: true\nid: build-it": "build-it", "capture_output: false": "", "capture_output: true": "",
	} {
		equal(t, text, step(t, "shell: a\n"+text).Capture, want)
	}
}

func TestNoBuiltinNameCanBeTaken(t *testing.T) {
	names := BuiltinNames()
	if len(names) != 15 || !slices.Contains(names, "item") {
		t.Errorf("got %v, want the 15 names", names)
	}
	for _, name := range names {
		for _, key := range []string{"id", "capture", "capture_output"} {
			if got := problems(t, "- shell: a\n  "+key+": "+name); !strings.Contains(got, "is a reserved name") {
				t.Errorf("%s: %s: got %q, want a problem", key, name, got)
			}
		}
	}
}

func TestAStepIsLabelledByIDThenNameThenKind(t *testing.T) {
	for text, want := range map[string]string{
		"shell: a": "shell_2", "claude: a": "claude_2", "shell: a\nname: Build it": "Build it", "shell: a\nname: x\nid: y": "y",
	} {
		equal(t, text, step(t, text).Label(2), want)
	}
}

func TestAliasesAndMergeKeysAreFollowed(t *testing.T) {
	w := parse(t, `
- &first {shell: a, timeout: 3, id: x, env: &env {A: 1, B: 2}}
- {<<: *first, id: y, timeout: 4s}
- {<<: [{timeout: 5s}, *first], id: z}
- {shell: &text hello, env: {<<: *env, B: 3}}
- {shell: *text}
`)
	var got []time.Duration
	for _, s := range w.Commands {
		got = append(got, s.Timeout)
	}
	equal(t, "timeouts", got, []time.Duration{3 * time.Second, 4 * time.Second, 5 * time.Second, 0, 0})
	equal(t, "alias", w.Commands[4].Shell.Value, "hello")
	env := map[string]string{}
	for _, v := range w.Commands[3].Env {
		env[v.Name] = v.Value.Value
	}
	equal(t, "env", env, map[string]string{"A": "1", "B": "3"})
}

func TestAStepSurvivesJSON(t *testing.T) {
	var w *Workflow
	for _, text := range []string{"- {shell: a, retry: {retry_on: [{pattern: x}]}, on_failure: [{claude: b}]}", "- shell: |\n   a\n   b\n"} {
		w = parse(t, text)
		data, err := json.Marshal(w.Commands)
		if err != nil {
			t.Fatal(err)
		}
		var back []Step
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		equal(t, text, back, w.Commands)
	}
}

func TestASyntaxErrorInALongFileHasItsLine(t *testing.T) {
	text := "name: x\nsteps:\n" + strings.Repeat("- shell: a\n", 3000) + "- shell: \"b\n" + strings.Repeat("- shell: a\n", 3000)
	if got := problems(t, text); got != "w.yml:3003:1: unterminated string" {
		t.Errorf("got %q, want line 3003", got)
	}
}
