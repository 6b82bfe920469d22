package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// at returns s with its text on a line.
func at(line int, s workflow.Step) workflow.Step {
	s.Pos = workflow.Pos{Line: line, Col: 3}
	s.Shell.Pos = workflow.Pos{Line: line, Col: 10}
	return s
}

func TestCheckKnowsTheNamesOfEachPlace(t *testing.T) {
	handled := at(21, shellStep("x ${own.output}"))
	handled.ID, handled.Capture = "own", "mine"
	handled.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{at(22, shellStep("x ${error.message} ${mine}"))}}
	good := &workflow.Workflow{
		File: "f.yml", Mode: workflow.MapReduce,
		Env:      []workflow.EnvVar{{Name: "E", Value: workflow.Text{Value: "v"}}},
		Setup:    &workflow.Phase{Commands: []workflow.Step{captured("early", "x ${E} ${env.HOME} ${job.id}")}},
		Map:      &workflow.Map{AgentTemplate: []workflow.Step{captured("mid", "x ${item.a} ${early.output}"), shellStep("x ${mid.exit_code} ${worker.id}")}},
		Reduce:   &workflow.Phase{Commands: []workflow.Step{captured("late", "x ${map.total} ${early.output}")}},
		Merge:    &workflow.Phase{Commands: []workflow.Step{shellStep("x ${map.results_file} ${late.success}")}},
		Handlers: map[string][]workflow.Step{"h": {shellStep("x ${error.type} ${mid.output} ${item.b}")}},
	}
	if problems, _ := Check(good); len(problems) > 0 {
		t.Errorf("got problems %v, want none", problems)
	}

	tests := []struct {
		name string
		put  func(w *workflow.Workflow, s workflow.Step)
		text string
		bad  string
	}{
		{"item in setup", inSetup, "x ${item.a}", "item"},
		{"map in setup", inSetup, "x ${map.total}", "map"},
		{"error outside of handlers", inMap, "x ${error.type}", "error"},
		{"map in an agent", inMap, "x ${map.total}", "map"},
		{"capture of a later step", inMap, "x ${mid.output}", "mid"},
		{"capture of an agent in reduce", inReduce, "x ${mid.output}", "mid"},
		{"item in reduce", inReduce, "x ${item.a}", "item"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := *good
			test.put(&w, at(7, shellStep(test.text)))
			problems, _ := Check(&w)
			if len(problems) != 1 {
				t.Fatalf("got problems %v, want one", problems)
			}
			p := problems[0]
			if p.File != "f.yml" || p.Line != 7 || p.Col != 12 || !strings.HasPrefix(p.Message, "PS004 ") || !strings.Contains(p.Message, test.bad) {
				t.Errorf("got %s, want PS004 about %s at f.yml:7:12", p, test.bad)
			}
		})
	}
}

// The step is put in front of the others of its phase.
func inSetup(w *workflow.Workflow, s workflow.Step) { w.Setup = before(w.Setup, s) }

func inReduce(w *workflow.Workflow, s workflow.Step) { w.Reduce = before(w.Reduce, s) }

func inMap(w *workflow.Workflow, s workflow.Step) {
	w.Map = &workflow.Map{AgentTemplate: append([]workflow.Step{s}, w.Map.AgentTemplate...)}
}

func before(p *workflow.Phase, s workflow.Step) *workflow.Phase {
	return &workflow.Phase{Commands: append([]workflow.Step{s}, p.Commands...)}
}

func TestCheckLooksIntoAllTexts(t *testing.T) {
	bad := "${wrkflow.name}"
	env := at(1, shellStep("x"))
	env.Env = []workflow.EnvVar{{Name: "A", Value: workflow.Text{Value: bad, Pos: workflow.Pos{Line: 1, Col: 5}}}}
	dir := at(2, shellStep("x"))
	dir.WorkingDir = &workflow.Text{Value: bad, Pos: workflow.Pos{Line: 2, Col: 5}}
	fallback := at(3, retried(retry.Policy{OnFailure: retry.FailureAction{Kind: retry.Fallback, Command: "x " + bad}}))
	handler := at(4, shellStep("x"))
	handler.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{at(5, shellStep("x "+bad))}}
	name := at(6, captured("LD_PRELOAD", "x"))
	prompt := workflow.Step{Claude: &workflow.Text{Value: bad, Pos: workflow.Pos{Line: 7, Col: 5}}}
	w := &workflow.Workflow{File: "f.yml", Mode: workflow.Standard, Commands: []workflow.Step{env, dir, fallback, handler, name, prompt}}
	w.Env = []workflow.EnvVar{{Name: "B", Value: workflow.Text{Value: bad, Pos: workflow.Pos{Line: 8, Col: 5}}}}
	w.Handlers = map[string][]workflow.Step{"h": {at(9, shellStep("x "+bad))}}
	problems, _ := Check(w)
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	same(t, "lines", lines, []int{1, 2, 3, 5, 6, 7, 8, 9})
}

