package reuse

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

const (
	sinceLatest = "latest"

	// SinceNone is the JobID of a Since that takes nothing over.
	SinceNone = "none"
)

// The reasons for which an item is run, besides that it has changed.
const (
	reasonNew    = "new"
	reasonFailed = "failed"
	reasonForced = "forced"
	changed      = "changed: "
)

// OnlyChoices are what Since.Only can be.
func OnlyChoices() []string { return []string{"changed", reasonNew, reasonFailed} }

// Reuse decides which items of a job have their results taken over from earlier jobs.
type Reuse struct {
	since  jobs.Since
	hasher *hasher
	files  *Files

	// earlier are the job that was named, and after it those that it took results from.
	earlier []*earlierJob

	diff events.Difference

	// forced are the ids of the items that are run in any case, and forcedNow the indexes of those among the items that
	// were chosen in this run, of which there are chosen: without keys these have new ids.
	forced    map[string]bool
	forcedNow map[int]bool
	chosen    int

	// keyed means that the items have keys.
	keyed bool
}

// maxEarlier bounds how many jobs are open that each took results from the next, without coming to its end.
const maxEarlier = 8

// earlierJob is a job whose results can be taken over.
type earlierJob struct {
	place jobs.Job
	index *index
	rows  *os.File

	// parts says, by group, which part of the fingerprint has changed. It is "" if none has.
	parts []string

	// matched says of each entry whether it is an item now.
	matched []bool

	// keyed means that items are found by their ids.
	keyed bool

	// next is the job that it took results from, if it did not come to its end, so that it may not have taken all of
	// them. It is empty if there is none.
	next string
}

// resolve finds the job that a new job of w takes results from, and checks that it can. The result is nil
// when there is none.
func resolve(c Config, w *workflow.Workflow) (*jobs.Since, string, error) {
	s := c.Since
	name := s.JobID
	if name == "" && w.Map != nil && w.Map.Incremental {
		name = sinceLatest
	}
	if name == "" || name == SinceNone {
		if len(s.Force) > 0 || s.Only != "" || s.CheckOutputs {
			return nil, "", job.Refusef("--rerun, --only and --check-outputs require --since")
		}
		return nil, "", nil
	}
	if w.Map == nil {
		return nil, "", job.Refusef("--since requires items, and a standard workflow has none")
	}
	if w.Workspace.Isolated() {
		return nil, "", job.Refusef("--since does not work with workspaces yet: the changes of the earlier job are in its branch, not here")
	}
	if name == sinceLatest {
		place, err := latestOf(c, w.Name)
		if err != nil || place.ID == "" {
			return nil, "no earlier job of this workflow has results: all items are new", err
		}
		s.JobID = place.ID
		return &s, "", nil
	}
	place, err := c.Home.Find(name)
	if err != nil {
		return nil, "", job.Refusef("--since: %v", err)
	}
	meta, err := place.ReadMeta()
	switch {
	case err != nil:
		return nil, "", job.Unusable(place, err)
	case meta.Simulated:
		return nil, "", job.Refusef("--since: job %s was simulated: it has no results", place.ID)
	case meta.Dir != c.Dir:
		return nil, "", job.Refusef("--since: job %s ran in %s, where its files are",
			place.ID, meta.Dir)
	}
	s.JobID = place.ID
	return &s, "", nil
}

// latestOf returns the latest job of a workflow in the directory of the run that has results, or no job.
func latestOf(c Config, name string) (jobs.Job, error) {
	home := c.Home
	home.Project = "" // a directory is more exact
	all, err := home.List()
	if err != nil {
		return jobs.Job{}, err
	}
	repo := jobs.Repo(c.Dir)
	for _, place := range all {
		if place.Repo != repo {
			continue
		}
		meta, err := place.ReadMeta()
		if err != nil || meta.Workflow != name || meta.Dir != c.Dir || meta.Mode != string(workflow.MapReduce) ||
			meta.Simulated {
			continue
		}
		sum, err := job.Summarize(place)
		if err == nil && (sum.Metrics.Successful > 0 || place.Running()) {
			return place, nil
		}
	}
	return jobs.Job{}, nil
}

