package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

func newEventsStatsCommand(con *console) *cobra.Command {
	const short = "Count the events of a job, and how long its agents took"
	return newEventsReader("stats [job]", short, func(_ context.Context, job jobs.Job, o eventsOptions) error {
		return runEventsStats(con, job, o)
	})
}

// jobStats is what events stats prints as JSON.
type jobStats struct {
	JobID string `json:"job_id"`
	events.Stats
}

func runEventsStats(con *console, job jobs.Job, o eventsOptions) error {
	var counted events.Stats
	for line, err := range events.ReadLines(job.EventsDir(), o.query) {
		if errors.Is(err, events.ErrTorn) {
			_, _ = fmt.Fprintf(con.err, "warning: %v\n", err)
			break
		}
		if err != nil {
			return err
		}
		if err := counted.AddLine(line); err != nil {
			return err
		}
	}
	s := jobStats{job.ID, counted.Sum()}
	switch o.format {
	case asJSON:
		return printJSON(con.out, s)
	case asJSONL:
		return json.NewEncoder(con.out).Encode(s)
	case asCSV:
		return s.table(con.text())
	}
	return s.print(con.text())
}

// rows returns the statistics as rows of name, key and value.
func (s jobStats) rows() [][3]string {
	rows := [][3]string{{"events", "", strconv.Itoa(s.Events)}}
	if s.Events > 0 {
		rows = append(rows, [3]string{"first", "", s.First.Format(time.RFC3339Nano)}, [3]string{"last", "", s.Last.Format(time.RFC3339Nano)})
	}
	number := func(name string, n int) { rows = append(rows, [3]string{name, "", strconv.Itoa(n)}) }
	rows = append(rows, [3]string{"span_ms", "", msText(s.SpanMS)}, [3]string{"per_second", "", strconv.FormatFloat(s.PerSecond, 'f', 3, 64)})
	number("items", s.Items)
	number("agents", s.Agents)
	number("attempts", s.Attempts)
	number("retries", s.Retries)
	number("step_retries", s.StepRetries)
	number("durations", s.Durations.Count)
	for _, d := range []struct {
		key   string
		value events.Millis
	}{{"p50_ms", s.Durations.P50}, {"p95_ms", s.Durations.P95}, {"max_ms", s.Durations.Max}} {
		rows = append(rows, [3]string{"duration", d.key, msText(d.value)})
	}
	for _, t := range slices.Sorted(maps.Keys(s.Types)) {
		rows = append(rows, [3]string{"type", t, strconv.Itoa(s.Types[t])})
	}
	for _, t := range slices.Sorted(maps.Keys(s.ErrorTypes)) {
		rows = append(rows, [3]string{"error_type", string(t), strconv.Itoa(s.ErrorTypes[t])})
	}
	return rows
}

func msText(m events.Millis) string {
	text, err := m.MarshalJSON()
	if err != nil {
		panic("BUG: a length of time does not encode: " + err.Error())
	}
	return string(text)
}

func (s jobStats) table(w io.Writer) error {
	t := csv.NewWriter(w)
	_ = t.Write([]string{"name", "key", "value"}) // reported by Error
	for _, row := range s.rows() {
		_ = t.Write(row[:])
	}
	t.Flush()
	return t.Error()
}

func (s jobStats) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // reported by Flush
	}
	line("job", "%s", s.JobID)
	if s.Events > 0 {
		line("time", "%s to %s", s.First.Local().Format(time.DateTime), s.Last.Local().Format(time.DateTime))
	}
	line("events", "%d in %s, %.1f a second", s.Events, duration.Format(time.Duration(s.SpanMS)), s.PerSecond)
	line("items", "%d", s.Items)
	line("attempts", "%d by %s, %d retried", s.Attempts, counted(s.Agents, "agent"), s.Retries)
	line("step retries", "%d", s.StepRetries)
	if d := s.Durations; d.Count > 0 {
		line("took", "half of the agents up to %s, 95 %% up to %s, the longest %s", duration.Format(time.Duration(d.P50)),
			duration.Format(time.Duration(d.P95)), duration.Format(time.Duration(d.Max)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Types)) {
		line("  "+name, "%d", s.Types[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.ErrorTypes)) {
		line("errors of type "+string(name), "%d", s.ErrorTypes[name])
	}
	return t.Flush()
}
