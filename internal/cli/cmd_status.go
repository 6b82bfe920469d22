package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// statusOptions are the flags of status.
type statusOptions struct {
	// watch shows the progress until the job ends, and then its status.
	watch bool
}

// newStatusCommand returns the command that prints what is known of a job.
func newStatusCommand(con *console) *cobra.Command {
	var o statusOptions
	cmd := onJob(con, &cobra.Command{
		Use:   "status [job]",
		Short: "Show job status",
		Long: "Show the status of a running or finished job (default: the latest). With --watch, show live " +
			"progress until the job ends, and exit with its exit code.",
		Example: "  prodigy status --json\n  prodigy status latest --watch",
	}, o.run)
	addFormat(con, cmd, term.JSON)
	addFlag(cmd, &o.watch, "watch,w", "show progress until the job ends")
	return cmd
}

// run prints the status of a job. With --watch it does so after the end of the job, and the exit code is that of the
// run; else it is 0 however the job ended.
func (o *statusOptions) run(ctx context.Context, con *console, place jobs.Job) error {
	if o.watch {
		if err := watchJob(ctx, con, place); err != nil {
			return err
		}
	}
	seen := view.New()
	var paused events.JobPaused
	summary, err := job.SummarizeAnd(place, func(r events.Record) {
		seen.Apply(r)
		paused, _ = r.Event.(events.JobPaused)
	})
	if err != nil {
		return err
	}
	code := exitOK
	if o.watch {
		code = endCode(summary, paused)
	}
	for e, err := range outputs.Read(place.OutputsDir(),
		outputs.Query{Newest: newestOutputs, Render: conversations(place)}) {
		if err == nil && summary.State == jobs.Running {
			seen.Output(e)
		}
	}
	names := labelsInStore(place)
	defer check.Quietly(names.Close)
	s := detailsOf(summary, seen, recordedOrNil(place), names.Label)
	if s.State != jobs.Running {
		s.conflicts = conflictsLeft(place)
	}
	if con.format == term.JSON {
		return con.end(code, s)
	}
	s.print(con.lines(), time.Now())
	con.lines().Printf("log: %s", place.EventsDir())
	b, m := seen.Budget(), s.Metrics
	notSelected := s.State == jobs.Failed && s.Phase == "map" && !s.Complete && m.Finished() == 0
	switch {
	case notSelected && !lastOf(place).InputGone:
		fix, next := mend(place)
		con.say().Print(fix)
		con.next(next...)
	case s.State == jobs.Failed && b != nil:
		con.next(resumeWithMore(place, *b))
	case s.State != jobs.Running:
		con.next(nextCommands(place, s.State == jobs.Completed, s.ReduceStale, m.Skipped)...)
	}
	return status(code)
}

// details is what status prints of a job as JSON.
type details struct {
	jobStatus
	Reason string `json:"reason,omitempty"`
	// Phase is empty in a standard workflow.
	Phase string `json:"phase,omitempty"`
	// Running is the number of items that run, zero for a job that does not.
	Running int `json:"running"`
	// Slots is the number of slots of a running job.
	Slots int `json:"slots,omitempty"`
	// Workers is the number of workers of a fleet that have these slots.
	Workers int `json:"workers,omitempty"`
	// Broker is that of the fleet that the items run on.
	Broker string `json:"broker,omitempty"`
	// Await is the number of attempts that no worker of the fleet runs yet.
	Await int `json:"waiting_for_workers,omitempty"`
	// Waiting is the number of items that wait for another attempt, or for that of a step. The first waits until NextRetry.
	Waiting   int       `json:"waiting"`
	NextRetry time.Time `json:"next_retry,omitzero"`
	// ToGo counts the items found so far that have no outcome yet.
	ToGo int `json:"to_go"`
	// Reused counts the items whose results of earlier jobs were taken over.
	Reused int `json:"reused,omitempty"`
	// Complete is set once all items have been found.
	Complete bool `json:"selected"`
	// PerSecond is the rate of finished items while the job runs.
	PerSecond float64        `json:"per_second"`
	Remaining *remainingTime `json:"remaining,omitempty"`
	Attempts  attemptTimes   `json:"attempts"`
	// Stragglers are attempts that take unusually long.
	Stragglers view.Stragglers `json:"stragglers,omitzero"`
	// Agents are the running attempts, the longest first.
	Agents []agentShown `json:"agents"`
	// Slowest are the slowest finished attempts.
	Slowest  []agentShown   `json:"slowest"`
	Breakers []view.Breaker `json:"breakers"`
	// Held says why nothing starts in a running job.
	Held   []events.StartsHeld `json:"starts_held,omitempty"`
	Groups []failureGroup      `json:"failure_groups"`
	// Merging is the number of items whose commits wait to be merged.
	Merging int `json:"merging,omitempty"`
	Merged  int `json:"merged,omitempty"`
	// Queue has the ids of the first of Merging, in the order in which they are merged.
	Queue []string `json:"merge_queue,omitempty"`
	// Collided is the number of merges that had a conflict.
	Collided int `json:"collisions,omitempty"`
	// Verify is the verification that is running, if any.
	Verify *verifyShown `json:"verify,omitempty"`
	events.Delivered

	// seen is what most of this is taken from.
	seen *view.Job
	// recorded is nil if the workflow of the job cannot be read.
	recorded *workflow.Workflow
	label    func(index int) string
	// conflicts is Collided while the job runs, and then the number of conflicts that are left.
	conflicts int
}

