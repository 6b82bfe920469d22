package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// exits answers with the exit code that follows the word exit in the script.
func exits(_ int, c process.Command) process.Exit {
	script := c.Argv[len(c.Argv)-1]
	_, _ = c.Stdout.Write([]byte("out of " + script + "\n"))
	if _, code, ok := strings.Cut(script, "exit "); ok {
		n := 0
		for _, digit := range code {
			n = 10*n + int(digit-'0')
		}
		return process.Exit{Code: n}
	}
	return process.Exit{}
}

func with(script string, change func(s *workflow.Step)) workflow.Step {
	s := shellStep(script)
	change(&s)
	return s
}

func TestWhatFollowsAStepDependsOnItsEnd(t *testing.T) {
	one := func(script string) []workflow.Step { return []workflow.Step{shellStep(script)} }
	tests := []struct {
		name string
		step workflow.Step
		ran  []string
		fail string // message; empty: the step is a success or forgiven
		out  string // of the attempt
	}{
		{"success", with("a", func(s *workflow.Step) {
			s.OnSuccess, s.OnExitCode = one("b"), workflow.ExitSteps{0: one("zero"), 1: one("one")}
		}), []string{"a", "zero", "b"}, "", "out of a"},
		{"failure", with("exit 1", func(s *workflow.Step) {
			s.OnSuccess, s.OnExitCode = one("b"), workflow.ExitSteps{0: one("zero"), 2: one("two")}
		}), []string{"exit 1"}, "exit code 1", "out of exit 1"},
		{"an exit code that is handled", with("exit 2", func(s *workflow.Step) {
			s.OnSuccess, s.OnExitCode = one("b"), workflow.ExitSteps{2: one("two")}
			s.OnFailure = &workflow.OnFailure{Steps: one("handler")}
		}), []string{"exit 2", "two"}, "", "out of two"},
		{"after the retries", with("exit 2", func(s *workflow.Step) {
			s.OnExitCode = workflow.ExitSteps{2: one("two")}
			s.Retry = &retry.Policy{Attempts: 3}
		}), []string{"exit 2", "exit 2", "exit 2", "two"}, "", "out of two"},
		{"a handler of an exit code that fails leaves it to on_failure", with("exit 2", func(s *workflow.Step) {
			s.OnExitCode = workflow.ExitSteps{2: one("exit 3")}
			s.OnFailure = &workflow.OnFailure{Steps: one("handler")}
		}), []string{"exit 2", "exit 3", "handler"}, "", "out of handler"},
		{"both fail", with("exit 2", func(s *workflow.Step) {
			s.OnExitCode = workflow.ExitSteps{2: one("exit 3")}
			s.OnFailure = &workflow.OnFailure{Steps: one("exit 4")}
		}), []string{"exit 2", "exit 3", "exit 4"}, "exit code 2; on_exit_code 2: exit code 3; on_failure: exit code 4", "out of exit 2"},
		{"on_success fails", with("a", func(s *workflow.Step) {
			s.OnSuccess, s.OnFailure = one("exit 5"), &workflow.OnFailure{Steps: one("handler")}
		}), []string{"a", "exit 5"}, "exit code 5", "out of a"},
		{"on_success fails where that is allowed", with("a", func(s *workflow.Step) {
			s.OnSuccess, s.AllowFailure = one("exit 5"), true
		}), []string{"a", "exit 5"}, "", "out of a"},
		{"a fallback that succeeds is a success", with("exit 6", func(s *workflow.Step) {
			s.OnSuccess = one("b")
			s.Retry = &retry.Policy{OnFailure: retry.FailureAction{Kind: retry.Fallback, Command: "fallback"}}
		}), []string{"exit 6", "fallback", "b"}, "", "out of fallback"},
		{"a failure that is forgiven is none", with("exit 6", func(s *workflow.Step) {
			s.OnSuccess, s.OnFailure = one("b"), &workflow.OnFailure{Steps: one("handler")}
		}), []string{"exit 6", "handler"}, "", "out of handler"},
		{"skipped", with("a", func(s *workflow.Step) {
			s.When = &workflow.Text{Value: "item.n == 2"}
			s.OnSuccess, s.OnExitCode = one("b"), workflow.ExitSteps{0: one("zero")}
		}), nil, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{answer: exits}
			o := execute(t, f.executor(), ofItem(test.step))
			same(t, "commands", f.ran(), test.ran)
			message := ""
			if o.Failure != nil {
				message = o.Failure.Message
			}
			same(t, "failure and output", []string{message, o.Output}, []string{test.fail, test.out})
		})
	}
}

