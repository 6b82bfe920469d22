// Package mapreduce runs a job: phases, the pool, the loop that owns the job.
//
// One goroutine owns what package job knows of the job, and is the only one that records events; agents own nothing
// and send it messages.
//
// All that a run holds is in owner.go, and all that the map phase holds while it is at work in pool.go. The other files
// are what is done with that, each about one thing.
package mapreduce

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/reuse"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// Run runs a new job from a parsed workflow and the source it was parsed from. The error is a
// *workflow.InvalidError when nothing was run, else for what prodigy itself could not do; a job that fails is a
// Result.
func Run(ctx context.Context, c Config, w *workflow.Workflow, source []byte) (Result, error) {
	j, err := createJob(ctx, c, w, source)
	if err != nil {
		return Result{}, err
	}
	v, err := j.run(ctx)
	return j.finish(ctx, v, err)
}

// Resume continues a job where its log ends. It runs nothing if the job has completed.
func Resume(ctx context.Context, c Config, place jobs.Job) (Result, error) {
	j, err := openJob(c, place)
	if err != nil {
		return Result{}, err
	}
	if err := cmp.Or(j.refuseCancelled(), j.refuseUnproven()); err != nil {
		return j.abandon(err)
	}
	if j.Fold.Ended == job.Completed {
		return j.finish(ctx, Result{State: job.Completed, Reason: "the job had already completed; nothing to do"}, nil)
	}
	mapped := j.Fold.Phases["map"]
	if err := j.beginAgain(ctx, mapped == nil || !mapped.Completed); err != nil {
		return j.abandon(err)
	}
	if reason, stopped := j.Fold.Policy.Stop(); stopped {
		j.notice("the error policy had stopped the job: " + reason + "; its limits count from zero again")
	}
	if err := j.recordResumed(ctx, events.ForResume, j.Fold.Reducing); err != nil {
		return j.abandon(err)
	}
	j.quarantine()
	v, err := j.run(ctx)
	return j.finish(ctx, v, err)
}

// RetryDead runs the chosen dead letters of a job again, each as a new agent; with reduce, or if the workflow
// says so, it then runs the reduce phase again over all results. When none is chosen and there is no reduce to
// run, the job is left alone and the Result has no State.
func RetryDead(ctx context.Context, c Config, place jobs.Job, choose Chooser, reduce bool) (Result, error) {
	j, err := openJob(c, place)
	if err != nil {
		return Result{}, err
	}
	if err := j.refuseCancelled(); err != nil {
		return j.abandon(err)
	}
	ids, err := j.chosen(choose)
	held := j.reduceHeld()
	reduce = reduce || j.workflow.ReduceOnRetry && !held && (len(ids) > 0 || j.Fold.ReduceStale)
	if err == nil && len(ids) == 0 && !reduce {
		err = j.RefreshResults()
		return Result{Job: place, ReduceStale: j.Fold.ReduceStale, ReduceHeld: held}, errors.Join(err, j.close())
	}
	if err == nil {
		err = j.beginAgain(ctx, len(ids) > 0)
	}
	var work *gitspace.Work
	if err == nil && c.With != "" {
		work, err = j.adopt(ctx, ids)
	}
	if err != nil {
		return j.abandon(err)
	}
	v, err := j.retryDead(ctx, ids, reduce, held, work)
	return j.finish(ctx, v, err)
}

// abandon closes a job of which nothing was run.
func (j *owner) abandon(err error) (Result, error) {
	return Result{Job: j.place}, errors.Join(err, j.close())
}

// refuseCancelled returns an error for a job that was cancelled, unless it is to go on all the same.
func (j *owner) refuseCancelled() error {
	if j.Fold.Cancelled == "" || j.config.Force {
		return nil
	}
	return job.Refusef("job %s was cancelled by %s: prodigy resume %s --force resumes it anyway", j.place.ID, j.Fold.Cancelled, j.place.ID)
}

