package web

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

var began = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)

// story makes records at given moments.
type story []events.Record

func (s *story) at(after time.Duration, e events.Event) {
	*s = append(*s, events.Record{Seq: int64(len(*s) + 1), Time: began.Add(after), JobID: "j", Event: e})
}

func (s story) source() Source {
	return Source{
		Summary: job.Summary{Job: jobs.Job{ID: "j"}, Workflow: "w", Mode: "mapreduce", State: "completed", Started: began},
		Made:    began,
		Records: func(yield func(events.Record, error) bool) {
			for _, r := range s {
				if !yield(r, nil) {
					return
				}
			}
		},
		Named:   func(int) string { return "" },
		Letters: func(func(dlq.Entry, error) bool) {},
		Label:   func(id string, _ json.RawMessage) string { return "label of " + id },
	}
}

func pageOf(t *testing.T, s Source) string {
	t.Helper()
	page, err := Report(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestTheTimeBetweenTwoRunsTakesNoRoom(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{})
	s.at(10*time.Second, events.AgentStarted{})
	s.at(100*time.Hour, events.DLQItemsEvicted{}) // by a person, between the runs
	s.at(200*time.Hour, events.JobResumed{})
	s.at(200*time.Hour+5*time.Second, events.JobCompleted{})
	var a axis
	for _, r := range s {
		a.see(r)
	}
	for _, c := range []struct{ at, want time.Duration }{
		{-time.Second, 0},
		{4 * time.Second, 4 * time.Second},
		{100 * time.Hour, 10 * time.Second},
		{200*time.Hour + 3*time.Second, 13 * time.Second},
		{300 * time.Hour, 15 * time.Second},
	} {
		if got := a.at(began.Add(c.at)); got != c.want {
			t.Errorf("after %v: %v, want %v", c.at, got, c.want)
		}
	}
	if a.length() != 15*time.Second || len(a.runs) != 2 || a.runs[1].before != 10*time.Second {
		t.Errorf("length %v, runs %v", a.length(), a.runs)
	}
}

// A page holds what an item or a workflow says as text, and sends nobody anywhere.
func TestThePageIsTextAndFetchesNothing(t *testing.T) {
	const evil = `</title><script>alert(1)</script><img src=x onerror="alert(2)">'"` + "`${x}{{.}}"
	var s story
	s.at(0, events.JobStarted{Workflow: evil, MaxParallel: 1})
	s.at(time.Second, events.AgentStarted{AttemptID: events.AttemptID{ItemID: evil, Attempt: 1}, Worker: 1})
	s.at(2*time.Second, events.StepRetrying{ItemID: evil, Step: evil, Error: evil, DelayMS: events.Millis(time.Second)})
	s.at(4*time.Second, events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: evil, AgentID: "a", Attempt: 1},
		Worker:    1, Step: evil, Error: evil, ErrorType: "network", ErrorSignature: evil, Action: errorpolicy.DLQ,
	})
	s.at(5*time.Second, events.CircuitOpen{Scope: evil})
	s.at(6*time.Second, events.JobCompleted{Reason: evil})
	src := s.source()
	src.Workflow, src.Reason, src.Text = evil, evil, evil
	src.Letters = func(yield func(dlq.Entry, error) bool) {
		yield(dlq.Entry{ItemID: evil, Item: []byte(evil), FailureHistory: []dlq.Failure{{Message: evil}}}, nil)
	}
	page := pageOf(t, src)
	for _, bad := range []string{"<script", "<img", "{{", "src=", "href=", "url(", "http://", "@import"} {
		if strings.Contains(page, bad) && !strings.Contains(evil, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(page, "<script") + strings.Count(page, "<img") + strings.Count(page, "<title><"); n > 0 {
		t.Errorf("%d elements come from the data", n)
	}
	if !strings.Contains(page, "label of ") {
		t.Error("the page does not show the label of the dead letter")
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the page does not show the text")
	}
}

// The slots of a fleet are grouped by worker.
func TestSlotsOfAFleetAreGroupedByWorker(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{MaxParallel: 4})
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		s.at(0, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
			Worker:    i%4 + 1, Fleet: true,
		})
	}
	s.at(time.Second, events.AgentPlaced{
		AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, Attempt: 1},
		Place:     events.Place{Node: "desk", Host: "vm-7", Slot: 2},
	})
	s.at(time.Second, events.AgentPlaced{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 1},
		Place:     events.Place{Node: "attic", Slot: 1},
	})
	s.at(2*time.Second, events.AgentCompleted{
		AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2},
		Place:     events.Place{Node: "desk", Slot: 1}, DurationMS: events.Millis(500 * time.Millisecond),
	})
	s.at(3*time.Second, events.AgentLost{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 1},
		Place:     events.Place{Node: "attic"},
	})
	s.at(3*time.Second, events.AgentLost{
		AttemptID: events.AttemptID{ItemID: "d", ItemIndex: 3, Attempt: 1},
		Place:     events.Place{Node: "attic"}, Unbegun: true,
	})
	s.at(4*time.Second, events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, Attempt: 1}})
	s.at(4*time.Second, events.AgentInterrupted{AttemptID: events.AttemptID{
		ItemID: "e", ItemIndex: 4,
		Attempt: 1,
	}}) // it never came to a worker
	page := pageOf(t, s.source())
	for _, want := range []string{
		">attic<", ">desk<", "Slot usage over time (4 slots)", "a, attempt 1 on desk slot 2 on host vm-7 interrupted",
		"c, attempt 1 on desk slot 1 succeeded after 500ms", "b, attempt 1 on attic slot 1 lost with its worker after 2s", "d, attempt 1 on attic slot 0 lost with its worker after 3s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(page, "e, attempt 1") {
		t.Error("an attempt is drawn that never came to a worker")
	}
	if strings.Index(page, ">attic<") > strings.Index(page, ">desk<") {
		t.Error("the workers are not in order")
	}
}

