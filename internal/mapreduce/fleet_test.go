package mapreduce

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// crew is a Fleet without machines: fate says what becomes of an attempt that a worker gets. What it runs outlives the runs of the job.
type crew struct {
	fate func(a agent.Attempt) fate

	mu      sync.Mutex
	adopted map[string]bool // IDs that a resume asked for
	ran     map[int64]int   // how often each token was given to a worker
	workers map[int]map[int64]context.CancelCauseFunc
	ended   map[int64]error // tokens that were ended alone
	lost    []agent.Attempt
	held    int
	hold    chan struct{}
	host    agent.Host

	slots func(set func(workers, slots int)) // says which slots there are; nil: there is no end of them
}

// fate is what becomes of an attempt after a second.
type fate struct {
	err    error // that nobody can go on after
	fails  bool  // else it succeeds
	worker int   // that it runs on
	kills  bool  // that worker, with all that it runs

	unbegun bool // nobody knows whether it had begun when its worker was killed
	cut     bool // its worker was not killed, but cut off

	takes time.Duration // 0: a second
}

func newCrew(f func(agent.Attempt) fate) *crew {
	return &crew{fate: f, ran: map[int64]int{}, workers: map[int]map[int64]context.CancelCauseFunc{}, ended: map[int64]error{}, hold: make(chan struct{})}
}

// executor is for one run of a job.
func (w *crew) executor(c agent.Config, h agent.Host) Executor {
	w.hold, w.held, w.host = make(chan struct{}), 0, h
	return crewExecutor{w, agent.New(c, h)}
}

type crewExecutor struct {
	*crew
	local Executor
}

func (w crewExecutor) Hold() {
	w.held++
	close(w.hold)
}

func (w crewExecutor) TakeBack() {}

func (w crewExecutor) Hurry([]int64) {}

func (w crewExecutor) End(token int64, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[token] = fmt.Errorf("%w: %w", cause, agent.ErrReturned)
	for _, holds := range w.workers {
		if end := holds[token]; end != nil {
			end(w.ended[token])
		}
	}
}

func (w crewExecutor) OnSlots(changed func(workers, slots int)) {
	if w.slots == nil {
		changed(100, 1000)
		return
	}
	go w.slots(changed)
}

func (w crewExecutor) Isolate(Clones) {}

func (w crewExecutor) Holds(_ context.Context, ids []string) ([]string, error) {
	w.crew.adopted = map[string]bool{}
	for _, id := range ids {
		w.crew.adopted[id] = true
	}
	return ids, nil
}

func (w crewExecutor) Submit(ctx context.Context, a *agent.Attempt, done func(*agent.Attempt, agent.Outcome, error)) {
	go func() {
		o, err := w.Execute(ctx, *a)
		done(a, o, err)
	}()
}

