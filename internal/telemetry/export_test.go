package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/retry"
)

// collector takes OTLP over HTTP.
type collector struct {
	*httptest.Server

	mu      sync.Mutex
	traces  []*tracepb.ExportTraceServiceRequest
	metrics []*metricspb.ExportMetricsServiceRequest
	logs    []*logspb.ExportLogsServiceRequest
	headers []http.Header
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body, _ = io.ReadAll(z)
	}
	var m proto.Message
	switch r.URL.Path {
	case "/v1/traces":
		m = &tracepb.ExportTraceServiceRequest{}
	case "/v1/metrics":
		m = &metricspb.ExportMetricsServiceRequest{}
	case "/v1/logs":
		m = &logspb.ExportLogsServiceRequest{}
	default:
		http.NotFound(w, r)
		return
	}
	if err := proto.Unmarshal(body, m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch m := m.(type) {
	case *tracepb.ExportTraceServiceRequest:
		c.traces = append(c.traces, m)
	case *metricspb.ExportMetricsServiceRequest:
		c.metrics = append(c.metrics, m)
	case *logspb.ExportLogsServiceRequest:
		c.logs = append(c.logs, m)
	}
}

// received is a span that came.
type received struct {
	id, parent, name, failure string
	events                    []string
}

// spans returns the spans that came, and fails for one that came twice, or of another trace.
func (c *collector) spans(t *testing.T, traceID string) map[string]received {
	t.Helper()
	all := map[string]received{}
	for _, request := range c.traces {
		for _, r := range request.ResourceSpans {
			for _, scope := range r.ScopeSpans {
				for _, s := range scope.Spans {
					one := received{id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId), name: s.Name, failure: s.Status.GetMessage()}
					for _, e := range s.Events {
						one.events = append(one.events, e.Name)
					}
					if _, twice := all[one.id]; twice || hex.EncodeToString(s.TraceId) != traceID || s.EndTimeUnixNano < s.StartTimeUnixNano {
						t.Errorf("%v is twice, or has another trace, or ends before it begins", s)
					}
					all[one.id] = one
				}
			}
		}
	}
	return all
}

