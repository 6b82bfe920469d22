package natsfleet

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
)

// twice is a script that says so when an item runs more than once.
const twice = `echo run >> runs-${item}; sleep 0.3`

// once checks that all items have succeeded and none ran twice.
func (f *field) once(r mapreduce.Result, items int) {
	f.t.Helper()
	if r.State != jobs.Completed || r.Metrics.Successful != items {
		f.t.Fatalf("got %s (%s) with %+v, want %d successful", r.State, r.Reason, r.Metrics, items)
	}
	f.ranOnce(items)
}

// ranOnce checks that so many items have run, each once.
func (f *field) ranOnce(items int) {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.root, "runs-*"))
	if err != nil || len(files) != items {
		f.t.Errorf("%d items ran, %v, want %d", len(files), err, items)
	}
	for _, path := range files {
		if data, err := os.ReadFile(path); err != nil || strings.Count(string(data), "run") != 1 {
			f.t.Errorf("%s: %q, %v, want one run", filepath.Base(path), data, err)
		}
	}
}

// whenRunning calls do once some items have begun.
func (f *field) whenRunning(do func()) {
	f.doing.Go(func() {
		if f.untilRunning(4) {
			do()
		}
	})
}

// untilRunning waits until so many items have begun.
func (f *field) untilRunning(items int) bool {
	f.t.Helper()
	return f.untilThere("runs-*", items)
}

// untilThere waits until so many files are there, and reports whether they are.
func (f *field) untilThere(pattern string, files int) bool {
	f.t.Helper()
	there := eventually(func() bool {
		found, _ := filepath.Glob(filepath.Join(f.root, pattern))
		return len(found) >= files
	})
	if !there {
		f.t.Errorf("there are no %d files %s", files, pattern)
	}
	return there
}

// eventually waits until something holds, and reports whether it does. What other processes do can only be looked at now and then.
func eventually(holds func() bool) bool {
	for until := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			return false
		}
	}
	return true
}

func (f *field) restart(lose bool) {
	port := f.stop()
	if lose {
		if err := os.RemoveAll(filepath.Join(f.root, "store")); err != nil {
			f.t.Error(err)
		}
	}
	f.start(port)
}

// stop ends the broker, and returns the port that it had.
func (f *field) stop() (port int) {
	address := f.broker.Addr().String()
	f.broker.Shutdown()
	f.broker.WaitForShutdown()
	for _, digit := range address[strings.LastIndexByte(address, ':')+1:] {
		port = 10*port + int(digit-'0')
	}
	return port
}

func TestABrokerThatIsRestartedCostsNothing(t *testing.T) {
	f := newField(t)
	f.worker("a", 3, nil)
	f.whenRunning(func() { f.restart(false) })
	f.once(f.run(source(9, 6, twice, ""), nil), 9)
}

func TestABrokerThatLosesItsDiskIsGivenAnewWhatIsOut(t *testing.T) {
	f := newField(t)
	f.worker("a", 3, nil)
	f.whenRunning(func() { f.restart(true) })
	f.once(f.run(source(9, 6, twice, ""), nil), 9)
}

// Who runs a job is told once that the broker lost its disk, and nothing of one that was only restarted.
func TestABrokerThatHasLostItsDiskIsTold(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	said := new(log)
	onNotice(c, said.add)
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	f.restart(false)
	c.reconcile(c.life)
	if said.String() != "" {
		t.Errorf("got %q of a broker that was restarted, want nothing", said)
	}
	f.restart(true)
	c.reconcile(c.life)
	c.reconcile(c.life)
	const want = "the broker lost this job's data (storage deleted, or a different broker?): resending it. Items whose results were only on the broker run again\n"
	if said.String() != want {
		t.Errorf("got %q, want %q", said, want)
	}
}

// Who has forgotten to start a worker is told.
func TestAJobWithoutWorkersSaysSo(t *testing.T) {
	f := newField(t)
	c, coordinator := f.config(nil)
	said := new(log)
	onNotice(coordinator, func(text string) {
		said.add(text)
		f.worker("a", 2, nil)
	})
	r, err := f.runWith(c, coordinator, source(3, 2, "true", ""))
	if err != nil || r.Metrics.Successful != 3 {
		t.Errorf("got %+v, %v", r, err)
	}
	want := "no workers available, attempts waiting: 2; start one with: prodigy worker --join " + f.broker.ClientURL() + "\n"
	if said.String() != want {
		t.Errorf("got %q, want %q", said, want)
	}
}