func (w crewExecutor) Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error) {
	if a.ItemID == "" {
		return w.local.Execute(ctx, a)
	}
	f := w.fate(a)
	life, die := context.WithCancelCause(context.Background())
	w.mu.Lock()
	if !w.adopted[a.ID] {
		w.ran[a.Token]++
	}
	delete(w.adopted, a.ID)
	if w.workers[f.worker] == nil {
		w.workers[f.worker] = map[int64]context.CancelCauseFunc{}
	}
	w.workers[f.worker][a.Token] = die
	if err := w.ended[a.Token]; err != nil {
		die(err)
	}
	w.mu.Unlock()
	if f.takes > 0 && life.Err() == nil {
		w.host.Emit(&a, events.AgentPlaced{
			AttemptID: events.AttemptID{ItemID: a.ItemID, ItemIndex: a.ItemIndex, AgentID: a.ID, Attempt: a.Number},
			Place:     events.Place{Node: fmt.Sprint("w", f.worker)},
		})
	}
	timer := time.NewTimer(cmp.Or(f.takes, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-life.Done():
	case <-ctx.Done():
		return agent.Outcome{}, agent.ErrDetached
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.workers[f.worker], a.Token)
	if err := context.Cause(life); err != nil {
		return agent.Outcome{}, err
	}
	if f.kills {
		w.lost = append(w.lost, a)
		lost := &agent.LostError{
			Place:  events.Place{Node: fmt.Sprint("w", f.worker)},
			Reason: "gone", Unbegun: f.unbegun, Cut: f.cut,
		}
		for _, end := range w.workers[f.worker] {
			end(lost)
		}
		host := w.host
		time.AfterFunc(1500*time.Millisecond, func() {
			host.Emit(&a, events.AgentEndedLate{
				AttemptID: events.AttemptID{ItemID: a.ItemID, ItemIndex: a.ItemIndex, AgentID: a.ID, Attempt: a.Number},
				Token:     a.Token, Node: lost.Node, Outcome: events.LateSucceeded,
			})
		})
		return agent.Outcome{}, lost
	}
	o := agent.Outcome{Place: events.Place{Node: fmt.Sprint("w", f.worker)}}
	if a.Base != "" && !f.fails {
		o.Commit, o.Files = fmt.Sprintf("%s@%d", a.ItemID, a.Number), 1
	}
	if f.fails {
		o.Failure = &agent.Failure{Step: "shell_0", Failure: retry.Failure{Type: retry.TypeCommandFailed, Message: "no luck", ExitCode: 3}}
	}
	return o, f.err
}

func (w *crew) config(t *testing.T) Config {
	c := config(t, fake(func(call) answer { return answer{} }))
	c.Executor, c.OnFleet = w.executor, true
	return c
}

// once fails the test if a token was given to a worker twice, or an item was settled otherwise than once.
func (w *crew) once(t *testing.T, items int, all []events.Record) {
	t.Helper()
	for token, n := range w.ran {
		if n != 1 {
			t.Errorf("token %d was run %d times", token, n)
		}
	}
	settled := map[string]int{}
	for _, r := range all {
		switch e := r.Event.(type) {
		case events.AgentCompleted:
			settled[e.ItemID]++
		case events.AgentFailed:
			if !e.Action.RunsAgain() {
				settled[e.ItemID]++
			}
		}
	}
	if len(settled) != items {
		t.Errorf("%d items were settled, want %d", len(settled), items)
	}
	for id, n := range settled {
		if n != 1 {
			t.Errorf("%s was settled %d times", id, n)
		}
	}
}

// erratic is a fate by a seed: some workers are lost, some attempts are given back.
func erratic(seed uint64) func(agent.Attempt) fate {
	return func(a agent.Attempt) fate {
		rnd := rand.New(rand.NewPCG(seed, uint64(a.Token)))
		f := fate{worker: rnd.IntN(3), kills: rnd.IntN(20) == 0}
		if rnd.IntN(6) == 0 {
			f.err = fmt.Errorf("its disk is full: %w", agent.ErrReturned)
		}
		return f
	}
}

func TestALossIsNoFailure(t *testing.T) {
	for seed := range uint64(15) {
		synctest.Test(t, func(t *testing.T) {
			w := newCrew(erratic(seed))
			r := run(t, w.config(t), workflowOf(25, 6, "error_policy: {on_item_failure: stop}\n"))
			if r.State != jobs.Completed || r.Metrics.Successful != 25 {
				t.Errorf("seed %d: got %s (%s) with %+v, want 25 successful", seed, r.State, r.Reason, r.Metrics)
			}
			all := recordsOf(t, r.Job)
			w.once(t, 25, all)
			next := map[string]int{}
			for _, rec := range all {
				switch e := rec.Event.(type) {
				case events.AgentStarted:
					if want := max(1, next[e.ItemID]); e.Attempt != want {
						t.Errorf("seed %d: %s starts as attempt %d, want %d", seed, e.ItemID, e.Attempt, want)
					}
				case events.AgentLost: // its number is used up
					next[e.ItemID] = e.Attempt + 1
				case events.AgentInterrupted:
					next[e.ItemID] = e.Attempt
				}
			}
		})
	}
}

// An item that kills its worker takes others with it each time. Only it is set aside.
func TestOnlyTheItemThatKillsWorkersIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(func(a agent.Attempt) fate { return fate{worker: a.ItemIndex % 2, kills: a.ItemID == "item_3"} })
		r := run(t, w.config(t), workflowOf(12, 12, ""))
		all := recordsOf(t, r.Job)
		w.once(t, 12, all)
		failed, _ := told[events.AgentFailed](all)
		if r.Metrics.Failed != 1 || len(failed) != 1 || failed[0].ItemID != "item_3" || failed[0].ErrorType != retry.TypeKilledRunner {
			t.Errorf("got %+v and %+v, want item_3 alone, for killing its workers", r.Metrics, failed)
		}
		lost, _ := told[events.AgentLost](all)
		if n := count(lost, func(e events.AgentLost) bool { return e.ItemID == "item_3" }); n != lostTogether+lostAlone {
			t.Errorf("item_3 was lost %d times, want %d", n, lostTogether+lostAlone)
		}
	})
}