// paths returns the names of spans below those of their parents.
func paths(all map[string]received) []string {
	var list []string
	for _, s := range all {
		path := s.name
		for p, ok := all[s.parent]; ok; p, ok = all[p.parent] {
			path = p.name + "/" + path
		}
		if s.failure != "" {
			path += " !" + s.failure
		}
		if len(s.events) > 0 {
			path += " +" + strings.Join(s.events, "+")
		}
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// jobWith makes a job with a log.
func jobWith(t *testing.T, parent string, list ...events.Event) jobs.Job {
	t.Helper()
	job, err := jobs.Home{Root: t.TempDir()}.Create("repo", "mapreduce", began)
	if err == nil {
		err = job.WriteMeta(jobs.Meta{JobID: job.ID, Workflow: "convert", Mode: "mapreduce", Dir: "/", Started: began, Version: "v1", MaxParallel: 4, TraceParent: parent})
	}
	if err == nil {
		err = os.MkdirAll(job.EventsDir(), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, job, 0, list...)
	return job
}

// appendTo appends records to the log of a job that has n.
func appendTo(t *testing.T, job jobs.Job, n int, list ...events.Event) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(job.EventsDir(), "events-20261120161500.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		line, err := events.Encode(events.Record{Seq: int64(n + i + 1), Time: began.Add(time.Duration(n+i) * time.Second), JobID: job.ID, CorrelationID: job.ID, Event: e})
		if err == nil {
			_, err = f.Write(line)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// over says that the run is over.
func over() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func firstRun() []events.Event {
	at := began.Add(time.Hour)
	return []events.Event{
		events.JobStarted{Workflow: "convert", Mode: "mapreduce", MaxParallel: 4},
		events.PhaseStarted{Phase: "map"},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			Worker:    1,
		},
		events.AgentProgress{ItemID: "a", Step: "get", Steps: 1},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			Step:      "get", Error: "exit code 6", ErrorType: retry.TypeNetwork, StderrTail: "SECRET OUTPUT",
			Action: errorpolicy.Retry, RetryAt: &at,
		},
		events.JobPaused{Reason: "interrupted"},
	}
}

func secondRun() []events.Event {
	return []events.Event{
		events.JobResumed{Phase: "map", Pending: 1},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2},
			Worker:    1,
		},
		events.AgentProgress{ItemID: "a", Step: "get", Steps: 1},
		events.AgentCompleted{
			AttemptID:  events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/2", Attempt: 2},
			ItemOutput: events.ItemOutput{Output: "SECRET OUTPUT"}, DurationMS: events.Millis(time.Second),
		},
		events.JobCompleted{Metrics: errorpolicy.Metrics{TotalItems: 1, Outcomes: errorpolicy.Outcomes{Successful: 1}}},
	}
}

// A run and its resume, exported as they went, are what an export afterwards gives: the same spans under the same names, none twice.
func TestAnExportAfterwardsIsWhatTheRunsExported(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	live, after := newCollector(t), newCollector(t)
	job := jobWith(t, parent, firstRun()...)
	to := func(c *collector) []string {
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip"}
	}
	setenv := func(c *collector) {
		for _, kv := range to(c) {
			name, value, _ := strings.Cut(kv, "=")
			t.Setenv(name, value)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k%20y")
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	}
	export := func(c *collector, from int64, over chan struct{}) Report {
		setenv(c)
		r, err := Export(context.Background(), Options{Job: job, Version: "v1", Environ: to(c), From: from, Over: over, Patience: time.Minute})
		if err != nil || r.Spans.Made != r.Spans.Sent || r.Logs.Made != r.Logs.Sent || r.Error != "" {
			t.Errorf("%+v, %v", r, err)
		}
		return r
	}
	export(live, 1, over())
	appendTo(t, job, len(firstRun()), secondRun()...)
	export(live, int64(len(firstRun())+1), over())
	r := export(after, 0, nil)

	id := "0af7651916cd43dd8448eb211c80319c"
	got, again := live.spans(t, id), after.spans(t, id)
	want := []string{
		"job convert",
		"job convert/item +backoff",
		"job convert/item/attempt !exit code 6",
		"job convert/item/attempt/get !exit code 6",
		"job convert/resume convert",
		"job convert/resume convert/item",
		"job convert/resume convert/item/attempt",
		"job convert/resume convert/item/attempt/get",
	}
	if p := paths(got); !slices.Equal(p, want) || r.Spans.Sent != len(want) {
		t.Errorf("%q", p)
	}
	if len(got) != len(again) {
		t.Errorf("%d spans live, %d afterwards", len(got), len(again))
	}
	for id, s := range got {
		if again[id].name != s.name || again[id].parent != s.parent {
			t.Errorf("%v is %v afterwards", s, again[id])
		}
	}
	root := events.TraceOfJob(job.ID, parent)
	if s := got[hex.EncodeToString(root.Span[:])]; s.name != "job convert" || s.parent != "b7ad6b7169203331" {
		t.Errorf("the span of the job is %v", s)
	}
	for _, c := range []*collector{live, after} {
		for _, h := range c.headers {
			if h.Get("api-key") != "k y" {
				t.Errorf("headers %v", h)
			}
		}
		text := proto.MarshalOptions{}.Size(c.traces[0]) // what was printed is not in it
		for _, m := range c.traces {
			if s := m.String(); strings.Contains(s, "SECRET OUTPUT") || !strings.Contains(s, "deployment.environment.name") || !strings.Contains(s, `"prodigy"`) {
				t.Errorf("%d bytes: %s", text, s)
			}
		}
		for _, m := range c.logs {
			if strings.Contains(m.String(), "SECRET OUTPUT") {
				t.Errorf("%s", m)
			}
		}
	}
	var bodies []string
	for _, m := range after.logs {
		for _, s := range m.ResourceLogs[0].ScopeLogs {
			for _, l := range s.LogRecords {
				bodies = append(bodies, l.Body.GetStringValue())
				if hex.EncodeToString(l.TraceId) != id || len(l.SpanId) != 8 {
					t.Errorf("%v", l)
				}
			}
		}
	}
	if want := []string{"job started", "a: exit code 6", "stopped: interrupted", "job resumed: 0 done, 1 remaining", "completed: 1 of 1 items succeeded"}; !slices.Equal(bodies, want) {
		t.Errorf("%q", bodies)
	}
	metrics := map[string]string{}
	for _, m := range after.metrics {
		for _, s := range m.ResourceMetrics[0].ScopeMetrics {
			for _, one := range s.Metrics {
				metrics[one.Name] = one.String()
			}
		}
	}
	for name, has := range map[string]string{
		"prodigy.items": `as_double:1`, "prodigy.attempts": "is_monotonic:true", "prodigy.retries": "network", "prodigy.attempt_duration": "histogram", "prodigy.step_duration": `unit:"s"`,
	} {
		if !strings.Contains(strings.ReplaceAll(metrics[name], ": ", ":"), has) {
			t.Errorf("%s: %s", name, metrics[name])
		}
	}
}

// What a collector does not take is counted, and an export ends all the same.
func TestACollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	job := jobWith(t, "", append(firstRun(), secondRun()...)...)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	for _, url := range []string{away.URL, refusing.URL} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
		r, err := Export(context.Background(), Options{Job: job, Environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url}, From: 1, Over: over(), Patience: time.Minute})
		if err != nil || r.Spans.Made != 8 || r.Spans.Sent != 0 || r.Spans.Lost != 8 || r.Logs.Lost != 5 || r.Error == "" {
			t.Errorf("%s: %+v, %v", url, r, err)
		}
	}
}

