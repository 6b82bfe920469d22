package cli

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/oneline"
	"prodigy/internal/telemetry"
	"prodigy/internal/term"
)

// Patience at the end of a run.
const (
	flushPatience  = 5 * time.Second // of the exporter with what is left
	exportPatience = 7 * time.Second // with the exporter
)

// exporting is the export of a job while it runs. It reads the log, so that nothing of the run waits for it.
type exporting struct {
	export  telemetry.Export
	options telemetry.Options
	told    func(text string)

	once  sync.Once
	over  chan struct{} // is closed when the run is over
	ended chan struct{} // nil: it has not begun; is closed after the rest is set

	report telemetry.Report
	failed error
}

// exportTelemetry has the job that c configures exported to OpenTelemetry, if --otel or the environment asks for that.
// The function that it returns must be called when the job has ended.
func (p *printer) exportTelemetry(c *mapreduce.Config) (end func(), err error) {
	env := telemetry.EnvironOf(c.Environ)
	if env.Disabled() || !p.otel && !env.Named() {
		return func() {}, nil
	}
	switch err := env.Check(); {
	case err != nil && p.otel:
		return nil, refusef("--otel: %w", err)
	case err != nil: // the variables may be meant for other programs
		if !p.quiet {
			p.printf("note: the job is not exported to OpenTelemetry: %s\n", term.Visible(err.Error()))
		}
		return func() {}, nil
	}
	x := &exporting{
		export: p.con.export, told: func(text string) { p.notices <- notice{text: "note: " + term.Visible(text)} }, over: make(chan struct{}),
		options: telemetry.Options{Version: versionText(), Environ: c.Environ, Patience: flushPatience},
	}
	x.options.Over = x.over
	if p.counts != nil {
		lost := func(r telemetry.Report) {
			p.counts.Dropped(map[string]int{"logs": r.Logs.Lost, "traces": r.Spans.Lost})
		}
		lost(telemetry.Report{})
		x.options.Progress = lost
	}
	c.Trace, c.LogSteps = true, true
	observe := c.Observe
	c.Observe = func(records []events.Record) {
		if len(records) > 0 {
			x.once.Do(func() { x.start(records[0]) })
		}
		observe(records)
	}
	return x.end, nil
}

// start begins the export of a run that begins with a record.
func (x *exporting) start(first events.Record) {
	x.ended = make(chan struct{})
	x.options.From = first.Seq
	go func() { // end waits for it, but not for ever
		defer close(x.ended)
		if x.options.Job, x.failed = findJob(jobName{id: first.JobID, all: true}); x.failed == nil {
			x.report, x.failed = x.export(context.Background(), x.options)
			if x.options.Progress != nil {
				x.options.Progress(x.report)
			}
		}
	}()
}

// end lets what is left be sent, and says what was not exported.
func (x *exporting) end() {
	if x.ended == nil {
		return
	}
	close(x.over)
	select {
	case <-x.ended:
	case <-time.After(exportPatience):
		x.told("the job was not exported to OpenTelemetry, or not all of it: that took too long")
		return
	}
	switch r := x.report; {
	case x.failed != nil:
		x.told("the job was not exported to OpenTelemetry, or not all of it: " + x.failed.Error())
	case r.Spans.Sent < r.Spans.Made || r.Logs.Sent < r.Logs.Made:
		x.told(unsent(r) + "; prodigy otel " + x.options.Job.ID + " exports the job again")
	}
}

// unsent says what of a job was not exported.
func unsent(r telemetry.Report) string {
	text := fmt.Sprintf("not exported to OpenTelemetry: %d of %s, %d of %s", r.Spans.Made-r.Spans.Sent,
		term.Counted(r.Spans.Made, "span"), r.Logs.Made-r.Logs.Sent, term.Counted(r.Logs.Made, "log record"))
	return text + term.Prefixed(": ", oneline.Cut(r.Error, 300))
}

func newOTelCommand(con *console) *cobra.Command {
	cmd := onJob(&cobra.Command{
		Use:   "otel [job]",
		Short: "Export a job to OpenTelemetry afterwards",
		Long: `Export a job that has ended to OpenTelemetry: its trace, log records and metrics, over OTLP. The job is named by its id, the beginning of it, or
latest, which is the default. What is exported twice has the same names of spans both times.

The variables of OpenTelemetry say where to: OTEL_EXPORTER_OTLP_ENDPOINT (by default http://localhost:4318), OTEL_EXPORTER_OTLP_HEADERS,
OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf or http/json), OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and others. run, resume, dlq retry and map export a job while
it runs, with --otel or when OTEL_EXPORTER_OTLP_ENDPOINT is set.

The exit code is 0 when the collector has taken everything and 1 when it has not.`,
		Example: "  prodigy otel latest\n  prodigy otel mapreduce-20261120-1615",
	}, func(ctx context.Context, job jobs.Job) error { return runOTel(ctx, con, job) })
	return cmd
}

func runOTel(ctx context.Context, con *console, job jobs.Job) error {
	env := telemetry.EnvironOf(os.Environ())
	if err := env.Check(); err != nil {
		return refusef("%w", err)
	}
	if env.Disabled() {
		return refusef("the environment turns OpenTelemetry off (OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER and its like)")
	}
	report, err := con.export(ctx, telemetry.Options{Job: job, Version: versionText(), Environ: os.Environ()})
	if err != nil {
		return err
	}
	if report.Spans.Sent < report.Spans.Made || report.Logs.Sent < report.Logs.Made {
		return fmt.Errorf("job %s: %s", job.ID, unsent(report))
	}
	_, _ = fmt.Fprintf(con.out, "job %s: exported %s and %s to %s\n", job.ID, term.Counted(report.Spans.Sent, "span"),
		term.Counted(report.Logs.Sent, "log record"), env.Where())
	return nil
}
