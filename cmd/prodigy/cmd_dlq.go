package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/jobs"
	"prodigy/internal/retry"
)

func newDLQCommand(con *console) *cobra.Command {
	group := newGroup("dlq", "Look at the items that failed for good, and send them again")
	group.AddCommand(newDLQListCommand(con), newDLQInspectCommand(con), newDLQRetryCommand(con))
	return group
}

type dlqListOptions struct {
	jobID    string
	format   format
	eligible bool
	typ      string
}

func newDLQListCommand(con *console) *cobra.Command {
	var o dlqListOptions
	cmd := &cobra.Command{
		Use:               "list [job]",
		Short:             "List the dead letters of a job",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.jobID = args[0]
			}
			return runDLQList(con, o)
		},
	}
	addJobID(cmd, &o.jobID)
	addFormat(cmd, &o.format, asJSON)
	cmd.Flags().BoolVar(&o.eligible, "eligible", false, "only those that a retry would send again")
	cmd.Flags().StringVar(&o.typ, "type", "", "only those that failed last with this type of error")
	return cmd
}

func runDLQList(con *console, o dlqListOptions) error {
	job, entries, err := deadLetters(o.jobID)
	if err != nil {
		return err
	}
	list := []dlq.Entry{}
	for _, e := range entries {
		if (!o.eligible || e.ReprocessEligible) && (o.typ == "" || string(lastType(e)) == o.typ) {
			list = append(list, e)
		}
	}
	if o.format == asJSON {
		return printJSON(con.out, list)
	}
	return printLetters(con, job, list)
}

// deadLetters returns the job that is called id, and its dead letters.
func deadLetters(id string) (jobs.Job, []dlq.Entry, error) {
	job, err := findJob(id)
	if err != nil {
		return jobs.Job{}, nil, err
	}
	entries, err := dlq.Read(job.DLQFile())
	return job, entries, err
}

func printLetters(con *console, job jobs.Job, list []dlq.Entry) error {
	if len(list) == 0 {
		_, _ = fmt.Fprintf(con.err, "There are no such dead letters in job %s.\n", job.ID)
		return nil
	}
	t := tabwriter.NewWriter(con.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "ITEM\tFAILURES\tTYPE\tSTEP\tELIGIBLE\tLAST ATTEMPT\tERROR")
	for _, e := range list {
		last := lastFailure(e)
		_, _ = fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", e.ItemID, e.FailureCount, last.ErrorType, cmp.Or(last.Step, "-"),
			yesNo(e.ReprocessEligible), e.LastAttempt.Local().Format(time.DateTime), shorten(visible(last.Message), 80))
	}
	return t.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// lastFailure returns the newest evidence of an entry.
func lastFailure(e dlq.Entry) dlq.Failure {
	if n := len(e.FailureHistory); n > 0 {
		return e.FailureHistory[n-1]
	}
	return dlq.Failure{}
}

func lastType(e dlq.Entry) retry.Type { return lastFailure(e).ErrorType }

type dlqInspectOptions struct {
	jobID  string
	itemID string
	format format
}

func newDLQInspectCommand(con *console) *cobra.Command {
	var o dlqInspectOptions
	cmd := &cobra.Command{
		Use:   "inspect <item>",
		Short: "Show a dead letter with all its evidence",
		Args:  exactly("item"),
		RunE: func(_ *cobra.Command, args []string) error {
			o.itemID = args[0]
			return runDLQInspect(con, o)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeLetters(o.jobID, args), cobra.ShellCompDirectiveNoFileComp
		},
	}
	addJobID(cmd, &o.jobID)
	addFormat(cmd, &o.format, asJSON)
	return cmd
}

// completeLetters returns the items of the dead letters of a job, when there is no argument yet.
func completeLetters(jobID string, args []string) []string {
	if len(args) > 0 {
		return nil
	}
	_, entries, err := deadLetters(jobID)
	if err != nil {
		return nil
	}
	return itemIDs(entries)
}

func itemIDs(entries []dlq.Entry) []string {
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.ItemID)
	}
	return ids
}

func runDLQInspect(con *console, o dlqInspectOptions) error {
	job, entries, err := deadLetters(o.jobID)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.ItemID != o.itemID {
			continue
		}
		if o.format == asJSON {
			return printJSON(con.out, e)
		}
		printLetter(con.out, e)
		return nil
	}
	return refusef("no dead letter %q in job %s (prodigy dlq list --job-id %s shows them)", o.itemID, job.ID, job.ID)
}

func printLetter(w io.Writer, e dlq.Entry) {
	_, _ = fmt.Fprintf(w, "item: %s\ndata: %s\njob: %s (%s)\ncorrelation id: %s\n", e.ItemID, e.Item, e.JobID, e.Workflow, e.CorrelationID)
	_, _ = fmt.Fprintf(w, "first attempt: %s\nlast attempt: %s\n", e.FirstAttempt.Local().Format(time.DateTime), e.LastAttempt.Local().Format(time.DateTime))
	_, _ = fmt.Fprintf(w, "signature: %s\n", visible(e.ErrorSignature))
	_, _ = fmt.Fprintf(w, "eligible for retry: %s\nto be looked at by a person: %s\n", yesNo(e.ReprocessEligible), yesNo(e.ManualReviewRequired))
	_, _ = fmt.Fprintf(w, "failures: %d, sent again %d times\n", e.FailureCount, e.RetryCount)
	for _, f := range e.FailureHistory {
		printFailure(w, f)
	}
}

func printFailure(w io.Writer, f dlq.Failure) {
	_, _ = fmt.Fprintf(w, "\nattempt %d, %s, after %s: step %s: %s\n  %s\n", f.Attempt, f.Time.Local().Format(time.DateTime),
		duration.Format(time.Duration(f.DurationMS)), cmp.Or(f.Step, "-"), f.ErrorType, visible(f.Message))
	for _, r := range f.Retries {
		_, _ = fmt.Fprintf(w, "  tried again after %s: %s\n", duration.Format(time.Duration(r.DelayMS)), visible(r.Error))
	}
	printTail(w, "stdout", f.StdoutTail)
	printTail(w, "stderr", f.StderrTail)
}

func printTail(w io.Writer, name, text string) {
	lines := lastLines(text, 1000)
	if len(lines) == 0 {
		return
	}
	_, _ = fmt.Fprintf(w, "  end of %s:\n", name)
	for _, line := range lines {
		_, _ = fmt.Fprintf(w, "    | %s\n", visible(line))
	}
}
