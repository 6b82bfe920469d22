package view_test

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const recorded = `
name: fetch
map:
  input: [1]
  agent_template:
    - id: get
      shell: "curl -fsS https://api.example.com/${item}"
      retry_config: {attempts: 3, initial_delay: 1s, jitter: full, retry_on: [network, {exit_code: [75]}], retry_budget: 1m}
    - id: keep
      shell: "tee out"
error_policy:
  on_item_failure: retry
  retry_config: {max_attempts: 3, initial_delay: 10s, backoff: fixed}
  circuit_breaker: {failure_threshold: 2}
`

func ms(d time.Duration) *events.Millis { m := events.Millis(d); return &m }

// histories are what happened to item_0, or around it.
var histories = []struct {
	title string
	log   []events.Event
}{
	{"a step is tried again, and the attempt succeeds", []events.Event{
		begun(0),
		events.StepRetrying{
			ItemID: "item_0", Step: "get", Attempt: 1, ErrorType: "network", Error: "exit code 7: connection refused", Matched: "network",
			ComputedDelayMS: *ms(time.Second), DelayMS: *ms(700 * time.Millisecond), WaitedMS: *ms(700 * time.Millisecond), BudgetLeftMS: ms(59300 * time.Millisecond),
		},
		events.StepRetrying{
			ItemID: "item_0", Step: "get", Attempt: 2, ErrorType: "command_failed", Error: "exit code 75", Matched: "{exit_code: [75]}",
			ComputedDelayMS: *ms(2 * time.Second), DelayMS: *ms(500 * time.Millisecond), WaitedMS: *ms(1200 * time.Millisecond), BudgetLeftMS: ms(58800 * time.Millisecond),
		},
		done(0),
	}},
	{"the item is tried again, the job is stopped, and the time is kept", []events.Event{
		begun(0),
		events.StepFailed{
			ItemID: "item_0", Step: "get", Attempts: 1, Reason: "not_retryable", Action: "stop", Error: "exit code 22", ErrorType: "command_failed",
			ExitCode: new(22),
		},
		retried(1),
		events.JobPaused{Reason: "SIGINT"},
		events.JobResumed{Reason: events.ForResume},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Worker: 4},
	}},
	{"the run dies, the breaker opens, and the item is a dead letter in the end", []events.Event{
		begun(0),
		events.JobResumed{Reason: events.ForResume},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Worker: 1},
		retried(2),
		events.CircuitOpen{Scope: "workflow", ConsecutiveFailures: 2, Until: start.Add(time.Minute)},
		events.CircuitHalfOpen{Scope: "workflow"},
		events.CircuitClosed{Scope: "workflow", Successes: 3},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 3}, Worker: 1},
		events.StepFailed{ItemID: "item_0", Step: "keep", Attempts: 1, Reason: "exhausted", Action: "stop", Error: "exit code 1", ErrorType: "command_failed"},
		failedFor("all 3 attempts failed", 3),
		events.DLQItemAdded{ItemID: "item_0", FailureCount: 3},
	}},
	{"the run dies, and the attempt goes on elsewhere", []events.Event{
		begun(0),
		events.JobResumed{Reason: events.ForResume, Attached: []int{0}},
		done(0),
	}},
	{"the run dies, and a worker may still run the attempt", []events.Event{
		begun(0),
		events.AgentPlaced{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1},
			Place:     events.Place{Node: "gamma", Host: "build-3", Slot: 2},
		},
		events.JobResumed{Reason: events.ForResume, Attached: []int{0}},
		events.AgentLost{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1},
			Reason:    "its worker has not been heard of for 15s",
		},
	}},
	{"the run dies, and the retry budget of a step ends meanwhile", []events.Event{
		begun(0),
		events.StepRetrying{
			ItemID: "item_0", Step: "get", Attempt: 1, ErrorType: "network", Error: "exit code 7", Matched: "network",
			ComputedDelayMS: *ms(time.Second), DelayMS: *ms(time.Second), WaitedMS: *ms(time.Second), BudgetLeftMS: ms(59 * time.Second),
			BudgetExpiresAt: new(start.Add(500 * time.Millisecond)),
		},
		events.JobResumed{Reason: events.ForResume},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Worker: 1},
		events.StepFailed{
			ItemID: "item_0", Step: "get", Attempts: 2, Reason: "budget", Action: "stop", Error: "retry budget exhausted: exit code 7",
			ErrorType: "network", ExitCode: new(7),
		},
	}},
	{"a dead letter is sent again, the run dies, and it is one as before", []events.Event{
		begun(0), failedFor("on_item_failure is dlq", 1),
		events.DLQItemAdded{ItemID: "item_0", FailureCount: 1},
		events.JobCompleted{},
		events.JobResumed{Reason: events.ForDeadLetters},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Worker: 1},
		events.JobResumed{Reason: events.ForDeadLetters},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 3}, Worker: 1},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 3}, DurationMS: *ms(time.Second)},
		events.DLQItemRemoved{ItemID: "item_0", Reason: "succeeded"},
	}},
	{"the breaker refuses the item, and a person throws it away", []events.Event{
		events.CircuitOpen{Scope: "workflow", ConsecutiveFailures: 2, Until: start.Add(time.Minute)},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "item_0"},
			ErrorType: "circuit_open", Action: errorpolicy.DLQ, Error: "refused: the circuit breaker is open",
		},
		events.DLQItemAdded{ItemID: "item_0", FailureCount: 1},
		events.DLQItemRemoved{ItemID: "item_0", Reason: "purged"},
	}},
	{"an agent waits for the limit of its plan", []events.Event{
		begun(0),
		events.QuotaPaused{Pool: "claude", Kind: "quota", Item: "item_0", Until: time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)},
	}},
	{"an attempt is interrupted", []events.Event{
		begun(0),
		events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1}, Reason: "SIGTERM"},
		events.JobPaused{Reason: "SIGTERM"},
		events.JobResumed{Reason: events.ForResume},
	}},
	{"a worker of a fleet is lost twice, and the item goes elsewhere", []events.Event{
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1}, Worker: 3, Fleet: true},
		events.AgentPlaced{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1},
			Place:     events.Place{Node: "worker-1", Host: "a", Slot: 2},
		},
		events.AgentLost{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1},
			Place:     events.Place{Node: "worker-1", Host: "a"}, Reason: "no word from it for 1m",
		},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Worker: 3, Fleet: true},
		events.AgentLost{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Reason: "no word from it for 1m"},
		events.AgentEndedLate{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1},
			Token:     7, Node: "worker-1", Slot: 2, Outcome: events.LateKilled,
		},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 3},
			Worker:    3, Fleet: true, Suspect: true,
		},
		events.AgentEndedLate{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2},
			Token:     9, Node: "worker-1", Slot: 1, Outcome: events.LateSucceeded, DurationMS: *ms(time.Second),
		},
		events.AgentCompleted{
			AttemptID:  events.AttemptID{ItemID: "item_0", Attempt: 3},
			DurationMS: *ms(time.Second), Place: events.Place{Node: "worker-2", Host: "b", Slot: 3},
		},
	}},
	{"a dead letter is sent again, and its worker is lost", []events.Event{
		begun(0), failedFor("on_item_failure is dlq", 1),
		events.DLQItemAdded{ItemID: "item_0", FailureCount: 1},
		events.JobResumed{Reason: events.ForDeadLetters},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Worker: 1, Fleet: true},
		events.AgentLost{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2},
			Place:     events.Place{Node: "worker-1"}, Reason: "no word from it for 1m",
		},
	}},
	{"a step is left out, and the breaker of another opens", []events.Event{
		begun(0),
		events.StepSkipped{ItemID: "item_0", Step: "fetch", When: "${item.new}"},
		events.StepRetrying{
			ItemID: "item_0", Step: "get", Attempt: 1, ErrorType: "network", Error: "exit code 7", Matched: "network",
			ComputedDelayMS: *ms(time.Second), DelayMS: *ms(time.Second), WaitedMS: *ms(time.Second),
		},
		events.CircuitOpen{Scope: "keep", ConsecutiveFailures: 4, Until: start.Add(time.Minute)},
		events.CircuitOpen{Scope: "get", ConsecutiveFailures: 2, Until: start.Add(time.Minute)},
		events.StepFailed{
			ItemID: "item_0", Step: "get", Attempts: 1, Reason: "circuit_open", Action: "stop", Error: "refused: the circuit breaker is open",
			ErrorType: "circuit_open",
		},
		failedFor("on_item_failure is dlq", 1),
	}},
	{"nothing is known of the item", []events.Event{events.JobStarted{}, begun(1), done(1)}},
}

