package telemetry

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

var began = time.Date(2026, 11, 20, 16, 15, 0, 0, time.UTC)

// records gives events numbers and times, one a second.
func records(list ...events.Event) []events.Record {
	var all []events.Record
	for i, e := range list {
		all = append(all, events.Record{Seq: int64(i + 1), Time: began.Add(time.Duration(i) * time.Second), JobID: "mapreduce-1", Event: e})
	}
	return all
}

// logged is a log record, and the span that it belongs to.
type logged struct {
	sdklog.Record
	trace.SpanID
}

// recorder keeps what a tracer makes.
type recorder struct {
	*tracetest.SpanRecorder
	logs []logged
}

func (r *recorder) OnEmit(_ context.Context, l *sdklog.Record) error {
	r.logs = append(r.logs, logged{l.Clone(), l.SpanID()})
	return nil
}

func (r *recorder) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// recording returns a tracer, and what keeps what it makes.
func recording(t *testing.T, jobID, parent string) (*tracer, *recorder) {
	t.Helper()
	kept := &recorder{SpanRecorder: tracetest.NewSpanRecorder()}
	tracer := newTracer(jobID, parent)
	tracer.spans, tracer.logs = new(gate), new(gate)
	tracer.spanner = sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(derived{}), sdktrace.WithSpanProcessor(kept)).Tracer("")
	tracer.logger = sdklog.NewLoggerProvider(sdklog.WithProcessor(kept)).Logger("")
	return tracer, kept
}

// tree applies records and returns the spans as lines, each below its parent, with their seconds.
func tree(t *testing.T, parent string, list []events.Record) (lines []string, logs []logged) {
	t.Helper()
	tracer, kept := recording(t, "mapreduce-1", parent)
	for _, r := range list {
		tracer.apply(r)
	}
	spans := kept.Ended()
	seen := map[trace.SpanID]bool{}
	for _, s := range spans {
		if c := s.SpanContext(); seen[c.SpanID()] || c.TraceID() != trace.TraceID(tracer.job.Trace) {
			t.Errorf("span %v is twice, or in another trace", c)
		}
		seen[s.SpanContext().SpanID()] = true
	}
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	var print func(parent trace.SpanID, indent string)
	print = func(parent trace.SpanID, indent string) {
		for _, s := range spans {
			if s.Parent().SpanID() != parent {
				continue
			}
			var line strings.Builder
			line.WriteString(fmt.Sprintf("%s%s %.0f-%.0f", indent, s.Name(), s.StartTime().Sub(began).Seconds(), s.EndTime().Sub(began).Seconds()))
			for _, e := range s.Events() {
				line.WriteString(" +" + e.Name)
			}
			if text := s.Status().Description; text != "" {
				line.WriteString(" !" + text)
			}
			for _, a := range s.Attributes() {
				if a.Key == "prodigy.interrupted" || a.Key == "prodigy.item.state" || a.Key == "prodigy.outcome" {
					line.WriteString(" " + a.Value.String())
				}
			}
			lines = append(lines, line.String())
			print(s.SpanContext().SpanID(), indent+"  ")
		}
	}
	p, _ := events.ParseTrace(parent)
	print(p.Span, "")
	if len(lines) != len(spans) {
		t.Errorf("%d of %d spans are below the first", len(lines), len(spans))
	}
	return lines, kept.logs
}

func compare(t *testing.T, got []string, want string) {
	t.Helper()
	if text := strings.Join(got, "\n"); text != strings.Trim(want, "\n") {
		t.Errorf("got\n%s\nwant%s", text, want)
	}
}

