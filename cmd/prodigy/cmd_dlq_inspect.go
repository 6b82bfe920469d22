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
)

type dlqInspectOptions struct {
	jobID  string
	itemID string
	format format
}

func newDLQInspectCommand(con *console) *cobra.Command {
	var o dlqInspectOptions
	cmd := &cobra.Command{
		Use:               "inspect <item>",
		Short:             "Show a dead letter with its data, failures and output",
		Args:              exactly("item"),
		ValidArgsFunction: completeLetter(&o.jobID),
		RunE: func(_ *cobra.Command, args []string) error {
			o.itemID = args[0]
			return runDLQInspect(con, o)
		},
	}
	addJobID(cmd, &o.jobID)
	addFormat(cmd, &o.format, asJSON)
	return cmd
}

func runDLQInspect(con *console, o dlqInspectOptions) error {
	job, err := findLetters(con, o.jobID)
	if err != nil {
		return err
	}
	e, found, err := dlq.Find(job.DLQFile(), o.itemID)
	e.Item = con.secrets.item(e.Item)
	switch {
	case err != nil:
		return err
	case !found:
		return refusef("no dead letter %q in job %s (prodigy dlq list --job-id %s lists them, prodigy why %s %s explains the item)", o.itemID, job.ID, job.ID, job.ID, quoted(o.itemID))
	case o.format == asJSON:
		return printJSON(con.out, e)
	}
	if err := printLetter(con.text(), e); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(con.err, "next: %s\n", sendAgain(e))
	return nil
}

// sendAgain returns the command that retries a dead letter.
func sendAgain(e dlq.Entry) string {
	command := fmt.Sprintf("prodigy dlq retry %s --item %s", e.JobID, quoted(e.ItemID))
	if !e.ReprocessEligible {
		command += " --force"
	}
	return command
}

// dataShown is how many characters of the data of an item are printed.
const dataShown = 2000

func printLetter(w io.Writer, e dlq.Entry) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"item", cell(e.ItemID, dataShown)},
		{"data", cell(string(e.Item), dataShown)},
		{"job", fmt.Sprintf("%s (%s)", e.JobID, cell(cmp.Or(e.Workflow, "-"), dataShown))},
		{"correlation id", cell(e.CorrelationID, dataShown)},
		{"first attempt", e.FirstAttempt.Local().Format(time.DateTime)},
		{"last attempt", e.LastAttempt.Local().Format(time.DateTime)},
		{"failures", fmt.Sprintf("%d, retried %s", e.FailureCount, counted(e.RetryCount, "time"))},
		{"signature", cell(e.ErrorSignature, dataShown)},
		{"eligible for retry", yesNo(e.ReprocessEligible)},
		{"needs manual review", yesNo(e.ManualReviewRequired)},
	} {
		_, _ = fmt.Fprintf(t, "%s:\t%s\n", row[0], row[1])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range e.FailureHistory {
		printFailure(w, f)
	}
	return nil
}

func printFailure(w io.Writer, f dlq.Failure) {
	_, _ = fmt.Fprintf(w, "\nattempt %d at %s, %s: %s\n", f.Attempt, f.Time.Local().Format(time.DateTime), ran(f), f.ErrorType)
	for i, r := range f.Retries {
		_, _ = fmt.Fprintf(w, "  try %d: %s; again after %s\n", i+1, visible(r.Error), duration.Format(time.Duration(r.DelayMS)))
	}
	_, _ = fmt.Fprintf(w, "  %s\n", visible(f.Message))
	printTail(w, "stdout", f.StdoutTail)
	printTail(w, "stderr", f.StderrTail)
}

// ran describes how long and in which step an attempt ran. An attempt without an agent was not run.
func ran(f dlq.Failure) string {
	if f.AgentID == "" {
		return "not run"
	}
	return fmt.Sprintf("%s, step %s", duration.Format(time.Duration(f.DurationMS)), cmp.Or(visible(f.Step), "-"))
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
