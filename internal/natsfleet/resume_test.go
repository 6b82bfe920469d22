package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/outputs"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// deafHost is a job that is interested in nothing that happens inside attempts.
type deafHost struct{ agent.Host }

func (deafHost) Emit(*agent.Attempt, events.Event)             {}
func (deafHost) Output(*agent.Attempt, outputs.Entry)          {}
func (deafHost) Progress(*agent.Attempt, events.AgentProgress) {}

// attemptAt returns an attempt at item i of a job, whose one step is a script.
func attemptAt(f *field, i int, script string) *agent.Attempt {
	id := fmt.Sprintf("item_%d", i)
	a := &agent.Attempt{
		ID: "job/" + id + "/1", JobID: "job", CorrelationID: "job/" + id, Phase: "map",
		Assignment: agent.Assignment{
			ItemID: id, ItemIndex: i, Item: fmt.Appendf(nil, "%d", i), Number: 1,
			Token: int64(i),
		},
		Dir: f.root, Steps: []workflow.Step{{Shell: &workflow.Text{Value: script}}},
	}
	a.SetSpec()
	return a
}

// ends collects how attempts end.
type ends struct {
	mu   sync.Mutex
	of   map[int64]error
	some chan struct{}
}

func (e *ends) done(token int64) func(*agent.Attempt, agent.Outcome, error) {
	return func(_ *agent.Attempt, o agent.Outcome, err error) {
		if err == nil && o.Failure != nil {
			err = fmt.Errorf("it failed: %s", o.Failure.Message)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.of[token] = err
		e.some <- struct{}{}
	}
}

// What was on its way to a worker when the coordinator died is given out again as soon as the workers have said what they have, not after a lease.
func TestWhatWaitsWhenTheCoordinatorDiesStartsAtOnce(t *testing.T) {
	f := newField(t)
	f.lease = 3 * time.Minute
	f.worker("a", 2, nil)
	const script = `echo run >> runs-${item}; sleep 0.3`
	_, first := f.config(nil)
	died, dead := first.(*coordinator), &ends{of: map[int64]error{}, some: make(chan struct{}, 8)}
	died.Executor(agent.Config{Seed: 1}, deafHost{})
	var ids []string
	for i := range 8 {
		a := attemptAt(f, i+1, script)
		ids = append(ids, a.ID)
		died.Submit(t.Context(), a, dead.done(a.Token))
	}
	select {
	case <-dead.some:
	case <-time.After(time.Minute):
		t.Fatal("nothing ends")
	}
	died.nc.Close() // as if it had been killed: nothing is settled
	died.end()

	_, again := f.config(nil)
	c, e := again.(*coordinator), &ends{of: map[int64]error{}, some: make(chan struct{}, 8)}
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	if _, err := c.Holds(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		a := attemptAt(f, i+1, script)
		a.Adopted = true
		c.Submit(t.Context(), a, e.done(a.Token))
	}
	late := time.After(f.lease / 3)
	for range 8 {
		select {
		case <-e.some:
		case <-late:
			t.Fatalf("after %s only these have ended: %v", f.lease/3, e.of)
		}
	}
	for token, err := range e.of {
		if err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	f.ranOnce(8)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A worker that goes on while the run is dead keeps what it has left with the broker, which may lose it.
func TestWhatAWorkerHasReportedOutlivesTheDiskOfTheBroker(t *testing.T) {
	f := newField(t)
	f.lease = 3 * time.Minute
	f.worker("a", 3, nil)
	const items, script = 3, `echo run >> runs-${item}; sleep 0.3`
	_, first := f.config(nil)
	died := first.(*coordinator)
	died.Executor(agent.Config{Seed: 1}, deafHost{})
	var ids []string
	for i := range items {
		one := attemptAt(f, i+1, script)
		ids = append(ids, one.ID)
		died.Submit(t.Context(), one, func(*agent.Attempt, agent.Outcome, error) {})
	}
	if !f.untilRunning(items) {
		t.Fatal("nothing runs")
	}
	died.nc.Close()
	died.end()
	out, err := connected(t, f).Stream(t.Context(), outStream)
	if err != nil {
		t.Fatal(err)
	}
	for i := range items {
		var last *jetstream.RawStreamMsg
		if !eventually(func() bool {
			last, err = out.GetLastMsgForSubject(t.Context(), fmt.Sprintf("prodigy.out.*.%s.%d", died.key, i+1))
			return err == nil && strings.Contains(string(last.Data), `"kind":"ended"`)
		}) {
			t.Fatalf("the broker does not have the end of attempt %d: %v, %v", i+1, last, err)
		}
	}
	f.restart(true)
	_, again := f.config(nil)
	c, e := again.(*coordinator), &ends{of: map[int64]error{}, some: make(chan struct{}, items)}
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	if _, err := c.Holds(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		one := attemptAt(f, i+1, script)
		one.Adopted = true
		c.Submit(t.Context(), one, e.done(one.Token))
	}
	for range items {
		select {
		case <-e.some:
		case <-time.After(f.lease / 2):
			t.Fatalf("only these have ended: %v", e.of)
		}
	}
	for token, err := range e.of {
		if err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	f.ranOnce(items)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A worker that ends while the broker has the ends of its attempts, or has lost them, may have had them until the log says how they ended: a run that comes
// after one that has only heard it go must not give them to others.
func TestAWorkerThatEndsIsRememberedUntilTheLogHasWhatItHad(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	says := func(instance string, holds ...int64) {
		s := fleet.WorkerStatus{Instance: instance, Node: instance, Full: true, Holds: holds, Left: holds}
		if err := c.members.note("+", []string{instance}); err != nil {
			t.Fatal(err)
		}
		f.hear(c, s)
		s.Gone = true
		f.hear(c, s)
	}
	c.turn(func(s *jobState) { s.ledger.Adopt(1, "") })
	says("had", 1)
	says("ended", 2) // which has been reported, and may not be on disk yet
	says("idle")
	var members string
	f.waitFor("-idle\n", func() string {
		data, err := os.ReadFile(c.members.path)
		if err != nil {
			t.Fatal(err)
		}
		members = string(data)
		return members
	})
	for _, instance := range []string{"had", "ended"} {
		if strings.Contains(members, "-"+instance+"\n") {
			t.Errorf("the next run is not to know of worker %s: %q", instance, members)
		}
	}
}

// A worker keeps the reports that it has left with the broker up to a bound, and forgets those of the attempts that have been kept longest.
func TestHowMuchAWorkerKeeps(t *testing.T) {
	now := time.Now()
	w := &newWorker(fleet.WorkerOptions{}).state
	j := &workerJob{key: "j"}
	for token := range int64(5) {
		h := &heldAttempt{job: j, token: token, reporting: reporting{ended: true, index: 2}}
		w.held[h.name()] = h
		for index := range 2 {
			r := report{data: make([]byte, maxKept/8), index: index + 1, made: now.Add(time.Duration(token) * time.Second)}
			h.reports = append(h.reports, r)
			j.unread += len(r.data)
		}
		w.keep(h, 2)
	}
	check := func(what string, kept, unread int, of ...int) {
		t.Helper()
		if w.kept != kept || j.unread != unread {
			t.Errorf("%s: %d bytes are kept and %d not taken, want %d and %d", what, w.kept, j.unread, kept, unread)
		}
		for token, want := range of {
			if got := w.held[(&heldAttempt{job: j, token: int64(token)}).name()].kept; got != want {
				t.Errorf("%s: %d reports of token %d are kept, want %d", what, got, token, want)
			}
		}
	}
	check("all are left", maxKept, 0, 0, 2, 2, 2, 2)
	second, third := w.held["j.1"], w.held["j.2"]
	w.shed(second, second.upTo(1))
	check("one was taken", maxKept*7/8, 0, 0, 1, 2, 2, 2)
	third.left = true
	w.resendKept(third)
	check("two are said again", maxKept*5/8, maxKept/4, 0, 1, 0, 2, 2)
	if len(third.reports) != 2 || third.reports[0].index != 1 || third.left {
		t.Errorf("%+v are to be said, want both in order", third.reports)
	}
	w.shed(third, third.upTo(2))
	check("they were taken", maxKept*5/8, 0, 0, 1, 0, 2, 2)
	w.drop(second)
	if w.kept != maxKept/2 || w.held["j.1"] != nil {
		t.Errorf("%d bytes are kept without it, want %d", w.kept, maxKept/2)
	}
}

var _ fleet.Coordinator = (*coordinator)(nil)

// After a resume an attempt that has begun belongs to the worker that ran it, also before that has spoken: no other one can say how it ended.
func TestAnAttemptIsClaimedByNobodyElse(t *testing.T) {
	f := securedField(t, "a", "b")
	f.lease = time.Minute
	worker := func(file string) (*brokerConn, string) {
		h, err := connect(t.Context(), f.as(file), "test", responsive, func() {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.nc.Close)
		return h, h.instance()
	}
	run := func() *coordinator {
		_, one := f.config(func(o *fleet.JobOptions) { o.Address = f.as("coordinator.yml") })
		c := one.(*coordinator)
		c.Executor(agent.Config{Seed: 1}, deafHost{})
		return c
	}
	first := run()
	a, ownA := worker("worker-a.yml")
	b, ownB := worker("worker-b.yml")
	given := make(chan bool, 10)
	if _, err := a.nc.Subscribe(downSubject(ownA), func(m *nats.Msg) {
		var d fleet.CoordinatorMessage
		if err := json.Unmarshal(m.Data, &d); err == nil && len(d.Tasks) > 0 {
			given <- true
		}
	}); err != nil {
		t.Fatal(err)
	}
	say := func(h *brokerConn, own string, c *coordinator, u fleet.WorkerStatus, reports ...fleet.Report) {
		name := map[string]string{ownA: "a", ownB: "b"}[own]
		u.Instance, u.Node = own, name
		m := fleet.WorkerMessage{V: fleet.Protocol, Owner: c.owner, NameSig: f.as("worker-" + name + ".yml").NameSig, WorkerStatus: u, Reports: reports}
		if err := h.nc.Publish(upSubject(own, c.key), encoded(m)); err != nil {
			t.Error(err)
		}
	}
	one := attemptAt(f, 1, "true")
	first.Submit(t.Context(), one, func(*agent.Attempt, agent.Outcome, error) {})
	say(a, ownA, first, fleet.WorkerStatus{Round: 1, Credit: 1, Full: true})
	select {
	case <-given:
	case <-time.After(time.Minute):
		t.Fatal("the attempt is given to nobody")
	}
	first.nc.Close() // as if it had been killed
	first.end()

	c := run()
	if _, err := c.Holds(context.Background(), []string{one.ID}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	again := attemptAt(f, 1, "true")
	again.Adopted, again.RanOn = true, "a"
	c.Submit(t.Context(), again, func(_ *agent.Attempt, o agent.Outcome, err error) { ended <- fmt.Sprint(o.Output, err) })
	report := func(own, output string) fleet.Report {
		return fleet.Report{
			V: fleet.Protocol, Token: 1, Index: 1, Kind: fleet.Ended,
			Holder:  fleet.Holder{Instance: own, Node: "one", Slot: 1},
			Outcome: &agent.Outcome{ItemOutput: events.ItemOutput{Output: output}},
		}
	}
	say(b, ownB, c, fleet.WorkerStatus{Full: true, Holds: []int64{1}}, report(ownB, "of b"))
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	say(b, ownB, c, fleet.WorkerStatus{Full: true, Holds: []int64{1}}, report(ownB, "of b"))
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	say(a, ownA, c, fleet.WorkerStatus{Full: true, Holds: []int64{1}}, report(ownA, "of a"))
	select {
	case how := <-ended:
		if how != "of a<nil>" {
			t.Errorf("it ended with %q", how)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// A resume that is stopped before it has taken over what workers still run leaves that to the next one.
func TestAResumeThatIsStoppedAtOnceGivesNothingBack(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute
	c := f.coordinator()
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	a := attemptAt(f, 1, "true")
	a.Adopted = true
	if _, err := c.Holds(t.Context(), []string{a.ID}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("enough"))
	ended := make(chan error, 1)
	c.Submit(ctx, a, func(_ *agent.Attempt, _ agent.Outcome, err error) { ended <- err })
	if err := <-ended; !errors.Is(err, agent.ErrDetached) {
		t.Errorf("it ends with %v, want %v", err, agent.ErrDetached)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.members.path); err != nil {
		t.Errorf("the next run does not learn who had what: %v", err)
	}
}

// When attempts that workers still run cannot be taken over, the run stops with the reason.
func TestAnAttemptThatCannotBeTakenOverStopsTheRun(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	var why error
	onAbort(c, func(cause error) { why = cause })
	c.slow.opening.Do(func() { c.slow.unopened = errors.New("the file is gone") })
	a := attemptAt(f, 1, "true")
	a.Adopted = true
	var end error
	c.Submit(t.Context(), a, func(_ *agent.Attempt, _ agent.Outcome, err error) { end = err })
	if !errors.Is(end, agent.ErrDetached) || !errors.Is(why, c.slow.unopened) {
		t.Errorf("it ends with %v, and the run with %v", end, why)
	}
}

// assign has a worker take an attempt that waits, in a round.
func assign(t *testing.T, l *fleet.Ledger, instance string, round, token int64) {
	t.Helper()
	now := time.Now()
	l.Update(fleet.WorkerStatus{Instance: instance, Node: instance, Round: round, Credit: 1, Slots: 1}, now)
	if list := l.Assign(now); len(list) != 1 || list[0].Token != token || list[0].Instance != instance {
		t.Fatalf("assigned %v, want %d to %s", list, token, instance)
	}
}

// An attempt that workers take and forget without a word is not sent to them for ever.
func TestAnAttemptThatNeverArrivesStopsTheRun(t *testing.T) {
	stopped := make(chan error, 1)
	f, c := new(field), quietCoordinator(fleet.JobOptions{Lease: time.Minute})
	onAbort(c, func(cause error) { stopped <- cause })
	c.state.flights[1] = newFlight(t.Context(), &agent.Attempt{Assignment: agent.Assignment{ItemID: "item_7"}})
	c.turn(func(s *jobState) { s.ledger.Add(1) })
	for round := range int64(fleet.MostTimes + 1) {
		f.hear(c, fleet.WorkerStatus{Instance: "a", Node: "a", Round: round + 1, Credit: 1, Slots: 1, Full: true})
		if len(stopped) > 0 && round < fleet.MostTimes {
			t.Fatalf("it is stopped after %d times: %v", round+1, <-stopped)
		}
	}
	if got, want := (<-stopped).Error(), "item_7 was sent to workers 20 times, but never confirmed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A run that is stopped while its cable is cut leaves its attempts to the next one, and its stop arrives when the
// cable is mended. What workers report of what it ended then is heard by the next run, and no attempt begins again
// unrecorded.
func TestAStopThatArrivesLateEndsNothingUnheard(t *testing.T) {
	f := newField(t)
	for _, name := range []string{"a", "b", "c"} {
		f.worker(name, 2, nil)
	}
	const items = 6
	cable, err := testenv.NewProxy(f.broker.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	c, joined := f.config(func(o *fleet.JobOptions) { o.URL = "nats://" + cable.Addr() })
	stop, ask := context.WithCancelCause(t.Context())
	c.Stop = stop
	var placed atomic.Int64
	c.Executor = func(k agent.Config, h agent.Host) mapreduce.Executor {
		return joined.Executor(k, placedHost{h, &placed})
	}
	f.doing.Go(func() {
		defer cable.Set(false)
		defer ask(errors.New("enough"))
		if !eventually(func() bool { return placed.Load() == items }) {
			t.Error("not all are known to run")
			return
		}
		cable.Set(true)
		ask(errors.New("enough"))
		if !eventually(func() (left bool) {
			joined.(*coordinator).turn(func(s *jobState) { left = s.ledger.Detached })
			return left
		}) {
			t.Error("the attempts are not left to the next run")
		}
	})
	// The stop may not arrive at all: then what runs goes on, and the next run takes it over.
	r, err := f.runWith(c, joined, source(items, items, `echo run >>runs-${item}; [ -e go-on ] || sleep 20`, ""))
	if err != nil || r.State != jobs.Stopped {
		t.Fatalf("got %s (%s), %v, want a pause", r.State, r.Reason, err)
	}
	if err := os.WriteFile(filepath.Join(f.root, "go-on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	c, again := f.config(nil)
	ctx, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	r, err = mapreduce.Resume(ctx, c, r.Job)
	if err != nil || r.State != jobs.Completed || r.Metrics.Successful != items {
		t.Errorf("got %s (%s) with %+v, %v, want %d successful", r.State, r.Reason, r.Metrics, err, items)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	begun := map[string]int{}
	for _, rec := range recordsOf(t, r.Job) {
		if e, ok := rec.Event.(events.AgentStarted); ok {
			begun[strings.TrimPrefix(e.ItemID, "item_")]++
		}
	}
	for item, most := range begun {
		n, _ := strconv.Atoi(item)
		data, err := os.ReadFile(filepath.Join(f.root, fmt.Sprintf("runs-%d", n+1)))
		if runs := strings.Count(string(data), "run"); err != nil || runs > most {
			t.Errorf("item %s has run %d times, %v, and the log has %d starts", item, runs, err, most)
		}
	}
}

// placedHost counts the attempts that are known to have begun.
type placedHost struct {
	agent.Host
	n *atomic.Int64
}

func (h placedHost) Emit(a *agent.Attempt, e events.Event) {
	if _, ok := e.(events.AgentPlaced); ok {
		h.n.Add(1)
	}
	h.Host.Emit(a, e)
}