func TestAJobIsATree(t *testing.T) {
	exit, at := 1, began.Add(time.Hour)
	delay := events.Millis(2 * time.Second)
	list := records(
		events.JobStarted{Workflow: "w", Mode: "mapreduce"},
		events.PhaseStarted{Phase: "setup"},
		events.StepCompleted{Phase: "setup", Step: "make", DurationMS: events.Millis(time.Second)},
		events.PhaseCompleted{Phase: "setup"},
		events.PhaseStarted{Phase: "map"},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			Worker:    1,
		},
		events.AgentProgress{ItemID: "a", Step: "get", StepIndex: 0},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1},
			Worker:    2,
		},
		events.StepRetrying{ItemID: "a", Step: "get", Attempt: 1, DelayMS: delay, ErrorType: retry.TypeNetwork},
		events.AgentProgress{ItemID: "a", Step: "put", StepIndex: 1},
		events.StepFailed{ItemID: "a", Step: "put", Action: "stop", Error: "exit code 1", ExitCode: &exit},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			Step:      "put", Error: "exit code 1", ExitCode: &exit, Action: errorpolicy.Retry, DelayMS: &delay,
			RetryAt: &at,
		},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1}},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2},
			Worker:    1,
		},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2},
			Error:     "exit code 2", Action: errorpolicy.DLQ,
		},
		events.AgentReused{ItemID: "c", ItemIndex: 2, FromJob: "mapreduce-0"},
		events.PhaseStarted{Phase: "reduce"},
		events.StepRetrying{Step: "sum", Attempt: 1, DelayMS: delay},
		events.StepFailed{Step: "sum", Action: "stop", Error: "exit code 3"},
		events.JobFailed{Reason: "reduce: exit code 3"},
	)
	got, logs := tree(t, "", list)
	compare(t, got, `
job w 0-19 !reduce: exit code 3 failed
  setup 1-3
    make 1-2
  item 5-14 +backoff !exit code 2 failed
    attempt 5-11 !exit code 1
      get 6-9 +backoff
      put 9-11 !exit code 1
    attempt 13-14 !exit code 2
  item 7-12 succeeded
    attempt 7-12
  item 15-15 succeeded
  reduce 16-19 !reduce: exit code 3
    sum 16-18 +backoff !exit code 3`)
	var said []string
	for _, l := range logs {
		said = append(said, fmt.Sprintf("%d %s", l.Severity(), l.Body().AsString()))
	}
	compare(t, said, `
9 job started
13 a: exit code 1
17 a: exit code 2
17 sum: exit code 3
17 failed: reduce: exit code 3`)
	if job := events.TraceOfJob("mapreduce-1", ""); logs[1].SpanID != job.Of("attempt", 6).Span || logs[4].SpanID != job.Span {
		t.Errorf("log records are of %s and %s", logs[1].SpanID, logs[4].SpanID)
	}
}

// Of runs that end in all ways nothing is left open, and the runs after it are below the first.
func TestRunsAreBelowTheJob(t *testing.T) {
	at := began.Add(time.Hour)
	list := records(
		events.JobStarted{Workflow: "w"},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1}},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1},
			Fleet:     true,
		},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2, AgentID: "c/1", Attempt: 1}},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2, AgentID: "c/1", Attempt: 1},
			Error:     "no", Action: errorpolicy.Retry, RetryAt: &at,
		},
		events.JobResumed{Attached: []int{1}}, // the run before was killed
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2}},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1}},
		events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2}},
		events.JobPaused{Reason: "interrupted"},
		events.JobResumed{Phase: "map"},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2}},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2}},
		events.PhaseStarted{Phase: "reduce"},
		events.StepCompleted{Phase: "reduce", Step: "sum"},
		events.JobPaused{Reason: "interrupted"},
		events.JobResumed{Phase: "reduce", StepsDone: 1},
		events.StepCompleted{Phase: "reduce", Step: "send", StepIndex: 1},
		events.PhaseCompleted{Phase: "reduce"},
		events.JobCompleted{},
	)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got, _ := tree(t, parent, list)
	compare(t, got, `
job w 0-5 !the run died died
  item 1-5 unfinished
    attempt 1-5 true
  item 2-7 succeeded
    attempt 2-7
  item 3-5 +backoff unfinished
    attempt 3-4 !no
  resume w 5-9 stopped
    item 6-9 unfinished
      attempt 6-8 true
  resume w 10-15 stopped
    item 11-12 succeeded
      attempt 11-12
    reduce 13-15
      sum 13-14
  resume w 16-19 completed
    reduce 16-18
      send 16-17`)
}

// Whatever a log is cut down to, each span has an end that is not before its beginning, and nothing panics.
func TestNoLogBreaksTheSpans(t *testing.T) {
	var all []events.Event
	for _, e := range events.Types() {
		if f, ok := e.(events.AgentFailed); ok {
			f.Action = errorpolicy.DLQ
			e = f
		}
		all = append(all, e, e)
	}
	for from := range all {
		tracer, kept := recording(t, "j", "")
		for i := range all {
			at := began.Add(-time.Duration(i) * time.Second) // the clock goes back
			tracer.apply(events.Record{Seq: int64(i + 1), Time: at, JobID: "j", Event: all[(from+i)%len(all)]})
		}
		for _, s := range kept.Ended() {
			if s.EndTime().Before(s.StartTime()) || !s.SpanContext().IsValid() {
				t.Errorf("from %T: %+v", all[from], s)
			}
		}
	}
}

