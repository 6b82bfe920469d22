package ai

import (
	"strings"
	"testing"
	"time"
)

// moment is what a run prints at a time after its begin.
type moment struct {
	at   time.Duration
	line string
}

const (
	watchInit  = `{"type":"system","subtype":"init","session_id":"s1"}`
	watchSays  = `{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Working."}]}}`
	watchTool  = `{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash"},{"type":"tool_use","id":"t2","name":"Bash"}]}}`
	watchDone1 = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}`
	watchDone2 = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2"}]}}`
	watchRetry = `{"type":"system","subtype":"api_retry","retry_delay_ms":1200000}`
	watchAgain = `{"type":"system","subtype":"api_retry","retry_delay_ms":500}`
	watchEnd   = `{"type":"result","subtype":"success","is_error":false,"result":"Done."}`
)

func TestWhenARunIsEnded(t *testing.T) {
	const m = time.Minute
	repeat := func(n int, line string) (all []moment) {
		for i := range n {
			all = append(all, moment{time.Duration(i) * time.Second, line})
		}
		return all
	}
	tests := []struct {
		name, cli string
		turns     int
		prints    []moment
		rule      string        // empty: it is never ended
		at        time.Duration // when
	}{
		{"it says nothing", "claude", 0, nil, RuleNoProgress, 10 * m},
		{"it becomes silent", "claude", 0, []moment{{0, watchInit}, {7 * m, watchSays}}, RuleNoProgress, 17 * m},
		{"lines that are unknown", "claude", 0, []moment{{0, watchInit}, {9 * m, `{"type":"new"}`}, {9 * m, "words"}}, RuleNoProgress, 10 * m},
		{"a tool is silent", "claude", 0, []moment{{0, watchInit}, {m, watchTool}}, RuleToolTimeout, 16 * m},
		{"one of two tools is done", "claude", 0, []moment{{0, watchInit}, {m, watchTool}, {14 * m, watchDone1}}, RuleToolTimeout, 29 * m},
		{"both tools are done", "claude", 0, []moment{{0, watchInit}, {m, watchTool}, {14 * m, watchDone1}, {15 * m, watchDone2}}, RuleNoProgress, 25 * m},
		{"it waits for the service", "claude", 0, []moment{{0, watchInit}, {9 * m, watchRetry}}, RuleNoProgress, 30 * m},
		{"it waits a little", "claude", 0, []moment{{0, watchInit}, {9 * m, watchAgain}}, RuleNoProgress, 10*m + 500*time.Millisecond},
		{"it tries again for ever", "claude", 0, repeat(30, watchAgain), RuleLoop, 19 * time.Second},
		{"it tries again now and then", "claude", 0, append(append(repeat(19, watchAgain), moment{20 * time.Second, watchSays}), moment{21 * time.Second, watchAgain}), RuleNoProgress, 10*m + 20*time.Second},
		{"it lives on", "claude", 0, []moment{{0, watchInit}, {m, watchEnd}}, RuleLingers, m + 30*time.Second},
		{"it goes on after a result", "claude", 0, []moment{{0, watchInit}, {m, watchEnd}, {m + time.Second, watchSays}}, RuleNoProgress, 11*m + time.Second},
		{"it tells of limits after its result", "claude", 0, []moment{{m, watchEnd}, {m + time.Second, `{"type":"rate_limit_event"}`}}, RuleLingers, m + 30*time.Second},
		{"claude counts its turns", "claude", 1, []moment{{0, watchSays}, {1, watchSays}}, RuleNoProgress, 10*m + 1},
		{"steps of opencode that use no tokens", "opencode", 0, repeat(30, `{"type":"step_finish","part":{"reason":"unknown","tokens":{"input":0,"output":0}}}`), RuleLoop, 19 * time.Second},
		{"opencode may be silent as long as a tool", "opencode", 0, nil, RuleNoProgress, 15 * m},
		{"too many turns", "opencode", 2, repeat(3, `{"type":"step_finish","part":{"reason":"tool-calls","tokens":{"input":5,"output":1}}}`), RuleMaxTurns, 2 * time.Second},
		{"codex reconnects", "codex", 0, []moment{{9 * m, `{"type":"error","message":"Reconnecting... 1/5"}`}}, RuleNoProgress, 10 * m},
		{"codex runs a command", "codex", 0, []moment{{9 * m, `{"type":"item.started","item":{"id":"i","type":"command_execution"}}`}}, RuleToolTimeout, 24 * m},
		{"codex has run a command", "codex", 0, []moment{{9 * m, `{"type":"item.started","item":{"id":"i","type":"command_execution"}}`}, {10 * m, `{"type":"item.completed","item":{"id":"i","type":"command_execution"}}`}}, RuleNoProgress, 20 * m},
		{"the turn of codex failed", "codex", 0, []moment{{9 * m, `{"type":"turn.failed"}`}}, RuleLingers, 9*m + 30*time.Second},
		{"gemini runs a tool", "gemini", 0, []moment{{m, `{"type":"tool_use","tool_id":"a"}`}}, RuleToolTimeout, 16 * m},
		{"any line of aider", "aider", 0, []moment{{m, "anything"}, {2 * m, " "}}, RuleNoProgress, 11 * m},
	}
	set := builtInSet(t)
	for _, test := range tests {
		p := set[test.cli]
		rule, at := watched(p, p.Limits(nil, nil, test.turns), test.prints)
		if rule != test.rule || at != test.at {
			t.Errorf("%s: got %q after %v, want %q after %v", test.name, rule, at, test.rule, test.at)
		}
	}
	off := time.Duration(0)
	if rule, at := watched(set["claude"], set["claude"].Limits(&off, nil, 0), []moment{{time.Hour, watchTool}}); rule != RuleToolTimeout || at != time.Hour+15*m {
		t.Errorf("without a stall_timeout: got %q after %v", rule, at)
	}
	if rule, at := watched(set["claude"], set["claude"].Limits(nil, &off, 0), []moment{{m, watchTool}}); rule != "" {
		t.Errorf("without a tool_timeout: got %q after %v", rule, at)
	}
}

