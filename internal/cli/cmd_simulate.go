package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/simulate"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// simulateOptions say what a simulated job meets: its items, and how long its commands take and how they end.
type simulateOptions struct {
	// Only the options about the policy have flags.
	runOptions
	// items is the path of a file with items, in place of the input of the workflow.
	items string
	// at is the time at which the simulated job starts, as it was written. Empty means now.
	at string
	// maxTime is how long the job may take in virtual time. Zero means the limit of simulate.
	maxTime time.Duration
	// keep is the directory that the files of the job stay in. Empty removes them.
	keep string

	// These say how commands end by chance. The rates are from 0 to 1. Latency, cost and tokens are nil if they were not
	// given; the latter two are also for outcomes of other sources that do not have them.
	failureRate, conflicts float64
	latency                *simulate.Distribution
	cost                   *simulate.Costs
	tokens                 *simulate.Counts

	// outcomes is the path of a script.
	outcomes string
	// like names the job whose outcomes are repeated.
	like string
	// chosen are the items of a test case. Nil means that the workflow selects them.
	chosen []json.RawMessage
}

// newSimulateCommand returns the command that runs a workflow in virtual time.
func newSimulateCommand(con *console) *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:   "simulate <workflow>",
		Short: "Simulate a workflow in virtual time",
		Long: `Simulate a workflow in virtual time, without running its commands, to see the effect of retries,
circuit breakers, budgets, rate limits, adaptive concurrency and windows. A simulated day takes
seconds.

Items are selected as in a run. Durations and outcomes come from one of these (default: every
command succeeds immediately):

  --failure-rate, --latency   random, also --conflict-rate; repeatable with the same --seed
  --outcomes FILE             scripted outcomes: see docs/howto/try-a-policy.md
  --like JOB                  the log of an earlier job; other items and attempts end like retries in it

Costs of AI agents come from the outcomes or the log; --cost and --tokens set them for all others.

No command is started, no notification is sent, none of your files is written, and the job is not
listed by prodigy jobs. Guards count as open. With workspaces, the merge queue is simulated without
git: changes conflict where the outcomes say so, and only with what was merged since their attempt
started. The output of commands is empty, and values captured from it may be missing.

The exit code is that of the run: 0 all items succeeded, 1 the job failed or its error policy
ended it, 2 wrong usage or an invalid workflow, 3 completed, but items were dead-lettered or
skipped, 75 stopped outside its windows (--exit-outside).`,
		Example: `  prodigy simulate workflow.yml --failure-rate 0.1 --latency 'lognormal(2s,0.8)'
  prodigy simulate workflow.yml --failure-rate 0.3 --max-parallel 64 --at 22:00 --json
  prodigy simulate workflow.yml --like latest --max-cost 20`,
		Args:              exactly("workflow"),
		ValidArgsFunction: completeWorkflows,
	}
	onArgs(con, cmd, o.run)
	addFormat(con, cmd, term.JSON)
	o.addPolicy(cmd)
	addMaxDelay(cmd, &o.MaxDelay)
	o.settings.add(cmd)
	addFlag(cmd, &o.failureRate, "failure-rate", "probability that an item's command fails, such as 0.3 or 30%")
	addFlag(cmd, textFlag(&o.latency), "latency", "command duration: "+simulate.Distribution{}.Forms())
	addFlag(cmd, &o.conflicts, "conflict-rate", "probability of a merge conflict, such as 0.1 or 10%")
	addFlag(cmd, textFlag(&o.cost), "cost", "default cost of an AI agent: "+simulate.Costs{}.Forms())
	addFlag(cmd, textFlag(&o.tokens), "tokens",
		"default tokens per AI agent: "+simulate.Counts{}.Forms())
	addFlag(cmd, &o.outcomes, "outcomes", "read scripted outcomes from this file", completeWorkflows)
	addFlag(cmd, &o.like, "like",
		"replay outcomes of this job (id or part of it, workflow name, or latest)", completeJobs)
	cmd.MarkFlagsMutuallyExclusive("outcomes", "like", "failure-rate")
	cmd.MarkFlagsMutuallyExclusive("outcomes", "like", "latency")
	cmd.MarkFlagsMutuallyExclusive("outcomes", "like", "conflict-rate")
	o.Seed = 1
	addFlag(cmd, &o.Seed, "seed", "random seed")
	addFlag(cmd, &o.items, "items", "read items from this file instead of the input")
	addFlag(cmd, &o.at, "at", "simulated start time: 22:00, 2006-01-02, \"2006-01-02 22:00\" or RFC 3339 "+
		"(default now)")
	addFlag(cmd, &o.maxTime, "max-time",
		"maximum virtual duration (default 366d)")
	addFlag(cmd, &o.keep, "keep",
		"keep the job's files in this directory, for report, events and dlq")
	_ = cmd.MarkFlagDirname("keep")
	return cmd
}