// Whoever has only workers that do not fit is told so, and why they do not.
func TestAJobThatAllWorkersRefuseSaysWhy(t *testing.T) {
	f := newField(t)
	c, coordinator := f.config(func(o *fleet.JobOptions) { o.Requires, o.Lease = []string{"gpu"}, time.Hour })
	desk := f.worker("desk", 2, nil)
	said := new(log)
	onNotice(coordinator, func(text string) {
		said.add(text)
		if strings.HasPrefix(text, "no workers ") {
			f.worker("lab", 2, func(o *fleet.WorkerOptions) { o.Labels = []string{"gpu"} })
		}
	})
	f.doing.Go(func() { f.waitFor("cannot join job", desk.said.String) })
	r, err := f.runWith(c, coordinator, source(3, 2, "true", ""))
	if err != nil || r.Metrics.Successful != 3 {
		t.Errorf("got %+v, %v", r, err)
	}
	want := "no workers available (desk: it lacks gpu), attempts waiting: 2; start one with: prodigy worker --join " + f.broker.ClientURL() + " --label gpu\n"
	if !strings.HasSuffix(said.String(), want) {
		t.Errorf("got %q, want %q at its end", said, want)
	}
}

// A worker that is silent is named long before its lease is over, once each time.
func TestASilentWorkerIsNamed(t *testing.T) {
	var said []string
	start := time.Now()
	c := quietCoordinator(fleet.JobOptions{Lease: time.Minute})
	onNotice(c, func(text string) { said = append(said, text) })
	dispatcher := fleet.NewDispatcher(time.Minute, 5*time.Second, start)
	c.state.ledger.Dispatcher = dispatcher
	words := func(node string, at time.Duration) {
		c.state.workers.hear(fleet.WorkerMessage{WorkerStatus: fleet.WorkerStatus{Instance: node + "-1", Node: node}}, start.Add(at))
		dispatcher.Update(fleet.WorkerStatus{Instance: node + "-1", Node: node, Round: 1, Credit: 2, Slots: 2}, start.Add(at))
	}
	words("alpha", 0)
	words("beta", 0)
	for token := range int64(4) {
		dispatcher.Add(token)
	}
	dispatcher.Assign(start)
	for second := range 100 {
		at := time.Duration(second) * time.Second
		if second%5 == 0 {
			words("alpha", at)
		}
		if second == 30 || second > 75 {
			words("beta", at)
		}
		c.lookForSilence(start.Add(at))
		if second == 75 {
			words("gone", at)
			dispatcher.Update(fleet.WorkerStatus{Instance: "gone-1", Node: "gone", Round: 1, Full: true, Gone: true}, start.Add(at))
		}
	}
	want := []string{
		"worker beta has been silent for 16s; reassigning its attempts in 44s: 2",
		"worker beta has been silent for 16s; reassigning its attempts in 44s: 2",
	}
	if !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}

// A worker that is drained finishes what it runs, and another takes the rest.
func TestADrainedWorkerFinishesWhatItHas(t *testing.T) {
	f := newField(t)
	a := f.worker("a", 3, nil)
	f.whenRunning(func() {
		f.worker("b", 3, nil)
		a.drain()
	})
	r := f.run(source(12, 6, twice, ""), nil)
	f.once(r, 12)
	select {
	case <-a.done:
	case <-time.After(time.Minute):
		t.Error("the drained worker goes on")
	}
	for _, rec := range recordsOf(t, r.Job) {
		if e, ok := rec.Event.(events.AgentLost); ok {
			t.Errorf("got %+v, want nothing lost", e)
		}
	}
}

// A worker that is ended gives back what it runs: the same number starts elsewhere at once.
func TestAnEndedWorkerGivesBackWhatItHas(t *testing.T) {
	f := newField(t)
	a := f.worker("a", 3, nil)
	f.whenRunning(func() {
		f.worker("b", 3, nil)
		a.kill()
	})
	r := f.run(source(8, 4, "echo run >> runs-${item}; sleep 0.5", ""), nil)
	if r.Metrics.Successful != 8 {
		t.Fatalf("got %s (%s) with %+v, want 8 successful", r.State, r.Reason, r.Metrics)
	}
	back := 0
	for _, rec := range recordsOf(t, r.Job) {
		switch e := rec.Event.(type) {
		case events.AgentInterrupted:
			back++
		case events.AgentStarted:
			if e.Attempt != 1 {
				t.Errorf("%s starts as attempt %d, want 1", e.ItemID, e.Attempt)
			}
		}
	}
	if back == 0 {
		t.Error("nothing was given back")
	}
}

