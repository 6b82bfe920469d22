package mapreduce

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/reuse"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// Executor runs the attempts of a job. *agent.Executor runs them on this machine; another one may wrap it, or
// send attempts elsewhere.
type Executor interface {
	// Execute runs an attempt to its end. A failed step is an Outcome; the error is for what prodigy itself
	// could not do, or context.Cause(ctx) for a stop, which gives the attempt back.
	Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error)

	// Holds returns which of the attempts with these IDs, in flight when the run before this one ended, the
	// executor still has: they run, or their outcomes wait. Execute of such an attempt must not start it again,
	// but return how it ends. The others died with the run, and are started anew.
	Holds(ctx context.Context, ids []string) ([]string, error)
}

// Fleet is an Executor that gives attempts at items to workers elsewhere. What they run does not die with the
// run: Holds and Execute take it up again. Execute is for attempts that are about no item.
type Fleet interface {
	Executor

	// Submit takes an attempt at an item, and returns before it has ended. done is called once, must not block,
	// and gets an attempt that equals this one and what Execute would return; its error may also be one that
	// agent.GivenBack knows. Many attempts may be out: who needs the attempt until then had better keep only
	// what it does not share with others.
	Submit(ctx context.Context, a *agent.Attempt, done func(a *agent.Attempt, o agent.Outcome, err error))

	// Hold is called once when the job begins to stop: what has not begun anywhere is to be given back at once,
	// and attempts that wait for their next try end. What runs may go on until the context of Execute ends.
	Hold()

	// TakeBack gives back at once what has not begun anywhere. More may be given later.
	TakeBack()

	// OnSlots sets who is told how many workers take part in the job, and how many slots they have, whenever
	// one of both changes. changed must not block. It is called before all else.
	OnSlots(changed func(workers, slots int))

	// End ends one attempt alone, with the grace. Unless it ends by itself before, it is given back. It may be
	// called before Submit is, and must not block.
	End(token int64, cause error)

	// Hurry has the steps of attempts not wait any longer for their next tries, as far as their workers can be
	// told. It must not block.
	Hurry(tokens []int64)

	// Isolate says that attempts at items work in workspaces. It is called before all else.
	Isolate(Clones)
}

// Config is how a job is run. Of a resumed job some fields are ignored: it runs where it began, with the items
// that it had.
type Config struct {
	Home        jobs.Home
	Dir         string            // working directory of the run; ignored on a resume
	Environ     []string          // inherited by every command
	Stdin       io.Reader         // for a workflow that takes its items from there; ignored on a resume
	Values      []string          // of the command line: the workflow was parsed with them
	Settings    settings.Settings // what was found before the job begins
	Claude      []string          // argv of the AI coding CLI of claude steps
	Agents      ai.Set            // how AI coding CLIs are called and read, for a workflow with steps that need it
	Version     string            // of prodigy
	MaxParallel int               // 0 for what the workflow says
	// the cap that the workflow was parsed with, to parse it the same on resume; 0 for the default
	MaxDelay   time.Duration
	Seed       uint64 // of jitter; 0 for a random one, which is recorded with the job
	MaxRetries int    // how often a dead letter may be sent again
	// what agents may cost in all, from now on; 0 for what it was, at first what the workflow says
	MaxCost limit.USD

	job.LogConfig
	EndConfig
	ResumeConfig
	RetryConfig
	WorkspaceConfig
	FleetConfig
	RunConfig
	Hooks

	// Since is, of a new job, the earlier job whose results are taken over for items that have not changed.
	Since jobs.Since

	// Pool is the pool of this machine whose slots the items share with other jobs. Without a name it is, of a resumed
	// job, the recorded one.
	Pool jobs.Pool

	// InputMayCome makes Check warn of a missing input file instead of refusing it. No job runs without it.
	InputMayCome bool
}

// Reuse returns what of a Config is about the results of earlier jobs.
func (c Config) Reuse() reuse.Config {
	return reuse.Config{Home: c.Home, Dir: c.Dir, Environ: c.Environ, Settings: c.Settings, Since: c.Since}
}

// EndConfig is when and how a run ends before its job does.
type EndConfig struct {
	// Stop, when it ends, asks for a stop: no new agents, and running ones get the grace. Its cause is the
	// reason that is recorded. The ctx that Run is given kills instead. Nil never stops.
	Stop context.Context

	// what running agents get to finish in at a stop, and a process between SIGTERM and SIGKILL
	Grace       time.Duration
	StopNow     bool // no grace for running agents when the policy stops the job
	ExitOutside bool // outside of the windows of the job the run ends, stopped, instead of waiting for the next
}