// Open opens the earlier jobs that a job takes results from. Now is what the items share that are run now.
func Open(home jobs.Home, m *workflow.Map, since jobs.Since, now events.Fingerprint, files *Files) (*Reuse, error) {
	h, err := newHasher(textsOf(m.Fingerprint))
	if err != nil {
		return nil, err
	}
	r := &Reuse{
		since: since, hasher: h, files: files, forced: map[string]bool{}, forcedNow: map[int]bool{},
		keyed: m.Key.Value != "", diff: events.Difference{JobID: since.JobID, By: map[string]int{}},
	}
	for _, id := range since.Force {
		r.forced[id] = true
	}
	for id := since.JobID; id != "" && len(r.earlier) < maxEarlier; {
		place, err := home.Find(id)
		if err == nil {
			var e *earlierJob
			if e, err = openEarlier(place, m, now); err == nil {
				r.earlier, id = append(r.earlier, e), e.next
				continue
			}
		}
		if len(r.earlier) > 0 && errors.Is(err, jobs.ErrNotFound) {
			break // it took results from a job that is gone; those it did not come to take are lost
		}
		r.Close()
		return nil, err
	}
	return r, nil
}

// openEarlier opens the results of a job, and makes what is missing of them.
func openEarlier(place jobs.Job, m *workflow.Map, now events.Fingerprint) (*earlierJob, error) {
	e, err := openResults(place, textsOf(m.Fingerprint),
		"wait for it to finish, stop it, or name another job with --since")
	if err != nil {
		return nil, err
	}
	index := e.index
	e.keyed = index.Keyed && m.Key.Value != ""
	if index.Keyed && !e.keyed {
		err := job.Refusef("cannot compare items: job %s has keys, and this workflow has none", place.ID)
		return nil, errors.Join(err, e.close())
	}
	for _, group := range index.Jobs {
		e.parts = append(e.parts, partOf(now, group))
	}
	return e, nil
}

// openResults opens the results of a job that is not running, with their index, and makes what is missing of
// them. instead is what to do about one that runs.
func openResults(place jobs.Job, fields []string, instead string) (e *earlierJob, err error) {
	lock, meta, s, err := readEnded(place, instead)
	if err != nil {
		return nil, err
	}
	defer check.Join(&err, lock.Unlock)
	w, err := job.RecordedWorkflow(place, meta)
	if err := indexResults(place, s, fields, err == nil && isKeyed(w)); err != nil {
		return nil, err
	}
	x, err := openIndex(place.IndexFile())
	if err != nil {
		return nil, job.Unusable(place, err)
	}
	rows, err := os.Open(place.ResultsFile())
	if err != nil {
		return nil, errors.Join(job.Unusable(place, err), x.Close())
	}
	e = &earlierJob{place: place, index: x, rows: rows, matched: make([]bool, x.Entries)}
	if meta.Since != nil && s.Ended != jobs.Completed {
		e.next = meta.Since.JobID
	}
	return e, nil
}

func (e *earlierJob) close() error { return errors.Join(e.index.Close(), e.rows.Close()) }

// Close closes the earlier jobs. A nil Reuse has none.
func (r *Reuse) Close() {
	if r == nil {
		return
	}
	for _, e := range r.earlier {
		_ = e.close() // only read from
	}
}

// find returns the entry of an item.
func (e *earlierJob) find(it items.Item, raw digest, data func() digest) (entry, bool, error) {
	same := func(x entry) bool { return x.Raw == raw }
	var id digest
	if e.keyed {
		id = digestOf([]byte(it.ID))
		same = func(x entry) bool { return x.ID == id }
	}
	x, ok, err := e.index.Next()
	if err != nil {
		return x, false, err
	}
	if !ok || !same(x) || !x.OK {
		if !e.keyed {
			id = data()
		}
		if x, ok, err = e.index.Find(id); err != nil || !ok {
			return x, false, err
		}
	}
	e.index.next = x.number + 1
	e.matched[x.number] = true
	return x, true, nil
}

