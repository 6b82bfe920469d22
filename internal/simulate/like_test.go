package simulate

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

const chain = `name: chain
setup:
  - shell: prepare
map:
  input: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30]
  max_parallel: 4
  agent_template:
    - id: fetch
      shell: fetch ${item}
      capture: page
    - id: store
      shell: store ${page}
      timeout: 20s
      retry_config: {attempts: 3, initial_delay: 5s}
    - id: tell
      shell: tell ${item}
error_policy:
  on_item_failure: retry
  retry_config: {attempts: 3, initial_delay: 30s}
`

// simulated runs a workflow with a model.
func simulated(t *testing.T, source string, m Model, logSteps bool) mapreduce.Result {
	t.Helper()
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := mapreduce.Config{Home: jobs.Home{Root: dir}, Dir: dir, Environ: os.Environ(), Seed: 5, EndConfig: mapreduce.EndConfig{Grace: time.Second}, LogConfig: job.LogConfig{LogSteps: logSteps}}
	r, err := Run(t.Context(), Job{Config: c, Workflow: w, Source: []byte(source), Model: m, Begin: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mixed fails in all ways that a log tells apart, and takes its time.
type mixed struct{ Chance }

func (m mixed) Outcome(t agent.SimulatedTry) Outcome {
	o := Outcome{Takes: m.Latency.Draw(randOf(3, t)), Stdout: "printed by " + t.Label}
	switch randOf(4, t).IntN(12) {
	case 0:
		o.ExitCode, o.Stderr = 7, "connection reset\n"
	case 1:
		o.ExitCode, o.Stdout = 1, "HTTP 429\n"
	case 2:
		o.Signal = "SIGKILL"
	case 3:
		o.Hangs = t.Label == "store"
	}
	if t.Attempt.Phase != "map" {
		o.ExitCode, o.Signal = 0, ""
	}
	return o
}

// byItem puts decisions in the order of their items.
func byItem(a, b string) int { return strings.Compare(itemOf(a), itemOf(b)) }

func itemOf(decision string) string {
	for word := range strings.FieldsSeq(decision) {
		if strings.HasPrefix(word, "item_") {
			return word
		}
	}
	return ""
}

// A job that is simulated like one that has run, with the same policy, goes as that has gone.
func TestAJobLikeAnotherGoesAsThatHasGone(t *testing.T) {
	var latency Distribution
	if err := latency.ReadText("uniform(1s, 15s)"); err != nil {
		t.Fatal(err)
	}
	for _, logSteps := range []bool{true, false} {
		night := simulated(t, chain, mixed{Chance{Latency: latency}}, logSteps)
		w, err := workflow.Parse("w.yml", []byte(chain), workflow.ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		log, err := LogOf(events.Read(night.Job.EventsDir()), w.Map.AgentTemplate, 1)
		if err != nil {
			t.Fatal(err)
		}
		again := simulated(t, chain, log, logSteps)
		got, want := decisions(t, again.Job), decisions(t, night.Job)
		slack := time.Second
		if !logSteps { // how the time of an attempt was spread over its steps is not known, and so what came first of two that were close
			slack = night.Duration / 20
			slices.SortStableFunc(got, byItem)
			slices.SortStableFunc(want, byItem)
		}
		if !slices.Equal(got, want) || (again.Duration-night.Duration).Abs() > slack || len(want) < 100 {
			t.Errorf("steps in the log %v: got in %v\n%s\nwant in %v\n%s", logSteps, again.Duration, strings.Join(got, "\n"), night.Duration, strings.Join(want, "\n"))
		}

		// With another policy it has tries that the log does not: they are like others.
		more := simulated(t, strings.Replace(chain, "{attempts: 3, initial_delay: 30s}", "{attempts: 9, initial_delay: 30s}", 1), log, logSteps)
		if more.Metrics.Successful < night.Metrics.Successful || night.Metrics.Failed == 0 || more.Metrics.Successful == 0 {
			t.Errorf("with more attempts %d succeeded, with few %d and %d failed", more.Metrics.Successful, night.Metrics.Successful, night.Metrics.Failed)
		}
	}
}

// A log without a single retry does not say that another try would help.
func TestAnItemThatWasNeverTriedAgainFailsAgain(t *testing.T) {
	source := strings.Replace(chain, "attempts: 3", "attempts: 1", 2)
	bad := modelFunc(func(t agent.SimulatedTry) Outcome {
		if t.Attempt.ItemID == "item_3" && t.Label == "store" {
			return Outcome{ExitCode: 9}
		}
		return Outcome{Takes: time.Second}
	})
	night := simulated(t, source, bad, false)
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := LogOf(events.Read(night.Job.EventsDir()), w.Map.AgentTemplate, 1)
	if err != nil {
		t.Fatal(err)
	}
	if again := simulated(t, chain, log, false); again.Metrics.Failed != 1 || again.Metrics.Successful != 29 {
		t.Errorf("got %+v, want one failed", again.Metrics)
	}
}

func TestWhatALogSaysOfAFailureIsDoneAgain(t *testing.T) {
	code := 7
	for name, c := range map[string]struct {
		got, want Outcome
	}{
		"an exit code":    {ended("network", &code, "exit code 7: no route", "out", "no route\n"), Outcome{ExitCode: 7, Type: "network", Stdout: "out", Stderr: "no route\n", Unknown: true}},
		"in the message":  {ended("network", nil, "exit code 7: no route", "", ""), Outcome{ExitCode: 7, Type: "network", Stderr: "no route\n", Unknown: true}},
		"a timeout":       {ended("timeout", nil, "timed out after 5s", "", ""), Outcome{Hangs: true, Takes: 5 * time.Second, Unknown: true}},
		"a signal":        {ended("killed", nil, "killed by SIGKILL", "", "err"), Outcome{Signal: "SIGKILL", Stderr: "err", Unknown: true}},
		"said by a step":  {ended("killed", nil, "killed by SIGSEGV", "", "err"), Outcome{Signal: "SIGSEGV", Stderr: "err", Unknown: true}},
		"an AI's message": {ended("auth", nil, "not logged in", "", ""), Outcome{ExitCode: 1, Type: "auth", Stderr: "not logged in\n", Unknown: true}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, c.got, c.want)
		}
	}
}
