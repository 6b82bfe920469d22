package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

// newDLQCommand returns the group of commands about dead letters. All of them bring the queue up to date with the log
// first.
func newDLQCommand(con *console) *cobra.Command {
	group := newGroup("dlq", "Inspect and retry dead letters")
	group.AddCommand(
		newDLQListCommand(con),
		newDLQInspectCommand(con),
		newDLQAnalyzeCommand(con),
		newDLQRetryCommand(con),
		newDLQClearCommand(con),
		newDLQStatsCommand(con),
		newDLQExportCommand(con),
		newDLQPurgeCommand(con),
	)
	return group
}

// dlqListOptions choose the dead letters that list prints.
type dlqListOptions struct {
	// eligible leaves out those that a retry cannot help.
	eligible bool
	// typ is the type of the last failure. Empty means any.
	typ retry.Type
	// limit is the number of dead letters to print. Zero means all.
	limit int
}

// newDLQListCommand returns the command that prints a table of dead letters.
func newDLQListCommand(con *console) *cobra.Command {
	var o dlqListOptions
	cmd := onJob(con, &cobra.Command{
		Use:     "list [job]",
		Aliases: []string{"ls"},
		Short:   "List the dead letters of a job",
	}, o.run)
	addFormat(con, cmd, term.JSON, term.JSONL, term.CSV)
	addFlag(cmd, &o.eligible, "eligible", "only retryable dead letters")
	addErrorType(cmd, &o.typ)
	addFlag(cmd, &o.limit, "limit", "maximum number of dead letters to list")
	return cmd
}

// run prints dead letters as they are read: a queue may be larger than memory. No match is no error.
func (o *dlqListOptions) run(_ context.Context, con *console, job jobs.Job) error {
	updateLetters(con, job)
	var first dlq.Entry
	found, eligible := 0, 0
	listed := term.Those(con.secrets.letters(job), func(e dlq.Entry) bool {
		if o.eligible && !e.ReprocessEligible || o.typ != "" && e.Last().ErrorType != o.typ {
			return false
		}
		if found++; o.limit > 0 && found > o.limit {
			return false
		}
		if found == 1 {
			first = e
		}
		if e.ReprocessEligible {
			eligible++
		}
		return true
	})
	if err := printRows(con, letterColumns(labelsOf(job)), listed); err != nil {
		return err
	}
	if o.limit > 0 && found > o.limit {
		con.sayf("Showing %d of %s.", o.limit, check.Counted(found, "dead letter"))
	}
	if con.format != term.Human {
		return nil
	}
	if found == 0 {
		con.sayf("No dead letters found in job %s.", job.ID)
		return nil
	}
	con.next(inspectCommand(first.ItemID, job.ID))
	if eligible > 0 {
		con.next(retryCommand(job, ""))
	}
	return nil
}

// letterColumns are what is shown of a dead letter. For programs, data and failure history are JSON in one cell each.
func letterColumns(names itemLabels) []term.Column[dlq.Entry] {
	label := func(e dlq.Entry) string { return cmp.Or(names.label(e.ItemID, e.Item), "-") }
	return []term.Column[dlq.Entry]{
		{Key: "item_id", Head: "ITEM", Limit: 40},
		{Key: "item_index"},
		{Key: "correlation_id"},
		{Key: "job_id"},
		{Key: "workflow"},
		{Key: "first_attempt"},
		{Key: "last_attempt"},
		{
			Key: "failure_count", Head: "FAILURES", Drop: 3,
		},
		{Key: "retry_count"},
		{
			Key: "error_type", Value: func(e dlq.Entry) any { return e.Last().ErrorType },
			Head: "TYPE",
		},
		{Key: "exit_code", Value: func(e dlq.Entry) any { return e.Last().ExitCode }},
		{
			Key: "step", Value: func(e dlq.Entry) any { return e.Last().Step },
			Head: "STEP", Limit: 30, Drop: 5,
		},
		{Key: "message", Value: func(e dlq.Entry) any { return e.Last().Message }},
		{Key: "error_signature"},
		{
			Key: "reprocess_eligible", Head: "ELIGIBLE", Drop: 4,
			Value: func(e dlq.Entry) any { return e.ReprocessEligible },
		},
		{Key: "manual_review_required"},
		{
			Head: "LAST ATTEMPT", Drop: 2,
			Value: func(e dlq.Entry) any { return e.LastAttempt },
		},
		{Head: "LABEL", Cell: label, Limit: 40},
		{
			Key: "item", Value: func(e dlq.Entry) any { return string(e.Item) },
			Head: "DATA", Cell: func(e dlq.Entry) string { return textOf(e.Item) }, Limit: 40, Drop: 1,
		},
		{Key: "failure_history"},
		{Head: "ERROR", Cell: func(e dlq.Entry) string { return e.Last().Message }, Limit: 80},
	}
}