// simulation is what simulate --json prints.
type simulation struct {
	outcome
	// Began is in virtual time.
	Began  time.Time       `json:"began"`
	Seed   uint64          `json:"seed"`
	Counts *simulate.Tally `json:"counts"`
	// Took is how long the simulation itself took, in real time.
	Took     events.Millis `json:"took_ms"`
	Workflow string        `json:"workflow"`
}

// run simulates one job and prints how it ended. Its exit code is that of the run.
func (o *simulateOptions) run(ctx context.Context, con *console, args []string) error {
	o.path = args[0]
	job, cleanup, err := o.prepare(ctx, con, o.model)
	if err != nil {
		return err
	}
	defer cleanup()
	return untilSignal(ctx, func(ctx context.Context) error { return o.simulate(ctx, con, job) })
}

// prepare checks the workflow, and returns the job that is simulated. Cleanup removes its files, unless they are kept.
func (o simulateOptions) prepare(ctx context.Context, con *console, modelAt func(begin time.Time) (simulate.Model, error)) (job simulate.Job, cleanup func(), err error) {
	begin, err := simulate.BeginAt(o.at, time.Now().Truncate(time.Second))
	if err != nil {
		return job, nil, usagef("--at: %w", err)
	}
	model, err := modelAt(begin)
	if err != nil {
		return job, nil, err
	}
	like := o.checkedAs()
	like.InputMayCome = true
	w, err := load(ctx, o.path, like, o.settings, settings.ToSimulate)
	if err != nil {
		return job, nil, err
	}
	con.useSecrets(w.settings)
	t, err := o.findTools(w.Workflow, noSteps)
	if err != nil {
		return job, nil, err
	}
	home, cleanup, err := o.home()
	if err != nil {
		return job, nil, err
	}
	c := o.config(t)
	c.Home, c.Dir, c.MaxDelay, c.Stdin, c.Settings, c.Values = home, w.dir, w.maxDelay, os.Stdin, w.settings, w.values
	if w.Map == nil && (o.items != "" || o.chosen != nil) {
		cleanup()
		return job, nil, usagef("--items: the workflow has no map")
	}
	w.Workflow, err = simulate.ChooseInput(w.Workflow, c, t.home, o.items, o.chosen)
	if _, refused := errors.AsType[*simulate.InputError](err); refused {
		err = refusef("%w", err)
	}
	if err != nil {
		cleanup()
		return job, nil, err
	}
	if !o.quiet {
		c.Notice = func(text string) { con.sayf("note: %s", term.Visible(text)) }
	}
	return simulate.Job{
		Config: c, Workflow: w.Workflow, Source: w.source, Model: model, Begin: begin,
		MaxTime: o.maxTime,
	}, cleanup, nil
}

// simulate simulates the job, and prints how it ended.
func (o simulateOptions) simulate(ctx context.Context, con *console, job simulate.Job) error {
	tally := simulate.NewTally()
	job.Observe = tally.Observe
	began := time.Now()
	result, err := simulate.Run(ctx, job)
	took := time.Since(began)
	if err != nil && result.Job.ID == "" {
		return err
	}
	end := finishedRun{
		Result: result, job: tally.Job, workflow: job.Workflow,
		labels: con.labelsOfRun(result.Job, job.Workflow),
	}
	end.stop, _ = errors.AsType[*signalError](context.Cause(ctx))
	code := resultCode(result, end.stop, o.partialOK)
	if err != nil {
		code = exitCode(err)
	}
	if !o.quiet || code != exitOK {
		o.print(con, end, tally, took)
	}
	s := simulation{
		outcome: end.outcome(code), Began: job.Begin, Seed: o.Seed, Counts: tally,
		Took: events.Millis(took), Workflow: job.Workflow.Name,
	}
	if o.keep == "" {
		s.Events, s.DLQ, s.ResultsFile = "", "", "" // they are removed
	}
	return con.end(code, s)
}

