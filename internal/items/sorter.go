package items

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	sortMemory  = 8 << 20 // of the records that wait to be sorted, and as much again of what is read to merge them
	firstRoom   = 1 << 20
	recordExtra = 32 // what a record takes besides its key and data
	mostBuffer  = 64 << 10
	leastBuffer = 4 << 10
)

// sorter puts records into the order of their keys, and those with the same key into the order in which they came. What does not fit
// its memory goes into a scratch file, in runs that are merged at the end.
type sorter struct {
	dir    string // of the scratch file; empty: that of the system
	memory int    // 0: sortMemory

	held    []byte // keys and data that are not in the file
	records []record
	file    *os.File
	size    int64 // of the file
	runs    []span
}

// record is where a record lies in held.
type record struct {
	prefix    uint64 // of the key, to compare most records by
	at        int
	key, data int // lengths
}

// span is a part of a file.
type span struct{ from, to int64 }

// add takes a copy of a record.
func (s *sorter) add(key, data []byte) error {
	full := cmp.Or(s.memory, sortMemory)
	if len(s.records) > 0 && len(s.held)+len(key)+len(data)+(len(s.records)+1)*recordExtra > full {
		if err := s.spill(); err != nil {
			return fmt.Errorf("sort the items: %w", err)
		}
	}
	if need := len(s.held) + len(key) + len(data); need > cap(s.held) && need > firstRoom {
		s.held = slices.Grow(s.held, max(full-len(s.held), len(key)+len(data))) // at once, so that no outgrown copies lie about
	}
	s.records = append(s.records, record{prefix: prefix(key), at: len(s.held), key: len(key), data: len(data)})
	s.held = append(append(s.held, key...), data...)
	return nil
}

// prefix is the beginning of a key as a number of the same order.
func prefix(key []byte) uint64 {
	var first [8]byte
	copy(first[:], key)
	return binary.BigEndian.Uint64(first[:])
}

func (s *sorter) keyOf(r record) []byte { return s.held[r.at : r.at+r.key] }

func (s *sorter) dataOf(r record) []byte { return s.held[r.at+r.key : r.at+r.key+r.data] }

// sort puts what is held in order.
func (s *sorter) sort() {
	slices.SortFunc(s.records, func(a, b record) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return cmp.Or(bytes.Compare(s.keyOf(a), s.keyOf(b)), cmp.Compare(a.at, b.at))
	})
}

// spill writes what is held to the file, as a run.
func (s *sorter) spill() error {
	if s.file == nil {
		var err error
		if s.file, err = os.CreateTemp(s.dir, "sort-*"); err != nil {
			return err
		}
	}
	s.sort()
	out := bufio.NewWriterSize(s.file, mostBuffer)
	from := s.size
	var lengths []byte
	for _, r := range s.records {
		lengths = binary.AppendUvarint(binary.AppendUvarint(lengths[:0], uint64(r.key)), uint64(r.data))
		_, _ = out.Write(lengths) // an error stays, and Flush gives it
		_, _ = out.Write(s.held[r.at : r.at+r.key+r.data])
		s.size += int64(len(lengths) + r.key + r.data)
	}
	s.runs = append(s.runs, span{from, s.size})
	s.held, s.records = s.held[:0], s.records[:0]
	return out.Flush()
}

// each calls take with the records in order, until it gives an error. Key and data are only valid during the call.
func (s *sorter) each(take func(key, data []byte) error) error {
	if s.file == nil {
		s.sort()
		for _, r := range s.records {
			if err := take(s.keyOf(r), s.dataOf(r)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("sort the items: %w", err)
	}
	s.held, s.records = nil, nil
	return s.merge(take)
}

// merge gives the records of all runs.
func (s *sorter) merge(take func(key, data []byte) error) error {
	size := min(max(cmp.Or(s.memory, sortMemory)/len(s.runs), leastBuffer), mostBuffer)
	var heap runHeap
	for i, r := range s.runs {
		next := &runReader{number: i, in: bufio.NewReaderSize(io.NewSectionReader(s.file, r.from, r.to-r.from), size)}
		if err := heap.put(next); err != nil {
			return err
		}
	}
	for len(heap) > 0 {
		if err := take(heap[0].key, heap[0].data); err != nil {
			return err
		}
		if err := heap.step(); err != nil {
			return err
		}
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