// decision is what is to be done with an item.
type decision struct {
	// reason is why the item is run. It is empty if its result is taken from entry of the earlier job.
	reason  string
	earlier *earlierJob
	entry   entry

	// files are those that the item is made from and leaves, as far as they were looked at.
	files events.ItemFiles
}

// compare decides about an item. A forced one is run in any case.
func (r *Reuse) compare(it items.Item, forced bool) (d decision, err error) {
	raw := digestOf(it.Data)
	data := sync.OnceValue(func() digest { return r.hasher.Of(it.Data) })
	d.reason = reasonNew
	for _, e := range r.earlier {
		x, found, err := e.find(it, raw, data)
		if err != nil {
			return d, job.Unusable(e.place, err)
		}
		if found {
			d.earlier, d.entry = e, x
			if d.reason = d.partOf(raw, data); d.reason == "" && !forced {
				d.files, d.reason, err = r.filesOf(e, x, it)
			}
			if err != nil {
				return d, err
			}
			break
		}
	}
	if forced {
		d.reason = reasonForced
	}
	return d, nil
}

// partOf returns the reason for which an item that has an entry is run, whatever its files are, or "".
func (d *decision) partOf(raw digest, data func() digest) string {
	switch x := d.entry; {
	case !x.OK:
		return reasonFailed
	case x.Group < 0:
		return changed + "unknown, because an older version ran it"
	case d.earlier.parts[x.Group] != "":
		return changed + d.earlier.parts[x.Group]
	case x.Raw != raw && x.Data != data():
		return changed + "data"
	}
	return ""
}

// filesOf returns the files that an item is made from, and the reason for which they mean that it is run, if they do.
func (r *Reuse) filesOf(e *earlierJob, x entry, it items.Item) (now events.ItemFiles, reason string, err error) {
	if r.files == nil && x.Text.Length == 0 {
		return now, "", nil
	}
	var before events.ItemFiles
	text, err := e.index.Text(x)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &before)
	}
	if err != nil {
		return now, "", job.Unusable(e.place, err)
	}
	if now.Uses, err = r.files.used(it.ID, it.Data, before.Uses); err != nil {
		return now, "", fmt.Errorf("item %s: %w", it.ID, err)
	}
	if path := changedFile(now.Uses, before.Uses); path != "" {
		return now, changed + "uses: " + path, nil
	}
	var missing string
	if now.Produced, missing, err = r.files.produced(it.ID, it.Data); err != nil {
		return now, "", fmt.Errorf("item %s: %w", it.ID, err)
	}
	if missing != "" {
		return now, changed + "produces: " + missing + " is missing", nil
	}
	if r.since.CheckOutputs {
		for i, p := range now.Produced {
			if i >= len(before.Produced) || p != before.Produced[i] {
				return now, changed + "produces: " + p.Path + " was changed", nil
			}
		}
	}
	return now, "", nil
}

// Choose decides about the next item of a selection. It reports false for one that is left out, and gives the
// others their index.
func (r *Reuse) Choose(it *items.Item) (wanted bool, err error) {
	d, err := r.compare(*it, r.forced[it.ID])
	if err != nil {
		return false, err
	}
	kind, _, _ := strings.Cut(d.reason, ":")
	if r.since.Only != "" && kind != "" && kind != r.since.Only && kind != reasonForced {
		r.diff.LeftOut++
		return false, nil
	}
	r.count(kind, d.reason)
	it.Index = r.chosen
	if !r.keyed {
		it.ID = items.ID(it.Index)
	}
	r.chosen++
	if kind == reasonForced {
		r.forcedNow[it.Index] = true
	}
	return true, nil
}

