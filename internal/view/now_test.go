package view

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
	"prodigy/internal/outputs"
)

var began = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)

// What a command prints may be known before the record of its start, and belongs to nobody once it has ended.
func TestTheLastLineOfARunningCommandIsKnown(t *testing.T) {
	entry := func(item, text string, end *outputs.End) outputs.Entry {
		return outputs.Entry{Source: outputs.Source{ItemID: item, Step: "s"}, Printed: []outputs.Part{{Text: []byte(text)}}, End: end}
	}
	j := New()
	apply := func(list ...events.Event) {
		for _, e := range list {
			j.Apply(events.Record{Time: began, JobID: "j", Event: e})
		}
	}
	want := func(lines ...string) {
		t.Helper()
		var got []string
		for _, a := range j.InFlight() {
			got = append(got, a.Printed)
		}
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	j.Output(entry("a", "one\ntwo\n \n", nil))
	apply(events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}})
	want("two", "")
	j.Output(entry("b", "10%\r20%\r", nil))
	want("two", "20%")
	j.Output(entry("b", "\n", nil))
	want("two", "20%")
	j.Output(entry("a", "three", &outputs.End{}))
	want("", "20%")
	apply(events.AgentPlaced{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}, Place: events.Place{
		Node: "w",
		Slot: 7,
	}})
	if got := j.InFlight(); len(got) == 0 || !slices.ContainsFunc(got, func(a Attempt) bool { return a.ItemID == "b" && a.Node == "w" && a.Slot == 7 }) {
		t.Errorf("got %+v, want b on w in slot 7", got)
	}
	apply(events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}})
	want("", "")

	for i := range 3 * printedKept {
		j.Output(entry(strconv.Itoa(i), "late", nil))
	}
	if n := len(j.printed); n > printedKept {
		t.Errorf("%d lines are kept of items that do not run", n)
	}

	apply(events.PhaseStarted{Phase: "reduce"})
	j.Output(outputs.Entry{Source: outputs.Source{Phase: "reduce", Step: "sum"}, Printed: []outputs.Part{{Text: []byte("so far 3\n")}}})
	if j.StepNow != "sum" || j.Printed != "so far 3" {
		t.Errorf("got %q %q", j.StepNow, j.Printed)
	}
	apply(events.StepCompleted{Phase: "reduce", Step: "sum"})
	if j.StepNow != "" || j.Printed != "" {
		t.Errorf("got %q %q of a step that has ended", j.StepNow, j.Printed)
	}
}

// The breaker of a step holds the items whose next try waits.
func TestABreakerOfAStepHoldsItems(t *testing.T) {
	j := New()
	for _, e := range []events.Event{
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}},
		events.CircuitOpen{Scope: "call", ConsecutiveFailures: 1, Until: began.Add(time.Minute)},
		events.StepRetrying{ItemID: "a", Step: "other", ErrorType: "timeout", Error: "too long"},
		events.StepRetrying{ItemID: "a", Step: "call", ErrorType: "network", Error: "refused", DelayMS: events.Millis(time.Second)},
		events.StepRetrying{ItemID: "a", Step: "call", ErrorType: "network", Error: "refused again", DelayMS: events.Millis(time.Second)},
	} {
		j.Apply(events.Record{Time: began, Event: e})
	}
	if n := j.Held(j.Breakers()[0], began); n != 1 {
		t.Errorf("got %d items that wait, want 1", n)
	}
}

// What was given to a fleet and runs on no worker yet waits for one: it counts neither as running nor as waiting for another attempt.
func TestWhatNoWorkerRunsYetIsNotCountedAsRunning(t *testing.T) {
	j := New()
	apply := func(after time.Duration, e events.Event) {
		j.Apply(events.Record{Time: began.Add(after), JobID: "j", Event: e})
	}
	counts := func(after time.Duration) [3]int {
		now := began.Add(after)
		return [3]int{j.Running(now), j.Waiting(now), j.AwaitWorkers(now)}
	}
	apply(0, events.JobStarted{MaxParallel: 4, Broker: "tls://broker:4222"})
	for i, id := range []string{"a", "b", "c", "d"} {
		apply(0, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
			Worker:    i + 1, Fleet: true,
		})
	}
	if got := counts(500 * time.Millisecond); got != [3]int{4, 0, 0} {
		t.Errorf("at first: %d, want 4 running, since it is not known yet where", got)
	}
	apply(100*time.Millisecond, events.AgentPlaced{
		AttemptID: events.AttemptID{ItemID: "a", Attempt: 1},
		Place:     events.Place{Node: "desk", Host: "vm-7", Slot: 2},
	})
	apply(200*time.Millisecond, events.AgentProgress{ItemID: "b", Step: "call"})
	apply(time.Second, events.StepRetrying{ItemID: "c", ItemIndex: 2, DelayMS: events.Millis(time.Minute)})
	if got := counts(3 * time.Second); got != [3]int{2, 1, 1} {
		t.Errorf("then: %d, want 2 running, 1 that waits for its step, 1 that waits for a worker", got)
	}
	var where []string
	for _, a := range j.InFlight() {
		if a.ItemID == "a" {
			where = append(where, a.Where())
		}
	}
	if want := []string{"desk slot 2 on host vm-7"}; !slices.Equal(where, want) {
		t.Errorf("a runs on %q, want %q", where, want)
	}
}

