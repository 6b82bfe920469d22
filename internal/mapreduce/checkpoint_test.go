package mapreduce

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/testenv"
)

// exactly compares all fields.
var exactly = cmp.Options{cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()}

// moment is a job behind one record of its log.
type moment struct {
	record  events.Record
	state   *job.Fold // folded from the beginning
	letters []byte    // what the projection remembers
	entries []dlq.Entry
	journal []byte
	point   []byte // a checkpoint
}

// moments goes through the log of a job record by record, and makes a checkpoint at each.
func moments(t *testing.T, place jobs.Job, p errorpolicy.Policy) []moment {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(place.EventsDir(), "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("log files: got %v %v, want one", files, err)
	}
	end := events.Position{File: filepath.Base(files[0])}
	lines := strings.SplitAfter(readLog(t, place), "\n")
	all := recordsOf(t, place)
	queue, project, journal := projection(t, nil)
	points := job.NewCheckpointer(place, job.Options{Policy: p}, job.NewFold(p), 0, project)
	var made []moment
	for i, r := range all {
		end.Offset += int64(len(lines[i]))
		if err := project.Apply([]events.Record{r}); err != nil {
			t.Fatal(err)
		}
		points.Follow([]events.Record{r}, end)
		m := moment{record: r, state: job.NewFold(p), entries: entriesOf(t, queue)}
		for _, r := range all[:i+1] {
			m.state.Apply(r)
		}
		m.letters = encodedLetters(t, project)
		if m.point, err = points.Take(); err != nil {
			t.Fatal(err)
		}
		if m.journal, err = os.ReadFile(journal); err != nil {
			t.Fatal(err)
		}
		made = append(made, m)
	}
	return made
}

func encodedLetters(t *testing.T, p *dlq.Projection) []byte {
	t.Helper()
	m, ok := p.Remembered()
	data, err := json.Marshal(m)
	if err != nil || !ok {
		t.Fatalf("got %t, %v, want what the projection remembers", ok, err)
	}
	return data
}

