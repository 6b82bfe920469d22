package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
)

// Examination is what was found in the files of a job.
type Examination struct {
	JobID   string         `json:"job_id"`
	Running bool           `json:"running"`
	Sound   bool           `json:"sound"`
	Files   []ExaminedFile `json:"files"`
	Items   ItemCounts     `json:"items"`
	Notes   []string       `json:"notes,omitempty"` // what is not damage
}

// ExaminedFile is one file, or the log.
type ExaminedFile struct {
	Path     string `json:"path"`
	Good     int    `json:"good"` // lines or records that are sound, of files that have some
	Problems []Flaw `json:"problems,omitempty"`
}

// Flaw is one thing that is wrong.
type Flaw struct {
	Line int    `json:"line,omitempty"` // 0: it is about the file
	What string `json:"what"`
}

// ItemCounts says what is known of the items by the sound records.
type ItemCounts struct {
	Recorded    int `json:"recorded"` // sound lines of items.jsonl
	Selected    int `json:"selected"` // by the log; 0 if the selection had not ended, or its record is lost
	Succeeded   int `json:"succeeded"`
	DeadLetters int `json:"dead_letters"` // also those that the open breaker rejected
	Skipped     int `json:"skipped"`
	Unsettled   int `json:"unsettled"` // begun, and no sound record says how it ended
	NeverRun    int `json:"never_run"` // no sound record says that it began
}

// most is how many problems of one file are reported.
const mostFlaws = 100

// Examine reads all files of a job. It changes nothing and needs no lock: of a job that is running it sees a
// moment.
func Examine(place jobs.Job) Examination {
	c := examiner{
		Examination: Examination{JobID: place.ID, Running: place.Running()},
		job:         place, status: map[int]errorpolicy.Status{},
	}
	meta, err := c.meta()
	c.log()
	if err != nil || meta.Mode == "mapreduce" {
		c.lines(place.ItemsFile(), true, c.openItems)
		c.lines(place.DLQFile(), false, c.openLetters)
		c.lines(place.ResultsFile(), false, nil)
		c.results(err == nil && len(meta.Digests) == 0)
		c.countItems()
	}
	c.outputs()
	c.checkpoint()
	c.Sound = !slices.ContainsFunc(c.Files, func(f ExaminedFile) bool { return len(f.Problems) > 0 })
	return c.Examination
}

type examiner struct {
	Examination
	job     jobs.Job
	status  map[int]errorpolicy.Status // of the items that have begun, as the sound records say
	lastSeq int64
	printed int64 // where the outputs end that the log names
	items   int
}

// file returns what is reported of the file at a path.
func (c *examiner) file(path string) *ExaminedFile {
	at := slices.IndexFunc(c.Files, func(f ExaminedFile) bool { return f.Path == path })
	if at < 0 {
		at = len(c.Files)
		c.Files = append(c.Files, ExaminedFile{Path: path})
	}
	return &c.Files[at]
}

func (f *ExaminedFile) add(line int, what string) {
	switch n := len(f.Problems); {
	case n < mostFlaws:
		f.Problems = append(f.Problems, Flaw{Line: line, What: what})
	case n == mostFlaws:
		f.Problems = append(f.Problems, Flaw{What: fmt.Sprintf("more than %d problems", mostFlaws)})
	}
}

// note notes what is not damage.
func (c *examiner) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// meta checks job.json and workflow.yml.
func (c *examiner) meta() (jobs.Meta, error) {
	meta, err := c.job.ReadMeta()
	c.whole(c.job.MetaFile(), err)
	_, workflowErr := c.job.ReadWorkflow(meta)
	if damaged, ok := errors.AsType[*jobs.DamagedError](workflowErr); ok && damaged.Path != c.job.WorkflowFile() {
		c.whole(damaged.Path, workflowErr) // a former workflow
		workflowErr = nil
	}
	c.whole(c.job.WorkflowFile(), workflowErr)
	if err == nil && workflowErr == nil && len(meta.Digests) == 0 {
		c.note("job.json was written by a version without checksums: changes to it or to workflow.yml cannot be detected")
	}
	return meta, err
}

// whole notes what is wrong with a file that is read as a whole.
func (c *examiner) whole(path string, wrong error) {
	file := c.file(path)
	if wrong != nil {
		file.add(0, flawOf(wrong))
	}
}

// flawOf is what is wrong, without the path that stands beside it.
func flawOf(err error) string {
	if damaged, ok := errors.AsType[*jobs.DamagedError](err); ok {
		return damaged.Err.Error()
	}
	if missing, ok := errors.AsType[*fs.PathError](err); ok {
		return missing.Err.Error()
	}
	return err.Error()
}

// log checks the log and what it names.
func (c *examiner) log() {
	unsealed := 0
	for x := range events.Examine(c.job.EventsDir()) {
		f := c.file(x.File)
		missing, _ := errors.AsType[*events.MissingError](x.Err)
		switch {
		case errors.Is(x.Err, events.ErrTorn):
			if !c.Running {
				c.note("%s ends in an incomplete line of %d bytes: the run was killed while writing; resume cuts it off",
					x.File, len(x.Text))
			}
			continue
		case x.Err != nil:
			f.add(x.Line, x.Err.Error())
			if missing == nil {
				continue
			}
		}
		f.Good++
		if sealed, _ := jobs.CheckSeal(x.Text); !sealed {
			unsealed++
		}
		c.lastSeq = x.Record.Seq
		c.record(x.Record, f, x.Line)
	}
	if unsealed > 0 {
		c.note("%d records were written by a version without checksums: not all damage in them can be detected", unsealed)
	}
}

