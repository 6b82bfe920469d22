package agent

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// hostileTexts are texts that try to become code, an option, a pattern, a path or a part of an expression.
func hostileTexts(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../shell/template/testdata/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Value *string `json:"value"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	values := map[string]bool{}
	for _, c := range cases {
		if c.Value != nil && !strings.Contains(*c.Value, "\x00") {
			values[*c.Value] = true
		}
	}
	own := []string{
		"' || true || '", `" == "" || "`, "x' matches '.*", "true", "null", "1 || 1", "item.n", "${item.n}", "${item_id}", "']}) || 1",
		"__import__('os').system('touch pwned')", "');require('child_process').execSync('touch pwned');('", "\"\"\"\nimport os\nos.system('touch pwned')\n\"\"\"",
		"$(touch pwned).txt", "`touch pwned`", "a;touch pwned", "a\ntouch pwned\nb", "-rf", "--help", "*", "~", "../up", "/abs/olute", "a/../../up", ".", "..",
	}
	for _, v := range own {
		values[v] = true
	}
	return slices.Sorted(maps.Keys(values))
}

// hostileContext is a place where a value stands: the steps of an attempt whose last one must print the value
// and nothing else.
type hostileContext struct {
	name  string
	needs string // a program
	steps []workflow.Step
}

func inEnv(s workflow.Step, name, value string) workflow.Step {
	s.Env = append(s.Env, workflow.EnvVar{Name: name, Value: workflow.Text{Value: value}})
	return s
}

func hostileContexts() []hostileContext {
	text := func(s string) *workflow.Text { return &workflow.Text{Value: s} }
	show := shellStep("printf %s ${item.v}")
	runBy := func(script string, argv ...string) workflow.Step {
		return with(script, func(s *workflow.Step) { s.Interpreter = argv })
	}
	when := func(condition string) workflow.Step {
		return with("printf %s ${item.v}", func(s *workflow.Step) { s.When = text(condition) })
	}
	jsonCapture := with("cat \"$PRODIGY_ITEM_FILE\"", func(s *workflow.Step) { s.Capture, s.Format = "got", workflow.FormatJSON })
	follow := func(script string, change func(s *workflow.Step, follow []workflow.Step)) workflow.Step {
		return with(script, func(s *workflow.Step) { change(s, []workflow.Step{show}) })
	}
	return []hostileContext{
		{"bash", "bash", []workflow.Step{runBy("printf %s ${item.v}", "bash", "-c")}},
		{"bash in quotes", "bash", []workflow.Step{runBy("printf '%s' \"${item.v}\"", "bash", "-eu", "-c")}},
		{"bash nested", "bash", []workflow.Step{runBy("bash -c 'printf %s \"${item.v}\"'", "bash", "-uc")}},
		{"sh with options", "", []workflow.Step{runBy("printf %s '${item.v}'", "sh", "-eu", "-c")}},
		{"python", "python3", []workflow.Step{inEnv(runBy("import os,sys; sys.stdout.buffer.write(os.environb[b'V'])", "python3", "-c"), "V", "${item.v}")}},
		{"python by the item", "python3", []workflow.Step{runBy(
			"import os,sys,json; sys.stdout.buffer.write(json.loads(os.environ['PRODIGY_ITEM'])['v'].encode('utf-8','surrogatepass'))", "python3", "-c")}},
		{"node", "node", []workflow.Step{inEnv(runBy("process.stdout.write(process.env.V)", "node", "-e"), "V", "${item.v}")}},
		{"perl", "perl", []workflow.Step{inEnv(runBy("print $ENV{V}", "perl", "-e"), "V", "${item.v}")}},
		{"when as a term", "", []workflow.Step{when("item.v == item.v && ${item.v} == ${item.v}")}},
		{"when beside a text", "", []workflow.Step{when("!(item.v == 'no such value') && item.n == 1")}},
		{"when in a text", "", []workflow.Step{when("'a ${item.v} b' != '' && 'x${item.v}x' starts_with 'x' && 'x${item.v}' == 'x${item.v}'")}},
		{"when in a list", "", []workflow.Step{when("item.v in [item.n, item.v]")}},
		{"file", "", []workflow.Step{shellStep("cat ${item.v|file}")}},
		{"file in quotes", "", []workflow.Step{shellStep("sh -c 'cat \"${item.v|file}\"'")}},
		{"opt", "", []workflow.Step{shellStep("printf %s ${item.v|opt}")}},
		{"pattern", "", []workflow.Step{shellStep("printf %s ${item.list[*]|pattern:**}")}},
		{"a field of a json capture", "", []workflow.Step{jsonCapture, shellStep("printf %s ${got.v}")}},
		{"deep in a json capture", "", []workflow.Step{jsonCapture, shellStep("sh -c 'printf %s \"${got.deep[0].v}\"'")}},
		{"a json capture in a heredoc", "", []workflow.Step{jsonCapture, shellStep("x=$(cat <<'E'\n${got.v}.\nE\n)\nprintf %s \"${x%.}\"")}},
		{"all of a json capture", "", []workflow.Step{jsonCapture, shellStep("printf %s ${got.list[*]}")}},
		{"on_exit_code", "", []workflow.Step{follow("printf '%s' ${item.v} >&2; exit 7", func(s *workflow.Step, f []workflow.Step) {
			s.OnExitCode = workflow.ExitSteps{7: append([]workflow.Step{shellStep(": ${error.message} \"${error.message}\"; sh -c ': \"${error.message}\"'")}, f...)}
		})}},
		{"on_success", "", []workflow.Step{follow("printf %s ${item.v}", func(s *workflow.Step, f []workflow.Step) {
			s.OnSuccess = append([]workflow.Step{shellStep(": ${last.output} '${item.output}'")}, f...)
		})}},
	}
}

// slow tells of programs that take long to start.
func (c hostileContext) slow() bool { return c.needs == "python3" || c.needs == "node" }

// run returns what the last step printed.
func (c hostileContext) run(t *testing.T, x *Executor, dir, value string) (string, *Failure) {
	t.Helper()
	item, err := json.Marshal(map[string]any{"v": value, "n": 1, "list": []string{value}, "deep": []any{map[string]string{"v": value}}})
	if err != nil {
		t.Fatal(err)
	}
	a := ofItem(c.steps...)
	a.Dir, a.Item = dir, item
	o := execute(t, x, a)
	return o.Output, o.Failure
}

func TestHostileValuesStayDataInEveryStepKey(t *testing.T) {
	values := hostileTexts(t)
	var runs, changed atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d values, %d runs, %d of them changed a command", len(values), runs.Load(), changed.Load())
	})
	n := testenv.OneIn(30, 8)
	for first, c := range hostileContexts() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.needs); c.needs != "" && err != nil {
				t.Skip(c.needs + " is not here")
			}
			dir, x := t.TempDir(), local(t)
			n := n
			if c.slow() && n > 1 {
				n *= 5
			}
			for i, v := range values {
				if (first+i)%n != 0 {
					continue
				}
				runs.Add(1)
				got, failure := c.run(t, x, dir, v)
				if want := strings.TrimRight(v, "\n"); failure != nil || got != want {
					t.Fatalf("got %q (%v), want %q", got, failure, want)
				}
			}
			if names := filesIn(t, dir); len(names) > 0 {
				changed.Add(1)
				t.Errorf("the payload made %v", names)
			}
			same(t, "private files left", filesIn(t, x.TempDir), []string(nil))
		})
	}
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A path is made of the value, or the step fails; nothing is written elsewhere.
func TestHostileValuesDoNotLeadAnOutputFileAway(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "in", "work")
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out", "link")); err != nil {
		t.Fatal(err)
	}
	x, written := local(t), 0
	values := append(hostileTexts(t), "link/escaped", "../../../escaped")
	n, tried := testenv.OneIn(12, 4), 0
	for first, path := range []string{"out/${item.v}", "out/${item.v}.txt", "out/x-${item.v}/y"} {
		for i, v := range values {
			if len(v) > 100 || (first+i)%n != 0 && i < len(values)-2 {
				continue
			}
			tried++
			step := with("echo fine", func(s *workflow.Step) { s.OutputFile = &workflow.Text{Value: path} })
			if _, failure := (hostileContext{name: path, steps: []workflow.Step{step}}).run(t, x, dir, v); failure == nil {
				written++
			} else if !strings.HasPrefix(failure.Message, "output_file: ") {
				t.Errorf("%s: %q: got %v", path, v, failure)
			}
		}
	}
	for _, name := range filesIn(t, outside) {
		if !strings.HasPrefix(name, filepath.Join(dir, "out")) && !strings.HasPrefix(dir, name) {
			t.Errorf("%s was written outside", name)
		}
	}
	if written < tried/3 {
		t.Errorf("got %d files, want most of %d", written, tried)
	}
}

func TestTheFilesOfValuesLastAsLongAsTheirCommand(t *testing.T) {
	x := local(t)
	a := ofItem(shellStep(`cat ${item.n|file} "$F"`), shellStep(`cat "$F"; ls ${item.n|file} | wc -l`))
	a.Env = []workflow.EnvVar{{Name: "F", Value: workflow.Text{Value: "${job.id|file}"}}}
	a.Steps[0].OnFailure = &workflow.OnFailure{Steps: []workflow.Step{shellStep("x")}}
	if o := execute(t, x, a); o.Failure != nil || o.Output != "job1" {
		t.Errorf("got %q (%v), want job1", o.Output, o.Failure)
	}
	same(t, "files left", filesIn(t, x.TempDir), []string(nil))
	if commands, err := Render(a, false); err != nil || commands[0] != `cat ${item.n|file} "$F"` {
		t.Errorf("got %q (%v), want the text without a file", commands, err)
	}
}