func TestEachAttemptIsDrawnWithItsOutcome(t *testing.T) {
	var s story
	at := began.Add(5 * time.Second)
	s.at(0, events.JobStarted{MaxParallel: 2})
	s.at(0, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, Attempt: 1}, Worker: 1})
	s.at(0, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 1}, Worker: 2})
	s.at(time.Second, events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0}})
	s.at(2*time.Second, events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "x"},
		Action:    errorpolicy.Retry, RetryAt: &at,
	})
	s.at(5*time.Second, events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 2},
		Worker:    1,
	})
	s.at(6*time.Second, events.JobResumed{Reason: events.ForResume})
	s.at(7*time.Second, events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 3},
		Worker:    1,
	})
	s.at(8*time.Second, events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "x"},
		Action:    errorpolicy.DLQ,
	})
	page := pageOf(t, s.source())
	titles := regexp.MustCompile(`<title>([^<]*attempt [^<]*)</title>`).FindAllStringSubmatch(page, -1)
	var got []string
	for _, m := range titles {
		got = append(got, m[1])
	}
	want := []string{
		"a, attempt 1 succeeded after 1s", "b, attempt 1 failed (retried) after 2s",
		"b, attempt 2 interrupted, or running when prodigy crashed after 0s", "b, attempt 3 failed after 1s",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What a step or a failed item printed is folded, as text, with stderr marked, and items are called by their labels.
func TestOutputsAreFolded(t *testing.T) {
	const evil = "</pre><script>alert(1)</script>"
	var s story
	span := &outputs.Span{Offset: 1, Length: 1}
	s.at(0, events.JobStarted{MaxParallel: 1})
	s.at(0, events.PhaseStarted{Phase: "setup"})
	s.at(0, events.StepCompleted{Phase: "setup", Step: "prepare", Outputs: span})
	s.at(0, events.StepCompleted{Phase: "setup", Step: "silent"})
	s.at(0, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 7, Attempt: 1}, Worker: 1})
	s.at(time.Second, events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 7, AgentID: "x", Attempt: 1},
		Error:     "refused", Action: errorpolicy.DLQ, Outputs: span,
	})
	src := s.source()
	var asked []outputs.Query
	src.Printed = func(q outputs.Query) outputs.Tail {
		asked = append(asked, q)
		return outputs.Tail{Before: 3, Lines: []outputs.TailLine{{Step: "s", Text: evil, Stderr: true}}}
	}
	src.Named = func(index int) string { return fmt.Sprintf("seventh <%d>", index) }
	src.Letters = func(yield func(dlq.Entry, error) bool) {
		yield(dlq.Entry{ItemID: "a", FailureHistory: []dlq.Failure{{StdoutTail: "first"}, {StdoutTail: strings.Repeat("x", 5000) + "out " + evil, StderrTail: "err"}}}, nil)
	}
	page := pageOf(t, src)
	want := []outputs.Query{{Step: "prepare", Span: *span}, {ItemID: "a", Attempt: 1, Span: *span}}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
	for text, n := range map[string]int{
		"<script": 0, "output: the last 1 lines, 3 before": 2, "end of output": 1, `class="stderr">s ! &lt;/pre&gt;`: 2,
		"seventh &lt;7&gt;": 2, "out &lt;/pre&gt;": 1, "first": 0, `<pre class="stderr">err</pre>`: 1, strings.Repeat("x", tailShown): 0,
	} {
		if got := strings.Count(page, text); got != n {
			t.Errorf("%q is there %d times, want %d times", text, got, n)
		}
	}
}

