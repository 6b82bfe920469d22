package items

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"

	"prodigy/internal/jobs"

	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/rawjson"
)

const (
	markItems   = 64        // a mark is set after this many items,
	markBytes   = 64 << 10  // or bytes
	storeBuffer = 256 << 10 // a larger buffer is not kept for the next line
)

// Store is the file of the chosen items of a job, items.jsonl: a sealed line for each item, in the order of their
// indexes. One goroutine appends, any number read. Readers see whole lines only: size grows when a line has been
// written.
type Store struct {
	file *os.File

	// dir is the directory of a new file, until its entry is durable. Only used by the appending goroutine.
	dir string

	mu sync.Mutex // guards the fields below

	// line is the buffer of the line being written.
	line []byte

	// size is the length of the whole lines in the file, in bytes, and count is their number.
	size  int64
	count int

	// torn reports whether the file has more than that: a line that is cut off, or one that is whole and damaged. bad
	// is the error of the latter.
	torn bool
	bad  error

	// marks are in the order of the items. The first one is that of item 0.
	marks []mark
}

// mark is the offset of the line of an item. Only some items have one, so that a million items cost little memory.
type mark struct {
	index int
	at    int64
}

// CreateStore creates the file, which must not exist.
func CreateStore(path string) (*Store, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Store{file: file, dir: filepath.Dir(path)}, nil
}

// DamagedError means that items of a store are missing or not as they were recorded.
type DamagedError = jobs.LineError

// OpenStore opens an existing file to read it. A torn or damaged last line does not count. Damage before that is a
// *DamagedError. Lines that an older version wrote have no checksum, and are checked when they are read.
func OpenStore(path string) (*Store, error) { return openStore(path, os.O_RDONLY) }

// ReopenStore is OpenStore for one that goes on with the file: its first write replaces a torn or damaged last line.
func ReopenStore(path string) (*Store, error) { return openStore(path, os.O_RDWR) }

func openStore(path string, flag int) (*Store, error) {
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	s := &Store{file: file}
	if err := s.scan(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return s, nil
}

// scan checks and counts the whole lines and sets the marks. A bad line at the end of the file is that of a write which
// a crash or a power failure cut short, and does not count; anywhere else it is damage.
func (s *Store) scan() error {
	left, bad, err := jobs.Replay(s.file, s.file.Name(), func(line []byte, wrong error) error {
		if found, ok := indexOf(line); wrong == nil && ok && found != s.count { // it is not decoded
			wrong = fmt.Errorf("found item %d, expected item %d", found, s.count)
		}
		if wrong == nil {
			s.added()
			s.size += int64(len(line)) + 1
		}
		return wrong
	})
	s.torn, s.bad = left > 0 || bad != nil, bad
	return err
}

// idKey is the beginning of each line of a store. Find relies on it to skip lines without decoding them.
const idKey = `{"item_id":"`

// indexOf returns the index in a line that appendLine wrote. ok is false if the name has escapes; then
// readItem checks the index.
func indexOf(line []byte) (index int, ok bool) {
	rest, _ := bytes.CutPrefix(line, []byte(idKey))
	end := bytes.IndexByte(rest, '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return 0, false
	}
	rest, ok = bytes.CutPrefix(rest[end:], []byte(`","index":`))
	digits, _, ends := bytes.Cut(rest, []byte(","))
	index, err := strconv.Atoi(string(digits))
	return index, ok && ends && err == nil
}

// Holds returns a *DamagedError unless the store has exactly total items, the number in the log of the job.
func (s *Store) Holds(total int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.count == total:
		return nil
	case s.count > total:
		return &DamagedError{
			Path: s.file.Name(), Line: total + 1,
			Err: fmt.Errorf("found %d items, but %d were selected", s.count, total),
		}
	}
	err := fmt.Errorf("only %d of %d items are readable: ", s.count, total)
	switch {
	case s.bad != nil:
		err = fmt.Errorf("%w%w", err, s.bad)
	case s.torn:
		err = fmt.Errorf("%wthis line is truncated", err)
	default:
		err = fmt.Errorf("%wthe others are missing", err)
	}
	return &DamagedError{Path: s.file.Name(), Line: s.count + 1, Err: err}
}

