package events

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// Durability says when the log is synced to disk.
type Durability string

const (
	Batch  Durability = "batch"  // synced at least every 50 ms while there is something to write
	Strict Durability = "strict" // as Batch, and the job waits for the sync of each outcome (Log.Wait)
	None   Durability = "none"   // never synced; survives kill -9, not a power loss
)

// maxPending is how many bytes may wait for the writer before Append blocks.
const maxPending = 1 << 20

// ErrClosed is what Wait returns for a record that was not written before the log was closed.
var ErrClosed = errors.New("the log is closed")

// Options of a Log.
type Options struct {
	Durability Durability // empty: Batch
	// Durable, when set, is called in order with records that are as safe as Durability promises. It runs on
	// the log's own goroutine, so projections made in it follow the record. An error from it is treated as a
	// write error of the log. It may keep the slice. It must not call Append, Wait or Close: they may wait
	// for the goroutine that it runs on. End is where the last of them ends.
	Durable func(records []Record, end Position) error
	// MaxFileSize is how many bytes a file of the log may have before the next is begun, 0 for 100 MiB. A
	// batch of lines is never divided, so that a file can be larger by one.
	MaxFileSize int64
}

// Log is the append-only log of one job, written by one goroutine in batches of whole lines.
type Log struct {
	jobID   string
	options Options
	wake    chan struct{} // holds one: there is something for the writer to look at
	failed  chan struct{}
	group   errgroup.Group // the writer, and what compresses the files that it leaves

	mu      sync.Mutex
	changed sync.Cond // of mu: the writer took what was pending, made records safe, or ended
	wrote   sync.Cond // of mu: the writer wrote records, or ended
	seq     int64     // the last number given
	pending *encoder  // the lines that the writer has not taken yet
	records []Record  // the same as records
	wanted  int64     // the highest number that somebody waited for
	inFile  int64     // the last record that was given to the system
	safe    int64     // the last record that is as safe as the durability promises
	closing bool
	ended   bool // the writer has returned
	err     error
}

// Create starts the log of job jobID in directory dir, in a new file events-{timestamp}.jsonl. A directory
// that has a log already is refused.
func Create(dir, jobID string, now time.Time, o Options) (_ *Log, err error) {
	defer wrap(&err, "create the event log")
	files, err := logFiles(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(files) > 0 {
		return nil, fmt.Errorf("%s already exists", files[0])
	}
	if err := jobs.MakeDirs(dir); err != nil {
		return nil, err
	}
	f, err := createFile(nextPath(dir, "", now))
	if err != nil {
		return nil, err
	}
	out, err := newOutput(f)
	if err != nil {
		return nil, err
	}
	return start(out, jobID, 0, o), nil
}

// Open continues the log in dir behind record last: in its newest file, whose torn last line, if any, is cut
// off first. It refuses a log that does not end with record last. What an earlier run left to be compressed
// is compressed meanwhile.
func Open(dir, jobID string, last int64, o Options) (_ *Log, err error) {
	defer wrap(&err, "open the event log")
	files, err := logFiles(dir)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("not found in %s", dir)
	}
	if err == nil {
		err = jobs.RemoveTemporary(dir, "events-")
	}
	if err != nil {
		return nil, err
	}
	f, err := openNewest(dir, files, last)
	if err != nil {
		return nil, err
	}
	out, err := newOutput(f)
	if err != nil {
		return nil, err
	}
	l := start(out, jobID, last, o)
	l.group.Go(func() error { return compress(files[:len(files)-1]...) })
	return l, nil
}

// start starts the writer of a log, whose last record is last.
func start(out output, jobID string, last int64, o Options) *Log {
	l := &Log{
		jobID: jobID, options: o, seq: last, inFile: last, safe: last, pending: newEncoder(),
		wake: make(chan struct{}, 1), failed: make(chan struct{}),
	}
	l.changed.L, l.wrote.L = &l.mu, &l.mu
	w := &writer{output: out, log: l, lines: newEncoder(), timer: time.NewTimer(syncEvery), synced: make(chan error, 1)}
	w.timer.Stop()
	l.group.Go(w.run)
	return l
}

// Append numbers the event, stamps it with now and hands it to the writer. It blocks only while the writer is
// far behind. The record it returns is what a reader of the log will see: texts are bounded and times
// rounded.
//
// After a write error it still returns a record; Err and Failed tell of the error. An event that cannot be
// encoded is such an error. After Close the record goes nowhere. Safe for concurrent use.
func (l *Log) Append(now time.Time, e Event) Record {
	e = normal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.pending.lines.Len() >= maxPending && !l.ended {
		l.changed.Wait()
	}
	l.seq++
	r := Record{Seq: l.seq, Time: written(now), JobID: l.jobID, CorrelationID: l.jobID, Event: e}
	if id := Subject(e); id != "" {
		r.CorrelationID += "/" + id
	}
	if l.err != nil || l.closing {
		return r
	}
	if err := l.pending.add(r); err != nil {
		l.fail(cannotWrite(err))
		return r
	}
	l.records = append(l.records, r)
	check.Wake(l.wake)
	return r
}

// Wait returns when everything up to record seq is as safe as the durability promises, which is seen to at
// once, and Durable has seen it; or the write error that prevents it.
func (l *Log) Wait(seq int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = max(l.wanted, seq)
	check.Wake(l.wake)
	for l.safe < seq && !l.ended {
		l.changed.Wait()
	}
	return l.reached(seq, l.safe)
}

// Flush returns when every record appended before has been written to the file, so that it survives a crash
// of prodigy, though not of the machine; or the write error that prevents it.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := l.seq
	for l.inFile < seq && !l.ended {
		l.wrote.Wait()
	}
	return l.reached(seq, l.inFile)
}

// reached returns why a record has not been written, or nil. The caller holds l.mu.
func (l *Log) reached(seq, last int64) error {
	switch {
	case last >= seq:
		return nil
	case l.err != nil:
		return l.err
	}
	return ErrClosed
}

// Failed is closed at the first write error.
func (l *Log) Failed() <-chan struct{} { return l.failed }

// Err returns the first write error.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close writes and syncs what is left (also with None it writes), calls Durable for it, ends the writer and
// waits until the files that were left behind are compressed. It returns the first write error, and may be
// called again. An error in compressing stops nothing before, because the log is whole without it: it is
// returned here when there is no other.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	check.Wake(l.wake)
	l.mu.Unlock()
	packed := l.group.Wait() // the writer leaves its error in the log
	if err := l.Err(); err != nil {
		return err
	}
	return packed
}

// wrap says of an error what it was that failed.
func wrap(err *error, what string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", what, *err)
	}
}

// fail keeps the first error; l.mu is held.
func (l *Log) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	close(l.failed)
	check.Wake(l.wake)
}
