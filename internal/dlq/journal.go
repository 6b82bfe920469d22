package dlq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"prodigy/internal/jobs"
	"prodigy/internal/rawjson"
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
	Line   int             `json:"line,omitempty"` // its number in the journal, from 1; 0 if an older version wrote it
	Seq    int64           `json:"seq,omitempty"`  // the record of the log that it follows; 0 means unknown
	ItemID string          `json:"item_id,omitempty"`
	Entry  json.RawMessage `json:"entry,omitempty"`
}

// encode returns the line of o, sealed and with its newline.
func (o op) encode() ([]byte, error) {
	line, err := rawjson.Encode(o)
	if err != nil {
		return nil, err
	}
	return append(jobs.Seal(line, 0), '\n'), nil
}

// decodeOp reads a line without its newline, whose checksum has been checked.
func decodeOp(line []byte) (o op, err error) {
	err = json.Unmarshal(jobs.StripSeal(line), &o)
	return o, err
}

// check returns an error if an operation is not one that this version writes.
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

	// applied is the record of the log that the last line follows. 0 means that it is not known.
	applied int64
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
	var missing error
	_, _, err := jobs.Replay(in, name, func(line []byte, wrong error) error {
		var o op
		if wrong == nil {
			o, wrong = decodeOp(line)
		}
		if wrong == nil {
			wrong = o.check()
		}
		if wrong != nil {
			return wrong
		}
		if o.Line != 0 && o.Line != x.ops+1 {
			// A last line too: a crash leaves none that is whole behind one that is missing.
			missing = fmt.Errorf("found line %d, expected line %d", o.Line, x.ops+1)
			return missing
		}
		x.note(o, int64(len(line))+1)
		return nil
	})
	if missing != nil {
		err = &jobs.LineError{Path: name, Line: x.ops + 1, Err: missing}
	}
	if damaged, is := errors.AsType[*jobs.LineError](err); is {
		return index{}, &DamagedError{*damaged}
	}
	if err != nil {
		return index{}, fmt.Errorf("read %s: %w", name, err)
	}
	return x, nil
}

// DamagedError says that a line of a journal which is not the last cannot be read.
type DamagedError struct{ jobs.LineError }

// Error begins with the place, and ends with what can be done.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s:%d: damaged line: %v (the log is complete: move this file away, and the next command "+
		"rebuilds it)", e.Path, e.Line, e.Err)
}

// opAt reads the op at p back, whose checksum must be right if it has one.
func opAt(in io.ReaderAt, p place) (op, error) {
	line := make([]byte, p.length)
	if _, err := in.ReadAt(line, p.offset); err != nil {
		return op{}, err
	}
	return checkedOp(line)
}

// checkedOp reads a line with its newline.
func checkedOp(line []byte) (op, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if _, err := jobs.CheckSeal(line); err != nil {
		return op{}, err
	}
	return decodeOp(line)
}