// added counts the line at the end of the file, which is at size. It gets a mark if it begins markItems lines or
// markBytes after the last one, so that At reads little more than that.
func (s *Store) added() {
	if n := len(s.marks); n == 0 || s.count-s.marks[n-1].index >= markItems || s.size-s.marks[n-1].at >= markBytes {
		s.marks = append(s.marks, mark{index: s.count, at: s.size})
	}
	s.count++
}

// Append records the next item, whose index must be Len. When it returns, the item survives a kill of
// prodigy; Sync makes it survive a power failure.
func (s *Store) Append(it Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.Index != s.count {
		panic(fmt.Sprintf("BUG: item %d appended to a store of %d", it.Index, s.count))
	}
	line, err := appendLine(s.line[:0], it)
	if err != nil {
		return fmt.Errorf("record item %s: %w", it.ID, err)
	}
	if s.line = line; cap(line) > storeBuffer {
		s.line = nil
	}
	// The line stands after the whole ones. If this fails, the next line takes its place.
	if s.torn {
		if err := s.file.Truncate(s.size); err != nil {
			return fmt.Errorf("remove an incomplete line from the item store: %w", err)
		}
		s.torn, s.bad = false, nil
	}
	if _, err := s.file.WriteAt(line, s.size); err != nil {
		return err
	}
	s.added()
	s.size += int64(len(line))
	return nil
}

// appendLine appends the sealed line of an item: its JSON, written by hand since Data is JSON already.
func appendLine(b []byte, it Item) ([]byte, error) {
	start := len(b)
	if bytes.IndexByte(it.Data, '\n') >= 0 {
		it.Data = rawjson.Compact(new([]byte), it.Data)
	}
	line, err := jsontext.AppendQuote(append(b, `{"item_id":`...), it.ID)
	if err != nil {
		return nil, err
	}
	line = append(line, `,"index":`...)
	line = strconv.AppendInt(line, int64(it.Index), 10)
	line = append(line, `,"item":`...)
	line = append(line, it.Data...)
	if it.Masked != nil {
		line = append(append(line, `,"masked":`...), it.Masked...)
	}
	for i, id := range it.From {
		separator := ","
		if i == 0 {
			separator = `,"from":[`
		}
		if line, err = jsontext.AppendQuote(append(line, separator...), id); err != nil {
			return nil, err
		}
	}
	if len(it.From) > 0 {
		line = append(line, ']')
	}
	return append(jobs.Seal(append(line, '}'), start), '\n'), nil
}

// Clear removes all items.
func (s *Store) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("clear the item store: %w", err)
	}
	s.size, s.count, s.marks, s.torn, s.bad = 0, 0, nil, false, nil
	return nil
}

// Sync makes all appended items durable.
func (s *Store) Sync() error {
	if err := s.file.Sync(); err != nil {
		return err
	}
	if s.dir != "" {
		_ = jobs.SyncDir(s.dir) // where the system can
		s.dir = ""
	}
	return nil
}

// At returns the item with this index.
func (s *Store) At(index int) (Item, error) {
	from, err := s.find(index)
	if err != nil {
		return Item{}, err
	}
	in := bufio.NewReader(io.NewSectionReader(s.file, from.at, math.MaxInt64-from.at))
	for ; from.index < index; from.index++ {
		if _, err := jobs.SkipLine(in); err != nil {
			return Item{}, fmt.Errorf("read item %d: %w", index, err)
		}
	}
	return readItem(in, s.file.Name(), index)
}

// readItem reads the line of the item with this index in the file at path.
func readItem(in *bufio.Reader, path string, index int) (Item, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return Item{}, fmt.Errorf("read item %d: %w", index, err)
	}
	damaged := func(err error) error { return &DamagedError{Path: path, Line: index + 1, Err: err} }
	if _, err := jobs.CheckSeal(line[:len(line)-1]); err != nil {
		return Item{}, damaged(err)
	}
	var it Item
	if err := json.Unmarshal(line, &it); err != nil {
		return Item{}, damaged(err)
	}
	if it.Index != index {
		return Item{}, damaged(fmt.Errorf("found item %d, expected item %d", it.Index, index))
	}
	return it, nil
}

// find returns the last mark up to an item. There is one, since the first item has a mark.
func (s *Store) find(index int) (mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index < 0 || index >= s.count {
		return mark{}, fmt.Errorf("item %d not found in a store of %d", index, s.count)
	}
	after := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index > index })
	return s.marks[after-1], nil
}

// Len returns the number of items appended.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Size returns the bytes of the file.
func (s *Store) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Close closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}
