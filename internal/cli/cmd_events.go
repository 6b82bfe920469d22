package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

// newEventsCommand returns the group of commands about the event log. They read it only, except clean.
func newEventsCommand(con *console) *cobra.Command {
	group := newGroup("events", "Read the event log of a job")
	group.AddCommand(
		newEventsListCommand(con), newEventsFollowCommand(con), newEventsStatsCommand(con), newCleanCommand(con),
		newEventsSearchCommand(con), newEventsExportCommand(con),
	)
	return group
}

// eventsOptions select events of a job.
type eventsOptions struct {
	format term.Format
	// since is how far back events are printed. Zero means all.
	since time.Duration
	// search is a text that events must contain, or with regex an expression. Empty means all events.
	search string
	regex  bool
	query  events.Query
}

// add gives cmd the flags, but for the format.
func (o *eventsOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.query.Type, "event-type", "", "only events of this type (case-insensitive)")
	f.StringVar(&o.query.ItemID, "item-id", "", "only events about this item")
	f.StringVar(&o.query.AgentID, "agent-id", "", "only events of this attempt, such as item_0/1")
	formerly(cmd, map[string]string{"since": "last"})
	f.Var(durationFlag(&o.since), "last", "only events from the last 30m, 2h, ...")
	f.Var(positive(&o.query.Limit), "limit", "only the last N events")
	f.StringVar(&o.search, "search", "", "only events that contain this text, in any field and any case")
	f.BoolVar(&o.regex, "regex", false, "treat the text as a regular expression; (?i) ignores case")
	_ = cmd.RegisterFlagCompletionFunc("event-type", completeEventType)
	_ = cmd.RegisterFlagCompletionFunc("item-id", completeItem)
}

// complete completes the query for events of a job, or of an item of it.
func (o *eventsOptions) complete(job jobs.Job, itemID string) (err error) {
	if o.query.ItemID != "" {
		if o.query.ItemID, err = labelsOf(job).idOf(o.query.ItemID); err != nil {
			return err
		}
		if itemID != "" && itemID != o.query.ItemID {
			return usagef("item given twice: %s and --item-id %s", itemID, o.query.ItemID)
		}
	}
	o.query.ItemID = cmp.Or(itemID, o.query.ItemID)
	if o.query.Type != "" {
		if o.query.Type, err = events.TypeNamed(o.query.Type); err != nil {
			return usagef("--event-type: %w", err)
		}
	}
	if o.search != "" {
		if o.query.Matches, err = searchFor(o.search, o.regex); err != nil {
			return err
		}
	}
	if o.since > 0 {
		o.query.Since = time.Now().Add(-o.since)
	}
	if id := o.query.AgentID; id != "" && !strings.HasPrefix(id, job.ID+"/") {
		o.query.AgentID = job.ID + "/" + id
	}
	return nil
}

// newEventsReader returns a command that calls run with a job and the query for its events.
func newEventsReader(use, short string, run func(context.Context, jobs.Job, eventsOptions) error) *cobra.Command {
	var o eventsOptions
	cmd := onJobOrItem(&cobra.Command{Use: use, Short: short},
		func(ctx context.Context, job jobs.Job, itemID string) error {
			if err := o.complete(job, itemID); err != nil {
				return err
			}
			return run(ctx, job, o)
		})
	o.add(cmd)
	addFormat(cmd, &o.format, term.JSON, term.JSONL, term.CSV)
	return cmd
}

// newEventsListCommand returns the command that prints the events so far.
func newEventsListCommand(con *console) *cobra.Command {
	cmd := newEventsReader("ls [job] [item]", "Print the events of a job, oldest first",
		func(_ context.Context, job jobs.Job, o eventsOptions) error {
			return runEventsList(con, job, o)
		})
	cmd.Aliases = []string{"list"}
	return cmd
}

// runEventsList prints events as they are read. A last line that is torn, as by a crash, is a warning.
func runEventsList(con *console, job jobs.Job, o eventsOptions) error {
	out := bufio.NewWriter(con.outFor(o.format))
	seen := false
	lines := func(yield func([]byte, error) bool) {
		for line, err := range events.ReadLines(job.EventsDir(), o.query) {
			seen = true
			if !yield(line, err) {
				return
			}
		}
	}
	p := eventPrinter{format: o.format, look: con.look()}
	if p.look.Width > 0 { // what is for a pipe may be millions of lines
		names := labelsInStore(job)
		defer check.Quietly(names.Close)
		p.label = names.Label
	}
	err := p.print(out, con.err, lines)
	if !seen && o.format == term.Human {
		con.say().Printf("No matching events in job %s.", job.ID)
	}
	return unlessClosed(errors.Join(err, out.Flush()))
}

