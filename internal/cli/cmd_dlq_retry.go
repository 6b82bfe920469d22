package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/filter"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

// dlqRetryOptions choose the dead letters to retry, and say how they run. All conditions that are given must hold.
type dlqRetryOptions struct {
	jobOptions
	// filter is a condition on the data of items, and where one on the dead letters themselves.
	filter, where string
	// cluster is the number of a group in dlq analyze, from 1 for the largest. Zero means that it was not given.
	cluster int
	typ     retry.Type
	items   []string
	// force retries dead letters that are not eligible as well.
	force bool
	// dryRun lists what would run.
	dryRun bool
	// reduce runs reduce again afterwards.
	reduce bool
}

// newDLQRetryCommand returns the command that runs dead letters again as part of their job.
func newDLQRetryCommand(con *console) *cobra.Command {
	var o dlqRetryOptions
	cmd := &cobra.Command{
		Use:   "retry [job] [item...]",
		Short: "Retry dead letters",
		Long: `Retry dead letters: all of them, or those selected by arguments and flags. Those that succeed are
removed from the queue.

The exit code reflects the selected dead letters: 0 if all succeeded; 3 if one is left because it
failed again or is not eligible, or if reduce is older than the results; 75 if it was drained. Other
dead letters do not count; the last line of the summary shows how many there are.`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeLetter,
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.fleet.find(cmd) },
	}
	onItems(con, cmd, func(ctx context.Context, con *console, job jobs.Job, items []string) error {
		o.items = append(o.items, items...)
		return runDLQRetry(ctx, con, job, o)
	})
	o.add(con, cmd)
	formerly(cmd, map[string]string{"parallel": "max-parallel"})
	const empty = "must not be empty; omit it to retry all dead letters" // as of a variable that is not set
	addFlag(cmd, filled(&o.filter, empty), "filter", "only items matching this expression")
	addFlag(cmd, filled(&o.where, empty), "where",
		"only dead letters matching this expression; fields: "+strings.Join(dlq.Names(), ", "))
	addFlag(cmd, &o.cluster, "cluster", "only dead letters of this group (its number in dlq analyze)")
	addFlag(cmd, value[limit.Rate]{&o.Rate, "rate", limit.ParseRate}, "rate",
		"maximum start rate of this retry, such as 5/s (default: as in the workflow)")
	addFlag(cmd, &o.Canary, "canary", "retry this many items first, and the rest only if they all succeed")
	addErrorType(cmd, &o.typ)
	addFlag(cmd, &o.items, "item", "only this item (repeatable)", completeLetter)
	addFlag(cmd, &o.MaxRetries, "max-retries", "maximum number of retries of a dead letter")
	addFlag(cmd, &o.force, "force", "also retry non-eligible dead letters")
	addFlag(cmd, &o.dryRun, "dry-run", "list what would be retried, without running it")
	addFlag(cmd, &o.replacement, "workflow",
		"use this workflow file from now on; finished steps must be unchanged")
	addFlag(cmd, &o.Set, "set", "override a parameter or variable for this retry, as NAME=VALUE (repeatable)")
	addFlag(cmd, &o.With, "with",
		"merge this commit as the result of --item instead of running it")
	addFlag(cmd, &o.reduce, "reduce", "then rerun reduce over all results")
	return cmd
}

// runDLQRetry retries dead letters, or lists those that it would retry. The choice is made under the lock of the job,
// from the queue as it is then.
func runDLQRetry(ctx context.Context, con *console, job jobs.Job, o dlqRetryOptions) (err error) {
	if o.items, err = labelsOf(job).idsOf(o.items); err != nil {
		return err
	}
	if o.With != "" {
		if len(o.items) != 1 {
			return usagef("--with requires exactly one --item")
		}
		o.force = true
	}
	choice, err := o.choice(job)
	if err != nil {
		return err
	}
	if o.dryRun {
		replacement, w, err := o.workflowOf(job)
		if err != nil {
			return err
		}
		if len(o.Set) > 0 {
			if _, err := resolveAgain(ctx, job, w, replacement, o.Set); err != nil {
				return err
			}
		}
		updateLetters(con, job)
		return o.announce(con, job, choice)
	}
	conclude := func(con *console, e finishedRun) error { return o.concludeRetry(con, job, e, choice) }
	return o.again(ctx, con, job, conclude,
		func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
			return mapreduce.RetryDead(ctx, c, job, func(q *dlq.Queue) ([]string, error) {
				if err := choice.Make(q.Each(), nil); err != nil {
					return nil, unlessMischosen(err)
				}
				if kept := len(choice.Named) - len(choice.Chosen); kept > 0 && !o.quiet {
					c.Notice(fmt.Sprintf("warning: %s not eligible, not retried: %s",
						check.Counted(kept, "dead letter"), choice.Kept))
				}
				return choice.Chosen, nil
			}, o.reduce)
		})
}

