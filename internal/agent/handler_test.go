package agent

import (
	"fmt"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// mended answers so that the original, "x", fails its first n runs; all else as by does.
func mended(n int) func(int, process.Command) process.Exit {
	runs := 0
	return func(call int, c process.Command) process.Exit {
		if c.Argv[len(c.Argv)-1] != "x" {
			return by(call, c)
		}
		runs++
		if runs <= n {
			return process.Exit{Code: 1}
		}
		return process.Exit{}
	}
}

func TestWhatFollowsAFailedStep(t *testing.T) {
	handler := func(script string, rounds int, failWorkflow bool) workflow.Step {
		s := shellStep("x")
		s.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{shellStep(script)}, MaxAttempts: rounds, FailWorkflow: failWorkflow}
		return s
	}
	action := func(kind retry.ActionKind, command string) workflow.Step {
		return retried(retry.Policy{OnFailure: retry.FailureAction{Kind: kind, Command: command}})
	}
	allowed := func(s workflow.Step) workflow.Step {
		s.AllowFailure = true
		return s
	}
	const never = 99
	tests := []struct {
		name   string
		step   workflow.Step
		fails  int // of the original
		ran    []string
		action string
		ok     bool
	}{
		{"nothing said", shellStep("x"), never, []string{"x"}, "stop", false},
		{"stop", action(retry.Stop, ""), never, []string{"x"}, "stop", false},
		{"continue", action(retry.Continue, ""), never, []string{"x"}, "continue", true},
		{"allow_failure", allowed(shellStep("x")), never, []string{"x"}, "continue", true},
		{"fallback", action(retry.Fallback, "other"), never, []string{"x", "other"}, "fallback", true},
		{"fallback fails", action(retry.Fallback, "fail"), never, []string{"x", "fail"}, "fallback", false},
		{"fallback fails and may", allowed(action(retry.Fallback, "fail")), never, []string{"x", "fail"}, "fallback", true},
		{"handler", handler("fix", 0, false), never, []string{"x", "fix"}, "handler", true},
		{"handler fails", handler("fail", 0, false), never, []string{"x", "fail"}, "handler", false},
		{"handler fails and may", allowed(handler("fail", 0, false)), never, []string{"x", "fail"}, "handler", true},
		{"handler does not forgive", handler("fix", 0, true), never, []string{"x", "fix"}, "handler", false},
		{"first round mends", handler("fix", 3, true), 1, []string{"x", "fix", "x"}, "handler", true},
		{"third round mends", handler("fix", 3, true), 3, []string{"x", "fix", "x", "fix", "x", "fix", "x"}, "handler", true},
		{"no round mends", handler("fix", 2, true), never, []string{"x", "fix", "x", "fix", "x"}, "handler", false},
		{"no round mends, the handler forgives", handler("fix", 2, false), never, []string{"x", "fix", "x", "fix", "x"}, "handler", true},
		{"handler of rounds fails", handler("fail", 2, false), 1, []string{"x", "fail", "fail"}, "handler", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{answer: mended(test.fails)}
			o := execute(t, f.executor(), ofItem(test.step))
			same(t, "ran", f.ran(), test.ran)
			if got := o.Failure == nil; got != test.ok {
				t.Errorf("success: got %t, want %t (%+v)", got, test.ok, o.Failure)
			}
			for _, e := range f.events {
				if events.Subject(e) != "item_4" {
					t.Errorf("event about %q, want item_4", events.Subject(e))
				}
			}
			if test.ok || test.action == "stop" {
				same(t, "action", stepFailed(t, &fake{events: f.events[:1]}).Action, test.action)
			}
		})
	}
}

func TestAHandlerThatFailsIsNamedInTheFailure(t *testing.T) {
	s := shellStep("exit 3")
	s.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{shellStep("echo no tools >&2; exit 4")}, MaxAttempts: 2}
	o := execute(t, local(t), ofItem(s))
	same(t, "message", o.Failure.Message, "exit code 3; on_failure: exit code 4: no tools")
	same(t, "exit code", o.Failure.ExitCode, 3)
}

func TestFallbackGivesTheOutputOfTheStep(t *testing.T) {
	s := retried(retry.Policy{OnFailure: retry.FailureAction{Kind: retry.Fallback, Command: "echo instead of ${error.exit_code}"}})
	s.Shell.Value, s.Capture = "echo first; exit 3", "out"
	o := execute(t, local(t), ofItem(s, shellStep("echo got ${out}")))
	same(t, "output", o.Output, "got instead of 3")
}

// The outcome is that of the last command that ran, also when that stands in a handler; variables are about the
// step itself.
func TestAForgivenStepEndsWithWhatItsHandlerDid(t *testing.T) {
	const failing = "echo own; exit 3"
	tests := []struct {
		name, handler string
		rounds        int
		code          int
		output        string
	}{
		{"its handler succeeds", "echo handled", 0, 0, "handled"},
		{"the step runs after it", "echo handled", 1, 3, "own"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := captured("out", failing)
			s.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{shellStep(test.handler)}, MaxAttempts: test.rounds}
			o := execute(t, local(t), ofItem(s))
			if o.Failure != nil || o.ExitCode != test.code || o.Output != test.output {
				t.Errorf("got exit code %d, output %q, failure %v, want %d, %q and none", o.ExitCode, o.Output, o.Failure, test.code, test.output)
			}
			same(t, "captured", string(o.Captured["out"]), `"own"`)
			o = execute(t, local(t), ofItem(s, shellStep("echo ${out} ${last.exit_code}")))
			same(t, "seen later", o.Output, "own 3")
		})
	}
}

func TestHandlersSeeTheErrorAndTheFailedStep(t *testing.T) {
	inner := captured("inner", "printf '%s|' ${error.message} ${error.type} ${error.exit_code} ${error.step} ${error.attempts} ${own} ${shell.stderr} >> \"$FILE\"")
	s := shellStep("echo out; echo bad >&2; exit 3")
	s.ID, s.Capture = "build", "own"
	s.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{inner, shellStep("cat \"$FILE\" >&2")}}
	x := local(t)
	x.Environ = append(x.Environ, "FILE="+t.TempDir()+"/seen")
	o := execute(t, x, ofItem(s, shellStep("cat \"$FILE\"; printf '%s %s' ${shell.output} ${build.exit_code}")))
	same(t, "output", o.Output, "exit code 3: bad|command_failed|3|build|1|out|bad|out 3")
	if _, ok := o.Captured["inner"]; ok {
		t.Error("what a handler captures is seen outside of it")
	}
}

func TestItemHandler(t *testing.T) {
	for _, test := range []struct {
		script  string
		handled bool
	}{{"echo ${error.message} ${item.n} ${error.step}", true}, {"fail ${error.type}", false}} {
		f := &fake{answer: by}
		a := ofItem(shellStep("fail"))
		a.Handler = []workflow.Step{shellStep(test.script)}
		o := execute(t, f.executor(), a)
		if o.Handled != test.handled || o.Failure == nil {
			t.Errorf("%s: got handled %t, failure %+v, want %t and a failure", test.script, o.Handled, o.Failure, test.handled)
		}
		same(t, "commands", len(f.commands), 2)
		same(t, "step", o.Failure.Step, "shell_0")
	}
	f := &fake{answer: by}
	a := ofItem(shellStep("fine"))
	a.Handler = []workflow.Step{shellStep("y")}
	same(t, "handled", execute(t, f.executor(), a).Handled, false)
	same(t, "ran", fmt.Sprint(f.ran()), "[fine]")
}
