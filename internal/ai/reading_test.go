package ai

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// run gives stdout to a preset, and returns what became of it.
func run(t testing.TB, cli, stdout string, e End) Verdict {
	t.Helper()
	p, err := builtInSet(t).Find(cli)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Read()
	_, _ = r.Write([]byte(stdout))
	return r.Verdict(e)
}

const goodEnd = `{"type":"result","subtype":"success","is_error":false,"result":"Done.","num_turns":2,"session_id":"s1",` +
	`"model_usage_since_last_result":{"a":{"costUSD":0.25,"inputTokens":10,"outputTokens":5},"b":{"costUSD":0.5}},"usage":{"output_tokens":5},"permission_denials":[]}` + "\n"

const badEnd = `{"is_error":true,"subtype":"success","result":"API Error: 500 Internal","api_error_status":500,"model_usage_since_last_result":{"a":{"costUSD":1}},"type":"result"}` + "\n"

func TestOutputsThatAreNotAsTheyShouldBe(t *testing.T) {
	tests := []struct {
		name, cli, stdout string
		exit              int
		want              Outcome
		rule              string
	}{
		{"nothing", "claude", "", 0, Failed, ""},
		{"the last of two results counts, and it is good", "claude", badEnd + goodEnd, 0, Success, "done"},
		{"the last of two results counts, and it is bad", "claude", goodEnd + badEnd, 1, Overloaded, "server_error"},
		{"a result twice", "claude", goodEnd + goodEnd, 0, Success, "done"},
		{"a good result and a bad exit", "claude", goodEnd, 1, Failed, ""},
		{"a result without a newline", "claude", strings.TrimSpace(goodEnd), 0, Success, "done"},
		{"a result that is cut", "claude", goodEnd[:100], 0, Failed, ""},
		{"a line of 50 MB before it", "claude", `{"type":"user","x":"` + strings.Repeat("y", 50<<20) + "\"}\n" + goodEnd, 0, Success, "done"},
		{"a result of 5 MB", "claude", strings.Replace(goodEnd, "Done.", strings.Repeat("y", 5<<20), 1), 0, Failed, ""},
		{"no UTF-8", "claude", "\xff\xfe\n" + strings.Replace(goodEnd, "Done.", "D\xffne", 1), 0, Success, "done"},
		{"a result within what a tool printed", "claude", `{"type":"user","content":` + strings.TrimSpace(goodEnd) + "}\n", 0, Failed, ""},
		{"a limit within what a tool printed", "claude", `{"type":"user","content":"You've hit your 5-hour limit","rate_limit_event":"rate_limit_event"}` + "\n" + goodEnd, 0, Success, "done"},
		{"a limit that the answer is about", "claude", strings.Replace(goodEnd, "Done.", "You've hit your 5-hour limit", 1), 0, Success, "done"},
		{"all in one list", "claude", "[" + `{"type":"system","subtype":"init"},` + strings.TrimSpace(goodEnd) + "]", 0, Success, "done"},
		{"blanks for an answer", "claude", strings.Replace(goodEnd, "Done.", ` \n`, 1), 0, Incomplete, "empty"},
		{"carriage returns", "claude", strings.ReplaceAll(goodEnd, "\n", "\r\n"), 0, Success, "done"},
		{"a command that does not exist", "claude", `{"type":"result","subtype":"success","is_error":false,"result":"Unknown slash command: revue","usage":{"output_tokens":0}}`, 0, InvalidRequest, "unknown_command"},

		{"an error and then a good end", "opencode", `{"type":"error","error":{"name":"APIError","data":{"message":"x","statusCode":500}}}` + "\n" + openText + openStop, 0, Success, "done"},
		{"a good end and then an error", "opencode", openText + openStop + `{"type":"error","error":{"name":"APIError","data":{"message":"x","statusCode":500}}}` + "\n", 1, Overloaded, "server_error"},
		{"an error, and no end", "opencode", openText + openStop + `{"type":"step_start"}` + "\n" + `{"type":"error","error":{"name":"New","data":{"message":"x"}}}` + "\n", 0, Failed, "error"},
		{"text before the tools only", "opencode", openText + `{"type":"step_finish","part":{"reason":"tool-calls"}}` + "\n" + openStop, 0, Incomplete, "empty"},
		{"cut", "opencode", openText + `{"type":"step_finish","part":{"reason":"length"}}` + "\n", 0, Incomplete, "max_tokens"},
		{"an error and then a good end, and a bad exit", "opencode", `{"type":"error","error":{"name":"UnknownError","data":{"message":"x"}}}` + "\n" + openText + openStop, 1, Success, "done"},
		{"empty", "opencode", openStop, 0, Incomplete, "empty"},

		{"an error that was retried", "codex", `{"type":"error","message":"Reconnecting... 1/5"}` + "\n" + codexText + codexDone, 0, Success, "done"},
		{"a turn that failed and one that did not", "codex", `{"type":"turn.failed","error":{"message":"stream disconnected"}}` + "\n" + codexText + codexDone, 0, Success, "done"},
		{"a turn that did not fail and one that did", "codex", codexText + codexDone + `{"type":"turn.failed","error":{"message":"We’re currently experiencing high demand"}}` + "\n", 1, Overloaded, "server_error"},
		{"refused", "codex", codexDone, 0, Incomplete, "empty"},
		{"a message before the commands only", "codex", codexText + codexRun("completed") + codexDone, 0, Incomplete, "empty"},
		{"commands that failed and one that did not", "codex", codexRun("failed") + codexRun("completed") + codexText + codexDone, 0, Success, "done"},
		{"the turn has no end", "codex", codexText, 0, Failed, ""},

		{"a loop", "gemini", `{"type":"message","role":"assistant","content":"x"}` + "\n" + `{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}` + "\n" + `{"type":"result","status":"success"}` + "\n", 0, Incomplete, "loop"},
		{"ended from outside", "gemini", `{"type":"message","role":"assistant","content":"x"}` + "\n", 0, Failed, ""},

		{"words about a limit in the answer", "aider", "litellm.RateLimitError: is raised when\n" + aiderEnd, 0, Success, "done"},
		{"an error in the answer, which was cut", "aider", "litellm.BadRequestError: is raised when\n" + aiderCut, 0, Incomplete, "max_tokens"},
		{"nothing received", "aider", "Tokens: 2.4k sent, 0 received.\n", 0, Incomplete, "nothing_received"},
		{"an empty answer that has tokens", "aider", "Empty response received from LLM. Check your provider account?\n\n" + aiderEnd, 0, Incomplete, "empty"},
		{"the words for that in the answer", "aider", "Empty response received from LLM\n" + aiderEnd, 0, Success, "done"},
		{"the words for a cut in the answer", "aider", aiderCut + aiderEnd, 0, Success, "done"},
		{"the words for a prompt that is too long in the answer", "aider", "Output tokens: ~0 of 5\n" + aiderEnd, 0, Success, "done"},
		{"the same in an answer that was cut", "aider", "Output tokens: ~0 of 5\n" + aiderCut, 0, Incomplete, "max_tokens"},
		{"a connection that breaks in the answer", "aider", "Half of an anslitellm.APIConnectionError: APIConnectionError: OpenAIException - [Errno 104]\nConnection reset by peer\n", 0, Overloaded, "no_connection"},
		{"a key that is not there", "qwen", `[{"type":"result","subtype":"success","is_error":false,"result":"[API Error: 401 Incorrect API key provided]"}]`, 0, Auth, "not_allowed"},
	}
	for _, test := range tests {
		v := run(t, test.cli, test.stdout, End{ExitCode: test.exit, Now: recordedAt})
		if v.Outcome != test.want || v.Rule != test.rule {
			t.Errorf("%s: got %s by %q (%.200s), want %s by %q", test.name, v.Outcome, v.Rule, v.Message, test.want, test.rule)
		}
	}
}

