package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/outputs"
	"prodigy/internal/term"
)

var sixteen = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)

// seen returns a job that was shown these events, all at one moment.
func seen(j *Job, list ...events.Event) *Job {
	for _, e := range list {
		j.Apply(events.Record{Time: sixteen, JobID: "j", Event: e})
	}
	return j
}

func retryIn(item string, index int, d time.Duration) events.AgentFailed {
	at, delay := sixteen.Add(d), events.Millis(d)
	return events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: item, ItemIndex: index, AgentID: "x"},
		ErrorType: "network", Error: "exit code 7: refused", Action: errorpolicy.Retry, RetryAt: &at, DelayMS: &delay,
	}
}

// busy is a job in the middle.
func busy() *Job {
	return seen(New(),
		events.JobStarted{},
		events.PhaseStarted{Phase: "map"},
		events.ItemsSelected{TotalItems: 10},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0}},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}},
		retryIn("b", 1, 12*time.Second),
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2}},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2, AgentID: "x"},
			Action:    errorpolicy.DLQ, ErrorType: "network", Error: "exit code 7: refused",
		},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "d", ItemIndex: 3}},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "d", ItemIndex: 3, AgentID: "x"},
			Action:    errorpolicy.Skip, ErrorType: "timeout", Error: "timed out after 1s",
		},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "e", ItemIndex: 4}},
		events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: "e", ItemIndex: 4}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "f", ItemIndex: 5, Attempt: 2}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "g", ItemIndex: 6, Attempt: 1}},
		events.StepRetrying{ItemID: "g", Step: "fetch", ErrorType: "timeout", Error: "timed out after 1s"},
		events.StepRetrying{ItemID: "g", Step: "fetch", ErrorType: "timeout", Error: "timed out after 2s"},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "h", ItemIndex: 7},
			Action:    errorpolicy.DLQ, ErrorType: "circuit_open", Error: "refused: the circuit breaker is open",
		},
		events.CircuitOpen{Scope: "workflow", ConsecutiveFailures: 5, Until: sixteen.Add(30 * time.Second)},
	)
}

