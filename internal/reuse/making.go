package reuse

import (
	"encoding/json"
	"errors"
	"fmt"
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
			err = fmt.Errorf("make the index of the results: %w", err)
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
	w, err := createIndex(place.IndexFile(), indexHead{Keyed: keyed, Fields: strings.Join(fields, "\n")})
	if err != nil {
		return err
	}
	if err := n.addTo(w, place, h, rows); err != nil {
		return errors.Join(err, w.Discard())
	}
	m, ok := job.ReadResultsMeta(place.ResultsMetaFile())
	if !ok {
		return errors.Join(errors.New("the results were changed meanwhile"), w.Discard())
	}
	return w.Close(n.groups, m.Seq, m.Sum)
}

// notes are what an index has of the items of a job more than their rows.
type notes struct {
	// groups are the fingerprints so far, and groupOf which of them an item was run with, by its index, from 1. It is 0
	// if that is not known.
	groups  []events.Fingerprint
	groupOf []int16

	// scratch has texts about the files of items, one after the other up to offset, and texts where the one of an item
	// is, by its index.
	scratch *os.File
	offset  int64
	texts   map[int]span
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
	n.texts[index] = span{Offset: n.offset, Length: len(data)}
	n.offset += int64(len(data))
	_, err = n.scratch.Write(data)
	return err
}

// addTo adds an entry for each row to an index.
func (n *notes) addTo(w *indexWriter, place jobs.Job, h *hasher, rows []job.Row) (err error) {
	store, err := items.OpenStore(place.ItemsFile())
	if err != nil {
		return err
	}
	defer check.Join(&err, store.Close)
	var offset int64
	c := store.Cursor()
	for i, row := range rows {
		it, err := c.Next()
		if err != nil {
			return err
		}
		if row.Length == 0 {
			continue
		}
		e := entry{
			Raw: digestOf(it.Data), Data: h.Of(it.Data), ID: digestOf([]byte(it.ID)), Index: i,
			Group: int(n.groupOf[i]) - 1, OK: row.OK,
			Row: span{Offset: offset, Length: int(row.Length)},
		}
		offset += int64(row.Length)
		text := make([]byte, n.texts[i].Length)
		if _, err := n.scratch.ReadAt(text, n.texts[i].Offset); err != nil && len(text) > 0 {
			return err
		}
		if err := w.Add(e, string(text)); err != nil {
			return err
		}
	}
	return nil
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
