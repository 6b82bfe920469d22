package simulate

import (
	"slices"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

func TestACaseSaysWhatDiffers(t *testing.T) {
	all, err := ParseCases("w_test.yml", []byte(`
cases:
  - name: one
    items: [{id: a, n: 1.5}, two, [3]]
    params: {list: [1, 2], text: x}
    expect:
      state: paused # the word of earlier versions for stopped
      reason: stopped
      items: {a: success, b: rejected, c: pending, d: failed}
      dead_letters: {b: any, e: network}
      retries: 1-2
      duration: {min: 1m}
      events: [agent_started, {type: agent_failed, attempt: 2, item_id: d}]
`))
	if err != nil || len(all.Cases) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	c := &all.Cases[0]
	if got := []string{string(c.Items[0]), string(c.Items[1]), string(c.Items[2]), c.Params["list"], c.Params["text"]}; !slices.Equal(got, []string{`{"id":"a","n":1.5}`, `"two"`, `[3]`, "[1,2]", "x"}) {
		t.Errorf("got items and parameters %q", got)
	}
	var seen Observer
	tally := NewTally()
	for _, e := range []events.Event{
		events.AgentFailed{AttemptID: events.AttemptID{ItemID: "d", AgentID: "x", Attempt: 2}},
		// before the start that is expected first
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a"}},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "b"},
			ErrorType: "circuit_open", Action: errorpolicy.DLQ,
		},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "d", AgentID: "x", Attempt: 1},
			ErrorType: "timeout", Action: errorpolicy.DLQ,
		},
	} {
		tally.Apply(events.Record{Event: e})
		if err := seen.Watch(c, []events.Record{{Event: e}}); err != nil {
			t.Fatal(err)
		}
	}
	got := seen.Check(c, 0, mapreduce.Result{State: jobs.Stopped, Reason: "paused", Duration: 59 * time.Second}, tally)
	want := []string{
		`reason: got "paused", want "stopped" in it`,
		"dead letter e: not found, want network",
		"dead letter d: got timeout, want none",
		"retries: got 0, want 1 to 2",
		"duration: got 59s, want at least 1m",
		"events: no AgentFailed attempt=2 item_id=d after AgentStarted",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzParseCases(f *testing.F) {
	f.Add("cases: [{name: a, items: [1, {b: c}], expect: {exit: 0, events: [job_started], duration: 1s, dead_letters: []}}]")
	f.Add("cases: [{name: a, items: &x [*x]}]")
	f.Add("workflow: w.yml\ncases: [{name: a, params: {b: {1: 2}}, env: {A: b}}]")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseCases("w_test.yml", []byte(text))
		if err == nil && len(all.Cases) == 0 {
			t.Error("it is read without a case")
		}
	})
}