// An item that was only on its way to workers that were lost is not to blame, however often that happens.
func TestALossBeforeTheBeginningIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(func(a agent.Attempt) fate {
			return fate{worker: a.ItemIndex, kills: a.ItemID == "item_3" && a.Number <= 9, unbegun: true}
		})
		r := run(t, w.config(t), workflowOf(5, 3, ""))
		all := recordsOf(t, r.Job)
		w.once(t, 5, all)
		lost, _ := told[events.AgentLost](all)
		if r.Metrics.Successful != 5 || len(lost) != 9 || !lost[0].Unbegun {
			t.Errorf("got %+v after %+v, want all successful after 9 losses", r.Metrics, lost)
		}
		for _, a := range w.lost {
			if a.Lost != (a.Number > 1) {
				t.Errorf("attempt %d: Lost is %v", a.Number, a.Lost)
			}
		}
	})
}

// Outages are not counted against the items whose workers they cut off, but one that is cut off again and again ends.
func TestALossByAnOutageIsHardlyCounted(t *testing.T) {
	for times, want := range map[int]int{lostCut - 1: 5, lostCut + 10: 4} {
		synctest.Test(t, func(t *testing.T) {
			w := newCrew(func(a agent.Attempt) fate {
				return fate{worker: a.ItemIndex, kills: a.ItemID == "item_3" && a.Number <= times, cut: true}
			})
			r := run(t, w.config(t), workflowOf(5, 3, ""))
			all := recordsOf(t, r.Job)
			w.once(t, 5, all)
			lost, _ := told[events.AgentLost](all)
			failed, _ := told[events.AgentFailed](all)
			if r.Metrics.Successful != want || len(failed) != 5-want || len(lost) != min(times, lostCut) || !lost[0].Cut {
				t.Errorf("%d outages: got %+v after %d losses, %+v, want %d successful", times, r.Metrics, len(lost), failed, want)
			}
		})
	}
}

// The late end of an attempt is in the log, and the state of the job is what it would be without it, wherever that is.
func TestALateEndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(erratic(3))
		c := w.config(t)
		r := run(t, c, workflowOf(25, 6, ""))
		all := recordsOf(t, r.Job)
		late, _ := told[events.AgentEndedLate](all)
		if len(late) == 0 {
			t.Fatal("nothing has ended late")
		}
		with, without := job.NewFold(errorpolicy.Policy{}), job.NewFold(errorpolicy.Policy{})
		for _, rec := range all {
			before, last := with.Seq, with.Last
			with.Apply(rec)
			if _, ok := rec.Event.(events.AgentEndedLate); !ok {
				without.Apply(rec)
				continue
			}
			if with.Seq != rec.Seq || !with.Last.Equal(rec.Time) {
				t.Errorf("record %d is not the last one", rec.Seq)
			}
			with.Seq, with.Last = before, last
			if want, got := asText(t, without), asText(t, with); got != want {
				t.Errorf("record %d changes the state: got %s, want %s", rec.Seq, got, want)
			}
		}
	})
}

func asText(t *testing.T, s *job.Fold) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What workers run goes on when the run dies, wherever that is.
func TestALogCutWhileWorkersRunResumesToTheSameEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(erratic(3))
		c := w.config(t)
		whole := run(t, c, workflowOf(8, 4, ""))
		lines := strings.SplitAfter(strings.TrimSuffix(readLog(t, whole.Job), "\n"), "\n")
		for cut := 2; cut < len(lines); cut++ {
			place := copyJob(t, c, whole.Job, strings.Join(lines[:cut], ""))
			w := newCrew(erratic(uint64(cut)))
			c := withHome(w.config(t), place)
			r, err := Resume(t.Context(), c, place.job)
			if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 8 {
				t.Fatalf("cut after %d: got %s (%s) with %+v, %v, want 8 successful", cut, r.State, r.Reason, r.Metrics, err)
			}
			w.once(t, 8, recordsOf(t, place.job))
		}
	})
}

