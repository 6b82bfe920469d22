package dlq

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
)

// history makes the records of a log.
type history struct{ records []events.Record }

func (h *history) add(es ...events.Event) {
	for _, e := range es {
		n := int64(len(h.records) + 1)
		h.records = append(h.records, events.Record{
			Seq: n, Time: t0.Add(time.Duration(n) * time.Second), JobID: "j", CorrelationID: "j/" + events.Subject(e), Event: e,
		})
	}
}

func started(item, attempt int) events.Event {
	id := itemID(item)
	return events.AgentStarted{AttemptID: events.AttemptID{
		ItemID: id, ItemIndex: item,
		AgentID: fmt.Sprintf("j/%s/%d", id, attempt), Attempt: attempt,
	}}
}

func failed(item, attempt int, t retry.Type, a errorpolicy.Action) events.AgentFailed {
	id := itemID(item)
	return events.AgentFailed{
		AttemptID: events.AttemptID{
			ItemID: id, ItemIndex: item, AgentID: fmt.Sprintf("j/%s/%d", id, attempt),
			Attempt: attempt,
		},
		ErrorType: t,
		Error:     "boom " + strconv.Itoa(attempt), ErrorSignature: "boom N", Step: "s", Action: a, StderrTail: "tail",
	}
}

func completed(item, attempt int) events.Event {
	return events.AgentCompleted{AttemptID: events.AttemptID{ItemID: itemID(item), ItemIndex: item, Attempt: attempt}}
}

func refused(item, tries int) events.Event {
	e := failed(item, tries, retry.TypeCircuitOpen, errorpolicy.DLQ)
	e.AgentID = ""
	return e
}

func itemID(n int) string { return "key-" + strconv.Itoa(n) }

func itemData(n int) (json.RawMessage, error) {
	return json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), nil
}

// project applies records to the queue at path and returns its entries.
func project(t testing.TB, path string, records []events.Record) []Entry {
	t.Helper()
	q := open(t, path)
	if err := NewProjection(q, "j", "w", 3, itemData).Apply(records); err != nil {
		t.Fatal(err)
	}
	closeQueue(t, q)
	return read(t, path)
}

func projected(t testing.TB, es ...events.Event) []Entry {
	t.Helper()
	var h history
	h.add(es...)
	return project(t, filepath.Join(t.TempDir(), "dlq.jsonl"), h.records)
}

func attempts(e Entry) (all []int) {
	for _, f := range e.FailureHistory {
		all = append(all, f.Attempt)
	}
	return all
}