// newEventsFollowCommand returns the command that prints events as they come. It ends with the job, and says so if the
// process of the job died.
func newEventsFollowCommand(con *console) *cobra.Command {
	cmd := newEventsReader("follow [job] [item]", "Follow the events of a job",
		func(ctx context.Context, job jobs.Job, o eventsOptions) error {
			return runFollow(ctx, con, job, o)
		})
	cmd.Long = `Print the events so far, then follow new ones until the job ends or its process dies.

--json prints one object per line, like --output jsonl.`
	return cmd
}

// runFollow prints events as they come. When a signal stops it, it exits with the code of the signal, without a
// message.
func runFollow(ctx context.Context, con *console, job jobs.Job, o eventsOptions) error {
	if o.format == term.JSON {
		o.format = term.JSONL
	}
	names := labelsInStore(job)
	defer check.Quietly(names.Close)
	p := eventPrinter{format: o.format, look: con.look(), label: names.Label}
	err := untilSignal(ctx, func(ctx context.Context) error {
		lines := events.Follow(ctx, job.EventsDir(), o.query, job.Running)
		return unlessClosed(p.print(con.outFor(o.format), con.err, lines))
	})
	if err != nil {
		return err
	}
	tellDeath(con, job)
	return nil
}

// tellDeath says so when the run of a job that was followed has died.
func tellDeath(con *console, place jobs.Job) {
	if s, err := job.Summarize(place); err == nil && s.State == jobs.Killed {
		con.say().Printf("The process of job %s has died.", place.ID)
		printNext(con.say(), nextCommands(place, false, false, 0)...)
	}
}

// eventPrinter prints events in one format.
type eventPrinter struct {
	format term.Format
	look   term.Look
	// label returns what an item is called besides its id. It may be nil.
	label func(index int) string
}

