package mapreduce

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
)

// printedOf returns what is kept of a job at a span as "item/attempt step stream: text", sorted. A nil span is none.
func printedOf(t *testing.T, job jobs.Job, q outputs.Query) []string {
	t.Helper()
	var all []string
	for e, err := range outputs.Read(job.OutputsDir(), q) {
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range e.Printed {
			who := cmp.Or(e.Phase, fmt.Sprintf("%s/%d", e.ItemID, e.Attempt))
			all = append(all, fmt.Sprintf("%s %s %s: %s", who, e.Step, p.Stream, p.Text))
		}
	}
	slices.Sort(all)
	return all
}

// talking prints to both streams, and fails for item_1 in its first attempt.
func talking(c call) answer {
	a := answer{stdout: "out of " + c.script + "\n", stderr: "err " + c.attempt + "\n"}
	if c.item == "item_1" && c.attempt == "1" && c.script == "b" {
		a.code = 3
	}
	return a
}

const talkative = `
setup: [{shell: s}]
map:
  input: [x, y]
  agent_template: [{shell: a}, {shell: b}]
reduce: [{shell: r}]
error_policy: {on_item_failure: retry, retry_config: {attempts: 2, initial_delay: 1ms}}
`

// Every step of every attempt is kept, and the record of its end names where.
func TestEveryOutputIsKeptAndNamedByItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, config(t, fake(talking)), talkative)
		if r.State != jobs.Completed {
			t.Fatalf("got %s (%s)", r.State, r.Reason)
		}
		of := func(who, step, script, attempt string) []string {
			return []string{who + " " + step + " stderr: err " + attempt + "\n", who + " " + step + " stdout: out of " + script + "\n"}
		}
		agent := func(who, attempt string) []string {
			return slices.Concat(of(who, "shell_0", "a", attempt), of(who, "shell_1", "b", attempt))
		}
		want := map[string][]string{
			"StepCompleted setup": of("setup", "shell_0", "s", ""), "StepCompleted reduce": of("reduce", "shell_0", "r", ""),
			"AgentCompleted item_0": agent("item_0/1", "1"), "AgentFailed item_1": agent("item_1/1", "1"), "AgentCompleted item_1": agent("item_1/2", "2"),
		}
		got := map[string][]string{}
		for _, rec := range recordsOf(t, r.Job) {
			var span *outputs.Span
			q := outputs.Query{ItemID: events.Subject(rec.Event)}
			who := q.ItemID
			switch e := rec.Event.(type) {
			case events.AgentCompleted:
				span, q.Attempt = e.Outputs, e.Attempt
			case events.AgentFailed:
				span, q.Attempt = e.Outputs, e.Attempt
			case events.StepCompleted:
				span, who = e.Outputs, e.Phase
			}
			if span != nil {
				q.Span = *span
				got[events.TypeOf(rec.Event)+" "+who] = printedOf(t, r.Job, q)
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		var all []string
		for _, lines := range want {
			all = append(all, lines...)
		}
		slices.Sort(all)
		if diff := gocmp.Diff(all, printedOf(t, r.Job, outputs.Query{})); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
	})
}

func TestWhatIsKeptIsThatOfThePolicy(t *testing.T) {
	for keep, want := range map[string]int{"all": 16, "failed": 2, "none": 0} {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, config(t, fake(talking)), "outputs: {keep: "+keep+"}"+talkative)
			if got := printedOf(t, r.Job, outputs.Query{}); len(got) != want {
				t.Errorf("%s: got %d parts, want %d: %q", keep, len(got), want, got)
			}
		})
	}
}

// A run that is killed leaves what its attempts had printed, and the next one goes on behind it.
func TestOutputsOfAKilledRunAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(talking))
		whole := run(t, c, talkative)
		before := printedOf(t, whole.Job, outputs.Query{})
		place := copyJob(t, c, whole.Job, upTo(readLog(t, whole.Job), `"type":"AgentCompleted","item_id":"item_0"`))
		copyOutputs(t, whole.Job, place.job)
		c = withHome(c, place)
		r, err := Resume(t.Context(), c, place.job)
		if err != nil || r.State != jobs.Completed {
			t.Fatalf("got %s (%s), %v", r.State, r.Reason, err)
		}
		after := printedOf(t, place.job, outputs.Query{})
		for _, line := range before {
			at := slices.Index(after, line)
			if at < 0 {
				t.Errorf("%q is lost", line)
				continue
			}
			after = slices.Delete(after, at, at+1)
		}
		if len(after) == 0 {
			t.Error("the resume has kept nothing")
		}
	})
}

func copyOutputs(t *testing.T, from, to jobs.Job) {
	t.Helper()
	if err := os.RemoveAll(to.OutputsDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to.OutputsDir(), os.DirFS(from.OutputsDir())); err != nil {
		t.Fatal(err)
	}
}

// Past its bound a job keeps failures only, and then nothing; it goes on all the same.
func TestAJobPastItsBoundGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(c call) answer {
			a := answer{stdout: strings.Repeat("x", 500), takes: time.Millisecond}
			if c.item == "item_98" {
				a.code = 1
			}
			return a
		}))
		r := run(t, c, "outputs: {per_job: 20KiB}\n"+workflowOf(100, 1, ""))
		if r.State != jobs.Completed || r.Metrics.Successful != 99 {
			t.Fatalf("got %s (%s) with %+v", r.State, r.Reason, r.Metrics)
		}
		kept := printedOf(t, r.Job, outputs.Query{})
		if len(kept) < 20 || len(kept) > 40 || !strings.Contains(strings.Join(kept, "\n"), "item_98/1") {
			t.Errorf("kept %d outputs, want some and that of the failure", len(kept))
		}
	})
}

// When outputs cannot be written, the job stops as it does without a log.
func TestAJobWhoseOutputsCannotBeWrittenStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, nil)
		spoil := sync.OnceFunc(func() { // once: a second one would make room for the directory
			all, err := c.Home.List()
			if err != nil || len(all) != 1 {
				t.Errorf("got %v %v", all, err)
				return
			}
			_ = os.RemoveAll(all[0].OutputsDir())
			_ = os.WriteFile(all[0].OutputsDir(), nil, 0o600)
		})
		c.Runner = fake(func(call) answer {
			spoil()
			return answer{stdout: "x"}
		})
		r := run(t, c, workflowOf(50, 2, ""))
		if r.State != jobs.Failed || !strings.Contains(r.Reason, "the outputs cannot be written") || r.Metrics.Successful > 10 {
			t.Errorf("got %s (%s) with %+v", r.State, r.Reason, r.Metrics)
		}
	})
}
