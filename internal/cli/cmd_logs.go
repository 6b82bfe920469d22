package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// logsOptions select the output that logs prints, and say how.
type logsOptions struct {
	query  outputs.Query
	format term.Format
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
	var latest bool
	cmd := &cobra.Command{
		Use:   "logs [job] [item]",
		Short: "Print the output of steps",
		Long: `Print the output of a job's steps, or of one item's steps, in chronological order: all attempts,
hooks, handlers, setup, reduce and merge. With -f, follow new output until the job ends.

Lines start with the item, the attempt if it is not the first, and the step, then | for stdout, !
for stderr and = for how a command failed. The output of a single item has no such prefix; --prefix
changes either.

Output of AI CLIs is shown as a conversation: messages of the agent, its tools (→) with shortened
arguments, the first line of each result (←), and messages of the CLI (·). --raw and --output jsonl
print it unchanged.

The workflow key outputs sets how much is kept.`,
		Example: "  prodigy logs -f\n  prodigy logs latest item_17 --stderr\n  prodigy logs --failed --step build",
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if latest && cmd.Flags().Changed("job-id") {
				return usagef("job given twice: --latest, and --job-id %s", jobByFlags(cmd).id)
			}
			if last := len(args) - 1; cmd.Flags().Changed("tail") && last >= 0 &&
				strings.Trim(args[last], "0123456789") == "" {
				return usagef("--tail takes no number: it follows new output, like -f; for the last lines use "+
					"prodigy logs | tail -n %s", args[last])
			}
			return nil
		},
	}
	onJobOrItem(cmd, func(ctx context.Context, job jobs.Job, itemID string) error {
		o.query.ItemID = itemID
		if !cmd.Flags().Changed("prefix") {
			o.prefix = itemID == ""
		}
		return runLogs(ctx, con, job, o)
	})
	addFormat(cmd, &o.format, term.JSON, term.JSONL)
	f := cmd.Flags()
	f.BoolVar(&latest, "latest", false, "the latest job, which is the default")
	f.BoolVar(&o.follow, "tail", false, "same as --follow")
	f.StringVar(&o.query.Step, "step", "", "only this step and its hooks (id, name, or position such as shell_0)")
	f.Var(positive(&o.query.Attempt), "attempt", "only this attempt number")
	f.BoolVar(&o.stderr, "stderr", false, "only stderr")
	f.BoolVarP(&o.follow, "follow", "f", false, "follow output until the job ends")
	f.BoolVar(&o.failed, "failed", false, "only failed or stopped commands")
	f.BoolVar(&o.raw, "raw", false, "print the unprocessed output of AI CLIs")
	f.BoolVar(&o.prefix, "prefix", false, "prefix each line with item and step (default unless an item is given)")
	return cmd
}

// runLogs prints the output so far, or follows it until the job ends. For people the output of AI CLIs becomes a
// conversation.
func runLogs(ctx context.Context, con *console, job jobs.Job, o logsOptions) error {
	if o.format == term.Human && !o.raw {
		o.query.Render = conversations(job)
	}
	if o.follow {
		err := untilSignal(ctx, func(ctx context.Context) error {
			return o.print(con, job, outputs.Follow(ctx, job.OutputsDir(), o.query, job.Running))
		})
		if err != nil {
			return err
		}
		tellDeath(con, job)
		return nil
	}
	return o.print(con, job, view.PrintedOf(job, o.query))
}

// print prints entries, and says what is missing.
func (o logsOptions) print(con *console, job jobs.Job, entries iter.Seq2[outputs.Entry, error]) error {
	if o.failed {
		entries = view.FailedOnly(entries)
	}
	seen, damaged := false, false
	shown := func(yield func(outputs.Entry, error) bool) {
		for e, err := range entries {
			if broken, ok := errors.AsType[*outputs.DamagedError](err); ok {
				con.say().Printf("damaged, skipped: %v", broken)
				damaged = true
				continue
			}
			if e.Limit != "" {
				con.say().Print(limitNote(e.Limit))
				continue
			}
			if o.stderr {
				e.Printed = onlyStderr(e.Printed)
			}
			seen = seen || !o.stderr || len(e.Printed) > 0
			if !yield(e, err) {
				return
			}
		}
	}
	if err := o.printEntries(con, shown); err != nil {
		return unlessClosed(err)
	}
	if !seen {
		if err := o.mistaken(job); err != nil {
			return err
		}
	}
	if !seen && o.format == term.Human {
		con.say().Print(o.nothing(job))
	}
	if damaged {
		return status(exitFailed)
	}
	return nil
}