// A page that is drawn again while the job runs has what the report has, and stays smaller.
func TestChartsAreDrawnForAPage(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{MaxParallel: 8})
	for i := range pageKept + 100 {
		id := fmt.Sprintf("item_%d", i)
		at := time.Duration(i) * time.Second
		s.at(at, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
			Worker:    1 + i%8,
		})
		s.at(at+time.Second, events.AgentCompleted{
			AttemptID:  events.AttemptID{ItemID: id, ItemIndex: i},
			DurationMS: events.Millis(time.Second),
		})
	}
	job, charts, err := chartsOf(s.source().Records, time.Time{})
	if err != nil || job.Counts.Successful != pageKept+100 {
		t.Fatalf("%d items succeeded, %v", job.Counts.Successful, err)
	}
	for _, heading := range []string{"Over time", "Slots", "Attempt durations"} {
		if !strings.Contains(string(charts), "<h2>"+heading+"</h2>") {
			t.Errorf("there is no %q", heading)
		}
	}
	if strings.Contains(string(charts), "item_99, attempt 1") || !strings.Contains(string(charts), "item_100, attempt 1") ||
		!strings.Contains(string(charts), "each bar an attempt (without the first 100):") || len(charts) > 500_000 {
		t.Errorf("%d bytes, in which the newest attempts may not be drawn", len(charts))
	}
	if _, few, err := chartsOf(s[:100].source().Records, time.Time{}); err != nil || !strings.Contains(string(few), "item_3, attempt 1 succeeded after 1s") {
		t.Errorf("of few attempts each one is not drawn (%v)", err)
	}
}

// A job of a hundred thousand items in many slots makes a page that can still be mailed.
func TestALargeJobMakesASmallPage(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{MaxParallel: 64})
	now := time.Duration(0)
	for i := range 30_000 {
		now += time.Millisecond
		id := fmt.Sprintf("item_%d", i)
		s.at(now, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
			Worker:    1 + i%64,
		})
		if i%10 == 0 {
			s.at(now, events.AgentFailed{
				AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: "x"},
				ErrorType: "network", ErrorSignature: fmt.Sprint("kind ", i), Error: "refused", Action: errorpolicy.DLQ,
			})
			continue
		}
		s.at(now, events.AgentCompleted{
			AttemptID:  events.AttemptID{ItemID: id, ItemIndex: i},
			DurationMS: events.Millis(time.Millisecond),
		})
	}
	if size := len(pageOf(t, s.source())); size > 5<<20 {
		t.Errorf("the page has %d bytes", size)
	}
}

// Of a job that runs, attempts go on until now; of one that was killed they were stopped at its last word.
func TestWhatRunsIsDrawnUntilNow(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{MaxParallel: 1})
	s.at(time.Second, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", Attempt: 1}, Worker: 1})
	s.at(time.Second, events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 1},
		Worker:    2,
	})
	s.at(2*time.Second, events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 1}})
	src := s.source()
	for state, want := range map[jobs.State]string{jobs.Running: "a, attempt 1 is running after 9s", jobs.Killed: "a, attempt 1 interrupted, or running when prodigy crashed after 1s"} {
		src.State, src.Made = state, began.Add(10*time.Second)
		if page := pageOf(t, src); !strings.Contains(page, "<title>"+want+"</title>") {
			t.Errorf("%s: there is no %q", state, want)
		}
	}
}

