package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	lognoop "go.opentelemetry.io/otel/log/noop"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// Patience with a collector.
const (
	sendPatience = 10 * time.Second // with a batch, retries included
	awayFor      = 20 * time.Second // how long nothing is sent to a collector that did not take a batch
)

// Options are what an Export is given.
type Options struct {
	Job     jobs.Job
	Version string   // of prodigy
	Environ []string // with the variables of OpenTelemetry

	// The record that what is exported begins with; what ended before it was exported by others, or is not
	// wanted.
	From int64

	// Over, when set, says that the job is being run: its records are exported as they come. When Over is
	// closed, those that there are are the last.
	Over <-chan struct{}

	// Patience is how long what is left may take when Over is closed.
	Patience time.Duration

	// Metrics, when set, are told from time to time what did not reach the collector.
	Metrics *Metrics
}

// Export exports a job by the SDK of OpenTelemetry, over OTLP and HTTP. It reads the log, also while that grows, so
// that whatever a collector does, the job does not wait: what is not sent yet is in the log. The error is for what
// could not begin; what did not reach the collector is in the Report.
func Export(ctx context.Context, o Options) (Report, error) {
	meta, err := o.Job.ReadMeta()
	if err != nil {
		return Report{}, err
	}
	x, err := newExporter(ctx, o, meta)
	if err != nil {
		return Report{}, err
	}
	records := events.Read(o.Job.EventsDir())
	if o.Over != nil {
		var giveUp context.CancelFunc
		x.sending, giveUp = context.WithCancel(ctx)
		defer giveUp()
		records = events.FollowRecords(ctx, o.Job.EventsDir(), func() bool {
			select {
			case <-o.Over:
				return false
			default:
				return true
			}
		})
		go func() { // it ends with the export
			select {
			case <-o.Over:
				time.AfterFunc(o.Patience, giveUp)
			case <-x.sending.Done():
			}
		}()
	}
	for r, e := range records {
		if e != nil {
			err = fmt.Errorf("read the log: %w", e)
			break
		}
		x.apply(ctx, r)
	}
	x.close(ctx)
	return x.report(), err
}

// exporter is the SDK at work for one job.
type exporter struct {
	// What to export, and until when.
	o Options

	tracer *tracer

	// The metrics of the records that were read. They are not those of Options.Metrics, which a run that is
	// exported may serve at the same time, and which know what no record has.
	counts *Metrics

	// The time of the first record of the job, from which the counters count. Guarded by mu, as the SDK reads
	// metrics on a goroutine of its own.
	began time.Time

	// What was sent of each signal.
	spans, logs, points gate

	// They end the providers of the SDK, each unless the environment turns its signal off.
	ends []func(context.Context) error

	// Sends the log records that were made. It is nil if none are exported.
	flush func(context.Context) error

	// When it ends, nothing is sent any more.
	sending context.Context

	mu sync.Mutex

	// The time of the last record, for the metrics of a job that is not being run. Guarded by mu.
	last time.Time
}

// gate counts what is sent of a signal, and lets nothing through for some time when the collector did not take it.
type gate struct {
	x *exporter

	mu sync.Mutex

	// How many there were, and what became of them. Guarded by mu, as all below.
	count Count

	// The last error of the collector; nil if it took everything.
	err error

	// Until when nothing is sent, since the collector did not take a batch.
	away time.Time
}

var (
	errAway = errors.New("the collector did not respond earlier")
	errSlow = errors.New("the collector did not respond in time")
)

// made counts one more span or log record that is handed to the SDK.
func (g *gate) made() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count.Made++
}

// send calls do, which sends n of them.
func (g *gate) send(ctx context.Context, n int, do func(context.Context) error) error {
	g.mu.Lock()
	away := time.Now().Before(g.away)
	g.mu.Unlock()
	err := errAway
	if !away && g.x.sending.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, sendPatience)
		forget := context.AfterFunc(g.x.sending, cancel)
		err = do(ctx)
		if !forget() && err != nil {
			err = errSlow
		}
		cancel()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.count.Sent += n
		return nil
	}
	g.count.Lost += n
	if !away {
		g.err, g.away = err, time.Now().Add(awayFor)
	}
	return err
}

