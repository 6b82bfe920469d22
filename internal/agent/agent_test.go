package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// shellStep returns a shell step.
func shellStep(script string) workflow.Step {
	return workflow.Step{Shell: &workflow.Text{Value: script, Pos: workflow.Pos{Line: 1, Col: 1}}}
}

func captured(name, script string) workflow.Step {
	s := shellStep(script)
	s.Capture = name
	return s
}

// ofItem returns an attempt of the item {"n":1}.
func ofItem(steps ...workflow.Step) Attempt {
	return Attempt{
		ID: "job/item_4/2", JobID: "job", Workflow: "wf", CorrelationID: "job/item_4", Phase: phaseMap,
		Assignment: Assignment{
			ItemID: "item_4", ItemIndex: 4, ItemTotal: 9, Item: json.RawMessage(`{"n":1}`),
			Number: 2,
		},
		Worker: 3, Steps: steps,
	}
}

// fake is a Runner that answers without running anything, and the events of the executor that uses it.
type fake struct {
	answer func(call int, c process.Command) process.Exit

	mu       sync.Mutex
	commands []process.Command
	events   []events.Event
}

func (f *fake) run(_ context.Context, c process.Command) (process.Exit, error) {
	f.mu.Lock()
	f.commands = append(f.commands, c)
	n := len(f.commands)
	f.mu.Unlock()
	return f.answer(n, c), nil
}

func (f *fake) executor() *Executor {
	h := &fakeHost{emit: func(e events.Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, e)
	}}
	h.Told = h.tell
	return New(Config{Run: f.run, Claude: []string{"claude", "--print"}}, h)
}

// fakeHost is a host whose calls tests look at. Functions that are nil do what no job does.
type fakeHost struct {
	noJob
	emit     func(events.Event)
	pause    func(a *Attempt, d time.Duration, keepSlot bool) (slot int)
	lowered  func(most int, why error)
	register *process.Register
}

// Emit also checks that a coordinator of a fleet would record the event as it is.
func (h *fakeHost) Emit(a *Attempt, e events.Event) {
	if a.Phase == phaseMap {
		got, ok := events.Within(e, events.Attempt{ItemID: a.ItemID, ItemIndex: a.ItemIndex, Phase: a.Phase, Attempt: a.Number})
		if !ok || !reflect.DeepEqual(got, e) {
			panic(fmt.Sprintf("BUG: from a worker %+v would be recorded as %+v, %v: see events.Within", e, got, ok))
		}
	}
	h.tell(e)
}

func (h *fakeHost) Register() *process.Register { return h.register }

func (h *fakeHost) tell(e events.Event) {
	if h.emit != nil {
		h.emit(e)
	}
}

func (h *fakeHost) Lowered(most int, why error) {
	if h.lowered != nil {
		h.lowered(most, why)
	}
}

func (h *fakeHost) Pause(ctx context.Context, a *Attempt, d time.Duration, keepSlot bool) (int, error) {
	if h.pause != nil {
		return h.pause(a, d, keepSlot), nil
	}
	return h.noJob.Pause(ctx, a, d, keepSlot)
}

// ran returns the last argument of each command that ran.
func (f *fake) ran() []string {
	var scripts []string
	for _, c := range f.commands {
		scripts = append(scripts, c.Argv[len(c.Argv)-1])
	}
	return scripts
}

// by answers with what the words of the script say: fail exits with 1, err:x prints x to stderr, anything else
// succeeds.
func by(_ int, c process.Command) process.Exit {
	script := c.Argv[len(c.Argv)-1]
	_, _ = fmt.Fprintln(c.Stdout, "out of "+script)
	if strings.Contains(script, "fail") {
		_, _ = fmt.Fprintln(c.Stderr, "it failed")
		return process.Exit{Code: 1}
	}
	return process.Exit{}
}

// failing answers with code to the first n calls, and then succeeds.
func failing(n, code int) func(int, process.Command) process.Exit {
	return func(call int, _ process.Command) process.Exit {
		if call <= n {
			return process.Exit{Code: code}
		}
		return process.Exit{}
	}
}

func execute(t *testing.T, x *Executor, a Attempt) Outcome {
	t.Helper()
	o, err := x.Execute(t.Context(), a)
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	return o
}

