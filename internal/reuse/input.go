package reuse

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// Input is a job whose results are the items of another, as they were when it was opened.
type Input struct {
	Job   jobs.Job
	takes workflow.Select

	// keyed means that the items of the job have keys, which are their ids.
	keyed bool

	// rows are the results, and store has the items. Both are in the order of the items.
	rows  *os.File
	store *items.Store
}

// OpenInput finds and opens the job that is the input of w. It returns nil when the input is of another kind. A
// *job.RefusedError says why the job cannot be the input now.
func OpenInput(c Config, w *workflow.Workflow) (*Input, error) {
	if w.Map == nil || w.Map.Input.Job == "" {
		return nil, nil
	}
	named := w.Map.Input.Job
	if strings.Contains(named, "$") {
		var err error
		if named, err = c.Settings.Fill(named); err != nil {
			return nil, job.Refusef("input: %v", err)
		}
	}
	name, latest := strings.CutPrefix(named, workflow.LatestOf)
	var place jobs.Job
	var err error
	if latest { // in the project of the run
		home := c.Home
		home.Project = jobs.Project(c.Dir)
		if place, err = home.LatestOf(name); errors.Is(err, jobs.ErrNotFound) {
			err = job.Refusef("input: no job of the workflow %q found in this project (%s): run that workflow first; its jobs may also have been deleted", name, home.Project)
		}
	} else if place, err = c.Home.Find(named); errors.Is(err, jobs.ErrNotFound) {
		err = job.Refusef("input: job %q not found, or it was deleted; to list jobs: prodigy jobs", named)
	} else if errors.Is(err, jobs.ErrAmbiguous) {
		err = job.Refusef("input: %v", err)
	}
	if err != nil {
		return nil, err
	}
	return openInput(place, w.Map.Input.Select, latest)
}

// openInput opens the results of a job, and makes what is missing of them. With whole every item must have one.
func openInput(place jobs.Job, takes workflow.Select, whole bool) (_ *Input, err error) {
	lock, meta, s, err := readEnded(place, "wait for it to finish, or stop it")
	if refused, is := errors.AsType[*job.RefusedError](err); is {
		err = job.Refusef("input: %v", refused)
	}
	if err != nil {
		return nil, err
	}
	defer check.Join(&err, lock.Unlock)
	unfit := func(format string, args ...any) error {
		return job.Refusef("input: job %s %s", place.ID, fmt.Sprintf(format, args...))
	}
	if meta.Simulated {
		return nil, unfit("was simulated, and has no results")
	}
	switch settled := s.Status.Settled(); {
	case settled == 0 && !(s.Selected && s.Total == 0):
		return nil, unfit("has no results%s", strings.TrimSuffix(": "+s.Reason, ": "))
	case whole && (!s.Selected || settled < s.Total):
		return nil, unfit("has not finished, with results of %s so far (run 'prodigy resume %s', or name the job by its id to use them)",
			check.Counted(settled, "item"), place.ID)
	case !s.Selected:
		return nil, unfit("has not read all its items yet (run 'prodigy resume %s')", place.ID)
	}
	if err := job.MakeResults(place, s); err != nil {
		return nil, err
	}
	w, err := job.RecordedWorkflow(place, meta)
	if err != nil {
		return nil, err
	}
	in := &Input{Job: place, takes: takes, keyed: isKeyed(w)}
	if in.rows, err = os.Open(place.ResultsFile()); err != nil {
		return nil, job.Unusable(place, err)
	}
	if in.store, err = items.OpenStore(place.ItemsFile()); err != nil {
		return nil, errors.Join(job.Unusable(place, err), in.rows.Close())
	}
	return in, nil
}

// readerPatience is how long another process may take to read the results of a job that has ended, for which it
// holds the lock.
const readerPatience = 10 * time.Second

// readEnded locks and reads a job that has ended, and has items. running says what to do about one that runs.
func readEnded(place jobs.Job, running string) (lock *jobs.Lock, meta jobs.Meta, s *job.Fold, err error) {
	lock, err = lockEnded(place)
	if errors.Is(err, jobs.ErrLocked) {
		err = job.Refusef("job %s is still running: %s", place.ID, running)
	}
	if err != nil {
		return nil, meta, nil, err
	}
	meta, err = place.ReadMeta()
	switch {
	case err != nil:
		err = job.Unusable(place, err)
	case meta.Mode != string(workflow.MapReduce):
		err = job.Refusef("job %s has no items", place.ID)
	default:
		s, err = job.Read(place, meta)
	}
	if err != nil {
		err = errors.Join(err, lock.Unlock())
	}
	return lock, meta, s, err
}