// put gives a job the checkpoint and the journal of the moment.
func (m moment) put(t *testing.T, place jobs.Job) {
	t.Helper()
	err := errors.Join(os.WriteFile(place.CheckpointFile(), m.point, 0o600), os.WriteFile(place.DLQFile(), m.journal, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// projection returns a queue with a journal, and a projection onto it.
func projection(t *testing.T, journal []byte) (*dlq.Queue, *dlq.Projection, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	if journal != nil {
		if err := os.WriteFile(path, journal, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q, err := dlq.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	data := func(int) (json.RawMessage, error) { return json.RawMessage("1"), nil }
	return q, dlq.NewProjection(q, "job", "w", 3, data), path
}

func entriesOf(t *testing.T, q *dlq.Queue) []dlq.Entry {
	t.Helper()
	var all []dlq.Entry
	for e, err := range q.Each() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// A state that was folded from a checkpoint is the one that the whole log folds to, and so is the queue, wherever the log ends and
// whichever record before that the checkpoint is of.
func TestACheckpointAndTheRestOfTheLogAreTheWholeLog(t *testing.T) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, whole, lines := record(t, k)
			checkFolds(t, whole.Job, k)
			checkFolds(t, takenUp(t, c, whole.Job, strings.Join(lines[:2*len(lines)/3], "")), k)
		})
	}
}

// takenUp returns a job that was killed where its log was cut, was taken up, and whose dead letters were run again.
func takenUp(t *testing.T, c Config, from jobs.Job, log string) jobs.Job {
	t.Helper()
	place := copyJob(t, c, from, log)
	all := func(q *dlq.Queue) (ids []string, err error) {
		for _, e := range entriesOf(t, q) {
			ids = append(ids, e.ItemID)
		}
		return ids, nil
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := Resume(t.Context(), withHome(c, place), place.job)
		if err == nil {
			_, err = RetryDead(t.Context(), withHome(c, place), place.job, all, true)
		}
		if err != nil && !errors.Is(err, ErrNoMap) {
			t.Fatal(err)
		}
	})
	return place.job
}

// checkFolds goes on from the checkpoint at every record of a log over each record after it. The states are compared at the next record, at
// the last one and at every nth between, at others for each checkpoint: what is wrong once stays wrong.
func checkFolds(t *testing.T, place jobs.Job, k recorded) {
	t.Helper()
	policy := parse(t, k.source).ErrorPolicy
	all := moments(t, place, policy)
	n := testenv.OneIn(24, 16)
	for i, from := range all {
		if err := os.WriteFile(place.CheckpointFile(), from.point, 0o600); err != nil {
			t.Fatal(err)
		}
		c := job.ReadCheckpoint(place, policy)
		if !c.Usable {
			t.Fatalf("record %d: got no checkpoint", from.record.Seq)
		}
		s := c.State
		queue, project, _ := projection(t, from.journal)
		if ok, err := project.Restore(*c.Letters, c.Mark.Seq); !ok || err != nil {
			t.Fatalf("record %d: got %t, %v, want that the queue can go on", from.record.Seq, ok, err)
		}
		for j, m := range all[i:] {
			if m.record.Seq > from.record.Seq {
				s.Apply(m.record)
				if err := project.Apply([]events.Record{m.record}); err != nil {
					t.Fatal(err)
				}
			}
			if j > 1 && j < len(all)-i-1 && (2*i+j)%n > 0 {
				continue
			}
			letters := encodedLetters(t, project)
			got := moment{record: m.record, state: s, letters: letters, entries: entriesOf(t, queue), journal: m.journal, point: m.point}
			rest := got
			rest.state = m.state
			// reflect is quick, and too strict for a state: what is empty there may be nil.
			if reflect.DeepEqual(m, rest) && (reflect.DeepEqual(m.state, got.state) || cmp.Equal(m.state, got.state, exactly)) {
				continue
			}
			if diff := cmp.Diff(m, got, exactly); diff != "" {
				t.Fatalf("from record %d to %d (-want +got):\n%s", from.record.Seq, m.record.Seq, diff)
			}
		}
	}
}

// What is not the checkpoint of this log, whole and of this version, is passed over.
func TestABadCheckpointIsPassedOver(t *testing.T) {
	k := kinds()["item retries between two phases"]
	c, whole, lines := record(t, k)
	policy := parse(t, k.source).ErrorPolicy
	all := moments(t, whole.Job, policy)
	const at = 20
	good, other := all[at-1], all[at]
	head, body, _ := bytes.Cut(good.point, []byte("\n"))
	tests := map[string]struct {
		point []byte
		log   string
		by    errorpolicy.Policy
		want  bool
	}{
		"good":                               {point: good.point, want: true},
		"empty":                              {point: []byte{}},
		"nothing but a first line":           {point: head},
		"without a first line":               {point: body},
		"cut off":                            {point: good.point[:len(good.point)-2]},
		"with something behind":              {point: append(bytes.Clone(good.point), '\n')},
		"of another version":                 {point: ofVersion(good.point, +1)},
		"of the version before":              {point: ofVersion(good.point, -1)},
		"a byte is another":                  {point: bytes.Replace(good.point, []byte(`"total":6`), []byte(`"total":7`), 1)},
		"a body that says nothing":           {point: headed([]byte("{}"), good.point)},
		"a body that is none":                {point: headed([]byte("x"), good.point)},
		"the log ends before it":             {point: good.point, log: strings.Join(lines[:at-1], "")},
		"the log ends in its record":         {point: good.point, log: strings.Join(lines[:at], "")[:len(strings.Join(lines[:at], ""))-1]},
		"the log has another record there":   {point: good.point, log: strings.Join(lines[:at-1], "") + strings.Replace(lines[at-1], ":", ": ", 1) + strings.Join(lines[at:], "")},
		"the log is another":                 {point: good.point, log: lines[0] + strings.Join(lines[at:], "")},
		"the log has been shifted":           {point: good.point, log: " " + strings.Join(lines, "")},
		"the policy is another":              {point: good.point, by: errorpolicy.Policy{MaxFailures: 7}},
		"the state of one, the mark of next": {point: remarked(t, good, other)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			place := copyJob(t, c, whole.Job, orAll(tt.log, lines)).job
			moment{point: tt.point}.put(t, place)
			by := policy
			if tt.by.MaxFailures > 0 {
				by = tt.by
			}
			if ok := job.ReadCheckpoint(place, by).Usable; ok != tt.want {
				t.Errorf("got %t, want %t", ok, tt.want)
			}
		})
	}
}

// versionOf returns the version of a checkpoint.
func versionOf(point []byte) (version int) {
	_, _ = fmt.Sscanf(string(point), "prodigy checkpoint %d ", &version)
	return version
}

// ofVersion returns the checkpoint as a version that is so much later would have written it.
func ofVersion(point []byte, later int) []byte {
	v := versionOf(point)
	return bytes.Replace(point, fmt.Appendf(nil, "checkpoint %d ", v), fmt.Appendf(nil, "checkpoint %d ", v+later), 1)
}

