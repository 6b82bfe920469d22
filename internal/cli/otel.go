package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/mapreduce"
	"prodigy/internal/oneline"
	"prodigy/internal/telemetry"
)

const exportName = "export-telemetry"

// Patience at the end of a run.
const (
	flushPatience  = 5 * time.Second // of the exporter with what is left
	exportPatience = 7 * time.Second // with the exporter
)

// exporting is the process that exports a job while it runs. It reads the log, so that nothing of the run waits for it.
type exporting struct {
	path string // of prodigy-otel
	told func(text string)
	lost func(map[string]int)

	once    sync.Once
	cmd     *exec.Cmd
	over    io.Closer // its standard input: it is closed when the run is over
	errors  bytes.Buffer
	running sync.WaitGroup

	mu     sync.Mutex
	report telemetry.Report
	failed error // it could not be started, or did not do what it should
}

// exportTelemetry has the job that c configures exported to OpenTelemetry, if --otel or the environment asks for that. The function that it returns must
// be called when the job has ended.
func (p *printer) exportTelemetry(c *mapreduce.Config) (end func(), err error) {
	env := telemetry.EnvironOf(c.Environ)
	if env.Disabled() || !p.otel && !env.Named() {
		return func() {}, nil
	}
	tell := func(text string) { p.notices <- notice{text: "note: " + visible(text)} }
	err = env.Check()
	var path string
	if err == nil {
		path, err = otelCompanion.find()
	}
	switch {
	case err != nil && p.otel:
		return nil, refusef("--otel: %w", err)
	case err != nil: // the variables may be meant for other programs
		if !p.quiet {
			p.printf("note: the job is not exported to OpenTelemetry: %s\n", visible(err.Error()))
		}
		return func() {}, nil
	}
	x := &exporting{path: path, told: tell}
	if p.counts != nil {
		x.lost = p.counts.Dropped
		x.lost(map[string]int{"logs": 0, "traces": 0})
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

// start starts the process for a run that begins with a record.
func (x *exporting) start(first events.Record) {
	cmd := exec.Command(x.path, exportName, first.JobID, strconv.FormatInt(first.Seq, 10))
	cmd.Env = otelCompanion.environ()
	cmd.Stderr = &x.errors
	in, err := cmd.StdinPipe()
	var out io.Reader
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		x.failed = err
		return
	}
	x.cmd, x.over = cmd, in
	x.running.Go(func() {
		x.read(out)
		if err := cmd.Wait(); err != nil {
			x.failed = err
			if text := oneline.Of(x.errors.String()); text != "" {
				x.failed = fmt.Errorf("%s", text)
			}
		}
	})
}

// read takes the reports of the process.
func (x *exporting) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r telemetry.Report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		x.mu.Lock()
		x.report = r
		x.mu.Unlock()
		if x.lost != nil {
			x.lost(map[string]int{"logs": r.Logs.Lost, "traces": r.Spans.Lost})
		}
	}
}

// end lets the process send what is left, and says what was not exported.
func (x *exporting) end() {
	if x.cmd == nil {
		if x.failed != nil {
			x.told("the job was not exported to OpenTelemetry: " + x.failed.Error())
		}
		return
	}
	_ = x.over.Close()
	timer := time.AfterFunc(exportPatience, func() { _ = x.cmd.Process.Kill() })
	x.running.Wait()
	timer.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.report
	switch {
	case x.failed != nil:
		x.told("the job was not exported to OpenTelemetry, or not all of it: " + x.failed.Error())
	case r.Spans.Sent < r.Spans.Made || r.Logs.Sent < r.Logs.Made:
		x.told(unsent(r) + "; prodigy otel " + x.cmd.Args[2] + " exports the job again")
	}
}

// unsent says what of a job was not exported.
func unsent(r telemetry.Report) string {
	text := fmt.Sprintf("not exported to OpenTelemetry: %d of %s, %d of %s", r.Spans.Made-r.Spans.Sent, counted(r.Spans.Made, "span"), r.Logs.Made-r.Logs.Sent, counted(r.Logs.Made, "log record"))
	return text + prefixed(": ", oneline.Cut(r.Error, 300))
}

// newExportCommand returns the hidden command that each run with telemetry starts beside itself.
func newExportCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use:    exportName + " <job> <record>",
		Short:  "Export a job to OpenTelemetry while it runs",
		Args:   exactly("job", "record"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if con.export == nil {
				return otelCompanion.become()
			}
			from, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usagef("record: %w", err)
			}
			job, err := findJob(jobName{id: args[0], all: true})
			if err != nil {
				return err
			}
			// It ends when the run does, not sooner.
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
			over := make(chan struct{})
			go func() { // it ends with the process
				_, _ = io.Copy(io.Discard, os.Stdin)
				close(over)
			}()
			lines := json.NewEncoder(con.out)
			report, err := con.export(cmd.Context(), telemetry.Options{
				Job: job, Version: versionText(), Environ: os.Environ(), From: from, Over: over, Patience: flushPatience,
				Progress: func(r telemetry.Report) { _ = lines.Encode(r) },
			})
			if err != nil {
				return err
			}
			return lines.Encode(report)
		},
	}
}

func newOTelCommand(con *console) *cobra.Command {
	var id jobName
	cmd := &cobra.Command{
		Use:   "otel [job]",
		Short: "Export a job to OpenTelemetry afterwards",
		Long: `Export a job that has ended to OpenTelemetry: its trace, log records and metrics, over OTLP. The job is named by its id, the beginning of it, or
latest, which is the default. What is exported twice has the same names of spans both times.

The variables of OpenTelemetry say where to: OTEL_EXPORTER_OTLP_ENDPOINT (by default http://localhost:4318), OTEL_EXPORTER_OTLP_HEADERS,
OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf or http/json), OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and others. run, resume, dlq retry and map export a job while
it runs, with --otel or when OTEL_EXPORTER_OTLP_ENDPOINT is set.

The exit code is 0 when the collector has taken everything and 1 when it has not.`,
		Example:           "  prodigy otel latest\n  prodigy otel mapreduce-20261120-1615",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nameJob(cmd, &id, args); err != nil {
				return err
			}
			if con.export == nil {
				return otelCompanion.become()
			}
			return runOTel(cmd.Context(), con, id)
		},
	}
	addJobID(cmd, &id)
	return cmd
}

func runOTel(ctx context.Context, con *console, id jobName) error {
	job, err := findJob(id)
	if err != nil {
		return err
	}
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
	_, _ = fmt.Fprintf(con.out, "job %s: exported %s and %s to %s\n", job.ID, counted(report.Spans.Sent, "span"), counted(report.Logs.Sent, "log record"), env.Where())
	return nil
}
