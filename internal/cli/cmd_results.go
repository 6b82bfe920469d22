package cli

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

type resultsOptions struct {
	jobID  jobName
	status string
	format format
}

// asTSV is CSV with tabs, which only results have.
const asTSV format = "tsv"

func newResultsCommand(con *console) *cobra.Command {
	o := resultsOptions{format: asJSONL, status: anyStatus}
	cmd := &cobra.Command{
		Use:   "results [job] [item]",
		Short: "Print the results of the items of a job",
		Long: `Print the results of the items of a job: a row for each item that has ended, in the order of the items. While the job runs these are the
items that have ended by now.

A row has item_id, index, status (success, failed or skipped), output, exit_code, duration_ms, attempt (0: none began), and what steps have
captured, which is one column of JSON in csv and tsv. That of a failed item also has error_type, and outcome and session_id of its last agent.
With junit, which CI servers show, each item is a test case; github prints the failed items as annotations
of GitHub Actions. A job that did not come to its end is an error in both. One that was taken over from an earlier job (run --since) also has
reused_from, and one that ran on a fleet node, the name of its worker, but not in csv and tsv.`,
		Example:           "  prodigy results --status failed\n  prodigy results latest --output csv > results.csv",
		Args:              atMostTwo,
		ValidArgsFunction: completeWhy(&o.jobID),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, itemID, err := findJobAndItem(cmd, &o.jobID, args)
			if err != nil {
				return err
			}
			return runResults(con, job, itemID, o)
		},
	}
	addJobID(cmd, &o.jobID)
	addChoice(cmd, &o.status, "status", "only items with this status", anyStatus, "success", "failed", "skipped")
	addChoice(cmd, (*string)(&o.format), "output", "output format", string(asJSONL), string(asJSON), string(asCSV), string(asTSV), string(asJUnit), string(asGitHub))
	flag := cmd.Flags().VarPF(jsonFlag{&o.format}, "json", "", "same as --output json")
	flag.NoOptDefVal = "true"
	return cmd
}

// anyStatus selects all rows.
const anyStatus = "any"

// runResults prints the rows of a job, or only that of an item.
func runResults(con *console, job jobs.Job, itemID string, o resultsOptions) error {
	out := bufio.NewWriter(con.out)
	rows, done := o.writer(out), func() error { return nil }
	if o.format == asJUnit || o.format == asGitHub {
		var err error
		if rows, done, err = o.ciWriter(job, itemID, out); err != nil {
			return err
		}
	}
	err := eachResult(job, func(line []byte) error {
		if o.status != anyStatus || itemID != "" {
			var row struct {
				ItemID string `json:"item_id"`
				Status string `json:"status"`
			}
			err := json.Unmarshal(line, &row)
			if err != nil || o.status != anyStatus && row.Status != o.status || itemID != "" && row.ItemID != itemID {
				return err
			}
		}
		return rows.one(line)
	})
	if err == nil {
		err = rows.end()
	}
	err = errors.Join(err, done())
	if errors.Is(err, mapreduce.ErrNoItems) {
		return refusef("job %s has no items, and so no results: 'prodigy logs %s' shows what its steps have printed", job.ID, job.ID)
	}
	return unlessClosed(errors.Join(err, out.Flush()))
}

// resultRow is a line of results.jsonl.
type resultRow struct {
	ItemID     string          `json:"item_id"`
	Index      int             `json:"index"`
	Status     string          `json:"status"`
	Output     string          `json:"output"`
	ExitCode   *int            `json:"exit_code"`
	DurationMS json.Number     `json:"duration_ms"`
	Attempt    int             `json:"attempt"`
	Captured   json.RawMessage `json:"captured"`
	ErrorType  string          `json:"error_type"`
	Outcome    string          `json:"outcome"`
	SessionID  string          `json:"session_id"`
}

// eachResult calls row with each line of the results of a job, in the order of the items. The line is valid until the next.
func eachResult(job jobs.Job, row func(line []byte) error) error {
	read, write := io.Pipe()
	var making errgroup.Group
	making.Go(func() error {
		err := mapreduce.WriteResults(job, write)
		return errors.Join(err, write.CloseWithError(err))
	})
	err := eachLine(bufio.NewReaderSize(read, 64<<10), row)
	_ = read.CloseWithError(err)
	if made := making.Wait(); made != nil {
		return made
	}
	return err
}

func eachLine(lines *bufio.Reader, do func(line []byte) error) error {
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(line)
		}
		if err != nil {
			return err
		}
	}
}

func (o resultsOptions) writer(w io.Writer) eventWriter {
	switch o.format {
	case asJSON:
		return arrayWriter(w)
	case asCSV, asTSV:
		return resultsTable(w, o.format)
	}
	return eventWriter{func(line []byte) error { return writeLine(w, line) }, func() error { return nil }}
}

// resultsTable prints rows with a header.
func resultsTable(w io.Writer, f format) eventWriter {
	t := csv.NewWriter(w)
	if f == asTSV {
		t.Comma = '\t'
	}
	header := t.Write([]string{"item_id", "index", "status", "output", "exit_code", "duration_ms", "attempt", "captured", "error_type", "outcome", "session_id"})
	return eventWriter{
		one: func(line []byte) error {
			var row resultRow
			if err := errors.Join(header, json.Unmarshal(line, &row)); err != nil {
				return err
			}
			code := ""
			if row.ExitCode != nil {
				code = strconv.Itoa(*row.ExitCode)
			}
			return t.Write([]string{
				row.ItemID, strconv.Itoa(row.Index), row.Status, row.Output, code, row.DurationMS.String(), strconv.Itoa(row.Attempt), string(row.Captured),
				row.ErrorType, row.Outcome, row.SessionID,
			})
		},
		end: func() error {
			t.Flush()
			return t.Error()
		},
	}
}
