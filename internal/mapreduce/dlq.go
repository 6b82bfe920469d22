package mapreduce

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// replayChunk bounds how many records are held while the queue catches up.
const replayChunk = 1024

// followLog shows each record of a log to one, and then to chunks, in chunks. A torn last line ends it.
func followLog(log iter.Seq2[events.Record, error], one func(events.Record) errorpolicy.Effects, chunks func([]events.Record) error) error {
	chunk := make([]events.Record, 0, replayChunk)
	for r, err := range log {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err != nil {
			return err
		}
		one(r)
		if chunk = append(chunk, r); len(chunk) < replayChunk {
			continue
		}
		if err := chunks(chunk); err != nil {
			return err
		}
		chunk = chunk[:0]
	}
	return chunks(chunk)
}

// syncQueue brings a queue up to date on how far the log of its job goes.
func syncQueue(place jobs.Job, p *dlq.Projection) error {
	last, err := events.LastSeq(place.EventsDir())
	if err != nil {
		return err
	}
	return p.Behind(last)
}

// lostEnd says that the log of a job ends before a record that something was made from, or nothing. Letters, results and checkpoints are only
// of records that were on disk, so that the log has lost its end.
func lostEnd(place jobs.Job, known int64) (string, error) {
	last, err := events.LastSeq(place.EventsDir())
	if err != nil || known <= last {
		return "", err
	}
	return fmt.Sprintf("the end of the log is lost: it ends with record %d, and there were at least %d", last, known), nil
}

// checkLogEnd is lostEnd for those who only look at a job that nobody runs. Checkpoint is the record of its checkpoint, or 0.
func checkLogEnd(place jobs.Job, meta jobs.Meta, checkpoint int64) error {
	if place.Running() {
		return nil
	}
	known := checkpoint
	if meta.Mode == string(workflow.MapReduce) {
		if applied, err := dlq.Applied(place.DLQFile()); err == nil { // whoever reads the letters is told of an error
			known = max(known, applied)
		}
		if m, ok := readResultsMeta(place.ResultsMetaFile()); ok {
			known = max(known, m.Seq)
		}
	}
	lost, err := lostEnd(place, known)
	if err == nil && lost != "" {
		err = errors.New(lost + "; a resume goes on from there")
	}
	if err != nil {
		return unusable(place, err)
	}
	return nil
}

// UpdateLetters sees that the dead letters of a job are those of its log, before somebody reads them: a run that was killed may have
// recorded a failure and not come to write its letter. It costs next to nothing when there is nothing to do, and leaves a job that is
// running alone, because that does it itself. The secrets that s knows are masked.
func UpdateLetters(place jobs.Job, maxRetries int, s settings.Settings) error {
	behind, err := lettersBehind(place)
	if err != nil || !behind {
		return err
	}
	lock, err := place.Lock()
	if errors.Is(err, jobs.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(updateLetters(place, maxRetries, s), lock.Unlock())
}

// lettersBehind reports whether the log of a job has records that its queue has not followed.
func lettersBehind(place jobs.Job) (bool, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return false, unusable(place, err)
	}
	if meta.Mode != string(workflow.MapReduce) {
		return false, nil
	}
	last, err := events.LastSeq(place.EventsDir())
	if err != nil {
		return false, unusable(place, err)
	}
	applied, err := dlq.Applied(place.DLQFile())
	return applied != last, err
}

// updateLetters is UpdateLetters of a job whose lock is held.
func updateLetters(place jobs.Job, maxRetries int, s settings.Settings) (err error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return unusable(place, err)
	}
	store, err := items.OpenStore(place.ItemsFile())
	if err != nil {
		return unusable(place, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	queue, err := dlq.Open(place.DLQFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Close()) }()
	p := dlq.NewProjection(queue, place.ID, meta.Workflow, maxRetries, maskedData(store, s))
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := syncQueue(place, p); err != nil {
		return err
	}
	policy, err := recordedPolicy(place, meta)
	if err != nil {
		return err
	}
	known, err := readCheckpoint(place, policy).restore(p)
	if err != nil {
		return err
	}
	return followLog(known.rest, func(events.Record) errorpolicy.Effects { return errorpolicy.Effects{} }, p.Apply)
}

// maskedData returns what gives the data of an item for a dead letter, without the secrets of the run that chose it and those of s.
func maskedData(store *items.Store, s settings.Settings) func(index int) (json.RawMessage, error) {
	return func(index int) (json.RawMessage, error) {
		it, err := store.At(index)
		return s.Mask.JSON(it.Shown()), err
	}
}