func same(t *testing.T, what string, got, want any, o ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(got, want, o...); diff != "" {
		t.Errorf("%s: got -, want +:\n%s", what, diff)
	}
}

// local returns an executor that runs commands for real.
func local(t *testing.T) *Executor {
	return New(Config{Run: process.Run, Environ: os.Environ(), TempDir: t.TempDir(), Grace: time.Second}, new(noJob))
}

func TestOutcomeTellsHowTheCommandEnded(t *testing.T) {
	tests := []struct {
		name   string
		exit   process.Exit
		stderr string
		want   retry.Failure
	}{
		{"exit code", process.Exit{Code: 3}, "", retry.Failure{Type: retry.TypeCommandFailed, Message: "exit code 3", ExitCode: 3}},
		{"stderr", process.Exit{Code: 3}, "a\nb  \n\n", retry.Failure{Type: retry.TypeCommandFailed, Message: "exit code 3: b", Stderr: "a\nb  \n\n", ExitCode: 3}},
		{"type", process.Exit{Code: 7}, "connection refused", retry.Failure{Type: retry.TypeNetwork, Message: "exit code 7: connection refused", Stderr: "connection refused", ExitCode: 7, Rule: `"connection refused"`}},
		{"timeout", process.Exit{TimedOut: true, Signal: "SIGTERM", Code: -1}, "", retry.Failure{Type: retry.TypeTimeout, Message: "timed out after 5s", ExitCode: -1, Signal: "SIGTERM", TimedOut: true}},
		{"signal", process.Exit{Signal: "SIGKILL", Code: -1}, "", retry.Failure{Type: retry.TypeKilled, Message: "killed by SIGKILL", ExitCode: -1, Signal: "SIGKILL"}},
		{
			"not found",
			process.Exit{Start: fmt.Errorf("%w: foo", process.ErrNotFound)},
			"",
			retry.Failure{Type: retry.TypeCommandNotFound, Message: "command not found: foo", ExitCode: 127},
		},
		{
			"not executable",
			process.Exit{Start: fmt.Errorf("%w: foo", process.ErrNotExecutable)},
			"",
			retry.Failure{Type: retry.TypePermission, Message: "not executable: foo", ExitCode: 126},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{answer: func(_ int, c process.Command) process.Exit {
				_, _ = io.WriteString(c.Stderr, test.stderr)
				return test.exit
			}}
			s := shellStep("x")
			s.Timeout = 5 * time.Second
			o := execute(t, f.executor(), ofItem(s))
			same(t, "failure", o.Failure, &Failure{Failure: test.want, Step: "shell_0"})
			same(t, "exit code", o.ExitCode, test.want.ExitCode)
		})
	}
}

func TestOutcomeHoldsTheOutputOfTheLastStepThatRan(t *testing.T) {
	f := &fake{answer: by}
	o := execute(t, f.executor(), ofItem(captured("one", "one <b>"), captured("two", "fail"), shellStep("never")))
	same(t, "ran", f.ran(), []string{"one <b>", "fail"})
	same(t, "output", o.Output, "out of fail")
	same(t, "captured", o.Captured, map[string]json.RawMessage{"one": json.RawMessage(`"out of one <b>"`), "two": json.RawMessage(`"out of fail"`)})
	same(t, "step", o.Failure.Step, "shell_1")
}