// count adds an item to the difference. kind is its reason up to the colon.
func (r *Reuse) count(kind, reason string) {
	switch kind {
	case "":
		r.diff.Unchanged++
	case reasonNew:
		r.diff.New++
	case reasonFailed:
		r.diff.Failed++
	case reasonForced:
		r.diff.Forced++
	default:
		r.diff.Changed++
		part := strings.TrimPrefix(reason, changed)
		if _, known := r.diff.By[part]; !known && len(r.diff.By) >= events.MaxParts {
			r.diff.ByMore++
			return
		}
		r.diff.By[part]++
	}
}

// Difference returns how the items differ from those of the earlier job, after all were chosen; nil if no results
// are taken over.
func (r *Reuse) Difference() *events.Difference {
	if r == nil || len(r.earlier) == 0 {
		return nil
	}
	d := r.diff
	for _, is := range r.earlier[0].matched {
		if !is {
			d.Gone++
		}
	}
	for _, e := range r.earlier {
		e.index.next = 0 // the items come once more, to Take
	}
	return &d
}

// Take returns the earlier result of an item of a job, or the reason for which it is run. What was found out when the
// items were chosen may no longer be so: it is compared once more.
func (r *Reuse) Take(it items.Item, to jobs.Job) (taken *events.AgentReused, reason string, err error) {
	d, err := r.compare(it, r.forcedNow[it.Index] || it.Index >= r.chosen && r.forced[it.ID])
	if err != nil || d.reason != "" {
		return nil, d.reason, err
	}
	e := d.earlier
	was, err := e.row(d.entry)
	if err != nil {
		return nil, "", err
	}
	taken = &events.AgentReused{
		ItemID: it.ID, ItemIndex: it.Index, FromJob: e.place.ID, FromItem: was.ItemID, Attempt: was.Attempt,
		DurationMS: was.DurationMS, ItemOutput: events.ItemOutput{Captured: was.Captured, Output: was.Output},
		ItemFiles: d.files,
	}
	if was.ExitCode != nil {
		taken.ExitCode = *was.ExitCode
	}
	if was.From != nil {
		taken.FromJob, taken.FromItem = was.From.JobID, was.From.ItemID
	}
	return taken, "", job.KeepLarge(to, &taken.ItemOutput, it.Index, "reused")
}

// row reads the result of an entry.
func (e *earlierJob) row(x entry) (job.Result, error) {
	line := make([]byte, x.Row.Length)
	var r job.Result
	_, err := e.rows.ReadAt(line, x.Row.Offset)
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err == nil && r.Index != x.Index {
		err = fmt.Errorf("%s: found item %[3]d in the row of item %[2]d", e.place.ResultsFile(), x.Index, r.Index)
	}
	if err != nil {
		return r, job.Unusable(e.place, err)
	}
	return r, nil
}

// Compare opens the earlier job that c.Since names, to compare the items that a new job would have with those of it.
// It returns nil when there is none, and then may have a note that says so. Values of commands and secrets are not known before a run, and count as unchanged.
func Compare(c Config, w *workflow.Workflow) (*Reuse, string, error) {
	since, note, err := resolve(c, w)
	if err != nil || since == nil {
		return nil, note, err
	}
	files, err := NewFiles(w.Map, FilesConfig{Dir: c.Dir})
	if err != nil {
		return nil, "", job.Refusef("%v", err)
	}
	nobodyKnows := func() string { return unknownValue }
	now := fingerprintOf(c, w, nil, nobodyKnows, func(string) string { return unknownValue })
	r, err := Open(c.Home, w.Map, *since, now, files)
	return r, "", err
}

// Since returns what is recorded of the earlier job with a new one, or nil if there is no earlier job.
func (r *Reuse) Since() *jobs.Since {
	if r == nil {
		return nil
	}
	return &r.since
}
