package dlq

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
	"prodigy/internal/rawjson"
)

// Queue is the journal dlq.jsonl of one job. Of the entries it keeps in memory only where they lie. One
// process at a time may have it open: the holder of the job's lock. Within the process it is safe for
// concurrent use.
type Queue struct {
	path string

	mu   sync.Mutex
	file *os.File
	index
	dirty bool // there is something to sync
	// seq is the record that is being followed.
	seq  int64
	done int64 // of the last record that has been
}

// Open opens the queue at path, which need not exist yet, and replays its journal. A torn last line is cut off.
func Open(path string) (*Queue, error) {
	q := &Queue{path: path}
	err := jobs.MakeDirs(filepath.Dir(path))
	if err == nil {
		err = q.open()
	}
	if err == nil {
		if err = q.load(); err != nil {
			err = errors.Join(err, q.file.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	return q, nil
}

// open opens the journal, which may be new.
func (q *Queue) open() (err error) {
	q.file, err = os.OpenFile(q.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	return err
}

// load replays the journal of a queue that was just opened.
func (q *Queue) load() error {
	x, err := replay(q.file, q.path)
	if err != nil {
		return err
	}
	q.index, q.seq, q.done = x, x.applied, x.applied
	info, err := q.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > x.size {
		if err := errors.Join(q.file.Truncate(x.size), q.file.Sync()); err != nil {
			return fmt.Errorf("remove the incomplete last line: %w", err)
		}
	}
	if x.ops == 0 {
		return jobs.SyncDir(filepath.Dir(q.path)) // it may be new
	}
	return q.compactIfDue()
}

// Applied returns the record of the log up to which the queue has surely been followed; 0 when that is not known.
func (q *Queue) Applied() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.applied
}

// Follow tells that what is put and removed from now on follows from record seq of the log, and that the
// record named before has been followed.
func (q *Queue) Follow(seq int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done, q.seq = q.seq, seq
}

// Followed tells that all that follows from the record named last has been put and removed. Close writes it down.
func (q *Queue) Followed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = q.seq
}

// Restart empties the queue, for a log that is to be followed from its beginning again. The journal as it was
// is kept beside, as dlq.jsonl.ahead: it may be all that is left of what the log has lost.
func (q *Queue) Restart() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := errors.Join(q.file.Sync(), q.file.Close()) // Windows does not rename what is open
	if err == nil {
		err = os.Rename(q.path, q.path+".ahead")
	}
	if err = errors.Join(err, q.open()); err == nil {
		err = jobs.SyncDir(filepath.Dir(q.path))
	}
	if err != nil {
		return fmt.Errorf("rebuild the dead letters: %w", err)
	}
	q.index, q.seq, q.done, q.dirty = newIndex(), 0, 0, false
	return nil
}

// Has reports whether there is an entry of the item.
func (q *Queue) Has(itemID string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, found := q.live[itemID]
	return found
}

// mark writes down how far the log has been followed.
func (q *Queue) mark() error {
	if q.done == q.applied {
		return nil
	}
	if err := q.append(op{Op: opMark, Seq: q.done}); err != nil {
		return fmt.Errorf("mark dead letters: %w", err)
	}
	return nil
}

// Put adds the entry, or updates the one with the same item id.
func (q *Queue) Put(e Entry) error {
	data, err := rawjson.Encode(e)
	q.mu.Lock()
	defer q.mu.Unlock()
	o := op{Op: opAdd, Seq: q.seq, ItemID: e.ItemID, Entry: data}
	if _, known := q.live[e.ItemID]; known {
		o.Op = opUpdate
	}
	if err == nil {
		err = q.append(o)
	}
	if err != nil {
		return fmt.Errorf("put dead letter %s: %w", e.ItemID, err)
	}
	return nil
}

// Remove removes the entry of the item, if there is one.
func (q *Queue) Remove(itemID string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.live[itemID]; !known {
		return nil
	}
	if err := q.append(op{Op: opRemove, Seq: q.seq, ItemID: itemID}); err != nil {
		return fmt.Errorf("remove dead letter %s: %w", itemID, err)
	}
	return nil
}

// append writes the line of o at the end of the journal, whole or not at all.
func (q *Queue) append(o op) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Line = q.ops + 1
	line, err := o.encode()
	if err != nil {
		return err
	}
	if _, err := q.file.Write(line); err != nil {
		return errors.Join(err, q.file.Truncate(q.size))
	}
	q.note(o, int64(len(line)))
	q.dirty = true
	return nil
}

// Get returns the entry of an item. An entry that cannot be read back is not found; Load says why.
func (q *Queue) Get(itemID string) (Entry, bool) {
	e, found, err := q.Load(itemID)
	return e, found && err == nil
}

// Load returns the entry of an item and whether there is one.
func (q *Queue) Load(itemID string) (Entry, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, found := q.live[itemID]; !found {
		return Entry{}, false, nil
	}
	e, err := entryOf(q.file, q.index, itemID)
	return e, true, err
}

// Each yields the entries in the order they were added; those that were removed since it began are left out.
// An error is the last it yields.
func (q *Queue) Each() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		q.mu.Lock()
		ids := q.ids()
		q.mu.Unlock()
		for _, id := range ids {
			e, found, err := q.Load(id)
			if found && !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Len returns the number of entries.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.live)
}

// Sync makes what was put and removed durable.
func (q *Queue) Sync() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sync()
}

// sync makes what was appended durable. It does nothing if nothing was.
func (q *Queue) sync() error {
	if !q.dirty {
		return nil
	}
	if err := q.file.Sync(); err != nil {
		return fmt.Errorf("sync dead letters: %w", err)
	}
	q.dirty = false
	return nil
}

// Close makes what was put and removed durable and closes the queue.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.mark()
	if err == nil {
		err = q.sync()
	}
	if err == nil {
		err = q.compactIfDue()
	}
	return errors.Join(err, q.file.Close())
}

// slack is how many lines more than twice its entries a journal may have.
const slack = 1000

// compactIfDue rewrites a journal that holds many lines that count no longer.
func (q *Queue) compactIfDue() error {
	if q.ops <= 2*len(q.live)+slack {
		return nil
	}
	temp := q.path + ".new"
	err := q.writeLive(temp)
	if err != nil {
		err = errors.Join(err, os.Remove(temp))
	} else if err = q.file.Close(); err == nil { // Windows does not rename over an open file
		err = errors.Join(jobs.Rename(temp, q.path), q.open())
	}
	if err != nil {
		return fmt.Errorf("compact dead letters: %w", err)
	}
	x, err := replay(q.file, q.path)
	if err != nil {
		return err
	}
	q.index = x
	return nil
}

// writeLive writes a journal of the entries there are to path, and syncs it.
func (q *Queue) writeLive(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer check.Join(&err, f.Close)
	w := bufio.NewWriterSize(f, 64<<10) // its errors are those of Flush
	write := func(o op) error {
		line, err := o.encode()
		_, _ = w.Write(line)
		return err
	}
	ids := q.ids()
	for i, id := range ids {
		o, err := opAt(q.file, q.live[id])
		if err != nil {
			return err
		}
		o.Op, o.Line = opAdd, i+1
		if err := write(o); err != nil {
			return err
		}
	}
	if q.applied > 0 {
		if err := write(op{Op: opMark, Line: len(ids) + 1, Seq: q.applied}); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), f.Sync())
}