func TestStepsSeeTheNamesOfTheirPlace(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"item field", "printf %s ${item.n}", "1"},
		{"item", "printf %s ${item}", `{"n":1}`},
		{"item id", "printf '%s %s %s' ${item_id} ${item_index} ${item_total}", "item_4 4 9"},
		{"attempt", "printf '%s %s' ${attempt} ${worker.id}", "2 3"},
		{"job", "printf '%s %s' ${workflow.name} ${job.id}", "wf job"},
		{"capture", "printf %s ${first}", "it's  one"},
		{"capture by the shell", `printf %s "$first"`, "it's  one"},
		{"fields of a capture", "printf '%s %s %s' ${first.exit_code} ${first.success} ${first.stderr}", "0 true oh"},
		{"shell", "printf %s ${shell.output}", "three"},
		{"last", "printf '%s %s' ${last.output} ${last.exit_code}", "three 4"},
		{"id", "printf '%s %s' ${second.output} ${second.success}", "three false"},
		{"output of the item", "printf %s ${item.output}", "three"},
		{"environment", "printf '%s %s' ${GREETING} ${env.GREETING}", "hello hello"},
		{"environment of the step", `printf "%s %s" ${OWN} "$OWN"`, "hello 1 hello 1"},
		{"inherited", "printf %s ${env.OUTER}", "inherited"},
		{"the shell's own", "printf %s ${OUTER}", "inherited"},
	}
	first := captured("first", `echo "it's  one"; echo oh >&2; echo; echo`)
	second := shellStep("echo three; exit 4")
	second.ID, second.AllowFailure = "second", true
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := shellStep(test.script)
			s.Env = []workflow.EnvVar{{Name: "OWN", Value: workflow.Text{Value: "${env.GREETING} ${item.n}"}}}
			a := ofItem(first, second, s)
			a.Env = []workflow.EnvVar{{Name: "GREETING", Value: workflow.Text{Value: "hello"}}}
			x := local(t)
			x.Environ = append(x.Environ, "OUTER=inherited")
			o := execute(t, x, a)
			if o.Failure != nil {
				t.Fatalf("got failure %+v, want none", o.Failure)
			}
			same(t, "output", o.Output, test.want)
		})
	}
}

func TestUnknownTotalLeavesRoomForADefault(t *testing.T) {
	a := ofItem(shellStep("printf %s ${item_total:-unknown}"))
	a.ItemTotal = 0
	same(t, "output", execute(t, local(t), a).Output, "unknown")
}

func TestReduceSeesTheMapPhase(t *testing.T) {
	file := t.TempDir() + "/results.jsonl"
	if err := os.WriteFile(file, []byte("{\"item_id\":\"a\"}\n{\"item_id\":\"b\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ script, want string }{
		{"printf '%s %s %s %s' ${map.total} ${map.successful} ${map.failed} ${map.skipped}", "4 2 1 1"},
		{"printf '%s %s' ${map.failure_rate} ${map.duration}", "0.25 1m12.3s"},
		{"printf %s ${map.duration_ms}", "72300"},
		{"printf %s ${map.results}", `[{"item_id":"a"},{"item_id":"b"}]`},
		{"printf %s ${map.results[1].item_id}", "b"},
		{"cat ${map.results_file}", "{\"item_id\":\"a\"}\n{\"item_id\":\"b\"}"},
		{"printf %s ${early}", "before"},
	}
	for _, test := range tests {
		a := Attempt{JobID: "job", Phase: phaseReduce, Steps: []workflow.Step{shellStep(test.script)}}
		a.Earlier = []events.StepCompleted{{Phase: "setup", Capture: "early", Output: "before"}}
		a.Map = &MapResult{Total: 4, Successful: 2, Failed: 1, Skipped: 1, FailureRate: 0.25, Duration: 72300 * time.Millisecond, ResultsFile: file}
		o := execute(t, local(t), a)
		if o.Failure != nil {
			t.Errorf("%s: got failure %q, want none", test.script, o.Failure.Message)
		}
		same(t, test.script, o.Output, test.want)
	}
}

func TestResultsThatCannotBeReadAreNoFailureOfTheStep(t *testing.T) {
	a := Attempt{Phase: phaseReduce, Steps: []workflow.Step{shellStep("echo ${map.results}")}, Map: &MapResult{ResultsFile: t.TempDir() + "/none"}}
	if _, err := local(t).Execute(t.Context(), a); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

func TestMissingValueFailsTheStepBeforeItRuns(t *testing.T) {
	own := shellStep("echo ${OWN}")
	own.Env = []workflow.EnvVar{{Name: "OWN", Value: workflow.Text{Value: "${item.missing}"}}}
	for _, s := range []workflow.Step{shellStep("echo ${item.missing}"), own} {
		f := &fake{answer: by}
		s.Retry = &retry.Policy{Attempts: 3, InitialDelay: time.Hour}
		o := execute(t, f.executor(), ofItem(s))
		same(t, "ran", f.ran(), []string(nil))
		if o.Failure == nil || o.Failure.Type != retry.TypeTemplate || !strings.Contains(o.Failure.Message, "item.missing") {
			t.Errorf("got failure %+v, want one of type template that names item.missing", o.Failure)
		}
		same(t, "exit code", o.ExitCode, -1)
	}
}

func TestAPromptIsNeverAnOption(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		text    string // of the item
		argv    []string
		input   string
		failure string // what the message of the failure holds; empty: there is none
	}{
		{"claude", []string{"claude", "--print"}, `/fix "a" $HOME`, []string{"claude", "--print"}, `/fix "a" $HOME`, ""},
		{"an option for claude", []string{"claude", "--print"}, "--version", []string{"claude", "--print"}, "--version", ""},
		{"claude at a path", []string{"/opt/bin/claude"}, "-p", []string{"/opt/bin/claude"}, "-p", ""},
		{"claude of Windows", []string{"claude.exe"}, "-p", []string{"claude.exe"}, "-p", ""},
		{"NUL for claude", []string{"claude"}, "a\x00b", nil, "", "NUL"},
		{"another", []string{"my claude", "--print"}, `/fix "a"`, []string{"my claude", "--print", `/fix "a"`}, "", ""},
		{"an option for another", []string{"codex", "exec"}, "--version", nil, "", "the prompt starts with a dash"},
		{"a dash for another", []string{"codex", "exec"}, "-", nil, "", "the prompt starts with a dash"},
		{"a dash behind a blank", []string{"codex", "exec"}, " -v", []string{"codex", "exec", " -v"}, "", ""},
		{"NUL for another", []string{"codex", "exec"}, "a\x00b", nil, "", "NUL"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{answer: by}
			x := f.executor()
			x.Claude = test.command
			a := ofItem(workflow.Step{
				Claude: &workflow.Text{Value: "${item}"}, Retry: &retry.Policy{Attempts: 3, InitialDelay: time.Hour},
			})
			a.Item = rawjson.Of(test.text)
			o := execute(t, x, a)
			if test.failure != "" {
				if o.Failure == nil || o.Failure.Type != retry.TypeTemplate || !strings.Contains(o.Failure.Message, test.failure) {
					t.Errorf("got failure %+v, want one of type template with %q", o.Failure, test.failure)
				}
				same(t, "runs", len(f.commands), 0)
				return
			}
			same(t, "failure", o.Failure, (*Failure)(nil))
			same(t, "argv", f.commands[0].Argv, test.argv)
			same(t, "input", f.commands[0].Input, test.input)
			same(t, "all of its processes end with it", f.commands[0].EndAll, true)
		})
	}
}