func TestCheckRefusesVariablesThatProdigySets(t *testing.T) {
	s := shellStep("x")
	for i, name := range []string{"PRODIGY_ITEM", "PRODIGY_HOME", "ITEM", "PRODIGY_JOB_ID"} {
		s.Env = append(s.Env, workflow.EnvVar{Name: name, Value: workflow.Text{Value: "1", Pos: workflow.Pos{Line: i + 1, Col: 5}}})
	}
	problems, _ := Check(&workflow.Workflow{File: "f.yml", Commands: []workflow.Step{s}})
	var places []string
	for _, p := range problems {
		places = append(places, fmt.Sprintf("%d:%d %.5s", p.Line, p.Col, p.Message))
	}
	same(t, "problems", places, []string{"1:5 PS032", "4:5 PS032"})
}

func TestCheckWarns(t *testing.T) {
	w := &workflow.Workflow{File: "f.yml", Commands: []workflow.Step{captured("v", "x"), at(2, shellStep("echo ${v|raw}"))}}
	problems, warnings := Check(w)
	if len(problems) > 0 || len(warnings) != 1 || warnings[0].Line != 2 || !strings.HasPrefix(warnings[0].Message, "PS106 ") {
		t.Errorf("got problems %v, warnings %v, want the warning PS106 in line 2", problems, warnings)
	}
}

func TestRenderShowsTheCommandsWithTheirValues(t *testing.T) {
	a := ofItem(shellStep("echo ${item.n} ${E} ${item_id} ${shell.output}"), workflow.Step{Claude: &workflow.Text{Value: "/fix ${item.n}"}})
	a.Env = []workflow.EnvVar{{Name: "E", Value: workflow.Text{Value: "it's"}}}
	got, err := Render(a, false)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "commands", got, []string{`echo 1 'it'\''s' item_4 ${shell.output}`, "/fix 1"})

	if _, err := Render(ofItem(shellStep("echo ${nothing.at.all}")), false); err == nil {
		t.Error("got no error for a text that does not compile")
	}
}

func TestRenderLeavesWhatIsNotKnownAsItWasWritten(t *testing.T) {
	s := shellStep("echo ${before} ${before.exit_code} ${E} ${F} ${item.output}")
	s.Env = []workflow.EnvVar{{Name: "E", Value: workflow.Text{Value: "of ${before}"}}}
	a := ofItem(s)
	a.Env = []workflow.EnvVar{{Name: "E", Value: workflow.Text{Value: "outer"}}, {Name: "F", Value: workflow.Text{Value: "f"}}}
	a.Earlier = []events.StepCompleted{{Phase: "setup", Capture: "before"}}
	got, err := Render(a, false)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "commands", got, []string{"echo ${before} ${before.exit_code} ${E} f ${item.output}"})
}

func TestRenderShowsHandlersBehindTheirSteps(t *testing.T) {
	s := captured("out", "echo 1")
	s.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{shellStep("echo ${error.message} ${item.n}")}}
	a := ofItem(s, shellStep("echo 2"))
	a.Handler = []workflow.Step{shellStep("echo ${out} ${item_id} ${error.step}")}
	got, err := Render(a, false)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "steps", got, []string{"echo 1", "echo ${error.message} 1", "echo 2"})
	if got, err = Render(a, true); err != nil {
		t.Fatal(err)
	}
	same(t, "handler", got, []string{"echo ${out} item_4 ${error.step}"})
}

func TestTheDocumentsHaveEveryField(t *testing.T) {
	data, err := os.ReadFile("../../docs/interpolation.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, fields := range [][]string{resultFields, errorFields, mapFields} {
		for _, field := range fields {
			if !strings.Contains(string(data), "`"+field+"`") {
				t.Errorf("docs/interpolation.md lacks the field %s", field)
			}
		}
	}
}

