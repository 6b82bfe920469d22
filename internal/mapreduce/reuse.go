package mapreduce

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"prodigy/internal/events"
	"prodigy/internal/fingerprint"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// Since is the choice of an earlier job whose results are taken over.
type Since struct {
	// its id or a prefix; "latest": the latest of the same workflow in the same directory; "none" or "": no job
	Job          string
	Force        []string // ids of items that are run all the same
	Only         string   // of the items that would have to be run only these: changed, new or failed; empty: all
	CheckOutputs bool     // a result counts only while the files that the agent left are as it left them
}

const (
	sinceLatest = "latest"
	sinceNone   = "none"
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

// reuse decides which items of a job have their results taken over from earlier jobs.
type reuse struct {
	job   *job // that takes them over; nil: it is only asked what would be
	since jobs.Since

	data    *fingerprint.Data
	files   *itemFiles
	earlier []*earlierJob // the first is the one that was named, the others are those that it took results from

	diff     events.Difference
	reasons  []string       // all there are
	numbers  map[string]int // of reasons
	verdicts []verdict      // by item index, of the items that were chosen in this run
	forced   map[string]bool
	keyed    bool // the items have keys
}

// verdict says where the result of an item is, or why it is run, in 4 bytes.
type verdict uint32

const (
	taken       verdict = 1 << 31 // its result is taken over
	sourceShift         = 28      // of the number of the earlier job; below it is the number of the entry
	maxEarlier          = 8
	maxEntries          = 1 << sourceShift
)

// earlierJob is a job whose results can be taken over.
type earlierJob struct {
	place   jobs.Job
	index   *fingerprint.Index
	rows    *os.File
	parts   []string // by group: which part of the fingerprint is another now; empty: none
	matched []uint64 // bits of the entries that are an item now
	keyed   bool     // items are found by their ids
}

// resolveSince finds the job that a new job of w takes results from, and checks that it can. The result is nil
// when there is none.
func resolveSince(c Config, w *workflow.Workflow) (*jobs.Since, string, error) {
	name := c.Since.Job
	if name == "" && w.Map != nil && w.Map.Incremental {
		name = sinceLatest
	}
	if name == "" || name == sinceNone {
		if len(c.Since.Force) > 0 || c.Since.Only != "" || c.Since.CheckOutputs {
			return nil, "", &RefusedError{Reason: "--force, --only and --check-outputs are about an earlier job: name it with --since"}
		}
		return nil, "", nil
	}
	if w.Map == nil {
		return nil, "", &RefusedError{Reason: "--since is about items, and a standard workflow has none"}
	}
	if w.Workspace.Isolated() {
		return nil, "", &RefusedError{Reason: "--since does not work with workspaces yet: what the items of the earlier job have changed is in its branch, not here"}
	}
	s := &jobs.Since{Force: c.Since.Force, Only: c.Since.Only, CheckOutputs: c.Since.CheckOutputs}
	if name == sinceLatest {
		place, err := latestOf(c, w.Name)
		if err != nil || place.ID == "" {
			return nil, "no earlier job of this workflow has results: all items are new", err
		}
		s.JobID = place.ID
		return s, "", nil
	}
	place, err := c.Home.Find(name)
	if err != nil {
		return nil, "", &RefusedError{Reason: "--since: " + err.Error()}
	}
	meta, err := place.ReadMeta()
	switch {
	case err != nil:
		return nil, "", unusable(place, err)
	case meta.Simulated:
		return nil, "", &RefusedError{Reason: fmt.Sprintf("--since: job %s was simulated: it has no results", place.ID)}
	case meta.Dir != c.Dir:
		return nil, "", &RefusedError{Reason: fmt.Sprintf("--since: job %s was run in %s: what it made is there",
			place.ID, meta.Dir)}
	}
	s.JobID = place.ID
	return s, "", nil
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
		sum, err := Summarize(place)
		if err == nil && (sum.Metrics.Successful > 0 || place.Running()) {
			return place, nil
		}
	}
	return jobs.Job{}, nil
}

