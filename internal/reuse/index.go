package reuse

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// entry is what an index has of an item that has ended.
type entry struct {
	Raw  digest // of the data of the item, as it was written
	Data digest // of the data, as a hasher sees it
	ID   digest // of its id

	// Index is that of the item in its job.
	Index int

	// Group is which of the fingerprints of the index the item was run with, or -1 if that is not known.
	Group int

	// OK means that the item has succeeded.
	OK bool

	// Row is a part of the results, and Text a part of the texts of the index, which is empty if the item has none.
	Row, Text span

	// number is that of the entry in its index, from 0.
	number int
}

// span is a part of a file.
type span struct {
	Offset int64
	Length int
}

// indexHead says what an index is of. It stands at the end of the file, sealed, behind its length.
type indexHead struct {
	Shape int `json:"shape"`

	// Seq is the last record of the log that gave a row, and Results the CRC32C of the results.
	Seq     int64  `json:"seq"`
	Results string `json:"results"`

	// Keyed means that the items have keys.
	Keyed bool `json:"keyed"`

	// Fields are those of the items that count, as the workflow writes them.
	Fields  string `json:"fields"`
	Entries int    `json:"entries"`

	// Texts is how many bytes of texts follow the entries.
	Texts int64  `json:"texts"`
	Sum   string `json:"crc32c"`

	// Jobs are the fingerprints that entries have in common.
	Jobs []events.Fingerprint `json:"jobs"`
}

// shape is the version of the shape of an index. One of another version is made again.
const shape = 3

// entrySize is the size of an entry in the file, in bytes.
const entrySize = 12*3 + 4 + 4 + 4 + 8 + 4 + 8 + 4

// append writes e to b, in entrySize bytes. decodeEntry reads it.
func (e entry) append(b []byte) []byte {
	n := binary.LittleEndian
	b = append(append(append(b, e.Raw[:]...), e.Data[:]...), e.ID[:]...)
	b = n.AppendUint32(b, uint32(e.Index))
	b = n.AppendUint32(b, uint32(e.Group))
	var ok uint32
	if e.OK {
		ok = 1
	}
	b = n.AppendUint32(b, ok)
	for _, s := range [...]span{e.Row, e.Text} {
		b = n.AppendUint32(n.AppendUint64(b, uint64(s.Offset)), uint32(s.Length))
	}
	return b
}

func decodeEntry(b []byte, number int) entry {
	e := entry{number: number}
	copy(e.Raw[:], b)
	copy(e.Data[:], b[12:])
	copy(e.ID[:], b[24:])
	n := binary.LittleEndian
	e.Index, e.Group, e.OK = int(n.Uint32(b[36:])), int(int32(n.Uint32(b[40:]))), n.Uint32(b[44:]) == 1
	e.Row = span{int64(n.Uint64(b[48:])), int(n.Uint32(b[56:]))}
	e.Text = span{int64(n.Uint64(b[60:])), int(n.Uint32(b[68:]))}
	return e
}

// writeIndex makes an index at path of entries, in the order of their items, and of the texts that they name. Of head
// it sets what follows from these.
func writeIndex(path string, head indexHead, entries iter.Seq2[entry, error], texts *io.SectionReader) error {
	return jobs.Make(path+".partial", path, func(file io.Writer) (err error) {
		sum := jobs.NewChecksum()
		out := bufio.NewWriterSize(io.MultiWriter(file, sum), 1<<16)
		for e, err := range entries {
			if err != nil {
				return err
			}
			head.Entries++
			if _, err := out.Write(e.append(out.AvailableBuffer())); err != nil {
				return err
			}
		}
		if head.Texts, err = io.Copy(out, texts); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		head.Shape, head.Sum = shape, jobs.ChecksumText(sum)
		line, err := json.Marshal(head)
		if err != nil {
			return err
		}
		line = jobs.Seal(line, 0)
		_, err = file.Write(binary.LittleEndian.AppendUint32(line, uint32(len(line))))
		return err
	})
}

// index is what is known of the items of a job that have ended. It is not safe for use by several goroutines.
type index struct {
	indexHead
	file *os.File

	// numbers are those of the entries by their digests, or the complement of that of an item that has failed. The map
	// is made when an item is looked for that is not the next one.
	numbers map[digest]int32

	// next is the entry that is looked at first: the one behind that of the item before.
	next int

	// block has the entries from begin on that were read last.
	block []byte
	begin int
}

