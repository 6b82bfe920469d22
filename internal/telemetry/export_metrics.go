package telemetry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"prodigy/internal/check"
)

var _ sdkmetric.Producer = (*exporter)(nil)

// Export sends metrics. Those that are lost are not counted: the next ones say the same and more.
func (g metricGate) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	return g.send(ctx, 1, func(ctx context.Context) error { return g.Exporter.Export(ctx, m) })
}

// Produce returns the metrics of the job as they were at its last record: those of Prometheus, under the
// names of OpenTelemetry.
func (x *exporter) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	x.mu.Lock()
	began, now := x.began, x.last
	x.mu.Unlock()
	if x.o.Over != nil {
		now = time.Now()
	}
	s := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: "prodigy", Version: x.o.Version}}
	for _, f := range x.counts.families(now) {
		if f.name == "prodigy_rate_wait_seconds_total" {
			continue // the log does not have it
		}
		name, unit := otelName(f.name)
		m := metricdata.Metrics{Name: name, Description: f.help, Unit: unit}
		switch f.kind() {
		case counter:
			m.Data = metricdata.Sum[float64]{
				Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
				DataPoints: dataPoints(f, began, now),
			}
		case gauge:
			m.Data = metricdata.Gauge[float64]{DataPoints: dataPoints(f, time.Time{}, now)}
		case histogram:
			h := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
			for _, sample := range f.samples {
				h.DataPoints = append(h.DataPoints, metricdata.HistogramDataPoint[float64]{
					Attributes: attributesOf(sample), StartTime: began, Time: now,
					Count: sample.counts.n, Sum: sample.counts.sum.Seconds(),
					Bounds: bounds[:], BucketCounts: sample.counts.counts[:],
				})
			}
			m.Data = h
		}
		s.Metrics = append(s.Metrics, m)
	}
	if len(s.Metrics) == 0 {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{s}, nil
}

// otelName returns the name of a metric for OpenTelemetry, where neither the unit nor the kind are parts of it, and its
// unit as UCUM writes it: prodigy_step_duration_seconds is prodigy.step_duration, in s.
func otelName(prometheus string) (name, unit string) {
	name = "prodigy." + strings.TrimSuffix(strings.TrimPrefix(prometheus, "prodigy_"), "_total")
	if inTime, ok := strings.CutSuffix(name, "_seconds"); ok {
		return inTime, "s"
	}
	if inMoney, ok := strings.CutSuffix(name, "_usd"); ok {
		return inMoney, "USD"
	}
	return name, ""
}

// dataPoints returns the samples of a counter or a gauge. A gauge has no beginning, and began is zero for it.
func dataPoints(f family, began, now time.Time) []metricdata.DataPoint[float64] {
	return check.Each(f.samples, func(s sample) metricdata.DataPoint[float64] {
		return metricdata.DataPoint[float64]{Attributes: attributesOf(s), StartTime: began, Time: now, Value: s.value}
	})
}

// attributesOf returns the labels of a sample as attributes.
func attributesOf(s sample) attribute.Set {
	return attribute.NewSet(check.Each(s.labels, func(l label) attribute.KeyValue {
		return attribute.String(l.name, l.value)
	})...)
}