// headed returns a checkpoint with another body, and the right checksum.
func headed(body, like []byte) []byte {
	return append(fmt.Appendf(nil, "prodigy checkpoint %d %x\n", versionOf(like), sha256.Sum256(body)), body...)
}

func orAll(log string, lines []string) string {
	if log == "" {
		return strings.Join(lines, "")
	}
	return log
}

// remarked returns the checkpoint of one moment with the mark of another.
func remarked(t *testing.T, m, other moment) []byte {
	t.Helper()
	parts := func(m moment) (parts map[string]json.RawMessage) {
		_, body, _ := bytes.Cut(m.point, []byte("\n"))
		if err := json.Unmarshal(body, &parts); err != nil {
			t.Fatal(err)
		}
		return parts
	}
	mixed := parts(m)
	mixed["mark"] = parts(other)["mark"]
	body, err := json.Marshal(mixed)
	if err != nil {
		t.Fatal(err)
	}
	return headed(body, m.point)
}

// Without the journal that went with a checkpoint the log is followed from its beginning, and every letter comes back.
func TestALostJournalIsMadeAgainFromTheWholeLog(t *testing.T) {
	k := kinds()["item retries between two phases"]
	c, whole, lines := record(t, k)
	all := moments(t, whole.Job, parse(t, k.source).ErrorPolicy)
	for _, cut := range cuts(lines) {
		place := copyJob(t, c, whole.Job, strings.Join(lines[:cut], ""))
		all[cut-1].put(t, place.job)
		if err := os.Remove(place.job.DLQFile()); err != nil {
			t.Fatal(err)
		}
		checkEnd(t, c, k, whole, cut, place)
	}
}

// A job of some size leaves a checkpoint of its last record, a small one none: to read its log takes no time.
func TestAJobLeavesACheckpointWhenItIsWorthIt(t *testing.T) {
	for records, want := range map[int64]bool{0: false, 1: true, 1000: false} {
		synctest.Test(t, func(t *testing.T) {
			c := config(t, fake(failing("item_1")))
			c.CheckpointRecords = records
			source := workflowOf(40, 2, "")
			r := run(t, c, source)
			point := job.ReadCheckpoint(r.Job, parse(t, source).ErrorPolicy)
			ok := point.Usable
			if ok != want {
				t.Fatalf("with %d records between two: got %t, want %t", records, ok, want)
			}
			all := recordsOf(t, r.Job)
			if got, last := point.Mark.Seq, all[len(all)-1].Seq; ok && got != last {
				t.Errorf("got the checkpoint of record %d, want of %d", got, last)
			}
		})
	}
}

// What has been done to the log before a checkpoint is told by a resume, as if there were none.
func TestAResumeNoticesWhatIsMissingBeforeACheckpoint(t *testing.T) {
	for _, missing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := config(t, fake(failing("item_39")))
			c.CheckpointRecords, c.LogFileSize = 1, 4000
			source := workflowOf(40, 2, "error_policy: {on_item_failure: stop}")
			r := run(t, c, source)
			files, err := filepath.Glob(filepath.Join(r.Job.EventsDir(), "*"))
			if err != nil || len(files) < 3 {
				t.Fatalf("got log files %q (%v), want some", files, err)
			}
			if !job.ReadCheckpoint(r.Job, parse(t, source).ErrorPolicy).Usable {
				t.Fatal("there is no checkpoint")
			}
			if missing {
				if err := os.Remove(files[1]); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Resume(t.Context(), c, r.Job); (err != nil) != missing {
				t.Errorf("missing %t: got %v", missing, err)
			}
		})
	}
}

// A job that is killed has the checkpoints that were made while it ran.
func TestCheckpointsAreMadeWhileAJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []int64
		c := config(t, nil)
		policy := parse(t, workflowOf(40, 2, "")).ErrorPolicy
		c.CheckpointRecords = 1
		reply := fake(failing())
		c.Runner = func(ctx context.Context, cmd process.Command) (process.Exit, error) {
			place, err := c.Home.Find("latest")
			if err != nil {
				return process.Exit{}, err
			}
			if point := job.ReadCheckpoint(place, policy); point.Usable && (len(found) == 0 || found[len(found)-1] != point.Mark.Seq) {
				found = append(found, point.Mark.Seq)
			}
			return reply(ctx, cmd)
		}
		r := run(t, c, workflowOf(40, 1, ""))
		if r.State != jobs.Completed || len(found) < 2 || len(found) > 4 {
			t.Errorf("got %s with checkpoints of records %d, want one every 10 of 40 seconds", r.State, found)
		}
	})
}
