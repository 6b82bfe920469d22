package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

// logsOptions select the output that logs prints, and say how.
type logsOptions struct {
	query outputs.Query
	// stderr leaves out what commands print to stdout.
	stderr bool
	// follow waits for more output until the job ends.
	follow bool
	// failed leaves out the output of commands that succeeded.
	failed bool
	// prefix begins each line with the item and the step. It is set by default unless an item is named.
	prefix bool
	// raw prints the output of AI CLIs as it is.
	raw bool
}

// newLogsCommand returns the command that prints the kept output of steps.
func newLogsCommand(con *console) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs [job] [item]",
		Short: "Print the output of steps",
		Long: `Print the output of a job's steps, or of one item's steps, in chronological order: all attempts,
hooks, handlers, setup, reduce and merge. With -f, follow new output until the job ends.

Lines start with the item, the attempt if it is not the first, and the step, then | for stdout, !
for stderr and = for how a command failed. The output of a single item has no such prefix; --prefix
changes either. If the item was tried several times, a heading begins each try: its number, when it
began, and how it failed; --raw leaves that out where no terminal is.

Output of AI CLIs is shown as a conversation: messages of the agent, its tools (→) with shortened
arguments, the first line of each result (←), and messages of the CLI (·). --raw and --output jsonl
print it unchanged.

The workflow key outputs sets how much is kept.`,
		Example: "  prodigy logs -f\n  prodigy logs latest item_17 --stderr\n  prodigy logs --failed --step build",
	}
	onJobOrItem(con, cmd, func(ctx context.Context, con *console, job jobs.Job, itemID string) error {
		o.query.ItemID = itemID
		if !cmd.Flags().Changed("prefix") {
			o.prefix = itemID == ""
		}
		return o.run(ctx, con, job)
	})
	addFormat(con, cmd, term.JSON, term.JSONL)
	cmd.Flags().Bool("latest", false, "the latest job, which is the default")
	addFlag(cmd, &o.follow, "tail", "same as --follow")
	addFlag(cmd, &o.query.Step, "step", "only this step and its hooks (id, name, or position such as shell_0)")
	addFlag(cmd, &o.query.Attempt, "attempt", "only this attempt number")
	addFlag(cmd, &o.stderr, "stderr", "only stderr")
	addFlag(cmd, &o.follow, "follow,f", "follow output until the job ends")
	addFlag(cmd, &o.failed, "failed", "only failed or stopped commands")
	addFlag(cmd, &o.raw, "raw", "print the unprocessed output of AI CLIs")
	addFlag(cmd, &o.prefix, "prefix", "prefix each line with item and step (default unless an item is given)")
	return cmd
}

// run prints the output so far, or follows it until the job ends. For people the output of AI CLIs becomes a
// conversation.
func (o logsOptions) run(ctx context.Context, con *console, job jobs.Job) error {
	if con.format == term.Human && !o.raw {
		o.query.Render = conversations(job)
	}
	if !o.follow {
		return o.print(con, job, view.PrintedOf(job, o.query))
	}
	err := untilSignal(ctx, func(ctx context.Context) error {
		return o.print(con, job, outputs.Follow(ctx, job.OutputsDir(), o.query, job.Running))
	})
	if err == nil {
		tellDeath(con, job)
	}
	return err
}

// print prints entries, and says what is missing.
func (o logsOptions) print(con *console, job jobs.Job, entries iter.Seq2[outputs.Entry, error]) error {
	seen, damaged := false, false
	shown := func(yield func(outputs.Entry, error) bool) {
		for e, err := range o.chosen(entries) {
			if broken, ok := errors.AsType[*outputs.DamagedError](err); ok {
				con.sayf("damaged, skipped: %v", broken)
				damaged = true
				continue
			}
			if e.Limit != "" {
				con.say().Print(limitNotes[e.Limit])
				continue
			}
			if o.stderr {
				e.Printed = slices.DeleteFunc(slices.Clone(e.Printed), func(p outputs.Part) bool {
					return p.Stream != outputs.Stderr
				})
			}
			seen = seen || !o.stderr || len(e.Printed) > 0
			if !yield(e, err) {
				return
			}
		}
	}
	var err error
	if con.format == term.Human {
		p := view.NewLogPrinter(con.out, con.look(), con.safe)
		p.Prefix, p.Tries = o.prefix, o.query.ItemID != "" && !o.raw
		if p.Tries && !o.prefix {
			p.Learn(o.chosen(view.PrintedOf(job, o.query)))
		}
		err = p.Print(shown)
	} else {
		if o.follow { // an array would have no end
			con.format = term.JSONL
		}
		_, err = term.Rows[term.Line]{Format: con.format}.Print(con.out,
			mapped(shown, func(e outputs.Entry) (term.Line, error) { return json.Marshal(e) }))
	}
	if err != nil {
		return unlessClosed(err)
	}
	if !seen {
		if err := o.mistaken(job); err != nil {
			return err
		}
		if con.format == term.Human {
			con.sayf("No matching output kept in job %s.", job.ID)
		}
	}
	if damaged {
		return status(exitFailed)
	}
	return nil
}

// chosen returns the entries of the commands that are to be printed.
func (o logsOptions) chosen(entries iter.Seq2[outputs.Entry, error]) iter.Seq2[outputs.Entry, error] {
	if o.failed {
		return view.FailedOnly(entries)
	}
	return entries
}

// mistaken returns an error if the job does not have the attempt or the step that is asked for.
func (o logsOptions) mistaken(job jobs.Job) error {
	if o.query.Attempt > 0 && !o.hasAttempt(job) {
		return refusef("job %s has no attempt %d of %s", job.ID, o.query.Attempt, cmp.Or(o.query.ItemID, "any item"))
	}
	w := recordedOrNil(job)
	if w == nil || o.query.Step == "" {
		return nil
	}
	var steps []string
	for at := range w.EachStep() {
		if name := lastName(at.Logged); !slices.Contains(steps, name) {
			steps = append(steps, name)
		}
	}
	if !slices.Contains(steps, lastName(o.query.Step)) {
		return refusef("job %s has no step %q; steps: %s", job.ID, o.query.Step, strings.Join(steps, ", "))
	}
	return nil
}

// hasAttempt reports whether the log has the start of the attempt that is asked for, or cannot be read.
func (o logsOptions) hasAttempt(job jobs.Job) bool {
	for r, err := range events.Read(job.EventsDir()) {
		e, started := r.Event.(events.AgentStarted)
		if err != nil || started && e.Attempt == o.query.Attempt && (o.query.ItemID == "" || e.ItemID == o.query.ItemID) {
			return true // who reads the log reports an error
		}
	}
	return false
}

// lastName returns the name of a step without those of the steps that it is in.
func lastName(label string) string { return label[strings.LastIndex(label, "/")+1:] }

// limitNotes say what became of output after the budget of the job for it was used up.
var limitNotes = map[outputs.Keep]string{
	outputs.Failed: "From here on only the output of failed commands is kept: 90% of outputs.per_job is used.",
	outputs.None:   "From here on no output is kept: outputs.per_job is used up.",
}
