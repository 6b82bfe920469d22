package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// beginning is what a new job begins with. All of it is found before anything of the job is there, so that a job that
// is refused leaves nothing behind.
type beginning struct {
	slots     int
	openSlots bool           // nobody has said how many: see OpenSlots
	start     gitspace.Start // of the workspaces, if the job has any
	since     *jobs.Since    // whose results are taken over, if the job takes over results
	input     *jobs.Input    // whose results are the items, if they are
	shared    *sharedSlots   // nil if the items share no slots with other jobs
}

// prepare checks the workflow of a new job and finds what it begins with. Whoever gets a beginning gives it to
// createJob, which closes it.
func prepare(ctx context.Context, c Config, w *workflow.Workflow) (b beginning, err error) {
	if _, err = Check(c, w); err != nil {
		return b, err
	}
	if b.slots, err = maxParallel(c, w); err != nil {
		return b, err
	}
	b.openSlots = OpenSlots(c, w)
	if w.Workspace.Isolated() {
		if b.start, err = StartOf(ctx, c, w, b.slots); err != nil {
			return b, err
		}
	}
	earlier, note, err := reuse.Compare(c.Reuse(), w)
	if err != nil {
		return b, err
	}
	earlier.Close()
	if note != "" && c.Notice != nil {
		c.Notice(note)
	}
	b.since = earlier.Since()
	if b.input, err = reuse.ChosenInput(c.Reuse(), w); err != nil {
		return b, err
	}
	b.shared, err = openShared(ctx, c, w, nil)
	return b, err
}

// createJob creates the directories of a new job and begins its log. After an error nothing of the job is left.
func createJob(ctx context.Context, c Config, w *workflow.Workflow, source []byte, b beginning) (*owner, error) {
	now := time.Now()
	place, err := c.Home.Create(jobs.Repo(c.Dir), string(w.Mode), now)
	if err != nil {
		return nil, errors.Join(err, b.shared.close())
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64() >> 11 // exact as a JSON number
	}
	j := &owner{config: c, workflow: w, place: place, parallel: b.slots, shared: b.shared}
	j.elastic = c.OnFleet && b.openSlots
	redacted := w.Redact(source)
	j.meta = newMeta(c, w, b)
	j.meta.JobID, j.meta.Started = place.ID, now
	j.meta.Digests, j.meta.Shown = []string{jobs.Digest(redacted)}, shownText(c.Settings, redacted)
	if w.Workspace.Isolated() {
		j.meta.WorkDir = filepath.Join(workRoot(c), place.Repo, place.ID)
	}
	if err = j.create(redacted); err == nil {
		err = j.begin(ctx, b.start)
	}
	if err != nil {
		return nil, fmt.Errorf("create the job: %w",
			errors.Join(err, j.close(), RemoveWorkspaces(context.WithoutCancel(ctx), j.place, c.Environ),
				j.place.Discard()))
	}
	return j, nil
}

// newMeta returns what is recorded of how a job was started, but for what follows from its id.
func newMeta(c Config, w *workflow.Workflow, b beginning) jobs.Meta {
	m := jobs.Meta{
		Workflow: w.Name, Mode: string(w.Mode), Dir: c.Dir, Version: c.Version, Seed: c.Seed,
		MaxParallel: b.slots, OpenSlots: b.openSlots, MaxDelayMS: c.MaxDelay.Milliseconds(),
		Args: check.Each(os.Args[1:], c.Settings.Mask.Text), Profile: c.Settings.Profile, Values: c.Values,
		Params: paramsOf(c.Settings), Simulated: c.Simulate != nil, Since: b.since, Input: b.input,
		TraceParent: traceParent(c.Environ), Printing: c.Printing,
	}
	if w.File != "" { // else it was made from a command line
		m.WorkflowPath = process.Resolve(c.Dir, w.File)
	}
	if w.Workspace.Isolated() {
		m.Workspace = string(w.Workspace.Mode)
	}
	if b.shared != nil {
		m.Pool = &c.Pool
	}
	return m
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
		InputJob: cmp.Or(j.meta.Input, &jobs.Input{}).JobID,
		Rates:    startRates(j.workflow), Broker: j.config.Broker,
	}).Seq
	if j.isolated() { // or the job could die and leave workspaces that no record tells of
		if err := j.Log.Flush(); err != nil {
			return err
		}
	}
	return j.equip(ctx, start)
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
		return nil, job.Refusef("job %s was simulated: there is nothing to resume", place.ID)
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
	if j.config.MaxParallel == 0 && j.Slots > 0 {
		j.parallel = j.Slots
	}
	if j.Ended == "" && j.Seq > 0 { // the run before has not ended
		if death := process.LastDeath(j.place.RegisterFile()); !death.At.IsZero() && !death.Stopping {
			j.died = new(death.At.UTC())
		}
	}
	if j.config.Earlier != nil {
		j.config.Earlier(Earlier{
			j.Policy.Metrics(), j.Spent.Total.Clone(), j.MaxCost,
			slices.Collect(maps.Values(j.Quotas)), j.Unmerged(), j.parallel,
		})
	}
	return j.start()
}