// retried is a failed attempt that is followed by another, 10 seconds later.
func retried(attempt int) events.AgentFailed {
	at := start.Add(20 * time.Second)
	return events.AgentFailed{
		AttemptID:  events.AttemptID{ItemID: "item_0", AgentID: "a", Attempt: attempt},
		DurationMS: *ms(1200 * time.Millisecond), Step: "get", Error: "exit code 22", ErrorType: "command_failed",
		Action: errorpolicy.Retry, Reason: fmt.Sprintf("try %d of 3 failed", attempt), DelayMS: ms(10 * time.Second), RetryAt: &at,
		Retry: &retry.State{Attempts: attempt, Waited: *ms(10 * time.Second), Previous: *ms(10 * time.Second)},
	}
}

func failedFor(reason string, attempt int) events.AgentFailed {
	e := broken(0, errorpolicy.DLQ)
	e.Reason, e.Attempt, e.Step, e.DurationMS = reason, attempt, "keep", *ms(time.Second)
	return e
}

func recordsOf(list []events.Event) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		var c clock
		for _, e := range list {
			if !yield(c.record(e), nil) {
				return
			}
		}
	}
}

func TestExplanationsInWords(t *testing.T) {
	defer func(local *time.Location) { time.Local = local }(time.Local)
	time.Local = time.UTC
	w, err := workflow.Parse("workflow.yml", []byte(recorded), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range histories {
		s, err := view.Explain(recordsOf(c.log), "item_0", "", w, true)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "# %s\n", c.title)
		for _, ch := range s.Entries {
			fmt.Fprintf(&b, "%d %s\n", ch.Seq, ch.Text)
			for _, why := range ch.Why {
				fmt.Fprintf(&b, "    %s\n", why)
			}
		}
		fmt.Fprintf(&b, "= %s: %s\n\n", s.Status, s.Now)
	}
	const golden = "testdata/explain.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("go test ./internal/view -update rewrites it (-want +got):\n%s", diff)
	}
}

