package otlp

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"prodigy/internal/metrics"
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
	for _, f := range x.counts.Families(now) {
		if f.Name == "prodigy_rate_wait_seconds_total" {
			continue // the log does not have it
		}
		m := metricdata.Metrics{Name: nameOf(f), Description: f.Help, Unit: f.Unit}
		switch f.Kind {
		case metrics.Counter:
			m.Data = metricdata.Sum[float64]{
				Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
				DataPoints: points(f, began, now),
			}
		case metrics.Gauge:
			m.Data = metricdata.Gauge[float64]{DataPoints: points(f, time.Time{}, now)}
		case metrics.Histogram:
			h := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
			for _, sample := range f.Samples {
				h.DataPoints = append(h.DataPoints, metricdata.HistogramDataPoint[float64]{
					Attributes: labels(sample), StartTime: began, Time: now, Count: sample.Counts.N, Sum: sample.Counts.Sum.Seconds(),
					Bounds: metrics.Bounds(), BucketCounts: sample.Counts.Counts[:],
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

// nameOf returns the name of a metric for OpenTelemetry, where neither the unit nor the kind are parts of it:
// prodigy_step_duration_seconds is prodigy.step_duration.
func nameOf(f metrics.Family) string {
	name := strings.TrimSuffix(strings.TrimPrefix(f.Name, "prodigy_"), "_total")
	switch f.Unit {
	case "s":
		name = strings.TrimSuffix(name, "_seconds")
	case "USD":
		name = strings.TrimSuffix(name, "_usd")
	}
	return "prodigy." + name
}

func points(f metrics.Family, began, now time.Time) []metricdata.DataPoint[float64] {
	var list []metricdata.DataPoint[float64]
	for _, s := range f.Samples {
		list = append(list, metricdata.DataPoint[float64]{
			Attributes: labels(s), StartTime: began, Time: now,
			Value: s.Value,
		})
	}
	return list
}

func labels(s metrics.Sample) attribute.Set {
	var all []attribute.KeyValue
	for _, l := range s.Labels {
		all = append(all, attribute.String(l.Name, l.Value))
	}
	return attribute.NewSet(all...)
}