// print prints how a simulated job ended, for people.
func (o simulateOptions) print(con *console, e finishedRun, t *simulate.Tally, took time.Duration) {
	l := con.say()
	line := func(format string, args ...any) { l.Foldf(2, format, args...) }
	for i, g := range e.job.Failures.Groups() {
		if i == groupsShown {
			break
		}
		line("%s (%s): %s (for example %s)", l.Paint(term.Red, fmt.Sprintf("%d %s", g.Count, g.Outcome())), g.Type,
			term.Brief(g.Title(), 160), term.Visible(g.Example.ItemID))
	}
	line("%s after %s of virtual time%s", e.stateShown(l), duration.Format(e.Duration), term.Prefixed(": ", strings.Join(e.counts(), ", ")))
	if e.Reason != "" {
		line("reason: %s", term.Visible(e.Reason))
	}
	for _, text := range t.Words(e.workflow.Workspace.Isolated()) {
		line("%s", text)
	}
	printSpent(l, e.Spent, e.limit())
	if e.Spent.Agents > 0 && !e.Spent.Known() && o.cost == nil {
		line("no agent costs given: use --cost '$0.05', or cost in the outcomes file")
	}
	line("seed %d, simulated in %s; no command was run", o.Seed, duration.Milliseconds(took))
	if o.keep != "" {
		con.next("PRODIGY_HOME=" + quoted(o.keep) + " prodigy report " + e.Job.ID + " -o report.html")
	}
}

// model returns how commands end.
func (o simulateOptions) model(begin time.Time) (simulate.Model, error) {
	m, err := o.outcomeModel(begin)
	if err == nil && (o.cost != nil || o.tokens != nil) {
		m = simulate.WithUse{Model: m, Seed: o.Seed, Cost: o.cost, Tokens: o.tokens}
	}
	return m, err
}

// outcomeModel returns how commands end by a script, by the log of a job, or by chance.
func (o simulateOptions) outcomeModel(begin time.Time) (simulate.Model, error) {
	switch {
	case o.outcomes != "":
		data, err := os.ReadFile(o.outcomes)
		if err != nil {
			return nil, refusef("--outcomes: %w", err)
		}
		script, err := simulate.ParseScript(o.outcomes, data)
		script.Seed, script.Begin = o.Seed, begin
		return script, err
	case o.like != "":
		return o.logModel()
	}
	chance := simulate.Chance{Seed: o.Seed, FailureRate: o.failureRate, ConflictRate: o.conflicts}
	if o.latency != nil {
		chance.Latency = *o.latency
	}
	return chance, nil
}

// logModel returns how commands ended in the job of --like.
func (o simulateOptions) logModel() (simulate.Model, error) {
	place, err := findJob(jobName{id: o.like})
	if err != nil {
		return nil, err
	}
	w, err := loadRecorded(place)
	if err != nil {
		return nil, err
	}
	var steps []workflow.Step
	if w.Map != nil {
		steps = w.Map.AgentTemplate
	}
	l, err := simulate.LogOf(events.Read(place.EventsDir()), steps, o.Seed)
	if err != nil {
		return nil, &job.FilesError{JobID: place.ID, Err: err}
	}
	if w.Map != nil && l.Attempts == 0 {
		return nil, refusef("--like: job %s has no finished attempts to replay", place.ID)
	}
	return l, nil
}

// simulatedMark is a file in a home of simulated jobs. Without it, a directory with other files is not taken for one.
const simulatedMark = "simulated"

// home returns the home of the simulated job: the directory that is to be kept, or one that cleanup removes.
func (o simulateOptions) home() (home jobs.Home, cleanup func(), err error) {
	if o.keep == "" {
		dir, err := os.MkdirTemp("", "prodigy-simulate-")
		return jobs.Home{Root: dir}, func() { _ = os.RemoveAll(dir) }, err
	}
	dir, err := filepath.Abs(o.keep)
	if err != nil {
		return jobs.Home{}, nil, err
	}
	mark := filepath.Join(dir, simulatedMark)
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = jobs.MakeDirs(dir)
	case err == nil && len(entries) > 0 && !isFile(mark):
		err = errors.New("directory is not empty; use an empty one, or one created by simulate")
	}
	if err != nil {
		return jobs.Home{}, nil, refusef("--keep %s: %w", o.keep, err)
	}
	err = os.WriteFile(mark, []byte("The jobs in this directory were simulated: none of them has run.\n"), 0o600)
	return jobs.Home{Root: dir}, func() {}, err
}