// Every event that a log may have is exported, or there is a reason that it is not: a new one needs a decision.
func TestEveryEventIsExportedOrLeftOutForAReason(t *testing.T) {
	leftOut := map[string]string{
		"AgentDuplicated":     "no version writes it any more",
		"AgentSuperseded":     "no version writes it any more",
		"DLQItemAdded":        "the failure of the item is a log record, with its action",
		"DLQItemRemoved":      "it is between runs",
		"DLQItemsEvicted":     "it is between runs",
		"DLQItemsReprocessed": "it sums up what the items' spans have",
		"ErrorBatch":          "it repeats failures that are log records",
		"FingerprintChanged":  "nothing has happened",
		"ItemsSelected":       "the end of the run has the number of items",
		"StepPrinted":         "what steps print is never exported",
		"StepRetried":         "the backoff before it has the delay",
	}
	exported := func(middle ...events.Event) string {
		var all strings.Builder
		tracer, kept := recording(t, "j", "")
		before := []events.Event{
			events.JobStarted{},
			events.PhaseStarted{Phase: "reduce"},
			events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", Attempt: 1}},
			events.AgentProgress{ItemID: "a", Step: "s"},
		}
		for _, e := range slices.Concat(before, middle,
			[]events.Event{events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a"}}, events.JobPaused{}}) {
			tracer.apply(events.Record{Seq: 1, Time: began, JobID: "j", Event: e})
		}
		for _, s := range kept.Ended() {
			fmt.Fprintln(&all, s.Name(), s.Attributes(), s.Events(), s.Status())
		}
		for _, l := range kept.logs {
			fmt.Fprintln(&all, l.EventName(), l.Body())
		}
		return all.String()
	}
	nothing := exported()
	for _, e := range events.Types() {
		name := events.TypeOf(e)
		reason := leftOut[name]
		switch is := exported(ofItemInSlot1(e)) != nothing; {
		case is && reason != "":
			t.Errorf("%s is exported, and there is a reason that it is not: %s", name, reason)
		case !is && reason == "":
			t.Errorf("%s is neither in a span nor a log record: export it, or say above why it is left out", name)
		}
		delete(leftOut, name)
	}
	for name := range leftOut {
		t.Errorf("%s is no event", name)
	}
}

// ofItemInSlot1 returns e about the item a, in the first slot, as far as it has fields for that.
func ofItemInSlot1(e events.Event) events.Event {
	v := reflect.New(reflect.TypeOf(e)).Elem()
	if f := v.FieldByName("ItemID"); f.IsValid() {
		f.SetString("a")
	}
	if f := v.FieldByName("Worker"); f.IsValid() {
		f.SetInt(1)
	}
	return v.Interface().(events.Event)
}

func TestTheWorkOfItemsIsMergedAndVerified(t *testing.T) {
	got, logs := tree(t, "", records(
		events.JobStarted{Workflow: "w", Mode: "mapreduce"},
		events.WorktreeCreated{Worker: 1, Base: "a", DurationMS: events.Millis(time.Second)},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			Worker:    1,
		},
		events.AgentProgress{ItemID: "a", Step: "fix"},
		events.AISessionStarted{ItemID: "a", Step: "fix", Preset: "claude", SessionID: "5f0c"},
		events.AgentCompleted{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			Changes:   events.Changes{Commit: "c"},
		},
		events.VerifyStarted{ItemIDs: []string{"a"}, Commit: "c"},
		events.VerifyCompleted{Commit: "c", Step: "test", Error: "exit code 1", DurationMS: events.Millis(time.Second)},
		events.VerifyStarted{ItemIDs: []string{"a"}, Commit: "d"},
		events.VerifyCompleted{Commit: "d", Passed: true},
		events.WorktreeMerged{ItemIDs: []string{"a"}, ItemIndexes: []int{0}, Attempts: []int{1}, Commits: []string{"d"}, Head: "d", DurationMS: events.Millis(4 * time.Second)},
		events.WorktreeCleaned{Worker: 1, Reason: "its .git is gone"},
		events.VerifyStarted{ItemIDs: []string{"b"}, Commit: "e"},
		events.JobPaused{Reason: "by hand"},
	))
	compare(t, got, `
job w 0-13 stopped
  create workspace 0-1
  item 2-10 +merged succeeded
    attempt 2-5
      fix 3-5 +AISessionStarted
  verify 6-7 !exit code 1
  merge 6-10
  verify 8-9
  verify 12-13 true`)
	var said []string
	for _, l := range logs {
		said = append(said, fmt.Sprintf("%d %s", l.Severity(), l.Body().AsString()))
	}
	compare(t, said, `
9 job started
13 verify: exit code 1
9 deleted the workspace of slot 1: its .git is gone
13 stopped: by hand`)
}