func TestTheRegionShowsHowAJobStands(t *testing.T) {
	now := sixteen.Add(2 * time.Second)
	for _, c := range []struct {
		name          string
		lines         Progress
		job           *Job
		width, height int
		want          []string
	}{
		{"wide", Progress{Waits: true}, busy(), 120, 40, []string{
			" 40% ███▓▓▓▒▒▒▒▒▒░░░░░░░░░░░░░░░░░░  4/10 done  1 failed  1 skipped  1 rejected  2 running  1 waiting",
			"2.0/s  3 retries, next in 10s: 2 timeout, 1 network; last g: timeout: timed out after 2s",
			"circuit breaker open, probes in 28s, 4 items held back: 5 consecutive failures",
			"  running f  2s  attempt 2",
			"  running g  2s  step fetch",
			"  failed  d  timeout: timed out after 1s",
			"  failed  h  circuit_open: refused: the circuit breaker is open",
		}},
		{"80 columns", Progress{}, busy(), 80, 24, []string{
			" 40% █▓▒▒░░░░░░  4/10 done  1 failed  1 skipped  1 rejected  2 running",
			"2.0/s  3 retries, next in 10s: 2 timeout, 1 network; last g: timeout: timed ou…",
			"circuit breaker open, probes in 28s, 4 items will be rejected: 5 consecutive",
			"  failures",
			"  running f  2s  attempt 2",
			"  running g  2s  step fetch",
			"  failed  d  timeout: timed out after 1s",
			"  failed  h  circuit_open: refused: the circuit breaker is open",
		}},
		{"narrow", Progress{}, busy(), 42, 40, []string{
			" 40% █▓▒▒░░░░░░  4/10 done  1 failed",
			"2.0/s  3 retries, next in 10s: 2 timeout…",
			"circuit breaker open, probes in 28s, 4",
			"  items will be rejected: 5 consecutive",
			"  failures",
			"  running f  2s  attempt 2",
			"  running g  2s  step fetch",
			"  failed  d  timeout: timed out after 1s",
			"  failed  h  circuit_open: refused: the …",
		}},
		{"40 columns leave room for the failures", Progress{}, seen(Resumed(errorpolicy.Metrics{TotalItems: 400, Outcomes: errorpolicy.Outcomes{Successful: 252, Failed: 20}}),
			events.JobResumed{Completed: 272, Pending: 128},
		), 40, 20, []string{" 68% █████▒░░░  272/400 done  20 failed"}},
		{"very narrow and low", Progress{}, busy(), 12, 4, []string{" 40%", "2.0/s  3 r…"}},
		{"colours take no room", Progress{Look: term.Look{Colours: true}}, busy(), 42, 6, []string{
			" 40% \xff[32m█\xff[0m\xff[33m█\xff[0m\xff[31m██\xff[0m░░░░░░  4/10 done  \xff[31m1 failed\xff[0m",
			"2.0/s  \xff[33m3 retries, next in 10s: 2 timeout…\xff[0m",
			"\xff[33mcircuit breaker open, probes in 28s, 4\xff[0m",
		}},
		{"the number of items is not known yet", Progress{}, seen(New(),
			events.JobStarted{}, events.PhaseStarted{Phase: "map"},
			events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}},
			events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}},
			events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a"}},
		), 120, 40, []string{"1 done  0 failed  1 running  0 waiting  2 found so far", "30.0/min", "  running b  2s"}},
		{"on a fleet, in 80 columns", Progress{}, seen(New(),
			events.JobStarted{}, events.PhaseStarted{Phase: "map"}, events.ItemsSelected{TotalItems: 500},
			events.ScaleRequested{MaxParallel: 12, By: "the fleet", Fleet: true, Workers: 3},
			events.AgentStarted{
				AttemptID: events.AttemptID{ItemID: "a"},
				Fleet:     true,
			}, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}, Fleet: true},
			events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a"}},
		), 80, 24, []string{
			"  0% ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  1/500 done  0 failed  0 running  0 waiting",
			"12 slots on 3 workers  1 waiting for a worker",
			"  waiting b  2s  for a worker",
		}},
		{"a phase that runs once", Progress{Steps: map[string]int{"reduce": 3}}, seen(New(),
			events.JobStarted{Mode: "mapreduce"}, events.PhaseStarted{Phase: "reduce"}, events.StepCompleted{Phase: "reduce"},
		), 120, 40, []string{"reduce: 2s, step 2 of 3"}},
		{"reduce behind a map phase", Progress{Steps: map[string]int{"reduce": 1}}, seen(New(),
			events.JobStarted{Mode: "mapreduce"}, events.PhaseStarted{Phase: "map"}, events.ItemsSelected{TotalItems: 2},
			events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}},
			events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a"}},
			events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}},
			events.AgentFailed{
				AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "x"},
				Action:    errorpolicy.DLQ, ErrorType: "command_failed",
			},
			events.PhaseCompleted{Phase: "map"}, events.PhaseStarted{Phase: "reduce"},
			events.StepRetrying{Step: "sum", ErrorType: "network", Error: "exit code 7: refused", DelayMS: events.Millis(9 * time.Second)},
		), 80, 24, []string{
			"100% ███████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  2/2 done  1 failed",
			"reduce: 2s, step 1 of 1",
			"  retrying sum in 7s: network: exit code 7: refused",
		}},
		{"after the map phase, before the next", Progress{}, seen(New(),
			events.JobStarted{Mode: "mapreduce"}, events.PhaseStarted{Phase: "map"}, events.ItemsSelected{TotalItems: 1},
			events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}},
			events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a"}}, events.PhaseCompleted{Phase: "map"},
		), 80, 24, []string{"100% ██████████████████████████████  1/1 done  0 failed  0 running  0 waiting", "30.0/min"}},
		{"dead letters, then reduce", Progress{Steps: map[string]int{"reduce": 1}}, seen(Resumed(errorpolicy.Metrics{TotalItems: 2, Outcomes: errorpolicy.Outcomes{Successful: 1, Failed: 1}}),
			events.JobResumed{Reason: events.ForDeadLetters, Completed: 2},
			events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}},
			events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}},
			events.PhaseStarted{Phase: "reduce"},
		), 80, 24, []string{"2 done  0 failed", "reduce: 2s, step 1 of 1"}},
		{"a phase that is over", Progress{Steps: map[string]int{"setup": 1}}, seen(New(),
			events.JobStarted{Mode: "mapreduce"}, events.PhaseStarted{Phase: "setup"}, events.PhaseCompleted{Phase: "setup"},
		), 80, 24, []string{"setup: done"}},
		{"a standard workflow", Progress{Steps: map[string]int{"": 2}}, seen(New(),
			events.JobStarted{Mode: "standard"},
		), 120, 40, []string{"commands: 2s, step 1 of 2"}},
		{"a standard workflow that is resumed", Progress{Steps: map[string]int{"": 2}}, seen(Resumed(errorpolicy.Metrics{}),
			events.JobResumed{StepsDone: 1},
		), 120, 40, []string{"commands: 2s, step 2 of 2"}},
		{"a resume", Progress{}, seen(Resumed(errorpolicy.Metrics{TotalItems: 100, Outcomes: errorpolicy.Outcomes{Successful: 83, Failed: 4, Rejected: 1, Skipped: 2}}),
			events.JobResumed{Completed: 90, Pending: 9, InFlight: 1},
			events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 95}},
		), 120, 40, []string{
			" 91% █████████████████████████▒▒░░░  91/100 done  4 failed  2 skipped  1 rejected  0 running  0 waiting",
			"30.0/min",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.lines.Lines(c.job, now, c.width, c.height)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A line about an agent shares its room: what it is called, what it has printed.
func TestRunningLinesShowLabelsAndTheLastLine(t *testing.T) {
	j := seen(New(), events.JobStarted{}, events.PhaseStarted{Phase: "map"},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0"}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, Attempt: 2}},
		events.StepRetrying{ItemID: "item_1", Step: "fetch", DelayMS: events.Millis(time.Minute)})
	j.Output(outputs.Entry{Source: outputs.Source{ItemID: "item_0"}, Printed: []outputs.Part{{Text: []byte("reading\tpage 3 of 12 \x1b[31m, which is long\n")}}})
	now := sixteen.Add(4 * time.Second)
	names := []string{"src/components/button/README.md", "世界 and a title of many words that goes on and on"}
	for width, want := range map[int][]string{
		40: {"  running item_0  4s  | reading page 3 …", "  waiting item_1  4s  step fetch"},
		80: {
			"  running item_0  …components/button/README.md  4s  | reading page 3 of 12 �[31…",
			"  waiting item_1  世界 and a title of …  4s  step fetch  retry in 56s  attempt 2",
		},
		200: {
			"  running item_0  src/components/button/README.md  4s  | reading page 3 of 12 �[31m, which is long",
			"  waiting item_1  世界 and a title of many words that goes on and on  4s  step fetch  retry in 56s  attempt 2",
		},
	} {
		g := Progress{Label: func(index int) string { return names[index] }}
		if diff := cmp.Diff(want, g.RunningLines(j, now, width, 3)); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
}

// The agents that run get the lines that the others leave of half of the terminal, and the last of these counts the
// rest.
func TestRunningLinesTakeTheRoomThatIsThere(t *testing.T) {
	j := seen(New(), events.JobStarted{}, events.PhaseStarted{Phase: "map"}, events.ItemsSelected{TotalItems: 9})
	for i := range 9 {
		j.Apply(events.Record{Time: sixteen, Event: events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: fmt.Sprint("item_", i), ItemIndex: i},
		}})
	}
	for height, want := range map[int]struct {
		running int
		last    string
	}{
		8: {2, "  and 7 more"}, 10: {2, "  and 7 more"}, 16: {5, "  and 4 more"}, 24: {9, "keys"},
	} {
		got := Progress{Keys: "keys"}.Lines(j, sixteen.Add(2*time.Second), 80, height)
		got = slices.DeleteFunc(got, func(line string) bool { return line == "keys" && height < 24 })
		running := 0
		for _, line := range got[:len(got)-1] {
			running += strings.Count(line, "  running ")
		}
		if last := got[len(got)-1]; len(got) > height/2 || running != want.running || last != want.last {
			t.Errorf("%d rows: got %d running, then %q; want %d, then %q", height, running, last, want.running, want.last)
		}
	}
	if got := (Progress{}).RunningLines(j, sixteen.Add(slow-1), 80, 9); len(got) > 0 {
		t.Errorf("agents that have just begun are shown: %q", got)
	}
}