func TestADeadLetterHasTheEvidenceOfAllItsAttempts(t *testing.T) {
	last := failed(4, 2, retry.TypeNetwork, errorpolicy.DLQ)
	code := 9
	last.ExitCode, last.DurationMS, last.StdoutTail = &code, 5000000, "out"
	got := projected(
		t,
		started(4, 1),
		events.StepRetrying{ItemID: itemID(4), Attempt: 1, DelayMS: 1000000, Error: "first"},
		events.StepRetrying{ItemID: itemID(4), Attempt: 2, DelayMS: 2000000, Error: "second"},
		failed(4, 1, retry.TypeTimeout, errorpolicy.Retry),
		started(4, 2),
		last,
	)
	at := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }
	want := []Entry{{
		ItemID: "key-4", ItemIndex: 4, Item: json.RawMessage(`{"n":4}`), CorrelationID: "j/key-4", JobID: "j", Workflow: "w",
		FirstAttempt: at(1), LastAttempt: at(6), FailureCount: 2,
		FailureHistory: []Failure{
			{
				Attempt: 1, Time: at(4), ErrorType: retry.TypeTimeout, Message: "boom 1", Step: "s", AgentID: "j/key-4/1", StderrTail: "tail",
				Retries: []StepRetry{{DelayMS: 1000000, Error: "first"}, {DelayMS: 2000000, Error: "second"}},
			},
			{
				Attempt: 2, Time: at(6), ErrorType: retry.TypeNetwork, ExitCode: &code, Message: "boom 2", Step: "s", AgentID: "j/key-4/2",
				DurationMS: 5000000, StdoutTail: "out", StderrTail: "tail",
			},
		},
		ErrorSignature: "boom N", ReprocessEligible: true,
	}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestOnlyItemsThatFailedForGoodAreDeadLetters(t *testing.T) {
	const typ = retry.TypeCommandFailed
	tests := map[string]struct {
		events []events.Event
		want   int
	}{
		"dlq":                {[]events.Event{started(0, 1), failed(0, 1, typ, errorpolicy.DLQ)}, 1},
		"stop":               {[]events.Event{started(0, 1), failed(0, 1, typ, errorpolicy.Stop)}, 1},
		"skip":               {[]events.Event{started(0, 1), failed(0, 1, typ, errorpolicy.Skip)}, 0},
		"will be retried":    {[]events.Event{started(0, 1), failed(0, 1, typ, errorpolicy.Retry)}, 0},
		"retried, completed": {[]events.Event{started(0, 1), failed(0, 1, typ, errorpolicy.Retry), started(0, 2), completed(0, 2)}, 0},
		"interrupted": {[]events.Event{
			started(0, 1),
			events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: itemID(0)}},
		}, 0},
		"refused":                {[]events.Event{refused(0, 0)}, 1},
		"dead, then completed":   {[]events.Event{started(0, 1), failed(0, 1, typ, errorpolicy.DLQ), started(0, 2), completed(0, 2)}, 0},
		"dead, then skipped":     {[]events.Event{failed(0, 1, typ, errorpolicy.DLQ), events.AgentSkipped{ItemID: itemID(0)}}, 0},
		"dead, then skip":        {[]events.Event{failed(0, 1, typ, errorpolicy.DLQ), failed(0, 2, typ, errorpolicy.Skip)}, 0},
		"dead, then thrown away": {[]events.Event{failed(0, 1, typ, errorpolicy.DLQ), events.DLQItemRemoved{ItemID: itemID(0)}}, 0},
	}
	for name, tt := range tests {
		if got := projected(t, tt.events...); len(got) != tt.want {
			t.Errorf("%s: got %d entries, want %d", name, len(got), tt.want)
		}
	}
}

func TestARefusalByTheBreakerIsEvidenceWithoutAnAgent(t *testing.T) {
	got := projected(t, refused(2, 0), events.JobResumed{Reason: "dlq_retry"}, refused(2, 0))
	if len(got) != 1 || got[0].FailureCount != 2 || got[0].RetryCount != 1 || !got[0].ReprocessEligible {
		t.Fatalf("got %+v, want one eligible entry with two failures that was sent again once", got)
	}
	for _, f := range got[0].FailureHistory {
		if f.AgentID != "" || f.ErrorType != retry.TypeCircuitOpen {
			t.Errorf("got %+v, want circuit_open without an agent", f)
		}
	}
}