// ResumeConfig is how a job goes on.
type ResumeConfig struct {
	Accept      bool         // although its rollout is held
	Force       bool         // although it was cancelled
	Replacement *Replacement // with this workflow; nil for the recorded one

	// MaxCrashes is how many unexplained deaths of a run make an item that was in flight run alone. After as many alone
	// it has failed. 0 is never.
	MaxCrashes int

	// Abandon has the items run here that ran on a fleet before, and gives up what its workers may still run,
	// which then may run twice. Without, such a job is resumed with a Fleet only.
	Abandon bool
}

// RetryConfig is how RetryDead runs dead letters.
type RetryConfig struct {
	// With is a revision of the user's repository that is the work of the one item that is chosen: it is merged, and no
	// agent runs.
	With string

	Rate   limit.Rate // how often agents may start at most, in place of what the workflow says; the zero Rate leaves it
	Set    []string   // what Settings have other values for than the job was started with, as NAME=VALUE
	Canary int        // how many dead letters are run first: if one of them fails again, the others are not run
}

// WorkspaceConfig is about a job with workspaces.
type WorkspaceConfig struct {
	WorkRoot   string     // directory of the workspaces of all jobs; "" for one of Home; ignored on a resume
	Workspaces Workspaces // makes them; nil for package gitspace
	AllowDirty bool       // a new job begins though the checkout has changes, which the workspaces do not have
}

// FleetConfig is about a job whose attempts run elsewhere.
type FleetConfig struct {
	// Executor makes what runs the attempts of the job. c is how commands are run on this machine, and h the
	// job that the attempts belong to; one that wraps another passes both on, or something that wraps them. Nil
	// is agent.New.
	Executor func(c agent.Config, h agent.Host) Executor

	OnFleet bool   // Executor makes a Fleet, so that what this machine has room for does not limit the attempts
	Broker  string // address of the broker of that Fleet, as it may be shown
}

// RunConfig is how commands are run on this machine.
type RunConfig struct {
	Runner agent.Runner // runs the commands; nil for process.Run
	Trace  bool         // commands of steps are told which span of the job they belong to, by TRACEPARENT

	// Simulate, when set, takes the place of all commands: nothing is started, and no files are touched but
	// those of the job and its input. The job is marked as simulated, and cannot be continued. If it has
	// workspaces, Workspaces must be set, too.
	Simulate agent.Simulator

	// Watcher is the argv that starts process.Watch, for process.OpenRegister, with the directory of the
	// private files in front: it ends the commands at once when this process is killed, and removes that
	// directory. Without it that is left to the resume.
	Watcher []string

	// Machine measures what the machine has left, for the guards of a job. Nil is limit.MachineNow.
	Machine func() (limit.Machine, error)
}

// Hooks are called while a job runs. Each may be nil.
type Hooks struct {
	// Control is called when the job has been opened, and lets requests come in until the function that it
	// returns is called. Ask does a request; it may be called on any goroutine, and answers when what it
	// recorded is durable. With an error other processes cannot steer the job, which is run all the same.
	Control func(place jobs.Job, ask func(job.Request) job.Answer) (stop func() error, err error)

	// Observe is called with every record once it is durable, in order, on a goroutine of the log.
	Observe func([]events.Record)

	// Progress is called when an agent of the map phase begins a step, also when that is not logged. It is
	// called by many goroutines and must not wait.
	Progress func(events.AgentProgress)

	// Printed is called with what commands print, as it comes. It is called by many goroutines, and must
	// neither wait nor change the entry.
	Printed func(outputs.Entry)

	// Echo shows what the commands of items print.
	Echo agent.Echo

	// Printing is recorded for later runs.
	Printing *jobs.Printing

	// Earlier is called with what the earlier runs of a resumed job have done, before the first call of Observe.
	Earlier func(Earlier)

	// RateWaited is called with how long an item could have started, but for the limit of starts. The owner of the job
	// calls it: it must not wait.
	RateWaited func(time.Duration)

	// Notice is called with messages for the user, for example about what a resume found.
	Notice func(text string)
}

// Earlier is what the earlier runs of a resumed job have done.
type Earlier struct {
	Metrics errorpolicy.Metrics
	Spent   limit.Total          // by AI agents
	MaxCost *limit.USD           // that they may cost in all, if a command line said so
	Paused  []events.QuotaPaused // what agents wait for

	// Unmerged counts the items whose work waits to be merged.
	Unmerged int

	// Slots is how many items may run at once.
	Slots int
}