// The log of a run does not say which step runs: what it prints does, until it waits for its next try.
func TestTheStepThatRunsIsTheOneThatPrints(t *testing.T) {
	j := seen(New(), events.JobStarted{})
	print := func(step string, after time.Duration, first, end bool) {
		e := outputs.Entry{Time: sixteen.Add(after), Source: outputs.Source{ItemID: "a", Step: step}, First: first}
		if e.Printed = []outputs.Part{{Text: []byte("x\n")}}; end {
			e.End = &outputs.End{}
		}
		j.Output(e)
	}
	for _, c := range []struct {
		what string
		do   func()
		want string
	}{
		{"the first step prints before the record of the start comes", func() {
			print("build", 0, true, false)
			seen(j, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}})
		}, "build"},
		{"it has ended", func() { print("build", 1, false, true) }, ""},
		{"a later one", func() { print("test", 2, true, false) }, "test"},
		{"what comes late of the first", func() { print("build", 1, false, false) }, "test"},
		{"it is to be tried again", func() {
			j.Apply(events.Record{Time: sixteen, Event: events.StepRetrying{ItemID: "a", Step: "test", DelayMS: 1000}})
		}, "test"},
		{"the end of the try before", func() { print("test", 3, false, true) }, "test"},
		{"the next step, after that", func() { print("pack", 2*time.Second, true, false) }, "pack"},
	} {
		if c.do(); j.InFlight()[0].Step != c.want {
			t.Errorf("%s: got %q, want %q", c.what, j.InFlight()[0].Step, c.want)
		}
	}
}

