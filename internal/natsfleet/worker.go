package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/gitspace"
	"prodigy/internal/process"
)

// worker runs attempts of the jobs of a fleet.
//
// What it knows of its jobs and attempts is its workerState, and only turn has that. All else is set once, or has a
// lock of its own.
type worker struct {
	*brokerConn
	o        fleet.WorkerOptions
	trust    trust
	register *process.Register
	// temp is the directory of the private files of commands.
	temp string
	// node is what the worker says of itself, see tellNode.
	node fleet.Node

	// life ends when the worker ends. runs has what it does beside its loop.
	life context.Context
	end  context.CancelFunc
	runs sync.WaitGroup

	// caching guards the cache of files, storing the stores of repositories.
	caching, storing sync.Mutex
	// beating is held by beat. A turn may be taken while it is held.
	beating sync.Mutex
	// lacks returns why there can be no workspaces here, or "" if there can.
	lacks func() string

	// changed wakes the loop.
	changed chan struct{}

	// mu guards state. Only turn has both.
	mu    sync.Mutex
	state workerState
}

// newWorker returns a worker that is not connected yet.
func newWorker(o fleet.WorkerOptions) *worker {
	w := &worker{
		o: o, changed: make(chan struct{}, 1),
		node: fleet.Node{
			V: fleet.Protocol, Name: o.Name, NameSig: o.NameSig, Version: o.Version, Labels: o.Labels, Slots: o.Slots,
			Began: time.Now(),
		},
		state: workerState{
			contact: contact{proof: time.Now()},
			jobs:    map[string]*workerJob{}, held: map[string]*heldAttempt{}, space: make(chan struct{}),
			warned: map[string]bool{}, looking: map[string]bool{},
		},
	}
	for slot := o.Slots; slot > 0; slot-- {
		w.state.free = append(w.state.free, slot)
	}
	w.lacks = sync.OnceValue(func() string {
		if err := gitspace.Usable(w.life, o.Environ); err != nil {
			return err.Error()
		}
		return ""
	})
	return w
}

// turn calls f with what the worker knows. Turns are taken one at a time: f must not wait for anything, nor take a
// turn.
func (w *worker) turn(f func(s *workerState)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.state)
	if w.state.woken {
		w.state.woken = false
		check.Wake(w.changed)
	}
}

// Work runs a worker until it is draining or ctx ends.
func (Backend) Work(ctx context.Context, o fleet.WorkerOptions) error {
	if _, err := exec.LookPath("sh"); err != nil {
		return fleet.Refusef("sh not found on PATH: workers need it to run steps")
	}
	w := newWorker(o)
	host, _ := os.Hostname()
	err := o.May(fleet.WorkerRole)
	if err != nil {
		return err
	}
	if w.trust, err = newTrust(o.Trust); err != nil {
		return err
	}
	if w.brokerConn, err = connect(ctx, o.Address, "worker "+o.Name, responsive, w.reconnected); err != nil {
		return err
	}
	defer w.nc.Close()
	w.node.Instance, w.node.Host = w.instance(), host
	defer context.AfterFunc(w.denied, func() { w.say("the broker: %v", context.Cause(w.denied)) })()
	if m, err := w.nc.Request(nameSubject(o.Name), nil, 500*time.Millisecond); err == nil {
		return fleet.Refusef("the name %s is already used by a worker on %s: choose another with --name", o.Name, m.Data)
	}
	if _, err := w.subscribe(nameSubject(o.Name), func(m *nats.Msg) { _ = m.Respond([]byte(host)) }); err != nil {
		return err
	}
	if err := w.prepare(); err != nil {
		return err
	}
	defer func() { _ = w.register.Close() }()
	defer func() { _ = os.RemoveAll(w.temp) }()
	defer func() { _ = gitspace.RemoveClone(filepath.Join(o.Home, "jobs")) }()
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	defer w.end()
	if err := w.subscribeAll(map[string]nats.MsgHandler{
		downSubject(w.node.Instance): w.delivered,
		jobsSubject + ">":            w.announced,
		drainSubject:                 w.askedToEnd,
		nodesSubject:                 w.tellNode,
	}); err != nil {
		return err
	}
	w.turn(func(s *workerState) { s.began = true })
	w.say("worker %s accepts attempts in %s from %s", o.Name, check.Counted(o.Slots, "slot"), fleet.ShownURL(o.URL))
	w.measure()
	go func() {
		for pause(w.life, measureEvery) {
			w.forgetSilent(time.Now())
			w.measure()
		}
	}()
	_ = w.nc.Publish(helloSubject, nil)
	return w.loop(ctx)
}