// newDLQInspectCommand returns the command that prints all that is known of some dead letters.
func newDLQInspectCommand(con *console) *cobra.Command {
	cmd := onItems(con, &cobra.Command{
		Use:               "inspect [job] <item...>",
		Short:             "Show dead letters: item, attempts and output",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeLetter,
	}, func(_ context.Context, con *console, job jobs.Job, items []string) error {
		if len(items) == 0 {
			return usagef("<item> is required (to list them: prodigy dlq list%s)", named(job.ID))
		}
		ids, err := labelsOf(job).idsOf(items)
		for i, id := range ids {
			if i > 0 && con.format == term.Human {
				con.lines().Print("")
			}
			if err == nil {
				err = inspectLetter(con, job, id)
			}
		}
		return err
	})
	addFormat(con, cmd, term.JSON)
	return cmd
}

// inspectLetter prints a dead letter, with its data masked. Naming an item that is not a dead letter is a usage error.
func inspectLetter(con *console, job jobs.Job, itemID string) error {
	updateLetters(con, job)
	e, found, err := dlq.FindPart(job.DLQFile(), itemID)
	e.Item = con.secrets.item(e.Item)
	switch {
	case err != nil:
		return err
	case !found:
		return refusef("dead letter %q not found in job %s (see: prodigy dlq list%s, prodigy why%s %s)", itemID, job.ID,
			named(job.ID), named(job.ID), quoted(itemID))
	case con.format == term.JSON:
		return con.printJSON(e)
	}
	if err := printLetter(con.lines(), job, e, labelsOf(job).label(e.ItemID, e.Item)); err != nil {
		return err
	}
	con.next(sendAgain(job, e))
	return nil
}

// sendAgain returns the command that retries a dead letter.
func sendAgain(job jobs.Job, e dlq.Entry) string {
	flags := " --item " + quoted(e.ItemID)
	if !e.ReprocessEligible {
		flags += " --force"
	}
	return retryCommand(job, flags)
}

// dataShown is how many characters of the data of an item are printed.
const dataShown = 2000

// printLetter prints a dead letter as a page, followed by each failure, the first one first.
func printLetter(l term.Lines, job jobs.Job, e dlq.Entry, label string) error {
	err := term.Aligned(l.W, [][]string{
		{"item:", term.Cell(e.ItemID, dataShown)},
		{"label:", term.Cell(cmp.Or(label, "-"), dataShown)},
		{"data:", term.Cell(string(e.Item), dataShown)},
		{"job:", fmt.Sprintf("%s (%s)", e.JobID, term.Cell(cmp.Or(e.Workflow, "-"), dataShown))},
		{"correlation id:", term.Cell(e.CorrelationID, dataShown)},
		{"first attempt:", check.Moment(e.FirstAttempt)},
		{"last attempt:", check.Moment(e.LastAttempt)},
		{"failures:", fmt.Sprintf("%d, retried %s", e.FailureCount, check.Counted(e.RetryCount, "time"))},
		{"signature:", term.Cell(e.ErrorSignature, dataShown)},
		{"eligible for retry:", term.YesNo(e.ReprocessEligible)},
		{"needs manual review:", term.YesNo(e.ManualReviewRequired)},
	})
	if err != nil {
		return err
	}
	for _, f := range e.FailureHistory {
		printFailure(l, f)
		printKept(l, job, e, f)
	}
	return nil
}

// printFailure prints one failed attempt: its tries of steps that were retried, its message and the end of its output.
func printFailure(l term.Lines, f dlq.Failure) {
	ran := "not run"
	if f.AgentID != "" {
		ran = fmt.Sprintf("%s, step %s", f.DurationMS, cmp.Or(term.Visible(f.Step), "-"))
	}
	l.Printf("\nattempt %d at %s, %s: %s", f.Attempt, check.Moment(f.Time), ran, f.ErrorType)
	for i, r := range f.Retries {
		l.Printf("  try %d: %s; retried after %s", i+1, term.Visible(r.Error), r.DelayMS)
	}
	l.Printf("  %s", term.Visible(f.Message))
	if preset, rule, ok := strings.Cut(f.Rule, "/"); ok {
		l.Printf("  matched rule %s of agent %s", term.Visible(rule), term.Visible(preset))
	}
	printTail(l, "stdout", f.StdoutTail)
	printTail(l, "stderr", f.StderrTail)
}

// printKept prints what could not be merged of the work of an attempt, and how to get at that work.
func printKept(l term.Lines, job jobs.Job, e dlq.Entry, f dlq.Failure) {
	for _, c := range f.Conflicts {
		with := ""
		if len(c.With) > 0 {
			with = ", changed by " + strings.Join(c.With, ", ")
		}
		l.Printf("  conflict in %s%s%s", term.Visible(c.Path), term.Visible(with),
			term.Prefixed(": ", term.Visible(c.Message)))
	}
	if f.Commit == "" {
		return
	}
	l.Printf("  changes kept as commit %s:\n    git fetch %s refs/items/%d/%d && git merge FETCH_HEAD",
		f.Commit, quoted(filepath.Join(job.GitDir(), "hub")), e.ItemIndex, f.Attempt)
	if f.ErrorType == retry.TypeMergeConflict {
		l.Printf("  to resolve it, merge that commit on top of prodigy/%s, commit, and run: %s", job.ID,
			retryCommand(job, " --item "+quoted(e.ItemID)+" --with HEAD"))
	}
}