func TestAFailureWithoutARuleSaysHowTheRunEnded(t *testing.T) {
	bad := strings.Replace(goodEnd, `"is_error":false`, `"is_error":true`, 1)
	for _, test := range []struct {
		stdout string
		end    End
		want   string
	}{
		{bad, End{}, "claude reported an error, and exited with 0: Done."},
		{bad, End{ExitCode: 1}, "exit code 1: Done."},
		{"", End{Signal: "SIGKILL"}, "killed by SIGKILL before it had answered"},
		{bad, End{Signal: "SIGKILL"}, "killed by SIGKILL: Done."},
		{"oops\n", End{ExitCode: 1}, "claude ended without a result, exit code 1: oops"},
	} {
		if v := run(t, "claude", test.stdout, test.end); v.Message != test.want {
			t.Errorf("%s%+v: got %q, want %q", test.stdout, test.end, v.Message, test.want)
		}
	}
}

const (
	openText  = `{"type":"text","part":{"text":"Hello"}}` + "\n"
	openStop  = `{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{"input":800,"output":50,"cache":{"read":200}},"cost":0.00321}}` + "\n"
	aiderEnd  = "Tokens: 2.4k sent, 60 received. Cost: $0.0061 message, $0.0061 session.\n"
	aiderCut  = "\nModel openai/gpt-4o has hit a token limit!\nToken counts below are approximate.\n\nInput tokens: ~2,410 of 128,000\nOutput tokens: ~8 of 16,384\n"
	codexText = `{"type":"item.completed","item":{"type":"agent_message","text":"Hello"}}` + "\n"
	codexDone = `{"type":"turn.completed","usage":{"input_tokens":1000,"cached_input_tokens":200,"output_tokens":50}}` + "\n"
)