func TestWorkingDirStartsAtTheDirectoryOfTheAttempt(t *testing.T) {
	for given, want := range map[string]string{"sub/${item.n}": "/base/sub/1", "/abs": "/abs", "": "/base"} {
		f := &fake{answer: by}
		s := shellStep("x")
		if given != "" {
			s.WorkingDir = &workflow.Text{Value: given}
		}
		a := ofItem(s)
		a.Dir = "/base"
		execute(t, f.executor(), a)
		same(t, given, f.commands[0].Dir, want)
	}
}

func TestCompletedStepsAreTold(t *testing.T) {
	f := &fake{answer: by}
	forgiven := captured("two", "fail")
	forgiven.AllowFailure = true
	x := f.executor()
	execute(t, x, Attempt{Phase: "setup", Steps: []workflow.Step{captured("one", "one"), forgiven}})
	var got []events.StepCompleted
	for _, e := range f.events {
		if c, ok := e.(events.StepCompleted); ok {
			got = append(got, c)
		}
	}
	same(t, "events", got, []events.StepCompleted{
		{Phase: "setup", Step: "shell_0", Kind: "shell", Capture: "one", Output: "out of one"},
		{Phase: "setup", Step: "shell_1", StepIndex: 1, Kind: "shell", Capture: "two", ExitCode: 1, Output: "out of fail", Stderr: "it failed", Failed: true},
	})

	f.events = nil
	execute(t, x, ofItem(shellStep("one")))
	same(t, "events of an agent", f.events, []events.Event(nil))
}

func TestDoneStepsAreNotRunAgainAndStaySeen(t *testing.T) {
	x := local(t)
	steps := []workflow.Step{captured("one", "exit 1"), shellStep("printf '%s %s' ${one} ${shell.exit_code}")}
	a := Attempt{Phase: "setup", Steps: steps, Done: []events.StepCompleted{{Kind: "shell", Capture: "one", Output: "before", ExitCode: 5}}}
	same(t, "output", execute(t, x, a).Output, "before 5")
}

