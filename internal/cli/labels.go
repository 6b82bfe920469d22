package cli

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// labels is what the items of a job are called besides their ids.
type labels struct {
	job   jobs.Job
	label func(id string, item json.RawMessage) string
}

// labelsOf returns the labels of a job. Without its workflow they are guessed.
func labelsOf(job jobs.Job) labels {
	w, err := loadRecorded(job)
	if err != nil {
		w = nil
	}
	return labelsBy(job, w)
}

// labelsBy is labelsOf with the workflow at hand, which may be nil.
func labelsBy(job jobs.Job, w *workflow.Workflow) labels {
	var m *workflow.Map
	if w != nil {
		m = w.Map
	}
	return labels{job: job, label: agent.Labels(m)}
}

// beside returns " (label)" to print behind the id of an item whose data is printed as well, or "" if the data says as much.
func beside(label string, item json.RawMessage) string {
	if len(item) == 0 || item[0] != '{' {
		return ""
	}
	return inBrackets(label)
}

// labelShown is how many characters of a label are printed.
const labelShown = 60

func inBrackets(label string) string {
	if label == "" {
		return ""
	}
	return " (" + term.Brief(label, labelShown) + ")"
}

// find returns the id of the item that is asked for, by its id or else by its label, and reports whether there is one. Several items with
// that label are an error.
func (l labels) find(asked string) (id string, found bool, err error) {
	all, err := l.findAll([]string{asked})
	it, found := all[asked]
	return it.ID, found, err
}

// findAll is find for several items, which it returns without their data, by what was asked. It reads the items once or twice, however many are asked for.
func (l labels) findAll(asked []string) (map[string]items.Item, error) {
	found := map[string]items.Item{}
	store, err := items.OpenStore(l.job.ItemsFile())
	if errors.Is(err, os.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	left := map[string]bool{}
	for _, name := range asked {
		left[name] = true
	}
	take := func(name string, it items.Item) {
		delete(left, name)
		found[name] = items.Item{ID: it.ID, Index: it.Index}
	}
	if len(asked) == 1 {
		it, ok, err := store.Find(asked[0])
		if err != nil {
			return nil, err
		}
		if ok {
			take(asked[0], it)
		}
	} else {
		for c := store.Cursor(); c.More() && len(left) > 0; {
			it, err := c.Next()
			if err != nil {
				return nil, err
			}
			if left[it.ID] {
				take(it.ID, it)
			}
		}
	}
	const few = 3
	called := map[string][]items.Item{} // by label
	for c := store.Cursor(); c.More() && len(left) > 0; {
		it, err := c.Next()
		if err != nil {
			return nil, err
		}
		if name := l.label(it.ID, it.Shown()); left[name] && len(called[name]) <= few {
			called[name] = append(called[name], items.Item{ID: it.ID, Index: it.Index})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(called)) {
		if same := called[name]; len(same) > 1 {
			var ids []string
			for _, it := range same[:min(len(same), few)] {
				ids = append(ids, it.ID)
			}
			more := ""
			if len(same) > few {
				more = " and more"
			}
			return nil, refusef("several items of job %s are called %q: %s%s; name one by its id", l.job.ID, name, strings.Join(ids, ", "), more)
		}
		take(name, called[name][0])
	}
	return found, nil
}

// idOf returns the id of the item that is asked for. A name that no item has is returned as it is, for the message that there is none.
func (l labels) idOf(asked string) (string, error) {
	id, found, err := l.find(asked)
	if err != nil || !found {
		return asked, err
	}
	return id, nil
}

// idsOf is idOf for several items.
func (l labels) idsOf(asked []string) ([]string, error) {
	found, err := l.findAll(asked)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(asked)
	for i, name := range asked {
		if it, is := found[name]; is {
			ids[i] = it.ID
		}
	}
	return ids, nil
}

// storedLabels reads labels from the items of a job, which may be running. Its zero value with job and shown set is ready.
type storedLabels struct {
	job    jobs.Job
	shown  func(id string, item json.RawMessage) (string, json.RawMessage)
	store  *items.Store // nil: not opened yet
	opened time.Time
	took   time.Duration // to open it
}

// labelsInStore returns the labels of a job by the index of their items. They hide its secrets.
func labelsInStore(job jobs.Job) *storedLabels {
	return &storedLabels{job: job, shown: itemsShown(job)}
}

// labelsOfRun is labelsInStore for a job that is run by this process, which knows its secrets.
func (c *console) labelsOfRun(job jobs.Job, w *workflow.Workflow) *storedLabels {
	names := labelsBy(job, w)
	return &storedLabels{job: job, shown: func(id string, item json.RawMessage) (string, json.RawMessage) {
		shown := c.secrets.item(item)
		return names.label(id, shown), shown
	}}
}

// A view of a growing store must be so old, and opening it has taken so small a part of the time, before it is opened again for an item that
// it lacks.
const (
	reopenAfter = 2 * time.Second
	reopenShare = 20
)

// Label returns what the item with this index is called, as ui.Labels has it. An item that cannot be read has no label.
func (l *storedLabels) Label(index int) string {
	if l.store == nil || index >= l.store.Len() {
		now := time.Now()
		if now.Sub(l.opened) < max(reopenAfter, reopenShare*l.took) {
			return ""
		}
		_ = l.Close() // only read from
		store, err := items.OpenStore(l.job.ItemsFile())
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
func (l *storedLabels) Close() error {
	if l.store == nil {
		return nil
	}
	store := l.store
	l.store = nil
	return store.Close()
}
