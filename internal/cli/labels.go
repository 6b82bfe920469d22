package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
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
	return " (" + shorten(visible(label), labelShown) + ")"
}

// find returns the id of the item that is asked for, by its id or else by its label, and reports whether there is one. Several items with
// that label are an error.
func (l labels) find(asked string) (id string, found bool, err error) {
	store, err := items.OpenStore(l.job.ItemsFile())
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer func() { _ = store.Close() }()
	if _, found, err := store.Find(asked); err != nil || found {
		return asked, found, err
	}
	var ids []string
	const few = 3
	for c := store.Cursor(); c.More() && len(ids) <= few; {
		it, err := c.Next()
		if err != nil {
			return "", false, err
		}
		if l.label(it.ID, it.Shown()) == asked {
			ids = append(ids, it.ID)
		}
	}
	switch {
	case len(ids) == 0:
		return "", false, nil
	case len(ids) > 1:
		more := ""
		if len(ids) > few {
			ids, more = ids[:few], " and more"
		}
		return "", false, refusef("several items of job %s are called %q: %s%s; name one by its id", l.job.ID, asked, strings.Join(ids, ", "), more)
	}
	return ids[0], true, nil
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
	var ids []string
	for _, name := range asked {
		id, err := l.idOf(name)
		if err != nil {
			return nil, fmt.Errorf("item %s: %w", name, err)
		}
		ids = append(ids, id)
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
