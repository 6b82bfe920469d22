//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// verdict is what prodigy validate says of a script.
type verdict struct {
	refused bool
	codes   []string // of the errors when it is refused, else of the warnings, each once
	message string   // the first of these
}

// besideThePoint are warnings of something other than a value that may be run.
var besideThePoint = []string{"PS010", "PS101", "PS102", "PS103", "PS104", "PS111", "PS112", "PS113", "PS114", "PS115", "PS116", "PS117", "PS120"}

func (v verdict) silent() bool { return !v.refused && len(v.codes) == 0 }

// trial is what came of a script.
type trial struct {
	verdict verdict
	tried   bool // it was run
	ran     bool // data was run
	shell   string
	payload string
}

// unsaid reports whether data was run of which nothing was said.
func (t trial) unsaid() bool { return t.ran && t.verdict.silent() }

// lab tries scripts, one at a time, in a directory of its own.
type lab struct {
	base   string // holds what follows
	dir    string // the working directory of scripts
	marker string // the file that the program mark makes
	shells []shell
}

// shell is one of the shells that sh can be.
type shell struct {
	name, path string
	executor   *agent.Executor
	environ    []string
}

// shellNames are the shells that scripts are run in.
var shellNames = []string{"dash", "bash"}

// timeLimit of a run. None needs a thousandth of it.
const timeLimit = 10 * time.Second

// newLab makes a lab in base, an empty directory.
func newLab(base string) (*lab, error) {
	l := &lab{base: base, dir: filepath.Join(base, "work"), marker: filepath.Join(base, "ran")}
	for _, dir := range []string{l.dir, filepath.Join(base, "tmp"), filepath.Join(base, "home")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	for _, name := range shellNames {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		s, err := l.shell(name, path)
		if err != nil {
			return nil, err
		}
		l.shells = append(l.shells, s)
	}
	if len(l.shells) == 0 {
		return nil, fmt.Errorf("none of these is installed: %s", strings.Join(shellNames, ", "))
	}
	return l, nil
}

// shell returns the shell at path with a directory of programs in which it is sh, and in which mark shows that data was run.
func (l *lab) shell(name, path string) (shell, error) {
	bin := filepath.Join(l.base, "bin-"+name)
	if err := os.Mkdir(bin, 0o700); err != nil {
		return shell{}, err
	}
	if err := os.Symlink(path, filepath.Join(bin, "sh")); err != nil {
		return shell{}, err
	}
	mark := fmt.Sprintf("#!/bin/sh\n: > %s\n", singleQuoted(l.marker))
	if err := os.WriteFile(filepath.Join(bin, "mark"), []byte(mark), 0o700); err != nil {
		return shell{}, err
	}
	s := shell{name: name, path: path}
	// The variable a is there so that its elements are evaluated where those of an unset one are not.
	s.environ = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(l.base, "home"), "a=1", "LC_ALL=C.UTF-8"}
	s.executor = agent.New(agent.Config{
		Environ: s.environ, TempDir: filepath.Join(l.base, "tmp"), Grace: 100 * time.Millisecond,
		Run: func(ctx context.Context, c process.Command) (process.Exit, error) {
			if c.Argv[0] == "sh" {
				c.Path = path
			}
			c.Timeout = timeLimit
			return process.Run(ctx, c)
		},
	}, nil)
	return s, nil
}

// always has each script run.
func always() bool { return true }

// try asks for the verdict on a script and runs it with values that show whether they are run. A script that is refused cannot be run;
// its reference form is run instead. A script which is refused or warned of is only run if sampled reports true.
func (l *lab) try(ctx context.Context, s *script, sampled func() bool) (trial, error) {
	t := trial{}
	w, err := parse(s)
	if err == nil {
		t.verdict, err = judge(w)
	}
	if invalid, ok := errors.AsType[*workflow.InvalidError](err); ok {
		t.verdict = refusal(invalid)
	} else if err != nil {
		return t, err
	}
	if !t.verdict.silent() && !sampled() {
		return t, nil
	}
	t.tried = true
	for _, payload := range s.payloads() {
		for _, sh := range l.shells {
			if s.bash && sh.name != "bash" {
				continue
			}
			ran, err := l.run(ctx, sh, s, w, payload, t.verdict.refused)
			if err != nil {
				return t, err
			}
			if ran {
				t.ran, t.shell, t.payload = true, sh.name, payload
				return t, nil
			}
		}
	}
	return t, nil
}

