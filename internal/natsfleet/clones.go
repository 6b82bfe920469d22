package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/gitspace"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
)

// A job with workspaces shares no directory with its workers. Each has a clone of the repository: it asks the
// coordinator for the commit that an attempt begins at, and sends what the attempt did with the report of its end. Both
// go as packs of the objects that the other does not have. The base of a job stays on the worker, for the next job of
// the repository.

const (
	smallAnswer = 32 << 10  // bytes of a pack in an answer, which is kept for some time
	smallReport = 128 << 10 // bytes of one in a report
	mostStored  = 4 << 30   // bytes of the repositories that a worker keeps
)

// Isolate implements mapreduce.Fleet.
func (c *coordinator) Isolate(k mapreduce.Clones) { c.clones = k }

// pack returns objects for a worker that is to begin an attempt. It gets no commit but those that the attempt begins
// at.
func (c *coordinator) pack(a *agent.Attempt, wanted, have []string) (any, error) {
	if c.clones == nil {
		return nil, errNotOut
	}
	var base string
	c.turn(func(s *jobState) { base = s.shared.base })
	for _, want := range wanted {
		if want == "" || want != base && want != a.Base && want != a.Resolve {
			return nil, fmt.Errorf("%q is not a commit of the attempt", want)
		}
	}
	c.slow.packing.Lock()
	defer c.slow.packing.Unlock()
	about := strings.Join(wanted, " ") + "\x00" + strings.Join(have, " ")
	if p := c.slow.packs[about]; p != nil {
		if is, err := c.sumOf(c.life, p.Object); err != nil || is != "" {
			return p, err
		}
		delete(c.slow.packs, about)
	}
	object := c.key + "/pack-" + newInstance()
	p, err := c.keepPack(c.life, c.c.TempDir, object, smallAnswer,
		func(to *os.File) error { return c.clones.Pack(c.life, wanted, have, to) })
	if errors.Is(err, errTooLarge) {
		c.stop(errors.New("the repository exceeds 1 GiB and cannot be sent to workers: run prodigy in a shallow " +
			"clone (git clone --depth 1)"))
	}
	if err == nil && p.Object != "" {
		c.slow.packs[about] = p
	}
	return p, err
}

// takeWork takes what an attempt has done into the repository of the job.
func (c *coordinator) takeWork(f *flight, p *fleet.File, o *agent.Outcome) error {
	if c.clones == nil || p == nil {
		o.Commit = ""
		return &agent.LostError{Reason: "its worker did not send its commits"}
	}
	err := c.fetchPack(c.life, c.c.TempDir, p,
		func(pack *os.File) error { return c.clones.Import(c.life, f.Attempt, o, pack) })
	if unfetched, is := errors.AsType[*packError](err); is && c.life.Err() == nil {
		reason := "its commits could not be fetched: " + inWords(unfetched.err).Error()
		return &agent.LostError{Reason: reason, Unbegun: true}
	}
	return err
}

// jobSpace are the workspaces of a job on a worker.
type jobSpace struct {
	*gitspace.Space
	seed     gitspace.Seed
	bringing sync.Mutex // held while objects are fetched
}

// workspaces returns those of a job, or nil if it has none. It is called with j.asking held.
func (w *worker) workspaces(ctx context.Context, j *workerJob, entry fleet.Job) (*jobSpace, error) {
	if entry.Seed == "" {
		return nil, nil
	}
	var s *jobSpace
	w.turn(func(*workerState) { s = j.spaces[entry.Seed] })
	if s != nil {
		return s, nil
	}
	var data json.RawMessage
	if err := w.ask(ctx, j, callShared, 0, callArgs{Name: entry.Seed}, &data); err != nil {
		return nil, err
	}
	seed, err := gitspace.ParseSeed(data)
	if err != nil {
		return nil, err
	}
	s = &jobSpace{seed: seed}
	w.storing.Lock()
	defer w.storing.Unlock()
	stores := filepath.Join(w.o.Home, "repositories")
	err = pruneOldest(stores, mostStored, w.usesStore)
	if err == nil {
		err = gitspace.RepackStores(ctx, stores, w.o.Environ, w.usesStore)
	}
	if err != nil {
		w.say("cached repositories: %v", err)
	}
	dir := filepath.Join(w.o.Home, "jobs", j.key, newInstance())
	s.Space, err = gitspace.OpenClone(ctx, gitspace.Config{
		JobID: entry.ID, GitDir: filepath.Join(dir, "git"), WorkDir: filepath.Join(dir, "work"), Environ: w.o.Environ,
		Slots: w.o.Slots, Register: w.register,
		Run:  w.setUp,
		Emit: func(slot int, e events.Event) { w.tell(j, slot, e) },
	}, seed, filepath.Join(stores, seed.Store))
	if err != nil {
		return nil, err
	}
	w.turn(func(*workerState) { j.spaces[entry.Seed] = s })
	return s, nil
}