// openReuse opens the earlier jobs of a job that takes over results, and records the fingerprint that its items
// have from now on.
func (j *job) openReuse(now *fingerprint.Job) error {
	if j.state.Fingerprint == nil || !j.state.Fingerprint.Equal(*now) {
		j.record(events.FingerprintChanged{Fingerprint: *now})
	}
	if j.meta.Since == nil {
		return nil
	}
	r, err := newReuse(j.config, j.workflow, *j.meta.Since, *j.state.Fingerprint, j.files)
	if errors.Is(err, jobs.ErrNotFound) {
		j.notice(fmt.Sprintf("job %s, whose results were to be taken over, is gone: all items that are left are run",
			j.meta.Since.JobID))
		return nil
	}
	if err != nil {
		return fmt.Errorf("take over results of job %s: %w", j.meta.Since.JobID, err)
	}
	r.job, j.reuse = j, r
	return nil
}

// newReuse opens the earlier jobs. Now is what the items share that are run now.
func newReuse(c Config, w *workflow.Workflow, since jobs.Since, now fingerprint.Job, files *itemFiles) (*reuse, error) {
	data, err := fingerprint.NewData(textsOf(w.Map.Fingerprint))
	if err != nil {
		return nil, err
	}
	r := &reuse{
		since: since, data: data, files: files, numbers: map[string]int{}, forced: map[string]bool{},
		keyed: w.Map.Key.Value != "",
	}
	for _, id := range since.Force {
		r.forced[id] = true
	}
	r.diff = events.Difference{JobID: since.JobID, By: map[string]int{}}
	for id := since.JobID; id != "" && len(r.earlier) < maxEarlier; {
		place, err := c.Home.Find(id)
		if err == nil {
			var e *earlierJob
			if e, id, err = openEarlier(place, w.Map, now); err == nil {
				r.earlier = append(r.earlier, e)
				continue
			}
		}
		if len(r.earlier) > 0 && errors.Is(err, jobs.ErrNotFound) {
			break // it took results from a job that is gone; those it did not come to take are lost
		}
		r.close()
		return nil, err
	}
	return r, nil
}

// openEarlier opens the results of a job, and makes what is missing of them. Next is the job that it took
// results from, if it did not come to its end, so that it may not have taken all of them.
func openEarlier(place jobs.Job, m *workflow.Map, now fingerprint.Job) (_ *earlierJob, next string, err error) {
	e, meta, ended, err := openResults(place, textsOf(m.Fingerprint),
		"wait for its end, stop it, or name another job with --since")
	if err != nil {
		return nil, "", err
	}
	index := e.index
	e.keyed = index.Keyed && m.Key.Value != ""
	if index.Keyed && !e.keyed {
		err := &RefusedError{Reason: fmt.Sprintf("the items of job %s have keys, and those of this workflow have none: they cannot be told to be the same", place.ID)}
		return nil, "", errors.Join(err, e.close())
	}
	if index.Entries > maxEntries {
		return nil, "", errors.Join(fmt.Errorf("job %s has %d items, of which %d can be compared", place.ID,
			index.Entries, maxEntries), e.close())
	}
	for _, group := range index.Jobs {
		e.parts = append(e.parts, now.Part(group))
	}
	if meta.Since != nil && !ended {
		next = meta.Since.JobID
	}
	return e, next, nil
}

