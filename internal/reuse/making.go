package reuse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

func isKeyed(w *workflow.Workflow) bool { return w.Map != nil && w.Map.Key.Value != "" }

// RefreshIndex makes the index of the results of a job at the end of a run, if a later job of this workflow will ask
// for it.
func RefreshIndex(place jobs.Job, o *job.Opened, m *workflow.Map, takesOver bool) error {
	if m == nil || !o.Fold.Selected || !m.Incremental && !takesOver && len(m.Uses)+len(m.Produces)+len(m.Fingerprint) == 0 {
		return nil
	}
	if err := o.Log.Wait(o.Fold.Seq); err != nil {
		return err
	}
	return indexResults(place, o.Fold, textsOf(m.Fingerprint), m.Key.Value != "")
}

// indexResults makes the results of a job and their index, unless they are as the log has them, for the fields that
// count.
func indexResults(place jobs.Job, s *job.Fold, fields []string, keyed bool) (err error) {
	if job.ResultsFresh(place, s.Outcome) && indexFresh(place, fields) {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("create the index of results: %w", err)
		}
	}()
	n := &notes{groupOf: make([]int16, s.Total), texts: map[int]span{}}
	if n.scratch, err = os.OpenFile(place.ResultsFile()+".files", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.scratch.Close(), os.Remove(n.scratch.Name())) }()
	rows, err := job.RemakeResults(place, s, n.see)
	if err != nil {
		return err
	}
	h, err := newHasher(fields)
	if err != nil {
		return err
	}
	m, ok := job.ReadResultsMeta(place.ResultsMetaFile())
	if !ok {
		return errors.New("the results changed in the meantime")
	}
	store, err := items.OpenStore(place.ItemsFile())
	if err != nil {
		return err
	}
	defer check.Join(&err, store.Close)
	head := indexHead{Keyed: keyed, Fields: strings.Join(fields, "\n"), Jobs: n.groups, Seq: m.Seq, Results: m.Sum}
	return writeIndex(place.IndexFile(), head, n.entries(store.Cursor(), h, rows), io.NewSectionReader(n.scratch, 0, n.offset))
}

// notes are what an index has of the items of a job more than their rows.
type notes struct {
	// groups are the fingerprints so far, and groupOf which of them an item was run with, by its index, from 1. It is 0
	// if that is not known.
	groups  []events.Fingerprint
	groupOf []int16

	// scratch has texts about the files of items, one after the other up to offset, and texts where the one of an item
	// is, by its index. last is the text at the end, which many items share.
	scratch *os.File
	offset  int64
	texts   map[int]span
	last    []byte
}

// see notes what a record of the log says.
func (n *notes) see(r events.Record) error {
	switch e := r.Event.(type) {
	case events.PhaseStarted:
		if e.Fingerprint != nil {
			n.groups = append(n.groups, *e.Fingerprint)
		}
	case events.FingerprintChanged:
		n.groups = append(n.groups, e.Fingerprint)
	}
	result, ok := events.ResultOf(r.Event)
	if !ok {
		return nil
	}
	index := result.Index
	if index >= 0 && index < len(n.groupOf) { // else the results are not made
		n.groupOf[index] = int16(len(n.groups))
	}
	if result.How == events.Failed {
		return nil
	}
	if len(result.Uses)+len(result.Produced) == 0 {
		delete(n.texts, index)
		return nil
	}
	data, err := json.Marshal(result.ItemFiles)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, n.last) {
		if _, err := n.scratch.Write(data); err != nil {
			return err
		}
		n.last, n.offset = data, n.offset+int64(len(data))
	}
	n.texts[index] = span{Offset: n.offset - int64(len(data)), Length: len(data)}
	return nil
}

// entries yields an entry for each row.
func (n *notes) entries(c *items.Cursor, h *hasher, rows []job.Row) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		var offset int64
		for i, row := range rows {
			it, err := c.Next()
			if err != nil {
				yield(entry{}, err)
				return
			}
			if row.Length == 0 {
				continue
			}
			e := entry{
				Raw: digestOf(it.Data), Data: h.Of(it.Data), ID: digestOf([]byte(it.ID)), Index: i,
				Group: int(n.groupOf[i]) - 1, OK: row.OK, Row: span{Offset: offset, Length: int(row.Length)}, Text: n.texts[i],
			}
			offset += int64(row.Length)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// indexFresh reports whether the index of a job is that of its results, for the fields that count.
func indexFresh(place jobs.Job, fields []string) bool {
	m, ok := job.ReadResultsMeta(place.ResultsMetaFile())
	if !ok {
		return false
	}
	x, err := openIndex(place.IndexFile())
	if err != nil {
		return false
	}
	defer check.Quietly(x.Close)
	return x.Seq == m.Seq && x.Results == m.Sum && x.Fields == strings.Join(fields, "\n")
}
