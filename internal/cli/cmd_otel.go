package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"prodigy/internal/jobs"
	"prodigy/internal/telemetry"
	"prodigy/internal/term"
)

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
	report, err := telemetry.Export(ctx, telemetry.Options{Job: job, Version: versionText(), Environ: os.Environ()})
	if err != nil {
		return err
	}
	if unsent := report.Unsent(); unsent != "" {
		return fmt.Errorf("job %s: %s", job.ID, unsent)
	}
	_, _ = fmt.Fprintf(con.out, "job %s: exported %s and %s to %s\n", job.ID, term.Counted(report.Spans.Sent, "span"),
		term.Counted(report.Logs.Sent, "log record"), env.Where())
	return nil
}