// choice returns what the flags and arguments select.
func (o dlqRetryOptions) choice(job jobs.Job) (c *dlq.Choice, err error) {
	c = &dlq.Choice{
		JobID: job.ID, Items: o.items, Type: o.typ, Cluster: o.cluster, MaxRetries: o.MaxRetries,
		Mended: o.replacement != "", Force: o.force,
	}
	if o.filter != "" {
		if c.Filter, err = filter.Parse(o.filter); err != nil {
			return nil, refusef("--filter: %w", err)
		}
	}
	if o.where != "" {
		if c.Where, err = dlq.ParseWhere(o.where); err != nil {
			return nil, refusef("--where: %w", err)
		}
	}
	return c, nil
}

// unlessMischosen turns an error about what was chosen into one of the caller.
func unlessMischosen(err error) error {
	if wrong, ok := errors.AsType[*dlq.ChoiceError](err); ok {
		return refusef("%w", wrong)
	}
	return err
}

// announce prints what would be run.
func (o dlqRetryOptions) announce(con *console, job jobs.Job, c *dlq.Choice) error {
	out := bufio.NewWriter(con.text())
	names := labelsOf(job)
	err := c.Make(dlq.Each(job.DLQFile()), func(e dlq.Entry) {
		if con.format != term.JSON {
			_, _ = fmt.Fprintf(out, "would retry %s%s: %s\n", e.ItemID,
				inBrackets(names.label(e.ItemID, con.secrets.item(e.Item))), term.Brief(e.Last().Message, 120))
		}
	})
	if err != nil {
		return unlessMischosen(err)
	}
	kept := len(c.Named) - len(c.Chosen)
	if con.format == term.JSON {
		return con.printJSON(map[string]any{
			"would_run": append([]string{}, c.Chosen...), "not_eligible": kept,
		})
	}
	if o.Canary > 0 && o.Canary < len(c.Chosen) {
		_, _ = fmt.Fprintf(out, "the first %d, and the rest only if they succeed\n", o.Canary)
	}
	why := ""
	if kept > 0 {
		why = fmt.Sprintf(": %s", c.Kept)
	}
	_, _ = fmt.Fprintf(out, "would retry %d, not eligible: %d%s\n", len(c.Chosen), kept, why)
	return out.Flush()
}

// retryOutcome is what dlq retry --json prints.
type retryOutcome struct {
	outcome
	Reprocessed int `json:"reprocessed"`
	Recovered   int `json:"recovered"`
	Left        int `json:"left"`   // of those that were asked for
	Others      int `json:"others"` // dead letters that were not asked for
}

// concludeRetry prints how a retry of dead letters ended and returns its exit code as an error. Without a state nothing
// was run.
func (o dlqRetryOptions) concludeRetry(con *console, job jobs.Job, e finishedRun, c *dlq.Choice) error {
	ran := e.State != ""
	left, others := len(c.Named), c.Total-len(c.Named)
	if ran {
		var err error
		if left, others, err = c.Left(job.DLQFile()); err != nil {
			return err
		}
	}
	e.Job = job
	code := o.retryCode(e, left)
	switch {
	case o.quiet && code == exitOK, !ran && (o.quiet || con.format == term.JSON):
	case ran:
		e.printFailures(con)
		rest := ""
		if others > 0 {
			rest = fmt.Sprintf("; %s not selected", check.Counted(others, "dead letter"))
		}
		con.sayf("retried %s, %d succeeded, %d left%s",
			check.Counted(e.Reprocessed, "dead letter"), e.Recovered, left, rest)
		e.print(con)
	default:
		nothingRetried(con, e, c)
	}
	return con.end(code, retryOutcome{
		outcome: e.outcome(code), Reprocessed: e.Reprocessed, Recovered: e.Recovered, Left: left, Others: others,
	})
}

// nothingRetried says why nothing was run.
func nothingRetried(con *console, e finishedRun, c *dlq.Choice) {
	switch {
	case len(c.Named) > 0:
		con.sayf("Nothing retried: %s.", c.Kept)
	case c.Total > 0:
		con.sayf("None of %s matches the selection.", check.Counted(c.Total, "dead letter"))
	default:
		con.sayf("No dead letters to retry.")
	}
	switch {
	case e.ReduceStale:
		con.say().Print(reduceStaleText)
	case e.ReduceHeld:
		con.say().Print(reduceHeldText)
	default:
		return
	}
	con.next(runReduce(e.Job))
}

// retryCode returns the exit code. It depends on the dead letters and on reduce only, not on items of the job that were
// skipped before or never ran.
func (o dlqRetryOptions) retryCode(e finishedRun, left int) int {
	done := e.State == "" || e.State == jobs.Completed || e.State == jobs.Stopped && e.stop == nil && !e.AsAsked
	switch {
	case !done:
		return resultCode(e.Result, e.stop, o.partialOK)
	case left > 0 && !o.partialOK, e.ReduceStale, e.ReduceHeld, e.State == jobs.Stopped && o.reduce:
		return exitLeft
	}
	return exitOK
}
