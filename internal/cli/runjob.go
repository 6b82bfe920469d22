package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/telemetry"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// runWatched runs do, shows its progress with p, and lets signals stop it: the first asks it to stop, the second kills
// running commands.
func runWatched(ctx context.Context, c mapreduce.Config, p *printer, do work) (finishedRun, error) {
	kill, cancelKill := context.WithCancelCause(ctx)
	defer cancelKill(nil)
	stop, cancelStop := context.WithCancelCause(ctx)
	defer cancelStop(nil)
	signals, stopListening := listen()
	defer stopListening()

	c.Stop, c.Observe, c.RateWaited = stop, p.observe, p.rateWaited
	if p.screen.Live {
		c.Progress, c.Printed = p.step, p.output
	}
	c.Earlier = func(e mapreduce.Earlier) { p.pasts <- e }
	outside, err := p.outside(&c)
	if err != nil {
		return finishedRun{}, err
	}
	if p.ofCommands {
		c.Echo, p.echo.Fatal = p, cancelStop
	}
	c.Notice = func(text string) { p.notices <- notice{text: text} }
	finished := make(chan struct{})
	c.Control, p.steer.stop = p.steer.control, func(by string) job.Answer { return sendStop(by, signals, finished) }
	var asked *signalError
	terminal := p.keysFrom()
	if terminal != nil {
		p.lines.Keys = keysHint
	}
	keys, endKeys := context.WithCancel(ctx)
	defer endKeys()
	var g sync.WaitGroup
	g.Go(p.show)
	g.Go(func() { asked = relay(signals, finished, p.notices, c.Grace, cancelStop, cancelKill) })
	if terminal != nil {
		g.Go(func() { p.readKeys(keys, terminal) })
	}
	result, err := p.options.fleet.run(kill, p.con, p.workflow, c, do)
	outside.Close(kill)
	close(finished)
	endKeys()
	close(p.records)
	g.Wait()
	return finishedRun{
		Result: result, stop: asked, job: p.job, workflow: p.workflow,
		labels: p.con.labelsOfRun(result.Job, p.workflow),
	}, err
}

// newEndLeftoversCommand returns the hidden command that each run starts beside itself: it ends the commands of a run
// that is killed.
func newEndLeftoversCommand(*console) *cobra.Command {
	return &cobra.Command{
		Use:    endLeftoversName + " <files> <register> <mark> <grace>",
		Short:  "Kill leftover commands of a dead prodigy, and remove their private files",
		Args:   exactly("files", "register", "mark", "grace"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			grace, err := time.ParseDuration(args[3])
			if err != nil {
				return usagef("grace: %w", err)
			}
			// It ends when the prodigy that started it ends, not sooner.
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
			register, err := process.InheritedRegister(args[1])
			if err == nil {
				err = process.Watch(cmd.Context(), os.Stdin, register, args[1], args[2], grace)
			}
			if err = errors.Join(err, os.RemoveAll(args[0])); err != nil {
				return fmt.Errorf("kill leftovers: %w", err)
			}
			return nil
		},
	}
}

// workflowOf reads the workflow that a job continues with: the file that o names, which is also returned as the
// replacement, else the recorded one.
func (o jobOptions) workflowOf(place jobs.Job) (*mapreduce.Replacement, *workflow.Workflow, error) {
	if o.replacement == "" {
		w, err := loadRecorded(place)
		return nil, w, err
	}
	meta, err := place.ReadMeta()
	if err != nil {
		return nil, nil, &job.FilesError{JobID: place.ID, Err: err}
	}
	path, err := filepath.Abs(o.replacement)
	if err != nil {
		return nil, nil, err
	}
	source, err := readNamed(path)
	if err != nil {
		return nil, nil, err
	}
	w, err := workflow.Parse(o.replacement, source, recordedOptions(meta))
	return &mapreduce.Replacement{Workflow: w, Source: source, Path: path}, w, err
}