func TestStepRetriesBelongToTheAttemptTheyHappenedIn(t *testing.T) {
	retrying := func(text string) events.Event { return events.StepRetrying{ItemID: itemID(0), Error: text} }
	got := projected(
		t,
		started(0, 1), retrying("interrupted"), events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: itemID(0)}},
		started(0, 1), retrying("first"), failed(0, 1, retry.TypeNetwork, errorpolicy.Retry),
		started(0, 2), retrying("died"), events.JobResumed{Reason: "resume"},
		started(0, 3), retrying("third"), failed(0, 3, retry.TypeNetwork, errorpolicy.DLQ),
	)
	if len(got) != 1 {
		t.Fatalf("got %d entries, want 1", len(got))
	}
	var texts []string
	for _, f := range got[0].FailureHistory {
		for _, r := range f.Retries {
			texts = append(texts, r.Error)
		}
	}
	if diff := cmp.Diff(texts, []string{"first", "third"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestADeadLetterThatFailsAgainKeepsItsHistory(t *testing.T) {
	const typ = retry.TypeCommandFailed
	again := events.JobResumed{Reason: "dlq_retry"}
	got := projected(
		t,
		started(0, 1), failed(0, 1, typ, errorpolicy.DLQ),
		again, started(0, 2), failed(0, 2, typ, errorpolicy.Retry), started(0, 3), failed(0, 3, typ, errorpolicy.DLQ),
		again, started(0, 4), failed(0, 4, typ, errorpolicy.DLQ),
	)
	if len(got) != 1 {
		t.Fatalf("got %d entries, want 1", len(got))
	}
	if diff := cmp.Diff(attempts(got[0]), []int{1, 2, 3, 4}); diff != "" {
		t.Errorf("attempts (-got +want):\n%s", diff)
	}
	if got[0].FailureCount != 4 || got[0].RetryCount != 2 || !got[0].FirstAttempt.Equal(t0.Add(time.Second)) {
		t.Errorf("got %+v, want 4 failures, sent again twice, first attempt kept", got[0])
	}
}

func TestOnlyARetryOfDeadLettersCountsAsSendingAgain(t *testing.T) {
	const typ = retry.TypeCommandFailed
	got := projected(
		t,
		failed(0, 1, typ, errorpolicy.DLQ),
		events.JobResumed{Reason: "dlq_retry"}, failed(0, 2, typ, errorpolicy.DLQ),
		events.JobResumed{Reason: "resume"}, failed(0, 3, typ, errorpolicy.DLQ),
	)
	if len(got) != 1 || got[0].RetryCount != 1 || got[0].FailureCount != 3 {
		t.Errorf("got %+v, want one entry with 3 failures that was sent again once", got)
	}
}

func TestApplySyncsWhatItChanged(t *testing.T) {
	q := open(t, filepath.Join(t.TempDir(), "dlq.jsonl"))
	put(t, q, simple("a", 1))
	if !q.dirty {
		t.Error("nothing to sync after a Put")
	}
	if err := NewProjection(q, "j", "w", 3, itemData).Apply(nil); err != nil {
		t.Fatal(err)
	}
	if q.dirty {
		t.Error("something to sync after Apply")
	}
	closeQueue(t, q)
}

func TestWhatSendingAgainCannotMendNeedsAPerson(t *testing.T) {
	for typ, want := range map[retry.Type]bool{
		retry.TypePermission: false, retry.TypeCommandNotFound: false, retry.TypeTemplate: false,
		retry.TypeTimeout: true, retry.TypeCircuitOpen: true, retry.TypeCommandFailed: true,
	} {
		got := projected(t, failed(0, 1, typ, errorpolicy.DLQ))[0]
		if got.ReprocessEligible != want || got.ManualReviewRequired == want {
			t.Errorf("%s: got eligible %v, manual review %v, want eligible %v", typ, got.ReprocessEligible, got.ManualReviewRequired, want)
		}
	}
	es := []events.Event{failed(0, 1, retry.TypeTimeout, errorpolicy.DLQ)}
	for n := 2; n <= 4; n++ {
		es = append(es, events.JobResumed{Reason: "dlq_retry"}, failed(0, n, retry.TypeTimeout, errorpolicy.DLQ))
		got := projected(t, es...)[0]
		if want := n < 4; got.ReprocessEligible != want {
			t.Errorf("sent again %d of 3 times: got eligible %v, want %v", got.RetryCount, got.ReprocessEligible, want)
		}
	}
}

func TestAnItemWhoseDataCannotBeReadIsAnError(t *testing.T) {
	q := open(t, filepath.Join(t.TempDir(), "dlq.jsonl"))
	lost := errors.New("lost")
	p := NewProjection(q, "j", "w", 3, func(int) (json.RawMessage, error) { return nil, lost })
	var h history
	h.add(failed(0, 1, retry.TypeTimeout, errorpolicy.DLQ))
	if err := p.Apply(h.records); !errors.Is(err, lost) || !strings.Contains(err.Error(), "key-0") {
		t.Errorf("got %v, want %v of key-0", err, lost)
	}
	closeQueue(t, q)
}

func TestFinishedItemsAreForgotten(t *testing.T) {
	q := open(t, filepath.Join(t.TempDir(), "dlq.jsonl"))
	p := NewProjection(q, "j", "w", 3, itemData)
	var h history
	h.add(
		started(0, 1), completed(0, 1),
		started(1, 1), failed(1, 1, retry.TypeTimeout, errorpolicy.DLQ),
		started(2, 1), events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: itemID(2)}},
		started(3, 1), failed(3, 1, retry.TypeTimeout, errorpolicy.Retry), started(3, 2),
		events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: itemID(3)}},
	)
	if err := p.Apply(h.records); err != nil {
		t.Fatal(err)
	}
	if len(p.Active) != 1 || p.Active[itemID(3)] == nil {
		t.Errorf("got %v in memory, want only the item that waits for its retry", p.Active)
	}
	closeQueue(t, q)
}

