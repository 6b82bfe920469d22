package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
)

// An attempt that goes on has as much left of its budget on a worker whose clock is wrong by hours.
func TestABudgetIsMovedToTheClockOfTheWorker(t *testing.T) {
	for _, wrong := range []time.Duration{-7 * time.Hour, 0, 7 * time.Hour} {
		expires := start.Add(10 * time.Minute)
		a := agent.Attempt{JobID: "job", Continued: agent.Continued{Due: start.Add(time.Minute)}}
		a.ItemID, a.Retrying = "item_3", &events.StepRetrying{Step: "x", BudgetExpiresAt: &expires}
		task := NewTask(&a, "spec", start)
		data, err := json.Marshal(task)
		if err == nil {
			err = json.Unmarshal(data, &task)
		}
		if err != nil {
			t.Fatal(err)
		}
		arrived := start.Add(wrong + 10*time.Millisecond)
		for range 2 { // it is not moved twice
			got := task.Attempt(Spec{Template: agent.Attempt{JobID: "job"}}, 1, arrived)
			if left := got.Retrying.BudgetExpiresAt.Sub(arrived).Round(time.Second); left != 10*time.Minute {
				t.Errorf("the clock is wrong by %s: %s are left, want 10m", wrong, left)
			}
			p := retry.Policy{Attempts: 9, Budget: time.Hour, Jitter: retry.NoJitter}
			s := retry.State{Attempts: 1, ExpiresAt: *got.Retrying.BudgetExpiresAt, Resumed: true}
			for after, want := range map[time.Duration]bool{9 * time.Minute: true, 11 * time.Minute: false} {
				if d := p.Next(s, retry.Failure{Message: "connection refused"}, arrived.Add(after), retry.NewRand(1)); d.Retry != want {
					t.Errorf("the clock is wrong by %s: after %s it is tried again: %v, want %v", wrong, after, d.Retry, want)
				}
			}
		}
		if !expires.Equal(start.Add(10 * time.Minute)) {
			t.Error("the budget of the coordinator has changed")
		}
	}
}

func TestShiftMovesAllTimes(t *testing.T) {
	at := start
	made := func(at time.Time) Report {
		return Report{
			Token: 7, Event: []byte("text"), Entry: &outputs.Entry{Time: at}, For: time.Hour,
			Outcome: &agent.Outcome{Failure: &agent.Failure{Failure: retry.Failure{ResetAt: at, RetryAfter: time.Minute}}},
			Echo:    &Echo{Data: []byte("x")},
		}
	}
	got := made(at)
	kept := got.Outcome
	Shift(&got, time.Hour)
	if diff := cmp.Diff(made(at.Add(time.Hour)), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !kept.Failure.ResetAt.Equal(at) {
		t.Error("what others have is moved too")
	}
	zero := Report{Outcome: &agent.Outcome{Failure: &agent.Failure{}}}
	Shift(&zero, time.Hour)
	if !zero.Outcome.Failure.ResetAt.IsZero() {
		t.Error("a time that is not known is moved")
	}
	list := struct{ Of []any }{[]any{at, &at, "text", nil}}
	Shift(&list, -time.Hour)
	want := struct{ Of []any }{[]any{at.Add(-time.Hour), new(at.Add(-time.Hour)), "text", nil}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What messages take is no difference of clocks, and one that is known does not change by that.
func TestDrifted(t *testing.T) {
	var d time.Duration
	for _, s := range []struct{ its, now, want time.Duration }{
		{0, 20 * time.Millisecond, 0},
		{0, 7 * time.Hour, 7 * time.Hour},
		{time.Minute, 7*time.Hour + time.Minute + 300*time.Millisecond, 7 * time.Hour},
		{7 * time.Hour, 0, -7 * time.Hour},
		{time.Hour, time.Hour, 0},
	} {
		if d = Drifted(d, start.Add(s.its), start.Add(s.now)); d != s.want {
			t.Errorf("its clock shows %s, this one %s: got %s, want %s", s.its, s.now, d, s.want)
		}
	}
	if got := Drifted(0, time.Time{}, start); got != 0 {
		t.Errorf("got %s of a time that is not known, want 0", got)
	}
}
