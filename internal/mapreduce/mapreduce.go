// Package mapreduce runs a job: phases, the pool, the loop that owns the state, resume.
//
// A job is a fold over its event log. One goroutine owns the state and is the only one that changes it, through
// state.apply, live and on replay alike; agents own nothing and send it messages.
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
	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/fingerprint"
	"prodigy/internal/gitspace"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/settings"
	"prodigy/internal/spend"
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
	if err := j.refuseCancelled(); err != nil {
		return Result{Job: place}, errors.Join(err, j.close())
	}
	if err := j.refuseUnproven(); err != nil {
		return Result{Job: place}, errors.Join(err, j.close())
	}
	if j.state.Ended == Completed {
		return j.finish(ctx, runResult{state: Completed, reason: "the job had completed before; nothing was run"}, nil)
	}
	mapped := j.state.Phases["map"]
	if err := j.beginAgain(ctx, mapped == nil || !mapped.Completed); err != nil {
		return Result{Job: place}, errors.Join(err, j.close())
	}
	if reason, stopped := j.state.Policy.Stop(); stopped {
		j.notice("the error policy had stopped the job: " + reason + "; its limits count from zero again")
	}
	if err := j.recordResumed(ctx, events.ForResume, j.state.Reducing); err != nil {
		return Result{Job: place}, errors.Join(err, j.close())
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
		return Result{Job: place}, errors.Join(err, j.close())
	}
	ids, err := j.chosen(choose)
	held := j.reduceHeld()
	reduce = reduce || j.workflow.ReduceOnRetry && !held && (len(ids) > 0 || j.state.ReduceStale)
	if err == nil && len(ids) == 0 && !reduce {
		err = j.refreshResults()
		return Result{Job: place, ReduceStale: j.state.ReduceStale, ReduceHeld: held}, errors.Join(err, j.close())
	}
	if err == nil {
		err = j.beginAgain(ctx, len(ids) > 0)
	}
	var work *gitspace.Work
	if err == nil && c.With != "" {
		work, err = j.adopt(ctx, ids)
	}
	if err != nil {
		return Result{Job: place}, errors.Join(err, j.close())
	}
	v, err := j.retryDead(ctx, ids, reduce, held, work)
	return j.finish(ctx, v, err)
}

// refuseCancelled returns an error for a job that was cancelled, unless it is to go on all the same.
func (j *job) refuseCancelled() error {
	if j.state.Cancelled == "" || j.config.Force {
		return nil
	}
	return &RefusedError{Reason: fmt.Sprintf("job %s was cancelled by %s: prodigy resume %s --force continues it all the same", j.place.ID, j.state.Cancelled, j.place.ID)}
}

