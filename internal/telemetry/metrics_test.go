package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// feed applies events, one a second.
func feed(j *Metrics, list ...events.Event) {
	for i, e := range list {
		j.observe([]events.Record{{Seq: int64(i + 1), Time: began.Add(time.Duration(i) * time.Second), JobID: "mapreduce-1", Event: e}})
	}
}

// parsed is what Prometheus reads, by name.
func parsed(t *testing.T, j *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	text := j.text(began.Add(time.Minute))
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value returns the value of the sample with these labels, as in state=running, beside workflow.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		var has []string
		for _, l := range m.GetLabel() {
			if l.GetName() != "workflow" {
				has = append(has, l.GetName()+"="+l.GetValue())
			}
		}
		if strings.Join(has, ",") == strings.Join(labels, ",") {
			switch families[name].GetType() {
			case dto.MetricType_COUNTER:
				return m.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				return float64(m.GetHistogram().GetSampleCount())
			}
			return m.GetGauge().GetValue()
		}
	}
	return math.NaN()
}

func TestPrometheusReadsWhatAJobDid(t *testing.T) {
	j := newMetrics("w", 4)
	cost := limit.Dollar / 2
	exit, at := 1, began.Add(time.Hour)
	feed(
		j,
		events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 4, Rates: []events.StartRate{{Limit: "90/min", PerSecond: 1.5}, {Limit: "2/s", PerSecond: 2, Per: "${item.host}", Step: "call"}}},
		events.PhaseStarted{Phase: "map"},
		events.ItemsSelected{TotalItems: 10},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			Worker:    1,
		},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1},
			Worker:    2,
		},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2, AgentID: "c/1", Attempt: 1},
			Worker:    3,
		},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "d", ItemIndex: 3, AgentID: "d/1", Attempt: 1},
			Worker:    4,
		},
		events.AgentUsage{ItemID: "a", AgentID: "a/1", Attempt: 1, Preset: "claude", Outcome: "success", CostUSD: &cost, Tokens: &limit.Tokens{Input: 7}},
		events.AgentCompleted{
			AttemptID:  events.AttemptID{ItemID: "a", ItemIndex: 0, AgentID: "a/1", Attempt: 1},
			DurationMS: events.Millis(3 * time.Second),
		},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "b/1", Attempt: 1},
			ExitCode:  &exit, ErrorType: retry.TypeNetwork, Action: errorpolicy.Retry, RetryAt: &at,
		},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2, AgentID: "c/1", Attempt: 1},
			ExitCode:  &exit, ErrorType: retry.TypeTimeout, Action: errorpolicy.DLQ,
		},
		events.DLQItemAdded{ItemID: "c"},
		events.CircuitOpen{Scope: "workflow", Until: at},
		events.CircuitHalfOpen{Scope: "workflow"},
		events.CircuitOpen{Scope: "fetch", Until: at},
		events.CircuitClosed{Scope: "fetch"},
		events.CircuitOpen{Scope: "fetch", Key: "a", Until: at},
		events.CircuitOpen{Scope: "fetch", Key: "b", Until: at},
	)
	j.Waited(1500 * time.Millisecond)
	got := parsed(t, j)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "prodigy_job_info", []string{"job_id=mapreduce-1", "mode=mapreduce"}},
		{1, "prodigy_job_state", []string{"state=running"}},
		{0, "prodigy_job_state", []string{"state=completed"}},
		{6, "prodigy_items", []string{"state=pending"}},
		{1, "prodigy_items", []string{"state=running"}},
		{1, "prodigy_items", []string{"state=waiting"}},
		{1, "prodigy_items", []string{"state=succeeded"}},
		{1, "prodigy_items", []string{"state=failed"}},
		{1, "prodigy_attempts_total", []string{"outcome=succeeded"}},
		{2, "prodigy_attempts_total", []string{"outcome=failed"}},
		{1, "prodigy_attempt_failures_total", []string{"error_type=timeout"}},
		{1, "prodigy_retries_total", []string{"error_type=network"}},
		{1, "prodigy_dead_letters_total", nil},
		{3, "prodigy_attempt_duration_seconds", nil},
		{4, "prodigy_slots", nil},
		{1, "prodigy_slots_used", nil},
		{1.5, "prodigy_rate_wait_seconds_total", nil},
		{1.5, "prodigy_rate_starts_per_second", []string{"per=", "step="}},
		{2, "prodigy_rate_starts_per_second", []string{"per=${item.host}", "step=call"}},
		{1, "prodigy_breakers", []string{"scope=workflow", "state=half_open"}},
		{2, "prodigy_breakers", []string{"scope=fetch", "state=open"}},
		{1, "prodigy_breaker_openings_total", []string{"scope=workflow"}},
		{0.5, "prodigy_agent_cost_usd_total", []string{"preset=claude"}},
		{7, "prodigy_agent_tokens_total", []string{"kind=input"}},
	} {
		if v := value(t, got, c.name, c.labels...); v != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, v, c.want)
		}
	}
}

