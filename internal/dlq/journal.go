package dlq

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"prodigy/internal/jobs"
)

// The words under "op" in the journal.
const (
	opAdd    = "add"
	opUpdate = "update"
	opRemove = "remove"
	opMark   = "mark"
)

// op is one line of the journal. A mark is about no item: it says how far the log had been followed.
type op struct {
	Op     string          `json:"op"`
	Line   int             `json:"line,omitempty"` // its number in the journal, from 1; 0: of an older version
	Seq    int64           `json:"seq,omitempty"`  // the record of the log that it follows; 0: unknown
	ItemID string          `json:"item_id,omitempty"`
	Entry  json.RawMessage `json:"entry,omitempty"`
}

// encode returns the line of o, sealed and with its newline.
func (o op) encode() ([]byte, error) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return nil, err
	}
	return append(jobs.Seal(bytes.TrimSuffix(line.Bytes(), []byte("\n")), 0), '\n'), nil
}

// decodeOp reads a line, whose checksum must be right if it has one. What it returns may share memory with it.
func decodeOp(line []byte) (op, error) {
	object, sealed, err := unseal(line)
	if err != nil {
		return op{}, err
	}
	return decodeObject(object, sealed)
}

// decodeObject reads a line without its checksum, which has been checked if it was sealed.
func decodeObject(object []byte, sealed bool) (op, error) {
	if o, ok := cutOp(object); ok && (sealed || json.Valid(o.Entry)) {
		return o, nil
	}
	var o op
	err := json.Unmarshal(object, &o)
	return o, err
}

// unseal checks a line and returns it without its checksum and its newline.
func unseal(line []byte) (object []byte, sealed bool, err error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	sealed, err = jobs.CheckSeal(line)
	return jobs.StripSeal(line), sealed, err
}

// cutOp splits a line in exactly the form that encode gives it, without decoding the entry; that takes a
// fraction of the time of encoding/json. It reports false for any other form.
func cutOp(line []byte) (o op, ok bool) {
	word, rest, ok := within(line, `{"op":"`, `"`)
	if o.Op = string(word); !ok || o.Op != opAdd && o.Op != opUpdate {
		return op{}, false
	}
	if number, _, found := within(rest, `,"line":`, `,"`); found {
		n, err := strconv.Atoi(string(number))
		if err != nil || strconv.Itoa(n) != string(number) {
			return op{}, false
		}
		o.Line, rest = n, rest[len(`,"line":`)+len(number):]
	}
	if number, behind, found := within(rest, `,"seq":`, `,"item_id":"`); found {
		n, err := strconv.ParseInt(string(number), 10, 64)
		o.Seq, rest, ok = n, behind, err == nil && strconv.FormatInt(n, 10) == string(number)
	} else {
		rest, ok = bytes.CutPrefix(rest, []byte(`,"item_id":"`))
	}
	id, rest, found := bytes.Cut(rest, []byte(`","entry":`))
	o.ItemID = string(id)
	entry, whole := bytes.CutSuffix(rest, []byte("}"))
	o.Entry = entry
	return o, ok && found && whole && bytes.IndexFunc(id, isEscaped) < 0
}

// within cuts the prefix before off b and splits the rest at behind.
func within(b []byte, before, behind string) (inner, rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(b, []byte(before))
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(rest, []byte(behind))
}

// isEscaped reports whether a character must be escaped in JSON, or is not ASCII.
func isEscaped(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

func (o op) check() error {
	switch {
	case o.Op == opMark:
		return nil
	case o.ItemID == "":
		return errors.New("no item_id")
	case o.Op == opRemove:
		return nil
	case o.Op != opAdd && o.Op != opUpdate:
		return fmt.Errorf("unknown op %q", o.Op)
	case !bytes.HasPrefix(o.Entry, []byte("{")):
		return errors.New("no entry")
	}
	return nil
}

// place is where the line of an entry lies in the journal.
type place struct {
	offset int64
	length int64
	added  int64 // entries sort by it
}

// index is what replaying a journal gives.
type index struct {
	live  map[string]place
	ops   int   // lines in the journal
	size  int64 // of the journal, up to its last whole line
	added int64 // entries added so far

	applied int64 // the record of the log that the last line follows; 0: unknown
}

func newIndex() index { return index{live: map[string]place{}} }

// note follows an op whose line of this length was put at the end of the journal.
func (x *index) note(o op, length int64) {
	switch o.Op {
	case opMark:
	case opRemove:
		delete(x.live, o.ItemID)
	default:
		p, known := x.live[o.ItemID]
		if !known {
			x.added++
			p.added = x.added
		}
		p.offset, p.length = x.size, length
		x.live[o.ItemID] = p
	}
	x.applied = o.Seq
	x.ops++
	x.size += length
}

// replay reads a journal. A torn or unreadable last line is left out; x.size tells where it begins. What is
// damaged before is an error that names the journal and the line.
func replay(in io.Reader, name string) (index, error) {
	x := newIndex()
	r := bufio.NewReaderSize(in, 64<<10)
	var sums jobs.SealedLines // those that an older version wrote have none, and come first
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return x, nil
		}
		if err != nil {
			return index{}, fmt.Errorf("read %s: %w", name, err)
		}
		var o op
		sealed := bytes.TrimSuffix(line, []byte("\n"))
		if err = sums.Check(sealed); err == nil {
			o, err = decodeObject(jobs.StripSeal(sealed), sums.Required)
		}
		if err == nil {
			err = o.check()
		}
		if err == nil && o.Line != 0 && o.Line != x.ops+1 {
			// A last line too: a crash leaves none that is whole behind one that is missing.
			err = fmt.Errorf("it is line %d, where line %d should be", o.Line, x.ops+1)
			return index{}, &DamagedError{Place: fmt.Sprintf("%s:%d", name, x.ops+1), Err: err}
		}
		if err != nil {
			if _, end := r.Peek(1); errors.Is(end, io.EOF) {
				return x, nil
			}
			return index{}, &DamagedError{Place: fmt.Sprintf("%s:%d", name, x.ops+1), Err: err}
		}
		x.note(o, int64(len(line)))
	}
}

// DamagedError says that a line of a journal which is not the last cannot be read.
type DamagedError struct {
	Place string // file:line
	Err   error
}

// Error begins with the place, and ends with what can be done.
func (e *DamagedError) Error() string {
	return e.Place + ": damaged line: " + e.Err.Error() +
		" (the log has it all: move this file away, and the next command makes it again)"
}

// Unwrap returns why.
func (e *DamagedError) Unwrap() error { return e.Err }

// opAt reads the op at p back.
func opAt(in io.ReaderAt, p place) (op, error) {
	line, err := lineAt(in, p)
	if err != nil {
		return op{}, err
	}
	return decodeOp(line)
}

func lineAt(in io.ReaderAt, p place) ([]byte, error) {
	line := make([]byte, p.length)
	_, err := in.ReadAt(line, p.offset)
	return line, err
}

// entryAt reads the entry at p back.
func entryAt(in io.ReaderAt, p place) (Entry, error) {
	o, err := opAt(in, p)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	err = json.Unmarshal(o.Entry, &e)
	return e, err
}

// encodeEntry returns e as JSON on one line.
func encodeEntry(e Entry) (json.RawMessage, error) {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e)
	return bytes.TrimSpace(data.Bytes()), err
}