// usesStore reports whether a job here has its objects in a store.
func (w *worker) usesStore(name string) (uses bool) {
	w.turn(func(s *workerState) {
		jobs := slices.Collect(maps.Values(s.jobs))
		for _, h := range s.held { // of a job that is gone
			jobs = append(jobs, h.job)
		}
		for _, j := range jobs {
			for _, space := range j.spaces {
				uses = uses || space.seed.Store == name
			}
		}
	})
	return uses
}

// tell reports an event about a slot with the attempt that has it.
func (w *worker) tell(j *workerJob, slot int, e events.Event) {
	var of *heldAttempt
	w.turn(func(s *workerState) {
		for _, h := range s.held {
			if h.job == j && h.slot == slot {
				of = h
			}
		}
	})
	line, err := lineOf(j.ID, e)
	if of != nil && err == nil {
		w.report(of, fleet.Report{Kind: fleet.Event, Event: line})
	}
}

// setUp makes a new workspace ready, with the steps of the workflow.
func (w *worker) setUp(ctx context.Context, _, dir, base string, slot int) (agent.Outcome, error) {
	h, ok := ctx.Value(heldKey{}).(*heldAttempt)
	if !ok || h.x.spec.Setup == nil {
		return agent.Outcome{}, errors.New("no steps to prepare a workspace")
	}
	a := *h.x.spec.Setup
	a.ID, a.Dir, a.Base, a.Worker, a.Token = a.JobID+"/"+a.Phase+"/"+filepath.Base(dir), dir, base, slot, h.token
	a.Env = slices.Clone(a.Env)
	for i := range a.Env[:min(1, len(a.Env))] {
		a.Env[i].Value.Value = h.checkout
	}
	a.SetSpec()
	return h.x.Execute(ctx, a)
}

// bring fetches the commits that an attempt begins at.
func (w *worker) bring(ctx context.Context, h *heldAttempt, s *jobSpace, a agent.Attempt) error {
	s.bringing.Lock()
	defer s.bringing.Unlock()
	for range 5 {
		if err := w.prepares(h, true); err != nil {
			return err
		}
		want, have, err := s.Lacks(ctx, gitspace.BeganAt(&a))
		if err != nil || len(want) == 0 {
			return err
		}
		var p fleet.File
		if err := w.ask(ctx, h.job, callPack, h.token, callArgs{Want: want, Have: have}, &p); err != nil {
			return err
		}
		err = w.fetchPack(ctx, w.temp, &p, func(pack *os.File) error {
			if slices.Contains(want, s.seed.Record.Base) {
				w.storing.Lock()
				defer w.storing.Unlock()
			}
			return s.Take(ctx, want, have, pack)
		})
		if err != nil && !errors.Is(err, errObjectGone) { // else it is asked for again
			return err
		}
	}
	return errors.New("the coordinator did not send the requested commits")
}

// prepares notes whether an attempt waits for what it begins at: a worker that is to end does not finish such a one.
func (w *worker) prepares(h *heldAttempt, does bool) (err error) {
	w.turn(func(s *workerState) {
		if h.preparing = does; s.stopping && does {
			err = errGivenBack
		}
	})
	return err
}

// executeIsolated runs an attempt in the workspace of its slot, and returns what it did as a pack.
func (w *worker) executeIsolated(ctx context.Context, h *heldAttempt, s *jobSpace, a agent.Attempt) (o agent.Outcome,
	p *fleet.File, err error,
) {
	err = w.bring(ctx, h, s, a)
	_ = w.prepares(h, false)
	if err == nil {
		o, err = s.Execute(ctx, h.x, a)
	}
	if err == nil && o.Commit != "" {
		p, err = w.export(ctx, h, s, &a, &o)
	}
	if err != nil && ctx.Err() != nil { // what git says of that does not matter
		err = context.Cause(ctx)
	}
	return o, p, err
}

// export sends what an attempt did, however long the broker is away.
func (w *worker) export(ctx context.Context, h *heldAttempt, s *jobSpace, a *agent.Attempt,
	o *agent.Outcome,
) (p *fleet.File, err error) {
	ctx, cancel := gitspace.Lasting(ctx)
	defer cancel()
	// each try with another name: a worker has no right to purge what it has sent
	err = w.untilKept(ctx, func(n int) (err error) {
		object := fmt.Sprintf("%s/work-%d-%s-%d", h.job.key, h.token, w.node.Instance, n)
		p, err = w.keepPack(ctx, w.temp, object, smallReport,
			func(to *os.File) error { return s.Export(ctx, a, o.Commit, to) })
		return err
	})
	if errors.Is(err, errTooLarge) {
		o.Commit = ""
		if o.Failure == nil {
			o.Failure = &agent.Failure{Failure: retry.Failure{
				Type: retry.TypeWorkspace, Message: "its changes exceed 1 GiB", ExitCode: o.ExitCode,
			}}
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.bringing.Lock()
	defer s.bringing.Unlock()
	s.Knows(o.Commit)
	return p, nil
}
