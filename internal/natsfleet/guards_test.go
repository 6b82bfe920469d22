package natsfleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
)

// A worker whose disk is full takes nothing and says why, to whoever lists the workers and to the run. When there is room again it takes attempts again.
func TestAWorkerWithAFullDiskTakesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		worker, job limit.Guards
		full        string // part of the directory whose disk is full
	}{
		"by its own guards":             {worker: limit.Guards{MinFreeDisk: &limit.Amount{Bytes: 5e9}}, full: "/small"},
		"by those of the job":           {job: limit.Guards{MinFreeDisk: &limit.Amount{Bytes: 5e9}}, full: "/small"},
		"where the commands of job run": {worker: limit.Guards{MinFreeDisk: &limit.Amount{Bytes: 5e9}}, full: "/TestAWorker"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newField(t)
			var room atomic.Bool
			small := f.worker("small", 3, func(o *fleet.WorkerOptions) {
				o.Guards = c.worker
				o.Machine = func(dirs ...string) (limit.Machine, error) {
					m := limit.Machine{DiskFree: 9e9, DiskTotal: 10e9}
					if !room.Load() && strings.Contains(strings.Join(dirs, "\n"), c.full) {
						m.DiskFree = 3e6
					}
					return m, nil
				}
			})
			f.worker("large", 1, nil)
			notices := new(log)
			k, coordinator := f.config(func(o *fleet.JobOptions) { o.Guards = c.job })
			onNotice(coordinator, notices.add)
			f.whenRunning(func() {
				nodes, err := (Backend{}).Nodes(t.Context(), f.address())
				if err != nil {
					t.Error(err)
				}
				for _, n := range nodes {
					var short strings.Builder
					short.WriteString(n.Short)
					for _, j := range n.Jobs {
						short.WriteString(j.Short)
					}
					if (n.Name == "small") != strings.Contains(short.String(), "free disk space is 3 MB, min_free_disk is 5.0 GB") {
						t.Errorf("worker %s says %q", n.Name, short.String())
					}
				}
				room.Store(true)
			})
			r, err := f.runWith(k, coordinator, source(30, 4, `echo run >> runs-${item}; sleep 0.3`, ""))
			if err != nil {
				t.Fatal(err)
			}
			f.once(r, 30)
			var order []string
			for _, rec := range recordsOf(t, r.Job) {
				if e, ok := rec.Event.(events.AgentCompleted); ok {
					order = append(order, e.Node)
				}
			}
			if text := strings.Join(order, " "); !strings.HasPrefix(text, "large large large ") || !strings.Contains(text, "small") {
				t.Errorf("they ran on %s, want on large at first, and then on both", text)
			}
			const why = "for now: free disk space is 3 MB, min_free_disk is 5.0 GB\n"
			if text := notices.String(); !strings.Contains(text, "worker small accepts no attempts "+why) || !strings.Contains(text, "worker small accepts attempts again\n") {
				t.Errorf("the run says %q", text)
			}
			if text := small.said.String(); !strings.Contains(text, "accepts no attempts") || !strings.Contains(text, "accepts attempts") {
				t.Errorf("the worker says %q", text)
			}
		})
	}
}

// The load and the memory of the machine where the run is are no matter for the items of a fleet, but its disk is, with the log.
func TestGuardsOfAJobOnAFleet(t *testing.T) {
	f := newField(t)
	f.worker("a", 2, func(o *fleet.WorkerOptions) {
		o.Machine = func(...string) (limit.Machine, error) {
			return limit.Machine{CPUs: 1, MemoryFree: 9e9, MemoryTotal: 10e9, DiskFree: 9e9, DiskTotal: 10e9}, nil
		}
	})
	r := f.run(source(2, 2, "true", "")+"  guards: {load: 0.5, min_free_memory: 10%, min_free_disk: 1GB}\n", func(c *mapreduce.Config) {
		c.Machine = func() (limit.Machine, error) {
			return limit.Machine{Load: 40, CPUs: 2, MemoryFree: 1, MemoryTotal: 10e9, DiskFree: 9e9, DiskTotal: 10e9}, nil
		}
	})
	if r.State != jobs.Completed || r.Metrics.Successful != 2 {
		t.Errorf("got %s (%s) with %+v", r.State, r.Reason, r.Metrics)
	}
	for _, rec := range recordsOf(t, r.Job) {
		if e, ok := rec.Event.(events.StartsHeld); ok {
			t.Errorf("starts were held: %s", e.Reason)
		}
	}
}

// Whether a job fits here, and what its directory has left, is looked up while the worker goes on: a directory that is mounted may not answer for long.
func TestAWorkerGoesOnWhileItLooksAtAJob(t *testing.T) {
	dir := t.TempDir()
	asked, release := filepath.Join(dir, "asked"), filepath.Join(dir, "release")
	wait := "touch " + asked + "; until [ -e " + release + " ]; do sleep 0.01; done"
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+wait+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := dir + string(filepath.ListSeparator) + os.Getenv("PATH")
	t.Setenv("PATH", path)
	least := limit.Guards{MinFreeDisk: &limit.Amount{Bytes: 1}}
	for name, c := range map[string]struct {
		job  fleet.Job
		look func(w *worker, j fleet.Job)
	}{
		"what it has left": {fleet.Job{Files: "list", Guards: least}, func(w *worker, j fleet.Job) { w.applyJob("j", j, nil) }},
		"what it needs":    {fleet.Job{Seed: "seed"}, func(w *worker, j fleet.Job) { w.applyJob("j", j, nil) }},
		"what it lacked before": {fleet.Job{Seed: "seed"}, func(w *worker, j fleet.Job) {
			newTestJob(w, "j", j.Lease).Job, w.state.jobs["j"].refuses = j, "there was no git"
			w.measure()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _ = os.Remove(asked), os.Remove(release)
			w := newTestWorker(t)
			w.o.Environ = []string{"PATH=" + path}
			w.o.Machine = func(...string) (limit.Machine, error) {
				return limit.Machine{}, exec.Command("sh", "-c", wait).Run()
			}
			c.job.V, c.job.Version, c.job.Owner, c.job.Lease = fleet.Protocol, "test", "o", time.Minute
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.look(w, c.job)
			}()
			if !eventually(func() bool { _, err := os.Stat(asked); return err == nil }) {
				t.Fatal("it does not look")
			}
			if !w.mu.TryLock() {
				t.Error("its lock is held while it looks")
			} else {
				w.mu.Unlock()
			}
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			<-done
		})
	}
}
