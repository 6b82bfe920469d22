package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

// An attempt that waits until its reports are taken ends with its worker, and when the worker has no contact.
func TestAnAttemptThatIsEndedDoesNotWaitToReport(t *testing.T) {
	for name, end := range map[string]func(*worker){
		"a second signal": (*worker).giveBack,
		"no contact":      func(w *worker) { w.fence(&w.state, time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestWorker(t)
				j := newTestJob(w, "j", time.Minute)
				h, _ := w.hold(j, 1)
				j.unread = mostUnread + 1
				reported := false
				go func() {
					w.report(h, fleet.Report{Kind: fleet.Printed})
					reported = true
				}()
				synctest.Wait()
				if reported {
					t.Error("it does not wait until others were taken")
				}
				end(w)
				synctest.Wait()
				if !reported {
					t.Error("it still waits")
					w.end()
				}
			})
		})
	}
}

// An attempt that was about to begin when its worker was to end at once does not begin.
func TestAnAttemptThatBeginsAfterTheSecondSignal(t *testing.T) {
	w := newTestWorker(t)
	j := newTestJob(w, "j", time.Minute)
	h, _ := w.hold(j, 1)
	h.cancel = nil // until its goroutine comes to that
	a := attemptAt(&field{root: t.TempDir()}, 1, "touch ran")
	h.task, h.slot, h.began = fleet.NewTask(a, "spec", time.Now()), 1, 1
	j.executors["spec"] = &jobExecutor{spec: fleet.NewSpec(*a), Executor: agent.New(agent.Config{Environ: os.Environ(), TempDir: t.TempDir(), Run: w.command}, &workerHost{worker: w, job: j})}
	w.giveBack()
	if _, _, _, err := w.execute(h); !errors.Is(err, errGivenBack) || h.ran.Load() {
		t.Errorf("got %v, its command has begun: %v; want it given back", err, h.ran.Load())
	}
}

// A worker that is to end while the broker is away keeps what has ended until the broker is back, or a second signal gives it up. Then it says what is lost.
func TestAWorkerThatIsToEndWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second bool // signal
	}{
		"it is back":      {false},
		"a second signal": {true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newField(t)
			f.lease = 15 * time.Second
			a := f.worker("a", 2, nil)
			f.doing.Go(func() {
				if !f.untilRunning(2) {
					return
				}
				port := f.stop()
				if err := os.WriteFile(filepath.Join(f.root, "go"), nil, 0o600); err != nil {
					t.Error(err)
				}
				f.untilThere("ended-*", 2)
				a.drain()
				f.waitFor("worker a accepts no more attempts", a.said.String)
				if c.second {
					a.kill()
					select {
					case <-a.done:
					case <-time.After(time.Minute):
						t.Error("it goes on after the second signal")
					}
				}
				f.start(port)
				f.worker("b", 2, nil)
			})
			const script = `echo run >> runs-${item}; until [ -e go ]; do sleep 0.05; done; touch ended-${item}`
			r := f.run(source(2, 2, script, ""), nil)
			<-a.done
			if r.State != jobs.Completed || r.Metrics.Successful != 2 {
				t.Errorf("got %s (%s) with %+v, want 2 successful", r.State, r.Reason, r.Metrics)
			}
			if !c.second {
				f.ranOnce(2)
			}
			said := a.said.String()
			if got := strings.Contains(said, "did not accept the results of 2 items, which will run again: "+r.Job.ID+"/item_"); got != c.second {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// How long a worker that is to end waits for its reports to be taken.
func TestHowLongAWorkerWaitsToReport(t *testing.T) {
	const lease = 15 * time.Second
	for name, c := range map[string]struct {
		change func(*worker, *heldAttempt)
		want   time.Duration // from the signal, when the report was a minute old
	}{
		"the broker is there":         {func(*worker, *heldAttempt) {}, 0},
		"it was back at the signal":   {func(w *worker, _ *heldAttempt) { w.state.absent.last = w.state.drained }, lease},
		"it is away":                  {func(w *worker, _ *heldAttempt) { w.state.absent.away = true }, longestWait},
		"its lease is long":           {func(w *worker, h *heldAttempt) { w.state.absent.away, h.job.Lease = true, time.Hour }, time.Hour},
		"it was killed meanwhile":     {func(w *worker, h *heldAttempt) { w.state.absent.away, h.result = true, false }, 0},
		"it is away, a second signal": {func(w *worker, _ *heldAttempt) { w.state.absent.away, w.state.gaveBack = true, true }, 0},
		"it has ended just now":       {func(w *worker, h *heldAttempt) { w.state.gaveBack, h.reports[0].made = true, w.state.drained }, requestTime},
		"it is being reported":        {func(w *worker, _ *heldAttempt) { w.state.absent.last, w.state.gaveBack = w.state.drained, true }, requestTime},
	} {
		w := newTestWorker(t)
		h, _ := w.hold(newTestJob(w, "j", lease), 1)
		w.state.drained = time.Now()
		h.ended, h.result, h.reports = true, true, []report{{made: w.state.drained.Add(-time.Minute)}}
		c.change(w, h)
		for _, after := range []time.Duration{c.want - time.Second, c.want + time.Second} {
			if got := w.state.givesUp(h, w.state.drained.Add(after)); got != (after > c.want) && after > 0 {
				t.Errorf("%s: gives up %s after the signal: %v", name, after, got)
			}
		}
	}
}

// An attempt that ends with its job is given back, also when the job goes on before it has ended: nothing is broken here.
func TestAnAttemptOfAJobThatWasStoppedAndGoesOn(t *testing.T) {
	w := newTestWorker(t)
	entry := fleet.Job{V: fleet.Protocol, Version: "test", ID: "j", Lease: time.Minute, Owner: "first"}
	w.applyJob("j", entry, nil)
	j := w.state.jobs["j"]
	a := attemptAt(&field{root: t.TempDir()}, 1, "true")
	j.executors["spec"] = &jobExecutor{spec: fleet.NewSpec(*a), Executor: agent.New(agent.Config{Environ: os.Environ(), TempDir: t.TempDir(), Run: func(ctx context.Context, _ process.Command) (process.Exit, error) {
		stopped, goesOn := entry, entry
		stopped.Serial, stopped.Stop = 1, fleet.Grace
		w.applyJob("j", stopped, nil)
		goesOn.Epoch, goesOn.Owner = 1, "second"
		w.applyJob("j", goesOn, nil)
		return process.Exit{}, context.Cause(ctx)
	}}, &workerHost{worker: w, job: j})}
	h := &heldAttempt{job: j, token: 1, task: fleet.NewTask(a, "spec", time.Now()), slot: 1, began: 1}
	w.state.held[h.name()] = h
	w.run(h)
	var r fleet.Report
	if err := json.Unmarshal(h.reports[len(h.reports)-1].data, &r); err != nil || r.Kind != fleet.Returned {
		t.Errorf("got %+v, %v, want it returned", r, err)
	}
	if !w.state.rest.IsZero() {
		t.Error("the worker rests")
	}
}
