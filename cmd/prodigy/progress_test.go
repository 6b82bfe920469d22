package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/view"
)

var sixteen = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)

// seen returns a job that was shown these events, all at one moment.
func seen(j *view.Job, list ...events.Event) *view.Job {
	for _, e := range list {
		j.Apply(events.Record{Time: sixteen, JobID: "j", Event: e})
	}
	return j
}

func retryIn(item string, index int, d time.Duration) events.AgentFailed {
	at, delay := sixteen.Add(d), events.Millis(d)
	return events.AgentFailed{ItemID: item, ItemIndex: index, Action: errorpolicy.Retry, RetryAt: &at, DelayMS: &delay}
}

// busy is a job in the middle.
func busy() *view.Job {
	return seen(view.New(),
		events.JobStarted{},
		events.PhaseStarted{Phase: "map"},
		events.ItemsSelected{TotalItems: 10},
		events.AgentStarted{ItemID: "a", ItemIndex: 0},
		events.AgentCompleted{ItemID: "a", ItemIndex: 0},
		events.AgentStarted{ItemID: "b", ItemIndex: 1},
		retryIn("b", 1, 12*time.Second),
		events.AgentStarted{ItemID: "c", ItemIndex: 2},
		events.AgentFailed{ItemID: "c", ItemIndex: 2, AgentID: "x", Action: errorpolicy.DLQ, ErrorType: "network", Error: "exit code 7: refused"},
		events.AgentStarted{ItemID: "d", ItemIndex: 3},
		events.AgentFailed{ItemID: "d", ItemIndex: 3, AgentID: "x", Action: errorpolicy.Skip, ErrorType: "timeout", Error: "timed out after 1s"},
		events.AgentStarted{ItemID: "e", ItemIndex: 4},
		events.AgentInterrupted{ItemID: "e", ItemIndex: 4},
		events.AgentStarted{ItemID: "f", ItemIndex: 5, Attempt: 2},
		events.AgentStarted{ItemID: "g", ItemIndex: 6, Attempt: 1},
		events.StepRetrying{ItemID: "g", Step: "fetch"},
		events.AgentFailed{ItemID: "h", ItemIndex: 7, Action: errorpolicy.DLQ, ErrorType: "circuit_open", Error: "refused: the circuit breaker is open"},
		events.CircuitOpen{Scope: "workflow", Until: sixteen.Add(30 * time.Second)},
	)
}

func TestTheRegionShowsHowAJobStands(t *testing.T) {
	now := sixteen.Add(2 * time.Second)
	for _, c := range []struct {
		name          string
		lines         progressLines
		job           *view.Job
		width, height int
		want          []string
	}{
		{"wide", progressLines{unicode: true}, busy(), 120, 40, []string{
			" 40% ███████████░░░░░░░░░░░░░░░░░░  4/10 done  1 failed  1 skipped  1 rejected  2 running  1 waiting (next in 10s)",
			"2.0/s  breaker open, tests in 28s",
			"  running f  2s  attempt 2",
			"  running g  2s  step fetch",
			"  failed  d  timeout: timed out after 1s",
			"  failed  h  circuit_open: refused: the circuit breaker is open",
		}},
		{"narrow, without Unicode", progressLines{}, busy(), 42, 40, []string{
			" 40% ####------  4/10 done  1 failed",
			"2.0/s  breaker open, tests in 28s",
			"  running f  2s  attempt 2",
			"  running g  2s  step fetch",
			"  failed  d  timeout: timed out after 1s",
			"  failed  h  circuit_open: refused: the …",
		}},
		{"very narrow and low", progressLines{}, busy(), 12, 4, []string{" 40%", "2.0/s"}},
		{"colours take no room", progressLines{colours: true}, busy(), 42, 6, []string{
			" 40% \xff[32m####\xff[0m------  4/10 done  1 failed",
			"2.0/s  \xff[33mbreaker open, tests in 28s\xff[0m",
			"  running f  2s  attempt 2",
		}},
		{"the number of items is not known yet", progressLines{}, seen(view.New(),
			events.JobStarted{}, events.PhaseStarted{Phase: "map"}, events.AgentStarted{ItemID: "a"}, events.AgentStarted{ItemID: "b", ItemIndex: 1},
			events.AgentCompleted{ItemID: "a"},
		), 120, 40, []string{"1 done  0 failed  1 running  0 waiting  2 found so far", "30.0/min", "  running b  2s"}},
		{"a phase that runs once", progressLines{steps: map[string]int{"reduce": 3}}, seen(view.New(),
			events.JobStarted{Mode: "mapreduce"}, events.PhaseStarted{Phase: "reduce"}, events.StepCompleted{Phase: "reduce"},
		), 120, 40, []string{"reduce: 2s, step 2 of 3"}},
		{"a standard workflow", progressLines{steps: map[string]int{"": 2}}, seen(view.New(),
			events.JobStarted{Mode: "standard"},
		), 120, 40, []string{"commands: 2s, step 1 of 2"}},
		{"a resume", progressLines{}, seen(view.Resumed(errorpolicy.Metrics{TotalItems: 100, Successful: 83, Failed: 4, Rejected: 1, Skipped: 2}),
			events.JobResumed{Completed: 90, Pending: 9, InFlight: 1}, events.AgentCompleted{ItemID: "a", ItemIndex: 95},
		), 120, 40, []string{
			" 91% ##########################---  91/100 done  4 failed  2 skipped  1 rejected  0 running  0 waiting", "30.0/min",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.lines.lines(c.job, now, c.width, c.height)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOffATerminalOneLineSaysIt(t *testing.T) {
	got := progressLines{}.statusLine(busy(), sixteen.Add(2*time.Second))
	want := "4/10 done, 1 failed, 1 skipped, 1 rejected, 2 running, 1 waiting (next in 10s), 2.0/s, breaker open, tests in 28s"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What an item is called cannot steer the terminal.
func TestTheRegionIsText(t *testing.T) {
	j := seen(view.New(), events.JobStarted{}, events.AgentStarted{ItemID: "\x1b[2Jx\ny"})
	for _, line := range (progressLines{}).lines(j, sixteen.Add(time.Minute), 80, 24) {
		if strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("%q", line)
		}
	}
}
