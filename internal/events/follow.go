package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// pollEvery is how often Follow looks whether the log has grown.
const pollEvery = 250 * time.Millisecond

// Follow yields the lines that match q that are there, then those that come, and returns when the job ends or
// ctx does. With q.Limit it begins with the last of those that are there. Only complete lines count.
//
// The job has ended when JobCompleted, JobFailed, JobPaused or JobCancelled is the last record and nobody
// runs it (any more, or again), or when it was killed: nobody runs it, and nothing says so. Running reports
// whether somebody does; nil if nobody can tell, so that only a last record ends it.
func Follow(ctx context.Context, dir string, q Query, running func() bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		filter, err := newFilter(q)
		if err != nil {
			yield(nil, err)
			return
		}
		f := follower{dir: dir, filter: filter, running: running, limit: q.Limit > 0, kept: ring{size: q.Limit}}
		if err := f.run(ctx, yield); err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// FollowRecords is Follow for all records.
func FollowRecords(ctx context.Context, dir string, running func() bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for line, err := range Follow(ctx, dir, Query{}, running) {
			var r Record
			if err == nil {
				r, err = Decode(line)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// errEnough says that whoever ranges over the lines wants no more.
var errEnough = errors.New("no more lines wanted")

// follower reads a log that grows.
type follower struct {
	dir     string
	filter  *filter
	running func() bool
	idle    int  // how often in a row nobody ran the job
	limit   bool // still among the lines that were there, of which only the last are wanted
	kept    ring // those
	ended   bool // the last line ends the job
	sums    seals

	path  string // of the current file, as it was before it was compressed; "" before there is one
	at    behind // the last line
	seq   int64  // of the last line
	torn  bool   // an incomplete line follows
	doubt bool   // the line that follows was damaged when it was read last
}

// run yields lines until the job ends, ctx does, or the log cannot be read.
func (f *follower) run(ctx context.Context, yield func([]byte, error) bool) error {
	for f.idle = range jobs.Looks(ctx, pollEvery, f.running) {
		if err := f.catchUp(ctx, yield); err != nil || f.over() {
			return err
		}
	}
	return nil
}

// over reports whether nothing more will come. A job that has just begun is not locked yet, so its last
// record or a second look has to confirm that nobody runs it.
func (f *follower) over() bool {
	if f.doubt {
		return false
	}
	if f.running == nil {
		return f.ended && !f.torn
	}
	return f.idle > 1 || f.idle > 0 && f.ended && !f.torn
}

// catchUp yields the lines that there are by now, over all files. The current one may have been compressed since the
// last look.
func (f *follower) catchUp(ctx context.Context, yield func([]byte, error) bool) error {
	files, err := logFiles(f.dir)
	if err != nil {
		return fmt.Errorf("follow the event log: %w", err)
	}
	files = slices.DeleteFunc(files, func(path string) bool { return jobs.UnpackedName(path) < f.path })
	if f.torn = false; len(files) > 0 && jobs.UnpackedName(files[0]) != f.path {
		f.at = behind{}
	}
	inTurn(files, f.at, f.seq, &f.sums, func(l line, wrong error) bool {
		err = f.take(ctx, l, wrong, yield)
		return err == nil
	})
	if err != nil {
		return err
	}
	f.limit = false
	if !f.kept.drain(yield) {
		return errEnough
	}
	return nil
}

// take yields a line, or looks what is wrong with it.
func (f *follower) take(ctx context.Context, l line, err error, yield func([]byte, error) bool) error {
	_, damaged := errors.AsType[*DamagedError](err)
	switch {
	case errors.Is(err, ErrTorn):
		f.torn = true
		return nil
	case damaged && !f.doubt:
		// A resume may have cut off an incomplete line and written another there, between two reads of this one:
		// look again.
		f.doubt = true
		return nil
	case err != nil:
		return err
	}
	if path := jobs.UnpackedName(l.from.path); path != f.path {
		f.path, f.at = path, behind{}
	}
	f.at = behind{l.from.number, f.at.offset + int64(len(l.text)) + 1}
	f.seq, f.doubt, f.ended = l.seq, false, endsJob(l.text)
	if err = f.show(l, yield); err == nil && ctx.Err() != nil {
		err = errEnough
	}
	return err
}

// show yields the line if it matches.
func (f *follower) show(l line, yield func([]byte, error) bool) error {
	match, err := f.filter.match(l)
	switch {
	case err != nil:
		return err
	case match && f.limit:
		f.kept.add(l.text)
	case match && !yield(l.text, nil):
		return errEnough
	}
	return nil
}

// endsJob reports whether a run of the job ends with this line.
func endsJob(text []byte) bool {
	h, err := decodeHead(text)
	return err == nil && check.Among("JobCompleted JobFailed JobPaused JobCancelled", h.name)
}