func codexRun(status string) string {
	return fmt.Sprintf(`{"type":"item.completed","item":{"type":"command_execution","status":%q,"aggregated_output":"turn.failed"}}`, status) + "\n"
}

func TestSwitchesOfTheStepAllowWhatWouldNotSucceed(t *testing.T) {
	denied := strings.Replace(goodEnd, `"permission_denials":[]`, `"permission_denials":[{"tool_name":"Write"}]`, 1)
	for may, hint := range map[workflow.May]string{
		"":               `; "may: edit" or "may: all" in the agent step permits more`,
		workflow.MayEdit: `; "may: all" in the agent step permits it`,
		workflow.MayAll:  "",
	} {
		if v := run(t, "claude", denied, End{May: may}); v.Outcome != Incomplete || v.Message != "a tool was denied: Write"+hint {
			t.Errorf("%q: got %s %q, want incomplete and the hint %q", may, v.Outcome, v.Message, hint)
		}
	}
	if v := run(t, "claude", denied, End{AllowDenied: true}); v.Outcome != Success {
		t.Errorf("got %s, want success", v.Outcome)
	}
	empty := strings.Replace(goodEnd, "Done.", "", 1)
	if v := run(t, "claude", empty, End{AllowEmpty: true}); v.Outcome != Success {
		t.Errorf("got %s, want success", v.Outcome)
	}
}

func TestUsageIsWhatTheOutputSays(t *testing.T) {
	tests := []struct {
		cli, stdout string
		want        Usage
	}{
		{
			"claude", `{"type":"system","subtype":"init","model":"m","session_id":"s1"}` + "\n" + goodEnd + goodEnd,
			Usage{Model: "m", Turns: 2, CostUSD: 1.5, Costed: true, Tokens: Tokens{Input: 20, Output: 10}, Counted: true},
		},
		{
			"claude", claudeCall("a") + claudeCall("a") + claudeCall("b"),
			Usage{Tokens: Tokens{Input: 200, Cached: 40, Output: 14}, Counted: true, Partial: true},
		},
		{"opencode", openStop + openStop, Usage{Turns: 2, CostUSD: 0.00642, Costed: true, Tokens: Tokens{Input: 1600, Cached: 400, Output: 100}, Counted: true}},
		{"claude", claudeCall("a") + `{"type":"result","total_cost_usd":0.5,"usage":{"input_tokens":7,"output_tokens":9}}`, Usage{CostUSD: 0.5, Costed: true, Tokens: Tokens{Input: 7, Cached: 20, Output: 9}, Counted: true}},
		{"codex", codexDone, Usage{Tokens: Tokens{Input: 800, Cached: 200, Output: 50}, Counted: true}},
		{
			"aider", "Main model: openai/gpt-4o with diff edit format\nTokens: 1.2k sent, 7 received. Cost: $0.0061 message, $0.0061 session.\n" +
				"Tokens: 2.4k sent, 5 cache write, 1.2k cache hit, 6 received. Cost: $0.0061 message, $0.0122 session.\n",
			Usage{Model: "openai/gpt-4o", CostUSD: 0.0122, Costed: true, Tokens: Tokens{Input: 2400, Cached: 1200, Output: 13}, Counted: true},
		},
		{"codex", "", Usage{}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, run(t, test.cli, test.stdout, End{}).Usage); diff != "" {
			t.Errorf("%s %.80s (-want +got):\n%s", test.cli, test.stdout, diff)
		}
	}
}

