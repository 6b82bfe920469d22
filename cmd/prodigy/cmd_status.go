package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/duration"
	"prodigy/internal/mapreduce"
)

type statusOptions struct {
	id     string
	format format
}

func newStatusCommand(con *console) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:               "status [job]",
		Short:             "Show how a job stands",
		Long:              "Show how a job stands. The job is named by its id, the beginning of it, or latest, which is the default.",
		Example:           "  prodigy status --json",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(_ *cobra.Command, args []string) error {
			o.id = jobArgument(args)
			return runStatus(con, o)
		},
	}
	addFormat(cmd, &o.format, asJSON)
	return cmd
}

func runStatus(con *console, o statusOptions) error {
	job, err := findJob(o.id)
	if err != nil {
		return err
	}
	summary, err := mapreduce.Summarize(job)
	if err != nil {
		return err
	}
	s := statusOf(summary)
	if o.format == asJSON {
		return printJSON(con.out, s)
	}
	s.print(con.out)
	_, _ = fmt.Fprintf(con.out, "log: %s\n", job.EventsDir())
	return nil
}

func (s jobStatus) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "job: %s\nworkflow: %s (mode %s)\nstate: %s\nstarted: %s\nduration: %s\n", s.JobID, cmp.Or(s.Workflow, "-"), s.Mode,
		s.State, s.Started.Local().Format(time.DateTime), duration.Format(time.Duration(s.DurationMS)))
	m := s.Metrics
	_, _ = fmt.Fprintf(w, "items: %d, successful %d, failed %d, skipped %d, rejected %d\nfailure rate: %.1f %%\n",
		m.TotalItems, m.Successful, m.Failed, m.Skipped, m.Rejected, 100*m.FailureRate)
	for _, t := range slices.Sorted(maps.Keys(m.ErrorTypes)) {
		_, _ = fmt.Fprintf(w, "errors of type %s: %d\n", t, m.ErrorTypes[t])
	}
	printSuggestions(w, m.FailurePatterns)
}