// again runs do on an existing job, with its recorded workflow and settings, and calls conclude with the result.
func (o jobOptions) again(ctx context.Context, con *console, place jobs.Job,
	conclude func(*console, finishedRun) error, do work,
) error {
	replacement, w, err := o.workflowOf(place)
	if err != nil {
		return err
	}
	o.fleet = o.fleet.forWorkflow(w)
	if err := errors.Join(o.printAsBefore(con, place), o.checkEcho(con), o.fleet.check(con, w, o.quiet)); err != nil {
		return err
	}
	meta, err := place.ReadMeta()
	if err != nil {
		return err
	}
	t, err := o.findTools(w, o.fleet.stepsHere(w))
	if err != nil {
		return err
	}
	found, err := resolveAgain(ctx, place, w, replacement, o.Set)
	if err != nil {
		return err
	}
	con.useSecrets(found)
	if path := changedSince(place, replacement); path != "" && !o.quiet {
		con.sayf("note: %s has changed since job %s started, which keeps using the recorded workflow "+
			"(use the file with --workflow %s)", path, place.ID, quoted(path))
	}
	c := o.config(t)
	c.Dir, c.Settings, c.Replacement = meta.Dir, found, replacement
	return o.runJob(ctx, con, c, w, conclude, do)
}

// runJob runs do with c, here or on a fleet, shows its progress, and calls conclude with how it ended.
func (o jobOptions) runJob(ctx context.Context, con *console, c mapreduce.Config, w *workflow.Workflow,
	conclude func(*console, finishedRun) error, do work,
) error {
	p := newPrinter(con, o, w)
	end, err := runWatched(ctx, c, p, do)
	switch {
	case err == nil:
	case end.Job.ID == "" || end.State == "": // there was no job yet
		return err
	default:
		return o.printOutcome(con, end, exitCode(err))
	}
	if p.ofCommands && p.echo.Failure() != nil && end.State == jobs.Completed {
		return fmt.Errorf("all items of job %s finished, but some output was not printed: %w", end.Job.ID,
			p.echo.Failure())
	}
	if o.joblog != "" {
		err = writeJoblog(end.Job, o.joblog)
	}
	return cmp.Or(err, conclude(con, end)) // the summary is printed in any case
}

// outside has the outside told what c records, and changes c for that.
func (p *printer) outside(c *mapreduce.Config) (*telemetry.Run, error) {
	slots := c.MaxParallel
	if slots == 0 && p.workflow.Map != nil {
		slots = p.workflow.Map.MaxParallel.Value
	}
	run, err := telemetry.Begin(telemetry.Config{
		Home: c.Home, Workflow: p.workflow, Settings: c.Settings, Dir: c.Dir, Environ: c.Environ, Version: versionText(), Slots: slots,
		Listen: p.options.metricsAt, MetricsFile: p.options.metricsFile, OTel: p.options.telemetry,
		Told: func(text string) { p.notices <- notice{text: "note: " + term.Visible(text)} },
	})
	if err != nil {
		return nil, refusef("%w", err)
	}
	for _, note := range run.Notes {
		if !p.options.quiet {
			p.printf("%s\n", term.Visible(note))
		}
	}
	if run.Exports {
		c.Trace, c.LogSteps = true, true
	}
	c.Observe = both(run.Observe, c.Observe)
	if m := run.Metrics; m != nil {
		c.Progress = both(func(e events.AgentProgress) { m.Step(e, time.Now()) }, c.Progress)
		c.Earlier = both(func(e mapreduce.Earlier) { m.Earlier(e.Metrics, e.Spent) }, c.Earlier)
		c.RateWaited = both(m.Waited, c.RateWaited)
	}
	return run, nil
}

// both returns a function that calls two, of which the second may be nil.
func both[T any](first, second func(T)) func(T) {
	return func(v T) {
		first(v)
		if second != nil {
			second(v)
		}
	}
}
