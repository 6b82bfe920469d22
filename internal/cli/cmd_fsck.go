package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// newFsckCommand returns the command that reads all files of a job and checks their checksums. It exits with 1 if one
// is damaged.
func newFsckCommand(con *console) *cobra.Command {
	cmd := onJob(con, &cobra.Command{
		Use:   "fsck [job]",
		Short: "Check a job's files for corruption",
		Long: `Check a job's files for corruption: event log, items, results, dead letters, workflow and stored
outputs. The job defaults to the latest. Nothing is changed.

The exit code is 0 if all files are intact, and 1 otherwise.`,
		Example: "  prodigy fsck",
	}, func(_ context.Context, con *console, place jobs.Job) error {
		report := job.Examine(place)
		err := con.print(report, func(l term.Lines) { printFsck(l, report) })
		if err == nil && !report.Sound {
			err = status(exitFailed)
		}
		return err
	})
	addFormat(con, cmd, term.JSON)
	return cmd
}

// printFsck prints each file with its problems, and what the intact records say of the items.
func printFsck(l term.Lines, r job.Examination) {
	word := "intact"
	if !r.Sound {
		word = "damaged"
	}
	l.Printf("job %s is %s", r.JobID, word)
	for _, f := range r.Files {
		var words []string
		if len(f.Problems) > 0 {
			words = append(words, "damaged")
		}
		if f.Good > 0 {
			words = append(words, check.Counted(f.Good, "line")+" good")
		}
		l.Printf("%s: %s", term.Visible(f.Path), cmp.Or(strings.Join(words, ", "), "good"))
		for _, p := range f.Problems {
			l.Printf("  %s%s", check.Some("line %d: ", p.Line), term.Visible(p.What))
		}
	}
	for _, note := range r.Notes {
		l.Printf("note: %s", term.Visible(note))
	}
	if i := r.Items; i.Recorded+i.Selected > 0 {
		l.Printf("items by the intact records: %d recorded, %d succeeded, %s, %d skipped, %d "+
			"started but unfinished, %d never run",
			i.Recorded, i.Succeeded, check.Counted(i.DeadLetters, "dead letter"), i.Skipped, i.Unsettled, i.NeverRun)
	}
}