// A worker that lacks something takes no part, and says why.
func TestAWorkerThatIsUnfitTakesNoPart(t *testing.T) {
	f := newField(t)
	old := f.worker("old", 3, func(o *fleet.WorkerOptions) { o.Version = "older" })
	f.worker("a", 2, nil)
	f.once(f.run(source(4, 4, twice, ""), nil), 4)
	if !strings.Contains(old.said.String(), "it is prodigy older, and the job is run by prodigy test") {
		t.Errorf("got %q, want both versions", old.said)
	}
}

// A broker that loses its disk while it is given anew what it had is given that once more.
func TestABrokerThatLosesItsDiskTwice(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if err := c.js.DeleteConsumer(t.Context(), outStream, c.key); err != nil {
		t.Fatal(err)
	}
	renew := withholdLock(t, c) // the lock is renewed once all is there
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.reconcile(c.life)
	}()
	if !eventually(func() bool { _, err := c.js.Consumer(t.Context(), outStream, c.key); return err == nil }) {
		t.Fatal("the consumer is not made again")
	}
	for _, stream := range []string{outStream, "KV_" + locksBucket, filesStream} {
		if err := c.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it tries for ever")
	}
	if s, err := c.js.Stream(t.Context(), outStream); err != nil || s.CachedInfo().State.Consumers == 0 {
		t.Error("workers do not see the job")
	}
}

// What the broker has lost is restored beside the job: attempts are given out meanwhile.
func TestAttemptsDoNotWaitForWhatTheBrokerHasLost(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	c.Submit(t.Context(), attemptAt(f, 1, "true"), func(*agent.Attempt, agent.Outcome, error) {})
	c.slow.reconciling.Lock() // as reconcile does
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Submit(t.Context(), attemptAt(f, 2, "true"), func(*agent.Attempt, agent.Outcome, error) {})
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it waits")
	}
	c.slow.reconciling.Unlock()
}

// A worker that is frozen before it has told its watcher to wait longer knows that what it ran may have been killed.
func TestAFreezeBeforeTheWatcherIsTold(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		guarded time.Time // what the watcher was told before
		want    bool
	}{"it was frozen for longer than that": {now.Add(-500 * time.Millisecond), true}, "it was not": {now.Add(time.Minute), false}, "the watcher did not wait": {time.Time{}, false}} {
		w := newWorker(fleet.WorkerOptions{})
		w.state.proof, w.state.guarded = now, c.guarded
		h := &heldAttempt{job: &workerJob{key: "j"}}
		w.state.held["j.1"] = h
		w.beat(now.Add(-time.Second)) // when it began to
		if h.fenced != c.want || w.state.rest.IsZero() == c.want {
			t.Errorf("%s: it knows %v, and rests until %s", name, h.fenced, w.state.rest)
		}
		if w.state.guarded.IsZero() {
			t.Errorf("%s: the watcher does not wait for it", name)
		}
	}
}

// What a worker has ended for lack of contact is no sign against its item, unless the worker was frozen or had no processor to spare: the item may be why.
func TestOnlyAWorkerThatWasWellIsCutOff(t *testing.T) {
	began := time.Now()
	const lease = 20 * time.Second
	for name, c := range map[string]struct {
		stall, length time.Duration // when the loop stood still, and how long
		want          bool
	}{
		"it was well":                      {0, 0, true},
		"it stood still for a moment":      {32 * time.Second, 2 * time.Second, true},
		"it stood still":                   {32 * time.Second, 6 * time.Second, false},
		"it stood still a lease before":    {time.Second, 6 * time.Second, true},
		"it stands still until it is told": {30 * time.Second, 18 * time.Second, false},
	} {
		w := newWorker(fleet.WorkerOptions{})
		w.state.proof = began.Add(30 * time.Second)
		w.state.jobs["j"] = &workerJob{key: "j", standing: standing{Job: fleet.Job{Lease: lease}}}
		h := &heldAttempt{job: w.state.jobs["j"]}
		w.state.held["j.1"] = h
		for at := time.Duration(0); !h.fenced; at += 250 * time.Millisecond {
			if at == c.stall {
				at += c.length
			}
			w.state.noteTurn(began.Add(at))
			w.fence(&w.state, began.Add(at))
		}
		if h.cut != c.want {
			t.Errorf("%s: cut off is %v, want %v", name, h.cut, c.want)
		}
	}
}

