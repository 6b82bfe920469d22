package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// dlqEvictOptions are those of purge and clear, which throw dead letters away.
type dlqEvictOptions struct {
	jobID  string
	format format
	yes    bool
	older  time.Duration // purge: only what failed last so long ago
	reason string        // for the log
}

func (o *dlqEvictOptions) add(cmd *cobra.Command) {
	addJobID(cmd, &o.jobID)
	addFormat(cmd, &o.format, asJSON)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

func newDLQPurgeCommand(con *console) *cobra.Command {
	var o dlqEvictOptions
	cmd := &cobra.Command{
		Use:               "purge [job]",
		Short:             "Throw away the dead letters of a job that failed last long ago",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nameJob(cmd, &o.jobID, args); err != nil {
				return err
			}
			if !cmd.Flags().Changed("older-than") {
				return usagef("--older-than is missing: how long ago they failed last, as in 30d")
			}
			o.reason = "older than " + duration.Format(o.older)
			return runDLQEvict(con, o, terminalAsker(con))
		},
	}
	o.add(cmd)
	cmd.Flags().Var(length{&o.older}, "older-than", "only those that failed last longer ago than this, as in 30d")
	return cmd
}

func newDLQClearCommand(con *console) *cobra.Command {
	var o dlqEvictOptions
	cmd := &cobra.Command{
		Use:               "clear <job>",
		Short:             "Throw away all dead letters of a job",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !cmd.Flags().Changed("job-id") {
				return usagef("the argument <job> is missing")
			}
			if err := nameJob(cmd, &o.jobID, args); err != nil {
				return err
			}
			o.reason = "cleared"
			return runDLQEvict(con, o, terminalAsker(con))
		},
	}
	o.add(cmd)
	return cmd
}

// evicted is what purge and clear print as JSON.
type evicted struct {
	JobID   string `json:"job_id"`
	Removed int    `json:"removed"`
	Left    int    `json:"left"`
}

func runDLQEvict(con *console, o dlqEvictOptions, ask asker) error {
	if o.yes {
		ask = func(string) (bool, error) { return true, nil }
	}
	job, err := findJob(o.jobID)
	if err != nil {
		return err
	}
	if ask == nil {
		return refusef("nobody is there to be asked whether dead letters may be deleted (--yes does without)")
	}
	e := evicted{JobID: job.ID}
	c := o.config()
	c.Settings = secretsOf(job)
	e.Removed, err = mapreduce.Evict(c, job, o.reason, func(q *dlq.Queue) ([]string, error) {
		ids, err := o.choose(q, time.Now())
		e.Left = q.Len() - len(ids)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		return ids, agreed(con, ask, job, len(ids))
	})
	if err != nil {
		return err
	}
	if o.format == asJSON {
		return printJSON(con.out, e)
	}
	_, _ = fmt.Fprintf(con.err, "%s of job %s deleted, %d left\n", counted(e.Removed, "dead letter"), job.ID, e.Left)
	return nil
}

// config returns how the job is opened: nothing of it is run.
func (o dlqEvictOptions) config() mapreduce.Config {
	return mapreduce.Config{Durability: events.Batch, MaxRetries: defaultMaxRetries, Version: versionText()}
}

// choose returns the items of the dead letters that are to go.
func (o dlqEvictOptions) choose(q *dlq.Queue, now time.Time) ([]string, error) {
	var ids []string
	for e, err := range q.Each() {
		if err != nil {
			return nil, err
		}
		if now.Sub(e.LastAttempt) >= o.older {
			ids = append(ids, e.ItemID)
		}
	}
	return ids, nil
}

// agreed asks whether so many dead letters of a job may be deleted. A no is an error that ends the command.
func agreed(con *console, ask asker, job jobs.Job, n int) error {
	yes, err := ask(fmt.Sprintf("Throw away %s of job %s for good?", counted(n, "dead letter"), job.ID))
	if err != nil || yes {
		return err
	}
	_, _ = fmt.Fprintln(con.err, "Nothing was deleted.")
	return status(exitFailed)
}
