package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
	"prodigy/internal/telemetry"
)

// newOTelCommand returns the command that exports a job that has ended.
func newOTelCommand(con *console) *cobra.Command {
	return onJob(con, &cobra.Command{
		Use:   "otel [job]",
		Short: "Export a finished job to OpenTelemetry",
		Long: `Export a finished job to OpenTelemetry over OTLP: traces, log records and metrics. The job defaults
to the latest. Exporting a job twice produces the same span ids.

Uses the standard variables OTEL_EXPORTER_OTLP_ENDPOINT (default http://localhost:4318),
OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf only),
OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and others. To export a job while it runs, pass --otel
to run, resume, dlq retry or map, or set OTEL_EXPORTER_OTLP_ENDPOINT.

The exit code is 0 if the collector accepted everything, and 1 otherwise.`,
		Example: "  prodigy otel latest\n  prodigy otel mapreduce-20261120-1615",
	}, runOTel)
}

// runOTel exports a job, and fails if the collector refused any part of it.
func runOTel(ctx context.Context, con *console, job jobs.Job) error {
	env := telemetry.EnvironOf(os.Environ())
	if err := env.Check(); err != nil {
		return refusef("%w", err)
	}
	if env.Disabled() {
		return refusef("OpenTelemetry is disabled by the environment (OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER)")
	}
	report, err := telemetry.Export(ctx, telemetry.Options{Job: job, Version: versionText(), Environ: os.Environ()})
	if err != nil {
		return err
	}
	if unsent := report.Unsent(); unsent != "" {
		return fmt.Errorf("job %s: %s", job.ID, unsent)
	}
	_, _ = fmt.Fprintf(con.out, "job %s: exported %s and %s to %s\n", job.ID, check.Counted(report.Spans.Sent, "span"),
		check.Counted(report.Logs.Sent, "log record"), env.Where())
	return nil
}
