package events

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/retry"
)

func TestStatsCountWhatHappened(t *testing.T) {
	ms := func(n int) Millis { return Millis(time.Duration(n) * time.Millisecond) }
	happened := []Event{
		JobStarted{},
		StepFailed{Step: "setup", ErrorType: retry.TypeNetwork},
		AgentStarted{AttemptID: AttemptID{ItemID: "a", AgentID: "j/a/1"}},
		StepRetrying{ItemID: "a", ErrorType: retry.TypeTimeout},
		StepFailed{ItemID: "a", ErrorType: retry.TypeTimeout},
		AgentFailed{
			AttemptID: AttemptID{ItemID: "a", AgentID: "j/a/1"},
			ErrorType: retry.TypeTimeout, DurationMS: ms(40), Action: errorpolicy.Retry,
		},
		AgentStarted{AttemptID: AttemptID{ItemID: "a", AgentID: "j/a/2"}},
		AgentCompleted{
			AttemptID: AttemptID{ItemID: "a", AgentID: "j/a/2"}, DurationMS: ms(10),
			Place: Place{Node: "attic"},
		},
		AgentFailed{AttemptID: AttemptID{ItemID: "b"}, ErrorType: "circuit_open", Action: errorpolicy.DLQ},
		AgentStarted{AttemptID: AttemptID{ItemID: "c", AgentID: "j/c/1"}},
		AgentInterrupted{AttemptID: AttemptID{ItemID: "c", AgentID: "j/c/1"}, Place: Place{Node: "desk"}},
		AgentStarted{AttemptID: AttemptID{ItemID: "c", AgentID: "j/c/1"}},
		AgentCompleted{
			AttemptID: AttemptID{ItemID: "c", AgentID: "j/c/1"}, DurationMS: ms(20),
			Place: Place{Node: "desk"},
		},
	}
	var s Stats
	for i, e := range happened {
		s.Add(Record{Seq: int64(i + 1), Time: start0.Add(time.Duration(i) * time.Second), Event: e})
	}
	want := Stats{
		Events: 13, First: start0, Last: start0.Add(12 * time.Second), SpanMS: ms(12000), PerSecond: 13. / 12,
		Types: map[string]int{
			"JobStarted": 1, "StepFailed": 2, "AgentStarted": 4, "StepRetrying": 1, "AgentFailed": 2, "AgentCompleted": 2, "AgentInterrupted": 1,
		},
		ErrorTypes: map[retry.Type]int{retry.TypeNetwork: 1, retry.TypeTimeout: 1, "circuit_open": 1},
		Items:      3, Agents: 3, Attempts: 4, Retries: 1, StepRetries: 1,
		Durations: Durations{Count: 3, P50: ms(20), P95: ms(40), Max: ms(40)}, Nodes: map[string]int{"attic": 1, "desk": 2},
	}
	if diff := cmp.Diff(s.Sum(), want, cmpopts.IgnoreUnexported(Stats{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// Lines count as their records do, whichever way they are read.
func TestALineCountsAsItsRecord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var byLine, byRecord Stats
		for i := range rapid.IntRange(1, 40).Draw(rt, "lines") {
			item := rapid.SampledFrom([]string{"a", "b", "c", "a/1", "é", ""}).Draw(rt, "item")
			agent := "j/" + item + "/" + rapid.SampledFrom([]string{"1", "2", "11", "1/1"}).Draw(rt, "attempt")
			e := rapid.SampledFrom([]Event{
				AgentStarted{AttemptID: AttemptID{ItemID: item, AgentID: agent}},
				AgentCompleted{AttemptID: AttemptID{ItemID: item, AgentID: agent}, DurationMS: Millis(i) * 1000},
				AgentStarted{AttemptID: AttemptID{ItemID: item, AgentID: "b/1"}},
				StepRetrying{ItemID: item},
				JobPaused{},
				AgentFailed{AttemptID: AttemptID{ItemID: item, AgentID: agent}},
			}).Draw(rt, "event")
			correlation := rapid.SampledFrom([]string{"j/" + item, "j"}).Draw(rt, "correlation")
			r := Record{Seq: int64(i + 1), Time: start0.Add(time.Duration(i) * 300 * time.Millisecond), JobID: "j", CorrelationID: correlation, Event: e}
			byRecord.Add(r)
			if err := byLine.AddLine(bytes.TrimSpace(encodeAll(t, []Record{r}))); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(byLine.Sum(), byRecord.Sum(), cmpopts.IgnoreUnexported(Stats{})); diff != "" {
			t.Fatalf("(-by line +by record):\n%s", diff)
		}
	})
	var s Stats
	if err := s.AddLine([]byte("{")); err == nil {
		t.Error("got no error for what is no record")
	}
}

func TestRanksAreLengthsThatWereMeasured(t *testing.T) {
	for n, want := range map[int][2]Millis{1: {1, 1}, 2: {1, 2}, 20: {10, 19}, 100: {50, 95}, 101: {51, 96}} {
		var s Stats
		for i := range n {
			s.lengths = append(s.lengths, Millis(n-i))
		}
		d := s.Sum().Durations
		if got := [2]Millis{d.P50, d.P95}; got != want || d.Max != Millis(n) || d.Count != n {
			t.Errorf("%d lengths: got %v of %d, at most %v, want %v", n, got, d.Count, d.Max, want)
		}
	}
}
