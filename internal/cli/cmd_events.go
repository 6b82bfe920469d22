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
	list := newEventsReader(con, "ls [job] [item]", "Print the events of a job, oldest first", (*eventsOptions).list)
	list.Aliases = []string{"list"}
	follow := newEventsReader(con, "follow [job] [item]", "Follow the events of a job", (*eventsOptions).follow)
	follow.Long = `Print the events so far, then follow new ones until the job ends or its process dies.

--json prints one object per line, like --output jsonl.`
	stats := newEventsReader(con, "stats [job] [item]", "Count events, and measure durations", (*eventsOptions).stats)
	group.AddCommand(list, follow, stats, newCleanCommand(con), newEventsSearchCommand(con), newEventsExportCommand(con))
	return group
}

// eventsOptions select events of a job.
type eventsOptions struct {
	// since is how far back events are printed. Zero means all.
	since time.Duration
	// search is a text that events must contain, or with regex an expression. Empty means all events.
	search string
	regex  bool
	query  events.Query
}

// add gives cmd the flags, but for the format.
func (o *eventsOptions) add(cmd *cobra.Command) {
	addFlag(cmd, &o.query.Type, "event-type", "only events of this type (case-insensitive)",
		offering(eventTypes))
	addFlag(cmd, &o.query.ItemID, "item-id", "only events about this item", completeItem)
	addFlag(cmd, &o.query.AgentID, "agent-id", "only events of this attempt, such as item_0/1")
	formerly(cmd, map[string]string{"since": "last"})
	addFlag(cmd, &o.since, "last", "only events from the last 30m, 2h, ...")
	addFlag(cmd, &o.query.Limit, "limit", "only the last N events")
	addFlag(cmd, &o.search, "search", "only events that contain this text, in any field and any case")
	addFlag(cmd, &o.regex, "regex", "treat the text as a regular expression; (?i) ignores case")
}