// A collector may take a connection and never answer. When the run is over there is some patience left for it, and then all is counted.
func TestACollectorThatHangsIsLeft(t *testing.T) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	var many []events.Event
	for i := range 3000 { // more spans than the SDK has room for
		id := fmt.Sprint("item_", i)
		many = append(many, events.AgentStarted{AttemptID: events.AttemptID{
			ItemID: id, ItemIndex: i,
			AgentID: id + "/1", Attempt: 1,
		}}, events.AgentCompleted{AttemptID: events.AttemptID{
			ItemID:    id,
			ItemIndex: i, AgentID: id + "/1", Attempt: 1,
		}})
	}
	job := jobWith(t, "", slices.Concat(firstRun()[:2], many, secondRun()[4:])...)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hanging.URL)
	r, err := Export(context.Background(), Options{Job: job, Environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + hanging.URL}, From: 1, Over: over(), Patience: 100 * time.Millisecond})
	if err != nil || r.Spans.Made != 6001 || r.Spans.Lost != 6001 || r.Logs.Lost != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whoever starts the job decides whether its trace is kept.
func TestAnUnsampledJobHasNoSpans(t *testing.T) {
	c := newCollector(t)
	job := jobWith(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", append(firstRun(), secondRun()...)...)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	r, err := Export(context.Background(), Options{Job: job, Environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_METRICS_EXPORTER=none"}})
	if err != nil || r.Spans.Made != 0 || len(c.traces) != 0 || r.Logs.Sent != 5 || len(c.metrics) != 0 {
		t.Errorf("%+v, %v, %v", r, err, c.traces)
	}
}

// A run that was killed has no last record: the export ends with the process, not with the log.
func TestAnExportEndsWithTheRun(t *testing.T) {
	c := newCollector(t)
	job := jobWith(t, "", firstRun()[:5]...)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	r, err := Export(context.Background(), Options{Job: job, Environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}, From: 1, Over: over(), Patience: time.Minute})
	if err != nil || r.Spans.Sent != 2 { // the attempt and its step
		t.Errorf("%+v, %v", r, err)
	}
}

// However many keys have breakers, the metrics that are exported have as many points as with two.
func TestKeysAreNoAttributesOfMetrics(t *testing.T) {
	points := func(keys int) (n int) {
		x := &exporter{counts: newMetrics("w", 4), began: began, last: began}
		list := []events.Record{{Seq: 1, Time: began, JobID: "j", Event: events.JobStarted{Workflow: "w", Mode: "mapreduce"}}}
		for i := range keys {
			list = append(list, events.Record{Seq: int64(i + 2), Time: began, JobID: "j", Event: events.CircuitOpen{Scope: "workflow", Key: fmt.Sprint("host-", i)}})
		}
		x.counts.observe(list)
		scopes, err := x.Produce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range scopes[0].Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				n += len(data.DataPoints)
			case metricdata.Gauge[float64]:
				n += len(data.DataPoints)
			case metricdata.Histogram[float64]:
				n += len(data.DataPoints)
			}
		}
		return n
	}
	if many, few := points(100_000), points(2); many != few || few == 0 {
		t.Errorf("%d points with 100,000 keys, %d with two", many, few)
	}
}