// createJob checks the workflow, creates the directories of a new job and begins its log.
func createJob(ctx context.Context, c Config, w *workflow.Workflow, source []byte) (*owner, error) {
	if _, err := Check(c, w); err != nil {
		return nil, err
	}
	parallel, err := maxParallel(c, w)
	if err != nil {
		return nil, err
	}
	var start gitspace.Start
	if w.Workspace.Isolated() {
		if start, err = StartOf(ctx, c, w, parallel); err != nil {
			return nil, err
		}
	}
	earlier, note, err := reuse.Compare(c.Reuse(), w) // what cannot be taken over is known before anything is there
	if err != nil {
		return nil, err
	}
	earlier.Close()
	if note != "" && c.Notice != nil {
		c.Notice(note)
	}
	input, err := reuse.ChosenInput(c.Reuse(), w)
	if err != nil {
		return nil, err
	}
	shared, err := openShared(ctx, c, w, nil)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	place, err := c.Home.Create(jobs.Repo(c.Dir), string(w.Mode), now)
	if err != nil {
		return nil, errors.Join(err, shared.close())
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64() >> 11 // exact as a JSON number
	}
	j := &owner{config: c, workflow: w, place: place, parallel: parallel, shared: shared}
	j.elastic = c.OnFleet && OpenSlots(c, w)
	j.meta = jobs.Meta{
		JobID: place.ID, Workflow: w.Name, WorkflowPath: process.Resolve(c.Dir, w.File), Mode: string(w.Mode),
		Dir: c.Dir, Started: now,
		Version: c.Version, Seed: c.Seed, MaxParallel: parallel, OpenSlots: OpenSlots(c, w),
		MaxDelayMS: c.MaxDelay.Milliseconds(), Args: maskedAll(c.Settings, os.Args[1:]),
		Profile: c.Settings.Profile, Values: c.Values, Params: paramsOf(c.Settings), Simulated: c.Simulate != nil,
	}
	if w.Workspace.Isolated() {
		j.meta.Workspace = string(w.Workspace.Mode)
		j.meta.WorkDir = filepath.Join(workRoot(c), place.Repo, place.ID)
	}
	j.meta.Since, j.meta.Input, j.meta.TraceParent = earlier.Since(), input, traceParent(c.Environ)
	if shared != nil {
		j.meta.Pool = &c.Pool
	}
	if w.File == "" {
		j.meta.WorkflowPath = "" // it was made from a command line
	}
	redacted := w.Redact(source)
	j.meta.Digests, j.meta.Shown = []string{jobs.Digest(redacted)}, shownText(c.Settings, redacted)
	err = j.create(redacted)
	if err == nil {
		err = j.begin(ctx, start)
	}
	if err != nil {
		return nil, fmt.Errorf("create the job: %w",
			errors.Join(err, j.close(), RemoveWorkspaces(context.WithoutCancel(ctx), j.place, c.Environ),
				j.place.Discard()))
	}
	return j, nil
}

// begin records the start of the job, and then opens what it runs with.
func (j *owner) begin(ctx context.Context, start gitspace.Start) error {
	slots := j.parallel
	if j.elastic {
		slots = 0 // no worker is known yet
	}
	j.runSeq = j.Record(events.JobStarted{
		Workflow: j.workflow.Name, Mode: string(j.workflow.Mode), MaxParallel: slots, Seed: j.meta.Seed,
		Version: j.config.Version,
		Base:    start.Base, TargetBranch: start.Branch, Checkout: start.Checkout, MaxCostUSD: j.config.maxCost(),
		InputJob: j.inputJob(),
		Rates:    startRates(j.workflow), Broker: j.config.Broker,
	}).Seq
	if j.isolated() { // or the job could die and leave workspaces that no record tells of
		if err := j.Log.Flush(); err != nil {
			return err
		}
	}
	return j.equip(ctx, start)
}

