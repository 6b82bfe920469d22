// Package simulate runs a job without its commands, in virtual time: what would become of its items, if the
// commands ended as a Model says.
//
// It is the job of package mapreduce that runs: its queue, policy, retries, breakers, limits and log. Only
// the commands are replaced (Commands), and the clock (inVirtualTime). A Model is a Script that somebody has
// written, a Log of a job that has run, or Chance.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// Outcome is how one try of a command ends.
type Outcome struct {
	Takes time.Duration

	// The command does not end by itself.
	Hangs bool

	ExitCode int

	// The signal that kills it, such as SIGKILL.
	Signal string

	// The type of the failure. Without one the failure is classified as a real one is.
	Type retry.Type

	Stdout string
	Stderr string

	// Nobody knows what it would print.
	Unknown bool

	// What it has used, if it is an AI agent.
	Use Use

	// Of an agent that has met the limit of its plan: how long after its end the limit resets. It is 0 if nobody
	// knows.
	Resets time.Duration

	// Which part of that limit the agent says is used up, from 0 to 1, if it says so.
	LimitUsed float64
}

// Use is what a run of an AI coding CLI has used by its end.
type Use struct {
	Cost limit.USD

	// The cost is known.
	Costed bool

	Tokens limit.Tokens

	// The tokens are known.
	Counted bool
}

// part returns what a part of the run has used.
func (u Use) part(share float64) ai.Usage {
	of := func(n int64) int64 { return int64(float64(n) * share) }
	return ai.Usage{
		CostUSD: float64(of(int64(u.Cost))) / float64(limit.Dollar), Costed: u.Costed,
		Tokens: ai.Tokens{
			Input: of(u.Tokens.Input), Cached: of(u.Tokens.Cached),
			Output: of(u.Tokens.Output),
		}, Counted: u.Counted,
	}
}

// WithUse is a Model whose agents use what another Model says, and where that says nothing, what these say.
type WithUse struct {
	Model
	Seed   uint64
	Cost   *Costs  // without them, the cost stays unknown
	Tokens *Counts // the same; they count as input
}

// Outcome implements Model.
func (w WithUse) Outcome(t agent.SimulatedTry) Outcome {
	o := w.Model.Outcome(t)
	if t.Agent == nil {
		return o
	}
	r := randOf(w.Seed^useSeed, t)
	if w.Cost != nil {
		if cost := w.Cost.Draw(r); !o.Use.Costed {
			o.Use.Cost, o.Use.Costed = cost, true
		}
	}
	if w.Tokens != nil && !o.Use.Counted {
		o.Use.Tokens, o.Use.Counted = limit.Tokens{Input: w.Tokens.Draw(r)}, true
	}
	return o
}

// useSeed tells the draws of costs and tokens from those of times.
const useSeed = 0x636f7374

// Model says how commands end, and which work can be merged. Its methods are called from many goroutines at
// once, and return the same for the same try, whenever they are asked.
type Model interface {
	Outcome(t agent.SimulatedTry) Outcome

	// Conflicts returns the files in which the work of an attempt conflicts with what was merged since it
	// began. It is nil for what can be merged.
	Conflicts(t agent.SimulatedTry) []string
}

// Chance is a Model whose commands fail by chance.
type Chance struct {
	Seed        uint64
	FailureRate float64 // of the commands of items; of all commands in a workflow without items
	Latency     Distribution

	ConflictRate float64 // of the work that is merged
}

// Outcome implements Model.
func (c Chance) Outcome(t agent.SimulatedTry) Outcome {
	r := randOf(c.Seed, t)
	o := Outcome{Takes: c.Latency.Draw(r), Unknown: true}
	if r.Float64() < c.FailureRate && (t.Attempt.Phase == "map" || t.Attempt.Phase == "") {
		o.ExitCode, o.Stderr = 1, "simulated failure\n"
	}
	return o
}

// Conflicts implements Model.
func (c Chance) Conflicts(t agent.SimulatedTry) []string {
	if randOf(c.Seed, t).Float64() < c.ConflictRate {
		return []string{someFile}
	}
	return nil
}

// someFile is in the place of a file that nobody named.
const someFile = "a file"

// randOf returns the source of randomness of one try: the same whatever else runs, and when.
func randOf(seed uint64, t agent.SimulatedTry) *rand.Rand {
	keys := []string{t.Attempt.Phase, t.Attempt.ItemID, strconv.Itoa(t.Attempt.Number), t.Label, strconv.Itoa(t.Number)}
	for _, i := range t.Element {
		keys = append(keys, strconv.Itoa(i))
	}
	if t.Repeat > 0 {
		keys = append(keys, "again", strconv.Itoa(t.Repeat))
	}
	return retry.NewRand(seed, keys...)
}