// The words are those of the commands; what did not go well altogether is never green.
func TestOnlyAJobWithoutFailuresIsGreen(t *testing.T) {
	for _, c := range []struct {
		state           jobs.State
		failed, skipped int
		want            badge
	}{
		{"completed", 0, 0, badge{"completed", "completed"}},
		{"completed", 1, 0, badge{"completed with failures", "left"}},
		{"completed", 1, 1, badge{"completed with failures", "left"}},
		{"completed", 0, 1, badge{"completed", "left"}},
		{"running", 1, 1, badge{"running", "running"}},
		{"failed", 1, 1, badge{"failed", "failed"}},
	} {
		if got := badgeOf(c.state, view.Counts{Failed: c.failed, Skipped: c.skipped}); got != c.want {
			t.Errorf("%s, %d failed, %d skipped: got %+v, want %+v", c.state, c.failed, c.skipped, got, c.want)
		}
	}
}

func TestNoTextTurnsTheDirectionOfOthers(t *testing.T) {
	src := story{}.source()
	src.Workflow = "a\u202egpj.exe\u2066\u200dž\u202f日本"
	if page := pageOf(t, src); !strings.Contains(page, "<h1>a\ufffdgpj.exe\ufffd\u200dž\u202f日本 ") {
		t.Errorf("the page is %.2000s", page)
	}
}

// Texts of a page lose what is meant for a terminal, and no more: a sequence that is cut off does not take a tag with it.
func TestTextsLoseWhatIsMeantForATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"<b>\x1b[31mred\x1b[0m</b>\n":    "<b>red</b>\n",
		"<td>cut \x1b[</td>":             "<td>cut </td>",
		"<td>cut \x1b[38;5</td>":         "<td>cut </td>",
		"<td>\x1b[&lt;b&gt;</td>":        "<td>&lt;b&gt;</td>",
		"a\x1b]0;title\x07b\x00\u0085\t": "a]0;titleb\t",
		"\x1b[?25l\x1b[2Kok\x1b":         "ok",
		"[31m is text":                   "[31m is text",
	} {
		if got := string(plain([]byte(text))); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A drawing says what its top stands for.
func TestAScaleHasANumber(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{MaxParallel: 1})
	for i := range 12 {
		s.at(0, events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: i, Attempt: 1}, Worker: 1})
		s.at(0, events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: i, Attempt: 1}, Worker: 1})
	}
	s.at(time.Second, events.JobCompleted{})
	if page := pageOf(t, s.source()); !strings.Contains(page, `y="9.0">12</text>`) {
		t.Errorf("the chart has no scale: %.3000s", page[strings.Index(page, "<svg"):])
	}
}