func claudeCall(id string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"usage":{"input_tokens":100,"cache_read_input_tokens":20,"output_tokens":7}}}`, id) + "\n"
}

// The price of a model is that under its name, else under the longest part of it, else under *.
func TestPricesOfModels(t *testing.T) {
	p := &Preset{Prices: map[string]Price{
		"gpt-5": {"input": 1, "cached": 0.5, "output": 10}, "gpt-5-mini": {"input": 0.1, "output": 1}, "*": {"input": 7, "output": 7},
	}}
	tokens := Tokens{Input: 1e6, Cached: 2e6, Output: 3e6}
	for model, want := range map[string]float64{"gpt-5": 32, "openai/gpt-5-2026": 32, "gpt-5-mini": 3.3, "other": 42, "": 42} {
		if got, ok := p.CostOf(model, tokens); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: got %v %v, want %v", model, got, ok, want)
		}
	}
	delete(p.Prices, "*")
	if got, ok := p.CostOf("other", tokens); ok || p.TellsCost("other") || p.TellsCost("") {
		t.Errorf("got %v for a model without a price", got)
	}
}

func TestTheAnswerOfSeveralPieces(t *testing.T) {
	piece := func(text string) string {
		return fmt.Sprintf(`{"type":"message","role":"assistant","content":%q,"delta":true}`, text) + "\n"
	}
	v := run(t, "gemini", piece("I look. ")+`{"type":"tool_result","status":"success"}`+"\n"+piece("It is ")+piece("42.")+`{"type":"result","status":"success"}`+"\n", End{})
	if v.Outcome != Success || v.Text != "It is 42." {
		t.Errorf("got %s %q, want the text after the tool", v.Outcome, v.Text)
	}
}

func TestAReadingIsTheSameForAnyPieces(t *testing.T) {
	set := builtInSet(t)
	for name, r := range recordings(t) {
		want := verdictOf(t, set, r, 1<<30)
		for _, piece := range []int{1, 7, 512} {
			if diff := cmp.Diff(want, verdictOf(t, set, r, piece)); diff != "" {
				t.Errorf("%s in pieces of %d (-whole +pieces):\n%s", name, piece, diff)
			}
		}
	}
}

func TestAReadingKeepsNoMoreThanItNeeds(t *testing.T) {
	p, _ := builtInSet(t).Find("claude")
	r := p.Read()
	line := []byte(`{"type":"user","text":"` + strings.Repeat("x", 100_000) + "\"}\n")
	long := []byte(strings.Repeat("y", 1<<20))
	allocs := testing.AllocsPerRun(100, func() {
		_, _ = r.Write(line)
		_, _ = r.Write(long[:1000])
		_, _ = r.Write([]byte("\n"))
	})
	if allocs > 10 {
		t.Errorf("got %v allocations a line, want few", allocs)
	}
	for range 60 {
		_, _ = r.Write(long)
	}
	if cap(r.split.begun) > 2*maxLine {
		t.Errorf("got a buffer of %d bytes for one line", cap(r.split.begun))
	}
	_, _ = r.Write([]byte("\n" + goodEnd))
	if v := r.Verdict(End{}); v.Outcome != Success {
		t.Errorf("got %s, want success", v.Outcome)
	}
}