// Result is how a run of a job ended, or one phase of it: then what is counted is not known yet.
type Result struct {
	Job      jobs.Job
	State    jobs.State
	Reason   string         // why it failed or stopped, and of a completed one what is worth telling
	Cause    error          // of Failed, when it is prodigy itself that could not go on
	Failure  *agent.Failure // the step of setup, reduce, merge or a standard workflow that failed the job
	Metrics  errorpolicy.Metrics
	Duration time.Duration
	Results  string // path of results.jsonl, when it was made
	Unknown  bool   // the log cannot be read any more: Metrics has nothing, since nobody can say what it would be

	// The job failed before anything was run, because the keys of its items are no names for them.
	Refused bool

	// Unproven says, of Stopped, that too few items of a canary or of a step of a ramp have succeeded.
	Unproven bool

	// Reduce and merge ran before some of the items succeeded, and do not know of that. Of a completed job.
	ReduceStale bool

	// Reduce and merge did not run, since their condition did not hold. Of a completed job.
	ReduceHeld bool

	Spent limit.Total // by AI agents

	// AsAsked means, of Stopped, that the run ended as somebody wanted: it was drained, or ended outside of the
	// windows of the job because of ExitOutside.
	AsAsked bool

	// Budget says, of Failed, that the budget allows no further agent.
	Budget *limit.JobSpent

	// Of a job with workspaces.
	Merge *MergeResult
	head  string // of a standard workflow: the commit that it ended at

	// Of RetryDead: how many entries it ran, and how many of them succeeded.
	Reprocessed, Recovered int
}

// MergeResult is what became of the work of a job with workspaces.
type MergeResult struct {
	events.Delivered
	Hidden  string `json:"-"`                 // the ref that always has it
	Merged  int    `json:"merged,omitempty"`  // items whose work is in the result
	Merging int    `json:"merging,omitempty"` // items whose work waits to be merged
}

// maxCost returns what the command line says that agents may cost, or nil.
func (c Config) maxCost() *limit.USD {
	if c.MaxCost == 0 {
		return nil
	}
	return &c.MaxCost
}

// shownText returns source without secrets, or nothing if none stands in it.
func shownText(s settings.Settings, source []byte) string {
	if text := s.Mask.Text(string(source)); text != string(source) {
		return text
	}
	return ""
}

// paramsOf returns the parameters that have values.
func paramsOf(s settings.Settings) map[string]json.RawMessage {
	params := map[string]json.RawMessage{}
	for _, arg := range s.Args {
		if arg.Value != nil {
			params[arg.Name] = json.RawMessage(arg.Value)
		}
	}
	return params
}

// Replacement is a workflow that takes the place of the one that a job was run with.
type Replacement struct {
	Workflow *workflow.Workflow
	Source   []byte // which it was parsed from
	Path     string // absolute
}

// Workspaces makes the workspaces of jobs. Package gitspace does, unless a Config has another.
type Workspaces interface {
	// Check returns what a new job would begin with. It only reads. The error says why it would be refused.
	Check(ctx context.Context, c gitspace.Config, allowDirty bool) (gitspace.Start, error)

	// Open makes the workspaces of a job, or those of a job that is continued, whose recorded head and work
	// that waits to be merged are given.
	Open(ctx context.Context, c gitspace.Config, start gitspace.Start, head string, live []gitspace.Work) (Space, error)
}

// Space has the workspaces of one job: see gitspace.Space.
type Space interface {
	Execute(ctx context.Context, inner gitspace.Executor, a agent.Attempt) (agent.Outcome, error)
	Environ(environ []string) []string
	Places(environ []string) map[string]string
	Phase(ctx context.Context, head string) (dir string, err error)
	PhaseHead(ctx context.Context, all bool, message string) (commit string, err error)
	Merge(ctx context.Context, head string, work []gitspace.Work) (gitspace.Merged, error)
	Publish(ctx context.Context, head string, settled []gitspace.Work) error
	Deliver(ctx context.Context, head string) (gitspace.Delivery, error)
	Into(ctx context.Context, branch, head string) error
	Checkout() []string
	Changed(ctx context.Context) []string
	History(ctx context.Context, from, to string) (gitspace.History, error)
	Adopt(ctx context.Context, head, revision string, index, attempt int) (gitspace.Work, error)
	Clean(ctx context.Context) error
	Forget() error
}

// Clones is what a Fleet needs so that attempts work in workspaces on other machines: see gitspace.OpenClone.
type Clones interface {
	cloner

	// Dir returns a directory for what the next run of the job has to know.
	Dir() string

	// Setup returns the attempt that makes a workspace ready, or nil if there is nothing to do. The first variable
	// of its environment is PRODIGY_CHECKOUT. It is called when there is an attempt at an item.
	Setup() *agent.Attempt
}

// cloner is what gitspace.Space has of a Clones.
type cloner interface {
	Seed(ctx context.Context) (gitspace.Seed, error)
	Pack(ctx context.Context, want, have []string, to *os.File) error
	Import(ctx context.Context, a *agent.Attempt, o *agent.Outcome, pack *os.File) error
}
