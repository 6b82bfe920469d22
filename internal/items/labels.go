package items

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"prodigy/internal/check"
)

// Names are what the items of a job are called besides their ids.
type Names struct {
	JobID string

	// Path is that of the store. If there is none, no item is found.
	Path string

	// Label returns what an item is called, given its data as people may see it.
	Label func(id string, item json.RawMessage) string
}

// AmbiguousError means that several items have the label that was asked for.
type AmbiguousError struct {
	JobID string
	Label string

	// IDs are those of the first such items. More reports whether there are others.
	IDs  []string
	More bool
}

func (e *AmbiguousError) Error() string {
	more := ""
	if e.More {
		more = " and more"
	}
	return fmt.Sprintf("%[2]q is ambiguous in job %[1]s: %[3]s%[4]s", e.JobID, e.Label, strings.Join(e.IDs, ", "), more)
}

// Find returns the items that are asked for by their ids or else by their labels, without their data, by what was
// asked. It reads the items once or twice, however many are asked for. Several items with one label are an
// *AmbiguousError.
func (n Names) Find(asked []string) (map[string]Item, error) {
	found := map[string]Item{}
	store, err := OpenStore(n.Path)
	if errors.Is(err, os.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	defer check.Quietly(store.Close)
	left := map[string]bool{}
	for _, name := range asked {
		left[name] = true
	}
	take := func(name string, it Item) {
		delete(left, name)
		found[name] = Item{ID: it.ID, Index: it.Index}
	}
	begin := []byte(idKey)
	if len(asked) == 1 { // it is found without decoding the items before it
		begin = append(begin, asked[0]+`",`...)
	}
	for it, err := range store.candidates(begin) {
		if err != nil {
			return nil, err
		}
		if left[it.ID] {
			take(it.ID, it)
		}
		if len(left) == 0 {
			break
		}
	}
	// What no id matched is a label. All items are read, since a second one may have it too.
	const few = 3
	called := map[string][]Item{}
	for c := store.Cursor(); c.More() && len(left) > 0; {
		it, err := c.Next()
		if err != nil {
			return nil, err
		}
		if name := n.Label(it.ID, it.Shown()); left[name] && len(called[name]) <= few {
			called[name] = append(called[name], Item{ID: it.ID, Index: it.Index})
		}
	}
	for name, same := range check.ByKey(called) {
		if len(same) > 1 {
			var ids []string
			for _, it := range check.First(same, few) {
				ids = append(ids, it.ID)
			}
			return nil, &AmbiguousError{JobID: n.JobID, Label: name, IDs: ids, More: len(same) > few}
		}
		take(name, same[0])
	}
	return found, nil
}

// StoredLabels reads labels from the items of a job, which may be running.
type StoredLabels struct {
	path  string
	shown func(id string, item json.RawMessage) (string, json.RawMessage)

	// store is nil until it could be opened. It has the items that were there at that time.
	store *Store

	// opened is when the store was opened last, or could not be, and took is how long that was.
	opened time.Time
	took   time.Duration
}

// NewStoredLabels returns the labels of the items in the store at path. Shown returns what an item is called, and its
// data as it may be shown.
func NewStoredLabels(path string, shown func(id string, item json.RawMessage) (string, json.RawMessage)) *StoredLabels {
	return &StoredLabels{path: path, shown: shown}
}

// A view of a growing store must be so old, and opening it has taken so small a part of the time, before it is opened
// again for an item that it lacks.
const (
	reopenAfter = 2 * time.Second
	reopenShare = 20
)

// Label returns what the item with this index is called, for web.Labels. An item that cannot be read has no label.
func (l *StoredLabels) Label(index int) string {
	if l.store == nil || index >= l.store.Len() {
		now := time.Now()
		if now.Sub(l.opened) < max(reopenAfter, reopenShare*l.took) {
			return ""
		}
		// The store was only read from, so nothing is lost if closing it fails.
		_ = l.Close()
		store, err := OpenStore(l.path)
		l.opened, l.took = time.Now(), time.Since(now)
		if err != nil {
			return ""
		}
		l.store = store
	}
	it, err := l.store.At(index)
	if err != nil {
		return ""
	}
	label, _ := l.shown(it.ID, it.Shown())
	return label
}

// Close closes the items.
func (l *StoredLabels) Close() error {
	if l.store == nil {
		return nil
	}
	store := l.store
	l.store = nil
	return store.Close()
}
