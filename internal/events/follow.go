package events

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"
)

// pollEvery is how often Follow looks whether the log has grown.
const pollEvery = 250 * time.Millisecond

// Follow yields the lines that match q that are there, then those that come, and returns when the job ends or ctx does.
// With q.Limit it begins with the last of those that are there. Only complete lines count. The job has ended when
// JobCompleted, JobFailed or JobPaused is the last record: a job that went on afterwards has several of them. A job that
// was killed has none, so that the caller has to end ctx.
func Follow(ctx context.Context, dir string, q Query) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		filter, err := newFilter(q)
		if err != nil {
			yield(nil, err)
			return
		}
		f := follower{dir: dir, filter: filter, limit: q.Limit > 0, kept: ring{size: q.Limit}}
		defer f.close()
		if err := f.run(ctx, yield); err != nil {
			yield(nil, err)
		}
	}
}

// errEnough says that whoever ranges over the lines wants no more.
var errEnough = errors.New("no more lines are wanted")

// follower reads a log that grows.
type follower struct {
	dir    string
	filter filter
	limit  bool // still among the lines that were there, of which only the last are wanted
	kept   ring // those
	ended  bool // the last line ends the job

	file   *os.File // nil before there is one
	lines  lineReader
	number int   // of the last line
	offset int64 // behind the last complete line
	torn   bool  // an incomplete line follows
}

func (f *follower) run(ctx context.Context, yield func([]byte, error) bool) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := f.catchUp(ctx, yield)
		if errors.Is(err, errEnough) || err == nil && f.ended && !f.torn {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// catchUp yields the lines that there are by now, over all files.
func (f *follower) catchUp(ctx context.Context, yield func([]byte, error) bool) error {
	for {
		newer, err := f.newer()
		if err != nil {
			return err
		}
		if err := f.drain(ctx, yield); err != nil {
			return err
		}
		if newer == "" {
			break
		}
		if err := f.open(newer); err != nil {
			return err
		}
	}
	f.limit = false
	if !f.kept.drain(yield) {
		return errEnough
	}
	return nil
}

// newer returns the log file that comes after the current one, which is then complete, or "".
func (f *follower) newer() (string, error) {
	files, err := logFiles(f.dir)
	if err != nil {
		return "", fmt.Errorf("follow log: %w", err)
	}
	next := 0
	if f.file != nil {
		next = slices.Index(files, f.file.Name()) + 1
	}
	if next == len(files) {
		return "", nil
	}
	return files[next], nil
}

func (f *follower) open(path string) error {
	f.close()
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	f.file, f.number, f.offset = file, 0, 0
	f.lines.in = bufio.NewReaderSize(file, 64<<10)
	return nil
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close() // only read from
	}
}

// drain yields the complete lines up to the end of the current file.
func (f *follower) drain(ctx context.Context, yield func([]byte, error) bool) error {
	for f.file != nil {
		text, err := f.lines.next()
		if errors.Is(err, io.EOF) {
			f.torn = len(text) > 0
			return f.rewind()
		}
		if err != nil {
			return fmt.Errorf("follow log: %w", err)
		}
		f.number++
		f.offset += int64(len(text)) + 1
		f.ended = endsJob(text)
		if err := f.show(line{text: text, path: f.file.Name(), number: f.number}, yield); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errEnough
		}
	}
	return nil
}

// rewind goes back to where an incomplete line begins: a resume cuts it off and writes another one there.
func (f *follower) rewind() error {
	if !f.torn {
		return nil
	}
	if _, err := f.file.Seek(f.offset, io.SeekStart); err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	f.lines.in.Reset(f.file)
	return nil
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

// endsJob tells whether a run of the job ends with this line.
func endsJob(text []byte) bool {
	_, name, _, err := decodeHead(text)
	if err != nil {
		return false
	}
	switch name {
	case JobCompleted{}.Type(), JobFailed{}.Type(), JobPaused{}.Type():
		return true
	}
	return false
}