// The record of the end of an attempt may come after the next attempt has begun its first step.
func TestStepsAreMeasuredWithinTheirAttempts(t *testing.T) {
	j := newMetrics("w", 1)
	at := began
	feed(j, events.JobStarted{}, events.AgentStarted{AttemptID: events.AttemptID{
		ItemID: "a", AgentID: "a/1",
		Attempt: 1,
	}})
	j.Step(events.AgentProgress{ItemID: "a", Step: "get"}, began.Add(1*time.Second))
	j.Step(events.AgentProgress{ItemID: "a", Step: "put"}, began.Add(3*time.Second))
	j.Step(events.AgentProgress{ItemID: "a", Step: "get"}, began.Add(20*time.Second)) // of the next attempt
	j.observe([]events.Record{{Seq: 3, Time: began.Add(10 * time.Second), JobID: "j", Event: events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: "a", AgentID: "a/1", Attempt: 1},
		Action:    errorpolicy.Retry, RetryAt: &at,
	}}})
	j.observe([]events.Record{{
		Seq: 4, Time: began.Add(21 * time.Second), JobID: "j",
		Event: events.AgentInterrupted{AttemptID: events.AttemptID{ItemID: "a", AgentID: "a/2", Attempt: 2}},
	}})
	if len(j.steps) != 2 || j.steps["get"].sum != 2*time.Second || j.steps["put"].sum != 7*time.Second || len(j.open) != 0 {
		t.Errorf("get %+v, put %+v, open %v", j.steps["get"], j.steps["put"], j.open)
	}
}

func TestABucketHoldsWhatIsUpToItsBound(t *testing.T) {
	var d distribution
	for _, took := range []time.Duration{0, 10 * time.Millisecond, 11 * time.Millisecond, time.Hour, 2 * time.Hour} {
		d.add(took)
	}
	if n := len(bounds); d.counts[0] != 2 || d.counts[1] != 1 || d.counts[n-1] != 1 || d.counts[n] != 1 || d.n != 5 {
		t.Errorf("%+v", d)
	}
}

// What names a workflow or a step comes from files: nothing in it ends a line of the format.
func TestNoLabelBreaksTheFormat(t *testing.T) {
	for _, name := range []string{"plain", "a\"b", `a\b`, "a\nb 1\n# TYPE x counter", "é\xff", "", "{a=\"b\"} 1", strings.Repeat("x", 100000)} {
		j := newMetrics(name, 1)
		feed(j, events.JobStarted{Workflow: name}, events.StepCompleted{Step: name})
		got := parsed(t, j)
		if v := value(t, got, "prodigy_step_duration_seconds", "step="+strings.ToValidUTF8(name, "\ufffd")); v != 1 {
			t.Errorf("%.50q: %v", name, v)
		}
	}
}

func TestStepsBeyondABoundShareAdistribution(t *testing.T) {
	j := newMetrics("w", 1)
	for i := range 10 * stepsKept {
		j.step(strings.Repeat("x", i), time.Second)
	}
	if len(j.steps) != stepsKept+1 || j.steps[otherSteps].n != 9*stepsKept {
		t.Errorf("%d, %+v", len(j.steps), j.steps[otherSteps])
	}
}

func TestMetricsAreServedAndKept(t *testing.T) {
	j := newMetrics("w", 1)
	feed(j, events.JobStarted{Workflow: "w"})
	at, end, err := j.serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.serve(at); err == nil {
		t.Error("two listen on one address")
	}
	get := func(method, path string) (int, string) {
		request, _ := http.NewRequest(method, "http://"+at+path, nil)
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	if code, text := get("GET", "/metrics"); code != 200 || !strings.Contains(text, `prodigy_job_state{workflow="w",state="running"} 1`) {
		t.Errorf("%d: %s", code, text)
	}
	for _, c := range [][2]string{{"POST", "/metrics"}, {"GET", "/"}, {"GET", "/debug/pprof/"}} {
		if code, text := get(c[0], c[1]); code < 400 {
			t.Errorf("%v: %d %s", c, code, text)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}

	path := filepath.Join(t.TempDir(), "job.prom")
	end, err = j.keep(path)
	if err != nil {
		t.Fatal(err)
	}
	feed(j, events.JobCompleted{})
	if err := end(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `state="completed"} 1`) {
		t.Errorf("%s, %v", text, err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 || len(left) != 1 {
		t.Errorf("%v, %v, %v", info, err, left)
	}
	if _, err := j.keep(filepath.Join(path, "x.prom")); err == nil {
		t.Error("a file below a file was written")
	}
}

// Whatever keys items have, nothing that is exported grows with them: a key is no label.
func TestKeysAreNoLabels(t *testing.T) {
	samples := func(keys int) (n, text int) {
		j := newMetrics("w", 4)
		feed(j, events.JobStarted{Workflow: "w", Mode: "mapreduce", Rates: []events.StartRate{{Limit: "9/s", PerSecond: 9, Per: "${item.host}"}}})
		for i := range keys {
			id, key := fmt.Sprint("item_", i), fmt.Sprint("host-", i)
			feed(j, events.CircuitOpen{Scope: "workflow", Key: key, ConsecutiveFailures: 1})
			if i >= 1000 {
				continue
			}
			feed(
				j,
				events.AgentStarted{
					AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: id + "/1", Attempt: 1},
					Worker:    1, Key: key, BreakerKey: key,
				},
				events.StepTurn{ItemID: id, ItemIndex: i, Step: "call", Key: key},
				events.AgentFailed{
					AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: id + "/1", Attempt: 1},
					Step:      "call", Error: "no route to " + key, ErrorType: retry.TypeNetwork,
					Action: errorpolicy.DLQ,
				},
				events.CircuitOpen{Scope: "call", Key: key, ConsecutiveFailures: 1},
				events.CircuitHalfOpen{Scope: "call", Key: key},
			)
		}
		for _, f := range j.families(began) {
			n += len(f.samples)
		}
		if got := value(t, parsed(t, j), "prodigy_breaker_openings_total", "scope=workflow"); got != float64(keys) {
			t.Errorf("%v breakers have opened, want %d", got, keys)
		}
		return n, len(j.text(began))
	}
	few, _ := samples(2)
	many, text := samples(100_000)
	if many != few || text > 20_000 {
		t.Errorf("%d samples in %d bytes with 100,000 keys, %d with two", many, text, few)
	}
}