// createJob checks the workflow, creates the directories of a new job and begins its log.
func createJob(ctx context.Context, c Config, w *workflow.Workflow, source []byte) (*job, error) {
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
	since, note, err := resolveSince(c, w)
	if err != nil {
		return nil, err
	}
	if note != "" && c.Notice != nil {
		c.Notice(note)
	}
	if since != nil { // it cannot be taken from before anything is there
		files, err := newItemFiles(c.Dir, w.Map)
		if err != nil {
			return nil, &RefusedError{Reason: err.Error()}
		}
		r, err := newReuse(c, w, *since, fingerprint.Job{}, files)
		if err != nil {
			return nil, err
		}
		r.close()
	}
	input, err := chosenInput(c, w)
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
	j := &job{config: c, workflow: w, place: place, parallel: parallel, state: newState(w.ErrorPolicy), shared: shared}
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
	j.meta.Since, j.meta.Input, j.meta.TraceParent = since, input, traceParent(c.Environ)
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
func (j *job) begin(ctx context.Context, start gitspace.Start) error {
	slots := j.parallel
	if j.elastic {
		slots = 0 // no worker is known yet
	}
	j.runSeq = j.record(events.JobStarted{
		Workflow: j.workflow.Name, Mode: string(j.workflow.Mode), MaxParallel: slots, Seed: j.meta.Seed,
		Version: j.config.Version,
		Base:    start.Base, TargetBranch: start.Branch, Checkout: start.Checkout, MaxCostUSD: j.config.maxCost(),
		InputJob: j.inputJob(),
		Rates:    startRates(j.workflow), Broker: j.config.Broker,
	}).Seq
	if j.isolated() { // or the job could die and leave workspaces that no record tells of
		if err := j.log.Flush(); err != nil {
			return err
		}
	}
	return j.equip(ctx, start)
}

// beginAgain opens what the job runs with, for another run. items says whether that has items to run. A job
// with workspaces that died before its first record begins as a new one.
func (j *job) beginAgain(ctx context.Context, items bool) error {
	if n := j.onFleet(); (n > 0 || items && j.state.Broker != "") && !j.config.OnFleet && !j.config.Abandon {
		return &OnFleetError{JobID: j.place.ID, Broker: j.state.Broker, Attempts: n}
	}
	if !j.isolated() || j.state.Seq > 0 {
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
func (j *job) create(source []byte) error {
	var err error
	if j.lock, err = j.place.Lock(); err != nil {
		return err
	}
	if err := jobs.WriteFile(j.place.WorkflowFile(), source); err != nil {
		return fmt.Errorf("record the workflow: %w", err)
	}
	if err := j.place.WriteMeta(j.meta); err != nil {
		return err
	}
	if j.workflow.Mode == workflow.MapReduce {
		if j.store, err = items.CreateStore(j.place.ItemsFile()); err != nil {
			return err
		}
		if err := j.openQueue(); err != nil {
			return err
		}
	}
	j.checkpointer(newState(j.workflow.ErrorPolicy), 0)
	if j.log, err = events.Create(j.place.EventsDir(), j.place.ID, time.Now(), j.logOptions()); err != nil {
		return err
	}
	return j.start()
}

// openJob opens an existing job for another run.
func openJob(c Config, place jobs.Job) (*job, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return nil, unusable(place, err)
	}
	if meta.Simulated {
		return nil, &RefusedError{Reason: fmt.Sprintf("job %s was simulated: nothing of it has run, so that nothing of it can go on", place.ID)}
	}
	source, err := place.ReadWorkflow(meta)
	if err != nil {
		return nil, unusable(place, err)
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
	j := &job{
		config: c, workflow: w, place: place, meta: meta, parallel: meta.MaxParallel,
		state: newState(w.ErrorPolicy),
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

// open locks the job, replays its log and updates the projections.
func (j *job) open() error {
	var err error
	if j.lock, err = j.place.Lock(); err != nil {
		return err
	}
	if err := j.endLeftovers(); err != nil {
		return err
	}
	cut, err := events.Repair(j.place.EventsDir())
	if err != nil {
		return unusable(j.place, err)
	}
	if cut > 0 {
		j.notice(fmt.Sprintf("the log ended in an incomplete or damaged line, of which %d bytes were cut off: what it recorded counts as not done", cut))
	}
	if j.workflow.Mode == workflow.MapReduce {
		if j.store, err = items.ReopenStore(j.place.ItemsFile()); err != nil {
			var damaged *items.DamagedError
			if errors.As(err, &damaged) {
				err = fmt.Errorf("%w (what can still be had: prodigy fsck %s)", err, j.place.ID)
			}
			return unusable(j.place, err)
		}
		if err := j.openQueue(); err != nil {
			return err
		}
	}
	if err := j.replay(); err != nil {
		return unusable(j.place, err)
	}
	if j.config.MaxParallel == 0 && j.state.Slots > 0 {
		j.parallel = j.state.Slots
	}
	j.noteDeath()
	if j.store != nil && j.state.Selected {
		if err := j.store.Holds(j.state.Total); err != nil {
			return fmt.Errorf("%w (what can still be had: prodigy fsck %s)", unusable(j.place, err), j.place.ID)
		}
	}
	if err := dropResultsAhead(j.place, j.state.Outcome); err != nil {
		return err
	}
	if j.config.Earlier != nil {
		j.config.Earlier(Earlier{
			j.state.Policy.Metrics(), j.state.Spent.Total.Clone(), j.state.MaxCost,
			slices.Collect(maps.Values(j.state.Quotas)),
		})
	}
	if j.log, err = events.Open(j.place.EventsDir(), j.place.ID, j.state.Seq, j.logOptions()); err != nil {
		return unusable(j.place, err)
	}
	return j.start()
}

func (j *job) openQueue() error {
	var err error
	if j.queue, err = dlq.Open(j.place.DLQFile()); err != nil {
		return err
	}
	j.project = dlq.NewProjection(j.queue, j.place.ID, j.workflow.Name, j.config.MaxRetries,
		maskedData(j.store, j.config.Settings))
	return nil
}

// replay restores the state from the checkpoint and the records after it, and updates the queue.
func (j *job) replay() error {
	from := readCheckpoint(j.place, j.workflow.ErrorPolicy)
	seq := from.Mark.Seq
	if j.queue != nil {
		seq = max(seq, j.queue.Applied())
	}
	lost, err := lostEnd(j.place, seq)
	if err != nil {
		return err
	}
	if lost != "" {
		j.notice(lost + "; what they recorded counts as not done, and what was made from them is made again")
	}
	if j.project != nil {
		if err := syncQueue(j.place, j.project); err != nil {
			return err
		}
	}
	known, err := from.restore(j.project)
	if err != nil {
		return err
	}
	j.state = known.state
	last, chunks := known.state.Seq, func([]events.Record) error { return nil }
	if j.project != nil {
		chunks = j.project.Apply
	}
	if err := followLog(known.rest, j.state.replay, chunks); err != nil {
		return err
	}
	again, err := j.state.clone(j.workflow.ErrorPolicy)
	j.checkpointer(again, last)
	return err
}

// checkpointer sets up the checkpoints of the job. It takes over s, the state at the end of the log; last is
// the record of the last checkpoint.
func (j *job) checkpointer(s *state, last int64) {
	j.checkpoints = newCheckpointer(j.place, j.workflow.ErrorPolicy, s, last, j.project)
	if n := j.config.CheckpointRecords; n > 0 {
		j.checkpoints.records = n
	}
}

func (j *job) logOptions() events.Options {
	return events.Options{Durability: j.config.Durability, Durable: j.follow, MaxFileSize: j.config.LogFileSize}
}

// follow updates the projections with records that are durable. It runs on the log's goroutine.
func (j *job) follow(records []events.Record, end events.Position) error {
	if j.project != nil {
		if err := j.project.Apply(records); err != nil {
			return err
		}
	}
	j.checkpoints.follow(records, end)
	if j.config.Observe != nil {
		j.config.Observe(records)
	}
	return nil
}

// endLeftovers kills the commands that a killed run has left, and removes its private files. It comes first,
// before anything else can fail.
func (j *job) endLeftovers() error {
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
func (j *job) makeTemp() (err error) {
	if err := jobs.MakeDirs(j.place.TempDir()); err != nil {
		return err
	}
	if j.temp, err = os.MkdirTemp(j.place.TempDir(), "run-"); err != nil {
		return fmt.Errorf("make the directory of private files: %w", err)
	}
	return nil
}

// start makes the directory of private files and the register.
func (j *job) start() error {
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
func (j *job) equip(ctx context.Context, start gitspace.Start) error {
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
	if j.files, err = newItemFiles(j.config.Dir, j.workflow.Map); err != nil {
		return err
	}
	j.production = j.newProduction()
	j.host = &host{job: j}
	j.noticePauses()
	j.host.starts.restore(j.config.Agents, j.state.Quotas, j.budget(), j.state.Spent)
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
func (j *job) run(ctx context.Context) (runResult, error) {
	j.listen()
	if j.workflow.Mode == workflow.Standard {
		v, err := j.runPhase(ctx, "", &workflow.Phase{Commands: j.workflow.Commands}, nil)
		if err != nil || v.state != Completed || j.workflow.Merge == nil {
			return v, err
		}
		return j.runPhase(ctx, "merge", j.workflow.Merge, nil)
	}
	if v, err := j.runPhase(ctx, "setup", j.workflow.Setup, nil); err != nil || v.state != Completed {
		return v, err
	}
	if v, err := j.runMap(ctx); err != nil || v.state != Completed {
		return v, err
	}
	return j.runLast(ctx)
}

// runLast runs the phases after the map phase. It runs none if no items were selected.
func (j *job) runLast(ctx context.Context) (runResult, error) {
	if j.state.Total == 0 {
		return runResult{state: Completed, reason: "no items were selected"}, nil
	}
	for name, p := range j.lastPhases() {
		if p == nil {
			continue
		}
		if m := j.state.Policy.Metrics(); !j.state.Reducing && !j.reduced() {
			if unmet := j.workflow.ReduceWhen.Unmet(m.Successful, m.TotalItems); unmet != "" {
				j.record(events.PhaseSkipped{Phase: name, Reason: unmet})
				return runResult{state: Completed, reason: name + " was not run: " + unmet, held: true}, nil
			}
		}
		result, err := j.mapResult()
		if err != nil {
			return runResult{}, err
		}
		if v, err := j.runPhase(ctx, name, p, result); err != nil || v.state != Completed {
			return v, err
		}
	}
	return runResult{state: Completed}, nil
}

// reduced reports whether a phase after the map phase has begun.
func (j *job) reduced() bool {
	return j.state.phase("reduce").Started || j.state.phase("merge").Started
}

// reduceHeld reports whether the job has completed without the phases after the map phase, since their
// condition did not hold.
func (j *job) reduceHeld() bool {
	return j.workflow.ReduceWhen != nil && j.state.Ended == Completed && j.state.Total > 0 && !j.reduced()
}

// lastPhases yields the names and steps of the phases after the map phase, in order.
func (j *job) lastPhases() iter.Seq2[string, *workflow.Phase] {
	return func(yield func(string, *workflow.Phase) bool) {
		_ = yield("reduce", j.workflow.Reduce) && yield("merge", j.workflow.Merge)
	}
}

// retryDead runs dead letters again, and the phases after the map phase if they are asked for. Those that the
// run before held back are asked for when their condition holds now. Work takes the place of what an agent
// would do for the one item.
func (j *job) retryDead(ctx context.Context, itemIDs []string, reduce, held bool, work *gitspace.Work) (runResult,
	error,
) {
	reduce = reduce || j.state.Reducing
	if err := j.recordResumed(ctx, events.ForDeadLetters, reduce); err != nil {
		return runResult{}, err
	}
	indexes, tried := make([]int, 0, len(itemIDs)), make(map[int]int, len(itemIDs))
	for _, id := range itemIDs {
		e, ok := j.queue.Get(id)
		_, attached := j.state.Running.get(e.ItemIndex)
		_, merging := j.state.Merging[e.ItemIndex]
		switch {
		case merging: // its work is merged first of all
			tried[e.ItemIndex] = j.state.LastTry[e.ItemIndex]
		case ok && !attached:
			indexes = append(indexes, e.ItemIndex)
			tried[e.ItemIndex] = j.state.LastTry[e.ItemIndex]
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
	v.reprocessed, v.recovered = j.state.reprocessed(tried)
	j.record(events.DLQItemsReprocessed{Succeeded: v.recovered, Failed: v.reprocessed - v.recovered})
	if v.state != Completed {
		return v, nil
	}
	if pending := j.pending(); pending > 0 || !j.state.Selected {
		v.state, v.reason = Paused, "items that never ran are still pending"
		if reduce {
			v.reason += ", so that reduce did not run: a resume runs them, and then reduce"
		}
		return v, nil
	}
	if stopped && (reduce || held) {
		v.state, v.reason = Paused, "the first dead letters failed again, so that the others and reduce did not run: a resume runs reduce"
		return v, nil
	}
	if !reduce && !held {
		return v, nil
	}
	last, err := j.runLast(ctx)
	last.reprocessed, last.recovered = v.reprocessed, v.recovered
	return last, err
}

// runCanary runs dead letters again: first as many as Config.Canary says, and the others only if none of these
// failed. It reports whether it stopped at that.
func (j *job) runCanary(ctx context.Context, indexes []int) (v runResult, stopped bool, err error) {
	first, rest := indexes, []int(nil)
	if n := j.config.Canary; n > 0 && n < len(indexes) {
		first, rest = indexes[:n], indexes[n:]
	}
	v, err = j.runPool(ctx, j.listed(first), nil, nil)
	if err != nil || v.state != Completed || len(rest) == 0 {
		return v, false, err
	}
	failed := 0
	for _, index := range first {
		if j.state.dead(index) {
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
func (j *job) recordResumed(ctx context.Context, reason string, reduce bool) error {
	attached, err := j.attached(ctx)
	if err != nil {
		return fmt.Errorf("ask which attempts still run: %w", err)
	}
	if err := j.dropInterrupted(attached); err != nil {
		return err
	}
	phase := j.state.unfinished()
	e := events.JobResumed{
		Reason: reason, Completed: j.state.Status.Settled(), Pending: j.pending() + j.state.merging(),
		InFlight: j.state.inFlight(), Waiting: j.state.delayed(),
		Phase: phase, Reduce: reduce, Attached: attached, Died: j.died, MaxCostUSD: j.config.maxCost(),
		Accepted: j.config.Accept, Set: j.config.Set,
		Rates: startRates(j.workflow), Broker: j.broker(),
	}
	if p := j.state.Phases[phase]; p != nil {
		e.StepsDone = len(p.Steps)
	}
	if j.space != nil && !slices.Equal(j.space.Checkout(), j.state.Checkout) {
		e.Checkout = j.space.Checkout()
	}
	j.runSeq = j.record(e).Seq
	if j.rescaled {
		n := j.meta.MaxParallel
		if j.elastic {
			n = 0 // as many as there are workers for
		}
		j.record(events.ScaleRequested{MaxParallel: n, Was: j.state.Slots, By: "the workflow"})
	}
	return nil
}

// attached returns the indexes of the items in flight whose attempts the executor still has.
func (j *job) attached(ctx context.Context) ([]int, error) {
	indexes := make(map[string]int, len(j.state.Running))
	for index, f := range j.state.Running.all() {
		if f.Fleet == (j.fleet != nil) && index < j.store.Len() { // a power loss may have taken it: the selection will bring it again
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
func (j *job) finish(ctx context.Context, v runResult, err error) (Result, error) {
	close(j.closing)
	var d delivered
	if err == nil {
		d, v = j.deliver(context.WithoutCancel(ctx), v)
	}
	result := Result{
		Job: j.place, State: v.state, Reason: j.config.Settings.Mask.Text(v.reason), Cause: v.cause,
		Failure: v.failure, Metrics: j.state.Policy.Metrics(),
		Refused: v.refused, Outside: v.outside, Unproven: v.unproven, Reprocessed: v.reprocessed,
		Recovered: v.recovered, ReduceStale: v.state == Completed && j.state.ReduceStale,
		ReduceHeld: v.held,
		Spent:      j.state.Spent.Total.Clone(), Budget: v.spent, Drained: v.drained,
	}
	if j.state.Ended != "" {
		result.Duration = j.state.duration(j.state.Last)
		if err == nil {
			err = j.refreshResults()
		}
	} else {
		if err == nil && v.state == Completed && j.state.Selected {
			err = j.makeResults()
		}
		if err == nil && v.cause == nil { // what kept prodigy from going on, a full disk for one, would keep it from this
			err = errors.Join(j.refreshResults(), j.refreshIndex())
		}
		if result.Duration = j.state.duration(time.Now()); err == nil {
			j.recordEnd(v, result, d)
		}
	}
	if j.space != nil {
		result.Merge = &MergeResult{
			Base: j.state.Base, Head: d.head, Branch: d.Branch, Hidden: d.Hidden, Into: d.into,
			Merged: j.state.Merged, Merging: len(j.state.Merging),
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
		result.State, result.Reason, result.Cause = Failed, err.Error(), err
		result.countKept()
	}
	return result, err
}

// countKept takes the counts from the log: after an error of prodigy's own not all that was done is in it. When
// it cannot be read, nothing is known.
func (r *Result) countKept() {
	kept, err := Summarize(r.Job)
	if err != nil {
		r.Unknown, r.Metrics, r.Results = true, errorpolicy.New(errorpolicy.Policy{}).Metrics(), ""
		return
	}
	r.Metrics, r.Duration, r.Spent = kept.Metrics, kept.Duration, kept.Spent
}

// maxCost returns what the command line says that agents may cost, or nil.
func (c Config) maxCost() *spend.USD {
	if c.MaxCost == 0 {
		return nil
	}
	return &c.MaxCost
}

// spent returns what agents have used, or nil if there were none.
func (j *job) spent() *spend.Total {
	if j.state.Spent.Total.Agents == 0 {
		return nil
	}
	return new(j.state.Spent.Total.Clone())
}

func (j *job) recordEnd(v runResult, r Result, d delivered) {
	if batch := j.state.Policy.Remainder(); len(batch) > 0 {
		j.record(events.ErrorBatch{Size: len(batch), Errors: batch})
	}
	switch v.state {
	case Completed:
		j.record(events.JobCompleted{
			DurationMS: events.Millis(r.Duration), Metrics: r.Metrics, Reason: v.reason,
			ReduceStale: j.state.ReduceStale, ReduceHeld: v.held,
			Head: d.head, Branch: d.Branch, Into: d.into, Spent: j.spent(),
		})
	case Failed:
		j.record(events.JobFailed{
			DurationMS: events.Millis(r.Duration), Metrics: r.Metrics, Reason: v.reason,
			Spent: j.spent(), InputGone: errors.Is(v.cause, errInputGone),
		})
	case Cancelled:
		j.record(events.JobCancelled{
			DurationMS: events.Millis(r.Duration), Metrics: r.Metrics, Reason: v.reason,
			Spent: j.spent(),
		})
	case Paused:
		j.record(events.JobPaused{Reason: v.reason, Unproven: v.unproven})
	default:
		panic("BUG: a run ended in no state: " + strconv.Quote(string(v.state)))
	}
}

// close closes what is open, the log first, so that the projections get its last records. The lock goes last.
func (j *job) close() error {
	errs := []error{j.printed.store.Close()} // before the log, which names what is in it
	if j.log != nil {
		errs = append(errs, j.log.Close())
		j.checkpoints.close()
	}
	if j.unlisten != nil { // after the log, whose end has let those go on who wait for an answer
		errs = append(errs, j.unlisten())
	}
	if j.queue != nil {
		errs = append(errs, j.project.Close(), j.queue.Close())
	}
	if j.store != nil {
		errs = append(errs, j.store.Close())
	}
	if j.reuse != nil {
		j.reuse.close()
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
