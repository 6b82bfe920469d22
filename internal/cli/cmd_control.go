package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// newPauseCommand makes the command that holds a running job where it is. Its process stays, and continue ends the
// pause.
var newPauseCommand = steers(job.Pause, cobra.Command{
	Use:   "pause [job]",
	Short: "Pause a running job",
	Long: `Pause a running job: no new items, steps or retries start; running steps finish. The process stays
alive until 'prodigy continue'. If it is stopped or killed in the meantime, use 'prodigy resume'.`,
	Example: "  prodigy pause\n  prodigy pause mapreduce-20261120-1615",
})

// newContinueCommand makes the command that ends a pause. It refuses a job that does not run: that is resumed.
var newContinueCommand = steers(job.Continue, cobra.Command{
	Use:   "continue [job]",
	Short: "Continue a paused job",
	Long: "Continue a job paused with 'prodigy pause'. To resume a stopped job, which has no process any " +
		"more, use 'prodigy resume'.",
	Example: "  prodigy continue",
})

// newDrainCommand makes the command that ends a run once its running items have finished. It waits for that, unless
// --no-wait is given.
var newDrainCommand = steers(job.Drain, cobra.Command{
	Use:   "drain [job]",
	Short: "Finish running items, then stop the job",
	Long: `Finish running items, however long they take, then stop the job. No new items start, and pending
retries are not awaited. The run exits with 75, and 'prodigy resume' resumes the job. 'prodigy stop'
is faster: it kills running items after the grace period.`,
	Example: "  prodigy drain\n  prodigy drain --no-wait",
})

// newStopCommand makes the command that stops a run as Ctrl-C in its terminal would.
var newStopCommand = steers(job.Stop, cobra.Command{
	Use:   "stop [job]",
	Short: "Stop a running job; it can be resumed",
	Long: `Stop a running job, as Ctrl-C in its terminal does: no new items start, and running items get the
grace period of the run to finish. Waits until the job has stopped; a second stop kills running
items. Resume it with 'prodigy resume'.`,
	Example: "  prodigy stop\n  prodigy stop mapreduce-20261120-1615",
})

// newCancelCommand makes the command that ends a job for good. Only resume --force takes it up again.
var newCancelCommand = steers(job.Cancel, cobra.Command{
	Use:   "cancel [job]",
	Short: "Cancel a running job",
	Long: `Cancel a running job: no new items start, and running items get the grace period of the run to
finish. The run exits with 1. A cancelled job can only be resumed with --force; to resume it later,
use 'prodigy stop' instead.`,
	Example: "  prodigy cancel mapreduce-20261120-1615",
})

// steers returns what makes a command that takes a job and asks it for something, and has these texts.
func steers(verb job.Verb, texts cobra.Command) func(*console) *cobra.Command {
	return func(con *console) *cobra.Command {
		cmd, noWait := texts, false
		endsRun := verb == job.Drain || verb == job.Cancel || verb == job.Stop
		if endsRun {
			addFlag(&cmd, &noWait, "no-wait", "return immediately instead of waiting for the run to end")
		}
		return onJob(con, &cmd, func(ctx context.Context, con *console, place jobs.Job) error {
			return steer(ctx, con, place, job.Request{Do: verb}, endsRun && !noWait)
		})
	}
}

// newScaleCommand returns the command that sets the slots of a running job, or changes them by a number with a sign.
func newScaleCommand(con *console) *cobra.Command {
	return onJobAnd(con, "slots", &cobra.Command{
		Use:   "scale [job] <slots>",
		Short: "Change the number of slots of a running job",
		Long: `Change the number of slots of a running job, to a number or by +N/-N. Running items are not
interrupted. The number survives a resume, unless --max-parallel is given.`,
		Example:           "  prodigy scale 16\n  prodigy scale mapreduce-20261120-1615 +4\n  prodigy scale -- -2",
		ValidArgsFunction: completeJob,
	}, func(ctx context.Context, con *console, place jobs.Job, slots string) error {
		r := job.Request{Do: job.Scale}
		n, err := strconv.Atoi(slots)
		switch {
		case err != nil:
			return usagef("invalid number of slots %q: use 16, +4, or -- -2", slots)
		case n == 0:
			return usagef("slots must be at least 1; to run nothing, use prodigy pause")
		case strings.HasPrefix(slots, "+") || n < 0:
			r.Change = n
		default:
			r.Slots = n
		}
		return steer(ctx, con, place, r, false)
	})
}