// get returns the counts so far, and the last error of the collector.
func (g *gate) get() (Count, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count, g.err
}

// spanGate lets the spans of the SDK through its gate.
type spanGate struct {
	sdktrace.SpanExporter
	*gate
}

// ExportSpans implements sdktrace.SpanExporter.
func (g spanGate) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	return g.send(ctx, len(list), func(ctx context.Context) error { return g.SpanExporter.ExportSpans(ctx, list) })
}

// logGate lets the log records of the SDK through its gate.
type logGate struct {
	sdklog.Exporter
	*gate
}

// Export implements sdklog.Exporter.
func (g logGate) Export(ctx context.Context, list []sdklog.Record) error {
	return g.send(ctx, len(list), func(ctx context.Context) error { return g.Exporter.Export(ctx, list) })
}

// newExporter prepares the SDK as the environment says.
func newExporter(ctx context.Context, o Options, meta jobs.Meta) (*exporter, error) {
	env := EnvironOf(o.Environ)
	if err := env.Check(); err != nil {
		return nil, err
	}
	x := &exporter{
		o: o, tracer: newTracer(meta.JobID, meta.TraceParent),
		counts: newMetrics(meta.Workflow, meta.MaxParallel),
	}
	x.tracer.spans, x.tracer.logs, x.tracer.from, x.sending = &x.spans, &x.logs, o.From, ctx
	x.tracer.spanner, x.tracer.logger = tracenoop.Tracer{}, lognoop.Logger{}
	x.spans.x, x.logs.x, x.points.x = x, x, x
	// Errors of batches come here too; those of the gates are told in the report, others are of no use to anybody.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	res, err := resource.New(
		ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "prodigy"),
			attribute.String("service.version", o.Version)),
		resource.WithFromEnv(),
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, err
	}
	x.counts.exports(x.report)
	o.Metrics.exports(x.report)
	type opener func(context.Context, Environ, *resource.Resource) error
	for i, open := range []opener{x.openTraces, x.openMetrics, x.openLogs} {
		if env.exports(signals[i]) {
			if err := open(ctx, env, res); err != nil {
				return nil, err
			}
		}
	}
	return x, nil
}

// retries are those of the exporters. What they give up on is in the log.
var retries = otlptracehttp.RetryConfig{
	Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 4 * time.Second, MaxElapsedTime: sendPatience,
}

// optionsOf returns the options of the exporter of a signal, from those of its package: its retries, and where the
// environment names none an endpoint.
func optionsOf[O any](e Environ, signal string, retries O, endpoint func(string) O) []O {
	if e.setting(signal, "ENDPOINT") != "" {
		return []O{retries}
	}
	return []O{retries, endpoint(local + "/v1/" + strings.ToLower(signal))}
}

// openTraces prepares the export of spans. Spans are made faster than they
// are sent while an old job is exported, so the batcher blocks when its queue is full instead of dropping spans.
func (x *exporter) openTraces(ctx context.Context, env Environ, res *resource.Resource) error {
	exp, err := otlptracehttp.New(ctx, optionsOf(env, "TRACES", otlptracehttp.WithRetry(retries),
		otlptracehttp.WithEndpointURL)...)
	if err != nil {
		return err
	}
	traces := sdktrace.NewTracerProvider(
		sdktrace.WithResource(res), sdktrace.WithIDGenerator(derived{}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithBatcher(spanGate{exp, &x.spans}, sdktrace.WithBlocking(), sdktrace.WithBatchTimeout(time.Second)),
	)
	x.tracer.spanner = traces.Tracer("prodigy", trace.WithInstrumentationVersion(x.o.Version))
	x.ends = append(x.ends, traces.Shutdown)
	return nil
}

// openMetrics prepares the export of metrics. The SDK reads them by Produce.
func (x *exporter) openMetrics(ctx context.Context, env Environ, res *resource.Resource) error {
	exp, err := otlpmetrichttp.New(ctx, optionsOf(env, "METRICS",
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig(retries)), otlpmetrichttp.WithEndpointURL)...)
	if err != nil {
		return err
	}
	reading := []sdkmetric.PeriodicReaderOption{sdkmetric.WithProducer(x)}
	if env["OTEL_METRIC_EXPORT_INTERVAL"] == "" {
		reading = append(reading, sdkmetric.WithInterval(metricsEvery))
	}
	x.ends = append(x.ends, sdkmetric.NewMeterProvider(sdkmetric.WithResource(res),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricGate{exp, &x.points}, reading...))).Shutdown)
	return nil
}

