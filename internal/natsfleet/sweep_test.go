package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

// kept returns the names of the objects that the broker has, and fails unless it has as many reports as that and no other messages of objects.
func (f *field) kept(js jetstream.JetStream, reports uint64) (names []string) {
	f.t.Helper()
	h := &brokerConn{js: js}
	objects, err := h.objects(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, o := range objects {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	s, err := js.Stream(f.t.Context(), outStream)
	if err != nil {
		f.t.Fatal(err)
	}
	if got := s.CachedInfo().State.Msgs; got != reports {
		f.t.Errorf("the broker has %d reports, want %d", got, reports)
	}
	return names
}

// What a worker leaves with the broker after its job was closed goes with the end of the next job, with all that says that there was something.
func TestWhatComesAfterTheEndOfAJobIsRemovedByTheNext(t *testing.T) {
	f := newField(t)
	f.worker("a", 2, nil)
	first := f.run(source(2, 2, "true", ""), nil)
	h, err := connect(t.Context(), f.address(), "late worker", ensureStreams, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	meta, err := first.Job.ReadMeta()
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(first.Job.ID, meta.Seed)
	if err := h.put(t.Context(), key+"/made-7", make([]byte, 200<<10)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.js.Publish(t.Context(), outSubject("late", key, "7"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if names := f.kept(h.js, 1); len(names) != 1 {
		t.Fatalf("the broker has %q, want one object", names)
	}
	f.run(source(2, 2, "true", ""), nil)
	if names := f.kept(h.js, 0); len(names) > 0 {
		t.Errorf("the broker still has %q", names)
	}
	if info := streamInfo(t, h.js, filesStream); info.Msgs != 0 {
		t.Errorf("the store of objects still has %d messages", info.Msgs)
	}
}

// What is left of a job of this home is known by its key alone: a broker that has lost its disk since has no entry and no lock of it.
func TestWhatComesAfterTheBrokerHasLostTheJobIsRemovedByItsHome(t *testing.T) {
	f := newField(t)
	js := connected(t, f)
	_, of := f.config(nil) // has made the streams
	defer func() { _ = of.Close() }()
	for _, key := range []string{keyOf("ours", 7), keyOf("ours", 8), keyOf("runs", 7), keyOf("theirs", 7)} {
		if _, err := js.Publish(t.Context(), outSubject("late", key, "1"), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Backend{}.Sweep(t.Context(), f.address(), fleet.SweepOptions{Ended: func(id string) (uint64, bool) { return 7, id == "ours" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range found {
		if want := r.Key == keyOf("ours", 7); r.Swept != want || r.Ended != want {
			t.Errorf("%s: removed is %v, want %v", r.Key, r.Swept, want)
		}
	}
	f.kept(js, 3)
}

func TestWhatACoordinatorLeavesThatDiesAfterTheEndIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string]bool{"a job": true, "a resume that gives out nothing": false} {
		t.Run(name, func(t *testing.T) { testDiesAfterTheEnd(t, runs) })
	}
}

func testDiesAfterTheEnd(t *testing.T, runs bool) {
	f := newField(t)
	f.worker("a", 2, nil)
	c, of := f.config(nil)
	text := source(3, 2, "true", "")
	w, err := workflow.Parse("w.yml", []byte(text), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := mapreduce.Run(t.Context(), c, w, []byte(text))
	if err != nil || first.State != jobs.Completed {
		t.Fatalf("got %+v, %v", first, err)
	}
	died := of.(*coordinator)
	died.nc.Close() // as if it had been killed before Close
	died.end()
	js := connected(t, f)
	if !eventually(func() bool { // the broker has seen that too
		_, err := js.Conn().Request(ownerSubject(died.key), nil, time.Second)
		return errors.Is(err, nats.ErrNoResponders)
	}) {
		t.Fatal("the coordinator still answers")
	}
	left := func() (objects, probes, consumers int) {
		files, err := filepath.Glob(filepath.Join(f.root, ".prodigy-fleet-*"))
		if err != nil {
			t.Fatal(err)
		}
		list, err := (&brokerConn{js: js}).objects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list), len(files), streamInfo(t, js, outStream).Consumers
	}
	if objects, probes, consumers := left(); objects != 0 || probes != 1 || consumers != 1 {
		t.Fatalf("it has left %d objects, %d files and %d consumers, want no objects and one of the others", objects, probes, consumers)
	}
	c, of = f.config(func(o *fleet.JobOptions) {
		o.Ended = func(id string) (uint64, bool) {
			meta, err := first.Job.ReadMeta()
			return meta.Seed, err == nil && id == first.Job.ID
		}
	})
	if !runs {
		err = of.Close()
	} else if r, e := f.runWith(c, of, text); e != nil || r.State != jobs.Completed {
		t.Fatalf("got %+v, %v", r, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	if objects, probes, consumers := left(); objects+probes+consumers > 0 {
		t.Errorf("there are still %d objects, %d files and %d consumers", objects, probes, consumers)
	}
}

func TestASweepLeavesWhatIsWanted(t *testing.T) {
	f := newField(t)
	f.lease = 2 * time.Second
	h, err := connect(t.Context(), f.address(), "test", ensureStreams, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	locks, err := h.js.KeyValue(t.Context(), locksBucket)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{} // by the id of the job
	leave := func(id string, lock *lockEntry) {
		keys[id] = keyOf(id, 5)
		if err := h.put(t.Context(), keys[id]+"/spec", []byte(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.js.Publish(t.Context(), outSubject("w", keys[id], "1"), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if lock != nil {
			lock.Job = id
			if _, err := locks.Put(t.Context(), keys[id], encoded(lock)); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave("closed", &lockEntry{Epoch: 3, Over: true})
	leave("paused", &lockEntry{Epoch: 3})
	leave("orphan", &lockEntry{Owner: "gone"})
	leave("ended", &lockEntry{Owner: "gone"})
	leave("of-another-home", &lockEntry{Owner: "gone"})
	leave("unknown", nil)
	leave("running", &lockEntry{})
	if _, err := h.subscribe(ownerSubject(keys["running"]), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	ended := func(id string) (uint64, bool) {
		if id == "of-another-home" {
			return 6, true
		}
		return 5, id == "ended"
	}
	look := func(ended func(string) (uint64, bool), of ...string) []string {
		t.Helper()
		found, err := (Backend{}).Sweep(t.Context(), f.address(), fleet.SweepOptions{Ended: ended, Jobs: of})
		if err != nil {
			t.Fatal(err)
		}
		var swept []string
		for _, r := range found {
			if r.Objects != 1 || r.Reports != 1 {
				t.Errorf("%s: got %+v, want an object and a report", r.Key, r)
			}
			if r.Swept {
				swept = append(swept, r.Key)
			}
		}
		slices.Sort(swept)
		return swept
	}
	want := []string{keys["closed"], keys["ended"]}
	if got := look(ended); !slices.Equal(got, want) {
		t.Errorf("removed %q, want %q", got, want)
	}
	if got := look(ended); len(got) > 0 {
		t.Errorf("removed %q as well", got)
	}
	if got := f.kept(h.js, 5); len(got) != 5 {
		t.Errorf("the broker still has %q, want 5", got)
	}
	var lock lockEntry
	if e, err := locks.Get(t.Context(), keys["closed"]); err != nil || json.Unmarshal(e.Value(), &lock) != nil || lock.Owner != "" || lock.Sweeps || lock.Epoch != 3 {
		t.Errorf("the lock is %+v, %v", lock, err)
	}
	// Named, also what could go on, but not what runs.
	want = []string{keys["orphan"]}
	said, err := h.nc.SubscribeSync(jobsSubject + keys["orphan"])
	if err != nil {
		t.Fatal(err)
	}
	if got := look(nil, "orphan", "running"); !slices.Equal(got, want) {
		t.Errorf("removed %q, want %q", got, want)
	}
	if m, err := said.NextMsg(time.Minute); err != nil || !strings.Contains(string(m.Data), `"over":true`) {
		t.Errorf("workers are not told: %v", err)
	}
}

// A broker may take a while to answer that nobody owns a job. Without an answer nothing is removed, and the sweep
// fails, as it does if somebody else takes the job meanwhile.
func TestASweepWaitsForTheAnswerOfTheBroker(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"late", "none", "taken"} {
		t.Run(answer, func(t *testing.T) {
			f := newField(t)
			h, err := connect(t.Context(), f.address(), "test", ensureStreams, func() {})
			if err != nil {
				t.Fatal(err)
			}
			defer h.nc.Close()
			key := keyOf("job", 5)
			if err := h.put(t.Context(), key+"/spec", []byte("spec")); err != nil {
				t.Fatal(err)
			}
			nobody := &nats.Msg{Header: nats.Header{"Status": {"503"}}} // as the broker says that nobody listens
			if _, err := h.subscribe(ownerSubject(key), func(m *nats.Msg) {
				switch answer {
				case "late":
					time.AfterFunc(700*time.Millisecond, func() { _ = m.RespondMsg(nobody) })
				case "taken":
					locks, err := h.js.KeyValue(context.Background(), locksBucket)
					if err == nil {
						_, err = locks.Put(context.Background(), key, encoded(lockEntry{Owner: "other"}))
					}
					if err == nil {
						_ = m.RespondMsg(nobody)
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
			found, err := (Backend{}).Sweep(t.Context(), f.address(), fleet.SweepOptions{Jobs: []string{key}})
			left := len(f.kept(h.js, 0)) > 0
			switch {
			case answer == "late" && (err != nil || left || len(found) != 1 || !found[0].Swept):
				t.Errorf("got %+v, %v; want the job removed", found, err)
			case answer == "none" && (err == nil || !left || len(found) != 0):
				t.Errorf("got %+v, %v; want an error", found, err)
			case answer == "taken" && (err == nil || !strings.Contains(err.Error(), "another process") || !left):
				t.Errorf("got %+v, %v; want an error that names who has it", found, err)
			}
		})
	}
}