// newestOutputs is how much of what a running job has printed is read to show its last lines.
const newestOutputs = 256 << 10

// remainingTime is the range that the rest of the map phase is expected to take.
type remainingTime struct {
	LowMS  events.Millis `json:"low_ms"`
	HighMS events.Millis `json:"high_ms"`
}

// attemptTimes are the attempts that were not interrupted, and the durations of those that were not lost.
type attemptTimes struct {
	Count int `json:"count"`
	// Lost is how many of them ended with the worker that ran them.
	Lost int `json:"lost,omitempty"`
	// Retries counts the retries that were decided on, of items and of steps.
	Retries  int           `json:"retries"`
	MeanMS   events.Millis `json:"mean_ms"`
	MedianMS events.Millis `json:"median_ms"`
	P90MS    events.Millis `json:"p90_ms"`
	MaxMS    events.Millis `json:"max_ms"`
}

// agentShown is an attempt that runs, or one of the slowest.
type agentShown struct {
	view.Attempt
	Label      string        `json:"label,omitempty"`
	DurationMS events.Millis `json:"duration_ms"`
}

// verifyShown is the run of workspace.verify at work.
type verifyShown struct {
	Items      int           `json:"items"`
	Commit     string        `json:"commit"`
	DurationMS events.Millis `json:"duration_ms"`
}

// failureGroup is a number of failures with one cause.
type failureGroup struct {
	ErrorType string `json:"error_type"`
	Signature string `json:"error_signature"`
	Count     int    `json:"count"`
	// Example is the id of an item.
	Example string `json:"example"`
	Label   string `json:"example_label,omitempty"`
}

// detailsOf combines the summary of a job with its view. Recorded is its workflow; nil if it cannot be read.
func detailsOf(s job.Summary, j *view.Job, recorded *workflow.Workflow, label func(index int) string) details {
	now := time.Now()
	running := s.State == jobs.Running
	d := details{
		jobStatus: statusOf(s), Reason: s.Reason, Phase: j.Phase, Broker: j.Broker, Waiting: j.Waiting(now),
		ToGo: j.ToGo(), Merging: j.Merging(), Reused: j.Reused, Complete: j.Complete, NextRetry: j.NextRetry(now),
		Attempts: attemptTimes{
			Count: j.Attempts(), Lost: j.Lost, Retries: j.Retries, MeanMS: events.Millis(j.Durations.Mean()),
			MedianMS: events.Millis(j.Durations.Quantile(0.5)), P90MS: events.Millis(j.Durations.Quantile(0.9)),
			MaxMS: events.Millis(j.Durations.Max()),
		},
		Agents: []agentShown{}, Slowest: agentsShown(j.Slowest, label, now),
		Breakers: append([]view.Breaker{}, j.Breakers()...), Groups: []failureGroup{},
		Collided:   j.Merges.Collisions.Before + len(j.Merges.Collisions.List),
		Stragglers: j.Stragglers, Merged: j.Merged, Delivered: j.Delivered, seen: j, recorded: recorded, label: label,
	}
	queue := j.Queue(recorded != nil && recorded.Workspace.Order == workflow.OrderItems)
	for _, q := range check.First(queue, queueShown) {
		d.Queue = append(d.Queue, q.ItemID)
	}
	d.conflicts = d.Collided
	if v := j.Merges.Verifying; v != nil && running {
		d.Verify = &verifyShown{Items: len(v.ItemIDs), Commit: v.Commit, DurationMS: events.Millis(now.Sub(v.Began))}
	}
	if running {
		d.Running, d.PerSecond, d.Slots, d.Workers, d.Await = j.Running(now), j.Rate(now), j.MaxParallel, j.Workers,
			j.AwaitWorkers(now)
		d.Agents = agentsShown(j.InFlight(), label, now)
		d.Held = j.StartsHeld()
		if e, ok := j.Remaining(now); ok {
			d.Remaining = &remainingTime{LowMS: events.Millis(e.Low), HighMS: events.Millis(e.High)}
		}
	}
	for _, g := range j.Failures.Groups() {
		d.Groups = append(d.Groups, failureGroup{
			ErrorType: string(g.Type), Signature: g.Signature, Count: g.Count,
			Example: g.Example.ItemID, Label: label(g.Example.ItemIndex),
		})
	}
	return d
}