// lockEnded locks a job that has ended. Others that only read its results at the same time are waited for.
func lockEnded(place jobs.Job) (*jobs.Lock, error) {
	for since := time.Now(); ; {
		lock, err := place.Lock() // it has some patience of its own
		if !errors.Is(err, jobs.ErrLocked) || time.Since(since) > readerPatience {
			return lock, err
		}
		last, failed := job.LastOf(place)
		switch last.State {
		case jobs.Completed, jobs.Failed, jobs.Stopped:
		default:
			return nil, errors.Join(err, failed)
		}
	}
}

// Select returns which results are taken.
func (in *Input) Select() workflow.Select { return cmp.Or(in.takes, workflow.SelectSuccess) }

// Close closes the files. They were only read from.
func (in *Input) Close() error { return errors.Join(in.rows.Close(), in.store.Close()) }

// Results calls emit with each result that is taken, in the order of the items, and the id of its item. A
// result is an object with what does not change when the same item is run again with the same outcome: with
// status, exit_code, output, captured and item, and with item_id if the items have keys. Secrets that the job
// has masked are masked.
func (in *Input) Results(emit func(itemID string, result []byte) error) error {
	if _, err := in.rows.Seek(0, io.SeekStart); err != nil {
		return job.Unusable(in.Job, err)
	}
	cursor, lines := in.store.Cursor(), bufio.NewReaderSize(in.rows, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		var r struct { // as the file has it, and as it is taken: with the item, and without its index
			ItemID   string          `json:"item_id,omitempty"`
			Index    *int            `json:"index,omitempty"`
			Status   string          `json:"status"`
			ExitCode json.RawMessage `json:"exit_code"`
			Output   json.RawMessage `json:"output"`
			Captured json.RawMessage `json:"captured,omitempty"`
			Item     json.RawMessage `json:"item"`
		}
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err == nil && r.Index == nil {
			err = errors.New("a result has no index")
		}
		if err != nil {
			return job.Unusable(in.Job, fmt.Errorf("%s: %w", in.Job.ResultsFile(), err))
		}
		if !in.Select().Takes(r.Status) {
			continue
		}
		for cursor.Index() < *r.Index && cursor.More() && err == nil {
			err = cursor.Skip()
		}
		if err == nil && !cursor.More() {
			err = fmt.Errorf("%s: item %d is missing", in.Job.ItemsFile(), *r.Index)
		}
		if err != nil {
			return job.Unusable(in.Job, err)
		}
		it, err := cursor.Next()
		if err != nil {
			return job.Unusable(in.Job, err)
		}
		r.Index, r.Item = nil, it.Shown()
		if r.ItemID = ""; in.keyed {
			r.ItemID = it.ID
		}
		data, err := rawjson.Encode(r)
		if err != nil {
			return job.Unusable(in.Job, err)
		}
		if err := emit(it.ID, data); err != nil {
			return err
		}
	}
}

// ResultsOf returns the results of the job that is the input, for the selection of items. It returns nil if the input
// is not a job.
func ResultsOf(home jobs.Home, of *jobs.Input) func(emit func(itemID string, result []byte) error) error {
	if of == nil {
		return nil
	}
	return func(emit func(itemID string, result []byte) error) (err error) {
		place, err := home.Find(of.JobID)
		if errors.Is(err, jobs.ErrNotFound) {
			return fmt.Errorf("input: job %s was deleted before its results were fully read: start a new job", of.JobID)
		}
		if err != nil {
			return err
		}
		in, err := openInput(place, workflow.Select(of.Select), false)
		if err != nil {
			return err
		}
		defer check.Join(&err, in.Close)
		return in.Results(emit)
	}
}

// ChosenInput returns what is recorded of the job that is the input of a new job, or nil. The job must be fit
// to be read from now.
func ChosenInput(c Config, w *workflow.Workflow) (*jobs.Input, error) {
	in, err := OpenInput(c, w)
	if in == nil || err != nil {
		return nil, err
	}
	return &jobs.Input{JobID: in.Job.ID, Select: string(in.Select())}, in.Close()
}
