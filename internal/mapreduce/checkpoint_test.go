package mapreduce

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
)

// exactly compares all fields.
var exactly = cmp.Options{cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()}

// moment is a job behind one record of its log.
type moment struct {
	record  events.Record
	state   *state // folded from the beginning
	letters []byte // what the projection remembers
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
	points := newCheckpointer(place, p, newState(p), 0, project)
	var made []moment
	for i, r := range all {
		end.Offset += int64(len(lines[i]))
		if err := project.Apply([]events.Record{r}); err != nil {
			t.Fatal(err)
		}
		points.follow([]events.Record{r}, end)
		m := moment{record: r, state: newState(p), entries: entriesOf(t, queue)}
		for _, r := range all[:i+1] {
			m.state.apply(r)
		}
		m.letters = encodedLetters(t, project)
		if m.point, err = points.take(); err != nil {
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
	m, ok := p.Memory()
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
		c, err := decodeCheckpoint(from.point, policy)
		if err != nil {
			t.Fatal(err)
		}
		if !events.Holds(place.EventsDir(), c.Mark) {
			t.Fatalf("record %d: the log does not hold %+v", from.record.Seq, c.Mark)
		}
		s := c.State
		queue, project, _ := projection(t, from.journal)
		if ok, err := project.Restore(*c.Letters, c.Mark.Seq); !ok || err != nil {
			t.Fatalf("record %d: got %t, %v, want that the queue can go on", from.record.Seq, ok, err)
		}
		for j, m := range all[i:] {
			if m.record.Seq > from.record.Seq {
				s.apply(m.record)
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
		"of another version":                 {point: ofVersion(good.point, foldVersion+1)},
		"of the version before":              {point: ofVersion(good.point, foldVersion-1)},
		"a byte is another":                  {point: bytes.Replace(good.point, []byte(`"total":6`), []byte(`"total":7`), 1)},
		"a body that says nothing":           {point: append(checkpointHead([]byte("{}")), "{}"...)},
		"a body that is none":                {point: append(checkpointHead([]byte("x")), 'x')},
		"the log ends before it":             {point: good.point, log: strings.Join(lines[:at-1], "")},
		"the log ends in its record":         {point: good.point, log: strings.Join(lines[:at], "")[:len(strings.Join(lines[:at], ""))-1]},
		"the log has another record there":   {point: good.point, log: strings.Join(lines[:at-1], "") + strings.Replace(lines[at-1], ":", ": ", 1) + strings.Join(lines[at:], "")},
		"the log is another":                 {point: good.point, log: lines[0] + strings.Join(lines[at:], "")},
		"the log has been shifted":           {point: good.point, log: " " + strings.Join(lines, "")},
		"the policy is another":              {point: good.point, by: errorpolicy.Policy{MaxFailures: 7}},
		"the state of one, the mark of next": {point: remarked(t, good, other, policy)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			place := copyJob(t, c, whole.Job, orAll(tt.log, lines)).job
			moment{point: tt.point}.put(t, place)
			by := policy
			if tt.by.MaxFailures > 0 {
				by = tt.by
			}
			if ok := readCheckpoint(place, by).usable; ok != tt.want {
				t.Errorf("got %t, want %t", ok, tt.want)
			}
		})
	}
}

// ofVersion returns the checkpoint as another version would have written it.
func ofVersion(point []byte, version int) []byte {
	return bytes.Replace(point, fmt.Appendf(nil, "checkpoint %d ", foldVersion), fmt.Appendf(nil, "checkpoint %d ", version), 1)
}

func orAll(log string, lines []string) string {
	if log == "" {
		return strings.Join(lines, "")
	}
	return log
}

// remarked returns the checkpoint of one moment with the mark of another.
func remarked(t *testing.T, m, other moment, p errorpolicy.Policy) []byte {
	t.Helper()
	c, err := decodeCheckpoint(m.point, p)
	if err != nil {
		t.Fatal(err)
	}
	o, err := decodeCheckpoint(other.point, p)
	if err != nil {
		t.Fatal(err)
	}
	c.Mark = o.Mark
	data, err := c.encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
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

// Every field of a state is in its JSON: what is in none of the jobs above may still be in somebody else's.
func TestTheJSONOfAStateHasAllOfIt(t *testing.T) {
	s := newState(errorpolicy.Policy{})
	fill(reflect.ValueOf(s).Elem(), "state")
	again, err := s.clone(errorpolicy.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, again, exactly); diff != "" {
		t.Errorf("the JSON lacks (-want +got):\n%s", diff)
	}
}

// fill gives something to everything that there is in v, but for what comes from the workflow.
func fill(v reflect.Value, name string) {
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem() // also where a field is private
	switch {
	case v.Type() == reflect.TypeFor[errorpolicy.Policy]() || v.Type() == reflect.TypeFor[limit.BreakerConfig]() || v.Type() == reflect.TypeFor[limit.Rate]() || v.Type() == reflect.TypeFor[limit.AdaptiveConfig]() || v.Type() == reflect.TypeFor[retry.Ratio]() || v.Type() == reflect.TypeFor[limit.StragglerAfter]():
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 20, 12, 0, len(name), 1000, time.UTC)))
	case v.Type() == reflect.TypeFor[attempts]():
		var f running
		fill(reflect.ValueOf(&f).Elem(), name)
		v.Set(reflect.ValueOf(attempts{1: newStartedAttempt(f), 2: newStartedAttempt(running{ID: "item_2", Number: 1, Token: 7})}))
	case v.Type() == reflect.TypeFor[errorpolicy.Statuses]():
		v.Addr().Interface().(*errorpolicy.Statuses).Set(len(name), errorpolicy.Dead)
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"is":"<&>"}`))
	default:
		fillKind(v, name)
	}
}

func fillKind(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name)
		fill(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), name)
		fill(v.Index(1), name)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), name)
		}
	case reflect.String:
		v.SetString("<" + name + ">")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(len(name)) / 2)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(len(name)) * int64(time.Millisecond))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(len(name)))
	default:
		panic("BUG: nothing to fill " + name + " with")
	}
}

var update = flag.Bool("update", false, "write the shape of the checkpoints of a new foldVersion")

// The shape of what is written down has a version, because a checkpoint of another shape would be read as if what it lacks were nothing. Files of
// earlier versions stay as they are.
func TestAnotherShapeHasAnotherVersion(t *testing.T) {
	var shape strings.Builder
	writeShape(&shape, reflect.TypeFor[checkpoint](), "", map[reflect.Type]bool{})
	path := fmt.Sprintf("testdata/checkpoint/shape-%d.txt", foldVersion)
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && *update {
		want, err = []byte(shape.String()), os.WriteFile(path, []byte(shape.String()), 0o644)
	}
	if err != nil {
		t.Fatalf("%v: go test ./internal/mapreduce -run TestAnotherShape -update writes the file of a new version", err)
	}
	if diff := cmp.Diff(string(want), shape.String()); diff != "" {
		t.Errorf("what a checkpoint has is not what version %d has. Increase foldVersion, and write the file of that version with -update (-want +got):\n%s", foldVersion, diff)
	}
}

// writeShape writes the fields of a type, also the private ones, and what they are made of. Policies and configurations come from the workflow and
// are not in a checkpoint.
func writeShape(w *strings.Builder, typ reflect.Type, indent string, above map[reflect.Type]bool) {
	if typ == reflect.TypeFor[attempts]() { // it is written as one
		typ = reflect.TypeFor[map[int]running]()
	}
	_, _ = fmt.Fprintf(w, "%v\n", typ)
	if typ == reflect.TypeFor[errorpolicy.Policy]() || typ == reflect.TypeFor[limit.BreakerConfig]() || typ == reflect.TypeFor[time.Time]() || above[typ] {
		return
	}
	indent += "  "
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		_, _ = fmt.Fprintf(w, "%sof ", indent)
		writeShape(w, typ.Elem(), indent, above)
	case reflect.Map:
		_, _ = fmt.Fprintf(w, "%sby %v of ", indent, typ.Key())
		writeShape(w, typ.Elem(), indent, above)
	case reflect.Struct:
		above[typ] = true
		for f := range typ.Fields() {
			if f.Anonymous && f.Type.NumField() == 0 {
				continue
			}
			_, _ = fmt.Fprintf(w, "%s%s %q ", indent, f.Name, f.Tag.Get("json"))
			writeShape(w, f.Type, indent, above)
		}
		delete(above, typ)
	}
}

// foldSums are sums of all that the golden logs come to, by foldVersion. What a new one makes of them is added, never changed: a checkpoint
// of a fold that was another under the same number would be wrong, and nothing could tell.
var foldSums = map[int]string{
	32: "d482908b3128400103365d52c9327f76508d645022ba5ebc2a36672aec165562",
	33: "d482908b3128400103365d52c9327f76508d645022ba5ebc2a36672aec165562", // no second attempts
	34: "303931f94b4a6ab3c3c608564fdc70e54f867d2eb4ba3466c6d8ae2393ed6c95", // the limits in a memory of their own
	35: "494f68bc087200e8be5c30dec969627ed6285db165af845c9d45994bb8a11f39", // in another order
	36: "ab2dcafe75cc4137649c1ce5ce81c12133008f62aa4bfe18e3555b644dbabdb5", // the breaker among the limits
}

func TestAnotherFoldHasAnotherVersion(t *testing.T) {
	logs, err := filepath.Glob("testdata/golden/v1/*/events-*.jsonl")
	if err != nil || len(logs) == 0 {
		t.Fatalf("got %d golden logs, %v, want some", len(logs), err)
	}
	sum := sha256.New()
	for _, log := range logs {
		source, err := os.ReadFile(filepath.Join(filepath.Dir(log), "workflow.yml"))
		if err != nil {
			t.Fatal(err)
		}
		s := newState(parse(t, string(source)).ErrorPolicy)
		for r, err := range events.Read(filepath.Dir(log)) {
			if err == nil {
				s.apply(r)
				err = json.NewEncoder(sum).Encode(s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := hex.EncodeToString(sum.Sum(nil)), foldSums[foldVersion]; got != want {
		t.Errorf("fold %d: got %s, want %s: when the fold is to change, foldVersion becomes one more", foldVersion, got, want)
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
			point := readCheckpoint(r.Job, parse(t, source).ErrorPolicy)
			ok := point.usable
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
			if !readCheckpoint(r.Job, parse(t, source).ErrorPolicy).usable {
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
			if point := readCheckpoint(place, policy); point.usable && (len(found) == 0 || found[len(found)-1] != point.Mark.Seq) {
				found = append(found, point.Mark.Seq)
			}
			return reply(ctx, cmd)
		}
		r := run(t, c, workflowOf(40, 1, ""))
		if r.State != Completed || len(found) < 2 || len(found) > 4 {
			t.Errorf("got %s with checkpoints of records %d, want one every 10 of 40 seconds", r.State, found)
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	sum, err := sumOf(errorpolicy.Policy{})
	if err != nil {
		f.Fatal(err)
	}
	good, err := checkpoint{State: newState(errorpolicy.Policy{}), Policy: sum}.encode()
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(good, []byte("\n"))
	f.Add(body)
	f.Add([]byte(`{"state":{"policy":null}}`))
	f.Add(bytes.Replace(body, []byte(`"circuits":{}`), []byte(`"circuits":null,"status":"ab","phases":{"map":{}}`), 1))
	f.Add(bytes.Replace(body, []byte(`"policy":{"breaker":{`), []byte(`"policy":{"breaker":null,"x":{`), 1))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decodeCheckpoint(body, errorpolicy.Policy{}); err == nil && !bytes.HasPrefix(body, []byte("prodigy checkpoint ")) {
			t.Errorf("got no error for %q", body)
		}
		c, err := decodeCheckpoint(append(checkpointHead(body), body...), errorpolicy.Policy{})
		if err != nil {
			return
		}
		s := c.State
		for _, e := range events.Types() {
			if _, failed := e.(events.AgentFailed); !failed { // it needs its fields
				s.apply(events.Record{Seq: 1, Event: e})
			}
		}
		if again, err := s.clone(errorpolicy.Policy{}); err != nil || again.Seq != 1 {
			t.Errorf("got %v of what was read, want that it can be written", err)
		}
	})
}