// Attempts on workers that do not answer when the job stops stay in flight: another start could be a second execution at one time.
func TestWhatMayStillRunElsewhereIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ranOn := map[int]string{} // by the index of the item
		w := newCrew(func(a agent.Attempt) fate {
			mu.Lock()
			defer mu.Unlock()
			if a.Adopted {
				ranOn[a.ItemIndex] = a.RanOn
			}
			if a.ItemIndex < 2 { // it is heard of
				return fate{worker: a.ItemIndex, takes: time.Second}
			}
			return fate{}
		})
		c := w.config(t)
		ctx, kill := context.WithCancelCause(t.Context())
		stop, ask := context.WithCancelCause(t.Context())
		c.Stop = stop
		time.AfterFunc(500*time.Millisecond, func() { ask(errors.New("SIGTERM")); kill(process.ErrKill) })
		source := workflowOf(5, 3, "")
		r, err := Run(ctx, c, parse(t, source), []byte(source))
		if err != nil || r.State != jobs.Stopped || w.held != 1 {
			t.Fatalf("got %s (%s), %v and %d holds, want a pause and one hold", r.State, r.Reason, err, w.held)
		}
		if back, _ := told[events.AgentInterrupted](recordsOf(t, r.Job)); len(back) != 0 {
			t.Errorf("got %+v, want nothing given back", back)
		}

		alone := c
		alone.Executor, alone.OnFleet, alone.Stop = nil, false, nil
		_, err = Resume(t.Context(), alone, r.Job)
		if where, ok := errors.AsType[*OnFleetError](err); !ok || where.Attempts != 3 {
			t.Errorf("got %v, want that 3 attempts are on the fleet", err)
		}

		c.Stop = nil
		again, err := Resume(t.Context(), c, r.Job)
		if err != nil || again.Metrics.Successful != 5 {
			t.Fatalf("got %+v, %v, want 5 successful", again, err)
		}
		w.once(t, 5, recordsOf(t, r.Job))
		resumed, _ := told[events.JobResumed](recordsOf(t, r.Job))
		if len(resumed) != 1 || len(resumed[0].Attached) != 3 {
			t.Errorf("got %+v, want 3 attached", resumed)
		}
		if want := map[int]string{0: "w0", 1: "w1", 2: ""}; !maps.Equal(ranOn, want) {
			t.Errorf("they ran on %v, want %v", ranOn, want)
		}
	})
}

// A job that ran on a fleet does not go on here unasked: neither the rest of its items nor dead letters. What has no items may.
func TestAJobOfAFleetGoesOnHereOnlyWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(func(a agent.Attempt) fate {
			return fate{fails: a.ItemID == "item_0"}
		})
		c := w.config(t)
		c.Broker = "tls://broker:4222"
		stop, ask := context.WithCancelCause(t.Context())
		c.Stop = stop
		time.AfterFunc(1500*time.Millisecond, func() { ask(errors.New("SIGTERM")) })
		source := workflowOf(5, 2, "")
		r, err := Run(t.Context(), c, parse(t, source), []byte(source))
		if err != nil || r.State != jobs.Stopped {
			t.Fatalf("got %s (%s), %v, want a pause", r.State, r.Reason, err)
		}
		here := c
		here.Executor, here.OnFleet, here.Stop, here.Broker = nil, false, nil, ""
		all := func(q *dlq.Queue) (ids []string, err error) {
			for e, err := range q.Each() {
				if err != nil {
					return nil, err
				}
				ids = append(ids, e.ItemID)
			}
			return ids, nil
		}
		refused := func(name string, err error) {
			t.Helper()
			if where, ok := errors.AsType[*OnFleetError](err); !ok || where.Broker != c.Broker || where.Attempts != 0 {
				t.Errorf("%s: got %v, want that the job ran on the fleet", name, err)
			}
			if broker, err := job.BrokerOf(r.Job); err != nil || broker != c.Broker {
				t.Errorf("%s: the job ran on %q, %v", name, broker, err)
			}
		}
		_, err = Resume(t.Context(), here, r.Job)
		refused("resume", err)

		c.Stop = nil
		if again, err := Resume(t.Context(), c, r.Job); err != nil || again.Metrics.Successful != 4 {
			t.Fatalf("got %+v, %v, want 4 successful", again, err)
		}
		_, err = RetryDead(t.Context(), here, r.Job, all, false)
		refused("a retry", err)
		none := func(*dlq.Queue) ([]string, error) { return nil, nil }
		if _, err := RetryDead(t.Context(), here, r.Job, none, true); err != nil {
			t.Errorf("reduce alone: %v", err)
		}
		_, err = RetryDead(t.Context(), here, r.Job, all, false)
		refused("a retry after reduce", err)

		here.Abandon = true
		if _, err := RetryDead(t.Context(), here, r.Job, all, false); err != nil {
			t.Errorf("a retry that is to be here: %v", err)
		}
		if broker, err := job.BrokerOf(r.Job); err != nil || broker != "" {
			t.Errorf("the job ran on %q, %v, want here", broker, err)
		}
	})
}