// beginAgain opens what the job runs with, for another run. items says whether that has items to run. A job
// with workspaces that died before its first record begins as a new one.
func (j *owner) beginAgain(ctx context.Context, items bool) error {
	if n := j.onFleet(); (n > 0 || items && j.Fold.Broker != "") && !j.config.OnFleet && !j.config.Abandon {
		return &OnFleetError{JobID: j.place.ID, Broker: j.Fold.Broker, Attempts: n}
	}
	if !j.isolated() || j.Fold.Seq > 0 {
		return j.equip(ctx, gitspace.Start{})
	}
	c := j.config
	c.AllowDirty = true // what it was then cannot be known
	start, err := StartOf(ctx, c, j.workflow, j.parallel)
	if err != nil {
		return err
	}
	return j.begin(ctx, start)
}

// shownText returns source without secrets, or nothing if none stands in it.
func shownText(s settings.Settings, source []byte) string {
	if text := s.Mask.Text(string(source)); text != string(source) {
		return text
	}
	return ""
}

func maskedAll(s settings.Settings, texts []string) []string {
	masked := make([]string, len(texts))
	for i, text := range texts {
		masked[i] = s.Mask.Text(text)
	}
	return masked
}

// traceParent returns the span that the environment names, or nothing.
func traceParent(environ []string) string {
	text := ""
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, events.TraceVar+"="); ok {
			text = value
		}
	}
	if _, ok := events.ParseTrace(text); !ok {
		return ""
	}
	return text
}

// paramsOf returns the parameters that have values.
func paramsOf(s settings.Settings) map[string]json.RawMessage {
	params := map[string]json.RawMessage{}
	for _, arg := range s.Args {
		if arg.Value != nil {
			params[arg.Name] = arg.Value
		}
	}
	return params
}

// create writes what was run, and opens the log and the stores.
func (j *owner) create(source []byte) (err error) {
	if j.lock, err = j.place.Lock(); err != nil {
		return err
	}
	if err := jobs.WriteFile(j.place.WorkflowFile(), source); err != nil {
		return fmt.Errorf("record the workflow: %w", err)
	}
	if err := j.place.WriteMeta(j.meta); err != nil {
		return err
	}
	if j.Opened, err = job.Create(j.place, j.options()); err != nil {
		return err
	}
	return j.start()
}

// options says how the files of the job are opened.
func (j *owner) options() job.Options {
	return job.Options{
		Workflow: j.workflow.Name, Items: j.workflow.Mode == workflow.MapReduce, Policy: j.workflow.ErrorPolicy,
		Mask: j.config.Settings.Mask, LogConfig: j.config.LogConfig, MaxRetries: j.config.MaxRetries,
		Observe: j.config.Observe, Notice: j.notice,
	}
}

// openJob opens an existing job for another run.
func openJob(c Config, place jobs.Job) (*owner, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return nil, job.Unusable(place, err)
	}
	if meta.Simulated {
		return nil, job.Refusef("job %s was simulated: nothing of it has run, so that nothing of it can go on", place.ID)
	}
	source, err := place.ReadWorkflow(meta)
	if err != nil {
		return nil, job.Unusable(place, err)
	}
	maxDelay := time.Duration(meta.MaxDelayMS) * time.Millisecond
	w, err := workflow.Parse(place.WorkflowFile(), source,
		workflow.ParseOptions{
			MaxDelay: maxDelay, Values: meta.Values,
			Workspace: workflow.WorkspaceMode(meta.Workspace),
		})
	if err != nil {
		return nil, err
	}
	w.Name = cmp.Or(meta.Workflow, w.Name) // the file has another name now
	recorded := w
	if w, err = c.Replacement.validate(c, recorded); err != nil {
		return nil, err
	}
	if c.Rate.Count > 0 && w.Map != nil {
		limited, m := *w, *w.Map
		m.Rate, limited.Map, limited.ErrorPolicy.Rate = workflow.Rate{Limit: c.Rate}, &m, c.Rate
		w = &limited
	}
	c.Dir, c.MaxDelay, c.Seed, c.Stdin = meta.Dir, maxDelay, meta.Seed, nil
	j := &owner{
		config: c, workflow: w, place: place, meta: meta, parallel: meta.MaxParallel,
	}
	j.elastic = c.OnFleet && meta.OpenSlots && c.MaxParallel == 0
	if c.MaxParallel > 0 {
		j.parallel = c.MaxParallel
	}
	err = j.open()
	if err == nil {
		err = j.replaceWorkflow(recorded)
	}
	if err == nil {
		j.shared, err = openShared(context.Background(), c, w, meta.Pool)
	}
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// open locks the job and opens it where its log ends.
func (j *owner) open() (err error) {
	if j.lock, err = j.place.Lock(); err != nil {
		return err
	}
	if err := j.endLeftovers(); err != nil {
		return err
	}
	if j.Opened, err = job.Open(j.place, j.options()); err != nil {
		return err
	}
	if j.config.MaxParallel == 0 && j.Fold.Slots > 0 {
		j.parallel = j.Fold.Slots
	}
	j.noteDeath()
	if j.config.Earlier != nil {
		j.config.Earlier(Earlier{
			j.Fold.Policy.Metrics(), j.Fold.Spent.Total.Clone(), j.Fold.MaxCost,
			slices.Collect(maps.Values(j.Fold.Quotas)),
		})
	}
	return j.start()
}

