package items

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/rawjson"
)

const (
	markItems   = 64        // a mark is set after so many items,
	markBytes   = 64 << 10  // or after so many bytes
	storeBuffer = 256 << 10 // a larger buffer is not kept for the next line
)

// Store is the file of chosen items of one job, items.jsonl. One goroutine appends; any number read.
type Store struct {
	file *os.File
	dir  string // of a new file whose entry there is not yet durable. Only used by the appending goroutine

	mu    sync.Mutex
	line  []byte // buffer of the line being written
	size  int64  // of the whole lines in the file
	torn  bool   // the file has more than that
	count int
	marks []mark
}

// mark is where the line of an item starts. Only some items have one, so that a million of them cost little memory.
type mark struct {
	index int
	at    int64
}

// CreateStore creates the file, which must not be there yet.
func CreateStore(path string) (*Store, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Store{file: file, dir: filepath.Dir(path)}, nil
}

// OpenStore opens a file that is there, to read it and go on appending. A torn last line does not count; the next write replaces it.
func OpenStore(path string) (*Store, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
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

// scan counts the whole lines and sets the marks.
func (s *Store) scan() error {
	in := bufio.NewReaderSize(s.file, 256<<10)
	var length int64
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		switch {
		case err == nil:
			s.added()
			s.size += length
			length = 0
		case errors.Is(err, io.EOF):
			s.torn = length > 0
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// added counts the line that starts at the end of what there is.
func (s *Store) added() {
	if n := len(s.marks); n == 0 || s.count-s.marks[n-1].index >= markItems || s.size-s.marks[n-1].at >= markBytes {
		s.marks = append(s.marks, mark{index: s.count, at: s.size})
	}
	s.count++
}

// Append records the next item: its index must be the number of those before it. When it returns, the item is in the file, so that
// it is found again should prodigy be killed; Sync makes it durable.
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
	return s.write(line)
}

// appendLine appends the line of an item.
func appendLine(b []byte, it Item) ([]byte, error) {
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
	return append(line, '}', '\n'), nil
}

// Clear forgets all items.
func (s *Store) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("clear the item store: %w", err)
	}
	s.size, s.count, s.marks, s.torn = 0, 0, nil, false
	return nil
}

func (s *Store) write(line []byte) error {
	if s.torn {
		if err := s.file.Truncate(s.size); err != nil {
			return fmt.Errorf("cut a torn line off the item store: %w", err)
		}
		s.torn = false
	}
	if _, err := s.file.WriteAt(line, s.size); err != nil {
		return err
	}
	s.added()
	s.size += int64(len(line))
	return nil
}

// Sync makes what was appended durable.
func (s *Store) Sync() error {
	if err := s.file.Sync(); err != nil {
		return err
	}
	if s.dir != "" {
		syncDir(s.dir)
		s.dir = ""
	}
	return nil
}

// syncDir makes the entries of a directory durable, where the system has a way to.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// At returns the item with this index.
func (s *Store) At(index int) (Item, error) {
	from, err := s.find(index)
	if err != nil {
		return Item{}, err
	}
	in := bufio.NewReader(io.NewSectionReader(s.file, from.at, math.MaxInt64-from.at))
	for ; from.index < index; from.index++ {
		if err := skipLine(in); err != nil {
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
	var it Item
	if err := json.Unmarshal(line, &it); err != nil || it.Index != index {
		return Item{}, fmt.Errorf("%s:%d: damaged line", path, index+1)
	}
	return it, nil
}

// find returns the last mark up to an item.
func (s *Store) find(index int) (mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index < 0 || index >= s.count {
		return mark{}, fmt.Errorf("there is no item %d in a store of %d", index, s.count)
	}
	after := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index > index })
	return s.marks[after-1], nil
}

func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
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

// Close writes what is pending and closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}
