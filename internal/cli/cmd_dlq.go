package cli

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/oneline"
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
	jobID    jobName
	format   format
	eligible bool
	typ      string
	limit    int // 0: all
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
	cmd.Flags().Var(positive{&o.limit}, "limit", "only so many, the first ones")
	return cmd
}

// findLetters is findJob for commands that read the dead letters of the job.
func findLetters(con *console, name jobName) (jobs.Job, error) {
	job, err := findJob(name)
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

// addErrorType adds the flag --type to cmd.
func addErrorType(cmd *cobra.Command, typ *string) {
	var words []string
	for _, t := range retry.Types() {
		words = append(words, string(t))
	}
	cmd.Flags().Var(choice{typ, words}, "type", "only those whose last failure is of this type: "+strings.Join(words, ", "))
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func runDLQList(con *console, o dlqListOptions) error {
	job, err := findLetters(con, o.jobID)
	if err != nil {
		return err
	}
	print := newLetterTable(con, job, labelsOf(job))
	if o.format == asJSON {
		print = newLetterWriter(con.out, asJSON)
	}
	found := 0
	for e, err := range con.secrets.letters(job) {
		if err != nil {
			return err
		}
		if !o.wants(e) {
			continue
		}
		if found++; o.limit > 0 && found > o.limit {
			continue
		}
		if err := print.one(e); err != nil {
			return err
		}
	}
	if o.limit > 0 && found > o.limit {
		_, _ = fmt.Fprintf(con.err, "%d of %s are listed.\n", o.limit, counted(found, "dead letter"))
	}
	if o.format == asJSON {
		return print.end()
	}
	if found == 0 {
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
func newLetterTable(con *console, job jobs.Job, names labels) letterWriter {
	k := con.look()
	t := newTable(con.text(), k, []string{"DATA", "LAST ATTEMPT", "FAILURES", "ELIGIBLE", "STEP"},
		"ITEM", "FAILURES", "TYPE", "STEP", "ELIGIBLE", "LAST ATTEMPT", "LABEL", "DATA", "ERROR")
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
			label := names.label(e.ItemID, e.Item)
			if label == itemExcerpt(e) && k.width == 0 {
				label = "" // it is printed as the data
			}
			t.row(cell(e.ItemID, 40), strconv.Itoa(e.FailureCount), string(last.ErrorType), cell(cmp.Or(last.Step, "-"), 30),
				yesNo(e.ReprocessEligible), e.LastAttempt.Local().Format(time.DateTime), cell(cmp.Or(label, "-"), 40), cell(itemExcerpt(e), 40), cell(last.Message, 80))
			return nil
		},
		end: func() error {
			if err := t.flush(); err != nil {
				return err
			}
			commands := []string{inspect(first.ItemID, job)}
			if eligible > 0 {
				commands = append(commands, retryCommand(job, ""))
			}
			printNext(con.err, commands)
			return nil
		},
	}
}

// itemExcerpt returns the data of an item for a table: a string as it is, anything else as JSON, and "-" if it is the same as the name.
func itemExcerpt(e dlq.Entry) string {
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
	return oneline.Cut(strings.ReplaceAll(visible(s), "\t", " "), limit)
}

// quoted returns a word for a command line that people can copy.
func quoted(word string) string { return posix.Quote(visible(word)) }

// shellWords returns a command line of words.
func shellWords(words []string) string {
	var line strings.Builder
	for i, word := range words {
		if i > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(quoted(word))
	}
	return line.String()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type dlqInspectOptions struct {
	jobID  jobName
	itemID string
	format format
}

func newDLQInspectCommand(con *console) *cobra.Command {
	var o dlqInspectOptions
	cmd := &cobra.Command{
		Use:               "inspect [job] <item>",
		Short:             "Show a dead letter with its data, failures and output",
		Args:              afterJob("item"),
		ValidArgsFunction: completeLetter(&o.jobID),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.itemID, err = nameJobAndItem(cmd, &o.jobID, args); err != nil {
				return err
			}
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
	names := labelsOf(job)
	if o.itemID, err = names.idOf(o.itemID); err != nil {
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
	if err := printLetter(con.text(), job, e, names.label(e.ItemID, e.Item)); err != nil {
		return err
	}
	printNext(con.err, []string{sendAgain(job, e)})
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

func printLetter(w io.Writer, job jobs.Job, e dlq.Entry, label string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"item", cell(e.ItemID, dataShown)},
		{"label", cell(cmp.Or(label, "-"), dataShown)},
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
		printKept(w, job, e, f)
	}
	return nil
}

func printFailure(w io.Writer, f dlq.Failure) {
	_, _ = fmt.Fprintf(w, "\nattempt %d at %s, %s: %s\n", f.Attempt, f.Time.Local().Format(time.DateTime), ran(f), f.ErrorType)
	for i, r := range f.Retries {
		_, _ = fmt.Fprintf(w, "  try %d: %s; again after %s\n", i+1, visible(r.Error), duration.Format(time.Duration(r.DelayMS)))
	}
	_, _ = fmt.Fprintf(w, "  %s\n", visible(f.Message))
	if preset, rule, ok := strings.Cut(f.Rule, "/"); ok {
		_, _ = fmt.Fprintf(w, "  told by rule %s of agent %s\n", visible(rule), visible(preset))
	}
	printTail(w, "stdout", f.StdoutTail)
	printTail(w, "stderr", f.StderrTail)
}

// printKept prints what could not be merged of the work of an attempt, and how to get at that work.
func printKept(w io.Writer, job jobs.Job, e dlq.Entry, f dlq.Failure) {
	for _, c := range f.Conflicts {
		with := ""
		if len(c.With) > 0 {
			with = ", changed by " + strings.Join(c.With, ", ")
		}
		_, _ = fmt.Fprintf(w, "  conflict in %s%s%s\n", visible(c.Path), visible(with), prefixed(": ", visible(c.Message)))
	}
	if f.Commit == "" {
		return
	}
	_, _ = fmt.Fprintf(w, "  its work is commit %s:\n    git fetch %s refs/items/%d/%d && git merge FETCH_HEAD\n",
		f.Commit, quoted(filepath.Join(job.GitDir(), "hub")), e.ItemIndex, f.Attempt)
	if f.ErrorType == retry.TypeMergeConflict {
		_, _ = fmt.Fprintf(w, "  to resolve it, merge that on top of prodigy/%s, commit, and: %s\n", job.ID, retryCommand(job, " --item "+quoted(e.ItemID)+" --with HEAD"))
	}
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

type dlqExportOptions struct {
	jobID  jobName
	file   string // - is stdout
	format format // empty: by the extension of the file
}

func newDLQExportCommand(con *console) *cobra.Command {
	var o dlqExportOptions
	cmd := &cobra.Command{
		Use:   "export [job] <file>",
		Short: "Write the dead letters of a job to a file (- is stdout)",
		Args:  afterJob("file"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.file, err = nameJobBefore(cmd, &o.jobID, args); err != nil {
				return err
			}
			return runDLQExport(con, o)
		},
	}
	addJobID(cmd, &o.jobID)
	addChoice(cmd, (*string)(&o.format), "format", "format of the file; by default that of its extension, else json",
		string(asJSON), string(asJSONL), string(asCSV))
	return cmd
}

func runDLQExport(con *console, o dlqExportOptions) error {
	job, err := findLetters(con, o.jobID)
	if err != nil {
		return err
	}
	n := 0
	err = writeOut(con, o.file, func(w io.Writer) error {
		out := newLetterWriter(w, o.form())
		for e, err := range con.secrets.letters(job) {
			if err != nil {
				return err
			}
			n++
			if err := out.one(e); err != nil {
				return err
			}
		}
		return out.end()
	})
	if err == nil && o.file != "-" {
		_, _ = fmt.Fprintf(con.err, "%s of job %s written to %s\n", counted(n, "dead letter"), job.ID, o.file)
	}
	return err
}

func (o dlqExportOptions) form() format {
	if o.format != "" {
		return o.format
	}
	switch f := format(strings.TrimPrefix(strings.ToLower(filepath.Ext(o.file)), ".")); f {
	case asJSONL, asCSV:
		return f
	}
	return asJSON
}

// letterWriter prints dead letters in one format. end is called after the last one.
type letterWriter struct {
	one func(e dlq.Entry) error
	end func() error
}

func newLetterWriter(w io.Writer, f format) letterWriter {
	switch f {
	case asJSONL:
		return letterWriter{
			one: func(e dlq.Entry) error {
				data, err := encodeLetter(e, "", "")
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(w, "%s\n", data)
				return err
			},
			end: func() error { return nil },
		}
	case asCSV:
		return newLetterCSV(w)
	}
	return newLetterArray(w)
}

// encodeLetter returns e as JSON without a newline at its end.
func encodeLetter(e dlq.Entry, prefix, indent string) ([]byte, error) {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	err := enc.Encode(e)
	return bytes.TrimSuffix(data.Bytes(), []byte("\n")), err
}

// newLetterArray streams one JSON array.
func newLetterArray(w io.Writer) letterWriter {
	before, after := "[\n", "[]\n"
	return letterWriter{
		one: func(e dlq.Entry) error {
			data, err := encodeLetter(e, "  ", "  ")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "%s  %s", before, data)
			before, after = ",\n", "\n]\n"
			return err
		},
		end: func() error {
			_, err := io.WriteString(w, after)
			return err
		},
	}
}

// letterColumns returns the columns of the CSV export. Data and failure history are JSON in one cell each.
func letterColumns() []string {
	return []string{
		"item_id", "item_index", "correlation_id", "job_id", "workflow", "first_attempt", "last_attempt", "failure_count", "retry_count",
		"error_type", "exit_code", "step", "message", "error_signature", "reprocess_eligible", "manual_review_required", "item",
		"failure_history",
	}
}

func newLetterCSV(w io.Writer) letterWriter {
	t := csv.NewWriter(w)
	header := t.Write(letterColumns())
	return letterWriter{
		one: func(e dlq.Entry) error {
			row, err := letterRow(e)
			if err = errors.Join(header, err); err != nil {
				return err
			}
			return t.Write(row)
		},
		end: func() error {
			t.Flush()
			return t.Error()
		},
	}
}

func letterRow(e dlq.Entry) ([]string, error) {
	history, err := json.Marshal(e.FailureHistory)
	last := e.Last()
	code := ""
	if last.ExitCode != nil {
		code = strconv.Itoa(*last.ExitCode)
	}
	return []string{
		e.ItemID, strconv.Itoa(e.ItemIndex), e.CorrelationID, e.JobID, e.Workflow, e.FirstAttempt.Format(time.RFC3339Nano),
		e.LastAttempt.Format(time.RFC3339Nano), strconv.Itoa(e.FailureCount), strconv.Itoa(e.RetryCount), string(last.ErrorType), code,
		last.Step, last.Message, e.ErrorSignature, strconv.FormatBool(e.ReprocessEligible), strconv.FormatBool(e.ManualReviewRequired),
		string(e.Item), string(history),
	}, err
}

// dlqEvictOptions are the options of purge and clear, which delete dead letters.
type dlqEvictOptions struct {
	jobID  jobName
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
	cmd.Flags().Var(durationFlag{&o.older}, "older-than", "only those whose last failure is older than this, such as 30d")
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
	c := idleConfig()
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

// idleConfig returns the configuration to open a job with in which nothing is run.
func idleConfig() mapreduce.Config {
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