// run runs a script with one value and reports whether the value was run.
func (l *lab) run(ctx context.Context, sh shell, s *script, w *workflow.Workflow, payload string, refused bool) (bool, error) {
	if s.source.constant && strings.HasPrefix(s.source.name, "$") && s.sink.env.name == "" {
		payload = "fixed"
	}
	var err error
	if s.source.at == inReduce {
		if err := os.WriteFile(filepath.Join(l.base, "results.jsonl"), []byte(resultOf(payload)+"\n"), 0o600); err != nil {
			return false, err
		}
	}
	if refused {
		err = l.reference(ctx, sh, s, payload)
	} else {
		_, err = sh.executor.Execute(ctx, l.attempt(s, w, payload))
	}
	if err != nil {
		return false, err
	}
	_, err = os.Lstat(l.marker)
	ran := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if ran {
		if err := os.Remove(l.marker); err != nil {
			return false, err
		}
	}
	return ran, l.tidy()
}

// tidy removes what a script has left.
func (l *lab) tidy() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(l.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// payloads returns the values that show whether a script runs data.
func (s *script) payloads() []string {
	all := slices.Concat(commonPayloads, s.source.payloads, s.sink.payloads)
	for _, f := range s.flows {
		all = append(all, f.payloads...)
	}
	return all
}

func itemID(payload string) string {
	if payload == nameOfData {
		return commonPayloads[0]
	}
	return payload
}

// attempt returns the attempt at an item that is the payload through and through, as are all other values.
func (l *lab) attempt(s *script, w *workflow.Workflow, payload string) agent.Attempt {
	a := agent.Attempt{
		ID: "job/item_0/1", JobID: "job", Workflow: w.Name, CorrelationID: "job/item_0", Phase: "map", ItemID: itemID(payload), ItemTotal: 1,
		Item: documentOf(payload), Number: 1, Worker: 1, Dir: l.dir, Env: w.Env, Steps: w.Map.AgentTemplate,
		Args:    []workflow.Argument{{Name: "par", Value: json.RawMessage(asJSON(payload))}},
		Earlier: []events.StepCompleted{{Phase: "setup", Kind: "shell", Capture: "cap", Output: payload}},
		Done:    []events.StepCompleted{{Phase: "map", Kind: "shell", ID: "before", Capture: "out", Output: payload}},
	}
	switch s.source.at {
	case perArgument:
		a.PerValue, a.Item, a.Done, a.Earlier = true, json.RawMessage(asJSON(payload)), nil, nil
	case inReduce:
		a.Phase, a.Steps, a.Item, a.ItemID, a.Done = "reduce", w.Reduce.Commands, nil, "", nil
		a.Map = &agent.MapResult{Total: 1, Successful: 1, ResultsFile: filepath.Join(l.base, "results.jsonl")}
	}
	return a
}

// reference runs the reference form of a script.
func (l *lab) reference(ctx context.Context, sh shell, s *script, payload string) error {
	file := filepath.Join(l.base, "item.json")
	if err := os.WriteFile(file, documentOf(payload), 0o600); err != nil {
		return err
	}
	env := append(slices.Clip(sh.environ), referenceName+"="+s.source.valueOf(payload))
	for _, name := range []string{"cap", "out", "par", "SENV", "WENV", "MENV", "part", "ARG"} {
		env = append(env, name+"="+payload)
	}
	env = append(env, "item_id="+itemID(payload), "PRODIGY_ITEM_ID="+itemID(payload), "CENV=fixed", "PRODIGY_ITEM="+string(documentOf(payload)), "PRODIGY_ITEM_FILE="+file)
	env = append(env, "RESULTS="+filepath.Join(l.base, "results.jsonl"))
	if v := s.sink.env; v.name != "" {
		env = append(env, v.name+"="+withValue(v.value, payload))
	}
	argv := []string{"sh", "-c", s.referenceText()}
	if s.bash {
		argv[0] = "bash"
	}
	_, err := process.Run(ctx, process.Command{Path: sh.path, Argv: argv, Dir: l.dir, Env: env, Stdout: new(process.Capture), Stderr: new(process.Capture), Timeout: timeLimit})
	return err
}

// withValue returns the value of a variable of the step with the payload in the place of its placeholder.
func withValue(text, payload string) string {
	before, rest, _ := strings.Cut(text, "${")
	_, after, _ := strings.Cut(rest, "}")
	return before + payload + after
}

// parse reads the workflow of a script.
func parse(s *script) (*workflow.Workflow, error) {
	var o workflow.ParseOptions
	if s.source.at == perArgument {
		o.Values = []string{""}
	}
	return workflow.Parse("attack.yml", workflowOf(s), o)
}

// judge says what prodigy validate says of a workflow without errors.
func judge(w *workflow.Workflow) (verdict, error) {
	warnings, err := mapreduce.Check(mapreduce.Config{}, w)
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	for _, p := range warnings {
		if code := codeOf(p); !slices.Contains(besideThePoint, code) {
			v.add(code, p.Message)
		}
	}
	return v, nil
}

func refusal(invalid *workflow.InvalidError) verdict {
	v := verdict{refused: true}
	for _, p := range invalid.Problems {
		v.add(codeOf(p), p.Message)
	}
	return v
}

func (v *verdict) add(code, message string) {
	if v.message == "" {
		v.message = message
	}
	if !slices.Contains(v.codes, code) {
		v.codes = append(v.codes, code)
	}
}

// codeOf returns the code that a message begins with.
func codeOf(p workflow.Problem) string {
	code, _, _ := strings.Cut(p.Message, " ")
	if !strings.HasPrefix(code, "PS") {
		return "other"
	}
	return code
}

// workflowOf returns the workflow file of a script. What it says beside the script says validate nothing.
func workflowOf(s *script) []byte {
	step := map[string]any{"shell": s.workflowText()}
	env := map[string]any{"SENV": "${item.v}"}
	switch s.source.at {
	case inReduce:
		env["SENV"] = "${cap}"
	case perArgument:
		env["SENV"] = "${item}"
	}
	if s.source.env != nil {
		env["MENV"] = s.source.env
	}
	if v := s.sink.env; v.name != "" {
		env[v.name] = v.value
	}
	step["env"] = env
	if s.bash {
		step["interpreter"] = "bash"
	}
	w := map[string]any{
		"name":       "attack",
		"parameters": map[string]any{"par": map[string]any{"type": "string", "required": true}},
		"env":        map[string]string{"WENV": "${par}", "CENV": "fixed"},
		"setup":      []any{map[string]any{"shell": "echo", "capture": "cap"}},
	}
	before := map[string]any{"shell": "echo", "id": "before", "capture": "out"}
	switch s.source.at {
	case inForeach:
		step = map[string]any{"foreach": map[string]any{"input": []string{"${item.v}"}, "as": "part", "do": []any{step}}}
	case inHandler:
		step = map[string]any{"shell": `printf '%s\n' "$WENV" | tee /dev/stderr; exit 1`, "on_failure": []any{step}}
	case perArgument:
		delete(w, "setup")
		w["commands"] = []any{step}
		return marshal(w)
	}
	agents := map[string]any{"input": []any{map[string]any{"v": "", "o": map[string]any{"w": ""}, "l": []string{""}}}, "agent_template": []any{before, step}}
	if s.source.at == inReduce {
		agents["agent_template"] = []any{before}
		w["reduce"] = []any{step}
	}
	w["mode"], w["map"] = "mapreduce", agents
	return marshal(w)
}

// marshal returns v as JSON, which is YAML as well.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a workflow has no JSON: " + err.Error())
	}
	return data
}