// printTail prints the end of an output under its name, or nothing if there was none.
func printTail(l term.Lines, name, text string) {
	lines := term.LastLines(text, 1000)
	if len(lines) == 0 {
		return
	}
	l.Printf("  end of %s:", name)
	for _, line := range lines {
		l.Printf("    | %s", term.Visible(line))
	}
}

// newDLQExportCommand returns the command that writes all dead letters to a file. The extension of the file decides
// the format unless --format does. It is hidden, since list prints the same.
func newDLQExportCommand(con *console) *cobra.Command {
	var format term.Format
	cmd := onJobAnd(con, "file", &cobra.Command{
		Use:    "export [job] <file>",
		Short:  "Export dead letters to a file",
		Hidden: true,
	}, func(_ context.Context, con *console, job jobs.Job, file string) error {
		updateLetters(con, job)
		n := 0
		err := writeOut(con, file, func(w io.Writer) (err error) {
			rows := term.Rows[dlq.Entry]{
				// without labels: a file for programs has the data
				Format: cmp.Or(format, formatOf(file, term.JSON)), Columns: letterColumns(itemLabels{}),
			}
			n, err = rows.Print(w, con.secrets.letters(job))
			return err
		})
		if err == nil && file != "-" {
			con.sayf("wrote %s of job %s to %s", check.Counted(n, "dead letter"), job.ID, file)
		}
		return err
	})
	addChoice(cmd, &format, "format", "file format (default: from the extension, else json)", term.JSON,
		term.JSONL, term.CSV)
	return cmd
}

// dlqEvictOptions are the options of purge and clear, which delete dead letters.
type dlqEvictOptions struct {
	yes bool
	// older is how long ago the last failure must be at least. Zero means that all are deleted.
	older time.Duration
}

// newDLQClearCommand returns the command that deletes dead letters of a job, which must be named: latest is too easily
// another one than was meant.
func newDLQClearCommand(con *console) *cobra.Command {
	return newDLQEvictCommand(con, &cobra.Command{
		Use:   "clear <job>",
		Short: "Delete the dead letters of a job",
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !cmd.Flags().Changed("job-id") {
				return usagef("<job> is required")
			}
			return nil
		},
	})
}

// newDLQPurgeCommand returns clear by its former name for --older-than, without which it deletes nothing.
func newDLQPurgeCommand(con *console) *cobra.Command {
	return newDLQEvictCommand(con, &cobra.Command{
		Use:    "purge [job]",
		Short:  "Delete old dead letters",
		Hidden: true,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("older-than") {
				return usagef("--older-than is required, for example 30d")
			}
			return nil
		},
	})
}

// newDLQEvictCommand completes a command that deletes dead letters.
func newDLQEvictCommand(con *console, cmd *cobra.Command) *cobra.Command {
	var o dlqEvictOptions
	onJob(con, cmd, o.run)
	addFormat(con, cmd, term.JSON)
	addFlag(cmd, &o.yes, "yes,y", "skip the confirmation prompt")
	addFlag(cmd, &o.older, "older-than", "only dead letters older than this, such as 30d")
	return cmd
}

// evicted is what purge and clear print as JSON.
type evicted struct {
	JobID   string `json:"job_id"`
	Removed int    `json:"removed"`
	Left    int    `json:"left"`
}

// run deletes dead letters. It holds the lock of the job from the choice to the record of it, so that what was confirmed
// is what is deleted. If the answer is no it exits with 1.
func (o *dlqEvictOptions) run(_ context.Context, con *console, job jobs.Job) (err error) {
	if err := canAsk(o.yes); err != nil {
		return err
	}
	e := evicted{JobID: job.ID}
	c := idleConfig()
	con.hideSecretsOf(job)
	c.Settings = con.secrets.Settings
	reason := "cleared"
	if o.older > 0 {
		reason = "older than " + duration.Format(o.older)
	}
	e.Removed, err = mapreduce.Evict(c, job, reason, func(q *dlq.Queue) (ids []string, err error) {
		for letter, err := range q.Each() {
			if err != nil {
				return nil, err
			}
			if time.Since(letter.LastAttempt) >= o.older {
				ids = append(ids, letter.ItemID)
			}
		}
		e.Left = q.Len() - len(ids)
		if len(ids) == 0 {
			return nil, nil
		}
		return ids, con.confirm(o.yes, fmt.Sprintf("Delete %s of job %s permanently?",
			check.Counted(len(ids), "dead letter"), job.ID))
	})
	if err != nil {
		return err
	}
	if con.format == term.JSON {
		return con.printJSON(e)
	}
	con.sayf("deleted %s of job %s, %d left", check.Counted(e.Removed, "dead letter"), job.ID, e.Left)
	return nil
}

// idleConfig returns the configuration to open a job with in which nothing is run.
func idleConfig() mapreduce.Config {
	return mapreduce.Config{
		MaxRetries: defaultMaxRetries, Version: versionText(),
		LogConfig: job.LogConfig{Durability: events.Batch},
	}
}