// Nobody knows when a job ends that no worker runs anything of.
func TestAJobThatWaitsForWorkersHasNoEstimate(t *testing.T) {
	const items = 24
	for name, scaled := range map[string]bool{"with the slots of the workers": true, "with max_parallel": false} {
		j := New()
		apply := func(after time.Duration, e events.Event) {
			j.Apply(events.Record{Time: began.Add(after), JobID: "j", Event: e})
		}
		estimated := func(after time.Duration) bool { _, ok := j.Remaining(began.Add(after)); return ok }
		apply(0, events.JobStarted{MaxParallel: 2, Broker: "tls://broker:4222"})
		apply(0, events.PhaseStarted{Phase: "map"})
		apply(0, events.ItemsSelected{TotalItems: items})
		if scaled {
			apply(0, events.ScaleRequested{MaxParallel: 2, By: "the fleet", Fleet: true, Workers: 1})
		}
		for i := range items - 2 {
			apply(time.Duration(i)*time.Second, events.AgentStarted{
				AttemptID: events.AttemptID{ItemID: strconv.Itoa(i), ItemIndex: i, Attempt: 1},
				Worker:    1, Fleet: true,
			})
			apply(time.Duration(i)*time.Second, events.AgentCompleted{
				AttemptID: events.AttemptID{ItemID: strconv.Itoa(i), ItemIndex: i, Attempt: 1},
				Place:     events.Place{Node: "desk", Slot: 1}, DurationMS: 500,
			})
		}
		apply(items*time.Second, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "last", ItemIndex: items - 1, Attempt: 1},
			Worker:    1, Fleet: true,
		})
		if !estimated(items * time.Second) {
			t.Errorf("%s: there is no estimate while workers run items", name)
		}
		if scaled {
			apply(items*time.Second, events.ScaleRequested{Was: 2, By: "the fleet", Fleet: true})
		}
		if estimated((items + 5) * time.Second) {
			t.Errorf("%s: there is an estimate though nothing runs", name)
		}
		apply((items+6)*time.Second, events.AgentPlaced{
			AttemptID: events.AttemptID{ItemID: "last", ItemIndex: items - 1, Attempt: 1},
			Place:     events.Place{Node: "desk", Slot: 1},
		})
		if scaled {
			apply((items+6)*time.Second, events.ScaleRequested{MaxParallel: 2, By: "the fleet", Fleet: true, Workers: 1})
		}
		if !estimated((items + 7) * time.Second) {
			t.Errorf("%s: there is no estimate when the last item runs", name)
		}
	}
}

// A try that has come due while the job is paused has not begun.
func TestTriesOfAPausedJobWaitUntilItGoesOn(t *testing.T) {
	j := New()
	apply := func(after time.Duration, e events.Event) {
		j.Apply(events.Record{Time: began.Add(after), JobID: "j", Event: e})
	}
	apply(0, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}})
	apply(0, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}})
	apply(time.Second, events.StepRetrying{ItemID: "b", ItemIndex: 1, DelayMS: events.Millis(time.Second)})
	apply(3*time.Second, events.StepRetrying{ItemID: "a", DelayMS: events.Millis(2 * time.Second)})
	apply(4*time.Second, events.PauseRequested{By: "alice"})
	now := began.Add(time.Minute)
	held := slices.IndexFunc(j.InFlight(), func(a Attempt) bool { return a.Held && a.ItemID == "a" })
	if running, waiting := j.Running(now), j.Waiting(now); running != 1 || waiting != 1 || held < 0 || !j.NextRetry(began.Add(4*time.Second)).IsZero() {
		t.Errorf("paused: %d running, %d waiting, next at %v, want b to run and a to wait: %+v", running, waiting, j.NextRetry(now), j.InFlight())
	}
	apply(time.Minute, events.ContinueRequested{By: "alice"})
	if running := j.Running(now); running != 2 {
		t.Errorf("continued: %d running, want 2", running)
	}
}
