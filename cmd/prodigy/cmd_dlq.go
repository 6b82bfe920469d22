package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/dlq"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/posix"
	"prodigy/internal/retry"
)

func newDLQCommand(con *console) *cobra.Command {
	group := newGroup("dlq", "Inspect the items that failed for good, and retry them")
	group.AddCommand(
		newDLQListCommand(con),
		newDLQInspectCommand(con),
		newDLQAnalyzeCommand(con),
		newDLQStatsCommand(con),
		newDLQRetryCommand(con),
		newDLQExportCommand(con),
		newDLQPurgeCommand(con),
		newDLQClearCommand(con),
	)
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
		Aliases:           []string{"ls"},
		Short:             "List the dead letters of a job",
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nameJob(cmd, &o.jobID, args); err != nil {
				return err
			}
			return runDLQList(con, o)
		},
	}
	addJobID(cmd, &o.jobID)
	addFormat(cmd, &o.format, asJSON)
	cmd.Flags().BoolVar(&o.eligible, "eligible", false, "only those that a retry would run")
	addErrorType(cmd, &o.typ)
	return cmd
}

// findLetters is findJob for commands that read the dead letters of the job.
func findLetters(con *console, id string) (jobs.Job, error) {
	job, err := findJob(id)
	if err == nil {
		updateLetters(con, job)
	}
	return job, err
}

// updateLetters brings the dead letters up to date with the log, and masks the secrets of the job on con. If the update fails it
// prints a warning: the dead letters that are there can still be read.
func updateLetters(con *console, job jobs.Job) {
	con.hideSecretsOf(job)
	err := mapreduce.UpdateLetters(job, defaultMaxRetries, con.secrets.Settings)
	var damaged *dlq.DamagedError
	if err != nil && !errors.As(err, &damaged) { // the reader will report that itself
		_, _ = fmt.Fprintf(con.err, "warning: there may be more dead letters than these: %v\n", err)
	}
}

// errorTypes returns the names of all error types.
func errorTypes() []string {
	var words []string
	for _, t := range []retry.Type{
		retry.TypeTimeout, retry.TypeNetwork, retry.TypePermission, retry.TypeRateLimit, retry.TypeServerError, retry.TypeCommandFailed,
		retry.TypeCommandNotFound, retry.TypeKilled, retry.TypeCircuitOpen, retry.TypeTemplate, retry.TypeCommitMissing,
		retry.TypeInternal, retry.TypeKilledRunner,
	} {
		words = append(words, string(t))
	}
	return words
}

// addErrorType adds the flag --type to cmd.
func addErrorType(cmd *cobra.Command, typ *string) {
	words := errorTypes()
	cmd.Flags().Var(choice{typ, words}, "type", "only those whose last failure is of this type: "+strings.Join(words, ", "))
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func runDLQList(con *console, o dlqListOptions) error {
	job, err := findLetters(con, o.jobID)
	if err != nil {
		return err
	}
	print := newLetterTable(con)
	if o.format == asJSON {
		print = newLetterWriter(con.out, asJSON)
	}
	shown := 0
	for e, err := range con.secrets.letters(job) {
		if err != nil {
			return err
		}
		if !o.wants(e) {
			continue
		}
		shown++
		if err := print.one(e); err != nil {
			return err
		}
	}
	if o.format == asJSON {
		return print.end()
	}
	if shown == 0 {
		_, _ = fmt.Fprintf(con.err, "There are no %s in job %s.\n", o.lettersWanted(), job.ID)
		return nil
	}
	return print.end()
}

// lettersWanted describes the listed dead letters, for the message that there are none.
func (o dlqListOptions) lettersWanted() string {
	if o.eligible || o.typ != "" {
		return "such dead letters"
	}
	return "dead letters"
}

func (o dlqListOptions) wants(e dlq.Entry) bool {
	return (!o.eligible || e.ReprocessEligible) && (o.typ == "" || string(e.Last().ErrorType) == o.typ)
}

// newLetterTable returns a writer that prints one row for each dead letter, and the commands to type next.
func newLetterTable(con *console) letterWriter {
	t := tabwriter.NewWriter(con.text(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "ITEM\tFAILURES\tTYPE\tSTEP\tELIGIBLE\tLAST ATTEMPT\tDATA\tERROR")
	var first dlq.Entry
	eligible := 0
	return letterWriter{
		one: func(e dlq.Entry) error {
			if first.ItemID == "" {
				first = e
			}
			if e.ReprocessEligible {
				eligible++
			}
			last := e.Last()
			_, err := fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", cell(e.ItemID, 40), e.FailureCount, last.ErrorType, cell(cmp.Or(last.Step, "-"), 30),
				yesNo(e.ReprocessEligible), e.LastAttempt.Local().Format(time.DateTime), cell(glimpse(e), 40), cell(last.Message, 80))
			return err
		},
		end: func() error {
			if err := t.Flush(); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(con.err, "next: prodigy dlq inspect %s --job-id %s\n", quoted(first.ItemID), first.JobID)
			if eligible > 0 {
				_, _ = fmt.Fprintf(con.err, "next: prodigy dlq retry %s\n", first.JobID)
			}
			return nil
		},
	}
}

// glimpse returns the data of an item for a table: a string as it is, anything else as JSON, and "-" if it is the same as the name.
func glimpse(e dlq.Entry) string {
	var text string
	if json.Unmarshal(e.Item, &text) != nil {
		return string(e.Item)
	}
	if text == e.ItemID {
		return "-"
	}
	return text
}

// cell makes a text safe and short enough for a table.
func cell(s string, limit int) string {
	return shorten(strings.ReplaceAll(visible(s), "\t", " "), limit)
}

// quoted returns a word for a command line that people can copy.
func quoted(word string) string { return posix.Quote(visible(word)) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
