// Package telemetry tells the outside what happens to a job: metrics for Prometheus; spans, log records and metrics for
// OpenTelemetry; and notifications by webhooks and commands.
//
// A [Run] sees the records of a run when they are durable, and holds nothing up. All that it tells it could tell again
// from the log: a [tracer] is a fold that gives the same log the same spans, under the same names (see
// events.TraceContext), and a journal of the job has a line before and after each notification. So [Export] exports a
// job afterwards, and [Again] sends what a run that was killed has not told.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// Config says what of a run is told, and to whom.
type Config struct {
	Home     jobs.Home
	Workflow *workflow.Workflow
	Settings settings.Settings
	Dir      string // in which commands run
	Environ  []string
	Version  string // of prodigy
	Slots    int

	Listen      string // the address at which metrics are served, if any
	MetricsFile string // the file in which metrics are kept, if any
	OTel        bool   // export to OpenTelemetry, even if the environment does not name a collector

	// Told is called with what could not be told, in a sentence for people. Several goroutines call it.
	Told func(text string)
}

// Run tells the outside of one run of a job. Its methods can be called by several goroutines.
type Run struct {
	Notes []string // for people, from before the run

	// Exports says that the run is exported to OpenTelemetry: its log should have the steps of items, and its commands
	// the names of their spans.
	Exports bool

	// Metrics are nil if nobody wants them.
	Metrics *Metrics

	config Config

	// The receivers of notifications. It is empty if the workflow has none.
	targets []Target

	// They end what serves metrics, and what keeps them in a file.
	ends []func() error

	// Runs begin at the first record, which says which job it is.
	begun sync.Once

	job jobs.Job

	// Sends notifications. It is nil before the run begins, and if there are no receivers.
	notifier *notifier

	// Closed when the run is over, so that the export ends with the last record.
	over chan struct{}

	// Closed when the export has ended. It is nil before the export begins.
	exported chan struct{}

	// What was exported, and why nothing was. Only read once exported is closed.
	report Report

	failed error
}

// Begin prepares what is told of a run. Close must be called.
func Begin(c Config) (*Run, error) {
	r := &Run{config: c, over: make(chan struct{})}
	if c.Listen != "" || c.MetricsFile != "" {
		r.Metrics = newMetrics(c.Workflow.Name, c.Slots)
	}
	err := r.serve()
	if err == nil {
		err = r.prepareExport()
	}
	if err == nil { // who is told is not reached before the run begins
		r.targets, err = Resolve(c.Workflow, c.Settings, c.Dir, c.Environ)
	}
	if err != nil {
		r.config.Told = func(string) {}
		r.Close(context.Background())
		return nil, err
	}
	return r, nil
}

// serve serves metrics, and keeps them in a file.
func (r *Run) serve() error {
	if r.config.Listen != "" {
		at, end, err := r.Metrics.serve(r.config.Listen)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		r.ends = append(r.ends, end)
		r.Notes = append(r.Notes, "metrics at http://"+at+"/metrics")
	}
	if r.config.MetricsFile != "" {
		end, err := r.Metrics.keep(r.config.MetricsFile)
		if err != nil {
			return fmt.Errorf("--metrics-file: %w", err)
		}
		r.ends = append(r.ends, end)
	}
	return nil
}

// prepareExport finds out whether the run is exported to OpenTelemetry. With --otel it is an error if it cannot
// be; otherwise it is a note.
func (r *Run) prepareExport() error {
	env := EnvironOf(r.config.Environ)
	if env.Disabled() || !r.config.OTel && !env.named() {
		return nil
	}
	err := env.Check()
	switch {
	case err != nil && r.config.OTel:
		return fmt.Errorf("--otel: %w", err)
	case err != nil: // the variables may be meant for other programs
		r.Notes = append(r.Notes, "warning: not exporting to OpenTelemetry: "+err.Error())
		return nil
	}
	r.Exports = true
	r.Metrics.exports(func() Report { return Report{} })
	return nil
}

// Observe takes the next records of the job, in the order of the log. It does not wait for anything.
func (r *Run) Observe(records []events.Record) {
	if len(records) == 0 {
		return
	}
	r.begun.Do(func() { r.begin(records[0]) })
	if r.Metrics != nil {
		r.Metrics.observe(records)
	}
	if r.notifier != nil {
		r.notifier.observe(records)
	}
}

// begin begins to tell of a run that begins with a record.
func (r *Run) begin(first events.Record) {
	if len(r.targets) == 0 && !r.Exports {
		return
	}
	var err error
	if r.job, err = r.config.Home.Find(first.JobID); err != nil {
		r.config.Told("no telemetry and no notifications: " + err.Error())
		return
	}
	if len(r.targets) > 0 {
		r.notifier = newNotifier(r.job, r.config.Workflow.Name, first.Seq, r.targets, r.config.Told)
	}
	if !r.Exports {
		return
	}
	r.exported = make(chan struct{})
	go func() { // Close waits for it, but not for ever
		defer close(r.exported)
		r.report, r.failed = Export(context.Background(), Options{
			Job: r.job, Version: r.config.Version, Environ: r.config.Environ,
			From: first.Seq, Over: r.over, Patience: flushPatience, Metrics: r.Metrics,
		})
	}()
}

// Close tells what is left, and says what was not told. It gives up when ctx ends.
func (r *Run) Close(ctx context.Context) {
	if r.notifier != nil {
		r.notifier.close(ctx, notifyPatience)
	}
	close(r.over)
	if r.exported != nil {
		r.endExport()
	}
	for _, end := range r.ends {
		if err := end(); err != nil {
			r.config.Told(err.Error())
		}
	}
}

// endExport waits for the export to end, and says what did not reach the collector.
func (r *Run) endExport() {
	const unexported = "the export to OpenTelemetry is incomplete: "
	err := errors.New("it took too long")
	select {
	case <-r.exported:
		err = r.failed
	case <-time.After(exportPatience):
		r.report = Report{}
	}
	switch {
	case err != nil:
		r.config.Told(unexported + err.Error())
	case r.report.Unsent() != "":
		r.config.Told(r.report.Unsent() + "; prodigy otel " + r.job.ID + " exports the job again")
	}
}

// Patience at the end of a run.
const (
	notifyPatience = 15 * time.Second // with receivers of notifications
	flushPatience  = 5 * time.Second  // of the exporter with what is left
	exportPatience = 7 * time.Second  // with the exporter
)
