package items

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	sortMemory  = 8 << 20 // bytes of records that are held, and as much again for the buffers of a merge
	firstAlloc  = 1 << 20
	recordExtra = 32 // bytes a record takes besides its key and data
	maxBuffer   = 64 << 10
	minBuffer   = 4 << 10
)

// sorter sorts records by key, stably. What does not fit into its memory goes to a scratch file, as sorted
// runs that are merged at the end.
type sorter struct {
	// dir is that of the scratch file. Empty means the temporary directory of the system.
	dir string

	// memory is how many bytes of records are held. Zero means sortMemory.
	memory int

	// held has the keys and data of records, which are not in the file.
	held    []byte
	records []record

	// file is nil until the memory was full once. It has size bytes, which are the runs, in the order in which their
	// records came.
	file *os.File
	size int64
	runs []span
}

// record is the position of a record in held.
type record struct {
	prefix    uint64 // of the key; decides most comparisons
	at        int
	key, data int // lengths
}

// span is a part of a file.
type span struct{ from, to int64 }

// add adds a copy of a record.
func (s *sorter) add(key, data []byte) error {
	full := cmp.Or(s.memory, sortMemory)
	if len(s.records) > 0 && len(s.held)+len(key)+len(data)+(len(s.records)+1)*recordExtra > full {
		if err := s.spill(); err != nil {
			return fmt.Errorf("sort the items: %w", err)
		}
	}
	// Past its first megabyte held grows to its full size, so that no smaller copies are left behind.
	if need := len(s.held) + len(key) + len(data); need > cap(s.held) && need > firstAlloc {
		s.held = slices.Grow(s.held, max(full-len(s.held), len(key)+len(data)))
	}
	s.records = append(s.records, record{prefix: prefix(key), at: len(s.held), key: len(key), data: len(data)})
	s.held = append(append(s.held, key...), data...)
	return nil
}

// prefix returns the first bytes of a key as a number with the same order.
func prefix(key []byte) uint64 {
	var first [8]byte
	copy(first[:], key)
	return binary.BigEndian.Uint64(first[:])
}

func (s *sorter) keyOf(r record) []byte { return s.held[r.at : r.at+r.key] }

// sort sorts the held records. Of equal keys the one that came first is the lesser.
func (s *sorter) sort() {
	slices.SortFunc(s.records, func(a, b record) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return cmp.Or(bytes.Compare(s.keyOf(a), s.keyOf(b)), cmp.Compare(a.at, b.at))
	})
}

// spill writes the held records to the file, as a run.
func (s *sorter) spill() error {
	if s.file == nil {
		var err error
		if s.file, err = os.CreateTemp(s.dir, "sort-*"); err != nil {
			return err
		}
	}
	s.sort()
	out := bufio.NewWriterSize(s.file, maxBuffer)
	from := s.size
	var lengths []byte
	for _, r := range s.records {
		lengths = binary.AppendUvarint(binary.AppendUvarint(lengths[:0], uint64(r.key)), uint64(r.data))
		_, _ = out.Write(lengths) // Flush returns the error
		_, _ = out.Write(s.held[r.at : r.at+r.key+r.data])
		s.size += int64(len(lengths) + r.key + r.data)
	}
	s.runs = append(s.runs, span{from, s.size})
	s.held, s.records = s.held[:0], s.records[:0]
	return out.Flush()
}

// each calls emit with the records in order, until it returns an error. Key and data are only valid during the call.
func (s *sorter) each(emit func(key, data []byte) error) error {
	if s.file == nil {
		s.sort()
		for _, r := range s.records {
			if err := emit(s.keyOf(r), s.held[r.at+r.key:r.at+r.key+r.data]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("sort the items: %w", err)
	}
	s.held, s.records = nil, nil
	return s.merge(emit)
}

// merge calls emit with the records of all runs in order. The least record is always that of runs[0]. The buffers of
// all runs together take at most as much memory as the held records did, or 4 KiB each if that is more.
func (s *sorter) merge(emit func(key, data []byte) error) error {
	size := min(max(cmp.Or(s.memory, sortMemory)/len(s.runs), minBuffer), maxBuffer)
	var runs []*runReader
	for i, r := range s.runs {
		next := &runReader{number: i, in: bufio.NewReaderSize(io.NewSectionReader(s.file, r.from, r.to-r.from), size)}
		if err := next.next(); err != nil {
			return err
		}
		runs = append(runs, next)
	}
	slices.SortFunc(runs, (*runReader).compare)
	for len(runs) > 0 {
		least := runs[0]
		if err := emit(least.key, least.data); err != nil {
			return err
		}
		if err := least.next(); err == io.EOF {
			runs = runs[1:]
			continue
		} else if err != nil {
			return err
		}
		after, _ := slices.BinarySearchFunc(runs[1:], least, (*runReader).compare)
		copy(runs, runs[1:1+after])
		runs[after] = least
	}
	return nil
}

// close removes the scratch file.
func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}

// runReader reads the records of a run. key and data are those of the record at hand, until next is called.
type runReader struct {
	number    int
	in        *bufio.Reader
	key, data []byte
}

// next reads the next record. The error is io.EOF after the last one.
func (r *runReader) next() error {
	key, err := binary.ReadUvarint(r.in)
	if err == io.EOF {
		return err
	}
	data, dataErr := binary.ReadUvarint(r.in)
	if err = errors.Join(err, dataErr); err == nil {
		r.key, err = fill(r.in, r.key, int(key))
	}
	if err == nil {
		r.data, err = fill(r.in, r.data, int(data))
	}
	if err != nil {
		return fmt.Errorf("read the sorted items: %w", err)
	}
	return nil
}

// fill reads n bytes into b, which it grows if needed.
func fill(in io.Reader, b []byte, n int) ([]byte, error) {
	if cap(b) < n {
		b = make([]byte, n, n+n/2)
	}
	b = b[:n]
	_, err := io.ReadFull(in, b)
	return b, err
}

// compare orders runs by their records at hand. Of equal ones the run that was written first is the lesser.
func (r *runReader) compare(o *runReader) int {
	return cmp.Or(bytes.Compare(r.key, o.key), cmp.Compare(r.number, o.number))
}
