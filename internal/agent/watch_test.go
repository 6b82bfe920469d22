package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

const (
	saysInit = `{"type":"system","subtype":"init","session_id":"s1"}` + "\n"
	saysTool = `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1"}]}}` + "\n"
	saysGood = `{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s1"}` + "\n"
)

// printed is what a command prints after a while.
type printed struct {
	after time.Duration
	text  string
}

// plays prints at the given times, and then lives until it is ended, or until it exits by itself at the time of
// an empty text.
func plays(prints ...printed) func(int, process.Command) process.Exit {
	return func(_ int, c process.Command) process.Exit {
		began := time.Now()
		for _, p := range prints {
			select {
			case <-time.After(time.Until(began.Add(p.after))):
			case <-c.Expiry.Done():
				return process.Exit{Code: -1, Signal: "SIGTERM", Expired: true}
			}
			if p.text == "" {
				return process.Exit{}
			}
			_, _ = c.Stdout.Write([]byte(p.text))
		}
		if c.Timeout == 0 {
			<-c.Expiry.Done()
			return process.Exit{Code: -1, Signal: "SIGKILL", Expired: true}
		}
		select {
		case <-time.After(time.Until(began.Add(c.Timeout))):
			return process.Exit{Code: -1, Signal: "SIGTERM", TimedOut: true}
		case <-c.Expiry.Done():
			return process.Exit{Code: -1, Signal: "SIGTERM", Expired: true}
		}
	}
}

func TestAnAgentThatDoesNotGetOnIsEnded(t *testing.T) {
	second, hour := time.Second, time.Hour
	tests := []struct {
		name   string
		step   workflow.Step
		prints []printed
		rule   string // empty: success
		typ    retry.Type
		after  time.Duration
	}{
		{"a silent server", agentStep(workflow.Agent{}), nil, "claude/no_progress", retry.TypeStalled, 10 * time.Minute},
		{"its own limit", agentStep(workflow.Agent{StallTimeout: &second}), []printed{{0, saysInit}}, "claude/no_progress", retry.TypeStalled, second},
		{"a tool within its limit", agentStep(workflow.Agent{StallTimeout: &second, ToolTimeout: &hour}), []printed{{0, saysTool}, {hour - 1, saysGood}, {hour, ""}}, "", "", hour},
		{"a tool past its limit", agentStep(workflow.Agent{ToolTimeout: &hour}), []printed{{0, saysTool}}, "claude/tool_timeout", retry.TypeStalled, hour},
		{"alive after its result", agentStep(workflow.Agent{}), []printed{{second, saysGood}}, "", "", 31 * second},
		{"alive after its result until the timeout", workflow.Step{Agent: &workflow.Agent{}, Timeout: 5 * second}, []printed{{second, saysGood}}, "", "", 5 * second},
		{"timed out", workflow.Step{Agent: &workflow.Agent{}, Timeout: 5 * second}, []printed{{second, saysInit}}, "", retry.TypeTimeout, 5 * second},
	}
	for _, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			test.step.Agent.Prompt = prompt("x")
			f := &fake{answer: plays(test.prints...)}
			o := execute(t, f.withPresets(t), ofItem(test.step))
			var rule string
			var typ retry.Type
			if o.Failure != nil {
				rule, typ = o.Failure.Rule, retry.Classify(o.Failure.Failure)
			}
			if took := time.Since(began); rule != test.rule || typ != test.typ || took != test.after {
				t.Errorf("%s: got rule %q, type %q after %v, want %q, %q after %v", test.name, rule, typ, took, test.rule, test.typ, test.after)
			}
			if test.typ == "" && (o.Output != "Done." || o.ExitCode != 0) {
				t.Errorf("%s: got %q and exit code %d", test.name, o.Output, o.ExitCode)
			}
		})
	}
}

// A command of the user's own that is only called like a CLI is left alone, however silent it is.
func TestACommandOfTheUsersOwnIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(_ int, c process.Command) process.Exit {
			select {
			case <-time.After(time.Hour):
			case <-c.Expiry.Done():
				return process.Exit{Code: -1, Expired: true}
			}
			_, _ = c.Stdout.Write([]byte("words\n"))
			return process.Exit{}
		}}
		x := f.withPresets(t)
		x.Claude = DefaultClaude()
		o := execute(t, x, ofItem(workflow.Step{Claude: &workflow.Text{Value: "x"}}))
		if o.Failure != nil || o.Output != "words" {
			t.Errorf("got %v and %q", o.Failure, o.Output)
		}
	})
}