// With Abandon the attempts are given up, as those of a run that died.
func TestAttemptsOnAFleetCanBeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(func(agent.Attempt) fate { return fate{} })
		c := w.config(t)
		whole := run(t, c, workflowOf(4, 2, ""))
		place := copyJob(t, c, whole.Job, upTo(readLog(t, whole.Job), `"type":"AgentStarted","item_id":"item_1"`))
		c = withHome(c, place)
		c.Executor, c.OnFleet, c.Abandon = nil, false, true
		r, err := Resume(t.Context(), c, place.job)
		if err != nil || r.Metrics.Successful != 4 {
			t.Fatalf("got %+v, %v, want 4 successful", r, err)
		}
		started, _ := told[events.AgentStarted](recordsOf(t, place.job))
		if n := count(started, func(e events.AgentStarted) bool { return e.ItemID == "item_1" && e.Attempt == 2 && !e.Fleet }); n != 1 {
			t.Errorf("got %+v, want item_1 to start again here", started)
		}
	})
}

// Without a number in the workflow, a job has as many slots as the workers of the fleet. Whoever says a number gets that as the limit.
func TestAJobHasTheSlotsOfTheFleet(t *testing.T) {
	twice := func(set func(int, int)) {
		set(1, 2)
		time.Sleep(2500 * time.Millisecond)
		set(2, 5)
		time.Sleep(1750 * time.Millisecond)
		set(1, 1)
	}
	for name, c := range map[string]struct {
		keys   string // of the map
		more   string
		flag   int
		slots  func(set func(int, int))
		scale  []job.Request // one each 1,100 ms
		starts []int         // in each second
		told   []string
		said   []string // by notices
	}{
		"it grows and shrinks": {slots: twice, starts: []int{2, 2, 2 + 3, 2 + 3, 2, 1}, told: []string{
			"1 worker available: 2 slots", "2 workers available: 5 slots instead of 2", "1 worker available: 1 slot instead of 5",
		}},
		"no worker, then one": {
			slots: func(set func(int, int)) {
				time.Sleep(2500 * time.Millisecond)
				set(1, 4)
				time.Sleep(750 * time.Millisecond)
				set(0, 0)
			},
			told: []string{"1 worker available: 4 slots", "0 workers available: 0 slots instead of 4"}, starts: []int{1, 1, 4, 1, 1},
		},
		"many come at a time": {
			slots: func(set func(int, int)) {
				for n := range 8 {
					set(n+1, n+1)
					time.Sleep(20 * time.Millisecond)
				}
			}, starts: []int{8, 8}, told: []string{"8 workers available: 8 slots"},
		},
		"max_parallel":   {keys: "  max_parallel: 3\n", slots: twice, starts: []int{3, 3, 3, 3}, said: []string{"1 worker available: 2 slots"}},
		"--max-parallel": {flag: 4, slots: twice, starts: []int{4, 4, 4, 4}, said: []string{"1 worker available: 2 slots"}},
		"ramp": {
			keys: "  ramp: {steps: [1, 4], items: 2, success_rate: 0.5}\n", slots: func(set func(int, int)) { set(3, 8) },
			starts: []int{1, 1, 4, 4}, told: []string{"3 workers available: 4 slots"},
		},
		"concurrency": {
			keys: "  concurrency: {min: 3, max: 3, adapt: true}\n", slots: func(set func(int, int)) { set(1, 2) },
			starts: []int{2, 2, 2, 2}, told: []string{"1 worker available: 2 slots"},
		},
		"scaled below what there is": {
			slots: twice, scale: []job.Request{{Slots: 1}, {Slots: 4}}, starts: []int{2, 2, 1 + 1 + 2},
			told: []string{"1 worker available: 2 slots", "1 slot instead of 2, by alice", "4 slots instead of 1, by alice", "1 worker available: 2 slots instead of 4", "2 workers available: 4 slots instead of 2"},
		},
		"scaled with max_parallel": {
			keys: "  max_parallel: 2\n", slots: twice, scale: []job.Request{{Slots: 6}}, starts: []int{2, 2 + 4, 2 + 4}, told: []string{"6 slots instead of 2, by alice"}, said: []string{"1 worker available: 2 slots"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCrew(func(agent.Attempt) fate { return fate{} })
				w.slots = c.slots
				k := w.config(t)
				k.MaxParallel = c.flag
				var said []string
				k.Notice = func(text string) {
					if strings.Contains(text, "available: ") {
						said = append(said, text)
					}
				}
				source := strings.Replace(workflowOf(30, 1, c.more), "  max_parallel: 1\n", c.keys, 1)
				r := steered(t, k, source, func(ask func(job.Request) job.Answer) {
					for _, q := range c.scale {
						time.Sleep(1100 * time.Millisecond)
						q.Do = job.Scale
						if a := ask(q); !a.Done {
							t.Errorf("scale: %s", a.Text)
						}
					}
				})
				if r.State != jobs.Completed || r.Metrics.Successful != 30 {
					t.Fatalf("got %s (%s) with %+v", r.State, r.Reason, r.Metrics)
				}
				if !slices.Equal(said, c.said) {
					t.Errorf("got the notices %q, want %q", said, c.said)
				}
				all := recordsOf(t, r.Job)
				starts := make([]int, 60)
				_, began := told[events.AgentStarted](all)
				for _, at := range began {
					starts[at/time.Second]++
				}
				if got := starts[:len(c.starts)]; !slices.Equal(got, c.starts) {
					t.Errorf("got starts %v, want %v", got, c.starts)
				}
				var words []string
				scaled, _ := told[events.ScaleRequested](all)
				for _, e := range scaled {
					words = append(words, e.Words())
				}
				if got := words[:min(len(words), max(len(c.told), 1))]; !slices.Equal(got, c.told) {
					t.Errorf("got %q, want %q", got, c.told)
				}
			})
		})
	}
}