// What has no end in the log is drawn to the end of the page, and nothing at all makes a page too.
func TestAJobThatRunsOrDidNothingHasAPage(t *testing.T) {
	var s story
	if page := pageOf(t, s.source()); !strings.Contains(page, "</html>") {
		t.Error("no page of an empty log")
	}
	s.at(0, events.JobStarted{MaxParallel: 1})
	s.at(0, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", Attempt: 1}, Worker: 1})
	s.at(time.Second, events.ItemsSelected{TotalItems: 3})
	if page := pageOf(t, s.source()); !strings.Contains(page, "</html>") {
		t.Error("no page of a running job")
	}
}

// The changes of the limits are drawn, and the breakers of keys with these.
func TestLimitsAndBreakersOfKeysAreDrawn(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 2})
	s.at(time.Second, events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
		Worker:    1,
	})
	s.at(2*time.Second, events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1},
		Worker:    2,
	})
	plain := slices.Clone(s)
	s.at(3*time.Second, events.ConcurrencyChanged{Limit: 4, Before: 2, Rate: 12.5, Reason: "nothing was refused <"})
	s.at(4*time.Second, events.CircuitOpen{Scope: "workflow", Key: "slow.example", Until: began.Add(time.Hour)})
	s.at(5*time.Second, events.AgentCompleted{
		AttemptID:  events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
		DurationMS: events.Millis(4 * time.Second),
	})
	s.at(6*time.Second, events.CircuitClosed{Scope: "workflow", Key: "slow.example"})
	s.at(8*time.Second, events.AgentCompleted{
		AttemptID:  events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1},
		DurationMS: events.Millis(6 * time.Second),
	})
	plain.at(8*time.Second, events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1}, DurationMS: 6000})
	for _, list := range []*story{&s, &plain} {
		list.at(10*time.Second, events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2},
			ErrorType: "circuit_open", Action: errorpolicy.DLQ,
		}) // never ran
		list.at(16*time.Second, events.JobCompleted{})
	}
	page := pageOf(t, s.source())
	for _, want := range []string{
		"after 2s: 2 of 2 slots", "after 6s: 1 of 4 slots",
		`class="breaker" x="250.0" y="0.0" width="125.0" height="90.0"><title>circuit breaker`, "slow.example",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for _, wrong := range []string{"after 8.1s: 1 of", "after 9s: "} {
		if strings.Contains(page, wrong) {
			t.Errorf("%q is in the page", wrong)
		}
	}
	page = pageOf(t, plain.source())
	if !strings.Contains(page, "after 2s: 2 of 2 slots") {
		t.Error("a job without limits that change must have a chart of its busy slots")
	}
}

// What held back starts is drawn behind the busy slots, for as long as it did, and said with the time in total.
func TestWhatHeldBackStartsIsDrawn(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 2})
	s.at(time.Second, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", AgentID: "a/1", Attempt: 1}, Worker: 1})
	s.at(2*time.Second, events.StartsHeld{By: "rate", Reason: "of the rate <3/s"})
	s.at(3*time.Second, events.StartsAllowed{By: "rate"})
	s.at(4*time.Second, events.PauseRequested{By: "ada"})
	s.at(5*time.Second, events.StartsHeld{By: "rate", Reason: "of the rate <3/s"})
	s.at(6*time.Second, events.JobPaused{Reason: "SIGTERM"})
	s.at(6*time.Second, events.JobResumed{Completed: 0, Pending: 2})
	s.at(7*time.Second, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", AgentID: "a/1", Attempt: 1}, Worker: 1})
	s.at(8*time.Second, events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a", AgentID: "a/1", Attempt: 1}, DurationMS: events.Millis(time.Second)})
	s.at(8*time.Second, events.BudgetReached{})
	page := pageOf(t, s.source())
	for _, want := range []string{
		`class="pause" x="250.0" y="0.0" width="125.0" height="90.0"><title>not starting items: of the rate &lt;3/s, for 1s<`,
		"<title>paused by ada, for 2s", "Starts were held back 2 times, for 2s in total: not starting items: of the rate &lt;3/s.",
		"Starts were held back for 2s: paused by ada",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

// However many items a job has, and however often its starts are held back, its charts stay small.
func TestChartsOfManyItemsStaySmall(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 8})
	for i := range 20_000 {
		id := events.AttemptID{ItemID: fmt.Sprint(i), ItemIndex: i, AgentID: "a", Attempt: 1}
		now := time.Duration(i) * time.Second
		s.at(now, events.AgentStarted{AttemptID: id, Worker: 1 + i%8})
		s.at(now, events.StartsHeld{By: "rate", Reason: "rate"})
		s.at(now+time.Second, events.StartsAllowed{By: "rate"})
		s.at(now+time.Second, events.AgentCompleted{AttemptID: id, DurationMS: 1000})
	}
	_, charts, err := chartsOf(s.source().Records, time.Time{})
	if err != nil || len(charts) > 200<<10 {
		t.Errorf("%d bytes, %v", len(charts), err)
	}
}

// Of slots that are taken away what runs in them comes to its end. The line shows what may run from then on.
func TestSlotsThatAreTakenAwayAreDrawn(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", Mode: "mapreduce"})
	s.at(0, events.ScaleRequested{MaxParallel: 3, By: "the fleet", Fleet: true, Workers: 2})
	for i, id := range []string{"a", "b", "c"} {
		s.at(time.Second, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: id + "/1", Attempt: 1},
			Worker:    i + 1,
		})
	}
	s.at(2*time.Second, events.ScaleRequested{MaxParallel: 1, Was: 3, By: "the fleet", Fleet: true, Workers: 1})
	s.at(3*time.Second, events.AgentLost{
		AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
		Place:     events.Place{Node: "w"},
	})
	s.at(3*time.Second, events.AgentLost{
		AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1},
		Place:     events.Place{Node: "w"},
	})
	s.at(16*time.Second, events.AgentCompleted{
		AttemptID:  events.AttemptID{ItemID: "c", ItemIndex: 2, AgentID: "c/1", Attempt: 1},
		DurationMS: events.Millis(15 * time.Second),
	})
	s.at(16*time.Second, events.JobCompleted{})
	page := pageOf(t, s.source())
	for _, want := range []string{"after 1.5s: 3 of 3 slots", "after 6s: 1 of 1 slots"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

// The first attempts on a fleet begin a moment before its slots are known.
func TestBeforeTheSlotsOfAFleetAreKnownThoseThatRunMay(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", Mode: "mapreduce"})
	s.at(0, events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
		Worker:    1,
	})
	s.at(time.Second, events.ScaleRequested{MaxParallel: 3, By: "the fleet", Fleet: true, Workers: 2})
	s.at(16*time.Second, events.AgentCompleted{
		AttemptID:  events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
		DurationMS: events.Millis(16 * time.Second),
	})
	s.at(16*time.Second, events.JobCompleted{})
	page := pageOf(t, s.source())
	for text, want := range map[string]bool{"after 0s: 1 of 1 slots": true, "after 6s: 1 of 3 slots": true, " of 0 slots": false} {
		if strings.Contains(page, text) != want {
			t.Errorf("that %q is in the page: want %v", text, want)
		}
	}
}

