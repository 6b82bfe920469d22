package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// fsckOptions are the flags of fsck.
type fsckOptions struct {
	format term.Format
}

// newFsckCommand returns the command that reads all files of a job and checks their checksums. It exits with 1 if one
// is damaged.
func newFsckCommand(con *console) *cobra.Command {
	var o fsckOptions
	cmd := onJob(con, &cobra.Command{
		Use:   "fsck [job]",
		Short: "Check a job's files for corruption",
		Long: `Check a job's files for corruption: event log, items, results, dead letters, workflow and stored
outputs. The job defaults to the latest. Nothing is changed.

The exit code is 0 if all files are intact, and 1 otherwise.`,
		Example: "  prodigy fsck",
	}, o.run)
	addFormat(cmd, &o.format, term.JSON)
	return cmd
}

// run examines a job.
func (o *fsckOptions) run(_ context.Context, con *console, place jobs.Job) (err error) {
	report := job.Examine(place)
	if o.format == term.JSON {
		err = term.PrintJSON(con.out, report)
	} else {
		printFsck(con.lines(), report)
	}
	if err == nil && !report.Sound {
		err = status(exitFailed)
	}
	return err
}

// printFsck prints each file with its problems, and what the intact records say of the items.
func printFsck(l term.Lines, r job.Examination) {
	word := "sound"
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
			line := ""
			if p.Line > 0 {
				line = fmt.Sprintf("line %d: ", p.Line)
			}
			l.Printf("  %s%s", line, term.Visible(p.What))
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
