package job

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Result is one line of results.jsonl: how one finished item ended.
type Result struct {
	ItemID     string                     `json:"item_id"`
	Index      int                        `json:"index"`
	Status     string                     `json:"status"` // success, failed or skipped
	Output     string                     `json:"output"`
	ExitCode   *int                       `json:"exit_code"` // null when there was none
	DurationMS events.Millis              `json:"duration_ms"`
	Attempt    int                        `json:"attempt"`
	Captured   map[string]json.RawMessage `json:"captured,omitempty"`
	Node       string                     `json:"node,omitempty"` // the worker of a fleet that ran it
	// the item of an earlier job whose result this is; absent: it was run in this one
	From *Origin `json:"reused_from,omitempty"`
	// of its agents, in all attempts; absent when none is known
	CostUSD *limit.USD `json:"cost_usd,omitempty"`
	// agents of which nobody knows what they have cost
	Unknown   int        `json:"cost_unknown,omitempty"`
	ErrorType retry.Type `json:"error_type,omitempty"` // of a failed item
	// of a failed item: what became of its last agent
	Outcome   string `json:"outcome,omitempty"`
	SessionID string `json:"session_id,omitempty"` // of that agent
	// of a job with workspaces: that has the work of the item in the result
	Commit string `json:"commit,omitempty"`
}

// Origin is an item of an earlier job.
type Origin struct {
	JobID  string `json:"job_id"`
	ItemID string `json:"item_id"`
}

// WriteMissing writes the items that have not succeeded to a file, each as a line of JSON, in order.
func (j *Opened) WriteMissing(path string) error {
	return jobs.Make(path+".partial", path, j.writeMissing)
}