// A workflow that cannot be read any more leaves an explanation with fewer reasons, not none.
func TestAnExplanationNeedsNoWorkflow(t *testing.T) {
	for _, c := range histories {
		with, err := view.Explain(recordsOf(c.log), "item_0", "", nil, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(with.Entries) == 0 && with.Status != view.Unseen {
			t.Errorf("%s: no chapters", c.title)
		}
	}
}

// Every event about an item has an entry.
func TestEveryEventOfAnItemIsTold(t *testing.T) {
	for _, zero := range events.Types() {
		e := aboutItem(t, zero, "item_0")
		if events.Subject(e) == "" {
			continue
		}
		s, err := view.Explain(recordsOf([]events.Event{e}), "item_0", "", nil, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Entries) != 1 || s.Entries[0].Text == "" || s.Entries[0].Event != events.TypeOf(e) {
			t.Errorf("%s: got %+v, want one entry about it", events.TypeOf(e), s.Entries)
		}
	}
}

// aboutItem returns the event with an item, when its type has a place for one.
func aboutItem(t *testing.T, e events.Event, itemID string) events.Event {
	t.Helper()
	v := reflect.New(reflect.TypeOf(e)).Elem()
	if f := v.FieldByName("ItemID"); f.IsValid() {
		f.SetString(itemID)
	}
	return v.Interface().(events.Event)
}