// A resume on a fleet takes its slots again, one without uses what there is by default.
func TestAResumedJobHasTheSlotsOfTheFleet(t *testing.T) {
	for name, c := range map[string]struct {
		resume func(*Config)
		keys   string
		want   int // attempts that the resume begins with
	}{
		"on the fleet":                {want: 7},
		"on the fleet, with a number": {resume: func(c *Config) { c.MaxParallel = 3 }, want: 3},
		"here": {resume: func(c *Config) {
			c.Executor, c.OnFleet, c.Abandon = nil, false, true
			c.Runner = fake(func(call) answer { return answer{takes: time.Second} })
		}, want: 10},
		"with another workflow":           {resume: func(c *Config) { c.Replacement = replacement("  max_parallel: 4\n") }, want: 4},
		"without the number of before":    {resume: func(c *Config) { c.Replacement = replacement("") }, keys: "  max_parallel: 2\n", want: 7},
		"with the number of before":       {keys: "  max_parallel: 2\n", want: 2},
		"begun with the default, written": {keys: "  max_parallel: 10\n", want: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCrew(func(agent.Attempt) fate { return fate{} })
				w.slots = func(set func(int, int)) { set(2, 7) }
				k := w.config(t)
				stop, ask := context.WithCancelCause(t.Context())
				k.Stop = stop
				time.AfterFunc(1500*time.Millisecond, func() { ask(errors.New("SIGTERM")) })
				source := elasticWorkflow(c.keys)
				r, err := Run(t.Context(), k, parse(t, source), []byte(source))
				if err != nil || r.State != jobs.Stopped {
					t.Fatalf("got %s, %v", r.State, err)
				}
				before := len(recordsOf(t, r.Job))
				again := w.config(t)
				again.Home = k.Home
				if c.resume != nil {
					c.resume(&again)
				}
				time.Sleep(time.Hour)
				if r, err = Resume(t.Context(), again, r.Job); err != nil || r.State != jobs.Completed {
					t.Fatalf("got %s (%s), %v", r.State, r.Reason, err)
				}
				rest := recordsOf(t, r.Job)[before:]
				_, began := told[events.AgentStarted](rest)
				n := 0
				for _, at := range began {
					if at < time.Second {
						n++
					}
				}
				if n != c.want {
					t.Errorf("the resume began with %d attempts, want %d", n, c.want)
				}
			})
		})
	}
}