// print prints lines of the log. If the last of them is torn, it says so on diag.
func (p eventPrinter) print(out, diag io.Writer, lines iter.Seq2[[]byte, error]) error {
	lines = untorn(lines, diag)
	switch p.format {
	case term.JSON, term.JSONL:
		_, err := term.Rows[term.Line]{Format: p.format}.Print(out,
			mapped(lines, func(line []byte) (term.Line, error) { return line, nil }))
		return err
	case term.CSV:
		_, err := term.Rows[view.EventLine]{Format: p.format, Columns: eventColumns}.Print(out,
			mapped(lines, view.ReadEvent))
		return err
	}
	for line, err := range lines {
		if err == nil {
			err = view.PrintEvent(out, line, p.look, p.label)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// untorn yields the lines before one that is torn, and warns of that one.
func untorn(lines iter.Seq2[[]byte, error], diag io.Writer) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line, err := range lines {
			if errors.Is(err, events.ErrTorn) {
				_, _ = fmt.Fprintf(diag, "warning: %v\n", err)
				return
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// mapped yields what read makes of each value, and errors as they are.
func mapped[A, B any](all iter.Seq2[A, error], read func(A) (B, error)) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		for a, err := range all {
			var b B
			if err == nil {
				b, err = read(a)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// eventColumns are the fields that all events have, the item and agent, and the other fields as one JSON object.
var eventColumns = []term.Column[view.EventLine]{
	{Key: "seq"},
	{Key: "time"},
	{Key: "job_id"},
	{Key: "correlation_id"},
	{Key: "type"},
	{Key: "item_id", Value: func(e view.EventLine) any { return e.Text("item_id") }},
	{Key: "agent_id", Value: func(e view.EventLine) any { return e.Text("agent_id") }},
	{Key: "fields", Value: func(e view.EventLine) any { return e.Rest("item_id", "agent_id") }},
}

// newEventsSearchCommand returns the command that prints the events that contain a text. It is hidden, since ls has
// --search.
func newEventsSearchCommand(con *console) *cobra.Command {
	var o eventsOptions
	cmd := onJobAnd("text", &cobra.Command{
		Use:               "search [job] <text>",
		Short:             "Search the events of a job",
		Hidden:            true,
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(_ context.Context, job jobs.Job, text string) error {
		if text == "" {
			return usagef("search text must not be empty")
		}
		o.search = text
		if err := o.complete(job, ""); err != nil {
			return err
		}
		return runEventsList(con, job, o)
	})
	o.add(cmd)
	addFormat(cmd, &o.format, term.JSON, term.JSONL, term.CSV)
	return cmd
}

// searchFor returns a function that reports whether a line matches.
func searchFor(text string, isRegex bool) (func(line []byte) bool, error) {
	if !isRegex {
		return events.ContainingText(text), nil
	}
	expr, err := regexp.Compile(text)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return events.Containing(expr), nil
}

// newEventsExportCommand returns the command that writes events to a file or to stdout. A single argument is a file if
// it is no job. It is hidden, since ls prints the same.
func newEventsExportCommand(con *console) *cobra.Command {
	var o eventsOptions
	var file string
	cmd := &cobra.Command{
		Use:    "export [job] [file]",
		Short:  "Export events to a file",
		Hidden: true,
		Args:   atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			if last == 1 || last == 0 && !isJob(args[0], jobByFlags(cmd)) {
				if file != "" {
					return usagef("file given twice: %s, and --output %s", args[last], file)
				}
				file, args = args[last], args[:last]
			}
			job, err := findJobNamed(cmd, args)
			if err != nil {
				return err
			}
			if err := o.complete(job, ""); err != nil {
				return err
			}
			o.format = cmp.Or(o.format, formatOf(file, term.JSONL))
			return unlessClosed(runEventsExport(con, job, cmp.Or(file, "-"), o))
		},
	}
	addJobID(cmd)
	o.add(cmd)
	formats := []term.Format{term.JSONL, term.JSON, term.CSV}
	addChoice(cmd, &o.format, "format", "file format (default: from the extension, else jsonl)", formats...)
	cmd.Flags().Var(formatOrFile(&o.format, formats, &file), "output", "format or output file")
	addJSON(cmd, &o.format)
	return cmd
}

// formatOrFile is a flag that takes a format, as with the other commands, or a file to write to.
func formatOrFile(f *term.Format, formats []term.Format, file *string) pflag.Value {
	parse := func(text string) (string, error) {
		switch {
		case slices.Contains(formats, term.Format(text)):
			*f = term.Format(text)
			return *file, nil
		case text == "" || text == string(term.Human):
			return "", fmt.Errorf("must be one of %s, %s, %s, or a file", formats[0], formats[1], formats[2])
		}
		return text, nil
	}
	return value[string]{file, "word", parse, func(string) string { return "" }}
}

// runEventsExport writes the events to a file, replacing it only once the new one is complete.
func runEventsExport(con *console, job jobs.Job, path string, o eventsOptions) error {
	return writeOut(con, path, func(w io.Writer) error {
		return eventPrinter{format: o.format}.print(w, con.err, events.ReadLines(job.EventsDir(), o.query))
	})
}

// newEventsStatsCommand returns the command that counts the selected events.
func newEventsStatsCommand(con *console) *cobra.Command {
	const short = "Count events, and measure durations"
	return newEventsReader("stats [job] [item]", short, func(_ context.Context, job jobs.Job, o eventsOptions) error {
		return runEventsStats(con, job, o)
	})
}

// jobStats is what events stats prints as JSON.
type jobStats struct {
	JobID string `json:"job_id"`
	events.Stats
}

// runEventsStats reads the events once and prints their counts, durations and costs.
func runEventsStats(con *console, job jobs.Job, o eventsOptions) error {
	var counted events.Stats
	for line, err := range untorn(events.ReadLines(job.EventsDir(), o.query), con.err) {
		if err == nil {
			err = counted.AddLine(line)
		}
		if err != nil {
			return err
		}
	}
	s := jobStats{job.ID, counted.Sum()}
	page, rows := view.StatLines(job.ID, s.Stats)
	switch o.format {
	case term.JSON:
		return term.PrintJSON(con.out, s)
	case term.JSONL:
		return json.NewEncoder(con.out).Encode(s)
	case term.CSV:
		_, err := term.Rows[view.StatRow]{
			Format: term.CSV, Columns: []term.Column[view.StatRow]{{Key: "name"}, {Key: "key"}, {Key: "value"}},
		}.Print(con.text(), term.Each(rows))
		return err
	}
	return term.Page(con.text(), page)
}