// record notes what a sound record says of its item, and checks the output that it names.
func (c *examiner) record(r events.Record, f *ExaminedFile, line int) {
	if span := events.Printed(r.Event); span != nil {
		c.printed = max(c.printed, span.Offset+span.Length)
	}
	switch e := r.Event.(type) {
	case events.ItemsSelected:
		c.Items.Selected = e.TotalItems
	case events.AgentStarted:
		if _, begun := c.status[e.ItemIndex]; !begun {
			c.status[e.ItemIndex] = errorpolicy.Pending
		}
	}
	result, ok := events.ResultOf(r.Event)
	if !ok {
		return
	}
	if result.How != events.Failed { // also if its work is not merged yet
		c.status[result.Index] = errorpolicy.Succeeded
	} else if result.Settles {
		c.status[result.Index] = result.Status()
	}
	if result.OutputFile == "" {
		return
	}
	path := filepath.Join(c.job.OutputsDir(), filepath.Base(result.OutputFile)) // the job may have been moved
	data, err := os.ReadFile(path)
	if found := jobs.ChecksumOf(data); err == nil && result.OutputCRC != "" && found != result.OutputCRC {
		err = fmt.Errorf("%s: checksum is %q, computed %q", path, result.OutputCRC, found)
	}
	if err != nil {
		f.add(line, fmt.Sprintf("its output: %v", err))
	}
}

// outputs checks what steps have printed.
func (c *examiner) outputs() {
	var end int64
	var file *ExaminedFile
	for l := range outputs.Examine(c.job.OutputsDir()) {
		end = max(end, l.End)
		if file == nil || file.Path != l.File {
			file = c.file(l.File)
		}
		damaged, _ := errors.AsType[*outputs.DamagedError](l.Err)
		switch {
		case damaged != nil:
			file.add(l.Line, flawOf(damaged.Err))
		case l.Err == nil:
			file.Good++
		case !c.Running:
			c.note("%s ends in an incomplete line of %d bytes: the run was killed while writing; resume cuts it off",
				l.File, len(l.Text))
		}
	}
	if end < c.printed && !c.Running {
		if file == nil || len(file.Problems) == 0 {
			file = c.file(c.job.OutputsDir())
		}
		file.add(0, fmt.Sprintf("outputs end %d bytes too early", c.printed-end))
	}
}

// lines checks a file of lines of JSON, and then by what reads it for the job.
func (c *examiner) lines(path string, needed bool, open func() error) {
	in, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !needed {
		return
	}
	file := c.file(path)
	if err != nil {
		file.add(0, flawOf(err))
		return
	}
	defer check.Quietly(in.Close)
	number := 1
	left, _, err := jobs.Replay(in, path, func(line []byte, wrong error) error {
		if wrong == nil && !json.Valid(line) {
			wrong = errors.New("not JSON")
		}
		if wrong != nil {
			file.add(number, wrong.Error())
		} else {
			file.Good++
		}
		number++
		return nil
	})
	if err != nil {
		file.add(number, err.Error())
	}
	if left > 0 {
		c.note("%s ends in an incomplete line of %d bytes", path, left)
	}
	if path == c.job.ItemsFile() {
		c.items = file.Good
	}
	if open == nil || len(file.Problems) > 0 {
		return
	}
	if err := open(); err != nil {
		file.add(0, err.Error())
	}
}

func (c *examiner) openItems() error {
	store, err := items.OpenStore(c.job.ItemsFile())
	if err != nil {
		return err
	}
	n := store.Len()
	if known := c.Items.Selected; n < known {
		err = fmt.Errorf("it has %d items, but the log says that %d were selected", n, known)
	}
	for i := 0; i < n && err == nil; i++ {
		_, err = store.At(i)
	}
	return errors.Join(err, store.Close())
}

func (c *examiner) openLetters() error {
	applied, err := dlq.Applied(c.job.DLQFile())
	if err == nil && applied > c.lastSeq && !c.Running {
		err = fmt.Errorf("it includes log record %d, but the log ends with record %d: the end of the log is lost", applied, c.lastSeq)
	}
	for _, readErr := range dlq.Each(c.job.DLQFile()) {
		if readErr != nil {
			return errors.Join(err, readErr)
		}
	}
	return err
}

// results checks the results as a whole. They have no checksums of their own lines, since they are for users. Old says
// that the job is of a version whose results have no companion.
func (c *examiner) results(old bool) {
	if c.Running {
		return
	}
	err := CheckResults(c.job)
	if old && errors.Is(err, ErrNoCompanion) {
		c.note("results.jsonl was written by a version without checksums: changes to it cannot be detected")
		return
	}
	if err != nil {
		c.file(c.job.ResultsFile()).Problems = []Flaw{{What: err.Error() + "; resume rebuilds it from the log"}}
	}
}

func (c *examiner) countItems() {
	it := &c.Items
	it.Recorded = c.items
	for _, status := range c.status {
		switch status {
		case errorpolicy.Pending:
			it.Unsettled++
		case errorpolicy.Succeeded:
			it.Succeeded++
		case errorpolicy.Skipped:
			it.Skipped++
		default:
			it.DeadLetters++
		}
	}
	it.NeverRun = max(0, max(it.Selected, it.Recorded)-len(c.status))
}

// checkpoint looks whether the checkpoint is whole. A job does without one that is not, so that it is no damage.
func (c *examiner) checkpoint() {
	data, err := os.ReadFile(c.job.CheckpointFile())
	if err != nil {
		return
	}
	head, body, _ := bytes.Cut(data, []byte("\n"))
	var version int
	var sum string
	if _, err := fmt.Sscanf(string(head), "prodigy checkpoint %d %s", &version, &sum); err != nil || sum != fmt.Sprintf("%x", sha256.Sum256(body)) {
		c.note("%s is damaged and is ignored: the log is read from its beginning instead",
			c.job.CheckpointFile())
	}
}
