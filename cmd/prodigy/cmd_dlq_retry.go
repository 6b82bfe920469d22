package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"prodigy/internal/dlq"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
)

type dlqRetryOptions struct {
	jobOptions
	jobID  string
	filter string
	items  []string
	force  bool
	dryRun bool
	reduce bool
}

func newDLQRetryCommand(con *console) *cobra.Command {
	var o dlqRetryOptions
	cmd := &cobra.Command{
		Use:               "retry [job]",
		Short:             "Run dead letters again; those that succeed leave the queue",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.jobID = args[0]
			}
			return runDLQRetry(cmd.Context(), con, o)
		},
	}
	addJobID(cmd, &o.jobID)
	o.add(cmd)
	f := cmd.Flags()
	f.Var(positive{&o.maxParallel}, "parallel", "how many agents run at once")
	f.StringVar(&o.filter, "filter", "", "only items for which this expression holds")
	f.StringArrayVar(&o.items, "item", nil, "only this item (may be given more than once)")
	f.Var(positive{&o.maxRetries}, "max-retries", "how often a dead letter may be sent again")
	f.BoolVar(&o.force, "force", false, "also those that are not eligible")
	f.BoolVar(&o.dryRun, "dry-run", false, "say which would be run, and run nothing")
	f.BoolVar(&o.reduce, "reduce", false, "afterwards run the reduce phase over all results")
	return cmd
}

func runDLQRetry(ctx context.Context, con *console, o dlqRetryOptions) error {
	job, entries, err := deadLetters(o.jobID)
	if err != nil {
		return err
	}
	named, err := o.named(job, entries)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(named), func(e dlq.Entry) bool { return !o.force && !o.eligible(e) })
	if o.dryRun {
		return o.announce(con, named, chosen)
	}
	if kept := len(named) - len(chosen); kept > 0 && !o.quiet {
		_, _ = fmt.Fprintf(con.err, "warning: %s not eligible, kept as before (--force sends them too)\n", counted(kept, "dead letter"))
	}
	if len(chosen) == 0 && !o.reduce {
		return o.nothing(con, job, len(named))
	}
	asked := itemIDs(named)
	conclude := func(con *console, e ended) error { return o.concludeRetry(con, e, asked) }
	return o.again(ctx, con, job, conclude, func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
		return mapreduce.RetryDead(ctx, c, job, itemIDs(chosen), o.reduce)
	})
}

// named returns the entries that --item and --filter name.
func (o dlqRetryOptions) named(job jobs.Job, entries []dlq.Entry) ([]dlq.Entry, error) {
	for _, id := range o.items {
		if !slices.ContainsFunc(entries, func(e dlq.Entry) bool { return e.ItemID == id }) {
			return nil, refusef("no dead letter %q in job %s", id, job.ID)
		}
	}
	var filter *items.Filter
	if o.filter != "" {
		f, err := items.ParseFilter(o.filter)
		if err != nil {
			return nil, refusef("--filter: %w", err)
		}
		filter = f
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e dlq.Entry) bool {
		return len(o.items) > 0 && !slices.Contains(o.items, e.ItemID) || filter != nil && !filter.Match(e.Item)
	}), nil
}

// eligible tells whether e is to be sent again. An entry that is not eligible only because it was sent again too often
// becomes so by a higher --max-retries.
func (o dlqRetryOptions) eligible(e dlq.Entry) bool {
	if e.RetryCount >= o.maxRetries {
		return false
	}
	switch lastType(e) {
	case retry.TypePermission, retry.TypeCommandNotFound, retry.TypeTemplate:
		return e.ReprocessEligible
	}
	return e.ReprocessEligible || e.RetryCount > 0
}

// announce says what would be run.
func (o dlqRetryOptions) announce(con *console, named, chosen []dlq.Entry) error {
	if o.format == asJSON {
		return printJSON(con.out, map[string]any{"would_run": itemIDs(chosen), "not_eligible": len(named) - len(chosen)})
	}
	for _, e := range chosen {
		_, _ = fmt.Fprintf(con.out, "would run %s: %s\n", e.ItemID, shorten(visible(lastFailure(e).Message), 120))
	}
	_, err := fmt.Fprintf(con.out, "%d would be run, %d are not eligible\n", len(chosen), len(named)-len(chosen))
	return err
}

// nothing says that there is nothing to run. Letters that are not eligible are still left.
func (o dlqRetryOptions) nothing(con *console, job jobs.Job, left int) error {
	code := exitOK
	if left > 0 && !o.partialOK {
		code = exitLeft
	}
	if o.format == asJSON {
		r := retried{outcome: outcome{JobID: job.ID, ExitCode: code, Events: job.EventsDir(), DLQ: job.DLQFile()}, Left: left}
		if err := printJSON(con.out, r); err != nil {
			return err
		}
	} else if !o.quiet {
		_, _ = fmt.Fprintln(con.err, "There are no dead letters to run.")
	}
	return status(code)
}

// retried is what dlq retry --json prints.
type retried struct {
	outcome
	Reprocessed int `json:"reprocessed"`
	Recovered   int `json:"recovered"`
	Left        int `json:"left"` // of those that were asked for
}

// concludeRetry says how a retry of the dead letters ended. Asked are the items that it was about.
func (o dlqRetryOptions) concludeRetry(con *console, e ended, asked []string) error {
	entries, err := dlq.Read(e.Job.DLQFile())
	if err != nil {
		return err
	}
	left := 0
	for _, entry := range entries {
		if slices.Contains(asked, entry.ItemID) {
			left++
		}
	}
	code := o.retryCode(e, left)
	if !o.quiet || code != exitOK {
		e.failures.print(con.err, nil, e.Job.ID)
		_, _ = fmt.Fprintf(con.err, "%s run again, %d succeeded, %d left\n", counted(e.Reprocessed, "dead letter"), e.Recovered, left)
		e.print(con.err)
	}
	if o.format == asJSON {
		r := retried{outcome: e.outcome(code), Reprocessed: e.Reprocessed, Recovered: e.Recovered, Left: left}
		if err := printJSON(con.out, r); err != nil {
			return err
		}
	}
	return status(code)
}

// retryCode returns the exit code: what became of the letters counts, not the items of the job that were skipped before.
func (o dlqRetryOptions) retryCode(e ended, left int) int {
	if e.State != mapreduce.Completed {
		return resultCode(e.Result, e.stop, o.partialOK)
	}
	if left > 0 && !o.partialOK {
		return exitLeft
	}
	return exitOK
}