// queueShown is how many items of the merge queue status names.
const queueShown = 10

// agentsShown returns attempts as JSON has them. Those without a duration still run.
func agentsShown(list []view.Attempt, label func(index int) string, now time.Time) []agentShown {
	shown := make([]agentShown, len(list))
	for i, a := range list {
		took := cmp.Or(a.Duration, now.Sub(a.Began))
		shown[i] = agentShown{Attempt: a, Label: label(a.Index), DurationMS: events.Millis(took)}
	}
	return shown
}

// groupsInStatus is the number of failure groups that status prints.
const groupsInStatus = 5

// print prints the status for people. What a standard workflow does not have, such as items, is left out.
func (d details) print(l term.Lines, now time.Time) {
	j := d.seen
	state := l.Paint(stateColour(d.summary), d.StateText)
	if d.Hold != nil {
		state += fmt.Sprintf(" since %s", check.Moment(d.Hold.Since))
	}
	if d.State == jobs.Running && d.Phase != "" {
		state += ", in phase " + d.Phase
	}
	l.Printf("job: %s\nworkflow: %s (mode %s)\nstate: %s%s\nstarted: %s\nduration: %s", d.JobID,
		cmp.Or(term.Visible(d.Workflow), "-"), d.Mode,
		state, term.Prefixed(": ", term.Distinct(strings.TrimPrefix(d.Reason, "cancelled "))),
		check.Moment(d.Started),
		d.DurationMS)
	d.printSteps(l)
	cost := func() { printSpent(l, j.Spent, finishedRun{job: j, workflow: d.recorded}.limit()) }
	if d.Mode == string(workflow.Standard) {
		if d.State == jobs.Running {
			l.Print(view.Progress{}.PhaseLine(j, now))
		}
		cost()
		return
	}
	m := d.Metrics
	l.Printf("items: %d, successful %d%s, failed %d, skipped %d, rejected %d\nfailure rate: %.1f %%",
		max(m.TotalItems, j.Total), m.Successful, check.Some(reusedText, d.Reused), m.Failed, m.Skipped,
		m.Rejected, 100*m.FailureRate)
	d.printMerge(l, now)
	d.printProgress(l, now)
	if t := d.Attempts; t.Count > 0 {
		l.Printf("attempts: %d%s (p50 %s, p90 %s, max %s)", t.Count, check.Some(", %d lost (worker gone)", t.Lost),
			t.MedianMS, t.P90MS, t.MaxMS)
	}
	l.Tell("", view.RetryCounts(j, ""))
	l.Tell("stragglers: ", j.Stragglers.Words())
	types, groups := map[retry.Type]int{}, j.Failures.Groups()
	for _, g := range groups {
		if g.Type != retry.TypeSkipped {
			types[g.Type] += g.Count
		}
	}
	for t, n := range check.ByKey(types) {
		l.Printf("%s errors: %d", t, n)
	}
	for _, g := range check.First(groups, groupsInStatus) {
		example := ""
		if e := g.Example; e.ItemID != "" {
			name := term.Visible(e.ItemID) + term.Prefixed(", ", term.Brief(d.label(e.ItemIndex), labelShown))
			example = fmt.Sprintf(" (for example %s)", name)
		}
		l.Foldf(4, "  %d × %s: %s%s", g.Count, g.Type, term.Brief(g.Title(), 120), example)
	}
	printSlowest(l, j.Slowest, d.label)
	cost()
	for _, line := range adviceOf(d.summary) {
		l.Print(line)
	}
}

