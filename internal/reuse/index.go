package reuse

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"

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

	// Row is a part of the results, and Text one of the texts of the index, which is empty if the item has none.
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

// The number of an entry has 28 bits, so that more entries are not compared.
const (
	entryBits  = 28
	maxEntries = 1 << entryBits
)

// shape is the version of the shape of an index. One of another version is made again.
const shape = 2

// entrySize is the size of an entry in the file, in bytes.
const entrySize = 12*3 + 4 + 4 + 4 + 8 + 4 + 8 + 4

// append writes e to b, in entrySize bytes. decodeEntry reads it.
func (e entry) append(b []byte) []byte {
	b = append(append(append(b, e.Raw[:]...), e.Data[:]...), e.ID[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Index))
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(e.Group)))
	var ok uint32
	if e.OK {
		ok = 1
	}
	b = binary.LittleEndian.AppendUint32(b, ok)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Row.Offset))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Row.Length))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Text.Offset))
	return binary.LittleEndian.AppendUint32(b, uint32(e.Text.Length))
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

// indexWriter makes an index. Add is called for the entries in the order of their items.
type indexWriter struct {
	path string
	file *os.File
	out  *bufio.Writer // to file and sum
	sum  hash.Hash32
	head indexHead

	// texts is a scratch file, which is copied after the entries, and tail writes to it.
	texts *os.File
	tail  *bufio.Writer

	// last is the text of the entry before, which many entries share.
	last struct {
		text string
		span span
	}
}

// createIndex begins an index at path, which takes its place when it is closed.
func createIndex(path string, head indexHead) (*indexWriter, error) {
	file, err := os.OpenFile(path+".partial", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	texts, err := os.OpenFile(path+".texts", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	w := &indexWriter{path: path, file: file, sum: jobs.NewChecksum(), head: head, texts: texts, tail: bufio.NewWriter(texts)}
	w.out = bufio.NewWriterSize(io.MultiWriter(file, w.sum), 1<<16)
	w.head.Shape = shape
	return w, nil
}

// Add adds an entry with a text, or none.
func (w *indexWriter) Add(e entry, text string) error {
	if text != "" {
		if text != w.last.text { // many items are made from the same files
			w.last.text, w.last.span = text, span{w.head.Texts, len(text)}
			w.head.Texts += int64(len(text))
			if _, err := w.tail.WriteString(text); err != nil {
				return err
			}
		}
		e.Text = w.last.span
	}
	w.head.Entries++
	_, err := w.out.Write(e.append(w.out.AvailableBuffer()))
	return err
}

// Discard ends an index that is not to be.
func (w *indexWriter) Discard() error {
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()), w.texts.Close(), os.Remove(w.texts.Name()))
}

// Close writes the rest, and gives the file its name durably.
func (w *indexWriter) Close(all []events.Fingerprint, seq int64, results string) error {
	w.head.Jobs, w.head.Seq, w.head.Results = all, seq, results
	if err := w.finish(); err != nil {
		return errors.Join(err, w.Discard())
	}
	err := errors.Join(w.texts.Close(), os.Remove(w.texts.Name()))
	if err = errors.Join(err, w.file.Sync(), w.file.Close()); err != nil {
		return errors.Join(err, os.Remove(w.file.Name()))
	}
	return jobs.Rename(w.file.Name(), w.path)
}

// finish writes the texts and the head after the entries.
func (w *indexWriter) finish() error {
	if err := w.tail.Flush(); err != nil {
		return err
	}
	if _, err := w.texts.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w.out, w.texts)
	if err = errors.Join(err, w.out.Flush()); err != nil {
		return err
	}
	w.head.Sum = jobs.ChecksumText(w.sum)
	head, err := json.Marshal(w.head)
	if err != nil {
		return err
	}
	head = jobs.Seal(head, 0)
	_, err = w.file.Write(binary.LittleEndian.AppendUint32(head, uint32(len(head))))
	return err
}

// index is what is known of the items of a job that have ended. It is not safe for use by several goroutines.
type index struct {
	indexHead
	file *os.File

	// ids is in order. It is made when an item is looked for that is not the next one.
	ids []identified

	// next is the entry that is looked at first: the one behind that of the item before.
	next int

	// block has count entries from begin on.
	block        []byte
	begin, count int
}

// identified is where an item is that is known by a digest.
type identified struct {
	id digest

	// rank is the number of the entry. If that has not succeeded, failedRank is added, so that another one of the same
	// digest comes first.
	rank uint32
}

// failedRank is added to the rank of an entry that has not succeeded.
const failedRank = maxEntries

// errIndex is wrapped by the error for an index that is missing, damaged, or of another shape.
var errIndex = errors.New("no index that can be used")

// openIndex opens the index at a path and checks its sum.
func openIndex(path string) (*index, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	x := &index{file: file}
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
		return errors.New("it has the shape of another version")
	}
	if body != x.textsAt()+x.Texts {
		return errors.New("its parts have other sizes than it says")
	}
	sum := jobs.NewChecksum()
	if _, err := io.Copy(sum, io.NewSectionReader(x.file, 0, body)); err != nil {
		return err
	}
	if found := jobs.ChecksumText(sum); found != x.Sum {
		return fmt.Errorf("the checksum is %s, but the content has %s", x.Sum, found)
	}
	return nil
}

// Close closes the file.
func (x *index) Close() error { return x.file.Close() }

func (x *index) textsAt() int64 { return int64(x.Entries) * entrySize }

// blockEntries is how many entries are read at once. Items mostly come in the order in which they came before.
const blockEntries = 512

// At returns an entry by its number.
func (x *index) At(number int) (entry, error) {
	if number < x.begin || number >= x.begin+x.count {
		x.begin = number
		x.count = min(blockEntries, x.Entries-number)
		if cap(x.block) == 0 {
			x.block = make([]byte, 0, blockEntries*entrySize)
		}
		x.block = x.block[:x.count*entrySize]
		if _, err := x.file.ReadAt(x.block, int64(number)*entrySize); err != nil {
			x.count = 0
			return entry{}, err
		}
	}
	at := (number - x.begin) * entrySize
	return decodeEntry(x.block[at:at+entrySize], number), nil
}

// single is At for an entry whose neighbours are not wanted next.
func (x *index) single(number int) (entry, error) {
	if number >= x.begin && number < x.begin+x.count {
		return x.At(number)
	}
	var b [entrySize]byte
	if _, err := x.file.ReadAt(b[:], int64(number)*entrySize); err != nil {
		return entry{}, err
	}
	return decodeEntry(b[:], number), nil
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
	at, found := slices.BinarySearchFunc(x.ids, id, func(i identified, id digest) int {
		return bytes.Compare(i.id[:], id[:])
	})
	if !found {
		return entry{}, false, nil
	}
	e, err = x.single(int(x.ids[at].rank &^ failedRank))
	return e, err == nil, err
}

// order makes the list of the digests, unless it is there: mostly no item is looked for.
func (x *index) order() error {
	if len(x.ids) == x.Entries {
		return nil
	}
	ids := make([]identified, x.Entries)
	for n := range ids {
		e, err := x.At(n)
		if err != nil {
			return err
		}
		ids[n] = identified{e.Data, uint32(n)}
		if x.Keyed {
			ids[n].id = e.ID
		}
		if !e.OK {
			ids[n].rank |= failedRank
		}
	}
	slices.SortFunc(ids, func(a, b identified) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.rank, b.rank))
	})
	x.ids = ids
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
