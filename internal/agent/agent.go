// Package agent runs the steps of an attempt: for one item, or in one of the other phases.
//
// An Executor compiles the steps of a phase once (compile.go). Execute goes through them (execute.go): each is
// tried as often as its policy allows (retry.go), and hooks follow (hooks.go). One try (step.go) binds its values
// (bind.go), runs its command within its time (command.go, time.go), and makes a result or a failure of that
// (failure.go). The kinds of steps have a file each. A scope has the values that placeholders stand for. Whatever
// outlives an attempt goes to its Host.
package agent

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/mask"
	"prodigy/internal/process"
	"prodigy/internal/shell/template"
)

// Runner runs one command. process.Run is one; tests and dry runs are functions.
type Runner func(ctx context.Context, c process.Command) (process.Exit, error)

// Echo shows what the commands of items print, as they print it and without secrets. Its methods are called
// from many goroutines at once.
type Echo interface {
	// Command returns where a command that is about to start prints to. try is the try of its step, from 1.
	// Errors of the writers are the Echo's own: the command goes on.
	Command(a *Attempt, step string, try int) (stdout, stderr io.Writer)
}

// Config is how an Executor runs commands.
type Config struct {
	Run      Runner
	Claude   []string      // argv of the AI coding CLI of claude steps; claude.bind says how it gets its prompt
	Agents   ai.Set        // how AI coding CLIs are called and read; without it claude steps are judged by their exit code
	Seed     uint64        // of the jitter of retry delays
	Grace    time.Duration // between SIGTERM and SIGKILL
	LogSteps bool          // emit AgentProgress

	TempDir string   // private files of a step; "": os.TempDir
	Environ []string // the inherited environment

	// Places are the inherited variables that name a place which an attempt in a workspace has too: its path from
	// Attempt.Dir, by the name.
	Places map[string]string

	Secrets map[string]string // the values of secret variables, which are in no Attempt
	Mask    *mask.Masker      // removes them from outcomes and events

	Echo Echo // shows what the commands of items print; nil if nobody does

	Simulate Simulator // takes the place of Run; nil if commands are run

	// MaxCommands limits how many commands run at once, over all attempts, unless it is 0. The Executor lowers it
	// when files, processes or memory run short, and reports that to its Host.
	MaxCommands int
}

// Executor runs attempts on this machine.
type Executor struct {
	Config
	host      Host
	shell     func() *process.Shell // looked up once: a search of PATH for every command costs time
	limiter   limiter
	inherited func() []string // the environment that every command starts from, made once for all
	plans     plans
	unknown   atomic.Bool // a Simulator did not know what a command would print
	oom       *process.OOMKills
}

// New returns an Executor for the attempts of a host.
func New(c Config, h Host) *Executor {
	x := &Executor{Config: c, host: h, shell: sync.OnceValue(process.FindShell), oom: process.NewOOMKills()}
	x.inherited = sync.OnceValue(func() []string { return slices.DeleteFunc(slices.Clone(x.Environ), isOurs) })
	x.limiter.most, x.limiter.onLowered = c.MaxCommands, h.Lowered
	return x
}

// run is one execution of an attempt. It belongs to the goroutine of the attempt; the elements of a foreach
// have copies.
type run struct {
	x        *Executor
	a        *Attempt
	plan     *plan
	stop     context.Context // ends when the attempt is to be stopped; the time limits are not in it
	vars     []string        // prodigy's variables, the same for all commands of the attempt
	places   []string        // inherited ones that name a place, as they are for this attempt
	env      []string        // of the workflow
	envErr   error           // a value of env is missing: every step fails with this
	scratch  scratch         // private files of the attempt
	captured map[string]json.RawMessage

	rows    json.RawMessage // of map.results, once they were read
	rowsErr error           // they could not be read

	itemsFile string // the file of the items of a batch; empty means not asked for yet

	tryNumber  int              // of the step that runs
	session    string           // that its AI coding CLI is to continue; empty means none
	limit      *agentLimit      // of the time of the attempt; nil means none
	ticket     AgentTicket      // of the AI coding CLI that may start, or runs
	limitUse   ai.LimitUse      // that it has told of
	commands   *atomic.Int32    // how many have begun; shared by the elements of a foreach
	current    string           // label of the step of the attempt's own list that runs
	position   int              // of that step in the list
	keepSlot   bool             // it is one of several that share a slot, which it cannot give back while it waits
	cut        *Failure         // the command that a time limit around its step ended
	lostSecret error            // the step that is being bound names output that is not known any more
	element    []int            // in foreach: the indexes of the elements, of the outermost loop first
	fallback   bool             // the fallback of a step runs
	repeat     int              // how often its try was made again that charged nothing
	simulated  SimulatedExit    // of the last simulated command
	heads      map[*step]string // commit at which steps with commit_required began
}

func (r *run) emit(e events.Event) { r.x.host.Emit(r.a, e) }

func (r *run) newScratch() scratch { return scratch{x: r.x, stop: r.stop} }

// command is the compiled text of a step.
type command interface {
	// bind puts the values in. An error fails the step before anything runs.
	bind(r template.Resolver, x *Executor) (call, error)
	// render returns the text with its values, for people.
	render(r template.Resolver) string
}

// call is a command with its values in place.
type call struct {
	path     string // of the program; empty if it is looked up
	argv     []string
	program  process.Program // what argv would run when it is a shell and the program is all it runs
	env      []string
	input    string   // what it reads from its standard input
	ai       bool     // it is an AI coding CLI: what its tools have started ends with it
	aiRun    *aiRun   // how its output is read; nil if it is not
	defaults []string // variables that it gets where nothing else sets them
	values   string   // content of a private file that PRODIGY_VALUES names
	script   string   // content of a private file whose path is the last argument

	action action // instead of all above: what to do without one process of its own
}

// action does a bound step once. Its result counts when the step has failed, too.
type action func(ctx context.Context, r *run, st *step, b boundCommand) (result, error)

// boundCommand is a command with all that it needs to run.
type boundCommand struct {
	call
	env     []string
	dir     string
	scope   *scope
	output  *destination // of stdout, beside the capture; nil means none
	scratch *scratch     // its private files, for the caller to remove
}