// endLeftovers kills the commands that a killed run has left, and removes its private files. It comes first,
// before anything else can fail.
func (j *owner) endLeftovers() error {
	n, err := process.EndLeftovers(context.Background(), j.place.RegisterFile(), j.config.Grace)
	if n > 0 {
		j.notice(fmt.Sprintf("commands of the run before that were still running and have been ended: %d", n))
	}
	if removed := os.RemoveAll(j.place.TempDir()); removed != nil {
		err = errors.Join(err, fmt.Errorf("remove private files: %w", removed))
	}
	return err
}

// makeTemp makes the directory of the private files of this run. Its name is unique, so that the watcher of a killed
// run cannot remove the files of a resume.
func (j *owner) makeTemp() (err error) {
	if err := jobs.MakeDirs(j.place.TempDir()); err != nil {
		return err
	}
	if j.temp, err = os.MkdirTemp(j.place.TempDir(), "run-"); err != nil {
		return fmt.Errorf("make the directory of private files: %w", err)
	}
	return nil
}

// start makes the directory of private files and the register.
func (j *owner) start() error {
	if err := errors.Join(j.makeTemp(), j.openOutputs()); err != nil {
		return err
	}
	var watcher []string
	if len(j.config.Watcher) > 0 {
		watcher = append(slices.Clip(j.config.Watcher), j.temp)
	}
	var err error
	if j.register, err = process.OpenRegister(j.place.RegisterFile(), j.config.Grace, watcher...); err != nil {
		return err
	}
	capacity := process.CapacityNow()
	if j.config.OnFleet {
		capacity.Fits, capacity.Most = maxFleetSlots, max(j.parallel, maxFleetSlots)
	}
	if j.workflow.Map != nil && capacity.Fits < j.parallel {
		j.notice(fmt.Sprintf("%s is low: going on with %s instead of %d", capacity.Limit, slots(capacity.Fits),
			j.parallel))
	}
	j.parallel = min(j.parallel, capacity.Most) // of a job that began with higher limits
	j.room.Store(int64(capacity.Fits))
	buffered := j.parallel
	if j.elastic {
		j.parallel, buffered = 1, 64 // until workers are heard of
	}
	j.inbox = make(chan message, 4*min(buffered, 1024)+16)
	j.halting, j.controls, j.closing = make(chan struct{}), make(chan controlCall), make(chan struct{})
	j.serial = j.parallel == 1 && !j.elastic
	j.fleetSlots.changed = make(chan struct{}, 1)
	if j.config.Stop == nil {
		j.config.Stop = context.Background()
	}
	return nil
}