// printEntries prints entries in the format that was asked for. An array would have no end while the job runs.
func (o logsOptions) printEntries(con *console, entries iter.Seq2[outputs.Entry, error]) error {
	if o.format == term.JSON && o.follow {
		o.format = term.JSONL
	}
	if o.format != term.Human {
		_, err := term.Rows[term.Line]{Format: o.format}.Print(con.out,
			mapped(entries, func(e outputs.Entry) (term.Line, error) { return json.Marshal(e) }))
		return err
	}
	p := &logPrinter{
		out: con.out, prefix: o.prefix, look: con.look(), safe: con.safe, open: map[lineKey][]byte{},
	}
	for e, err := range entries {
		if err == nil {
			err = p.entry(e)
		}
		if err != nil {
			return err
		}
	}
	return p.end()
}

// mistaken returns an error if the job has never had what the flags ask for, with what it has.
func (o logsOptions) mistaken(job jobs.Job) error {
	if w := recordedOrNil(job); w != nil && o.query.Step != "" {
		steps := stepLabels(w)
		if step := o.query.Step; !slices.Contains(steps, step[strings.LastIndex(step, "/")+1:]) {
			return refusef("job %s has no step %q; steps: %s", job.ID, o.query.Step, strings.Join(steps, ", "))
		}
	}
	if o.query.Attempt == 0 {
		return nil
	}
	most := 0
	for r, err := range events.Read(job.EventsDir()) {
		if err != nil {
			return nil // those who read the log say so
		}
		if about := events.Subject(r.Event); about == "" || o.query.ItemID != "" && about != o.query.ItemID {
			continue
		}
		switch e := r.Event.(type) {
		case events.AgentStarted:
			most = max(most, e.Attempt)
		case events.AgentDuplicated:
			most = max(most, e.Attempt)
		}
	}
	if o.query.Attempt > most {
		return refusef("job %s has no attempt %d of %s; attempts: %d", job.ID, o.query.Attempt,
			cmp.Or(o.query.ItemID, "any item"), most)
	}
	return nil
}

// stepLabels returns the labels of all steps of a workflow, those of hooks included.
func stepLabels(w *workflow.Workflow) []string {
	var labels []string
	var add func(steps []workflow.Step)
	add = func(steps []workflow.Step) {
		for i, s := range steps {
			if label := s.Label(i); !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
			for _, inner := range s.NestedSteps() {
				add(inner)
			}
		}
	}
	for _, s := range w.Sections() {
		add(s.Steps)
	}
	return labels
}

// nothing says why nothing was printed.
func (o logsOptions) nothing(job jobs.Job) string {
	if outputs.Any(job.OutputsDir()) {
		return fmt.Sprintf("No matching output kept in job %s.", job.ID)
	}
	if w := recordedOrNil(job); w != nil && w.Outputs.Keep == outputs.None {
		return fmt.Sprintf("Job %s keeps no output, as set by outputs in its workflow.", job.ID)
	}
	return fmt.Sprintf("Job %s has no output: its steps printed nothing, or it was run by a version that did "+
		"not keep output.", job.ID)
}

// limitNote says what became of output after the budget of the job for it was used up.
func limitNote(limit outputs.Keep) string {
	if limit == outputs.Failed {
		return "From here on only the output of failed commands is kept: 90% of outputs.per_job is used."
	}
	return "From here on no output is kept: outputs.per_job is used up."
}

// onlyStderr returns the parts of an entry that a command printed to stderr.
func onlyStderr(parts []outputs.Part) []outputs.Part {
	var kept []outputs.Part
	for _, p := range parts {
		if p.Stream == outputs.Stderr {
			kept = append(kept, p)
		}
	}
	return kept
}

// logPrinter prints entries for people.
type logPrinter struct {
	out    io.Writer
	prefix bool
	look   term.Look
	// safe is set if the output goes to a terminal.
	safe bool
	// before is the command that printed last. Another one gets a heading.
	before outputs.Source
	// open holds lines whose end has not been printed yet.
	open map[lineKey][]byte
	// middle is set while the last output without prefixes did not end its line.
	middle bool
}

// lineKey is a stream of a command.
type lineKey struct {
	source outputs.Source
	stream outputs.Stream
}

// entry prints one entry, with prefixes or without.
func (p *logPrinter) entry(e outputs.Entry) error {
	var b bytes.Buffer
	if p.prefix {
		p.lines(&b, e)
	} else {
		p.plain(&b, e)
	}
	_, err := p.out.Write(b.Bytes())
	return err
}

// end prints what is left.
func (p *logPrinter) end() error {
	var b bytes.Buffer
	left := slices.SortedFunc(maps.Keys(p.open), func(a, b lineKey) int {
		return cmp.Or(cmp.Compare(a.source.ItemID, b.source.ItemID), cmp.Compare(a.source.Command, b.source.Command),
			cmp.Compare(a.stream.String(), b.stream.String()))
	})
	for _, k := range left {
		p.line(&b, k, p.open[k])
	}
	if p.middle && p.safe {
		b.WriteByte('\n')
	}
	_, err := p.out.Write(b.Bytes())
	return err
}