// What arrives after a cut may have been given up long ago: a worker that has had no contact for most of a lease takes nothing, and says so.
func TestAWorkerWithoutContactTakesNothing(t *testing.T) {
	f := newField(t)
	h, err := connect(t.Context(), f.address(), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	for name, c := range map[string]struct {
		ago     time.Duration
		guarded time.Duration // that the watcher waits from now on; 0: it does not
		want    int
	}{"in contact": {time.Second, 0, 1}, "without contact": {time.Minute, 0, 0}, "without contact for most of the time that its watcher waits": {40 * time.Second, 0, 0}, "its watcher kills": {time.Second, -time.Millisecond, 0}} {
		w := newWorker(fleet.WorkerOptions{})
		w.brokerConn, w.state.proof = h, time.Now().Add(-c.ago)
		w.life, w.state.rounds = t.Context(), 1
		if c.guarded != 0 {
			w.state.guarded = time.Now().Add(c.guarded)
		}
		j := &workerJob{key: "j", standing: standing{Job: fleet.Job{Lease: time.Minute, Owner: "o"}}, round: 1, credit: 1, arrived: map[int64]bool{}}
		w.state.jobs["j"] = j
		w.delivered(&nats.Msg{Data: encoded(fleet.CoordinatorMessage{
			Key: "j", Owner: "o",
			Round: 1, Tasks: []fleet.Task{{Assignment: agent.Assignment{Token: 7}}},
		})})
		w.mu.Lock()
		if len(w.state.held) != c.want || (j.round > 1) != (c.want == 0) {
			t.Errorf("%s: it holds %d in round %d, want %d", name, len(w.state.held), j.round, c.want)
		}
		w.mu.Unlock()
	}
}

// What was given to a worker that finds that it had no contact is lost only if a command of it has begun. Else it is given back: its item is not to blame.
func TestOnlyWhatHasBegunIsLostWithoutContact(t *testing.T) {
	f := newField(t)
	h, err := connect(t.Context(), f.address(), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	for want, begins := range map[fleet.ReportKind]bool{fleet.Returned: false, fleet.Dropped: true} {
		w := newWorker(fleet.WorkerOptions{})
		w.brokerConn = h
		w.life = t.Context()
		j := &workerJob{key: "j", standing: standing{Job: fleet.Job{ID: "job", Lease: time.Minute}}, executors: map[string]*jobExecutor{}}
		j.life, j.cancel = context.WithCancelCause(t.Context())
		w.state.jobs["j"] = j
		a := attemptAt(f, 1, "true")
		lose := func() { // the contact
			w.mu.Lock()
			defer w.mu.Unlock()
			w.state.proof = time.Now().Add(-time.Hour)
		}
		x := &jobExecutor{spec: fleet.NewSpec(*a), Executor: agent.New(agent.Config{Environ: os.Environ(), TempDir: t.TempDir(), Run: func(ctx context.Context, c process.Command) (process.Exit, error) {
			if begins {
				defer lose()
			} else {
				lose()
			}
			return w.command(ctx, c)
		}}, &workerHost{worker: w, job: j})}
		j.executors["spec"] = x
		k := &heldAttempt{job: j, token: 1, task: fleet.NewTask(a, "spec", time.Now()), slot: 1, began: 1}
		w.state.held[k.name()] = k
		w.run(k)
		var r fleet.Report
		if n := len(k.reports); n == 0 || json.Unmarshal(k.reports[n-1].data, &r) != nil || r.Kind != want { // on a slow machine it was placed before
			t.Errorf("got %+v, want a report that it is %s", r, want)
		}
	}
}

// A worker that is to end does not wait for ever for somebody to take its reports: a broker may have lost its disk after the job has ended.
func TestAWorkerEndsThoughNobodyTakesItsReports(t *testing.T) {
	j := &workerJob{key: "j", standing: standing{Job: fleet.Job{Lease: time.Minute}}}
	for name, c := range map[string]struct {
		h    *heldAttempt
		want bool
	}{
		"it runs":              {&heldAttempt{}, false},
		"it has just ended":    {&heldAttempt{reporting: reporting{ended: true, reports: []report{{made: time.Now()}}}}, false},
		"nobody takes its end": {&heldAttempt{reporting: reporting{ended: true, reports: []report{{made: time.Now().Add(-2 * time.Minute)}}}}, true},
		"the broker has it":    {&heldAttempt{reporting: reporting{ended: true, left: true}}, true},
		"it prints and runs":   {&heldAttempt{reporting: reporting{reports: []report{{made: time.Now().Add(-2 * time.Minute)}}}}, false},
	} {
		c.h.job = j
		s := workerState{parting: parting{stopping: true}, held: map[string]*heldAttempt{"x": c.h}}
		if got := s.finished(time.Now()); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