// equip opens the workspaces and makes the executor, before anything runs. Of a new job start is what it begins with.
func (j *owner) equip(ctx context.Context, start gitspace.Start) error {
	if err := j.openWorkspaces(ctx, start); err != nil {
		return err
	}
	runner := j.config.Runner
	if runner == nil {
		runner = process.Run
	}
	build := j.config.Executor
	if build == nil {
		build = localExecutor
	}
	var err error
	if j.files, err = reuse.NewFiles(j.workflow.Map, reuse.FilesConfig{
		Dir: j.config.Dir, JobID: j.place.ID, Simulated: j.config.Simulate != nil, OnFleet: j.config.OnFleet,
		Sync: j.config.Durability != events.None, Notice: j.notice,
	}); err != nil {
		return err
	}
	j.host = &host{job: j}
	j.noticePauses()
	j.host.starts.restore(j.config.Agents, j.Fold.Quotas, j.budget(), j.Fold.Spent)
	commands := int(j.room.Load())
	if j.config.OnFleet { // those of the items run elsewhere
		commands = process.CapacityNow().Fits
	}
	j.executor = build(agent.Config{
		Run: runner, Claude: j.config.Claude, Agents: j.config.Agents, Seed: j.meta.Seed, Grace: j.config.Grace,
		LogSteps: j.config.LogSteps,
		TempDir:  j.temp, Environ: j.config.Environ, Places: j.places, Secrets: j.config.Settings.Secrets,
		Mask:        j.config.Settings.Mask,
		MaxCommands: commands, Echo: j.config.Echo, Simulate: j.config.Simulate,
	}, j.host)
	j.returned = func(a *agent.Attempt, o agent.Outcome, err error) {
		j.take(&attemptEnd{attempt: a, outcome: o, err: err, ack: j.newAck(a)})
	}
	if j.fleet, _ = j.executor.(Fleet); j.fleet != nil {
		j.fleet.OnSlots(j.fleetSlots.set)
	}
	if space, ok := j.space.(cloner); ok && j.fleet != nil {
		j.fleet.Isolate(clones{space, j})
	}
	return nil
}

// run runs what is left of the job's phases.
func (j *owner) run(ctx context.Context) (Result, error) {
	j.listen()
	if j.workflow.Mode == workflow.Standard {
		v, err := j.runPhase(ctx, "", &workflow.Phase{Commands: j.workflow.Commands}, nil)
		if err != nil || v.State != job.Completed || j.workflow.Merge == nil {
			return v, err
		}
		return j.runPhase(ctx, "merge", j.workflow.Merge, nil)
	}
	if v, err := j.runPhase(ctx, "setup", j.workflow.Setup, nil); err != nil || v.State != job.Completed {
		return v, err
	}
	if v, err := j.runMap(ctx); err != nil || v.State != job.Completed {
		return v, err
	}
	return j.runLast(ctx)
}

// runLast runs the phases after the map phase. It runs none if no items were selected.
func (j *owner) runLast(ctx context.Context) (Result, error) {
	if j.Fold.Total == 0 {
		return Result{State: job.Completed, Reason: "no items were selected"}, nil
	}
	for name, p := range j.lastPhases() {
		if p == nil {
			continue
		}
		if m := j.Fold.Policy.Metrics(); !j.Fold.Reducing && !j.reduced() {
			if unmet := j.workflow.ReduceWhen.Unmet(m.Successful, m.TotalItems); unmet != "" {
				j.Record(events.PhaseSkipped{Phase: name, Reason: unmet})
				return Result{State: job.Completed, Reason: name + " was not run: " + unmet, ReduceHeld: true}, nil
			}
		}
		result, err := j.mapResult()
		if err != nil {
			return Result{}, err
		}
		if v, err := j.runPhase(ctx, name, p, result); err != nil || v.State != job.Completed {
			return v, err
		}
	}
	return Result{State: job.Completed}, nil
}

// reduced reports whether a phase after the map phase has begun.
func (j *owner) reduced() bool {
	return j.Fold.Phase("reduce").Started || j.Fold.Phase("merge").Started
}

