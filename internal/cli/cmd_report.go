package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/web"
)

// newReportCommand returns the command that writes the report of a job.
func newReportCommand(con *console) *cobra.Command {
	var file string
	cmd := onJob(con, &cobra.Command{
		Use:   "report [job]",
		Short: "Write a self-contained HTML report of a job",
		Long: `Write a self-contained HTML report of a job: how it ended, slots over time, throughput, failures,
the slowest items, dead letters and the workflow. The report is a single file, and the page loads
nothing else.`,
		Example: "  prodigy report\n  prodigy report latest -o report.html",
	}, func(_ context.Context, con *console, job jobs.Job) error {
		if file == "" && con.safe { // nobody reads HTML on a terminal
			file = job.ID + ".html"
		}
		page, err := makeReport(job)
		if err != nil {
			return err
		}
		to := cmp.Or(file, "-")
		err = writeOut(con, to, func(w io.Writer) error {
			_, err := w.Write(page)
			return err
		})
		if err == nil && to != "-" {
			con.sayf("report of %s: %s", job.ID, to)
		}
		return unlessClosed(err)
	})
	addFlag(cmd, &file, "out,o", "output file, or - for stdout (default: a file named after the job, "+
		"or stdout if that is not a terminal)")
	_ = cmd.MarkFlagFilename("out", "html")
	return cmd
}

// linesInReport is how many lines of the output of a failure a report has.
const linesInReport = 20

// makeReport makes the report of a job.
func makeReport(place jobs.Job) ([]byte, error) {
	summary, err := job.Summarize(place)
	if err != nil {
		return nil, err
	}
	names := labelsInStore(place)
	defer check.Quietly(names.Close)
	text, _ := os.ReadFile(place.WorkflowFile()) // a page without it is better than none
	if meta, err := place.ReadMeta(); err == nil && meta.Shown != "" {
		text = []byte(meta.Shown)
	}
	secrets := secretsOf(place)
	if secrets.unknown != nil {
		text = fmt.Appendf(nil, "# not shown: the secrets of the job are unknown: %v\n", secrets.unknown)
	}
	render := conversations(place)
	return web.Report(web.Source{
		Summary: summary, Version: versionText(), Text: secrets.Mask.Text(string(text)), Made: time.Now(),
		Records: events.Read(place.EventsDir()),
		Letters: secrets.letters(place), Label: labelsOf(place).label,
		Printed: func(q outputs.Query) outputs.Tail {
			q.Render = render
			return outputs.LastLines(place.OutputsDir(), q, linesInReport)
		},
		Named: names.Label, Advice: adviceOf(summary),
	})
}