// endLeftovers kills the commands that a killed run has left, and removes its private files. It comes first,
// before anything else can fail.
func (j *owner) endLeftovers() error {
	n, err := process.EndLeftovers(context.Background(), j.place.RegisterFile(), j.config.Grace)
	if n > 0 {
		j.notice(fmt.Sprintf("killed commands of the previous run that were still running: %d", n))
	}
	if removed := os.RemoveAll(j.place.TempDir()); removed != nil {
		err = errors.Join(err, fmt.Errorf("remove private files: %w", removed))
	}
	return err
}

// start makes the directory of private files and the register. The name of the directory is unique, so that the watcher
// of a killed run cannot remove the files of a resume.
func (j *owner) start() error {
	err := jobs.MakeDirs(j.place.TempDir())
	if err == nil {
		if j.temp, err = os.MkdirTemp(j.place.TempDir(), "run-"); err != nil {
			err = fmt.Errorf("create the directory for private files: %w", err)
		}
	}
	if err = errors.Join(err, j.openOutputs()); err != nil {
		return err
	}
	var watcher []string
	if len(j.config.Watcher) > 0 {
		watcher = append(process.Asleep(j.config.Watcher), j.temp)
	}
	if j.register, err = process.OpenRegister(j.place.RegisterFile(), j.config.Grace, watcher...); err != nil {
		return err
	}
	capacity := process.CapacityNow()
	if j.config.OnFleet {
		capacity.Fits, capacity.Most = maxFleetSlots, max(j.parallel, maxFleetSlots)
	}
	if j.workflow.Map != nil && capacity.Fits < j.parallel {
		j.notice(fmt.Sprintf("%s is low: continuing with %s instead of %d", capacity.Limit, slots(capacity.Fits),
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
	c := j.config
	runner := c.Runner
	if runner == nil {
		runner = process.Run
	}
	build := c.Executor
	if build == nil {
		build = func(a agent.Config, h agent.Host) Executor { return agent.New(a, h) }
	}
	var err error
	if j.files, err = reuse.NewFiles(j.workflow.Map, reuse.FilesConfig{
		Dir: c.Dir, JobID: j.place.ID, Simulated: c.Simulate != nil, OnFleet: c.OnFleet,
		Sync: c.Durability != events.None, Notice: j.notice,
	}); err != nil {
		return err
	}
	j.host = &host{owner: j}
	j.host.Told = j.host.emit
	now := time.Now()
	for _, e := range check.ByKey(j.Quotas) {
		if e.Until.After(now) {
			j.notice("still " + pausedText(e, now))
		}
	}
	j.host.starts.restore(c.Agents, j.Quotas, j.budget(), j.Spent)
	commands := int(j.room.Load())
	if c.OnFleet { // those of the items run elsewhere
		commands = process.CapacityNow().Fits
	}
	j.executor = build(agent.Config{
		Run: runner, Claude: c.Claude, Agents: c.Agents, Seed: j.meta.Seed, Grace: c.Grace,
		LogSteps: c.LogSteps,
		TempDir:  j.temp, Environ: c.Environ, Places: j.places, Secrets: c.Settings.Secrets,
		Mask:        c.Settings.Mask,
		MaxCommands: commands, Echo: c.Echo, Simulate: c.Simulate,
	}, j.host)
	if j.fleet, _ = j.executor.(Fleet); j.fleet != nil {
		j.fleet.OnSlots(j.fleetSlots.set)
	}
	if space, ok := j.space.(cloner); ok && j.fleet != nil {
		j.fleet.Isolate(clones{space, j})
	}
	return nil
}

// close closes what is open, the log first, so that the projections get its last records. The lock goes last.
func (j *owner) close() error {
	errs := []error{j.printed.store.Close(), j.Opened.Close()} // in this order: the log names what is in the outputs
	if j.unlisten != nil {                                     // after the log, whose end has let those go on who wait for an answer
		errs = append(errs, j.unlisten())
	}
	j.reuse.Close()
	errs = append(errs, j.shared.close())
	if j.register != nil {
		errs = append(errs, j.register.Close(), os.RemoveAll(j.place.TempDir()))
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Unlock())
	}
	return errors.Join(errs...)
}

// traceParent returns the span that the environment names, or nothing.
func traceParent(environ []string) string {
	text, _ := process.Variable(environ, events.TraceVar)
	if _, ok := events.ParseTrace(text); !ok {
		return ""
	}
	return text
}