func TestOffATerminalOneLineSaysIt(t *testing.T) {
	got := Progress{}.StatusLine(busy(), sixteen.Add(2*time.Second))
	want := "4/10 done, 1 failed, 1 skipped, 1 rejected, 2 running, 1 waiting, 2.0/s, 3 retries, next in 10s: 2 timeout, 1 network; last g: timeout: timed out after 2s, " +
		"circuit breaker open, probes in 28s, 4 items will be rejected: 5 consecutive failures"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Off a terminal, too, the line says what limits the starts.
func TestTheLineSaysWhatLimitsStarts(t *testing.T) {
	rates := []events.StartRate{{Limit: "9/s", PerSecond: 9, Step: "call"}, {Limit: "40/s", PerSecond: 40, Per: "${item.host}"}}
	j := seen(New(), events.JobStarted{MaxParallel: 8, Rates: rates}, events.PhaseStarted{Phase: "map"},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}}, events.ConcurrencyChanged{
			Limit: 5, Before: 2,
			Rate: 48.5, Reason: "because",
		})
	got := Progress{Rate: RateHeld(j.Rates, time.Second)}.StatusLine(j, sixteen.Add(2*time.Second))
	if want := "waiting for rate limit 40/s for each ${item.host}, limit: 5 at a time, 48.5/s"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	for ago, want := range map[time.Duration]string{rateShown: "40/s for each ${item.host}", rateShown + 1: ""} {
		if got := RateHeld(j.Rates, ago); got != want {
			t.Errorf("%s after the last wait: got %q, want %q", ago, got, want)
		}
	}
	if got := RateHeld([]events.StartRate{{Limit: "1/min", PerSecond: 1.0 / 60}}, time.Minute); got == "" {
		t.Error("a rate of one in a minute is left out between two starts")
	}
}

// What an item is called cannot steer the terminal.
func TestTheRegionIsText(t *testing.T) {
	j := seen(New(), events.JobStarted{}, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "\x1b[2Jx\ny"}})
	for _, line := range (Progress{}).Lines(j, sixteen.Add(time.Minute), 80, 24) {
		if strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("%q", line)
		}
	}
}

// Whatever a job shows, a line has room for the cursor behind it, and every colour ends.
func TestLinesFitTheTerminal(t *testing.T) {
	j := busy()
	j.Apply(events.Record{
		Time:  sixteen,
		Event: events.AgentStarted{AttemptID: events.AttemptID{ItemID: strings.Repeat("界", 60), ItemIndex: 8}},
	})
	j.Apply(events.Record{Time: sixteen, Event: events.StepRetrying{ItemID: "g", Step: "👩‍💻\tstep", ErrorType: "network", Error: strings.Repeat("é́x", 99)}})
	for _, g := range []Progress{{}, {Look: term.Look{Colours: true}}} {
		for width := 3; width < 130; width++ {
			for _, line := range g.Lines(j, sixteen.Add(time.Minute), width, 40) {
				if wide := term.Width(line); wide >= width {
					t.Errorf("%d columns of %d: %q", wide, width, line)
				}
				if strings.Count(line, "\xff[0m")*2 != strings.Count(line, "\xff[") {
					t.Errorf("a colour goes on: %q", line)
				}
			}
		}
	}
}