// randomHistory draws the log of a job over a few items: a run, then retries of its dead letters.
func randomHistory(t *rapid.T) history {
	var h history
	next := map[int]int{}
	run := func(item int) (dead bool) {
		for {
			if rapid.IntRange(0, 5).Draw(t, "refused") == 0 {
				h.add(refused(item, next[item]))
				return true
			}
			next[item]++
			h.add(started(item, next[item]))
			if rapid.Bool().Draw(t, "step retry") {
				h.add(events.StepRetrying{ItemID: itemID(item), Error: "again", DelayMS: 1000000})
			}
			switch rapid.SampledFrom([]string{"ok", "dlq", "dlq", "retry", "skip", "stop", "interrupted", "died"}).Draw(t, "outcome") {
			case "ok":
				h.add(completed(item, next[item]))
				return false
			case "dlq":
				h.add(failed(item, next[item], retry.TypeTimeout, errorpolicy.DLQ))
				return true
			case "stop":
				h.add(failed(item, next[item], retry.TypePermission, errorpolicy.Stop))
				return true
			case "skip":
				h.add(failed(item, next[item], retry.TypeTimeout, errorpolicy.Skip))
				return false
			case "retry":
				h.add(failed(item, next[item], retry.TypeNetwork, errorpolicy.Retry))
			case "interrupted":
				h.add(events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: itemID(item), Attempt: next[item]}})
				next[item]--
			}
		}
	}
	var dead []int
	for item := range rapid.IntRange(1, 4).Draw(t, "items") {
		if run(item) {
			dead = append(dead, item)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "rounds") {
		h.add(events.JobResumed{Reason: "dlq_retry"})
		var left []int
		for _, item := range dead {
			if run(item) {
				left = append(left, item)
			}
		}
		dead = left
	}
	return h
}

// A process that dies after any record leaves a queue that catches up, from the whole log, to what it would have been.
func TestAQueueCatchesUpFromEveryPoint(t *testing.T) {
	dir := t.TempDir()
	n := 0
	name := func() string { n++; return filepath.Join(dir, strconv.Itoa(n)) }
	rapid.Check(t, func(rt *rapid.T) {
		h := randomHistory(rt)
		want := project(t, name(), h.records)
		cut := rapid.IntRange(0, len(h.records)).Draw(rt, "cut")
		path := name()
		project(t, path, h.records[:cut])
		if diff := cmp.Diff(project(t, path, h.records), want); diff != "" {
			rt.Fatalf("cut at %d of %d (-got +want):\n%s", cut, len(h.records), diff)
		}
	})
}