// watched returns the rule that ends a run, and when.
func watched(p *Preset, l Limits, prints []moment) (rule string, at time.Duration) {
	began := recordedAt
	w, r := NewWatchdog(l, began), p.Read()
	for _, m := range prints {
		now := began.Add(m.at)
		if due := w.Due(); !due.IsZero() && !due.After(now) {
			return w.Check(due).Rule, due.Sub(began)
		}
		if why := w.Check(now); why != nil {
			panic("ended before it was due")
		}
		_, _ = r.Write([]byte(m.line + "\n"))
		if why := w.Observe(r.Signs(), now); why != nil {
			return why.Rule, m.at
		}
	}
	due := w.Due()
	if due.IsZero() {
		return "", 0
	}
	return w.Check(due).Rule, due.Sub(began)
}

func TestMistakesInWatchAreErrors(t *testing.T) {
	for written, want := range map[string]string{
		"{progress: [nobody]}":           `watch.progress: unknown pick "nobody"`,
		"{tool_ends: [nobody.x]}":        `watch.tool_ends: unknown pick "nobody"`,
		"{wait_ms: nobody.x}":            `watch.wait_ms: unknown pick "nobody"`,
		"{turn: nobody}":                 `watch.turn: unknown pick "nobody"`,
		"{loop: -1}":                     "watch.loop must not be negative",
		"{stall_timeout: 5 fortnights}":  "fortnights",
		"{stall_timeout: -5m, loop: 20}": "-5m",
	} {
		layer, err := ReadLayer("f", []byte("claude: {watch: "+written+"}"))
		if err == nil {
			_, err = Load(layer)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", written, err, want)
		}
	}
}

func TestTheWatchOfALayerChangesThatBeforeIt(t *testing.T) {
	layer, err := ReadLayer("f", []byte("fake: {extends: claude, watch: {linger: 1s, idle: []}}"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := Load(layer)
	if err != nil {
		t.Fatal(err)
	}
	l := set["fake"].Limits(nil, nil, 0)
	if l.Linger != time.Second || l.Stall != 10*time.Minute || len(set["fake"].Watch.Progress) == 0 || len(set["fake"].Watch.Idle) != 0 {
		t.Errorf("got %+v", set["fake"].Watch)
	}
}
