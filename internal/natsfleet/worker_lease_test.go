package natsfleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/process"
	"prodigy/internal/testenv"
)

// What a worker runs ends for lack of contact by the leases of what it runs, not by those of other jobs.
func TestOnlyTheLeaseOfWhatRunsEndsIt(t *testing.T) {
	const lease, ago = 15 * time.Minute, 20 * time.Second
	fits := fleet.Job{V: fleet.Protocol, ID: "other", Version: "test", Owner: "o", Files: "list", Lease: fleet.LeastLease}
	for name, c := range map[string]struct {
		other func(t *testing.T, w *worker)
		want  bool
		every time.Duration // how often the contact is proven
	}{
		"no other job": {func(*testing.T, *worker) {}, false, lease / 4},
		"a job that it refuses": {func(_ *testing.T, w *worker) {
			j := fits
			j.Requires = []string{"gpu"}
			w.applyJob("other", j, nil)
		}, false, lease / 4},
		"an entry that is not signed": {func(t *testing.T, w *worker) {
			key := keyPair(nkeys.CreateAccount)
			w.trust = check.Must(newTrust([]string{key.public}))
			j := fits
			j.Lease = 1
			w.examine("other", j)
		}, false, lease / 4},
		"a lease that no run may have": {func(_ *testing.T, w *worker) {
			j := fits
			j.Lease = 1
			w.applyJob("other", j, nil)
			w.hold(w.state.jobs["other"], 1)
		}, false, lease / 4},
		"a job that has nothing here yet": {func(_ *testing.T, w *worker) { w.applyJob("other", fits, nil) }, false, fleet.LeastLease / 4},
		"a job whose attempt has ended": {func(_ *testing.T, w *worker) {
			w.applyJob("other", fits, nil)
			h, _ := w.hold(w.state.jobs["other"], 1)
			h.ended = true
		}, false, fleet.LeastLease / 4},
		"a job that runs here": {func(_ *testing.T, w *worker) {
			w.applyJob("other", fits, nil)
			w.hold(w.state.jobs["other"], 1)
		}, true, fleet.LeastLease / 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestWorker(t)
			h, ctx := w.hold(newTestJob(w, "mine", lease), 1)
			c.other(t, w)
			now := time.Now()
			w.state.proof = now.Add(-ago)
			w.beat(now)
			if watched := w.state.guarded.After(now.Add(lease / 2)); watched == c.want {
				t.Errorf("its watcher kills in %s", w.state.guarded.Sub(now))
			}
			w.fence(&w.state, now)
			if h.fenced != c.want || (ctx.Err() != nil) != c.want {
				t.Errorf("fenced off: %v, killed: %v, want %v", h.fenced, ctx.Err(), c.want)
			}
			if got := w.lease() / 4; got != c.every {
				t.Errorf("it asks for a proof each %s, want %s", got, c.every)
			}
		})
	}
}

// After the machine of a worker was suspended others may have what it ran: it ends that, begins nothing and takes nothing, and its watcher waits no longer. A
// clock that is set back changes nothing.
func TestAWorkerWhoseMachineWasSuspended(t *testing.T) {
	const lease = time.Minute
	for name, c := range map[string]struct {
		suspended time.Duration
		want      bool // that it ends what it ran
	}{
		"it was not":                   {0, false},
		"for a moment":                 {10 * time.Second, false},
		"for longer than the lease":    {time.Hour, true},
		"its clock was set back":       {-time.Hour, false},
		"for most of the lease":        {51 * time.Second, true},
		"for not quite so long":        {49 * time.Second, false},
		"its clock was set back a bit": {-time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestWorker(t)
			j := newTestJob(w, "j", lease)
			h, ctx := w.hold(j, 1)
			w.state.proof = time.Now()
			w.beat(w.state.proof)
			now := testenv.Suspended(w.state.proof, c.suspended)
			out, frozen := w.state.outOfContact(now), w.state.frozen(now)
			if out != c.want || frozen != c.want {
				t.Errorf("out of contact: %v, its watcher has killed: %v, want %v", out, frozen, c.want)
			}
			w.beat(now)
			if h.fenced != c.want || (ctx.Err() != nil) != c.want {
				t.Errorf("fenced off: %v, killed: %v, want %v", h.fenced, ctx.Err(), c.want)
			}
			if left, most := w.state.guarded.Sub(w.state.proof), lease*5/6; left <= 0 || c.want && left > time.Millisecond || left > most {
				t.Errorf("its watcher waits for %s", left)
			}
			if got := w.state.proofTooOld(now); got != (c.suspended > lease/2) {
				t.Errorf("it takes nothing: %v", got)
			}
		})
	}
}