// complete completes the query for events of a job, or of an item of it.
func (o *eventsOptions) complete(job jobs.Job, itemID string) (err error) {
	if o.query.ItemID != "" {
		if o.query.ItemID, _, err = labelsOf(job).find(o.query.ItemID); err != nil {
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
		o.query.Matches = events.ContainingText(o.search)
	}
	if o.regex {
		expr, err := regexp.Compile(o.search)
		if err != nil {
			return usagef("%w", err)
		}
		o.query.Matches = events.Containing(expr)
	}
	if o.since > 0 {
		o.query.Since = time.Now().Add(-o.since)
	}
	if id := o.query.AgentID; id != "" && !strings.HasPrefix(id, job.ID+"/") {
		o.query.AgentID = job.ID + "/" + id
	}
	return nil
}

// newEventsReader returns a command that calls run once the options select the events of a job or an item.
func newEventsReader(con *console, use, short string,
	run func(o *eventsOptions, ctx context.Context, con *console, job jobs.Job) error,
) *cobra.Command {
	var o eventsOptions
	cmd := onJobOrItem(con, &cobra.Command{Use: use, Short: short},
		func(ctx context.Context, con *console, job jobs.Job, itemID string) error {
			if err := o.complete(job, itemID); err != nil {
				return err
			}
			return run(&o, ctx, con, job)
		})
	o.add(cmd)
	addFormat(con, cmd, term.JSON, term.JSONL, term.CSV)
	return cmd
}

// list prints events as they are read. A last line that is torn, as by a crash, is a warning.
func (o *eventsOptions) list(_ context.Context, con *console, job jobs.Job) error {
	out := bufio.NewWriter(con.results())
	seen := false
	lines := func(yield func([]byte, error) bool) {
		for line, err := range events.ReadLines(job.EventsDir(), o.query) {
			seen = true
			if !yield(line, err) {
				return
			}
		}
	}
	var label func(index int) string
	if con.look().Width > 0 { // what is for a pipe may be millions of lines
		names := labelsInStore(job)
		defer check.Quietly(names.Close)
		label = names.Label
	}
	err := con.printEvents(out, label, lines)
	if !seen && con.format == term.Human {
		con.sayf("No matching events in job %s.", job.ID)
	}
	return unlessClosed(errors.Join(err, out.Flush()))
}

// follow prints events as they come, and ends with the job. It says so if the process of the job died. When a signal
// stops it, it exits with the code of the signal, without a message.
func (o *eventsOptions) follow(ctx context.Context, con *console, job jobs.Job) error {
	if con.format == term.JSON {
		con.format = term.JSONL
	}
	names := labelsInStore(job)
	defer check.Quietly(names.Close)
	err := untilSignal(ctx, func(ctx context.Context) error {
		lines := events.Follow(ctx, job.EventsDir(), o.query, job.Running)
		return unlessClosed(con.printEvents(con.results(), names.Label, lines))
	})
	if err == nil {
		tellDeath(con, job)
	}
	return err
}

// tellDeath says so when the run of a job that was followed has died.
func tellDeath(con *console, place jobs.Job) {
	if s, err := job.Summarize(place); err == nil && s.State == jobs.Killed {
		con.sayf("The process of job %s has died.", place.ID)
		con.next(nextCommands(place, false, false, 0)...)
	}
}

// printEvents prints lines of the log. If the last of them is torn, it says so. Label returns what an item is called
// besides its id. It may be nil.
func (c *console) printEvents(out io.Writer, label func(index int) string, lines iter.Seq2[[]byte, error]) error {
	lines = untorn(lines, c.err)
	switch c.format {
	case term.JSON, term.JSONL:
		_, err := term.Rows[term.Line]{Format: c.format}.Print(out,
			mapped(lines, func(line []byte) (term.Line, error) { return line, nil }))
		return err
	case term.CSV:
		_, err := term.Rows[view.EventLine]{Format: c.format, Columns: eventColumns}.Print(out,
			mapped(lines, view.ReadEvent))
		return err
	}
	look := c.look()
	for line, err := range lines {
		if err == nil {
			err = view.PrintEvent(out, line, look, label)
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
var eventColumns = append(term.Fields[view.EventLine]("seq", "time", "job_id", "correlation_id", "type"),
	[]term.Column[view.EventLine]{
		{Key: "item_id", Value: func(e view.EventLine) any { return e.Text("item_id") }},
		{Key: "agent_id", Value: func(e view.EventLine) any { return e.Text("agent_id") }},
		{Key: "fields", Value: func(e view.EventLine) any { return e.Rest("item_id", "agent_id") }},
	}...)

// newEventsSearchCommand returns the command that prints the events that contain a text. It is hidden, since ls has
// --search.
func newEventsSearchCommand(con *console) *cobra.Command {
	var o eventsOptions
	cmd := onJobAnd(con, "text", &cobra.Command{
		Use:               "search [job] <text>",
		Short:             "Search the events of a job",
		Hidden:            true,
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(ctx context.Context, con *console, job jobs.Job, text string) error {
		if text == "" {
			return usagef("search text must not be empty")
		}
		o.search = text
		if err := o.complete(job, ""); err != nil {
			return err
		}
		return o.list(ctx, con, job)
	})
	o.add(cmd)
	addFormat(con, cmd, term.JSON, term.JSONL, term.CSV)
	return cmd
}

// newEventsExportCommand returns the command that writes events to a file or to stdout. A single argument is a file if
// it is no job. It is hidden, since ls prints the same.
func newEventsExportCommand(con *console) *cobra.Command {
	var o eventsOptions
	var format term.Format
	var output string
	formats := []term.Format{term.JSONL, term.JSON, term.CSV}
	cmd := &cobra.Command{
		Use:    "export [job] [file]",
		Short:  "Export events to a file",
		Hidden: true,
		Args:   atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if f := term.Format(output); slices.Contains(formats, f) {
				format = f
			} else {
				file = output
			}
			last := len(args) - 1
			if last == 1 || last == 0 && !isJob(args[0], jobByFlags(cmd)) {
				if file != "" {
					return usagef("file given twice: %s, and --output %s", args[last], file)
				}
				file, args = args[last], args[:last]
			}
			job, err := findJobNamed(cmd, args)
			if err == nil {
				err = o.complete(job, "")
			}
			if err != nil {
				return err
			}
			con.format = cmp.Or(format, formatOf(file, term.JSONL))
			return unlessClosed(writeOut(con, cmp.Or(file, "-"), func(w io.Writer) error {
				return con.printEvents(w, nil, events.ReadLines(job.EventsDir(), o.query))
			}))
		},
	}
	addJobID(cmd)
	o.add(cmd)
	addChoice(cmd, &format, "format", "file format (default: from the extension, else jsonl)", formats...)
	addFlag(cmd, &output, "output", "format or output `file`")
	addJSON(cmd, &format)
	return cmd
}

// jobStats is what events stats prints as JSON.
type jobStats struct {
	JobID string `json:"job_id"`
	events.Stats
}

// stats reads the events once and prints their counts, durations and costs.
func (o *eventsOptions) stats(_ context.Context, con *console, job jobs.Job) error {
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
	switch con.format {
	case term.JSON:
		return con.printJSON(s)
	case term.JSONL:
		return json.NewEncoder(con.out).Encode(s)
	case term.CSV:
		_, err := term.Rows[view.StatRow]{
			Format: term.CSV, Columns: term.Fields[view.StatRow]("name", "key", "value"),
		}.Print(con.text(), term.Each(rows))
		return err
	}
	return term.Aligned(con.text(), page)
}