// reduceHeld reports whether the job has completed without the phases after the map phase, since their
// condition did not hold.
func (j *owner) reduceHeld() bool {
	return j.workflow.ReduceWhen != nil && j.Fold.Ended == job.Completed && j.Fold.Total > 0 && !j.reduced()
}

// lastPhases yields the names and steps of the phases after the map phase, in order.
func (j *owner) lastPhases() iter.Seq2[string, *workflow.Phase] {
	return func(yield func(string, *workflow.Phase) bool) {
		_ = yield("reduce", j.workflow.Reduce) && yield("merge", j.workflow.Merge)
	}
}

// retryDead runs dead letters again, and the phases after the map phase if they are asked for. Those that the
// run before held back are asked for when their condition holds now. Work takes the place of what an agent
// would do for the one item.
func (j *owner) retryDead(ctx context.Context, itemIDs []string, reduce, held bool, work *gitspace.Work) (Result,
	error,
) {
	reduce = reduce || j.Fold.Reducing
	if err := j.recordResumed(ctx, events.ForDeadLetters, reduce); err != nil {
		return Result{}, err
	}
	indexes, tried := make([]int, 0, len(itemIDs)), make(map[int]int, len(itemIDs))
	for _, id := range itemIDs {
		e, ok := j.Queue.Get(id)
		_, attached := j.Fold.Running.Get(e.ItemIndex)
		_, merging := j.Fold.Merging[e.ItemIndex]
		switch {
		case merging: // its work is merged first of all
			tried[e.ItemIndex] = j.Fold.LastTry[e.ItemIndex]
		case ok && !attached:
			indexes = append(indexes, e.ItemIndex)
			tried[e.ItemIndex] = j.Fold.LastTry[e.ItemIndex]
		}
	}
	if slices.Sort(indexes); work != nil {
		j.recordAdopted(*work)
		indexes = nil
	}
	j.listen()
	v, stopped, err := j.runCanary(ctx, indexes)
	if err != nil {
		return v, err
	}
	v.Reprocessed, v.Recovered = j.Fold.Reprocessed(tried)
	j.Record(events.DLQItemsReprocessed{Succeeded: v.Recovered, Failed: v.Reprocessed - v.Recovered})
	if v.State != job.Completed {
		return v, nil
	}
	if pending := j.Pending(); pending > 0 || !j.Fold.Selected {
		v.State, v.Reason = job.Paused, "items that never ran are still pending"
		if reduce {
			v.Reason += ", so that reduce did not run: a resume runs them, and then reduce"
		}
		return v, nil
	}
	if stopped && (reduce || held) {
		v.State, v.Reason = job.Paused, "the first dead letters failed again, so that the others and reduce did not run: a resume runs reduce"
		return v, nil
	}
	if !reduce && !held {
		return v, nil
	}
	last, err := j.runLast(ctx)
	last.Reprocessed, last.Recovered = v.Reprocessed, v.Recovered
	return last, err
}

// runCanary runs dead letters again: first as many as Config.Canary says, and the others only if none of these
// failed. It reports whether it stopped at that.
func (j *owner) runCanary(ctx context.Context, indexes []int) (v Result, stopped bool, err error) {
	first, rest := indexes, []int(nil)
	if n := j.config.Canary; n > 0 && n < len(indexes) {
		first, rest = indexes[:n], indexes[n:]
	}
	v, err = j.runPool(ctx, j.listed(first), nil, nil)
	if err != nil || v.State != job.Completed || len(rest) == 0 {
		return v, false, err
	}
	failed := 0
	for _, index := range first {
		if j.Fold.Dead(index) {
			failed++
		}
	}
	if failed > 0 {
		j.notice(fmt.Sprintf("canary: %d of %d failed again, so that the other %d are not run", failed, len(first),
			len(rest)))
		return v, true, nil
	}
	v, err = j.runPool(ctx, j.listed(rest), nil, nil)
	return v, false, err
}