// A worker that has no contact kills what runs, and neither kills nor counts what has ended. It says whether it stood still.
func TestAWorkerWithoutContactKillsOnlyWhatRuns(t *testing.T) {
	const noContact = "no contact with the broker for most of the lease: killed running attempts: 1\n"
	for name, c := range map[string]struct {
		happens func(w *worker, now time.Time)
		want    string
	}{
		"no contact": {func(w *worker, now time.Time) { w.state.lastTurn = now.Add(-time.Second); w.fence(&w.state, now) }, noContact},
		"frozen, and its watcher has killed": {
			func(w *worker, now time.Time) { w.beat(now) },
			"was frozen for 1h0m0s (stopped, suspended, or its clock was set forward): killed running attempts: 1\n",
		},
		"frozen, and out of contact": {
			func(w *worker, now time.Time) { w.state.noteTurn(now); w.fence(&w.state, now) },
			"was frozen for 1h0m0s (stopped, suspended, or its clock was set forward): killed running attempts: 1\n",
		},
		"frozen, and what ran was killed first": {
			func(w *worker, now time.Time) { w.state.killAll(now); w.fence(&w.state, now); w.beat(now) },
			"was frozen for 1h0m0s (stopped, suspended, or its clock was set forward): killed running attempts: 1\n",
		},
		"frozen, and nothing ran": {
			func(w *worker, now time.Time) { clear(w.state.held); w.beat(now) },
			"was frozen for 1h0m0s (stopped, suspended, or its clock was set forward)\n",
		},
		"busy for a moment": {func(w *worker, now time.Time) { w.state.lastTurn = now.Add(-20 * time.Second) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, said := newTestWorker(t), new(log)
			w.o.Say = said.add
			j := newTestJob(w, "j", time.Minute)
			ended, over := w.hold(j, 1)
			ended.ended, ended.reports = true, []report{{made: time.Now()}}
			w.hold(j, 2)
			w.beat(time.Now())
			w.state.lastTurn = time.Now()
			now := testenv.Suspended(w.state.lastTurn, time.Hour)
			c.happens(w, now)
			for range 2 {
				w.sayKilled(&w.state, now)
			}
			if over.Err() != nil {
				t.Error("it killed what had ended")
			}
			if said.String() != c.want {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
}

// A command that the watcher has killed has not failed: no other try of its step follows.
func TestACommandThatTheWatcherHasKilledIsNoFailure(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(w *worker, h *heldAttempt)
		does    string
		fenced  bool
	}{
		"somebody else has killed it":                       {func(w *worker, _ *heldAttempt) { w.state.guarded = time.Now().Add(time.Hour) }, "kill -9 $$", false},
		"the watcher was about to kill it":                  {func(w *worker, _ *heldAttempt) { w.state.guarded = time.Now().Add(watcherEarly / 2) }, "kill -9 $$", true},
		"the worker was frozen":                             {func(w *worker, _ *heldAttempt) { w.state.guarded = time.Now().Add(-1) }, "kill -9 $$", true},
		"the worker was frozen, and its watcher knows more": {func(w *worker, h *heldAttempt) { w.state.fenceOff(h, time.Now()) }, "kill -9 $$", true},
		"the worker has no contact":                         {func(w *worker, _ *heldAttempt) { w.state.proof = time.Now().Add(-time.Hour) }, "exit 1", true},
		"it has failed":                                     {func(w *worker, _ *heldAttempt) { w.state.guarded = time.Now().Add(time.Hour) }, "exit 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := newTestWorker(t), t.TempDir()
			h, ctx := w.hold(newTestJob(w, "j", time.Minute), 1)
			began, goOn := filepath.Join(dir, "began"), filepath.Join(dir, "go-on")
			ended := make(chan error, 1)
			go func() {
				script := "touch " + began + "; until [ -e " + goOn + " ]; do sleep 0.01; done; " + c.does
				_, err := w.command(context.WithValue(ctx, heldKey{}, h), process.Command{Argv: []string{"sh", "-c", script}, Dir: dir})
				ended <- err
			}()
			if !eventually(func() bool { _, err := os.Stat(began); return err == nil }) {
				t.Fatal("it does not begin")
			}
			w.turn(func(*workerState) { c.happens(w, h) })
			if err := os.WriteFile(goOn, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; errors.Is(err, errNoContact) != c.fenced || h.fenced != c.fenced {
				t.Errorf("it ended with %v, fenced off: %v, want %v", err, h.fenced, c.fenced)
			}
		})
	}
}
