package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/term"
)

// jobOptions are the flags of every command that runs a job.
type jobOptions struct {
	format      term.Format
	quiet       bool
	maxParallel int
	durability  events.Durability
	grace       time.Duration
	stopNow     bool
	partialOK   bool
	exitOutside bool
	logSteps    bool
	print       bool // --print: what items print, as they end
	keepOrder   bool // --keep-order: the same in their order; of a resume, also of items that ended before
	maxRetries  int
	maxCrashes  int       // of a resume
	maxCost     limit.USD // --max-cost; 0 if it is not given
	pool        jobs.Pool // --pool
	replacement string    // --workflow: path of the replacement; empty keeps the recorded one
	metrics     metricsOptions
	telemetry   bool     // --otel
	set         []string // --set: other values, as NAME=VALUE
}

// defaultGrace is how long running steps may take to finish after a stop.
const defaultGrace = 5 * time.Second

// defaultMaxRetries is how often a dead letter may be retried.
const defaultMaxRetries = 3

// add gives cmd the flags.
func (o *jobOptions) add(cmd *cobra.Command) {
	addFormat(cmd, &o.format, term.JSON)
	o.addRunning(cmd)
}

// addRunning gives cmd the flags but for the output format.
func (o *jobOptions) addRunning(cmd *cobra.Command) {
	o.durability, o.grace, o.maxRetries = events.Batch, defaultGrace, defaultMaxRetries
	f := cmd.Flags()
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing on success")
	addChoice(cmd, &o.durability, "durability", "when to sync the log to disk",
		events.Batch, events.Strict, events.None)
	f.Var(durationFlag(&o.grace), "grace", "time for running steps to finish after a stop")
	f.BoolVar(&o.stopNow, "stop-now", false, "kill running commands when the error policy stops the job")
	f.BoolVar(&o.exitOutside, "exit-outside", false,
		"exit with 75 outside the job's windows instead of waiting")
	f.BoolVar(&o.partialOK, "partial-ok", false, "exit with 0 even if items were dead-lettered or skipped")
	addMaxCost(cmd, &o.maxCost)
	f.Var(poolFlag(&o.pool), "pool",
		"limit all jobs on this machine with the same pool name to SLOTS items in total, as NAME:SLOTS")
	f.BoolVar(&o.logSteps, "log-steps", false, "record step events for every item")
	o.metrics.add(cmd)
	f.BoolVar(&o.telemetry, "otel", false,
		"export to OpenTelemetry over OTLP (default endpoint http://localhost:4318; on if "+
			"OTEL_EXPORTER_OTLP_ENDPOINT is set)")
}

// addPrint gives cmd the flags that print what items print.
func (o *jobOptions) addPrint(cmd *cobra.Command, keepOrder string) {
	cmd.Flags().BoolVar(&o.print, "print", false,
		"print the output of the last step of each successful item")
	cmd.Flags().BoolVar(&o.keepOrder, "keep-order", false, keepOrder)
}

func (o *jobOptions) checkPrint() error {
	if o.format == term.JSON && (o.print || o.keepOrder) {
		return usagef("--print and --keep-order cannot be used with --json")
	}
	return nil
}

// config returns the configuration of a job.
func (o jobOptions) config(t tools) mapreduce.Config {
	return mapreduce.Config{
		Home: t.home, Environ: os.Environ(), Claude: t.claude, Agents: t.agents, Version: versionText(),
		MaxParallel: o.maxParallel,
		MaxRetries:  o.maxRetries, MaxCost: o.maxCost, Pool: o.pool,

		EndConfig: mapreduce.EndConfig{Grace: o.grace, StopNow: o.stopNow, ExitOutside: o.exitOutside},
		LogConfig: job.LogConfig{
			Durability: o.durability, LogSteps: o.logSteps,
			LogFileSize: linkedLogFileSize(),
		},
		ResumeConfig:    mapreduce.ResumeConfig{MaxCrashes: o.maxCrashes},
		RunConfig:       mapreduce.RunConfig{Watcher: watcherCommand()},
		WorkspaceConfig: mapreduce.WorkspaceConfig{WorkRoot: workRoot()},
	}
}

// workRoot returns the directory of the workspaces of all jobs that PRODIGY_WORK names, made absolute, or "".
func workRoot() string {
	dir := os.Getenv("PRODIGY_WORK")
	if dir == "" {
		return ""
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return abs
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

// watch runs do, shows its progress with p, and lets signals stop it: the first asks it to stop, the second kills
// running commands.
func watch(ctx context.Context, c mapreduce.Config, p *printer, do work) (finishedRun, error) {
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
	c.Control = p.steer.control
	finished := make(chan struct{})
	var asked *signalError
	terminal := p.keysFrom()
	if terminal != nil {
		p.lines.Keys = keysHint
	}
	keys, endKeys := context.WithCancel(ctx)
	defer endKeys()
	var g errgroup.Group
	g.Go(func() error { p.show(); return nil })
	g.Go(func() error {
		asked = relay(signals, finished, p.notices, c.Grace, cancelStop, cancelKill)
		return nil
	})
	if terminal != nil {
		g.Go(func() error { p.readKeys(keys, terminal); return nil })
	}
	result, err := do(kill, c)
	outside.Close(kill)
	close(finished)
	endKeys()
	close(p.records)
	if groupErr := g.Wait(); groupErr != nil {
		panic("BUG: " + groupErr.Error())
	}
	return finishedRun{
		Result: result, stop: asked, job: p.job, collection: p.collection, workflow: p.workflow,
		labels: p.con.labelsOfRun(result.Job, p.workflow),
	}, err
}

const endLeftoversName = "end-leftovers"

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

// watcherCommand returns the argv of end-leftovers for mapreduce.Config, or nil if the executable cannot be found; then
// no watcher runs.
func watcherCommand() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, endLeftoversName}
}
