package natsfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

// heavy returns a workflow over items that are too large for a message. None ends before there is a file of that name.
func (f *field) heavy(items int) string {
	big := strings.Repeat("x", 300<<10)
	var b strings.Builder
	b.WriteString("name: w\nmode: mapreduce\nmap:\n  max_parallel: 4\n  input: [")
	for i := range items {
		fmt.Fprintf(&b, "%q,", fmt.Sprint(i+1, big))
	}
	fmt.Fprintf(&b, "]\n  agent_template:\n    - shell: \"echo run >> runs-$PRODIGY_ITEM_ID; until [ -e %s ]; do sleep 0.05; done\"\n", filepath.Join(f.root, "go"))
	return b.String()
}

// full runs a job on a broker whose store takes nothing more once some items have begun, and returns how it ends.
func (f *field) full(text string, change func(*fleet.JobOptions), then func(said *log)) mapreduce.Result {
	f.t.Helper()
	said := new(log)
	c, of := f.config(change)
	stop, abort := context.WithCancelCause(f.t.Context())
	c.Stop, c.Grace = stop, 100*time.Millisecond
	onAbort(of, abort)
	onNotice(of, said.add)
	f.doing.Go(func() {
		if !f.untilRunning(2) { // the slots of its worker
			abort(nil)
			return
		}
		if err := f.embedded().DisableJetStream(); err != nil { // as a server does whose disk is full
			f.t.Error(err)
		}
		of.(*coordinator).noteKept(nats.ErrNoResponders) // as it would after a quarter of the lease
		then(said)
	})
	w, err := workflow.Parse("w.yml", []byte(text), workflow.ParseOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := mapreduce.Run(f.t.Context(), c, w, []byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	f.doing.Wait()
	if err := of.Close(); err != nil {
		f.t.Error(err)
	}
	return r
}

const keepsNothing = "the broker cannot store data: its storage does not respond: the disk is full, the storage was deleted (restart the broker), or a cluster has no leader yet. Waiting for it to recover"

// lookAtStore has the broker look at its store as it does each second, when there is room.
func (f *field) lookAtStore() {
	f.t.Helper()
	said := new(log)
	o := fleet.BrokerOptions{Listen: f.broker.Addr().String(), Store: filepath.Join(f.root, "store"), Say: said.add}
	s, room := f.embedded(), uint64(0)
	w := storeWatch{measure: func(...string) (limit.Machine, error) {
		return limit.Machine{DiskFree: room, DiskTotal: 100 << 30}, nil
	}}
	for range 2 { // it is full
		if w.look(s, o) != s {
			f.t.Error("there is another server, and no room")
		}
	}
	room = roomAgain
	next := s
	eventually(func() bool { // what keeps it from starting may be over in a moment
		next = w.look(s, o)
		return next != s
	})
	f.broker = next
	if next == s || next.Addr().String() != o.Listen || w.look(next, o) != next {
		f.t.Error("there is no other server at the same address, and there is room")
	}
	if want := "the disk of " + o.Store + " is full: waiting for free space\nthere is free space again, and the broker stores data again\n"; said.String() != want {
		f.t.Errorf("the broker said %q, want %q", said, want)
	}
}

// A job on a broker whose disk is full says so, and goes on as soon as there is room. What was under way is neither lost nor run twice.
func TestAFullBrokerHoldsAJobUp(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute // on a slow machine the other server takes some seconds to start, and a shorter one may pass
	f.worker("a", 2, nil)
	r := f.full(f.heavy(12), nil, func(said *log) {
		f.waitFor(keepsNothing, said.String)
		f.lookAtStore()
		f.write("../go", "", 0o600)
	})
	f.once(r, 12)
}

// After the patience a job on a full broker is stopped. A resume takes it up.
func TestABrokerThatStaysFullPausesTheJob(t *testing.T) {
	f := newField(t)
	f.lease = 8 * time.Second
	f.worker("a", 2, nil)
	r := f.full(f.heavy(12), func(o *fleet.JobOptions) { o.Patience = time.Second }, func(*log) {})
	if want := "the broker could not store data for 1s (--broker-patience): its storage does not respond"; r.State != jobs.Stopped || !strings.Contains(r.Reason, want) {
		t.Fatalf("got %s (%s), want it stopped: %s", r.State, r.Reason, want)
	}
	f.lookAtStore()
	f.write("../go", "", 0o600)
	c, of := f.config(nil)
	r, err := mapreduce.Resume(t.Context(), c, r.Job)
	if err != nil {
		t.Fatal(err)
	}
	if err := of.Close(); err != nil {
		t.Error(err)
	}
	if r.State != jobs.Completed || r.Metrics.Successful != 12 {
		t.Fatalf("got %s (%s) with %+v, want 12 successful", r.State, r.Reason, r.Metrics)
	}
}

// A limit of the store is what a full disk is, with another answer. What an item has produced waits for room too, and the item does not fail.
func TestWhatAWorkerHasMadeWaitsForRoom(t *testing.T) {
	t.Parallel()
	f := &field{t: t, root: t.TempDir(), lease: time.Minute}
	config := filepath.Join(f.root, "nats.conf")
	const room = 2 << 20
	if err := os.WriteFile(config, fmt.Appendf(nil, "listen: 127.0.0.1:-1\njetstream {store_dir: %q, max_file: %d}\n", filepath.Join(f.root, "store"), room), 0o600); err != nil {
		t.Fatal(err)
	}
	f.restartFrom(config)
	t.Cleanup(func() { f.doing.Wait(); f.broker.Shutdown(); f.broker.WaitForShutdown() })
	a := f.worker("a", 1, nil)
	said := new(log)
	c, of := f.config(func(o *fleet.JobOptions) {
		o.Files, o.Produces = []string{"in.txt"}, []workflow.Text{{Value: "made-${item}"}}
	})
	onNotice(of, said.add)
	if err := os.WriteFile(filepath.Join(f.root, "in.txt"), []byte("sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	js := connected(t, f)
	f.doing.Go(func() { // something else takes the room, until both have said that there is none
		store, err := js.ObjectStore(t.Context(), filesStore)
		if err == nil {
			_, err = store.PutBytes(t.Context(), "filler", make([]byte, room-(300<<10)))
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(f.root, "filled"), nil, 0o600)
		}
		if err != nil {
			t.Error(err)
			return
		}
		f.waitFor("the broker cannot store results: its storage is full", a.said.String)
		f.waitFor("the broker cannot store data: its storage is full", said.String)
		if err := (&brokerConn{js: js}).remove(t.Context(), "filler"); err != nil {
			t.Error(err)
		}
	})
	r, err := f.runWith(c, of, source(2, 1, "until [ -e "+filepath.Join(f.root, "filled")+" ]; do sleep 0.05; done; head -c 900000 /dev/zero >made-${item}", ""))
	if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 2 {
		t.Fatalf("got %s (%s) with %+v, %v, want 2 successful", r.State, r.Reason, r.Metrics, err)
	}
	for _, name := range []string{"made-1", "made-2"} {
		if info, err := os.Stat(filepath.Join(f.root, name)); err != nil || info.Size() != 900000 {
			t.Errorf("%s: %v, want 900,000 bytes", name, err)
		}
	}
	f.waitFor("the broker stores results again", a.said.String)
}

func TestWhyTheBrokerKeepsNothing(t *testing.T) {
	off := "its storage does not respond: the disk is full, the storage was deleted (restart the broker), or a cluster has no leader yet"
	for _, c := range []struct {
		err  error
		want string
	}{
		{&jetstream.APIError{Code: 503, ErrorCode: codeNoRoom, Description: "insufficient resources"}, "its storage is full (insufficient resources)"},
		{&jetstream.APIError{Code: 400, ErrorCode: codeNoRoomForAccount, Description: "resource limits exceeded for account"}, "its storage is full (resource limits exceeded for account)"},
		{fmt.Errorf("put: %w", &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "no space left"}), "its storage is full (no space left)"},
		{&jetstream.APIError{Code: 500, ErrorCode: 10051, Description: "write 1.blk: no space left on device"}, "its storage is full (write 1.blk: no space left on device)"},
		{nats.ErrNoResponders, off},
		{context.DeadlineExceeded, off},
		{jetstream.ErrJetStreamNotEnabled, off},
		{errors.New("anything else"), "anything else"},
	} {
		var r refusals
		if r.note(c.err, time.Now()); r.why != c.want {
			t.Errorf("%v: got %q, want %q", c.err, r.why, c.want)
		}
	}
}

// A run says when the broker refuses things for longer than a moment, and when it does no more; it stops when it is to.
func TestARunSaysWhatTheBrokerRefuses(t *testing.T) {
	said, began := new(log), time.Now()
	c := quietCoordinator(fleet.JobOptions{Patience: 20 * time.Second})
	onNotice(c, said.add)
	onAbort(c, func(cause error) { said.add("stop: " + cause.Error()) })
	for _, step := range []struct {
		after   time.Duration
		refused bool
		want    string
	}{
		{0, true, ""},
		{shortAbsence - 1, true, ""},
		{shortAbsence, true, keepsNothing + "\n"},
		{2 * shortAbsence, true, ""},
		{2*shortAbsence + refusedFor - 1, false, ""},
		{2*shortAbsence + refusedFor, false, "the broker stores data again\n"},
		{time.Minute, true, ""},
		{time.Minute + shortAbsence, true, keepsNothing + "\n"},
		{time.Minute + 20*time.Second, true, "stop: the broker could not store data for 20s (--broker-patience): its storage does not respond: the disk is full, the storage was deleted (restart the broker), or a cluster has no leader yet\n"},
		{time.Minute + 21*time.Second, true, ""},
	} {
		before := said.String()
		now := began.Add(step.after)
		if step.refused {
			c.state.refuses.note(nats.ErrNoResponders, now)
		}
		c.lookAtStore(now)
		if got := strings.TrimPrefix(said.String(), before); got != step.want {
			t.Errorf("after %s: got %q, want %q", step.after, got, step.want)
		}
	}
	c.noteKept(nil)
	c.lookAtStore(began.Add(time.Minute + 21*time.Second))
	if !strings.HasSuffix(said.String(), "again\n") {
		t.Errorf("something was kept, and it said %q", said)
	}
}

// A broker that is away holds the job back, which its log knows, and so status.
func TestTheLogKnowsThatTheBrokerIsAway(t *testing.T) {
	host := &toldHost{}
	c := quietCoordinator(fleet.JobOptions{})
	c.host = host
	m, began := &monitoring{coordinator: c}, time.Now()
	for _, after := range []time.Duration{0, shortAbsence - 1, shortAbsence, 2 * shortAbsence} {
		m.missing(began, began.Add(after))
	}
	want := []events.Event{events.StartsHeld{
		By: byBroker, Reason: "broker unreachable; running items continue for most of a lease",
	}}
	if diff := cmp.Diff(want, host.told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// toldHost is a Host that keeps what it is told.
type toldHost struct {
	agent.Host
	told []events.Event
}

func (h *toldHost) Emit(_ *agent.Attempt, e events.Event) { h.told = append(h.told, e) }

// What the broker refuses now and then is one time of refusals, which ends when nothing is refused any more.
func TestWhenTheBrokerKeepsThingsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		began := time.Now()
		for range 3 {
			r.note(nats.ErrNoResponders, time.Now())
			time.Sleep(refusedFor - 1)
			if !r.now(time.Now()) || !r.since.Equal(began) {
				t.Errorf("after %s it is taken to keep things", time.Since(began))
			}
		}
		if time.Sleep(time.Nanosecond); r.now(time.Now()) {
			t.Error("it is taken to refuse things for ever")
		}
	})
}

// smallStore starts a broker whose store has room for a megabyte.
func smallStore(t *testing.T) *field {
	t.Helper()
	t.Parallel()
	f := &field{t: t, root: t.TempDir(), lease: 3 * time.Second}
	config := filepath.Join(f.root, "nats.conf")
	text := fmt.Sprintf("listen: 127.0.0.1:-1\njetstream {store_dir: %q, max_file: %d}\n", filepath.Join(f.root, "store"), 1<<20)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.restartFrom(config)
	t.Cleanup(func() { f.broker.Shutdown(); f.broker.WaitForShutdown() })
	return f
}

// fillStore puts things into the store of the broker until it takes nothing more, not even a renewed lock.
func (f *field) fillStore() {
	f.t.Helper()
	js := connected(f.t.(*testing.T), f)
	for size := 512 << 10; size > 0; {
		if _, err := js.Publish(f.t.Context(), "prodigy.out.X.none.1", make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if _, err := js.Publish(f.t.Context(), "prodigy.out.X.none.1", nil); !isFull(err) {
		f.t.Fatalf("the store is not full: %v", err)
	}
}

// A broker that has no room holds up what it is to keep, and nothing else: a worker that dies is noticed, and the run is stopped when its patience is over.
func TestALossIsNoticedWhileTheBrokerIsFull(t *testing.T) {
	f := smallStore(t)
	_, of := f.config(func(o *fleet.JobOptions) { o.Patience = 6 * time.Second })
	c := of.(*coordinator)
	c.slow.tendEvery = every(c.o.Lease)
	aborted := make(chan error, 1)
	onAbort(c, func(cause error) { aborted <- cause })
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	ended := make(chan error, 1)
	c.Submit(t.Context(), attemptAt(f, 1, "true"), func(_ *agent.Attempt, _ agent.Outcome, err error) { ended <- err })
	p := f.puppet(c)
	token := p.take()
	f.fillStore()
	if !eventually(c.slow.tending.Load) {
		t.Fatal("nobody looks at what the broker has lost")
	}
	p.say([]int64{token}) // its last words
	for what, end := range map[string]chan error{"lost": ended, "aborted": aborted} {
		select {
		case err := <-end:
			if _, lost := errors.AsType[*agent.LostError](err); lost != (what == "lost") || err == nil {
				t.Errorf("%s: got %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: nobody has noticed", what)
		}
	}
	c.nc.Close() // the lock cannot be given back
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