// elasticWorkflow returns a workflow whose map has these keys in place of max_parallel.
func elasticWorkflow(keys string) string {
	return strings.Replace(workflowOf(30, 1, ""), "  max_parallel: 1\n", keys, 1)
}

func replacement(keys string) *Replacement {
	source := []byte(elasticWorkflow(keys))
	w, err := workflow.Parse("other.yml", source, workflow.ParseOptions{})
	if err != nil {
		panic(err)
	}
	return &Replacement{Workflow: w, Source: source, Path: "/other.yml"}
}

// talkingFleet is a fleet whose workers say what an attempt waits for by other ways than its end.
type talkingFleet struct {
	Fleet
	talk func(ctx context.Context, a *agent.Attempt, end func())
}

func (w talkingFleet) Submit(ctx context.Context, a *agent.Attempt, done func(*agent.Attempt, agent.Outcome, error)) {
	go func() {
		ctx, cancel := context.WithCancel(ctx)
		w.talk(ctx, a, func() {
			cancel()
			done(a, agent.Outcome{}, nil)
		})
	}()
}

func talkers(t *testing.T, talk func(ctx context.Context, h agent.Host, a *agent.Attempt, end func())) Config {
	w := newCrew(nil)
	c := w.config(t)
	c.Executor = func(k agent.Config, h agent.Host) Executor {
		return talkingFleet{w.executor(k, h).(Fleet), func(ctx context.Context, a *agent.Attempt, end func()) { talk(ctx, h, a, end) }}
	}
	return c
}

// A worker says that an attempt waits, and goes on alone. What it waits for next may be known here before that wait is over.
func TestAnAttemptOnAFleetWaitsForTwoThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := talkers(t, func(ctx context.Context, h agent.Host, a *agent.Attempt, end func()) {
			go func() { _, _ = h.Pause(ctx, a, 30*time.Second, false) }()
			time.Sleep(15 * time.Second)
			if _, err := h.StepTurn(ctx, a, agent.StepTurn{Step: "call", Position: 1}, false); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
			end()
		})
		r := run(t, c, called(2, "{limit: 1/10s, burst: 1}", "", slices.Repeat([]string{"a"}, 8)...))
		turns, at := told[events.StepTurn](recordsOf(t, r.Job))
		if r.Metrics.Successful != 8 || len(turns) != 8 {
			t.Fatalf("got %+v and %d turns", r.Metrics, len(turns))
		}
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] < 10*time.Second {
				t.Errorf("turns at %v, want ten seconds between them", at)
			}
		}
	})
}