// runPrefix begins the names of the directories with the private files of commands, one for each run of a worker.
const runPrefix = "run-"

// prepare ends what a worker before has left, and makes the register.
func (w *worker) prepare() error {
	if err := os.MkdirAll(w.o.Home, 0o700); err != nil {
		return err
	}
	path := filepath.Join(w.o.Home, "processes")
	n, err := process.EndLeftovers(context.Background(), path, w.o.Grace)
	if err != nil {
		return err
	}
	if n > 0 {
		w.say("killed leftover commands of an earlier worker of this name: %d", n)
	}
	left, err := os.ReadDir(w.o.Home)
	if err != nil {
		return err
	}
	for _, dir := range left {
		if strings.HasPrefix(dir.Name(), runPrefix) { // of a worker that has died together with its watcher
			_ = gitspace.RemoveClone(filepath.Join(w.o.Home, dir.Name()))
		}
	}
	if w.temp, err = os.MkdirTemp(w.o.Home, runPrefix); err != nil {
		return err
	}
	watcher := w.o.Watcher
	if len(watcher) > 0 {
		watcher = append(slices.Clip(watcher), w.temp)
	}
	if w.register, err = process.OpenRegister(path, w.o.Grace, watcher...); err != nil {
		return err
	}
	return gitspace.RemoveClone(filepath.Join(w.o.Home, "jobs"))
}

// loop keeps the worker going.
func (w *worker) loop(ctx context.Context) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	drain, killed := w.o.Drain.Done(), ctx.Done()
	var said, renewed, sent time.Time
	for {
		unguarded := false
		w.turn(func(s *workerState) { unguarded = len(s.held) > 0 && s.guarded.IsZero() })
		if unguarded { // the watcher is told of them before any begins
			w.beat(time.Now())
		}
		now, busy := time.Now(), false
		w.turn(func(s *workerState) {
			for _, h := range s.schedule(now) {
				w.runs.Go(func() { w.run(h) })
			}
			busy = len(s.free) < w.o.Slots
		})
		var later <-chan time.Time
		if wait := sent.Add(sendGap).Sub(now); wait > 0 && busy {
			later = time.After(wait)
		} else {
			w.sendAll(false)
			sent = now
		}
		select {
		case <-later:
			continue
		case <-w.changed:
			continue
		case <-drain:
			drain = nil
			w.drain()
		case <-killed:
			killed = nil
			w.drain()
			w.giveBack()
		case now := <-tick.C:
			w.turn(func(s *workerState) { w.fence(s, now) })
			w.beat(now)
			w.turn(func(s *workerState) {
				w.sayKilled(s, time.Now()) // now may be of before a freeze
				w.watchBroker(s, now)
				w.spill(s, now)
			})
			lease := w.lease()
			if now.Sub(said) >= every(lease) {
				said = now
				w.restateAll()
				w.sendAll(false)
				w.turn(w.progress)
			}
			if process.Elapsed(renewed, now) >= lease/4 {
				renewed = now
				go w.renewProof()
			}
		}
		over := false
		var lost error
		w.turn(func(s *workerState) { over = s.finished(time.Now()) })
		if over {
			w.runs.Wait()
			w.turn(func(s *workerState) { lost = s.lostResults() })
			w.sendAll(true)
			_ = w.nc.FlushTimeout(requestTime)
			w.say("worker %s has ended", w.o.Name)
			return lost
		}
	}
}

// sendGap is how long a worker that is busy waits between two messages, so that what ends meanwhile goes with the
// second one.
const sendGap = time.Millisecond

// absentFor is how long that may last before somebody is told.
const absentFor = 2 * time.Second

