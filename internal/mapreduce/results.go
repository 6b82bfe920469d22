package mapreduce

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

// row is one line of results.jsonl: how one finished item ended.
type row struct {
	ItemID     string                     `json:"item_id"`
	Index      int                        `json:"index"`
	Status     string                     `json:"status"` // success, failed or skipped
	Output     string                     `json:"output"`
	ExitCode   *int                       `json:"exit_code"` // null when there was none
	DurationMS events.Millis              `json:"duration_ms"`
	Attempt    int                        `json:"attempt"`
	Captured   map[string]json.RawMessage `json:"captured,omitempty"`
}

// mapResult makes results.jsonl and returns what ${map.…} stands for.
func (j *job) mapResult() (*agent.MapResult, error) {
	if err := j.log.Wait(j.state.seq); err != nil {
		return nil, err
	}
	if err := writeResults(j.place.EventsDir(), j.place.ResultsFile()); err != nil {
		return nil, fmt.Errorf("make the results: %w", err)
	}
	m := j.state.policy.Metrics()
	return &agent.MapResult{
		Total: m.TotalItems, Successful: m.Successful, Failed: m.Failed, Skipped: m.Skipped, FailureRate: m.FailureRate,
		Duration: j.state.phase("map").duration, ResultsFile: j.place.ResultsFile(),
	}, nil
}

// span is where the last row of an item stands in the file of rows as they came. An item without a row has length 0.
type span struct {
	offset int64
	length int
}

// writeResults makes the rows from the log, in the order of the items. Two passes over files keep memory small: rows as they come
// into a scratch file, then by item index into the result.
func writeResults(logDir, path string) (err error) {
	scratch, err := os.CreateTemp(filepath.Dir(path), "results-*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close(), os.Remove(scratch.Name())) }()
	spans, err := writeRows(logDir, scratch)
	if err != nil {
		return err
	}
	partial := path + ".partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(copySpans(out, scratch, spans), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// writeRows writes a row for each end of an item that the log tells, and returns by item index where the last one stands.
func writeRows(logDir string, w io.Writer) ([]span, error) {
	buffered := bufio.NewWriterSize(w, 1<<16)
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // what steps have given stays as it was
	var last []span
	var offset int64
	for r, err := range events.Read(logDir) {
		if err != nil {
			return nil, err
		}
		found, ok, err := rowOf(r.Event)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		line.Reset()
		if err := enc.Encode(found); err != nil {
			return nil, err
		}
		n, err := buffered.Write(line.Bytes())
		if err != nil {
			return nil, err
		}
		for len(last) <= found.Index {
			last = append(last, span{})
		}
		last[found.Index] = span{offset: offset, length: n}
		offset += int64(n)
	}
	return last, buffered.Flush()
}

func copySpans(w io.Writer, from io.ReaderAt, spans []span) error {
	buffered := bufio.NewWriterSize(w, 1<<16)
	for _, s := range spans {
		if _, err := io.Copy(buffered, io.NewSectionReader(from, s.offset, int64(s.length))); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// rowOf returns the row of an event that ends an item.
func rowOf(e events.Event) (row, bool, error) {
	switch e := e.(type) {
	case events.AgentCompleted:
		output, err := outputOf(e.Output, e.OutputFile)
		return row{
			ItemID: e.ItemID, Index: e.ItemIndex, Status: errorpolicy.Succeeded.Result(), Output: output, ExitCode: &e.ExitCode,
			DurationMS: e.DurationMS, Attempt: e.Attempt, Captured: e.Captured,
		}, true, err
	case events.AgentFailed:
		if e.Action.RunsAgain() {
			return row{}, false, nil
		}
		output, err := outputOf(e.Output, e.OutputFile)
		return row{
			ItemID: e.ItemID, Index: e.ItemIndex, Status: e.Status().Result(), Output: output, ExitCode: e.ExitCode,
			DurationMS: e.DurationMS, Attempt: e.Attempt, Captured: e.Captured,
		}, true, err
	}
	return row{}, false, nil
}

func outputOf(inline, file string) (string, error) {
	if file == "" {
		return inline, nil
	}
	data, err := os.ReadFile(file)
	return string(data), err
}