// However often limits change and however many keys there are, the page stays small.
func TestChartsOfLimitsStaySmall(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 64})
	for i := range 30_000 {
		at := time.Duration(i) * 10 * time.Millisecond
		id := fmt.Sprint("item_", i)
		s.at(at, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: id + "/1", Attempt: 1},
			Worker:    i%64 + 1, Key: "k",
		})
		s.at(at, events.AgentCompleted{AttemptID: events.AttemptID{
			ItemID: id, ItemIndex: i, AgentID: id + "/1",
			Attempt: 1,
		}})
		if i%10 == 0 {
			s.at(at, events.ConcurrencyChanged{Limit: i % 64, Rate: float64(i % 50), Reason: strings.Repeat("a reason ", 10)})
			s.at(at, events.CircuitOpen{Scope: "workflow", Key: fmt.Sprint("host-", i)})
		}
	}
	s.at(time.Hour, events.JobCompleted{})
	_, charts, err := chartsOf(s.source().Records, time.Time{})
	if err != nil || len(charts) > 400_000 {
		t.Errorf("%d bytes, %v", len(charts), err)
	}
}

// Attempts on a fleet are shown by the workers that ran them, and those that were lost count too.
func TestAttemptsOfAFleet(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{MaxParallel: 6})
	s.at(time.Second, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", Attempt: 1}, Worker: 6, Fleet: true})
	s.at(2*time.Second, events.AgentLost{
		AttemptID: events.AttemptID{ItemID: "a", Attempt: 1},
		Place:     events.Place{Node: "beta"},
	})
	s.at(3*time.Second, events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: "a", Attempt: 2},
		Worker:    6, Fleet: true,
	})
	s.at(5*time.Second, events.AgentCompleted{
		AttemptID: events.AttemptID{ItemID: "a", Attempt: 2},
		Worker:    6, Place: events.Place{Node: "gamma", Slot: 2}, DurationMS: events.Millis(time.Second),
	})
	s.at(6*time.Second, events.JobCompleted{})
	src := s.source()
	src.Mode = "mapreduce"
	page := pageOf(t, src)
	for _, want := range []string{"<dt>attempts</dt><dd>2</dd>", "<dt>lost</dt><dd>1</dd>", `<td class="n">gamma slot 2</td><td class="n">1s</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}