// metricGate lets the metrics of the SDK through its gate, as one thing for each time that they are read.
type metricGate struct {
	sdkmetric.Exporter
	*gate
}

// openLogs prepares the export of log records.
func (x *exporter) openLogs(ctx context.Context, env Environ, res *resource.Resource) error {
	exp, err := otlploghttp.New(ctx, optionsOf(env, "LOGS", otlploghttp.WithRetry(otlploghttp.RetryConfig(retries)),
		otlploghttp.WithEndpointURL)...)
	if err != nil {
		return err
	}
	logging := sdklog.NewLoggerProvider(sdklog.WithResource(res),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(logGate{exp, &x.logs}, sdklog.WithMaxQueueSize(2*logsAtOnce))))
	x.tracer.logger = logging.Logger("prodigy", log.WithInstrumentationVersion(x.o.Version))
	x.ends, x.flush = append(x.ends, logging.Shutdown), logging.ForceFlush
	return nil
}

// logsAtOnce is how many log records are made before they are waited for: the SDK throws away what it has no room for.
const logsAtOnce = 512

// apply takes the next record of the log.
func (x *exporter) apply(ctx context.Context, r events.Record) {
	x.mu.Lock()
	x.last = r.Time
	if x.began.IsZero() {
		x.began = r.Time
	}
	x.mu.Unlock()
	if e, ok := r.Event.(events.AgentProgress); ok {
		x.counts.Step(e, r.Time)
	}
	x.counts.observe([]events.Record{r})
	x.tracer.apply(r)
	if n, _ := x.logs.get(); x.flush != nil && n.Made-n.Sent-n.Lost >= logsAtOnce {
		_ = x.flush(ctx) // the gate knows of the error
	}
}

// close sends what is left.
func (x *exporter) close(ctx context.Context) {
	var all sync.WaitGroup // the gates know of their errors
	for _, end := range x.ends {
		all.Go(func() { _ = end(ctx) })
	}
	all.Wait()
}

// report returns what was exported until now. Metrics are not in it: those that come later say the same and more.
func (x *exporter) report() Report {
	var r Report
	var spans, logs error
	r.Spans, spans = x.spans.get()
	r.Logs, logs = x.logs.get()
	if err := cmp.Or(logs, spans); err != nil {
		r.Error = term.OneLine(err.Error())
	}
	return r
}

// wanted is in the context of a span that begins, for derived.
type wanted struct{}

// derived gives spans the names that their jobs give them.
type derived struct{}

// NewIDs implements sdktrace.IDGenerator, for a span that begins a trace.
func (derived) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(wanted{}).(events.TraceContext)
	return c.Trace, c.Span
}

// NewSpanID implements sdktrace.IDGenerator, for a span within a trace.
func (derived) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(wanted{}).(events.TraceContext)
	return c.Span
}

// within returns a context in which the span c is the current one, as one of another process.
func within(ctx context.Context, c events.TraceContext) context.Context {
	if c == (events.TraceContext{}) {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: c.Trace, SpanID: c.Span, TraceFlags: trace.TraceFlags(c.Flags), Remote: true,
	}))
}
