package agent

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// seen returns the variables of a command that matter here.
func seen(c process.Command) map[string]string {
	vars := make(map[string]string)
	for _, kv := range c.Env {
		key, value, _ := strings.Cut(kv, "=")
		if key == "A" || key == "B" || strings.HasPrefix(key, "PRODIGY_") {
			vars[key] = value
		}
	}
	return vars
}

func TestCommandsGetTheVariablesOfTheAttempt(t *testing.T) {
	f := &fake{answer: by}
	x := f.executor()
	x.Environ = []string{"A=outer", "B=outer", "PRODIGY_HOME=/h", "PRODIGY_V0=x", "PRODIGY_VALUES=x", "PRODIGY_ITEM_FILE=x", "PRODIGY_JOB_ID=x"}
	s := shellStep("x")
	s.Env = []workflow.EnvVar{{Name: "B", Value: workflow.Text{Value: "step"}}, {Name: "PRODIGY_ITEM_ID", Value: workflow.Text{Value: "not mine"}}}
	a := ofItem(s)
	a.Env = []workflow.EnvVar{{Name: "A", Value: workflow.Text{Value: "workflow"}}, {Name: "B", Value: workflow.Text{Value: "workflow"}}}
	execute(t, x, a)
	same(t, "environment of an agent", seen(f.commands[0]), map[string]string{
		"A": "workflow", "B": "step", "PRODIGY_HOME": "/h", "PRODIGY_AUTOMATION": "true", "PRODIGY_JOB_ID": "job",
		"PRODIGY_CORRELATION_ID": "job/item_4", "PRODIGY_ITEM_ID": "item_4", "PRODIGY_ITEM": `{"n":1}`,
		"PRODIGY_ATTEMPT": "2", "PRODIGY_WORKER_ID": "3",
	})

	execute(t, x, Attempt{JobID: "job", CorrelationID: "job", Phase: "setup", Steps: []workflow.Step{shellStep("x")}})
	same(t, "environment of setup", seen(f.commands[1]), map[string]string{
		"A": "outer", "B": "outer", "PRODIGY_HOME": "/h", "PRODIGY_AUTOMATION": "true", "PRODIGY_JOB_ID": "job", "PRODIGY_CORRELATION_ID": "job",
	})
}

func TestCommandsAreToldWhereTheyRun(t *testing.T) {
	dir := t.TempDir()
	f := &fake{answer: by}
	x := f.executor()
	x.Environ, x.Places = []string{"PWD=/elsewhere", "A=/elsewhere"}, map[string]string{"A": ".."}
	below := shellStep("x")
	below.WorkingDir = &workflow.Text{Value: "sub/"}
	a := ofItem(shellStep("x"), below)
	a.Dir = dir
	execute(t, x, a)
	a.Base = "commit"
	execute(t, x, a)
	var got []string
	for _, c := range f.commands {
		vars := map[string]string{}
		for _, kv := range c.Env {
			name, value, _ := strings.Cut(kv, "=")
			vars[name] = value
		}
		got = append(got, vars["PWD"], vars["A"])
	}
	above := filepath.Dir(dir)
	same(t, "PWD and A", got, []string{dir, "/elsewhere", dir + "/sub", "/elsewhere", dir, above, dir + "/sub", above})
}

func TestItemFile(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", maxItemVar) + `"`)
	tests := []struct {
		name           string
		item           json.RawMessage
		script         string
		inVar, hasFile bool
	}{
		{"small", json.RawMessage(`1`), "true", true, false},
		{"named", json.RawMessage(`1`), `cat "$PRODIGY_ITEM_FILE"`, true, true},
		{"large", large, "true", false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var held []byte
			f := &fake{}
			f.answer = func(_ int, c process.Command) process.Exit {
				held, _ = os.ReadFile(seen(c)["PRODIGY_ITEM_FILE"])
				return process.Exit{}
			}
			x := f.executor()
			x.TempDir = t.TempDir()
			a := ofItem(shellStep(test.script))
			a.Item = test.item
			execute(t, x, a)
			_, inVar := seen(f.commands[0])["PRODIGY_ITEM"]
			if inVar != test.inVar {
				t.Errorf("PRODIGY_ITEM: got %t, want %t", inVar, test.inVar)
			}
			if got, want := string(held) == string(test.item), test.hasFile; got != want {
				t.Errorf("file of the item: got %t, want %t", got, want)
			}
			empty(t, x.TempDir)
		})
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files that are left: got %v, %v, want none", left, err)
	}
}

func TestLargeValuesGoThroughAPrivateFile(t *testing.T) {
	value := strings.Repeat("it's $HOME `x`\n", 10_000)
	data, err := json.Marshal(map[string]string{"v": value})
	if err != nil {
		t.Fatal(err)
	}
	x := local(t)
	var modes []fs.FileMode
	run := x.Run
	x.Run = func(ctx context.Context, c process.Command) (process.Exit, error) {
		files, _ := os.ReadDir(x.TempDir)
		for _, f := range files {
			if strings.HasPrefix(f.Name(), "values-") {
				info, _ := f.Info()
				modes = append(modes, info.Mode())
			}
		}
		return run(ctx, c)
	}
	a := ofItem(shellStep("cat <<EOF\n${item.v}\nEOF\n"))
	a.Item = data
	o := execute(t, x, a)
	if o.Failure != nil {
		t.Fatalf("got failure %.300s, want none", o.Failure.Message)
	}
	if want := strings.TrimRight(value, "\n"); o.Output != want {
		t.Errorf("got %d bytes, want %d", len(o.Output), len(want))
	}
	if !slices.Equal(modes, []fs.FileMode{0o600}) {
		t.Errorf("files: got %v, want one that is private", modes)
	}
	empty(t, x.TempDir)
}

func TestLargeScriptIsRunFromAFile(t *testing.T) {
	x := local(t)
	a := ofItem(shellStep("printf %s ${item.n}\n: " + strings.Repeat("x", 200_000)))
	o := execute(t, x, a)
	if o.Failure != nil {
		t.Fatalf("got failure %.300s, want none", o.Failure.Message)
	}
	same(t, "output", o.Output, "1")
	empty(t, x.TempDir)
}

func TestNothingStartsWithoutRoomForItsFiles(t *testing.T) {
	f := &fake{answer: by}
	x := f.executor()
	x.TempDir = t.TempDir() + "/none"
	_, err := x.Execute(t.Context(), ofItem(shellStep("cat $PRODIGY_ITEM_FILE")))
	if err == nil {
		t.Error("got no error, want one")
	}
	same(t, "ran", f.ran(), []string(nil))
}