// recordResumed records how far the job had come, and whether the phases after the map phase run again.
func (j *owner) recordResumed(ctx context.Context, reason string, reduce bool) error {
	attached, err := j.attached(ctx)
	if err != nil {
		return fmt.Errorf("ask which attempts still run: %w", err)
	}
	if err := j.dropInterrupted(attached); err != nil {
		return err
	}
	phase := j.Fold.Unfinished()
	e := events.JobResumed{
		Reason: reason, Completed: j.Fold.Status.Settled(), Pending: j.Pending() + j.Fold.Unmerged(),
		InFlight: j.Fold.InFlight(), Waiting: j.Fold.Delayed(),
		Phase: phase, Reduce: reduce, Attached: attached, Died: j.died, MaxCostUSD: j.config.maxCost(),
		Accepted: j.config.Accept, Set: j.config.Set,
		Rates: startRates(j.workflow), Broker: j.broker(),
	}
	if p := j.Fold.Phases[phase]; p != nil {
		e.StepsDone = len(p.Steps)
	}
	if j.space != nil && !slices.Equal(j.space.Checkout(), j.Fold.Checkout) {
		e.Checkout = j.space.Checkout()
	}
	j.runSeq = j.Record(e).Seq
	if j.rescaled {
		n := j.meta.MaxParallel
		if j.elastic {
			n = 0 // as many as there are workers for
		}
		j.Record(events.ScaleRequested{MaxParallel: n, Was: j.Fold.Slots, By: "the workflow"})
	}
	return nil
}

// dropInterrupted does what the workflow says with the files of the attempts that ran when the run before was killed.
func (j *owner) dropInterrupted(attached []int) error {
	if j.fleet != nil || !j.files.Drops() {
		return nil
	}
	for index, f := range j.Fold.Running.All() {
		if f.Fleet || slices.Contains(attached, index) || index >= j.Store.Len() {
			continue
		}
		it, err := j.Store.At(index)
		if err != nil {
			return fmt.Errorf("read the recorded item: %w", err)
		}
		j.files.DropInterrupted(it, f.Began)
	}
	return nil
}

// attached returns the indexes of the items in flight whose attempts the executor still has.
func (j *owner) attached(ctx context.Context) ([]int, error) {
	indexes := make(map[string]int, len(j.Fold.Running))
	for index, f := range j.Fold.Running.All() {
		if f.Fleet == (j.fleet != nil) && index < j.Store.Len() { // a power loss may have taken it: the selection will bring it again
			indexes[j.attemptID(f.ID, f.Number)] = index
		}
	}
	if len(indexes) == 0 {
		return nil, nil
	}
	held, err := j.executor.Holds(ctx, slices.Sorted(maps.Keys(indexes)))
	if err != nil {
		return nil, err
	}
	var attached []int
	for _, id := range held {
		if index, ok := indexes[id]; ok {
			attached = append(attached, index)
		}
	}
	slices.Sort(attached)
	return slices.Compact(attached), nil
}

// finish records the result of the run, closes everything and returns the Result.
func (j *owner) finish(ctx context.Context, v Result, err error) (Result, error) {
	close(j.closing)
	var d delivered
	if err == nil {
		d, v = j.deliver(context.WithoutCancel(ctx), v)
	}
	result := v
	result.Job, result.Metrics, result.Spent = j.place, j.Fold.Policy.Metrics(), j.Fold.Spent.Total.Clone()
	result.Reason = j.config.Settings.Mask.Text(v.Reason)
	result.ReduceStale = v.State == job.Completed && j.Fold.ReduceStale
	if j.Fold.Ended != "" {
		result.Duration = j.Fold.Duration(j.Fold.Last)
		if err == nil {
			err = j.RefreshResults()
		}
	} else {
		if err == nil && v.State == job.Completed && j.Fold.Selected {
			err = j.MakeResults()
		}
		if err == nil && v.Cause == nil { // what kept prodigy from going on, a full disk for one, would keep it from this
			err = errors.Join(j.RefreshResults(), j.refreshIndex())
		}
		if result.Duration = j.Fold.Duration(time.Now()); err == nil {
			j.recordEnd(result, d)
		}
	}
	if j.space != nil {
		result.Merge = &MergeResult{
			Base: j.Fold.Base, Head: d.head, Branch: d.Branch, Hidden: d.Hidden, Into: d.into,
			Merged: j.Fold.Merged, Merging: len(j.Fold.Merging),
		}
	}
	if _, statErr := os.Stat(j.place.ResultsFile()); statErr == nil {
		result.Results = j.place.ResultsFile()
	}
	_ = j.agents.Wait() // they tell how they ended by their messages
	if closed := j.close(); err == nil {
		err = closed
	}
	if err != nil {
		result.State, result.Reason, result.Cause = job.Failed, err.Error(), err
		result.countKept()
	}
	return result, err
}