// errIndex is wrapped by the error for an index that is missing, damaged, or of another shape.
var errIndex = errors.New("no usable index")

// openIndex opens the index at a path and checks its sum.
func openIndex(path string) (*index, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	x := &index{file: file, block: make([]byte, 0, blockEntries*entrySize)}
	if err := x.check(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", errIndex, filepath.Base(path), err), file.Close())
	}
	return x, nil
}

// check reads the head, and compares the sum of all before it.
func (x *index) check() error {
	info, err := x.file.Stat()
	if err != nil {
		return err
	}
	var end [4]byte
	if _, err := x.file.ReadAt(end[:], info.Size()-int64(len(end))); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	body := info.Size() - int64(len(end)) - length
	if body < 0 {
		return errors.New("it is too short")
	}
	head := make([]byte, length)
	if _, err := x.file.ReadAt(head, body); err != nil {
		return err
	}
	if sealed, err := jobs.CheckSeal(head); !sealed || err != nil {
		return errors.Join(errors.New("its end is damaged"), err)
	}
	if err := json.Unmarshal(head, &x.indexHead); err != nil {
		return err
	}
	if x.Shape != shape {
		return errors.New("it was written by another version")
	}
	if body != x.textsAt()+x.Texts {
		return errors.New("its sizes are inconsistent")
	}
	sum := jobs.NewChecksum()
	if _, err := io.Copy(sum, io.NewSectionReader(x.file, 0, body)); err != nil {
		return err
	}
	if found := jobs.ChecksumText(sum); found != x.Sum {
		return fmt.Errorf("checksum is %s, computed %s", x.Sum, found)
	}
	return nil
}

// Close closes the file.
func (x *index) Close() error { return x.file.Close() }

func (x *index) textsAt() int64 { return int64(x.Entries) * entrySize }

// blockEntries is how many entries are read at once. Items mostly come in the order in which they came before.
const blockEntries = 64

// At returns an entry by its number.
func (x *index) At(number int) (entry, error) {
	if number < x.begin || number >= x.begin+len(x.block)/entrySize {
		x.begin, x.block = number, x.block[:min(blockEntries, x.Entries-number)*entrySize]
		if _, err := x.file.ReadAt(x.block, int64(number)*entrySize); err != nil {
			x.block = x.block[:0]
			return entry{}, err
		}
	}
	return decodeEntry(x.block[(number-x.begin)*entrySize:], number), nil
}

// Next returns the entry behind the one that was found last, if there is one: mostly that of the next item.
func (x *index) Next() (entry, bool, error) {
	if x.next >= x.Entries {
		return entry{}, false, nil
	}
	e, err := x.At(x.next)
	return e, err == nil, err
}

// Find returns the entry of the item with this digest: of its id in a job with keys, else of its data. Of
// several it is one that succeeded, if any did.
func (x *index) Find(id digest) (e entry, found bool, err error) {
	if err := x.order(); err != nil {
		return entry{}, false, err
	}
	number, found := x.numbers[id]
	if !found {
		return entry{}, false, nil
	}
	e, err = x.At(int(max(number, ^number)))
	return e, err == nil, err
}

// order makes the map of the digests, unless it is there: mostly no item is looked for.
func (x *index) order() error {
	if x.numbers != nil {
		return nil
	}
	numbers := make(map[digest]int32, x.Entries)
	for n := range x.Entries {
		e, err := x.At(n)
		if err != nil {
			return err
		}
		id, number := e.Data, int32(n)
		if x.Keyed {
			id = e.ID
		}
		if !e.OK {
			number = ^number
		}
		// Of several with one digest it is the first that succeeded.
		if before, known := numbers[id]; !known || before < 0 && e.OK {
			numbers[id] = number
		}
	}
	x.numbers = numbers
	return nil
}

// Text returns the text of an entry; nil if it has none.
func (x *index) Text(e entry) ([]byte, error) {
	if e.Text.Length == 0 {
		return nil, nil
	}
	data := make([]byte, e.Text.Length)
	_, err := x.file.ReadAt(data, x.textsAt()+e.Text.Offset)
	return data, err
}
