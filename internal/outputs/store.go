package outputs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// Span is where entries stand in a Store, which counts the bytes of all its files as if they were one. Other
// entries may stand between those that it is about. The zero Span is none.
type Span struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// To returns a span from the beginning of s, or of other if s is none, to the end of other.
func (s Span) To(other Span) Span {
	if s.Length == 0 {
		return other
	}
	return Span{s.Offset, other.Offset + other.Length - s.Offset}
}

const (
	prefix = "printed-"
	suffix = ".jsonl"
	// fileSize is how large a file becomes before the next is begun.
	fileSize = 8 << 20
	// leastPacked is the size from which the last file of a job is compressed when the job ends.
	leastPacked = 64 << 10
)

// Options of a Store.
type Options struct {
	PerJob  Size // see Policy
	PerStep Size // the same; 0 means the default
	NoSync  bool // files are not synced
	// FileSize is how large a file gets before the next one is begun. 0 means 8 MiB.
	FileSize int64
}

// Store is the outputs of one job. What is appended is written at once, so that it survives the end of
// prodigy; a file is synced when it is full and when the store is closed. It belongs to one goroutine.
type Store struct {
	Options
	dir string
	// file is nil as long as nothing has been appended to it.
	file *os.File
	path string
	// base is where the file begins in the store.
	base    int64
	size    int64 // of the file
	packing errgroup.Group

	tails      map[Source]*openTail
	tailNumber int // of tails so far
}

// Open returns the store in dir, behind what is there. An incomplete line at its end is cut off. No file is
// made before there is something to keep.
func Open(dir string, o Options) (*Store, error) {
	o.FileSize = cmp.Or(o.FileSize, fileSize)
	o.PerStep = cmp.Or(o.PerStep, defaultPerStep)
	s := &Store{dir: dir, Options: o}
	files, err := list(dir)
	if err == nil {
		err = jobs.RemoveTemporary(dir, prefix)
	}
	if err == nil && len(files) > 0 {
		err = s.open(files[len(files)-1])
		full := check.Each(files[:len(files)-1], func(f file) string { return f.path })
		s.packing.Go(func() error { return jobs.PackAll(full) })
	}
	if err == nil {
		err = s.adoptTails()
	}
	if err != nil {
		return nil, fmt.Errorf("open the outputs: %w", errors.Join(err, s.packing.Wait()))
	}
	return s, nil
}