func TestProgressIsToldOnlyWhenAskedFor(t *testing.T) {
	f := &fake{answer: by}
	x := f.executor()
	x.LogSteps = true
	execute(t, x, ofItem(shellStep("one"), shellStep("two")))
	same(t, "events", f.events, []events.Event{
		events.AgentProgress{ItemID: "item_4", Step: "shell_0", StepIndex: 0, Steps: 2},
		events.AgentProgress{ItemID: "item_4", Step: "shell_1", StepIndex: 1, Steps: 2},
	})
}

func TestAttemptSurvivesJSON(t *testing.T) {
	s := captured("one", "echo ${item.n}; exit 3")
	s.Retry = &retry.Policy{Attempts: 2, RetryOn: []retry.Matcher{{ExitCodes: []int{3}}}}
	each := forEach(1)
	each.Foreach.Input.List = []workflow.Element{{JSON: []byte(`{"a": "<&>"}`)}}
	a := ofItem(s, each)
	a.Item = json.RawMessage("{\"n\": \"<&>\u2028\", \"m\" : 1.0}")
	a.Env = []workflow.EnvVar{{Name: "A", Value: workflow.Text{Value: "<\xff\x00\ufffd>"}}}
	a.Args = []workflow.Argument{{Name: "p", Value: []byte(`[1, "<"]`)}, {Name: "none"}}
	a.SetSpec()
	b := afterJSON(t, a)
	same(t, "attempt", b, a)
	here, there := execute(t, local(t), a), execute(t, local(t), b)
	here.Duration, there.Duration = 0, 0
	same(t, "outcome", there, here)
}

// afterJSON returns v encoded as JSON and decoded again.
func afterJSON[T any](t *testing.T, v T) T {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var after T
	if err := json.Unmarshal(data, &after); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return after
}

func TestOutcomeSurvivesJSON(t *testing.T) {
	for _, o := range []Outcome{
		{},
		{
			ItemOutput: events.ItemOutput{
				Output:   "<\xff>\ufffd",
				Captured: map[string]json.RawMessage{"a": json.RawMessage(`{"b": "<"}`)},
			},
			ExitCode: -1, Duration: time.Second,
		},
		{Handled: true, Failure: &Failure{Step: "s", Failure: retry.Failure{
			Type: retry.TypeTimeout, Message: "<é>", Stdout: "o", Stderr: "e", ExitCode: 3, Signal: "SIGKILL", TimedOut: true, Exact: true,
		}}},
	} {
		same(t, "outcome", afterJSON(t, o), o)
	}
}

// Whatever can be written in a workflow can be sent.
func TestStepsOfAllWorkflowsSurviveJSON(t *testing.T) {
	files := 0
	for _, pattern := range []string{"../../examples/*/*.yml", "../workflow/testdata/valid/*.yml", "../../testdata/workflows/*.yml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := workflow.Parse(path, source, workflow.ParseOptions{})
			if err != nil {
				continue // one that shows what is refused
			}
			files++
			a := Attempt{Env: w.Env, Steps: w.Commands}
			for _, p := range []*workflow.Phase{w.Setup, w.Reduce, w.Merge} {
				if p != nil {
					a.Steps = append(a.Steps, p.Commands...)
				}
			}
			if w.Map != nil {
				a.Steps = append(a.Steps, w.Map.AgentTemplate...)
			}
			for _, name := range slices.Sorted(maps.Keys(w.Handlers)) {
				a.Handler = append(a.Handler, w.Handlers[name]...)
			}
			same(t, path, afterJSON(t, a), a)
		}
	}
	if files < 50 {
		t.Errorf("got %d workflows, want 50 or more", files)
	}
}

func TestEachCommandIsRegistered(t *testing.T) {
	f := &fake{answer: by}
	register := new(process.Register)
	x := New(Config{Run: f.run}, &fakeHost{register: register})
	execute(t, x, ofItem(shellStep("work"), shellStep("more")))
	for _, c := range f.commands {
		if c.Register != register {
			t.Errorf("got register %p, want %p", c.Register, register)
		}
	}
}