func TestAfterAHandlerTheStepMaySucceedYet(t *testing.T) {
	step := with("a", func(s *workflow.Step) {
		s.OnSuccess = []workflow.Step{shellStep("b")}
		s.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{shellStep("handler")}, MaxAttempts: 1}
	})
	f := &fake{answer: failing(1, 3)}
	if o := execute(t, f.executor(), ofItem(step)); o.Failure != nil {
		t.Errorf("got %v, want success", o.Failure)
	}
	same(t, "commands", f.ran(), []string{"a", "handler", "a", "b"})
}

func TestASkippedStepLeavesNothing(t *testing.T) {
	skipped := with("never", func(s *workflow.Step) {
		s.ID, s.Capture, s.When = "gone", "got", &workflow.Text{Value: "last.output == 'other'"}
	})
	f := &fake{answer: by}
	o := execute(t, f.executor(), ofItem(shellStep("a"), skipped,
		shellStep("b ${gone.output}|${got}|${gone.success}|${gone.skipped}|${gone.exit_code}|${last.output}|${item.output}")))
	same(t, "environment", valuesOf(f.commands[1]), []string{"", "", "false", "true", "-1", "out of a", "out of a"})
	same(t, "event", f.events, []events.Event{events.StepSkipped{ItemID: "item_4", Phase: "map", Step: "gone", When: "last.output == 'other'"}})
	if len(o.Captured) > 0 {
		t.Errorf("got %v captured, want nothing", o.Captured)
	}
}

// valuesOf returns the values that a command got, in their order.
func valuesOf(c process.Command) []string {
	var values []string
	for _, kv := range c.Env {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "PRODIGY_V") {
			values = append(values, value)
		}
	}
	return values
}

func TestCapturesHaveTheFormatThatWasAskedFor(t *testing.T) {
	tests := []struct {
		format  workflow.CaptureFormat
		output  string
		capture string // as JSON; empty: the step fails
		message string
	}{
		{"", " a ", `" a "`, ""},
		{workflow.FormatString, "5", `"5"`, ""},
		{workflow.FormatJSON, ` {"a": [1]}`, `{"a": [1]}`, ""},
		{workflow.FormatJSON, "{a}", "", `capture_format json: output "{a}" is not JSON`},
		{workflow.FormatJSON, "", "", `capture_format json: output "" is not JSON`},
		{workflow.FormatLines, "", `[]`, ""},
		{workflow.FormatLines, " a\n\nb\"", `[" a","","b\""]`, ""},
		{workflow.FormatNumber, " -1.50e3\n", `-1.50e3`, ""},
		{workflow.FormatNumber, "007", "", `capture_format number: output "007" is not a number`},
		{workflow.FormatNumber, `"5"`, "", `capture_format number: output "\"5\"" is not a number`},
		{workflow.FormatNumber, "null", "", `capture_format number: output "null" is not a number`},
		{workflow.FormatBoolean, "", `true`, ""},
		{workflow.FormatBoolean, "false", `true`, ""},
	}
	for _, test := range tests {
		t.Run(string(test.format)+" "+test.output, func(t *testing.T) {
			f := &fake{answer: func(_ int, c process.Command) process.Exit {
				_, _ = c.Stdout.Write([]byte(test.output))
				return process.Exit{}
			}}
			step := captured("got", "x")
			step.Format = test.format
			o := execute(t, f.executor(), ofItem(step))
			if test.message != "" {
				if o.Failure == nil || o.Failure.Message != test.message || o.Failure.Type != retry.TypeCommandFailed {
					t.Errorf("got %v, want %s", o.Failure, test.message)
				}
				return
			}
			same(t, "captured", o.Captured, map[string]json.RawMessage{"got": json.RawMessage(test.capture)})
		})
	}
}

