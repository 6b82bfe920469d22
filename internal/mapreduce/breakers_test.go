package mapreduce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// hosts returns a map workflow over items with hosts, and this breaker for each of them.
func hosts(slots int, breaker string, hosts ...string) string {
	return strings.Replace(rated(slots, "1/s", "", hosts...), "  rate: 1/s\n", "", 1) +
		"error_policy:\n  circuit_breaker: {per: \"${item.host}\", " + breaker + "}\n"
}

// hostOf returns the host of the item of a call.
func hostOf(all []string, c call) string {
	var index int
	_, _ = fmt.Sscanf(c.item, "item_%d", &index)
	return all[index]
}

func TestASickTargetHoldsBackItsOwnItemsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for i := range 60 {
			all = append(all, []string{"sick", "well", "fine"}[i%3])
		}
		began := time.Now()
		c := config(t, fake(func(k call) answer {
			sick := hostOf(all, k) == "sick" && time.Since(began) < 5*time.Minute
			return answer{takes: time.Second, code: map[bool]int{true: 1}[sick]}
		}))
		r := run(t, c, hosts(2, "failure_threshold: 3, success_threshold: 2, half_open_requests: 1, timeout: 2m", all...))
		if r.State != jobs.Completed || r.Metrics.Rejected != 0 || r.Metrics.Failed > 6 {
			t.Fatalf("got %s with %+v, want that items of the sick host wait for it to be well again", r.State, r.Metrics)
		}
		var last time.Duration
		for _, rec := range recordsOf(t, r.Job) {
			if e, is := rec.Event.(events.AgentCompleted); is && hostOf(all, call{item: e.ItemID}) != "sick" {
				last = rec.Time.Sub(began)
			}
		}
		if last > 30*time.Second {
			t.Errorf("the others were done after %s, want about 23s", last)
		}
		opened, _ := told[events.CircuitOpen](recordsOf(t, r.Job))
		closed, _ := told[events.CircuitClosed](recordsOf(t, r.Job))
		if len(opened) < 2 || len(closed) != 1 || slices.ContainsFunc(opened, func(e events.CircuitOpen) bool { return e.Key != "sick" }) || closed[0].Key != "sick" {
			t.Errorf("got %+v and %+v", opened, closed)
		}
	})
}

func TestItemsOfAnOpenKeyAreRejectedIfTheWorkflowSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"sick", "sick", "sick", "well", "sick", "well"}
		c := config(t, fake(func(k call) answer {
			return answer{takes: time.Second, code: map[bool]int{true: 1}[hostOf(all, k) == "sick"]}
		}))
		r := run(t, c, hosts(1, "failure_threshold: 2, timeout: 1h, on_open: reject", all...))
		if r.Metrics.Successful != 2 || r.Metrics.Failed != 2 || r.Metrics.Rejected != 2 {
			t.Errorf("got %+v, want 2 successful, 2 failed and 2 rejected", r.Metrics)
		}
	})
}

// TestTestsOfAKeyAreFewAndTheOthersWaitForTheirOutcome: at most half_open_requests at once, and the next as soon as one has ended.
func TestTestsOfAKeyAreFewAndTheOthersWaitForTheirOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := slices.Repeat([]string{"a"}, 15) // 4 open it, up to 3 start before their outcomes are known, the others wait
		began := time.Now()
		c := config(t, fake(func(call) answer {
			return answer{takes: time.Second, code: map[bool]int{true: 1}[time.Since(began) < 5*time.Second]}
		}))
		r := run(t, c, hosts(4, "failure_threshold: 4, success_threshold: 6, half_open_requests: 2, timeout: 10s", all...))
		tests, atOnce, most := false, 0, 0
		for _, record := range recordsOf(t, r.Job) {
			switch record.Event.(type) {
			case events.CircuitHalfOpen:
				tests = true
			case events.CircuitClosed:
				tests = false
			case events.AgentStarted:
				atOnce++
			case events.AgentCompleted, events.AgentFailed:
				atOnce--
			}
			if tests {
				most = max(most, atOnce)
			}
		}
		if m := r.Metrics; m.Successful+m.Failed != 15 || m.Failed < 4 || m.Failed > 7 || most != 2 {
			t.Errorf("%d succeeded, %d failed, %d tests at once, want 4 to 7 that failed, and 2 tests", m.Successful, m.Failed, most)
		}
		if took := time.Since(began).Round(time.Second); took < 15*time.Second || took > 16*time.Second {
			t.Errorf("took %s, want 1s, the timeout, 3 rounds of tests, and 1s or 2s", took)
		}
	})
}

// TestBreakersByKeyAndOneRateGoTogether: an item waits for both.
func TestBreakersByKeyAndOneRateGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"sick", "well", "sick", "well", "well", "well"}
		c := config(t, fake(func(k call) answer { return answer{code: map[bool]int{true: 1}[hostOf(all, k) == "sick"]} }))
		source := strings.Replace(hosts(3, "failure_threshold: 1, timeout: 1m", all...), "  input:\n", "  rate: {limit: 1/10s, burst: 1}\n  input:\n", 1)
		r := run(t, c, source)
		got, _ := turnsOf(recordsOf(t, r.Job))
		want := []string{"0s item_0", "10s item_1", "20s item_3", "30s item_4", "40s item_5", "1m0s item_2"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestManyKeysLeaveTheStateSmall: of hosts that all fail once, a checkpoint does not grow without end.
func TestManyKeysLeaveTheStateSmall(t *testing.T) {
	s := job.NewFold(parse(t, hosts(2, "failure_threshold: 1, timeout: 1m", "a")).ErrorPolicy)
	s.Apply(events.Record{Seq: 1, Event: events.JobStarted{}})
	for i := range 70_000 {
		id := fmt.Sprintf("item_%d", i)
		s.Apply(events.Record{Seq: int64(2 * i), Event: events.AgentStarted{
			AttemptID:  events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
			BreakerKey: fmt.Sprintf("%0200d", i),
		}})
		s.Apply(events.Record{Seq: int64(2*i + 1), Event: events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1, AgentID: "a"},
			Action:    errorpolicy.DLQ,
		}})
	}
	if n := s.Limits.Keys(); n > 1<<16 || n < 1<<15 {
		t.Errorf("got %d keys", n)
	}
}