func (j *Opened) writeMissing(to io.Writer) (err error) {
	buffered := bufio.NewWriter(to)
	cursor := j.Store.Cursor()
	for i := range j.Total {
		status := j.Status.At(i)
		if status == errorpolicy.Succeeded {
			err = cursor.Skip()
		} else {
			var it items.Item
			if it, err = cursor.Next(); err == nil {
				err = encodeExactly(buffered, missingItem{it.ID, i, status.Result(), it.Shown()})
			}
		}
		if err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// missingItem is a line of missing.jsonl: an item that has not succeeded.
type missingItem struct {
	ItemID string          `json:"item_id"`
	Index  int             `json:"index"`
	Status string          `json:"status"` // failed or skipped
	Item   json.RawMessage `json:"item"`
}

// MakeResults makes the results, unless they are whole and have every outcome that the log has.
func (j *Opened) MakeResults() error {
	if err := j.Log.Wait(j.Seq); err != nil {
		return err
	}
	return MakeResults(j.place, j.Fold)
}

// RefreshResults is MakeResults for results that were made before.
func (j *Opened) RefreshResults() error {
	if !j.Selected || !hadResults(j.place) {
		return nil
	}
	return j.MakeResults()
}

// UpdateResults makes the results of a job again if they were made before and are damaged or behind its log, as
// a run that was killed may leave them. It leaves a job that is running alone, because that does it itself.
func UpdateResults(place jobs.Job) error {
	if !hadResults(place) {
		return nil
	}
	return whileEnded(place, func() error {
		meta, err := place.ReadMeta()
		if err != nil {
			return Unusable(place, err)
		}
		known, err := Read(place, meta)
		if err != nil {
			return err
		}
		return MakeResults(place, known)
	})
}

// hadResults reports whether the results of a job were ever made. Nothing but their companion may be left of them.
func hadResults(place jobs.Job) bool {
	_, rows := os.Stat(place.ResultsFile())
	_, meta := os.Stat(place.ResultsMetaFile())
	return rows == nil || meta == nil
}

// MakeResults makes the results of a job from its log, unless they are whole and have every outcome of s.
func MakeResults(place jobs.Job, s *Fold) error {
	if ResultsFresh(place, s.Outcome) {
		return nil
	}
	if _, err := RemakeResults(place, s, ignore); err != nil {
		return fmt.Errorf("create the results: %w", err)
	}
	return nil
}

// ignore is for who wants to see no records.
func ignore(events.Record) error { return nil }

// ResultsMeta is the contents of results.meta.json, one sealed line beside results.jsonl. The rows themselves
// are for users, and are rows only. It is written after them, so that after a crash it fits either them or
// nothing.
type ResultsMeta struct {
	Seq  int64  `json:"seq"` // the last record of the log that gave a row
	Rows int    `json:"rows"`
	Size int64  `json:"size"`
	Sum  string `json:"crc32c"` // of the file of results
}

// ReadResultsMeta returns false when there is no companion, or a damaged one.
func ReadResultsMeta(path string) (m ResultsMeta, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return m, false
	}
	line := bytes.TrimSuffix(data, []byte("\n"))
	if sealed, err := jobs.CheckSeal(line); !sealed || err != nil {
		return m, false
	}
	return m, json.Unmarshal(line, &m) == nil
}

// ResultsFresh reports whether the results are those of a log whose last outcome is the given record, to the byte.
func ResultsFresh(place jobs.Job, outcome int64) bool {
	m, ok := ReadResultsMeta(place.ResultsMetaFile())
	if !ok || m.Seq != outcome {
		return false
	}
	f, err := os.Open(place.ResultsFile())
	if err != nil {
		return false
	}
	defer check.Quietly(f.Close)
	sum := jobs.NewChecksum()
	size, err := io.Copy(sum, f)
	return err == nil && size == m.Size && jobs.ChecksumText(sum) == m.Sum
}

// ErrNoCompanion means that nothing tells whether results are as they were made: results.meta.json is missing, which
// older versions did not write.
var ErrNoCompanion = errors.New("results.meta.json is missing")

// CheckResults returns an error if the results of a job were made and do not match their companion. The job
// must not be running.
func CheckResults(place jobs.Job) error {
	if !hadResults(place) {
		return nil
	}
	if _, err := os.Stat(place.ResultsMetaFile()); errors.Is(err, os.ErrNotExist) {
		return ErrNoCompanion
	}
	m, ok := ReadResultsMeta(place.ResultsMetaFile())
	if !ok {
		return fmt.Errorf("%s is damaged", filepath.Base(place.ResultsMetaFile()))
	}
	if !ResultsFresh(place, m.Seq) {
		return errors.New("the file is missing or was modified")
	}
	return nil
}

// dropResultsAhead removes the companion of results that have more than the log does. A power loss took its
// end, and the records that take the place of those must not pass for them.
func dropResultsAhead(place jobs.Job, outcome int64) error {
	path := place.ResultsMetaFile()
	if m, ok := ReadResultsMeta(path); !ok || m.Seq <= outcome {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove results that are no longer in the log: %w", err)
	}
	return jobs.SyncDir(filepath.Dir(path))
}

// Row says where the last row of an item is, in the order in which they came. An item without a row has length 0.
type Row struct {
	offset int64
	Length int32
	OK     bool // it succeeded
}

// RemakeResults makes the rows from the log, in the order of the items. Two passes over files keep memory small:
// rows as they come into a scratch file, then by item index into the result. The companion comes last. see is
// called with each record that may say something of a result, before its row is made.
func RemakeResults(place jobs.Job, s *Fold, see func(events.Record) error) (rows []Row, err error) {
	path := place.ResultsFile()
	scratch, err := os.OpenFile(path+".rows", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Close(), os.Remove(scratch.Name())) }()
	if rows, err = writeRows(place, s.Total, scratch, see); err != nil {
		return nil, err
	}
	m := ResultsMeta{Seq: s.Outcome}
	for _, r := range rows {
		if r.Length > 0 {
			m.Rows++
			m.Size += int64(r.Length)
		}
	}
	if settled := s.Status.Settled(); m.Rows != settled {
		return nil, Unusable(place, fmt.Errorf("%s is damaged: the log has outcomes of %d items, expected %d",
			place.EventsDir(), m.Rows, settled))
	}
	sum := jobs.NewChecksum()
	err = jobs.Make(path+".partial", path, func(to io.Writer) error {
		return copyRows(io.MultiWriter(to, sum), scratch, rows)
	})
	if err != nil {
		return nil, err
	}
	m.Sum = jobs.ChecksumText(sum)
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return rows, jobs.WriteFile(place.ResultsMetaFile(), append(jobs.Seal(line, 0), '\n'))
}