// What a worker says of an attempt that has ended meanwhile is of no interest.
func TestWaitsOfAnAttemptThatHasEndedAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := talkers(t, func(ctx context.Context, h agent.Host, a *agent.Attempt, end func()) {
			if a.ItemIndex == 2 { // the job goes on meanwhile
				time.Sleep(5 * time.Second)
				end()
				return
			}
			end()
			time.Sleep(time.Second)
			_, _ = h.Pause(ctx, a, time.Minute, false)
			_, _ = h.StepTurn(ctx, a, agent.StepTurn{Step: "call", Position: 1}, false)
		})
		r := run(t, c, called(3, "1/s", "", "a", "a", "a"))
		if turns, _ := told[events.StepTurn](recordsOf(t, r.Job)); r.Metrics.Successful != 3 || len(turns) != 0 {
			t.Errorf("got %+v and turns %+v, want none", r.Metrics, turns)
		}
	})
}

// A step that could not use its turn goes before those that have waited for less.
func TestAStepThatCouldNotUseItsTurnIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var mu sync.Mutex
		c := talkers(t, func(ctx context.Context, h agent.Host, a *agent.Attempt, end func()) {
			time.Sleep(time.Duration(a.ItemIndex) * time.Millisecond)
			turn := agent.StepTurn{Step: "call", Position: 1}
			_, _ = h.StepTurn(ctx, a, turn, false)
			if a.ItemIndex == 1 {
				turn.Late = time.Second
				_, _ = h.StepTurn(ctx, a, turn, true)
			}
			mu.Lock()
			order = append(order, a.ItemID)
			mu.Unlock()
			end()
		})
		r := run(t, c, called(4, "{limit: 1/s, burst: 1}", "", slices.Repeat([]string{"a"}, 4)...))
		turns, _ := told[events.StepTurn](recordsOf(t, r.Job))
		if want := []string{"item_0", "item_1", "item_2", "item_3"}; !slices.Equal(order, want) || len(turns) != 5 || turns[2].WaitedMS < 2000-2 {
			t.Errorf("got %v after %+v, want %v", order, turns, want)
		}
	})
}

// A worker ends a straggler, whose next attempt begins then.
func TestAStragglerOfAFleetIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(func(a agent.Attempt) fate {
			if a.ItemID == "item_0" && a.Number == 1 {
				return fate{takes: time.Minute}
			}
			return fate{worker: 2, takes: time.Second}
		})
		r := run(t, w.config(t), slow(3, 2, "5s", true, "error_policy: {retry_config: {attempts: 2, backoff: fixed, initial_delay: 2s, jitter: false}}\n"))
		all := recordsOf(t, r.Job)
		want := []string{"0 start 1", "5 slow 1", "5 retry 1", "7 start 2", "8 done 2"}
		if got := attemptsTold(all, "item_0"); r.State != jobs.Completed || r.Metrics.Successful != 3 || !slices.Equal(got, want) {
			t.Errorf("%s: got %q\nwant %q", r.State, got, want)
		}
		w.once(t, 3, all)
	})
}

// What a worker runs of an item that somebody skips is ended, also when the run dies before the worker knows.
func TestAnItemThatAWorkerRunsIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrew(func(agent.Attempt) fate { return fate{takes: time.Minute} })
		c := w.config(t)
		answered := make(chan job.Answer, 1)
		c.Control = func(_ jobs.Job, ask func(job.Request) job.Answer) (func() error, error) {
			time.AfterFunc(2*time.Second, func() {
				answered <- ask(job.Request{Do: job.Skip, By: "ada", Items: []job.Item{{ID: "item_1", Index: 1}}})
			})
			return func() error { return nil }, nil
		}
		r := run(t, c, workflowOf(2, 2, ""))
		all := recordsOf(t, r.Job)
		answer := <-answered
		if got := attemptsTold(all, "item_1"); answer.Text != "skipped: item_1" || r.Metrics.Skipped != 1 || !slices.Equal(got, []string{"0 start 1", "2 skip 1"}) {
			t.Errorf("got %+v: %+v, %q", answer, r.Metrics, got)
		}
		w.once(t, 2, all)

		place := copyJob(t, c, r.Job, upTo(readLog(t, r.Job), "SkipRequested"))
		again := newCrew(w.fate)
		c = withHome(again.config(t), place)
		r, err := Resume(t.Context(), c, place.job)
		if err != nil || r.Metrics.Skipped != 1 || r.Metrics.Successful != 1 {
			t.Errorf("after a resume: got %+v, %v", r.Metrics, err)
		}
		again.once(t, 2, recordsOf(t, place.job))
	})
}