func TestLayersChangePresets(t *testing.T) {
	layer := func(text string) Layer {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		return Layer{Name: "agents.yml", Node: &n}
	}
	set, err := Load(layer(`
claude: {model: sonnet, args: [--permission-mode, acceptEdits], env: {CLAUDE_CODE_MAX_RETRIES: "0"}}
mine:
  extends: codex
  argv: [mine, --json]
  rules:
    - {name: busy, outcome: quota, when: "failed.error.message matches 'come back later'"}
    - {name: empty, outcome: success, when: "at.done > 0"}
`), layer("claude: {model: opus}"))
	if err != nil {
		t.Fatal(err)
	}
	c := set["claude"]
	if c.Model != "opus" || len(c.Args) != 2 || c.Env["CLAUDE_CODE_MAX_RETRIES"] != "0" || c.Env["DISABLE_AUTOUPDATER"] != "1" || len(c.Rules) < 10 {
		t.Errorf("got %+v", c)
	}
	r := set["mine"].Read()
	_, _ = r.Write([]byte(`{"type":"turn.failed","error":{"message":"come back later"}}`))
	if v := r.Verdict(End{ExitCode: 1}); v.Outcome != Quota || v.Rule != "busy" || v.Message != "come back later" {
		t.Errorf("got %+v, want the rule of the layer", v)
	}
	r = set["mine"].Read()
	_, _ = r.Write([]byte(codexDone))
	if v := r.Verdict(End{}); v.Outcome != Success || v.Rule != "empty" {
		t.Errorf("got %+v, want the rule that replaces another", v)
	}
	if len(builtInSet(t)["codex"].Rules) != len(set["codex"].Rules) {
		t.Error("a preset that extends another has changed it")
	}

	for text, want := range map[string]string{
		"claude: {modle: x}":                                        `agents.yml:1:10: unknown key "modle" in agents.claude (did you mean "model"?)`,
		"x: {extends: clode}":                                       `agents.yml:1:14: unknown agent "clode" (want aider, claude, codex, gemini, opencode, qwen)`,
		"claude: [1]":                                               `agents.yml:1:9: agents.claude must be a mapping`,
		"x: {argv: [x], parse: jsonl}":                              `agents.yml:1:1: agents.x: rules are required: without rules no run can succeed`,
		"claude: {rules: [{outcome: sucess}]}":                      `agents.yml:1:1: agents.claude: rule rule_1: unknown outcome "sucess" (did you mean "success"?)`,
		"claude: {rules: [{outcome: failed, when: 'reslt.x'}]}":     `agents.yml:1:1: agents.claude: rule rule_1: "reslt" is neither a pick nor one of exit, stderr, plain, at, allow_denied, allow_empty`,
		"claude: {rules: [{outcome: failed, when: 'a b'}]}":         "agents.yml:1:1: agents.claude: rule rule_1: expected an operator or the end, got \"b\"\n  a b\n    ^",
		"claude: {rules: [{outcome: failed, when: stdout == 'x'}]}": `agents.yml:1:1: agents.claude: rule rule_1: "stdout" is neither a pick nor one of exit, stderr, plain, at, allow_denied, allow_empty`,
		"claude: {options: {modell: [x]}}":                          `agents.yml:1:1: agents.claude: unknown key "modell" in options (did you mean "model"?)`,
		"claude: {take: {text: nowhere.x}}":                         `agents.yml:1:1: agents.claude: take.text: unknown pick "nowhere"`,
		"claude: {may: {writ: [x]}}":                                `agents.yml:1:1: agents.claude: unknown key "writ" in may (want read, edit, all, said)`,
		"claude: {prices: {m: {input: 1}}}":                         `agents.yml:1:1: agents.claude: a price needs input and output, in dollars for a million tokens`,
		"claude: {prices: {m: {input: 1, outputs: 2}}}":             `agents.yml:1:1: agents.claude: unknown key "outputs" in prices (did you mean "output"?)`,
		"claude: {prices: {m: {input: 1, output: -2}}}":             `agents.yml:1:1: agents.claude: prices: output must be from 0 to 1000000 dollars`,
		"claude: {prices: {m: 3}}":                                  "agents.yml:1:1: agents.claude: unmarshal errors:\n  line 1: cannot unmarshal !!int `3` into ai.Price",
		"claude: {pick: {x: {line: a}}}":                            `agents.yml:1:1: agents.claude: pick.x: use line with parse: text, and fields with jsonl`,
	} {
		if _, err := Load(layer(text)); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestResetsInWords(t *testing.T) {
	lisbon, err := time.LoadLocation("Europe/Lisbon")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 22, 6, 10, 0, 0, time.FixedZone("", 2*3600)) // 04:10 UTC
	tests := []struct{ text, want string }{
		{"You've hit your 5-hour limit · resets 8:34am (UTC)", "2026-11-22T08:34:00Z"},
		{"You've hit your limit · resets 1pm (Europe/Lisbon)", "2026-11-22T13:00:00Z"},
		{"You're out of extra usage · resets 11:30am (Asia/Colombo)", "2026-11-22T06:00:00Z"},
		{"resets 3am (America/New_York)", "2026-11-22T08:00:00Z"},
		{"resets 12am (Pacific/Auckland)", "2026-11-22T11:00:00Z"},
		{"resets 12pm (Australia/Adelaide)", "2026-11-22T01:30:00Z +1"},
		{"5-hour limit reached ∙ resets 2am", "2026-11-23T00:00:00Z"},
		{"5-hour limit reached ∙ resets 6am", "2026-11-22T04:00:00Z"}, // it has just been
		{"You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://x or try again at 8:42 AM.", "2026-11-22T06:42:00Z"},
		{"try again at Nov 25th, 2026 8:42 AM.", "2026-11-25T06:42:00Z"},
		{"try again at 8:42\u202fAM.", "2026-11-22T06:42:00Z"},
		{"resets Jan 3, 9am (UTC)", "2027-01-03T09:00:00Z"},
		{"resets Nov 25 at 5pm (UTC)", "2026-11-25T17:00:00Z"},
		{"Please retry in 10800s.", "2026-11-22T07:10:00Z"},
		{"Please retry in 20.5s.", "2026-11-22T04:10:20.5Z"},
		{"try again in 2h 5m", "2026-11-22T06:15:00Z"},
		{"Try again in 3 days 2 hours 5 minutes.", "2026-11-25T06:15:00Z"},
		{"Claude AI usage limit reached|1795336487", "2026-11-22T08:34:47Z"},
		{"Claude AI usage limit reached|99", ""},
		{"limit reached · contact your admin", ""},
		{"resets 45pm", ""},
		{"try again later", ""},
		{"in 99999999999999999999h", ""},
	}
	for _, test := range tests {
		got, ok := ParseReset(test.text, now)
		text := ""
		if ok {
			text = got.UTC().Format("2006-01-02T15:04:05.999Z")
		}
		want := test.want
		if day, later := strings.CutSuffix(want, " +1"); later { // tomorrow there
			w, _ := time.Parse(time.RFC3339, day)
			want = w.AddDate(0, 0, 1).Format("2006-01-02T15:04:05Z")
		}
		if text != want {
			t.Errorf("%s: got %s, want %s", test.text, text, want)
		}
	}
	// 25 October 2026 has 25 hours in Lisbon.
	evening := time.Date(2026, 10, 24, 23, 0, 0, 0, lisbon)
	if got, _ := ParseReset("resets 3am (Europe/Lisbon)", evening); got.Sub(evening) != 5*time.Hour {
		t.Errorf("got %s, want 5h over the end of summer time", got.Sub(evening))
	}
}

func TestResetsOfTheRecordedOutputs(t *testing.T) {
	set, all := builtInSet(t), recordings(t)
	for name, want := range map[string]string{
		"claude.429_usage.stream.oauth":    "field 2026-11-22T08:34:47Z five_hour",
		"claude.429_usage.json.oauth":      "text 2026-11-22T08:34:00Z ",
		"claude197.429_usage.stream.oauth": "field 2026-11-22T09:23:55Z five_hour",
		"codex.tool_then_usage.json":       "text 2026-11-22T08:43:00Z ",
		"gemini.429_usage.stream":          "text 2026-11-22T09:00:00Z ",
		"opencode.429_usage.json":          " 0001-01-01T00:00:00Z ",
	} {
		v := verdictOf(t, set, all[name], 1000)
		if got := fmt.Sprint(v.ResetBy, " ", v.Reset.UTC().Format(time.RFC3339), " ", v.Scope); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func FuzzAReadingTakesAnything(f *testing.F) {
	for name, r := range recordings(f) {
		if len(r.Stdout) < 3000 {
			f.Add(strings.SplitN(name, ".", 2)[0], []byte(r.Stdout), r.Exit)
		}
	}
	f.Add("claude", []byte(goodEnd), 0)
	set := builtInSet(f)
	f.Fuzz(func(t *testing.T, cli string, stdout []byte, exit int) {
		p := set[strings.TrimSuffix(cli, "197")]
		if p == nil {
			return
		}
		whole, pieces := p.Read(), p.Read()
		_, _ = whole.Write(stdout)
		for b := range bytes.SplitAfterSeq(stdout, []byte(",")) {
			_, _ = pieces.Write(b)
		}
		e := End{ExitCode: exit, Now: recordedAt}
		v := whole.Verdict(e)
		if diff := cmp.Diff(v, pieces.Verdict(e)); diff != "" {
			t.Error(diff)
		}
		if v.Outcome == Success && exit != 0 {
			t.Errorf("exit code %d is a success by %s", exit, v.Rule)
		}
	})
}

func FuzzResetsInWords(f *testing.F) {
	f.Add("resets Nov 25th, 2026 at 5:30pm (Europe/Lisbon)")
	f.Add("retry in 2h 5m and 3 days")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := ParseReset(text, recordedAt); ok && at.Sub(recordedAt).Abs() > maxWait+24*time.Hour {
			t.Errorf("%q: got %s", text, at)
		}
	})
}

func BenchmarkReading(b *testing.B) {
	p, _ := builtInSet(b).Find("claude")
	var stream bytes.Buffer
	for i := range 200 {
		stream.WriteString(`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"` + strings.Repeat(`line of a \"file\" that was read\n`, 200) + `"}]}}` + "\n")
		stream.WriteString(claudeCall(fmt.Sprint(i)))
	}
	b.SetBytes(int64(stream.Len()))
	r := p.Read()
	for b.Loop() {
		for rest := stream.Bytes(); len(rest) > 0; {
			n := min(16<<10, len(rest))
			_, _ = r.Write(rest[:n])
			rest = rest[n:]
		}
	}
}

func TestAPresetIsTheSameAfterItWasPrinted(t *testing.T) {
	set := builtInSet(t)
	for name, p := range set {
		data, err := yaml.Marshal(map[string]*Preset{"again": p})
		if err != nil {
			t.Fatal(err)
		}
		layer, err := ReadLayer("again", data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load(layer)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		for what, r := range recordings(t) {
			if r.CLI == name {
				want := verdictOf(t, set, r, 1000)
				r.CLI = "again"
				got := verdictOf(t, again, r, 1000)
				if rest, named := strings.CutPrefix(got.Message, "again "); named {
					got.Message = name + " " + rest
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-printed +read again):\n%s", what, diff)
				}
			}
		}
	}
}

// Whatever is no JSON is never kept: a condition would be given it.
func FuzzWhatIsNoJSONIsNotKept(f *testing.F) {
	set := builtInSet(f)
	for _, line := range []string{
		`{"type":"assistant","type":"user","message":{"content":[{"tool_use_id":"t1"}]}}`, `{"typ\u0065":"assistant","message":{"content":[{"id":"t9"}]}}`,
		`{"type":"\u0061ssistant","message":{"usage":{"input_tokens":7}}}`, ` { "type" : "assistant" , "message" : { "id" : "m" , "usage" : { "input_tokens" : 3 } } } `,
		`{"type":"assistant","message":{"id":"m","usage":{"input_tokens":1,"input_tokens":2}}}`, `{"type":"assistant","message":[{"usage":{"input_tokens":5}}]}`,
		`{"a":{"type":"result"},"type":"user","message":{"content":[]}}`, `{"type":null}`, `{"type":["assistant"]}`, `{}`, `{"type":"user","message":{"content":{"tool_use_id":"t1"}}}`,
		`{"type":"assistant","message":{"usage":{"input_tokens":"2.5k"},"content":[{"id":3},{"id":null},{}]}}`, `[{"type":"assistant"},{"type":"user"}]`,
		`{"type":"step_finish","part":{"reason":"stop","cost":0.5,"tokens":{"input":0,"output":0.0}}}`, `{"":1,"type":"user"}`, "{\"type\":\"user\",\"x\":\"\xff\"}",
		`{"type":"user","x":"\\"}`, `{"type":"user","x":"\\\"","y":"}"}`, "words", "", `{"type":"user"`, `{"type":"item.completed","item":{"type":"command_execution","id":"i","status":"completed"}}`,
		goodEnd, badEnd,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, name := range []string{"claude", "codex", "opencode"} {
			r := set[name].Read()
			_, _ = r.Write([]byte(line + "\n"))
			if facts := r.facts(End{}); !rawjson.Valid(facts) {
				t.Errorf("%s: %q leads to the facts %s", name, line, facts)
			}
		}
	})
}
