package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"prodigy/internal/agent"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// itemLabels is what the items of a job are called besides their ids.
type itemLabels struct {
	job jobs.Job
	// label returns the label of an item, or "" if it has none.
	label func(id string, item json.RawMessage) string
}

// labelsOf returns the labels of a job. Without its workflow they are guessed.
func labelsOf(job jobs.Job) itemLabels {
	return labelsBy(job, recordedOrNil(job))
}

// labelsBy is labelsOf with the workflow at hand, which may be nil.
func labelsBy(job jobs.Job, w *workflow.Workflow) itemLabels {
	var m *workflow.Map
	if w != nil {
		m = w.Map
	}
	return itemLabels{job: job, label: agent.Labels(m)}
}

// labelShown is how many characters of a label are printed.
const labelShown = 60

// inBrackets returns " (label)" to print behind an id, or "" without a label.
func inBrackets(label string) string {
	if label == "" {
		return ""
	}
	return " (" + term.Brief(label, labelShown) + ")"
}

// find returns the id of the item with the id or else the label asked, and reports whether there is one. Otherwise it
// returns asked, for the message.
func (l itemLabels) find(asked string) (id string, found bool, err error) {
	all, err := l.findAll([]string{asked})
	it, found := all[asked]
	return cmp.Or(it.ID, asked), found, err
}

// findAll is find for several items.
func (l itemLabels) findAll(asked []string) (map[string]items.Item, error) {
	all, err := items.Names{JobID: l.job.ID, Path: l.job.ItemsFile(), Label: l.label}.Find(asked)
	if several, ok := errors.AsType[*items.AmbiguousError](err); ok {
		return nil, refusef("%w; use an item id", several)
	}
	return all, err
}

// idsOf returns the ids of several items as find does.
func (l itemLabels) idsOf(asked []string) ([]string, error) {
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

// labelsInStore returns the labels of a job by the index of their items. They hide its secrets.
func labelsInStore(job jobs.Job) *items.StoredLabels {
	return items.NewStoredLabels(job.ItemsFile(), itemsShown(job))
}

// labelsOfRun is labelsInStore for a job that is run by this process, which knows its secrets.
func (c *console) labelsOfRun(job jobs.Job, w *workflow.Workflow) *items.StoredLabels {
	return items.NewStoredLabels(job.ItemsFile(), labelsBy(job, w).without(c.secrets))
}

// itemsShown returns a function that names the items of a job and hides their secrets.
func itemsShown(job jobs.Job) func(id string, item json.RawMessage) (label string, shown json.RawMessage) {
	return labelsOf(job).without(secretsOf(job))
}

// without returns a function that names items and hides secrets.
func (l itemLabels) without(s jobSecrets) func(id string, item json.RawMessage) (label string, shown json.RawMessage) {
	return func(id string, item json.RawMessage) (string, json.RawMessage) {
		shown := s.item(item)
		return l.label(id, shown), shown
	}
}