// A value has the fields that are known of it, and no others: what the check lets through has a value at run time.
func TestValuesHaveTheFieldsThatAreKnown(t *testing.T) {
	a := ofItem()
	a.Map = &MapResult{ResultsFile: os.DevNull}
	s := &scope{run: &run{x: new(Executor), a: &a}, needsResults: true, failed: &stepEnd{failure: new(Failure)}}
	s.set(result{}, last)
	for root, fields := range map[string][]string{last: resultFields, "error": errorFields, "map": mapFields} {
		v, ok := s.Resolve(root)
		if !ok {
			t.Errorf("got no value of %s", root)
		}
		for _, field := range fields {
			if _, ok := v.Field(field); !ok {
				t.Errorf("%s has no field %s", root, field)
			}
		}
	}
}

// Agents that run at once and commit in one directory, or write one result_file, take each other's work for their own.
func TestSharedDirectoriesAreRefused(t *testing.T) {
	text := func(s string) *workflow.Text { return &workflow.Text{Value: s, Pos: workflow.Pos{Line: 3, Col: 9}} }
	commits := func(dir string) workflow.Step {
		return at(2, with("x", func(s *workflow.Step) {
			s.CommitRequired = true
			if dir != "" {
				s.WorkingDir = text(dir)
			}
		}))
	}
	validates := func(dir, file string) workflow.Step {
		return at(2, with("x", func(s *workflow.Step) {
			s.Validate = &workflow.Validate{Commands: []workflow.Step{shellStep("check")}, ResultFile: text(file)}
			if dir != "" {
				s.WorkingDir = text(dir)
			}
		}))
	}
	each := func(parallel int, do workflow.Step) workflow.Step {
		return workflow.Step{Foreach: &workflow.Foreach{Parallel: parallel, Do: []workflow.Step{do}}}
	}
	hook := func(dir string, hook workflow.Step) workflow.Step {
		return at(2, with("x", func(s *workflow.Step) {
			s.OnSuccess = []workflow.Step{hook}
			if dir != "" {
				s.WorkingDir = text(dir)
			}
		}))
	}
	tests := []struct {
		name  string
		step  workflow.Step
		slots int
		want  string // the beginning of the only problem; empty: there is none
	}{
		{"commit", commits(""), 2, "f.yml:2:3: commit_required: 2 agents run at a time in one directory"},
		{"commit, one slot", commits(""), 1, ""},
		{"commit in a fixed directory", commits("repo"), 2, "f.yml:2:3: commit_required"},
		{"commit in a directory of the item", commits("wt/${item_id}"), 2, ""},
		{"commit in a directory of the worker", commits("$worker"), 2, ""},
		{"commit of a hook", hook("", commits("")), 2, "f.yml:2:3: commit_required"},
		{"commit of a hook, which inherits the directory", hook("wt/${item.a}", commits("")), 2, ""},
		{"result", validates("", "result.json"), 9, "f.yml:3:9: result_file: 9 agents run at a time"},
		{"result named after the item", validates("", "${item_id}.json"), 2, ""},
		{"result in a directory of the item", validates("wt/${item_id}", "result.json"), 2, ""},
		{"result elsewhere", validates("wt/${item_id}", "/tmp/result.json"), 2, "f.yml:3:9: result_file"},
		{"elements", each(3, commits("")), 1, "f.yml:2:3: commit_required: 3 elements run at a time in one directory"},
		{"elements in turn", each(1, commits("")), 1, ""},
		{"elements in turn, of agents", each(1, commits("")), 2, "f.yml:2:3: commit_required: 2 agents"},
		{"elements with directories", each(3, commits("${item}")), 1, ""},
	}
	for _, test := range tests {
		w := &workflow.Workflow{
			File: "f.yml", Mode: workflow.MapReduce,
			Map: &workflow.Map{AgentTemplate: []workflow.Step{test.step}},
		}
		got, _ := CheckShared(w, test.slots)
		if len(got) > 1 || (len(got) == 1) != (test.want != "") || len(got) == 1 && !strings.HasPrefix(got[0].String(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, got, test.want)
		}
	}
}