// rowless are the most frequent events that say nothing of a result.
var rowless = []events.Event{
	events.AgentStarted{}, events.StepCompleted{}, events.StepFailed{}, events.StepRetrying{}, events.DLQItemAdded{},
}

// writeRows writes a row for each outcome in the log, and returns the last row of each item, by item index.
func writeRows(place jobs.Job, total int, to io.Writer, see func(events.Record) error) ([]Row, error) {
	w := &rowWriter{
		place: place, to: bufio.NewWriterSize(to, 1<<16), last: make([]Row, total), costs: map[int]limit.Sum{},
		agents: map[int]events.AgentUsage{}, unmerged: map[int]Result{},
	}
	for r, err := range events.Read(place.EventsDir(), rowless...) {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err == nil {
			err = see(r)
		}
		if err == nil {
			err = w.record(r.Event)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.last, w.to.Flush()
}

// rowWriter writes rows as they come.
type rowWriter struct {
	place  jobs.Job
	to     *bufio.Writer
	line   bytes.Buffer
	offset int64
	last   []Row
	costs  map[int]limit.Sum

	// agents has the last usage of each item, by its index.
	agents map[int]events.AgentUsage

	// unmerged are results that are not rows before their work is merged.
	unmerged map[int]Result
}

// record writes the rows that an event gives.
func (w *rowWriter) record(e events.Event) error {
	switch e := e.(type) {
	case events.AgentUsage:
		if e.ItemID != "" {
			c := w.costs[e.ItemIndex]
			c.Add(e.Use())
			w.costs[e.ItemIndex], w.agents[e.ItemIndex] = c, e
		}
		return nil
	case events.WorktreeMerged:
		for i, index := range e.ItemIndexes {
			found, ok := w.unmerged[index]
			if !ok {
				return Unusable(w.place,
					fmt.Errorf("the log has a merge of item %d without an attempt", index))
			}
			delete(w.unmerged, index)
			found.Commit = e.Commits[i]
			if err := w.add(found); err != nil {
				return err
			}
		}
		return nil
	case events.AgentFailed:
		delete(w.unmerged, e.ItemIndex)
	}
	found, ok, err := w.resultOf(e)
	if err != nil || !ok {
		return err
	}
	if e, done := e.(events.AgentCompleted); done && e.Commit != "" {
		w.unmerged[found.Index] = found
		return nil
	}
	if a := w.agents[found.Index]; found.ErrorType != "" && a.Attempt == found.Attempt {
		found.Outcome, found.SessionID = a.Outcome, a.SessionID
	}
	return w.add(found)
}

func (w *rowWriter) add(r Result) error {
	w.line.Reset()
	if c, ok := w.costs[r.Index]; ok {
		r.Unknown = c.Unknown
		if c.Known() {
			r.CostUSD = &c.Cost
		}
	}
	if err := encodeExactly(&w.line, r); err != nil {
		return err
	}
	n, err := w.to.Write(w.line.Bytes())
	w.last[r.Index] = Row{offset: w.offset, Length: int32(n), OK: r.Status == errorpolicy.Succeeded.Result()}
	w.offset += int64(n)
	return err
}

func copyRows(w io.Writer, from io.ReaderAt, rows []Row) error {
	buffered := bufio.NewWriterSize(w, 1<<16)
	for _, r := range rows {
		if _, err := io.Copy(buffered, io.NewSectionReader(from, r.offset, int64(r.Length))); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// resultOf returns the result that an event gives its item, if it does.
func (w *rowWriter) resultOf(e events.Event) (r Result, ok bool, err error) {
	of, ok := events.ResultOf(e)
	if !ok {
		return r, false, nil
	}
	status := errorpolicy.Succeeded
	if of.How == events.Failed {
		status = cmp.Or(of.Status(), errorpolicy.Dead) // one that is tried again is a dead letter as it was
	}
	r = Result{
		ItemID: of.ID, Index: of.Index, Status: status.Result(), ExitCode: of.ExitCode, DurationMS: of.DurationMS,
		Attempt: of.Attempt, Captured: of.Captured, ErrorType: of.Type, Node: of.Node,
	}
	if reused, ok := e.(events.AgentReused); ok {
		r.From = &Origin{reused.FromJob, reused.FromItem}
	}
	if r.Index < 0 || r.Index >= len(w.last) {
		return r, false, Unusable(w.place, fmt.Errorf("the log has an outcome of item %d of %d", r.Index, len(w.last)))
	}
	if e, failed := e.(events.AgentFailed); failed && !givesRow(e, w.last[r.Index].Length > 0) {
		return r, false, nil
	}
	r.Output, err = Output(w.place, of.ItemOutput)
	return r, true, err
}

// Output returns what an item printed, also if it is too large for the log. Its file lies with the job, wherever that
// was moved to.
func Output(place jobs.Job, o events.ItemOutput) (string, error) {
	if o.OutputFile == "" {
		return o.Output, nil
	}
	path := filepath.Join(place.OutputsDir(), filepath.Base(o.OutputFile))
	data, err := os.ReadFile(path)
	if err != nil {
		return "", Unusable(place, err)
	}
	if found := jobs.ChecksumOf(data); o.OutputCRC != "" && found != o.OutputCRC {
		return "", Unusable(place, fmt.Errorf(
			"%s: checksum is %q, but its %d bytes have %q (to see what is damaged: prodigy fsck %s)",
			path, o.OutputCRC, len(data), found, place.ID))
	}
	return string(data), nil
}

// KeepLarge moves an output that is too large for a record to a file.
func KeepLarge(place jobs.Job, o *events.ItemOutput, index int, attempt string) error {
	if len(o.Output) <= events.MaxOutput {
		return nil
	}
	data := []byte(o.Output)
	o.OutputFile = filepath.Join(place.OutputsDir(), strconv.Itoa(index)+"-"+attempt+".out")
	o.Output, o.OutputCRC = "", jobs.ChecksumOf(data)
	if err := jobs.WriteFile(o.OutputFile, data); err != nil {
		return fmt.Errorf("keep the output: %w", err)
	}
	return nil
}

// ErrNoItems is the error for the results of a job without items.
var ErrNoItems = errors.New("the job has no items")

// WriteResults writes the rows of results.jsonl as the log has them by now, also of a job that goes on: a row for each
// item that has ended, in the order of the items. It changes no file of the job.
func WriteResults(place jobs.Job, w io.Writer) (err error) {
	store, err := items.OpenStore(place.ItemsFile())
	if errors.Is(err, os.ErrNotExist) {
		return ErrNoItems
	}
	if err != nil {
		return Unusable(place, err)
	}
	known := store.Len()
	if err := store.Close(); err != nil {
		return err
	}
	scratch, err := os.CreateTemp("", "prodigy-results-*") // mode 0600
	if err != nil {
		return fmt.Errorf("create the results: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close(), os.Remove(scratch.Name())) }()
	rows, err := writeRows(place, known, scratch, ignore)
	if err != nil {
		return err
	}
	return copyRows(w, scratch, rows)
}
