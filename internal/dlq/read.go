package dlq

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// Read returns the entries at path in the order they were added, without opening it for writing. No file: no entries.
func Read(path string) ([]Entry, error) {
	var entries []Entry
	for e, err := range Each(path) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Each is Read for queues of any size: it yields the entries one by one, as they were when it began. An error
// is the last it yields.
func Each(path string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := look(path, func(f io.ReaderAt, x index) error {
			for _, id := range x.ids() {
				e, err := entryOf(f, x, id)
				if err != nil {
					return err
				}
				if !yield(e, nil) {
					return errEnough
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(Entry{}, err)
		}
	}
}

// A Summary says what there is to do about a queue.
type Summary struct {
	First    string // the id of the first entry, if there is one
	Several  bool   // there are further ones
	Eligible bool   // any of them is eligible for a retry
}

// Lead returns the summary of the queue at path. It reads no further than it has to.
func Lead(path string) (s Summary, err error) {
	for e, err := range Each(path) {
		s.Several = s.First != "" && err == nil
		s.First = cmp.Or(s.First, e.ItemID)
		s.Eligible = s.Eligible || e.ReprocessEligible
		if err != nil || s.Several && s.Eligible {
			return s, err
		}
	}
	return s, nil
}

// Find returns the entry of an item at path, and whether there is one.
func Find(path, itemID string) (e Entry, found bool, err error) {
	err = look(path, func(f io.ReaderAt, x index) error {
		if _, found = x.live[itemID]; !found {
			return nil
		}
		var err error
		e, err = entryOf(f, x, itemID)
		return err
	})
	return e, found, err
}

// FindPart returns the entry at path of the item with this id, or else of the only item whose id contains it.
func FindPart(path, part string) (e Entry, found bool, err error) {
	ids, err := IDs(path)
	if err != nil {
		return e, false, err
	}
	if !slices.Contains(ids, part) {
		ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.Contains(id, part) })
		if len(ids) != 1 {
			return e, false, nil
		}
		part = ids[0]
	}
	return Find(path, part)
}

// IDs returns the items of the entries at path in the order they were added.
func IDs(path string) (ids []string, err error) {
	err = look(path, func(_ io.ReaderAt, x index) error {
		ids = x.ids()
		return nil
	})
	return ids, err
}

// Applied returns the record of the log up to which the queue at path is certainly up to date; 0 if that is not known.
func Applied(path string) (seq int64, err error) {
	if o, ok := lastOp(path); ok {
		return o.Seq, nil
	}
	err = look(path, func(_ io.ReaderAt, x index) error {
		seq = x.applied
		return nil
	})
	return seq, err
}

// lastOp returns the last line of the journal at path. It is not ok when that is torn or damaged: then all of it is to
// be read.
func lastOp(path string) (o op, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return o, false
	}
	defer check.Quietly(f.Close)
	lines, err := jobs.NewBackward(f)
	if err != nil {
		return o, false
	}
	line, whole, err := lines.Line()
	if err == nil {
		o, err = checkedOp(line)
	}
	return o, whole && err == nil && o.check() == nil
}

// errEnough says that whoever ranges over the entries wants no more.
var errEnough = errors.New("no more entries wanted")

// look shows use the journal at path and where its entries lie. There may be none.
func look(path string, use func(f io.ReaderAt, x index) error) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	x, err := replay(f, path)
	if err == nil {
		err = use(f, x)
	}
	return errors.Join(err, f.Close())
}

// ids returns the item ids of the entries in the order they were added.
func (x *index) ids() []string {
	return slices.SortedFunc(maps.Keys(x.live), func(a, b string) int {
		return cmp.Compare(x.live[a].added, x.live[b].added)
	})
}

// entryOf reads the entry of an item, whose place the index knows.
func entryOf(f io.ReaderAt, x index, id string) (e Entry, err error) {
	o, err := opAt(f, x.live[id])
	if err == nil {
		err = json.Unmarshal(o.Entry, &e)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read dead letter %s: %w", id, err)
	}
	return e, nil
}
