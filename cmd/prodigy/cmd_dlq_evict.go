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

// dlqEvictOptions are the options of purge and clear, which delete dead letters.
type dlqEvictOptions struct {
	jobID  string
	format format
	yes    bool
	older  time.Duration // purge: only those whose last failure is at least this long ago
	reason string        // for the log
}

func (o *dlqEvictOptions) add(cmd *cobra.Command) {
	addJobID(cmd, &o.jobID)
	addFormat(cmd, &o.format, asJSON)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
}

func newDLQPurgeCommand(con *console) *cobra.Command {
	var o dlqEvictOptions
	cmd := &cobra.Command{
		Use:               "purge [job]",
		Short:             "Delete dead letters whose last failure is older than a given age",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nameJob(cmd, &o.jobID, args); err != nil {
				return err
			}
			if !cmd.Flags().Changed("older-than") {
				return usagef("--older-than is missing: give an age, such as 30d")
			}
			o.reason = "older than " + duration.Format(o.older)
			return runDLQEvict(con, o, terminalAsker(con))
		},
	}
	o.add(cmd)
	cmd.Flags().Var(length{&o.older}, "older-than", "only those whose last failure is older than this, such as 30d")
	return cmd
}

func newDLQClearCommand(con *console) *cobra.Command {
	var o dlqEvictOptions
	cmd := &cobra.Command{
		Use:               "clear <job>",
		Short:             "Delete all dead letters of a job",
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
		return refusef("there is no terminal to ask on whether to delete dead letters (use --yes)")
	}
	e := evicted{JobID: job.ID}
	c := o.config()
	con.hideSecretsOf(job)
	c.Settings = con.secrets.Settings
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

// config returns the configuration to open the job with; nothing is run.
func (o dlqEvictOptions) config() mapreduce.Config {
	return mapreduce.Config{Durability: events.Batch, MaxRetries: defaultMaxRetries, Version: versionText()}
}

// choose returns the ids of the dead letters to delete.
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

// agreed asks for confirmation to delete n dead letters of a job. The answer no is an error that ends the command.
func agreed(con *console, ask asker, job jobs.Job, n int) error {
	yes, err := ask(fmt.Sprintf("Delete %s of job %s permanently?", counted(n, "dead letter"), job.ID))
	if err != nil || yes {
		return err
	}
	_, _ = fmt.Fprintln(con.err, "Nothing was deleted.")
	return status(exitFailed)
}
