package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/view"
)

// jobOptions are the flags of every command that runs a job.
type jobOptions struct {
	format      format
	quiet       bool
	maxParallel int
	durability  events.Durability
	grace       time.Duration
	stopNow     bool
	partialOK   bool
	logSteps    bool
	maxRetries  int
	maxCrashes  int    // of a resume
	mended      string // resume --workflow: path of the replacement; empty: keep the recorded one
}

// defaultGrace is how long running steps may take to finish after a stop.
const defaultGrace = 5 * time.Second

// defaultMaxRetries is how often a dead letter may be retried.
const defaultMaxRetries = 3

// add gives cmd the flags.
func (o *jobOptions) add(cmd *cobra.Command) {
	o.durability, o.grace, o.maxRetries = events.Batch, defaultGrace, defaultMaxRetries
	addFormat(cmd, &o.format, asJSON)
	f := cmd.Flags()
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing on success")
	addChoice(cmd, (*string)(&o.durability), "durability", "when the log is synced to disk",
		string(events.Batch), string(events.Strict), string(events.None))
	f.Var(length{&o.grace}, "grace", "how long running steps may take to finish after a stop")
	f.BoolVar(&o.stopNow, "stop-now", false, "kill running commands when the policy stops the job")
	f.BoolVar(&o.partialOK, "partial-ok", false, "exit with 0 even if items were dead-lettered or skipped")
	f.BoolVar(&o.logSteps, "log-steps", false, "log every step of every agent")
}

// config returns the configuration of a job.
func (o jobOptions) config(home jobs.Home, claude []string) mapreduce.Config {
	return mapreduce.Config{
		Home: home, Environ: os.Environ(), Claude: claude, Version: versionText(),
		MaxParallel: o.maxParallel, Durability: o.durability, Grace: o.grace,
		StopNow: o.stopNow, LogSteps: o.logSteps, MaxRetries: o.maxRetries, MaxCrashes: o.maxCrashes,
		Watcher: watcherCommand(), LogFileSize: linkedLogFileSize(),
	}
}

// linkedLogFileSize returns the size set by the linker, or 0.
func linkedLogFileSize() int64 {
	n, err := strconv.ParseInt(logFileSize, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// work runs a job: mapreduce.Run, Resume or RetryDead with their arguments bound.
type work func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error)

// ended is the result of a run, with what is needed to print its summary.
type ended struct {
	mapreduce.Result
	stop       *signalError // the signal that stopped it, or nil
	job        *view.Job
	collection errorpolicy.CollectionKind
}

// watch runs do, shows its progress with p, and lets signals stop it: the first asks it to stop, the second kills running commands.
func watch(ctx context.Context, c mapreduce.Config, p *printer, do work) (ended, error) {
	kill, cancelKill := context.WithCancelCause(ctx)
	defer cancelKill(nil)
	stop, cancelStop := context.WithCancelCause(ctx)
	defer cancelStop(nil)
	signals, deaf := listen()
	defer deaf()

	c.Stop, c.Observe = stop, p.observe
	if p.screen.live {
		c.Progress = p.step
	}
	c.Earlier = func(m errorpolicy.Metrics) { p.pasts <- m }
	c.Notice = func(text string) { p.notices <- notice{text: text} }
	finished := make(chan struct{})
	var asked *signalError
	var g errgroup.Group
	g.Go(func() error { p.show(); return nil })
	g.Go(func() error {
		asked = relay(signals, finished, p.notices, c.Grace, cancelStop, cancelKill)
		return nil
	})
	result, err := do(kill, c)
	close(finished)
	close(p.records)
	if groupErr := g.Wait(); groupErr != nil {
		panic("BUG: " + groupErr.Error())
	}
	return ended{Result: result, stop: asked, job: p.job, collection: p.collection}, err
}

// outcome is what run --json prints.
type outcome struct {
	JobID       string              `json:"job_id"`
	State       mapreduce.State     `json:"state"`
	ExitCode    int                 `json:"exit_code"`
	Reason      string              `json:"reason,omitempty"`
	DurationMS  events.Millis       `json:"duration_ms"`
	Metrics     errorpolicy.Metrics `json:"metrics"`
	Events      string              `json:"events"`
	DLQ         string              `json:"dlq"`
	ResultsFile string              `json:"results_file"`
}

func (e ended) outcome(code int) outcome {
	return outcome{
		JobID: e.Job.ID, State: e.State, ExitCode: code, Reason: e.Reason, DurationMS: events.Millis(e.Duration),
		Metrics: e.Metrics, Events: e.Job.EventsDir(), DLQ: ifThere(e.Job.DLQFile()), ResultsFile: e.Results,
	}
}

// conclude prints how the job ended and returns the exit code as an error.
func (o jobOptions) conclude(con *console, e ended) error {
	code := resultCode(e.Result, e.stop, o.partialOK)
	if err := o.printOutcome(con, e, code); err != nil {
		return err
	}
	return status(code)
}

func (o jobOptions) printOutcome(con *console, e ended, code int) error {
	if !o.quiet || code != exitOK {
		e.printFailures(con.err)
		printSuggestions(con.err, e.Metrics.FailurePatterns)
		e.printSlowest(con.err)
		e.print(con.err)
	}
	if o.format == asJSON {
		return printJSON(con.out, e.outcome(code))
	}
	return nil
}

// printFailures prints the failures of this run in groups, unless they were printed as they happened.
func (e ended) printFailures(w io.Writer) {
	if e.job != nil && e.collection == errorpolicy.Aggregate {
		printFailures(w, e.job.Failures, e.Job.ID)
	}
}

// slowEnough is how long the slowest attempt must have taken for the summary to list the slowest ones.
const slowEnough = time.Second

func (e ended) printSlowest(w io.Writer) {
	if e.job == nil || len(e.job.Slowest) == 0 || e.job.Slowest[0].Duration < slowEnough {
		return
	}
	_, _ = fmt.Fprintf(w, "slowest: %s\n", slowest(e.job.Slowest))
}

// slowest lists attempts with their durations.
func slowest(list []view.Attempt) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = visible(a.ItemID) + " " + duration.Format(a.Duration.Round(10*time.Millisecond))
	}
	return strings.Join(words, ", ")
}

// ifThere returns path if the file exists, else "".
func ifThere(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