// commands returns what takes the place of the commands of a job.
func commands(w *workspaces) agent.Simulator {
	return func(ctx context.Context, t agent.SimulatedTry, c process.Command) (agent.SimulatedExit, error) {
		o := w.outcome(t)
		share := 1.0 // of what it would have used
		if t.Agent != nil {
			share = o.curb(*t.Agent)
		}
		end := agent.SimulatedExit{
			Exit:    process.Exit{Code: o.ExitCode, Signal: o.Signal, Duration: o.Takes},
			Unknown: o.Unknown, Type: o.Type,
		}
		wait := o.Takes
		switch {
		case c.Timeout > 0 && (o.Hangs || o.Takes >= c.Timeout):
			wait = c.Timeout
			end.Exit = process.Exit{Code: -1, Signal: "SIGTERM", TimedOut: true, Duration: c.Timeout}
		case o.Hangs:
			wait = forever
		case o.Signal != "":
			end.Code = -1
		}
		began := time.Now()
		// The commands of different items end at different times, and so always in the same order.
		order := t.Attempt.ItemIndex
		for _, i := range t.Element {
			order += i
		}
		err := duration.Sleep(ctx, wait+time.Duration(order))
		now := time.Now()
		if took := now.Sub(began); !o.Hangs && took < o.Takes {
			share *= float64(took) / float64(o.Takes)
		}
		end.Usage = o.Use.part(share)
		if err != nil {
			end.Exit = process.Exit{Code: -1, Signal: "SIGTERM"}
			return end, err
		}
		if o.Resets > 0 {
			end.ResetAt, end.Limit.Reset = now.Add(o.Resets), now.Add(o.Resets)
		}
		end.Limit.Share = o.LimitUsed
		if c.Stdout != nil {
			_, _ = c.Stdout.Write([]byte(o.Stdout))
		}
		if c.Stderr != nil {
			_, _ = c.Stderr.Write([]byte(o.Stderr))
		}
		return end, nil
	}
}

// phaseVerify is the phase of the attempts that verify what was merged.
const phaseVerify = "verify"

// curb ends a run of an AI coding CLI where it would be ended: when it costs more than it may, or has
// stalled. It returns the part of what it would have used that it has used by then.
func (o *Outcome) curb(a agent.SimulatedAgent) (share float64) {
	share = 1
	if most := a.Cap; most > 0 && o.Use.Costed && o.Use.Cost > most {
		share = float64(most) / float64(o.Use.Cost)
		o.Takes = time.Duration(float64(o.Takes) * share)
		o.Hangs, o.ExitCode, o.Signal, o.Type, o.Resets = false, 1, "", retry.TypeBudget, 0
		o.Stderr = "it reached its maximum cost of " + most.String() + "\n"
	}
	if o.Hangs && a.Stall > 0 {
		o.Hangs, o.Takes, o.ExitCode, o.Signal, o.Type = false, a.Stall, 1, "", retry.TypeStalled
		o.Stderr = "it made no progress for " + duration.Format(a.Stall) + " (stall_timeout)\n"
	}
	return share
}

// forever is how long a command runs that hangs and has no timeout.
const forever = 100 * 365 * 24 * time.Hour

// Job is a job to be simulated.
type Job struct {
	Config   mapreduce.Config // as for a run; what would reach out of the job is replaced
	Workflow *workflow.Workflow
	Source   []byte
	Model    Model
	Begin    time.Time     // when the job would begin
	MaxTime  time.Duration // of the job, by default DefaultMaxTime

	// Observe, when set, is called with every record, in order.
	Observe func([]events.Record)
}

// DefaultMaxTime is how long a simulated job may take.
const DefaultMaxTime = 366 * 24 * time.Hour

// TimeError says that a simulated job had not ended after its time.
type TimeError struct{ After time.Duration }

// Error says how far the simulation came.
func (e *TimeError) Error() string {
	return fmt.Sprintf("the simulation ended after %s of virtual time, with the job still running",
		duration.Format(e.After))
}

// Run simulates a job. The end of ctx, which is looked at when anything is recorded and each virtual minute, stops it
// as a signal stops a run. The errors are those of mapreduce.Run, and errStuck. What the job counted is in the
// Result, and its log below the home of the Config, marked as simulated.
func Run(ctx context.Context, sim Job) (result mapreduce.Result, err error) {
	c, w := sim.Config, inside(sim.Workflow)
	spaces := &workspaces{model: sim.Model}
	c.Simulate, c.Workspaces = commands(spaces), spaces
	c.Durability = events.None
	c.Since = jobs.Since{JobID: reuse.SinceNone}
	c.Control, c.Watcher, c.Executor, c.Echo, c.Progress, c.Printed = nil, nil, nil, nil, nil, nil
	limit := cmp.Or(sim.MaxTime, DefaultMaxTime)
	err = inVirtualTime(sim.Begin, func() error {
		kill, end := context.WithCancelCause(context.WithoutCancel(ctx))
		defer end(nil)
		stop, cancel := context.WithCancelCause(kill)
		defer cancel(nil)
		look := func() {
			if ctx.Err() != nil {
				cancel(context.Cause(ctx))
			}
		}
		c.Stop = stop
		c.Observe = func(records []events.Record) {
			look()
			if sim.Observe != nil {
				sim.Observe(records)
			}
		}
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			tick := time.NewTicker(time.Minute)
			defer tick.Stop()
			over := time.NewTimer(limit)
			defer over.Stop()
			for {
				select {
				case <-tick.C:
					look()
				case <-over.C:
					end(&TimeError{limit})
				case <-kill.Done():
					return
				}
			}
		}()
		var err error
		result, err = mapreduce.Run(kill, c, w, sim.Source)
		end(nil)
		<-watched
		return err
	})
	if errors.Is(err, errStuck) && result.Job.ID != "" {
		result.State = jobs.Failed
	}
	return result, err
}

// inside returns w without what asks this machine: guards, which count as open.
func inside(w *workflow.Workflow) *workflow.Workflow {
	own := *w
	own.Notify = nil
	if w.Map != nil {
		m := *w.Map
		m.Guards = limit.Guards{}
		own.Map = &m
	}
	return &own
}