// watchBroker says that the broker is away, or lets this worker in no more, and that it is back.
func (w *worker) watchBroker(s *workerState, now time.Time) {
	a := &s.absent
	if a.away = !w.nc.IsConnected() || s.outOfContact(now); a.away {
		a.last = now
	}
	switch {
	case w.nc.IsConnected():
		if a.told {
			w.say("the broker is back")
		}
		a.spell = spell{}
	case !a.lasts(now, absentFor):
	case errors.Is(w.nc.LastError(), nats.ErrAuthorization):
		w.say("the broker rejects worker %s: its credentials were removed or replaced. "+
			"Still trying; restart it with new credentials", w.o.Name)
	default:
		w.say("broker unreachable: no new items start until it is back")
	}
}

// say tells people something of the worker.
func (w *worker) say(format string, args ...any) { w.o.Say(fmt.Sprintf(format, args...)) }

// drain has the worker take no more.
func (w *worker) drain() {
	w.turn(func(s *workerState) {
		if s.stopping {
			return
		}
		s.stopping, s.drained = true, time.Now()
		running := -len(s.queue)
		for _, h := range s.held {
			if !h.ended {
				running++
			}
			if h.preparing {
				h.end(errGivenBack)
			}
		}
		w.giveBackQueued(s, nil, "the worker is being stopped")
		for _, j := range s.jobs {
			s.closeRound(j)
		}
		w.say("worker %s accepts no more attempts and finishes its running ones: %d (a second signal returns them)",
			w.o.Name, running)
		s.woken = true
	})
}

// giveBackQueued gives back what has not begun of a job, or of all if j is nil.
func (w *worker) giveBackQueued(s *workerState, j *workerJob, reason string) {
	s.queue = slices.DeleteFunc(s.queue, func(h *heldAttempt) bool {
		if j != nil && h.job != j {
			return false
		}
		w.returnUnbegun(s, h, reason)
		return true
	})
}

// returnUnbegun gives back an attempt that has not begun.
func (w *worker) returnUnbegun(s *workerState, h *heldAttempt, reason string) {
	w.add(s, h, fleet.Report{Kind: fleet.Returned, Reason: reason})
	h.ended = true
}

// tidy removes the directories of a job that is gone, when nothing of it runs here any more. They may also be of what
// the job was here before the broker lost its disk, or of a clone that was not completed. They are moved away first, so
// that the job can come back while they are removed.
func (w *worker) tidy(s *workerState, j *workerJob) {
	if s.jobs[j.key] != nil {
		return
	}
	for _, h := range s.held {
		if h.job.key == j.key {
			return
		}
	}
	all := filepath.Join(w.o.Home, "jobs")
	gone := filepath.Join(all, "."+newInstance()) // the key of no job
	if os.Rename(filepath.Join(all, j.key), gone) == nil {
		w.runs.Go(func() { _ = gitspace.RemoveClone(gone) }) // or when the next worker starts
	}
}

// giveBack ends what runs, with the grace, and what is about to.
func (w *worker) giveBack() {
	w.turn(func(s *workerState) {
		s.gaveBack = true
		for _, h := range s.held {
			h.end(errGivenBack)
		}
		s.freed()
	})
}

// lease is shortestLease for those that have no turn.
func (w *worker) lease() (lease time.Duration) {
	w.turn(func(s *workerState) { lease = s.shortestLease() })
	return lease
}

// askedToEnd drains the worker if it is the one that is meant.
func (w *worker) askedToEnd(m *nats.Msg) {
	if string(m.Data) == w.o.Name {
		_ = m.Respond([]byte(w.node.Instance))
		w.drain()
	}
}

// tellNode answers who asks for the workers.
func (w *worker) tellNode(m *nats.Msg) {
	n := w.node
	var ask fleet.NodesAsk
	if json.Unmarshal(m.Data, &ask) == nil {
		n.Lacks = lacking(ask.Programs)
	}
	w.turn(func(s *workerState) {
		n.Now, n.Busy, n.Draining = time.Now().UTC(), w.o.Slots-len(s.free), s.stopping
		n.Jobs, n.Short = map[string]fleet.NodeJob{}, s.short
		for key, j := range s.jobs {
			n.Jobs[key] = fleet.NodeJob{ID: j.ID, Refuses: j.refuses, Short: j.short}
		}
		for _, h := range s.held {
			if !h.ended { // else only its coordinator still has to write down how
				of := n.Jobs[h.job.key]
				of.ID, of.Items = h.job.ID, of.Items+1
				n.Jobs[h.job.key] = of
			}
		}
	})
	_ = m.Respond(encoded(n))
}