// openResults opens the results of a job that is not running, with their index, and makes what is missing of
// them. It reports whether the job has completed; instead is what to do about one that runs.
func openResults(place jobs.Job, fields []string, instead string) (e *earlierJob, meta jobs.Meta, completed bool,
	err error,
) {
	lock, err := lockEnded(place)
	if errors.Is(err, jobs.ErrLocked) {
		return nil, meta, false, &RefusedError{Reason: fmt.Sprintf("job %s is still running: %s", place.ID, instead)}
	}
	if err != nil {
		return nil, meta, false, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if meta, err = place.ReadMeta(); err != nil {
		return nil, meta, false, unusable(place, err)
	}
	if meta.Mode != string(workflow.MapReduce) {
		return nil, meta, false, &RefusedError{Reason: fmt.Sprintf("job %s has no items, and so no results", place.ID)}
	}
	if completed, err = makeIndex(place, meta, fields); err != nil {
		return nil, meta, completed, err
	}
	index, err := fingerprint.Open(place.IndexFile())
	if err != nil {
		return nil, meta, completed, unusable(place, err)
	}
	rows, err := os.Open(place.ResultsFile())
	if err != nil {
		return nil, meta, completed, errors.Join(unusable(place, err), index.Close())
	}
	return &earlierJob{place: place, index: index, rows: rows, matched: make([]uint64, index.Entries/64+1)}, meta,
		completed, nil
}

func (e *earlierJob) close() error { return errors.Join(e.index.Close(), e.rows.Close()) }

func (r *reuse) close() {
	for _, e := range r.earlier {
		_ = e.close() // only read from
	}
}

// find returns the entry of an item.
func (e *earlierJob) find(it items.Item, raw fingerprint.Sum, data func() fingerprint.Sum) (fingerprint.Entry, bool, error) {
	same := func(x fingerprint.Entry) bool { return x.Raw == raw }
	var id fingerprint.Sum
	if e.keyed {
		id = fingerprint.Of([]byte(it.ID))
		same = func(x fingerprint.Entry) bool { return x.ID == id }
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
	e.index.Found(x)
	e.matched[x.Number()/64] |= 1 << (x.Number() % 64)
	return x, true, nil
}

// compare finds out what is to be done with an item. The reason is empty when its result is to be taken from
// the entry of an earlier job.
func (r *reuse) compare(it items.Item) (source int, x fingerprint.Entry, reason string, err error) {
	raw := fingerprint.Of(it.Data)
	var sum *fingerprint.Sum
	data := func() fingerprint.Sum {
		if sum == nil {
			sum = new(r.data.Of(it.Data))
		}
		return *sum
	}
	for n, e := range r.earlier {
		x, found, err := e.find(it, raw, data)
		if err != nil {
			return 0, x, "", unusable(e.place, err)
		}
		if !found {
			continue
		}
		if r.forced[it.ID] {
			return n, x, reasonForced, nil
		}
		reason, err := r.differs(e, x, it, raw, data)
		return n, x, reason, err
	}
	if r.forced[it.ID] {
		return 0, x, reasonForced, nil
	}
	return 0, x, reasonNew, nil
}

// differs returns the reason for which an item that has an entry is run, or "".
func (r *reuse) differs(e *earlierJob, x fingerprint.Entry, it items.Item, raw fingerprint.Sum, data func() fingerprint.Sum) (string, error) {
	switch {
	case !x.OK:
		return reasonFailed, nil
	case x.Group < 0:
		return changed + "nothing is known of it, since an older version ran it", nil
	case e.parts[x.Group] != "":
		return changed + e.parts[x.Group], nil
	case x.Raw != raw && x.Data != data():
		return changed + "data", nil
	}
	_, reason, err := r.filesOf(e, x, it)
	return reason, err
}

// kept is what the log has of the files of an item.
type kept struct {
	Uses     []fingerprint.File `json:"uses,omitempty"`
	Produced []fingerprint.File `json:"produced,omitempty"`
}

// filesOf returns the files that an item is made from, and the reason for which they mean that it is run, if they do.
func (r *reuse) filesOf(e *earlierJob, x fingerprint.Entry, it items.Item) (now kept, reason string, err error) {
	if r.files == nil && x.Text.Length == 0 {
		return kept{}, "", nil
	}
	var before kept
	text, err := e.index.Text(x)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &before)
	}
	if err != nil {
		return kept{}, "", unusable(e.place, err)
	}
	if now.Uses, err = r.files.used(it.ID, it.Data, before.Uses); err != nil {
		return now, "", fmt.Errorf("item %s: %w", it.ID, err)
	}
	if path := fingerprint.Changed(now.Uses, before.Uses); path != "" {
		return now, changed + "uses: " + path, nil
	}
	missing, err := r.files.missing(it.ID, it.Data)
	if err != nil {
		return now, "", fmt.Errorf("item %s: %w", it.ID, err)
	}
	if missing != "" {
		return now, changed + "produces: " + missing + " is missing", nil
	}
	now.Produced, err = r.files.produced(it.ID, it.Data)
	if err == nil && r.since.CheckOutputs {
		for i, p := range now.Produced {
			if i >= len(before.Produced) || p != before.Produced[i] {
				return now, changed + "produces: " + p.Path + " was changed", nil
			}
		}
	}
	return now, "", err
}