// newSkipCommand returns the command that skips items, of a running job at once and of a stopped one at its resume.
func newSkipCommand(con *console) *cobra.Command {
	return newSteerItemsCommand(con, job.Skip, &cobra.Command{
		Use:   "skip [job] <item>...",
		Short: "Skip items of a job",
		Long: `Skip items of a job. In a running job, waiting and running items are skipped immediately, and items
that have not started when their turn comes; a running attempt gets the grace period of the run. In
a stopped job, the items are skipped when it is resumed, including those that only wait to merge.

If items were skipped, the run exits with 3.`,
		Example: "  prodigy skip item_17\n  prodigy skip mapreduce-20261120-1615 item_17 item_18",
		Args:    cobra.ArbitraryArgs,
	})
}

// newRetryNowCommand returns the command that ends the delays of items and steps that wait for their next attempt.
func newRetryNowCommand(con *console) *cobra.Command {
	return newSteerItemsCommand(con, job.RetryNow, &cobra.Command{
		Use:   "retry-now [job] [item...]",
		Short: "Retry waiting items now",
		Long: "Retry waiting items and steps of a running job now: the named items, or all. Rate limits, open " +
			"circuit breakers and slots still apply.",
		Example: "  prodigy retry-now\n  prodigy retry-now mapreduce-20261120-1615 item_17",
		Args:    cobra.ArbitraryArgs,
	})
}

// newSteerItemsCommand completes a command that asks a job for something about items.
func newSteerItemsCommand(con *console, verb job.Verb, cmd *cobra.Command) *cobra.Command {
	cmd.ValidArgsFunction = completeWhy
	return onItems(con, cmd, func(ctx context.Context, con *console, place jobs.Job, named []string) error {
		switch {
		case verb != job.Skip || len(named) > 0:
		case cmd.Flags().NArg() == 0:
			return usagef("<item> is required")
		default:
			return usagef("<item> is required: %s is a job", cmd.Flags().Arg(0))
		}
		return steerItems(ctx, con, place, verb, named)
	})
}

// steerItems asks a job for something about items. Of a job that does not run it records which are to be skipped.
func steerItems(ctx context.Context, con *console, place jobs.Job, verb job.Verb, named []string) (err error) {
	stands := checkRunning(place, verb)
	last := lastOf(place).State
	if stands != nil && (verb != job.Skip || last == jobs.Completed || last == jobs.Cancelled) {
		return stands
	}
	r := job.Request{Do: verb}
	if r.Items, err = itemsNamed(place, named); err != nil {
		return err
	}
	if stands != nil {
		r.By = userName()
		c := idleConfig()
		con.hideSecretsOf(place)
		c.Settings = con.secrets.Settings
		answer, err := mapreduce.Skip(c, place, r)
		if err = tellAnswer(con, place, answer, err); err == nil {
			con.next(resumeCommand(place, ""))
		}
		return err
	}
	for all := r.Items; ; {
		r.Items = check.First(all, itemsInRequest)
		all = all[len(r.Items):]
		if err := steerJob(ctx, con, place, r, false); err != nil || len(all) == 0 {
			return err
		}
	}
}

// itemsInRequest is how many items of any names fit in a request.
const itemsInRequest = 4_000

// itemsNamed finds the items of a job that are named by their ids or labels.
func itemsNamed(place jobs.Job, named []string) ([]job.Item, error) {
	if len(named) == 0 {
		return nil, nil
	}
	all, err := labelsOf(place).findAll(named)
	if err != nil {
		return nil, err
	}
	var found []job.Item
	for _, name := range named {
		it, is := all[name]
		if !is {
			return nil, noItem(place, name)
		}
		found = append(found, job.Item{ID: it.ID, Index: it.Index})
	}
	return found, nil
}
