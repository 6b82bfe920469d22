package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
	"prodigy/internal/web"
)

// resultsOptions are the flags of results.
type resultsOptions struct {
	// status is that of the items to print, or anyStatus.
	status string
	format term.Format
}

// newResultsCommand returns the command that prints the results of items. Its default format is jsonl: it is for
// programs.
func newResultsCommand(con *console) *cobra.Command {
	o := resultsOptions{format: term.JSONL, status: anyStatus}
	cmd := onJobOrItem(con, &cobra.Command{
		Use:   "results [job] [item]",
		Short: "Print item results",
		Long: `Print item results, one row per finished item, in item order. While the job runs, prints the items
finished so far.

Rows have item_id, index, status (success, failed or skipped), output, exit_code, duration_ms,
attempt (0 if none started) and captured values (a JSON column in csv and tsv). Failed items also
have error_type, and the outcome and session_id of their last agent. Reused items (run --since) have
reused_from, and items that ran on a fleet have node, the name of the worker; csv and tsv omit both,
and have the label of the item in the last column.

joblog has the rows of GNU parallel's --joblog, in the order in which items finished. junit reports
each item as a test case; github prints failures as GitHub Actions annotations. Both report an
unfinished job as an error.`,
		Example: "  prodigy results --status failed\n  prodigy results latest --output csv > results.csv",
	}, o.run)
	addChoice(cmd, &o.status, "status", "filter by status", anyStatus, "success", "failed", "skipped")
	addChoice(cmd, &o.format, "output", "output format", term.JSONL, term.JSON, term.CSV, term.TSV,
		asJoblog, asJUnit, asGitHub)
	addJSON(cmd, &o.format)
	return cmd
}

// Formats of results that CI servers read.
const (
	asJUnit  term.Format = "junit"
	asGitHub term.Format = "github"
)

// asJoblog is the format of GNU parallel's --joblog.
const asJoblog term.Format = "joblog"

// writeJoblog writes the joblog of a job to a file.
func writeJoblog(place jobs.Job, path string) error {
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(job.WriteJoblog(place, file), file.Close())
	}
	if err != nil {
		return fmt.Errorf("write the joblog (prodigy results --output joblog prints it): %w", err)
	}
	return nil
}

// anyStatus selects all rows.
const anyStatus = "any"

// run prints the rows of a job, or only that of an item.
func (o *resultsOptions) run(_ context.Context, con *console, place jobs.Job, itemID string) error {
	out := bufio.NewWriter(con.out)
	lines := term.Those(resultsOf(place), func(line term.Line) bool { return o.wants(line, itemID) })
	var err error
	switch o.format {
	case asJoblog:
		err = job.WriteJoblog(place, out)
	case asJUnit, asGitHub:
		err = o.printForCI(out, place, itemID, lines)
	default:
		names := labelsInStore(place)
		defer check.Quietly(names.Close)
		columns := append(term.Fields[term.Line]("item_id", "index", "status", "output", "exit_code", "duration_ms",
			"attempt", "captured", "error_type", "outcome", "session_id"),
			term.Column[term.Line]{Key: "label", Value: func(line term.Line) any {
				row, _ := readResult(line)
				return names.Label(row.Index)
			}})
		_, err = term.Rows[term.Line]{Format: o.format, Columns: columns}.Print(out, lines)
	}
	if errors.Is(err, job.ErrNoItems) {
		return refusef("job %s has no items, so it has no results; 'prodigy logs%s' shows the output of its steps",
			place.ID, named(place.ID))
	}
	return unlessClosed(errors.Join(err, out.Flush()))
}

// printForCI prints results in such a format.
func (o resultsOptions) printForCI(w io.Writer, place jobs.Job, itemID string, lines iter.Seq2[term.Line, error]) error {
	names := labelsInStore(place)
	defer check.Quietly(names.Close)
	summary, err := job.Summarize(place)
	if err != nil {
		return err
	}
	c := &web.CI{
		Summary: summary, Part: itemID != "" || o.status != anyStatus, Label: names.Label,
		Letters: map[string]dlq.Failure{},
	}
	for e, err := range dlq.Each(place.DLQFile()) {
		if err != nil {
			return err
		}
		c.Letters[e.ItemID] = e.Last()
	}
	rows := mapped(lines, readResult)
	if o.format == asGitHub {
		return c.GitHub(w, rows)
	}
	return c.JUnit(w, rows)
}

// wants reports whether a result has the status, and is that of the item, that were asked for.
func (o resultsOptions) wants(line term.Line, itemID string) bool {
	if o.status == anyStatus && itemID == "" {
		return true
	}
	row, err := readResult(line)
	return err != nil || (o.status == anyStatus || row.Status == o.status) && (itemID == "" || row.ItemID == itemID)
}

// readResult reads a row of the results.
func readResult(line term.Line) (row job.Result, err error) {
	return row, json.Unmarshal(line, &row)
}

// resultsOf yields the results of a job, in the order of the items.
func resultsOf(place jobs.Job) iter.Seq2[term.Line, error] {
	return func(yield func(term.Line, error) bool) {
		read, write := io.Pipe()
		var making errgroup.Group
		making.Go(func() error {
			err := job.WriteResults(place, write)
			return errors.Join(err, write.CloseWithError(err))
		})
		lines, more := bufio.NewReaderSize(read, 64<<10), true
		for more {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			more = yield(line, nil)
		}
		_ = read.Close()
		if err := making.Wait(); err != nil && more {
			yield(nil, err)
		}
	}
}
