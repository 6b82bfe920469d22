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
	"strings"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/fingerprint"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/retry"
	"prodigy/internal/spend"
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
	Node       string                     `json:"node,omitempty"` // the worker of a fleet that ran it
	// the item of an earlier job whose result this is; absent: it was run in this one
	From *origin `json:"reused_from,omitempty"`
	// of its agents, in all attempts; absent when none is known
	CostUSD *spend.USD `json:"cost_usd,omitempty"`
	// agents of which nobody knows what they have cost
	Unknown   int        `json:"cost_unknown,omitempty"`
	ErrorType retry.Type `json:"error_type,omitempty"` // of a failed item
	// of a failed item: what became of its last agent
	Outcome   string `json:"outcome,omitempty"`
	SessionID string `json:"session_id,omitempty"` // of that agent
	// of a job with workspaces: that has the work of the item in the result
	Commit string `json:"commit,omitempty"`
}

// origin is an item of an earlier job.
type origin struct {
	JobID  string `json:"job_id"`
	ItemID string `json:"item_id"`
}

// mapResult returns what ${map.…} stands for. The results are made if they are not there as the log has them.
func (j *job) mapResult() (*agent.MapResult, error) {
	if err := j.makeResults(); err != nil {
		return nil, err
	}
	m := j.state.Policy.Metrics()
	missing := ""
	if namesAny(stepsOf(j.workflow.Reduce), "missing_file") || namesAny(stepsOf(j.workflow.Merge), "missing_file") {
		missing = j.place.MissingFile()
		if err := j.writeMissing(missing); err != nil {
			return nil, fmt.Errorf("list the items without a success: %w", err)
		}
	}
	return &agent.MapResult{
		Total: m.TotalItems, Successful: m.Successful, Failed: m.Failed, Skipped: m.Skipped, FailureRate: m.FailureRate,
		Duration: j.state.phase("map").Duration, ResultsFile: j.place.ResultsFile(), MissingFile: missing,
		Spent: j.state.Spent.Map,
	}, nil
}