func TestARecordedJobCatchesUpFromEveryPoint(t *testing.T) {
	const typ = retry.TypeCommandFailed
	var h history
	h.add(
		started(0, 1), started(1, 1), failed(0, 1, typ, errorpolicy.Retry), failed(1, 1, typ, errorpolicy.DLQ), refused(2, 0),
		started(3, 1), started(0, 2), failed(0, 2, typ, errorpolicy.DLQ), failed(3, 1, typ, errorpolicy.Skip),
		events.JobResumed{Reason: "dlq_retry"},
		started(1, 2), completed(1, 2), started(2, 1), failed(2, 1, typ, errorpolicy.Retry), started(0, 3), failed(0, 3, typ, errorpolicy.DLQ),
		started(2, 2), failed(2, 2, typ, errorpolicy.DLQ),
		events.JobResumed{Reason: "dlq_retry"}, started(0, 4), completed(0, 4), started(2, 3), failed(2, 3, typ, errorpolicy.DLQ),
	)
	want := projected(t, func() (es []events.Event) {
		for _, r := range h.records {
			es = append(es, r.Event)
		}
		return es
	}()...)
	if len(want) != 1 || want[0].RetryCount != 2 || want[0].FailureCount != 4 {
		t.Fatalf("got %+v, want one entry, sent again twice, with 4 failures", want)
	}
	for cut := range len(h.records) + 1 {
		path := filepath.Join(t.TempDir(), "dlq.jsonl")
		project(t, path, h.records[:cut])
		if diff := cmp.Diff(project(t, path, h.records), want); diff != "" {
			t.Fatalf("cut at %d (-got +want):\n%s", cut, diff)
		}
	}
}

// A journal that a power loss cut at any byte is made whole again by the log.
func TestAJournalCutAtAnyByteCatchesUp(t *testing.T) {
	const typ = retry.TypeCommandFailed
	var h history
	h.add(
		started(0, 1), failed(0, 1, typ, errorpolicy.Retry), started(0, 2), failed(0, 2, typ, errorpolicy.DLQ),
		failed(1, 1, typ, errorpolicy.DLQ), failed(2, 1, typ, errorpolicy.DLQ),
		events.DLQItemRemoved{ItemID: itemID(1), Reason: "cleared"}, events.DLQItemsEvicted{Count: 1},
		events.JobResumed{Reason: "dlq_retry"},
		started(0, 3), failed(0, 3, typ, errorpolicy.DLQ), started(2, 2), completed(2, 2),
	)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl")
	want := project(t, whole, h.records)
	if len(want) != 1 || want[0].RetryCount != 1 || want[0].FailureCount != 3 {
		t.Fatalf("got %+v, want one entry, sent again once, with 3 failures", want)
	}
	journal, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "cut.jsonl")
	for _, cut := range testenv.Offsets(journal, 32, 8) {
		if err := os.WriteFile(path, journal[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(project(t, path, h.records), want); diff != "" {
			t.Fatalf("cut at byte %d (-got +want):\n%s", cut, diff)
		}
	}
}

// However many items wait for their next attempt, little of their evidence is in memory, and all of it comes into their letters.
func TestEvidenceOfManyWaitingItemsIsKeptOutOfMemory(t *testing.T) {
	const items, tries = 600, 3
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	p := NewProjection(q, "j", "w", 3, func(int) (json.RawMessage, error) { return json.RawMessage("1"), nil })
	tail := strings.Repeat("x", 12<<10)
	var h history
	for n := 1; n <= tries; n++ {
		for i := range items {
			e := failed(i, n, retry.TypeTimeout, errorpolicy.Retry)
			if n == tries {
				e = failed(i, n, retry.TypeTimeout, errorpolicy.DLQ)
			}
			e.StderrTail = tail[:12<<10-i]
			h.add(e)
		}
		if err := p.Apply(h.records); err != nil {
			t.Fatal(err)
		}
		h.records = nil
		if p.kept.held > maxKept {
			t.Fatalf("got %d bytes in memory, want at most %d", p.kept.held, maxKept)
		}
	}
	if p.kept.file == nil || p.kept.held != 0 || p.kept.out != 0 {
		t.Errorf("at the end: got %d bytes in memory and %d in the file, want a file, and none wanted", p.kept.held, p.kept.out)
	}
	for i := range items {
		e, found := q.Get(failed(i, 1, retry.TypeTimeout, errorpolicy.DLQ).ItemID)
		if !found || len(e.FailureHistory) != tries || len(e.FailureHistory[0].StderrTail) != 12<<10-i {
			t.Fatalf("item %d: got %d failures, want %d with all that they printed", i, len(e.FailureHistory), tries)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	closeQueue(t, q)
	if files, _ := filepath.Glob(path + "*"); len(files) != 1 {
		t.Errorf("files left: got %v, want the journal only", files)
	}
}
