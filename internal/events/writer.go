package events

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"
)

// syncEvery is how long a written record may wait for its sync.
const syncEvery = 50 * time.Millisecond

// writer is the goroutine that writes a log. Its fields are its own; it meets the others in the log, under
// the log's mutex.
//
// What is written is made safe and shown by a goroutine beside it, one at a time, so that writing goes on
// while the disk is busy: a prodigy that is killed then has lost nothing that it had done.
type writer struct {
	output
	log      *Log
	lines    *encoder // taken from the log, or the spare one
	unsynced []Record // written, but not as safe as promised yet
	timer    *time.Timer
	ticking  bool       // the timer runs
	syncing  bool       // records are being made safe
	synced   chan error // how that ended
	pending  bool       // what has been written meanwhile is to follow at once
}

// task is what the log has for its writer.
type task struct {
	records []Record // whose lines were swapped into writer.lines
	urgent  bool     // somebody waits for a sync
	last    bool     // nothing comes after this
}

// run writes until the log is closed or an error comes up.
func (w *writer) run() error {
	for more := true; more; {
		due := false
		var err error
		select {
		case <-w.log.wake:
		case <-w.timer.C:
			w.ticking, due = false, true
		case err = <-w.synced:
			w.syncing = false
			due, w.pending = w.pending, false
		}
		t := w.take()
		if err == nil {
			err = w.do(t, due)
		}
		if err != nil {
			w.fail(err)
		}
		more = err == nil && !t.last
	}
	w.timer.Stop()
	if err := w.await(); err != nil {
		w.fail(err)
	}
	w.end()
	return nil
}

// await waits until nothing is being made safe any more.
func (w *writer) await() error {
	if !w.syncing {
		return nil
	}
	w.syncing = false
	return <-w.synced
}

// take swaps the pending lines of the log for empty ones.
func (w *writer) take() task {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	w.lines.lines.Reset()
	w.lines, l.pending = l.pending, w.lines
	t := task{records: l.records, last: l.closing || l.err != nil}
	l.records = nil
	t.urgent = min(l.wanted, l.seq) > l.safe
	l.changed.Broadcast()
	return t
}

// do writes what was taken, and has it made safe if it is time to.
func (w *writer) do(t task, due bool) error {
	if err := w.write(t.records); err != nil {
		return err
	}
	switch {
	case t.last:
		if err := w.await(); err != nil || len(w.unsynced) == 0 {
			return err
		}
		return w.sync(w.file, w.takeBatch())
	case len(w.unsynced) == 0:
	case due, t.urgent, w.log.options.Durability == None:
		w.begin()
	case !w.ticking && !w.syncing:
		w.timer.Reset(syncEvery)
		w.ticking = true
	}
	return nil
}

// begin syncs what is written, in the background, at once or as soon as the sync before it has ended.
func (w *writer) begin() {
	if w.syncing {
		w.pending = true
		return
	}
	w.syncing = true
	file, c := w.file, w.takeBatch()
	w.log.group.Go(func() error {
		w.synced <- w.sync(file, c)
		return nil
	})
}

// batch is what is synced together: records that are written, and where the last of them ends.
type batch struct {
	records []Record
	end     Position
}

// takeBatch returns the records that were written and not synced yet.
func (w *writer) takeBatch() batch {
	c := batch{records: w.unsynced, end: Position{File: filepath.Base(w.file.Name()), Offset: w.size}}
	w.unsynced = nil
	w.timer.Stop()
	w.ticking = false
	return c
}

func (w *writer) write(records []Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := w.rotate(records[0].Time); err != nil {
		return cannotWrite(err)
	}
	n, err := w.file.Write(w.lines.lines.Bytes())
	if err != nil {
		return cannotWrite(err)
	}
	w.size += int64(n)
	w.log.mu.Lock()
	w.log.inFile = records[len(records)-1].Seq
	w.log.wrote.Broadcast()
	w.log.mu.Unlock()
	if w.unsynced == nil {
		w.unsynced = records
		return nil
	}
	w.unsynced = append(w.unsynced, records...)
	return nil
}

// sync syncs a batch to disk, passes it to Options.Durable, and then wakes those who wait for it.
func (w *writer) sync(file file, c batch) error {
	if w.log.options.Durability != None {
		if err := file.Sync(); err != nil {
			return cannotWrite(err)
		}
	}
	if err := checkPlace(file); err != nil {
		return cannotWrite(err)
	}
	if durable := w.log.options.Durable; durable != nil {
		if err := durable(c.records, c.end); err != nil {
			return err
		}
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.safe = c.records[len(c.records)-1].Seq
	w.log.changed.Broadcast()
	return nil
}

func cannotWrite(err error) error { return fmt.Errorf("the event log cannot be written: %w", err) }

func (w *writer) fail(err error) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.fail(err)
}

// end closes the file and wakes all goroutines that wait.
func (w *writer) end() {
	err := w.file.Close()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if err != nil {
		w.log.fail(cannotWrite(err))
	}
	w.log.ended = true
	w.log.changed.Broadcast()
	w.log.wrote.Broadcast()
}

// rotate begins the next file when the lines that are to be written would make the current one too large. The
// old one is on disk before that, whatever the durability: only the newest file of a log may lack its end.
func (w *writer) rotate(now time.Time) error {
	if w.size == 0 || w.size+int64(w.lines.lines.Len()) <= cmp.Or(w.log.options.MaxFileSize, maxFileSize) {
		return nil
	}
	if err := w.await(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if len(w.unsynced) > 0 {
		if err := w.sync(w.file, w.takeBatch()); err != nil {
			return err
		}
	}
	full := w.file.Name()
	next, err := w.next(nextPath(filepath.Dir(full), full, now))
	if err != nil {
		return err
	}
	err = w.file.Close()
	w.file, w.size = next, 0
	if err != nil {
		return err
	}
	w.log.group.Go(func() error { return compress(full) })
	return nil
}

// maxFileSize is how large a file of the log becomes before the next is begun.
const maxFileSize = 100 << 20