// What a failed step has captured shows that it failed, for the results of the item and for the steps after a
// failure that is accepted.
func TestCapturesOfFailedSteps(t *testing.T) {
	tests := []struct {
		format         workflow.CaptureFormat
		output         string
		item, accepted string // as JSON
	}{
		{workflow.FormatString, "a", `"a"`, `"a"`},
		{workflow.FormatJSON, "", `null`, `null`},
		{workflow.FormatJSON, `{"a":`, `null`, `null`},
		{workflow.FormatJSON, `{"a":1}`, `null`, `{"a":1}`},
		{workflow.FormatLines, "a\nb", `["a","b"]`, `["a","b"]`},
		{workflow.FormatNumber, "x", `null`, `null`},
		{workflow.FormatNumber, "3", `3`, `3`},
		{workflow.FormatBoolean, "true", `false`, `false`},
	}
	for _, test := range tests {
		t.Run(string(test.format)+" "+test.output, func(t *testing.T) {
			f := &fake{answer: func(_ int, c process.Command) process.Exit {
				_, _ = c.Stdout.Write([]byte(test.output))
				return process.Exit{Code: 3}
			}}
			step := captured("got", "x")
			step.Format = test.format
			same(t, "captured by the item", execute(t, f.executor(), ofItem(step)).Captured, map[string]json.RawMessage{"got": json.RawMessage(test.item)})
			step.AllowFailure = true
			same(t, "captured and accepted", execute(t, f.executor(), ofItem(step)).Captured, map[string]json.RawMessage{"got": json.RawMessage(test.accepted)})
		})
	}
}

// A step that fails after its command has succeeded, or before it ran, has failed in its boolean capture too.
func TestABooleanCaptureIsOfTheStep(t *testing.T) {
	for name, change := range map[string]func(*workflow.Step){
		"no value":  func(s *workflow.Step) { s.Shell.Value = "x ${item.missing}" },
		"no commit": func(s *workflow.Step) { s.CommitRequired = true },
		"not validated": func(s *workflow.Step) {
			s.Validate = &workflow.Validate{Threshold: 100, Commands: []workflow.Step{shellStep("validate")}}
		},
	} {
		f := &fake{answer: func(_ int, c process.Command) process.Exit {
			if strings.Contains(strings.Join(c.Argv, " "), "validate") {
				return process.Exit{Code: 1}
			}
			return process.Exit{}
		}}
		step := captured("got", "x")
		step.Format, step.AllowFailure = workflow.FormatBoolean, true
		change(&step)
		got := execute(t, f.executor(), ofItem(step)).Captured
		same(t, name, got, map[string]json.RawMessage{"got": json.RawMessage("false")})
	}
}

func TestACaptureThatWasCutDoesNotFit(t *testing.T) {
	f := &fake{answer: func(_ int, c process.Command) process.Exit {
		_, _ = c.Stdout.Write([]byte(strings.Repeat("line\n", 1<<19)))
		return process.Exit{}
	}}
	step := captured("got", "x")
	step.Format = workflow.FormatLines
	o := execute(t, f.executor(), ofItem(step))
	if o.Failure == nil || !strings.Contains(o.Failure.Message, "the output (2621440 bytes) exceeds the limit for captures") {
		t.Errorf("got %v, want a failure that tells of the size", o.Failure)
	}
}

func TestCapturedFieldsComeBackFromTheLog(t *testing.T) {
	f := &fake{answer: by}
	a := ofItem(shellStep("x ${conf.list[1].a} ${conf.success} ${got} ${bad.success} ${not.output}|${not.skipped}"))
	a.Phase = phaseReduce
	a.Earlier = []events.StepCompleted{
		{Phase: "setup", Capture: "conf", CaptureFormat: "json", Output: `{"list":[0,{"a":"$(b)"}]}`},
		{Phase: "setup", Capture: "got", CaptureFormat: "lines", Output: "1\n2"},
		{Phase: "setup", Capture: "bad", Failed: true},
		{Phase: "setup", Capture: "not", Skipped: true, ExitCode: -1},
	}
	if o := execute(t, f.executor(), a); o.Failure != nil {
		t.Fatalf("got %v, want success", o.Failure)
	}
	same(t, "values", valuesOf(f.commands[0]), []string{"$(b)", "true", `["1","2"]`, "false", "", "true"})
}