// printSteps lists the steps that ran once.
func (d details) printSteps(l term.Lines) {
	for _, s := range d.seen.Steps {
		took := ""
		if s.Duration > 0 {
			took = " after " + duration.Milliseconds(s.Duration)
		}
		l.Printf("step %s%s: %s%s%s", term.Visible(s.Name), term.Prefixed(" of ", s.Phase), s.Outcome,
			took, term.Prefixed(": ", term.Visible(s.Error)))
		l.Tell("  not retried: ", s.GaveUp())
	}
}

// printMerge prints how far the merge queue is.
func (d details) printMerge(l term.Lines, now time.Time) {
	if d.Base == "" {
		return
	}
	text := fmt.Sprintf("merged: %d", d.Merged)
	if d.Merging > 0 {
		text += fmt.Sprintf(", %d waiting (oldest %s)", d.Merging, duration.Seconds(d.seen.LongestMerging(now)))
	}
	if d.conflicts > 0 {
		text += ", " + check.Counted(d.conflicts, "conflict")
	}
	l.Print(text)
	if v := d.Verify; v != nil {
		l.Printf("verify %s: %s, merged as %.10s",
			duration.Format(time.Duration(v.DurationMS).Truncate(time.Second)), check.Counted(v.Items, "item"), v.Commit)
	}
	l.Tell("merge queue: ", term.Visible(strings.Join(d.Queue, ", "))+check.Some(" and %d more", d.Merging-len(d.Queue)))
	l.Printf("head: %s%s", d.Head, term.Prefixed(", delivered to ", delivered(d.Delivered)))
}

// printProgress prints the remaining items and, while the job runs, its progress.
func (d details) printProgress(l term.Lines, now time.Time) {
	j := d.seen
	if d.ToGo > 0 {
		running := strconv.Itoa(d.Running)
		if d.State == jobs.Running {
			running = j.RunningOf(now)
		}
		l.Printf("remaining: %d, running: %s, waiting: %d%s%s", d.ToGo, running, d.Waiting,
			term.Prefixed(", ", view.NextRetry(j, now)), check.Some(", "+view.Awaiting, d.Await))
	}
	if d.Broker != "" {
		slots := ""
		if d.State == jobs.Running {
			slots = j.FleetSlots()
		}
		l.Printf("fleet: %s%s", term.Visible(d.Broker), term.Prefixed(": ", slots))
	}
	if d.State != jobs.Running {
		l.Tell("", view.Adapted(j))
		return
	}
	g := view.Progress{Waits: d.recorded != nil && breakerWaits(d.recorded), Label: d.label}
	running := g.RunningLines(j, now, cmp.Or(l.Width, 200), view.RunningShown+1)
	for _, line := range slices.Concat(g.HoldingBack(j, now), view.Pace(j, now), running) {
		l.Print(line)
	}
}

// watchJob shows the progress of a job until it ends: redrawn in place on a terminal, else one line at intervals.
func watchJob(ctx context.Context, con *console, job jobs.Job) error {
	screen, lines := newJobScreen(con.err, con.live, con.size), newProgress(con, recordedOrNil(job))
	if con.live {
		names := labelsInStore(job)
		defer check.Quietly(names.Close)
		lines.Label = names.Label
	}
	defer screen.Clear()
	return untilSignal(ctx, func(ctx context.Context) error { return watchLog(ctx, job, screen, lines) })
}

// watchLog reads the log until the job ends, and redraws at intervals even if nothing happens.
func watchLog(ctx context.Context, job jobs.Job, screen *jobScreen, lines view.Progress) error {
	seen := view.New()
	g, ctx := errgroup.WithContext(ctx)
	records := view.Follow(ctx, g, job)
	printed := make(chan outputs.Entry, 256)
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	if screen.Live {
		g.Go(func() error {
			for e, err := range outputs.Follow(watched, job.OutputsDir(),
				outputs.Query{Newest: newestOutputs, Render: conversations(job)}, job.Running) {
				if err != nil {
					continue // logs reports what is damaged
				}
				select {
				case printed <- e:
				case <-watched.Done():
					return nil
				}
			}
			return nil
		})
	}
	tick := time.NewTicker(screen.every())
	defer tick.Stop()
	for {
		select {
		case r, open := <-records:
			if !open {
				stopWatching()
				return g.Wait()
			}
			seen.Apply(r)
		case e := <-printed:
			seen.Output(e)
		case now := <-tick.C:
			screen.progress(lines, seen, now)
		}
	}
}