// choose decides about the next item of a selection. It reports false for one that is left out, and gives the
// others their index.
func (r *reuse) choose(it *items.Item) (wanted bool, err error) {
	n, x, reason, err := r.compare(*it)
	if err != nil {
		return false, err
	}
	kind, _, _ := strings.Cut(reason, ":")
	if r.since.Only != "" && reason != "" && kind != r.since.Only && kind != reasonForced {
		r.diff.LeftOut++
		return false, nil
	}
	v := taken | verdict(n)<<sourceShift | verdict(x.Number())
	if reason != "" {
		v = r.number(reason)
	}
	r.count(kind, reason)
	it.Index = len(r.verdicts)
	if !r.keyed {
		it.ID = items.ID(it.Index)
	}
	r.verdicts = append(r.verdicts, v)
	return true, nil
}

func (r *reuse) number(reason string) verdict {
	n, known := r.numbers[reason]
	if !known {
		n = len(r.reasons)
		r.numbers[reason], r.reasons = n, append(r.reasons, reason)
	}
	return verdict(n)
}

func (r *reuse) count(kind, reason string) {
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

// difference returns how the items differ from those of the earlier job, after all were chosen; nil: no results
// are taken over.
func (r *reuse) difference() *events.Difference {
	if r == nil || len(r.earlier) == 0 {
		return nil
	}
	d := r.diff
	e := r.earlier[0]
	d.Gone = e.index.Entries
	for _, word := range e.matched {
		for ; word != 0; word &= word - 1 {
			d.Gone--
		}
	}
	return &d
}

// take returns an item with its earlier result, or the reason for which it is run. What was found out when the
// items were chosen may no longer be so: the files are looked at once more.
func (r *reuse) take(it items.Item) (offered, error) {
	var n int
	var x fingerprint.Entry
	var reason string
	var err error
	if it.Index < len(r.verdicts) {
		v := r.verdicts[it.Index]
		if v&taken == 0 {
			return offered{Item: it, reason: r.reasons[v]}, nil
		}
		n = int(v &^ taken >> sourceShift)
		x, err = r.earlier[n].index.At(int(v & (maxEntries - 1)))
	} else {
		n, x, reason, err = r.compare(it)
	}
	if err != nil || reason != "" {
		return offered{Item: it, reason: reason}, err
	}
	e := r.earlier[n]
	files, reason, err := r.filesOf(e, x, it)
	if err != nil || reason != "" {
		return offered{Item: it, reason: reason}, err
	}
	was, err := e.row(x)
	if err != nil {
		return offered{}, err
	}
	taken := &events.AgentReused{
		ItemID: it.ID, ItemIndex: it.Index, FromJob: e.place.ID, FromItem: was.ItemID, Attempt: was.Attempt,
		DurationMS: was.DurationMS,
		Captured:   was.Captured, Uses: files.Uses, Produced: files.Produced,
	}
	if was.ExitCode != nil {
		taken.ExitCode = *was.ExitCode
	}
	if was.From != nil {
		taken.FromJob, taken.FromItem = was.From.JobID, was.From.ItemID
	}
	taken.Output, taken.OutputFile, taken.OutputCRC, err = r.job.keepLarge(was.Output, it.Index, "reused")
	return offered{Item: it, reused: taken}, err
}

// row reads the result of an entry.
func (e *earlierJob) row(x fingerprint.Entry) (row, error) {
	line := make([]byte, x.Row.Length)
	var r row
	_, err := e.rows.ReadAt(line, x.Row.Offset)
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err == nil && r.Index != x.Index {
		err = fmt.Errorf("%s: the row of item %d is of item %d", e.place.ResultsFile(), x.Index, r.Index)
	}
	if err != nil {
		return r, unusable(e.place, err)
	}
	return r, nil
}

// fingerprint returns what the items share that are run from now on.
func (j *job) fingerprint(ctx context.Context) *fingerprint.Job {
	captured := map[string]string{}
	for _, s := range j.earlier("map") {
		captured[s.Capture] = s.Output
	}
	c, unknown := j.config, nobodyKnows
	if c.Simulate == nil && j.space == nil { // of those nobody takes results over
		c.Settings, unknown = c.Settings.Settle(ctx, c.Dir, c.Environ, j.register), rand.Text
	}
	f := fingerprintOf(c, j.workflow, captured, unknown, j.secretDigest)
	return &f
}

// secretDigest returns the digest of a secret. Without a key none is known.
func (j *job) secretDigest(value string) string {
	key, err := j.config.Home.FingerprintKey()
	if err != nil {
		return fingerprint.OfSecret([]byte(rand.Text()), value) // equal to no other
	}
	return fingerprint.OfSecret(key, value)
}

func nobodyKnows() string { return fingerprint.Unknown }

// inEnv matches what names a variable of the environment in a step.
var inEnv = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\benv(?:[.:]|\[\\?["'])([A-Za-z_][A-Za-z0-9_]*)`) })

// fingerprintOf returns what the items of w share with these settings. Captured has the outputs of setup by name.
// Unknown gives the digest of a variable that has no value, secret that of a secret.
func fingerprintOf(c Config, w *workflow.Workflow, captured map[string]string, unknown func() string, secret func(string) string) fingerprint.Job {
	m, s := w.Map, c.Settings
	handler := w.Handlers[w.ErrorPolicy.OnItemFailure.Handler]
	content := workflow.Content(m.AgentTemplate)
	f := fingerprint.Job{Version: w.Version, Values: map[string]string{}}
	f.Steps = fingerprint.Of(slices.Concat(content, workflow.Content(handler),
		strconv.AppendBool(nil, m.Batch > 0))).String()
	digest := func(value string) string {
		if s.Mask.Holds(value) {
			return secret(value)
		}
		return fingerprint.OfValue(value)
	}
	for _, name := range inEnv().FindAllSubmatch(slices.Concat(content, workflow.Content(handler)), -1) {
		if value, ok := lookup(c, w, string(name[1])); ok {
			f.Values[string(name[1])] = digest(value)
		}
	}
	env := s.Env
	if env == nil {
		env = w.Env
	}
	for _, v := range env {
		if v.Secret {
			continue
		}
		value, known := s.Lookup(v.Name)
		if s.Env == nil && v.Command == nil && v.Choice == nil { // nothing has resolved it
			value, known = v.Value.Value, true
		}
		if f.Values[v.Name] = unknown(); known {
			f.Values[v.Name] = digest(value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		f.Values[name] = secret(s.Secrets[name])
	}
	for _, arg := range s.Args {
		f.Values[arg.Name] = fingerprint.OfValue(arg.Value)
	}
	if w.Setup != nil {
		eachCapture(w.Setup.Commands, func(name string) {
			if !bytes.Contains(content, []byte(name)) {
				return
			}
			value, known := captured[name]
			if f.Values[name] = fingerprint.Unknown; known {
				f.Values[name] = fingerprint.OfValue(value)
			}
		})
	}
	return f
}

// eachCapture calls see with the names that steps capture their output under.
func eachCapture(steps []workflow.Step, see func(name string)) {
	for _, s := range steps {
		if s.Capture != "" {
			see(s.Capture)
		}
	}
}

// makeIndex makes the results of a job and their index, unless they are as the log has them. It reports whether
// the job has completed. Its lock is held.
func makeIndex(place jobs.Job, meta jobs.Meta, fields []string) (completed bool, err error) {
	s, err := endState(place, meta)
	if err != nil {
		return false, err
	}
	completed = s.Ended == Completed
	if resultsFresh(place, s.Outcome) && indexFresh(place, fields) {
		return completed, nil
	}
	if err := writeResults(place, s, &indexWanted{fields: fields, keyed: keyed(place, meta)}); err != nil {
		return completed, fmt.Errorf("make the index of the results: %w", err)
	}
	return completed, nil
}

// refreshIndex makes the index at the end of a run, if a later job of this workflow will ask for it.
func (j *job) refreshIndex() error {
	m := j.workflow.Map
	if m == nil || !j.state.Selected || !m.Incremental && j.meta.Since == nil &&
		len(m.Uses)+len(m.Produces)+len(m.Fingerprint) == 0 {
		return nil
	}
	if err := j.log.Wait(j.state.Seq); err != nil {
		return err
	}
	fields := textsOf(m.Fingerprint)
	if resultsFresh(j.place, j.state.Outcome) && indexFresh(j.place, fields) {
		return nil
	}
	if err := writeResults(j.place, j.state, &indexWanted{fields: fields, keyed: m.Key.Value != ""}); err != nil {
		return fmt.Errorf("make the index of the results: %w", err)
	}
	return nil
}

// keyed reports whether the items of a job have keys.
func keyed(place jobs.Job, meta jobs.Meta) bool {
	source, err := place.ReadWorkflow(meta)
	if err != nil {
		return false
	}
	w, err := workflow.Parse(place.WorkflowFile(), source, workflow.ParseOptions{Values: meta.Values})
	return err == nil && w.Map != nil && w.Map.Key.Value != ""
}

// indexFresh reports whether the index of a job is that of its results, for the fields that count.
func indexFresh(place jobs.Job, fields []string) bool {
	m, ok := readResultsMeta(place.ResultsMetaFile())
	if !ok {
		return false
	}
	x, err := fingerprint.Open(place.IndexFile())
	if err != nil {
		return false
	}
	defer func() { _ = x.Close() }()
	return x.Seq == m.Seq && x.Results == m.Sum && x.Fields == strings.Join(fields, "\n")
}

// indexWanted says how an index is made.
type indexWanted struct {
	fields []string
	keyed  bool
}

// Comparison compares the items that a new job would have with those of an earlier one.
type Comparison struct{ reuse *reuse }

// Compare opens the earlier job that c.Since names. It returns nil when there is none, and then may have a note
// that says so. Values of commands and secrets are not known before a run, and count as unchanged.
func Compare(c Config, w *workflow.Workflow) (*Comparison, string, error) {
	since, note, err := resolveSince(c, w)
	if err != nil || since == nil {
		return nil, note, err
	}
	files, err := newItemFiles(c.Dir, w.Map)
	if err != nil {
		return nil, "", err
	}
	now := fingerprintOf(c, w, nil, nobodyKnows, func(string) string { return fingerprint.Unknown })
	r, err := newReuse(c, w, *since, now, files)
	if err != nil {
		return nil, "", err
	}
	return &Comparison{r}, "", nil
}

// Add compares the next item. It reports false for one that would be left out.
func (c *Comparison) Add(it items.Item) (bool, error) { return c.reuse.choose(&it) }

// Difference closes the earlier job, and returns how the items differ that were added.
func (c *Comparison) Difference() events.Difference {
	defer c.reuse.close()
	return *c.reuse.difference()
}
