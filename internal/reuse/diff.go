package reuse

import (
	"encoding/json"
	"maps"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// Diff is how the results of a job differ from those of an earlier one. An item is in one list at most, the
// first that fits.
type Diff struct {
	// Before and After are the ids of the jobs.
	Before string `json:"before"`
	After  string `json:"after"`

	// Failing had succeeded, and Fixed had not.
	Failing []ItemDiff `json:"newly_failing"`
	Fixed   []ItemDiff `json:"fixed"`

	// Output have succeeded both times, and printed something else or captured other values.
	Output []ItemDiff `json:"changed_output"`

	// Slower have succeeded both times, and took much longer.
	Slower []ItemDiff `json:"slower"`

	// New have no result in the earlier job, and Gone have none in the later one.
	New  []ItemDiff `json:"new"`
	Gone []ItemDiff `json:"gone"`

	// Same is how many items are in no list.
	Same int `json:"same"`
}

// ItemDiff is an item of a Diff. The fields of the job in which it has no result are empty.
type ItemDiff struct {
	// ItemID is the id in the later job, unless the item is only in the earlier one.
	ItemID string `json:"item_id"`
	Index  int    `json:"index"`

	// Before and After are its statuses.
	Before   string        `json:"before,omitempty"`
	After    string        `json:"after,omitempty"`
	BeforeMS events.Millis `json:"before_ms,omitempty"`
	AfterMS  events.Millis `json:"after_ms,omitempty"`
}

// An item has become slower when it took so much longer than before: both as a factor and at least. What is
// less comes from a busy machine.
const (
	slowerFactor = 1.5
	slowerLeast  = time.Second
)

// Compared compares the results of two jobs, which must not be running. Items are found by their ids if those
// of both jobs have keys, else by their data. What takes long is made once, and kept with the jobs.
func Compared(before, after jobs.Job) (d Diff, err error) {
	d = Diff{
		Before: before.ID, After: after.ID, Failing: []ItemDiff{}, Fixed: []ItemDiff{}, Output: []ItemDiff{},
		Slower: []ItemDiff{}, New: []ItemDiff{}, Gone: []ItemDiff{},
	}
	a, err := openResults(before, nil, "wait for it to finish")
	if err != nil {
		return d, err
	}
	defer check.Join(&err, a.close)
	b, err := openResults(after, nil, "wait for it to finish")
	if err != nil {
		return d, err
	}
	defer check.Join(&err, b.close)
	a.keyed = a.index.Keyed && b.index.Keyed
	if a.index.Keyed != b.index.Keyed {
		return d, job.Refusef("cannot compare items: only one of the jobs has keys")
	}
	if err := d.compare(a, b); err != nil {
		return d, job.Unusable(b.place, err)
	}
	return d, d.gone(a)
}

// compare adds the items of the later job. Its errors are about the files of b, unless they say so.
func (d *Diff) compare(a, b *earlierJob) error {
	store, err := items.OpenStore(b.place.ItemsFile())
	if err != nil {
		return err
	}
	defer check.Quietly(store.Close)
	c := store.Cursor()
	for number := range b.index.Entries {
		x, err := b.index.At(number)
		if err != nil {
			return err
		}
		for c.Index() < x.Index {
			if err := c.Skip(); err != nil {
				return err
			}
		}
		it, err := c.Next()
		if err != nil {
			return err
		}
		now, err := b.row(x)
		if err != nil {
			return err
		}
		was, found, err := a.find(it, x.Raw, func() digest { return x.Data })
		if err != nil {
			return job.Unusable(a.place, err)
		}
		if !found {
			d.New = append(d.New, diffOf(now, job.Result{}, now))
			continue
		}
		then, err := a.row(was)
		if err != nil {
			return err
		}
		d.add(then, now)
	}
	return nil
}

// diffOf returns the difference between the results of an item, which is called as in one of them.
func diffOf(item, then, now job.Result) ItemDiff {
	return ItemDiff{item.ItemID, item.Index, then.Status, now.Status, then.DurationMS, now.DurationMS}
}

// add adds an item that has a result in both jobs.
func (d *Diff) add(then, now job.Result) {
	item := diffOf(now, then, now)
	succeeded := errorpolicy.Succeeded.Result()
	same := func(a, b json.RawMessage) bool { return string(a) == string(b) }
	took, before := time.Duration(now.DurationMS), time.Duration(then.DurationMS)
	switch {
	case then.Status == succeeded && now.Status != succeeded:
		d.Failing = append(d.Failing, item)
	case then.Status != succeeded && now.Status == succeeded:
		d.Fixed = append(d.Fixed, item)
	case now.Status == succeeded && (then.Output != now.Output || !maps.EqualFunc(then.Captured, now.Captured, same)):
		d.Output = append(d.Output, item)
	case now.Status == succeeded && now.From == nil &&
		took-before >= slowerLeast && float64(took) >= slowerFactor*float64(before):
		d.Slower = append(d.Slower, item)
	default:
		d.Same++
	}
}

// gone adds the items of the earlier job that the later one does not have.
func (d *Diff) gone(a *earlierJob) error {
	for number, matched := range a.matched {
		if matched {
			continue
		}
		x, err := a.index.At(number)
		if err != nil {
			return job.Unusable(a.place, err)
		}
		then, err := a.row(x)
		if err != nil {
			return err
		}
		d.Gone = append(d.Gone, diffOf(then, then, job.Result{}))
	}
	return nil
}