// writeMissing writes the items that have not succeeded to a file, each as a line of JSON, in order.
func (j *job) writeMissing(path string) (err error) {
	partial := path + ".partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	lines := json.NewEncoder(buffered)
	lines.SetEscapeHTML(false)
	cursor := j.store.Cursor()
	for i := range j.state.Total {
		status := j.state.Status.At(i)
		if status == errorpolicy.Succeeded {
			err = cursor.Skip()
		} else {
			var it items.Item
			if it, err = cursor.Next(); err == nil {
				err = lines.Encode(missingItem{it.ID, i, status.Result(), it.Shown()})
			}
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
	if err := errors.Join(buffered.Flush(), out.Sync(), out.Close()); err != nil {
		return err
	}
	return jobs.Rename(partial, path)
}

// missingItem is a line of missing.jsonl: an item that has not succeeded.
type missingItem struct {
	ItemID string          `json:"item_id"`
	Index  int             `json:"index"`
	Status string          `json:"status"` // failed or skipped
	Item   json.RawMessage `json:"item"`
}

// makeResults makes the results, unless they are whole and have every outcome that the log has.
func (j *job) makeResults() error {
	if err := j.log.Wait(j.state.Seq); err != nil {
		return err
	}
	return makeResults(j.place, j.state)
}

// refreshResults is makeResults for results that were made before.
func (j *job) refreshResults() error {
	if !j.state.Selected || !hadResults(j.place) {
		return nil
	}
	return j.makeResults()
}

// UpdateResults makes the results of a job again if they were made before and are damaged or behind its log, as
// a run that was killed may leave them. It leaves a job that is running alone, because that does it itself.
func UpdateResults(place jobs.Job) error {
	if !hadResults(place) {
		return nil
	}
	lock, err := place.Lock()
	if errors.Is(err, jobs.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(updateResults(place), lock.Unlock())
}

// updateResults is UpdateResults of a job whose lock is held.
func updateResults(place jobs.Job) error {
	meta, err := place.ReadMeta()
	if err != nil {
		return unusable(place, err)
	}
	policy, err := recordedPolicy(place, meta)
	if err != nil {
		return err
	}
	known, err := readCheckpoint(place, policy).restore(nil)
	if err != nil {
		return unusable(place, err)
	}
	if err := followLog(known.rest, known.state.replay, func([]events.Record) error { return nil }); err != nil {
		return unusable(place, err)
	}
	return makeResults(place, known.state)
}

// hadResults reports whether the results of a job were ever made. Nothing but their companion may be left of them.
func hadResults(place jobs.Job) bool {
	_, rows := os.Stat(place.ResultsFile())
	_, meta := os.Stat(place.ResultsMetaFile())
	return rows == nil || meta == nil
}

func makeResults(place jobs.Job, s *state) error {
	if resultsFresh(place, s.Outcome) {
		return nil
	}
	if err := writeResults(place, s, nil); err != nil {
		return fmt.Errorf("make the results: %w", err)
	}
	return nil
}

// resultsMeta is the contents of results.meta.json, one sealed line beside results.jsonl. The rows themselves
// are for users, and are rows only. It is written after them, so that after a crash it fits either them or
// nothing.
type resultsMeta struct {
	Seq  int64  `json:"seq"` // the last record of the log that gave a row
	Rows int    `json:"rows"`
	Size int64  `json:"size"`
	Sum  string `json:"crc32c"` // of the file of results
}

func (m resultsMeta) write(path string) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return jobs.WriteFile(path, append(jobs.Seal(line, 0), '\n'))
}

// readResultsMeta returns false when there is no companion, or a damaged one.
func readResultsMeta(path string) (m resultsMeta, ok bool) {
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

// resultsFresh reports whether the results are those of a log whose last outcome is the given record, to the byte.
func resultsFresh(place jobs.Job, outcome int64) bool {
	m, ok := readResultsMeta(place.ResultsMetaFile())
	if !ok || m.Seq != outcome {
		return false
	}
	f, err := os.Open(place.ResultsFile())
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read from
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
	m, ok := readResultsMeta(place.ResultsMetaFile())
	if !ok {
		return fmt.Errorf("%s is damaged", filepath.Base(place.ResultsMetaFile()))
	}
	if !resultsFresh(place, m.Seq) {
		return errors.New("it is missing or was changed")
	}
	return nil
}

// dropResultsAhead removes the companion of results that have more than the log does. A power loss took its
// end, and the records that take the place of those must not pass for them.
func dropResultsAhead(place jobs.Job, outcome int64) error {
	path := place.ResultsMetaFile()
	if m, ok := readResultsMeta(path); !ok || m.Seq <= outcome {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove what tells of results that the log has lost: %w", err)
	}
	return jobs.SyncDir(filepath.Dir(path))
}

// span is where the last row of an item stands in the file of rows as they came. An item without a row has length 0.
type span struct {
	offset int64
	length int32
	group  int16 // which of the fingerprints of the job it was run with, from 1; 0: it is not known
	ok     bool  // it succeeded
}

// writeResults makes the rows from the log, in the order of the items. Two passes over files keep memory small:
// rows as they come into a scratch file, then by item index into the result. The companion comes last. With
// want the index of the results is made too.
func writeResults(place jobs.Job, s *state, want *indexWanted) (err error) {
	path := place.ResultsFile()
	scratch, err := os.OpenFile(path+".rows", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close(), os.Remove(scratch.Name())) }()
	notes := &rowNotes{}
	if want != nil {
		if notes.scratch, err = os.OpenFile(path+".files", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, notes.scratch.Close(), os.Remove(notes.scratch.Name())) }()
	}
	spans, err := writeRows(place, s.Total, scratch, notes)
	if err != nil {
		return err
	}
	m := resultsMeta{Seq: s.Outcome}
	for _, sp := range spans {
		if sp.length > 0 {
			m.Rows++
			m.Size += int64(sp.length)
		}
	}
	if settled := s.Status.Settled(); m.Rows != settled {
		return unusable(place, fmt.Errorf("%s: the log has the outcomes of %d items, where %d were counted; it is damaged",
			place.EventsDir(), m.Rows, settled))
	}
	partial := path + ".partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sum := jobs.NewChecksum()
	if err := errors.Join(copySpans(io.MultiWriter(out, sum), scratch, spans), out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := jobs.Rename(partial, path); err != nil {
		return err
	}
	m.Sum = jobs.ChecksumText(sum)
	if err := m.write(place.ResultsMetaFile()); err != nil || want == nil {
		return err
	}
	return writeIndex(place, m, spans, notes, want)
}

// rowNotes is what an index has of a job more than its rows. Without a scratch file only the groups are noted.
type rowNotes struct {
	groups  []fingerprint.Job
	scratch *os.File // texts about the files of items, one after the other; nil: they are not wanted
	offset  int64
	texts   map[int]fingerprint.Span // by item index, of those that have files
}

func (n *rowNotes) text(index int, k kept) error {
	if n.scratch == nil {
		return nil
	}
	if len(k.Uses)+len(k.Produced) == 0 {
		delete(n.texts, index)
		return nil
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if n.texts == nil {
		n.texts = map[int]fingerprint.Span{}
	}
	n.texts[index] = fingerprint.Span{Offset: n.offset, Length: len(data)}
	n.offset += int64(len(data))
	_, err = n.scratch.Write(data)
	return err
}

// writeIndex makes the index of rows that have just been written.
func writeIndex(place jobs.Job, m resultsMeta, spans []span, notes *rowNotes, want *indexWanted) (err error) {
	data, err := fingerprint.NewData(want.fields)
	if err != nil {
		return err
	}
	store, err := items.OpenStore(place.ItemsFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	w, err := fingerprint.Create(place.IndexFile(),
		fingerprint.Head{Keyed: want.keyed, Fields: strings.Join(want.fields, "\n")})
	if err != nil {
		return err
	}
	var offset int64
	c := store.Cursor()
	for i, sp := range spans {
		it, err := c.Next()
		if err != nil {
			return errors.Join(err, w.Discard())
		}
		if sp.length == 0 {
			continue
		}
		e := fingerprint.Entry{
			Raw: fingerprint.Of(it.Data), Data: data.Of(it.Data), ID: fingerprint.Of([]byte(it.ID)), Index: i,
			Group: int(sp.group) - 1, OK: sp.ok,
			Row: fingerprint.Span{Offset: offset, Length: int(sp.length)},
		}
		offset += int64(sp.length)
		text := make([]byte, notes.texts[i].Length)
		if _, err := notes.scratch.ReadAt(text, notes.texts[i].Offset); err != nil && len(text) > 0 {
			return errors.Join(err, w.Discard())
		}
		if err := w.Add(e, string(text)); err != nil {
			return errors.Join(err, w.Discard())
		}
	}
	return w.Close(notes.groups, m.Seq, m.Sum)
}

// writeRows writes a row for each outcome in the log, and returns where the last row of each item is, by item index.
func writeRows(place jobs.Job, total int, w io.Writer, notes *rowNotes) ([]span, error) {
	buffered := bufio.NewWriterSize(w, 1<<16)
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // what steps have given stays as it was
	last := make([]span, total)
	costs := map[int]spend.Sum{}
	agents := map[int]events.AgentUsage{} // the last of each item
	unmerged := map[int]row{}             // they are no rows before their work is merged
	var offset int64
	add := func(r row) error {
		line.Reset()
		if c, ok := costs[r.Index]; ok {
			r.Unknown = c.Unknown
			if c.Known() {
				r.CostUSD = &c.Cost
			}
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
		n, err := buffered.Write(line.Bytes())
		last[r.Index] = span{
			offset: offset, length: int32(n), group: int16(len(notes.groups)),
			ok: r.Status == errorpolicy.Succeeded.Result(),
		}
		offset += int64(n)
		return err
	}
	for r, err := range events.Read(place.EventsDir()) {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch e := r.Event.(type) {
		case events.PhaseStarted:
			if e.Fingerprint != nil {
				notes.groups = append(notes.groups, *e.Fingerprint)
			}
		case events.FingerprintChanged:
			notes.groups = append(notes.groups, e.Fingerprint)
		case events.AgentCompleted:
			err = notes.text(e.ItemIndex, kept{e.Uses, e.Produced})
		case events.AgentReused:
			err = notes.text(e.ItemIndex, kept{e.Uses, e.Produced})
		}
		if err != nil {
			return nil, err
		}
		if e, merged := r.Event.(events.WorktreeMerged); merged {
			for i, index := range e.ItemIndexes {
				found, ok := unmerged[index]
				if !ok {
					return nil, unusable(place,
						fmt.Errorf("the log has a merge of item %d, and no attempt at it before", index))
				}
				delete(unmerged, index)
				found.Commit = e.Commits[i]
				if err := add(found); err != nil {
					return nil, err
				}
			}
			continue
		}
		if e, used := r.Event.(events.AgentUsage); used && e.ItemID != "" {
			c := costs[e.ItemIndex]
			c.Add(e.Use())
			costs[e.ItemIndex], agents[e.ItemIndex] = c, e
		}
		if e, failed := r.Event.(events.AgentFailed); failed {
			delete(unmerged, e.ItemIndex)
		}
		found, ok, err := rowOf(place, r.Event, last)
		if err != nil {
			return nil, err
		}
		if e, done := r.Event.(events.AgentCompleted); done && e.Commit != "" {
			unmerged[found.Index] = found
			continue
		}
		if !ok {
			continue
		}
		if a := agents[found.Index]; found.ErrorType != "" && a.Attempt == found.Attempt {
			found.Outcome, found.SessionID = a.Outcome, a.SessionID
		}
		if err := add(found); err != nil {
			return nil, err
		}
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

// rowOf returns the row of an event that gives one. Rows are those before it, by item index.
func rowOf(place jobs.Job, e events.Event, rows []span) (row, bool, error) {
	switch e := e.(type) {
	case events.AgentCompleted:
		if err := known(place, e.ItemIndex, rows); err != nil {
			return row{}, false, err
		}
		output, err := outputOf(place, e.Output, e.OutputFile, e.OutputCRC)
		return row{
			ItemID: e.ItemID, Index: e.ItemIndex, Status: errorpolicy.Succeeded.Result(), Output: output,
			ExitCode:   &e.ExitCode,
			DurationMS: e.DurationMS, Attempt: e.Attempt, Captured: e.Captured, Node: e.Node,
		}, true, err
	case events.AgentReused:
		if err := known(place, e.ItemIndex, rows); err != nil {
			return row{}, false, err
		}
		output, err := outputOf(place, e.Output, e.OutputFile, e.OutputCRC)
		return row{
			ItemID: e.ItemID, Index: e.ItemIndex, Status: errorpolicy.Succeeded.Result(), Output: output,
			ExitCode:   &e.ExitCode,
			DurationMS: e.DurationMS, Attempt: e.Attempt, Captured: e.Captured, From: &origin{e.FromJob, e.FromItem},
		}, true, err
	case events.AgentFailed:
		if err := known(place, e.ItemIndex, rows); err != nil || !givesRow(e, rows[e.ItemIndex].length > 0) {
			return row{}, false, err
		}
		status := e.Status()
		if e.Action.RunsAgain() {
			status = errorpolicy.Dead // as it was
		}
		output, err := outputOf(place, e.Output, e.OutputFile, e.OutputCRC)
		return row{
			ItemID: e.ItemID, Index: e.ItemIndex, Status: status.Result(), Output: output, ExitCode: e.ExitCode,
			DurationMS: e.DurationMS, Attempt: e.Attempt, Captured: e.Captured, ErrorType: e.ErrorType, Node: e.Node,
		}, true, err
	}
	return row{}, false, nil
}

func known(place jobs.Job, index int, rows []span) error {
	if index < 0 || index >= len(rows) {
		return unusable(place, fmt.Errorf("the log has an outcome of item %d of %d", index, len(rows)))
	}
	return nil
}

// Output returns what an item printed, also if it is too large for the log.
func Output(job jobs.Job, e events.AgentCompleted) (string, error) {
	return outputOf(job, e.Output, e.OutputFile, e.OutputCRC)
}

// outputOf returns an output, inline or from its file, which lies with the job wherever that was moved to. Sum
// is empty in old records.
func outputOf(place jobs.Job, inline, file, sum string) (string, error) {
	if file == "" {
		return inline, nil
	}
	path := filepath.Join(place.OutputsDir(), filepath.Base(file))
	data, err := os.ReadFile(path)
	if err != nil {
		return "", unusable(place, err)
	}
	if found := jobs.ChecksumOf(data); sum != "" && found != sum {
		return "", unusable(place, fmt.Errorf("%s: the checksum is %q, but its %d bytes give %q (what can still be had: prodigy fsck %s)",
			path, sum, len(data), found, place.ID))
	}
	return string(data), nil
}
