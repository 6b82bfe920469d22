package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/testenv/scripts"
	"prodigy/internal/workflow"
)

// Every script shows a group of the workflows in testdata/workflows, a copy of which it finds in the folder workflows.
func TestSeedScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts need a POSIX sh")
	}
	workflows, err := filepath.Abs("../../testdata/workflows")
	if err != nil {
		t.Fatal(err)
	}
	const dir = "../../testdata/script/seeds/"
	params := testscript.Params{
		Dir: dir,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"faster":      faster,
			"samemetrics": sameMetrics,
			"waits":       waits,
		},
		Setup: func(env *testscript.Env) error {
			return os.CopyFS(filepath.Join(env.WorkDir, "workflows"), os.DirFS(workflows))
		},
	}
	if testing.Short() {
		params.Dir, params.Files = "", []string{dir + "metrics.txtar"}
	}
	scripts.Run(t, params)
}

func TestAllWorkflowsAreParsedWithoutProblems(t *testing.T) {
	files, err := filepath.Glob("../../testdata/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d workflows: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := workflow.Parse(filepath.Base(file), data, workflow.ParseOptions{}); err != nil {
				t.Error(err)
			}
			if !bytes.HasPrefix(data, []byte("# ")) {
				t.Error("the file does not begin with a comment that says what it shows")
			}
		})
	}
}

// faster divides the delays in workflow files by a thousand, so that seconds become milliseconds. Timeouts stay as they are:
// they are about running, which does not become faster.
func faster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: faster file...")
	}
	written := regexp.MustCompile(`(timeout: *"?)?\b([0-9]+(ms|s|m|h))+\b`)
	for _, name := range args {
		text := written.ReplaceAllStringFunc(ts.ReadFile(name), func(s string) string {
			d, err := time.ParseDuration(s)
			if err != nil { // it is a timeout
				return s
			}
			return fmt.Sprintf("%dus", d.Microseconds()/1000)
		})
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// waits compares the delays of the retries in the log of a job, before jitter and in milliseconds, with those given. It is the
// latest job, or the latest one of a workflow file. The delays of one step of one item stand together, in the order of their first
// ones; after them those of items.
func waits(ts *testscript.TestScript, neg bool, want []string) {
	if neg {
		ts.Fatalf("usage: waits [workflow] [delay...]")
	}
	file := ""
	if len(want) > 0 && strings.HasSuffix(want[0], ".yml") {
		file, want = want[0], want[1:]
	}
	job := latestOf(ts, file)
	got := append(delaysOf(ts, job, "StepRetrying"), delaysOf(ts, job, "AgentFailed")...)
	if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
		ts.Fatalf("waits:\n got %s\nwant %s", g, w)
	}
}

// latestOf returns the latest job of a workflow file, or of all for "".
func latestOf(ts *testscript.TestScript, file string) jobs.Job {
	list, err := jobs.Home{Root: ts.Getenv("PRODIGY_HOME")}.List()
	ts.Check(err)
	for _, job := range list {
		if meta, err := job.ReadMeta(); err == nil && (file == "" || filepath.Base(meta.WorkflowPath) == file) {
			return job
		}
	}
	ts.Fatalf("there is no job of %s", file)
	return jobs.Job{}
}

// delaysOf returns the delays of the events of one type. Those of items are only known after jitter.
func delaysOf(ts *testscript.TestScript, job jobs.Job, typ string) []string {
	var order []string
	byStep := map[string][]string{}
	for line, err := range events.ReadLines(job.EventsDir(), events.Query{Type: typ}) {
		ts.Check(err)
		var e struct {
			ItemID   string      `json:"item_id"`
			Step     string      `json:"step"`
			Computed json.Number `json:"computed_delay_ms"`
			Delay    json.Number `json:"delay_ms"`
		}
		ts.Check(json.Unmarshal(line, &e))
		if e.Delay == "" {
			continue
		}
		key := e.ItemID + " " + e.Step
		if byStep[key] == nil {
			order = append(order, key)
		}
		byStep[key] = append(byStep[key], cmp.Or(e.Computed, e.Delay).String())
	}
	var all []string
	for _, key := range order {
		all = append(all, byStep[key]...)
	}
	return all
}

// sameMetrics compares the metrics in run.json with those that status and the last event of the latest job tell.
func sameMetrics(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: samemetrics")
	}
	want := metricsIn(ts, ts.ReadFile("run.json"))
	ts.Check(ts.Exec("prodigy", "status", "--json"))
	if got := metricsIn(ts, ts.ReadFile("stdout")); got != want {
		ts.Fatalf("status:\n got %s\nwant %s", got, want)
	}
	ts.Check(ts.Exec("prodigy", "events", "ls", "--output", "jsonl"))
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	if got := metricsIn(ts, lines[len(lines)-1]); got != want {
		ts.Fatalf("last event:\n got %s\nwant %s", got, want)
	}
}

// metricsIn returns the metrics in a JSON object, in their compact form.
func metricsIn(ts *testscript.TestScript, text string) string {
	var o struct {
		Metrics json.RawMessage `json:"metrics"`
	}
	ts.Check(json.Unmarshal([]byte(text), &o))
	var compact bytes.Buffer
	ts.Check(json.Compact(&compact, o.Metrics))
	return compact.String()
}