// plain adds the output as it is. On a terminal a heading tells where the next command begins.
func (p *logPrinter) plain(b *bytes.Buffer, e outputs.Entry) {
	if (e.First || e.Source != p.before) && len(e.Printed) > 0 {
		if p.middle {
			b.WriteByte('\n')
		}
		if p.safe {
			b.WriteString(p.look.Paint(term.Bold, "── "+headingOf(e.Source)+" ──") + "\n")
		}
		p.before, p.middle = e.Source, false
	}
	if e.Missing > 0 {
		_, _ = fmt.Fprintf(b, "… [%d bytes dropped] …", e.Missing)
		p.middle = true
	}
	for _, part := range e.Printed {
		b.Write(p.shown(part.Text))
		p.middle = !bytes.HasSuffix(part.Text, []byte("\n"))
	}
}

// headingOf names a command for people.
func headingOf(s outputs.Source) string {
	heading := s.Step
	if s.Phase != "" {
		heading = s.Phase + ", " + heading
	}
	if s.ItemID != "" {
		heading = s.ItemID + ", attempt " + strconv.Itoa(s.Attempt) + ", " + heading
	}
	if s.Try > 1 {
		heading += ", try " + strconv.Itoa(s.Try)
	}
	return term.Visible(heading)
}

// lines adds the whole lines of an entry, each with its prefix.
func (p *logPrinter) lines(b *bytes.Buffer, e outputs.Entry) {
	if e.Missing > 0 {
		for _, s := range []outputs.Stream{outputs.Stdout, outputs.Stderr} {
			p.flush(b, lineKey{e.Source, s})
		}
		b.WriteString(p.prefixOf(e.Source, "=") + fmt.Sprintf("%d bytes dropped\n", e.Missing))
	}
	for _, part := range e.Printed {
		k := lineKey{e.Source, part.Stream}
		text := part.Text
		for {
			line, rest, whole := bytes.Cut(text, []byte("\n"))
			if !whole {
				break
			}
			p.line(b, k, append(p.open[k], line...))
			delete(p.open, k)
			text = rest
		}
		if len(text) > 0 {
			p.open[k] = append(p.open[k], text...)
		}
	}
	if e.End == nil {
		return
	}
	for _, s := range []outputs.Stream{outputs.Stdout, outputs.Stderr} {
		p.flush(b, lineKey{e.Source, s})
	}
	if end := endOf(*e.End); end != "" {
		b.WriteString(p.prefixOf(e.Source, "=") + p.look.Paint(term.Red, end) + "\n")
	}
}

// flush adds the incomplete line of a stream.
func (p *logPrinter) flush(b *bytes.Buffer, k lineKey) {
	if rest := p.open[k]; len(rest) > 0 {
		p.line(b, k, rest)
	}
	delete(p.open, k)
}

// line adds one line with its prefix, without a carriage return at its end.
func (p *logPrinter) line(b *bytes.Buffer, k lineKey, text []byte) {
	mark := "|"
	if k.stream == outputs.Stderr {
		mark = "!"
	}
	b.WriteString(p.prefixOf(k.source, mark))
	b.Write(p.shown(bytes.TrimSuffix(text, []byte("\r"))))
	b.WriteByte('\n')
}

// prefixOf names a command in front of a line.
func (p *logPrinter) prefixOf(s outputs.Source, mark string) string {
	who := s.Phase
	if s.ItemID != "" {
		if who = s.ItemID; s.Attempt > 1 {
			who += "/" + strconv.Itoa(s.Attempt)
		}
	}
	if who != "" {
		who += " "
	}
	if who += s.Step; s.Try > 1 {
		who += " (try " + strconv.Itoa(s.Try) + ")"
	}
	return p.look.Paint(term.Cyan, term.Visible(who)+" "+mark) + " "
}

// shown returns text of others for the terminal, where no byte of it may pass for one of prodigy's own colours.
func (p *logPrinter) shown(text []byte) []byte {
	if !p.safe {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\ufffd"))
}

// endOf says how a command failed, or nothing when it succeeded.
func endOf(end outputs.End) string {
	switch {
	case end.Stopped:
		return "stopped"
	case end.Failed && end.ExitCode > 0:
		return "exit code " + strconv.Itoa(end.ExitCode)
	case end.Failed && end.ExitCode < 0:
		return "killed, timed out or not started"
	case end.Failed:
		return "failed"
	}
	return ""
}
