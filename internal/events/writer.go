package events

import (
	"fmt"
	"time"
)

// syncEvery is how long a written record may wait for its sync.
const syncEvery = 50 * time.Millisecond

// writer is the goroutine that writes a log. Its fields are its own; it meets the others in the log, under the log's mutex.
type writer struct {
	output
	log      *Log
	lines    *encoder // taken from the log, or the spare one
	unsynced []Record // written, but not as safe as promised yet
	timer    *time.Timer
	ticking  bool // the timer runs
}

// task is what the log has for its writer.
type task struct {
	records []Record // whose lines were swapped into writer.lines
	urgent  bool     // somebody waits for a sync
	last    bool     // nothing comes after this
}

func newWriter(l *Log, out output) *writer {
	w := &writer{output: out, log: l, lines: newEncoder(), timer: time.NewTimer(syncEvery)}
	w.timer.Stop()
	return w
}

// run writes until the log is closed or an error comes up.
func (w *writer) run() error {
	for more := true; more; {
		due := false
		select {
		case <-w.log.wake:
		case <-w.timer.C:
			w.ticking, due = false, true
		}
		t := w.take()
		err := w.do(t, due)
		if err != nil {
			w.fail(fmt.Errorf("write log: %w", err))
		}
		more = err == nil && !t.last
	}
	w.timer.Stop()
	w.end()
	return nil
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
	t.urgent = l.options.Durability == Strict && min(l.wanted, l.seq) > l.safe
	l.changed.Broadcast()
	return t
}

// do writes what was taken, and syncs it if it is time to.
func (w *writer) do(t task, due bool) error {
	if err := w.write(t.records); err != nil {
		return err
	}
	switch {
	case len(w.unsynced) == 0:
		return nil
	case w.log.options.Durability == None:
		return w.settle()
	case due, t.urgent, t.last:
		if err := w.file.Sync(); err != nil {
			return err
		}
		return w.settle()
	case !w.ticking:
		w.timer.Reset(syncEvery)
		w.ticking = true
	}
	return nil
}

func (w *writer) write(records []Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := w.rotate(records[0].Time); err != nil {
		return err
	}
	n, err := w.file.Write(w.lines.lines.Bytes())
	if err != nil {
		return err
	}
	w.size += int64(n)
	if w.unsynced == nil {
		w.unsynced = records
		return nil
	}
	w.unsynced = append(w.unsynced, records...)
	return nil
}

// settle shows the records that have become safe, and then lets those go on who wait for them.
func (w *writer) settle() error {
	records := w.unsynced
	w.unsynced = nil
	w.timer.Stop()
	w.ticking = false
	if durable := w.log.options.Durable; durable != nil {
		if err := durable(records); err != nil {
			return err
		}
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.safe = records[len(records)-1].Seq
	w.log.changed.Broadcast()
	return nil
}

func (w *writer) fail(err error) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.fail(err)
}

// end closes the file and lets everybody go who waits.
func (w *writer) end() {
	err := w.file.Close()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if err != nil {
		w.log.fail(fmt.Errorf("close log: %w", err))
	}
	w.log.ended = true
	w.log.changed.Broadcast()
}
