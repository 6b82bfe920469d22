package events

import (
	"fmt"
	"path/filepath"
	"time"
)

// syncEvery is how long a written record may wait for its sync.
const syncEvery = 50 * time.Millisecond

// writer is the goroutine that writes a log. Its fields are its own; it meets the others in the log, under the log's mutex.
//
// What is written is made safe and shown by a goroutine beside it, one at a time, so that writing goes on while the disk is busy: a
// prodigy that is killed then has lost nothing that it had done.
type writer struct {
	output
	log      *Log
	lines    *encoder // taken from the log, or the spare one
	unsynced []Record // written, but not as safe as promised yet
	timer    *time.Timer
	ticking  bool       // the timer runs
	settling bool       // records are being made safe
	settled  chan error // how that ended
	owed     bool       // what has been written meanwhile is to follow at once
}

// task is what the log has for its writer.
type task struct {
	records []Record // whose lines were swapped into writer.lines
	urgent  bool     // somebody waits for a sync
	last    bool     // nothing comes after this
}

func newWriter(l *Log, out output) *writer {
	w := &writer{output: out, log: l, lines: newEncoder(), timer: time.NewTimer(syncEvery), settled: make(chan error, 1)}
	w.timer.Stop()
	return w
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
		case err = <-w.settled:
			w.settling = false
			due, w.owed = w.owed, false
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
	if !w.settling {
		return nil
	}
	w.settling = false
	return <-w.settled
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
		return w.settle(w.file, w.claim())
	case len(w.unsynced) == 0:
	case due, t.urgent, w.log.options.Durability == None:
		w.begin()
	case !w.ticking && !w.settling:
		w.timer.Reset(syncEvery)
		w.ticking = true
	}
	return nil
}

// begin has what is written made safe beside the writing, now or as soon as what was before it is.
func (w *writer) begin() {
	if w.settling {
		w.owed = true
		return
	}
	w.settling = true
	file, c := w.file, w.claim()
	w.log.group.Go(func() error {
		w.settled <- w.settle(file, c)
		return nil
	})
}

// claim is what is to be made safe: records that are written, and where the last of them ends.
type claim struct {
	records []Record
	end     Position
}

// claim takes the records that are to be made safe.
func (w *writer) claim() claim {
	c := claim{records: w.unsynced, end: Position{File: filepath.Base(w.file.Name()), Offset: w.size}}
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
	w.tell(records[len(records)-1].Seq)
	if w.unsynced == nil {
		w.unsynced = records
		return nil
	}
	w.unsynced = append(w.unsynced, records...)
	return nil
}

// tell wakes those who wait for a record to be written.
func (w *writer) tell(seq int64) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.inFile = seq
	w.log.wrote.Broadcast()
}

// settle makes records safe, shows them, and then lets those go on who wait for them.
func (w *writer) settle(file file, c claim) error {
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

// end closes the file and lets everybody go who waits.
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