func TestDevicesAndDescriptorsAreNotReplaced(t *testing.T) {
	for path, want := range map[string]bool{
		"/dev/stdout": false, "/dev/fd/1": false, "/dev/null": false, "/proc/self/fd/1": false, "/": false,
		"/dev/shm/none/x": true, filepath.Join(t.TempDir(), "none"): true,
	} {
		if got := replaceable(path); got != want {
			t.Errorf("%s: got %t, want %t", path, got, want)
		}
	}
}

func TestOutputFilesHoldTheWholeOutput(t *testing.T) {
	dir := t.TempDir()
	run := func(script, path string, change func(*workflow.Step)) Outcome {
		a := ofItem(with(script, func(s *workflow.Step) {
			s.OutputFile = &workflow.Text{Value: path}
			change(s)
		}))
		a.Dir, a.Item = dir, json.RawMessage(`{"up":"../x","abs":"/x","deep":"b/c","n":1}`)
		return execute(t, local(t), a)
	}
	nothing := func(*workflow.Step) {}
	read := func(path string) string {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}

	big := run("yes 0123456789abcde | head -c 5000000; printf end", "a/big.txt", nothing)
	if got := read("a/big.txt"); len(got) != 5000003 || !strings.HasSuffix(got, "end") || len(big.Output) > 2<<20 {
		t.Errorf("got %d bytes in the file and %d kept", len(got), len(big.Output))
	}
	run("echo short", "a/big.txt", nothing)
	same(t, "after it was written again", read("a/big.txt"), "short\n")

	run(`echo try "$(wc -l < tries)"; echo >> tries; [ "$(wc -l < tries)" -ge 3 ]`, "tried.txt", func(s *workflow.Step) {
		s.Retry = &retry.Policy{Attempts: 5}
		s.Shell.Value = "touch tries; " + s.Shell.Value
	})
	same(t, "of the last try", strings.TrimSpace(read("tried.txt")), "try 2")

	for name, script := range map[string]string{"exit": "echo no; exit 1", "signal": "echo no; kill -9 $$", "format": "echo no", "nothing": "false"} {
		for _, path := range []string{"tried.txt", "none.txt", "sub/${item.n}.txt"} {
			o := run(script, path, func(s *workflow.Step) {
				if name == "format" {
					s.Capture, s.Format = "got", workflow.FormatJSON
				}
			})
			if o.Failure == nil {
				t.Errorf("%s: got no failure", name)
			}
		}
	}
	same(t, "after failures", strings.TrimSpace(read("tried.txt")), "try 2")
	for _, dir := range []string{dir, filepath.Join(dir, "sub")} {
		if left, _ := filepath.Glob(filepath.Join(dir, ".prodigy-*")); len(left) > 0 {
			t.Errorf("got %v left behind", left)
		}
	}
	for _, path := range []string{"none.txt", "sub/1.txt"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s was made by a step that failed", path)
		}
	}

	if err := os.Symlink("tried.txt", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "tried.txt"), 0o640); err != nil {
		t.Fatal(err)
	}
	run("echo through", "link.txt", nothing)
	same(t, "through a link", read("tried.txt"), "through\n")
	if info, err := os.Stat(filepath.Join(dir, "tried.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got %v, %v, want the permissions that it had", info, err)
	}

	for _, path := range []string{"sub/${item.deep}.txt", "${item.deep}.txt"} {
		if o := run("echo deep", path, nothing); o.Failure != nil {
			t.Errorf("%s: got %v, want success", path, o.Failure)
		}
	}
	same(t, "below", read("sub/b/c.txt")+read("b/c.txt"), "deep\ndeep\n")

	refused := map[string]string{
		"${item.up}":             "../x: a value points outside the directory " + dir,
		"sub/${item.up}/../../y": "a value points outside the directory " + dir + "/sub",
		"${item.abs}":            "/x: a value points outside the directory " + dir,
		"${item.missing}":        "has no value for this item",
		"${item.missing:-}":      `"" is not a path`,
		"sub":                    "is a directory",
	}
	for path, want := range refused {
		o := run("echo ran > ran.txt", path, nothing)
		if o.Failure == nil || !strings.HasPrefix(o.Failure.Message, "output_file: ") || !strings.Contains(o.Failure.Message, want) {
			t.Errorf("%s: got %v, want %s", path, o.Failure, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran.txt")); err == nil {
		t.Error("a step ran whose output had no place")
	}
}

func TestAnOutputFileThatCannotBeWrittenFailsTheStep(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	step := with("echo out; exit 0", func(s *workflow.Step) { s.OutputFile = &workflow.Text{Value: "/dev/full"} })
	o := execute(t, local(t), ofItem(step))
	if o.Failure == nil || !strings.Contains(o.Failure.Message, "no space left on device") || o.Output != "out" {
		t.Errorf("got %v and output %q, want a failure that tells of the disk, and the output", o.Failure, o.Output)
	}
}

func TestInterpretersGetTheScriptAsTheyTakeIt(t *testing.T) {
	long := "# " + strings.Repeat("x", 130<<10) + " ${item.n}"
	tests := []struct {
		interpreter []string
		script      string
		argv        []string // "script" stands for the script, "file" for a path
	}{
		{[]string{"bash", "-c"}, "echo ${item.n}", []string{"bash", "-c", `echo "${PRODIGY_V0}"`}},
		{[]string{"/bin/bash", "-eu", "-c"}, "echo ${item.n}", []string{"/bin/bash", "-eu", "-c", `echo "${PRODIGY_V0}"`}},
		{[]string{"bash", "-c"}, long, []string{"bash", "file"}},
		{[]string{"bash", "-euc"}, long, []string{"bash", "-eu", "file"}},
		{[]string{"python3", "-c"}, "print('$${item.n} ${other.name} $item')", []string{"python3", "-c", "print('${item.n} ${other.name} $item')"}},
		{[]string{"python3", "-c"}, strings.ReplaceAll(long, "${item.n}", ""), []string{"python3", "file"}},
	}
	for _, test := range tests {
		f := &fake{answer: by}
		step := with(test.script, func(s *workflow.Step) { s.Interpreter = test.interpreter })
		if o := execute(t, f.executor(), ofItem(step)); o.Failure != nil {
			t.Errorf("%v: got %v, want success", test.interpreter, o.Failure)
			continue
		}
		got := f.commands[0].Argv
		if strings.Contains(got[len(got)-1], "script-") {
			got[len(got)-1] = "file"
		}
		same(t, strings.Join(test.interpreter, " "), got, test.argv)
	}
}

func TestValuesAreRefusedInCodeThatCannotHoldThem(t *testing.T) {
	for _, interpreter := range [][]string{{"python3", "-c"}, {"bash", "-x"}, {"ssh", "host"}, {"env", "bash", "-c"}, {"bash", "--", "-c"}, {"bash"}} {
		step := at(3, with("x ${item.n}", func(s *workflow.Step) { s.Interpreter = interpreter }))
		w := &workflow.Workflow{File: "f.yml", Mode: workflow.MapReduce, Map: &workflow.Map{AgentTemplate: []workflow.Step{step}}}
		problems, _ := Check(w)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "f.yml:3:12: PS030 ${item.n} cannot be inserted into ") {
			t.Errorf("%v: got %v, want PS030 at its place", interpreter, problems)
		}
	}
}

