package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/dlq"
)

type dlqExportOptions struct {
	jobID  string
	file   string // - is stdout
	format format // empty: by the extension of the file
}

func newDLQExportCommand(con *console) *cobra.Command {
	var o dlqExportOptions
	cmd := &cobra.Command{
		Use:   "export <file>",
		Short: "Write the dead letters of a job to a file (- is stdout)",
		Args:  exactly("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			o.file = args[0]
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