// open goes on behind the newest file.
func (s *Store) open(last file) error {
	s.base = last.base
	if jobs.IsPacked(last.path) {
		s.base += max(1, lengthOf(last.path)) // never the name that there is
		return nil
	}
	f, err := os.OpenFile(last.path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	s.size, err = cutTorn(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.path = f, last.path
	return nil
}

// lengthOf returns the length of what a compressed file holds, as far as it can be read: damage to outputs
// keeps no job from going on, and is told to who reads them.
func lengthOf(path string) int64 {
	r, err := jobs.OpenPacked(path)
	if err != nil {
		return 0
	}
	defer check.Quietly(r.Close)
	n, _ := io.Copy(io.Discard, r)
	return n
}

// cutTorn cuts an incomplete last line off f and returns its length then.
func cutTorn(f *os.File) (int64, error) {
	lines, err := jobs.NewBackward(f)
	if err != nil {
		return 0, err
	}
	size := lines.End()
	_, whole, err := lines.Line()
	if whole || err != nil {
		return size, check.Unless(err, io.EOF)
	}
	return lines.End(), f.Truncate(lines.End())
}

// Position is where the next entry will stand. Nothing happens in a nil Store, whose position is 0.
func (s *Store) Position() int64 {
	if s == nil {
		return 0
	}
	return s.base + s.size
}

// Granted returns what may still be kept of steps that begin now.
func (s *Store) Granted(keep Keep) Keep {
	switch at := s.Position(); {
	case at >= int64(s.PerJob):
		return None
	case at >= s.soft() && keep == All:
		return Failed
	}
	return keep
}

// soft is from where on only what failed is kept.
func (s *Store) soft() int64 { return int64(s.PerJob) / 10 * 9 }

// Append writes e and returns where it stands. Beyond the bound of the job nothing is written, and the Span
// is none, as it is of a provisional entry.
func (s *Store) Append(e Entry) (Span, error) {
	if e.Provisional {
		return Span{}, s.appendTail(e)
	}
	at, err := s.append(e)
	if err == nil && e.End != nil {
		s.removeTail(e.Source)
	}
	return at, err
}

// append writes an entry unless the job has used up its room, and returns where it is.
func (s *Store) append(e Entry) (Span, error) {
	before := s.Position()
	if before >= int64(s.PerJob) {
		return Span{}, nil
	}
	at, err := s.write(e)
	if err != nil {
		return Span{}, err
	}
	after, limit := s.Position(), Keep("")
	if before < s.soft() && after >= s.soft() {
		limit = Failed
	}
	if after >= int64(s.PerJob) {
		limit = None
	}
	if limit != "" {
		_, err = s.write(Entry{Time: e.Time, Limit: limit})
	}
	return at, err
}

func (s *Store) write(e Entry) (Span, error) {
	if s.size >= s.FileSize {
		s.rotate()
	}
	if s.file == nil {
		if err := s.create(); err != nil {
			return Span{}, cannotWrite(err)
		}
	}
	line, err := e.line()
	if err == nil {
		_, err = s.file.Write(line)
	}
	if err != nil {
		return Span{}, cannotWrite(err)
	}
	at := Span{s.Position(), int64(len(line))}
	s.size += at.Length
	return at, nil
}

func cannotWrite(err error) error { return fmt.Errorf("the outputs cannot be written: %w", err) }

// create begins a file behind what there is.
func (s *Store) create() (err error) {
	s.base += s.size
	s.size = 0
	s.path = filepath.Join(s.dir, fmt.Sprintf("%s%016d%s", prefix, s.base, suffix))
	if err = jobs.MakeDirs(s.dir); err != nil { // a copy of a job may lack directories that were empty
		return err
	}
	s.file, err = os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}

// rotate leaves a file that is full, and has it compressed.
func (s *Store) rotate() {
	f, path, sync := s.file, s.path, !s.NoSync
	s.file = nil
	if f == nil {
		return
	}
	s.packing.Go(func() error {
		if err := finish(f, sync); err != nil {
			return err
		}
		return jobs.Pack(path)
	})
}

// finish closes a file, and before that syncs it if that is wanted.
func finish(f *os.File, sync bool) error {
	var err error
	if sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Close syncs what was written, compresses what is large, and closes the store, which may be nil.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	if s.file != nil && s.size >= leastPacked {
		s.rotate()
	}
	var err error
	if s.file != nil {
		err = finish(s.file, !s.NoSync)
		s.file = nil
	}
	if err = errors.Join(err, s.packing.Wait()); err != nil {
		return fmt.Errorf("close the outputs: %w", err)
	}
	return nil
}

// file is one file of a store.
type file struct {
	path string
	base int64
}

// list returns the files of the store in dir, the first one first.
func list(dir string) (files []file, err error) {
	paths, err := jobs.Segments(dir, prefix, suffix)
	for _, path := range paths {
		digits := strings.TrimSuffix(filepath.Base(jobs.UnpackedName(path)), suffix)[len(prefix):]
		if base, err := strconv.ParseInt(digits, 10, 64); err == nil {
			files = append(files, file{path, base})
		}
	}
	return files, check.Unless(err, os.ErrNotExist)
}

// Any reports whether the store in dir holds anything.
func Any(dir string) bool {
	files, err := list(dir)
	return err == nil && len(files) > 0
}

// pollEvery is how often Follow looks whether there is more.
const pollEvery = 200 * time.Millisecond