func TestConditionsAreCheckedBeforeAnythingRuns(t *testing.T) {
	tests := []struct{ when, want string }{
		{"item.n ==", "f.yml:5:9: when: expected a field, value or \"(\", got the end"},
		{"itm.n == 1", "f.yml:5:9: PS004 unknown value ${itm.n} (did you mean ${item.n}?)"},
		{"item.n == 1 && ${other.x}", "f.yml:5:24: PS004 unknown value ${other.x}"},
		{"nobody", "f.yml:5:9: PS004 unknown value ${nobody}"},
		{"last.sucess", "f.yml:5:9: PS004 unknown value ${last.sucess} (did you mean ${last.success}?)"},
		{"'a ${item.n%x}' == 1", "f.yml:5:9: PS002 "},
	}
	for _, test := range tests {
		step := at(3, with("x", func(s *workflow.Step) { s.When = &workflow.Text{Value: test.when, Pos: workflow.Pos{Line: 5, Col: 9}} }))
		w := &workflow.Workflow{File: "f.yml", Mode: workflow.MapReduce, Map: &workflow.Map{AgentTemplate: []workflow.Step{step}}}
		if problems, _ := Check(w); len(problems) != 1 || !strings.HasPrefix(problems[0].String(), test.want) {
			t.Errorf("%s: got %v, want %s", test.when, problems, test.want)
		}
	}
}