// countKept takes the counts from the log: after an error of prodigy's own not all that was done is in it. When
// it cannot be read, nothing is known.
func (r *Result) countKept() {
	kept, err := job.Summarize(r.Job)
	if err != nil {
		r.Unknown, r.Metrics, r.Results = true, errorpolicy.New(errorpolicy.Policy{}).Metrics(), ""
		return
	}
	r.Metrics, r.Duration, r.Spent = kept.Metrics, kept.Duration, kept.Spent
}

// refreshIndex makes the index of the results, if a later job will ask for it.
func (j *owner) refreshIndex() error {
	return reuse.RefreshIndex(j.place, j.Opened, j.workflow.Map, j.meta.Since != nil)
}

// inputJob returns the id of the job that is the input, or "".
func (j *owner) inputJob() string {
	if j.meta.Input == nil {
		return ""
	}
	return j.meta.Input.JobID
}

// maxCost returns what the command line says that agents may cost, or nil.
func (c Config) maxCost() *limit.USD {
	if c.MaxCost == 0 {
		return nil
	}
	return &c.MaxCost
}

// spent returns what agents have used, or nil if there were none.
func (j *owner) spent() *limit.Total {
	if j.Fold.Spent.Total.Agents == 0 {
		return nil
	}
	return new(j.Fold.Spent.Total.Clone())
}

func (j *owner) recordEnd(r Result, d delivered) {
	if batch := j.Fold.Policy.Remainder(); len(batch) > 0 {
		j.Record(events.ErrorBatch{Size: len(batch), Errors: batch})
	}
	switch r.State {
	case job.Completed:
		j.Record(events.JobCompleted{
			DurationMS: events.Millis(r.Duration), Metrics: r.Metrics, Reason: r.Reason,
			ReduceStale: r.ReduceStale, ReduceHeld: r.ReduceHeld,
			Head: d.head, Branch: d.Branch, Into: d.into, Spent: j.spent(),
		})
	case job.Failed:
		j.Record(events.JobFailed{
			DurationMS: events.Millis(r.Duration), Metrics: r.Metrics, Reason: r.Reason,
			Spent: j.spent(), InputGone: errors.Is(r.Cause, errInputGone),
		})
	case job.Cancelled:
		j.Record(events.JobCancelled{
			DurationMS: events.Millis(r.Duration), Metrics: r.Metrics, Reason: r.Reason,
			Spent: j.spent(),
		})
	case job.Paused:
		j.Record(events.JobPaused{Reason: r.Reason, Unproven: r.Unproven})
	default:
		panic("BUG: a run ended in no state: " + strconv.Quote(string(r.State)))
	}
}

// close closes what is open, the log first, so that the projections get its last records. The lock goes last.
func (j *owner) close() error {
	errs := []error{j.printed.store.Close(), j.Opened.Close()} // in this order: the log names what is in the outputs
	if j.unlisten != nil {                                     // after the log, whose end has let those go on who wait for an answer
		errs = append(errs, j.unlisten())
	}
	if j.reuse != nil {
		j.reuse.Close()
	}
	errs = append(errs, j.shared.close())
	if j.register != nil {
		errs = append(errs, j.register.Close(), os.RemoveAll(j.place.TempDir()))
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Unlock())
	}
	return errors.Join(errs...)
}
