package agent

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/filter"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// Executor runs attempts on this machine.
type Executor struct {
	Config
	host    Host
	limiter limiter
	plans   plans
	oom     *process.OOMKills

	// shell looks for the shell once: a search of PATH for every command costs time.
	shell func() *process.Shell

	// inherited returns the environment that every command starts from. It is made once for all.
	inherited func() []string

	// unknown means that a Simulator did not know what a command would print.
	unknown atomic.Bool
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
	x    *Executor
	a    *Attempt
	plan *plan

	// stop ends when the attempt is to be stopped. The time limits are not in it.
	stop context.Context

	// vars are prodigy's variables, the same for all commands of the attempt.
	vars []string

	// places are inherited variables that name a place, as they are for this attempt.
	places []string

	// env are the variables of the workflow. If a value is missing, every step fails with envErr.
	env    []string
	envErr error

	// scratch has the private files of the attempt.
	scratch  scratch
	captured map[string]json.RawMessage

	// rows are those of map.results, once somebody has asked for them, or rowsErr says why they cannot be read.
	rows    json.RawMessage
	rowsErr error

	// itemsFile is the file of the items of a batch. It is empty until somebody asks for it.
	itemsFile string

	// current is the label of the step of the attempt's own list that runs, and position its place there. tryNumber
	// is that of its try, and repeat how often that was made again without a charge.
	current   string
	position  int
	tryNumber int
	repeat    int

	// session is the one that the AI coding CLI of the step is to continue. Empty means that it begins one.
	session string

	// ticket is that of the AI coding CLI that may start or runs, and limitUse what it has told of its plan.
	ticket   AgentTicket
	limitUse ai.LimitUse

	// limit is that of the time of the attempt.
	limit *timeLimit

	// commands is how many commands have begun. The elements of a foreach share it.
	commands *atomic.Int32

	// keepSlot means that the run is one of several that share a slot, which it cannot give back while it waits.
	keepSlot bool

	// cut is the command that a time limit around its step has ended.
	cut *Failure

	// lostSecret is set if the step that is being bound names output that is not known any more.
	lostSecret error

	// element has the indexes of the elements in foreach, of the outermost loop first.
	element []int

	// fallback means that the fallback of a step runs.
	fallback bool

	// simulated is the end of the last simulated command.
	simulated SimulatedExit

	// heads are the commits at which steps with commit_required began.
	heads map[*step]string
}

func (r *run) emit(e events.Event) { r.x.host.Emit(r.a, e) }

// command is the compiled text of a step.
type command interface {
	// bind puts the values in. An error fails the step before anything runs.
	bind(r template.Resolver, x *Executor) (call, error)
	// render returns the text with its values, for people.
	render(r template.Resolver) string
}

// call is a command with its values in place.
type call struct {
	// path is that of the program. It is empty if the program is looked up.
	path string
	argv []string

	// program is what argv would run if it is a shell and the program is all it runs.
	program process.Program
	env     []string

	// input is what the command reads from its standard input.
	input string

	// ai means that the command is an AI coding CLI: what its tools have started ends with it. aiRun is how its output
	// is read, nil if it is not read.
	ai    bool
	aiRun *aiRun

	// defaults are variables that the command gets where nothing else sets them.
	defaults []string

	// values is the content of a private file that PRODIGY_VALUES names.
	values string

	// script is the content of a private file whose path is the last argument.
	script string

	// action takes the place of all above in a step that has no process of its own.
	action action
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

// plan is everything that is compiled of the attempts of one phase. It is immutable.
type plan struct {
	env      []variable
	steps    []*step
	handler  []*step
	itemFile bool // some text names PRODIGY_ITEM_FILE
}

// step is a workflow.Step, compiled.
type step struct {
	*workflow.Step
	label    string
	kind     string
	position int // in its list

	// rateKey returns the key of the rate of the step. It is nil if that has no keys.
	rateKey func(id string, item json.RawMessage) string

	// broken is set if a text of the step does not compile.
	broken  error
	command command
	env     []variable

	// dir is nil for the directory of the attempt. The others are nil if the step has none.
	dir      *template.Plain
	output   *outputFile
	when     *condition
	validate *validation

	// inner are the lists of steps that are part of the step.
	inner [][]*step

	// results means that some text may name map.results.
	results bool

	// nth is that of the StepBreaker of the step, if it has one.
	nth int

	// The hooks.
	onSuccess []*step
	onCode    map[int][]*step
	onFailure []*step
	fallback  command // nil if the step has none

	// after is the file that says when to try again. Nil means none.
	after *template.Plain
}

// variable is one of an env block, compiled: a text, a command whose output is the value, a literal or a secret.
type variable struct {
	name string

	// value is set if the variable is a text with placeholders, and command if it is the output of a command.
	value   *template.Plain
	command command
	literal string

	// secret means that the Executor has the value.
	secret bool
}

// plans are the plans that an Executor has made, so that the agents of a phase share one.
type plans struct {
	mu   sync.Mutex
	made map[planKey]*plan
}

type planKey struct{ job, phase, spec string }

// scope has the values that placeholders stand for in one list of steps.
type scope struct {
	run *run

	// results are those of the steps so far, by the kind, the id and the capture of each.
	results map[string]result

	// env are the variables of the workflow, and of the step that is bound.
	env []string

	// failed is the failure that a handler follows.
	failed *stepEnd

	// loop is that of a foreach.
	loop *loop

	// dir is the working directory of steps without one of their own. Empty means that of the attempt.
	dir string

	// quiet means that what the steps print is not shown: it is a part of the output of another step.
	quiet bool

	// scratch is where values go that are wanted in files. It is nil if no files can be made.
	scratch *scratch

	// needsResults means that the step that is bound may name map.results.
	needsResults bool

	// validation is the result of the last validation. It is nil if there was none.
	validation json.RawMessage
}

// result is what a step leaves to the steps after it.
type result struct {
	Printed
	// masked is the same without secrets. It is nil if there are none in it.
	masked *Printed

	// lost means that what was printed held secrets, and is not known any more.
	lost     bool
	code     int
	duration time.Duration
	failed   bool

	// dir is where the command ran. It is empty if the command was not bound.
	dir string

	// shut is for how long from the end of the try the breaker of the step refuses all others.
	shut time.Duration

	// skipped means that the condition of the step was not met. All else is empty then.
	skipped bool

	// data is the output in the format of the capture. It is nil if the output is a text.
	data json.RawMessage

	// validation is the result of the validation of the step. It is nil if the step has none.
	validation json.RawMessage

	// session is that of an AI coding CLI, which the next try continues. It is empty if that begins a new one, and
	// sessionUnknown says that there was none to be continued.
	session        string
	sessionUnknown bool

	// ai is nil if it was not a run of an AI coding CLI.
	ai *events.AgentEnd
}

// stepEnd is how a step ended, after all its tries and hooks.
type stepEnd struct {
	result   result   // the step's own, or that of its fallback
	handler  *result  // of the last step of its handler; nil if there was none, or the step ran once more after it
	failure  *Failure // nil: it succeeded, or is forgiven
	attempts int
	reason   retry.Reason // why there is no further try after the failure
	printed  bool         // the output has been shown
}

// loop is the element that the steps of a foreach run for. Its names hide those outside.
type loop struct {
	as           string
	value        json.RawMessage // nil: not known before the run
	index, total int
	outer        *loop
}

// aiRun is how the output of a run of an AI coding CLI is read.
type aiRun struct {
	workflow.Agent // of an agent step. Once the call is complete, Schema is what stands in the file

	preset *ai.Preset
	prompt string
	model  string // that it was told to use, or empty for the default of the CLI
	limits ai.Limits

	sessions  bool   // it may continue one
	session   string // that it works in; empty if it is not known yet
	continued bool   // it was begun by a run before

	// lenient says that the command may be one of the user's own that is only called like a CLI: plain text is
	// its output, and its exit code decides, as long as it prints nothing of what the preset knows.
	lenient bool

	// raw says that the command was told itself how to print: its output stays as it is.
	raw bool
}

// timeLimit is a context that ends with the time that an attempt or a step may take, which can be put off. It is the
// cause of that end itself.
type timeLimit struct {
	context.Context
	cancel context.CancelCauseFunc
	of     string      // what may take so long
	timer  *time.Timer // nil if there is no limit

	mu sync.Mutex
	at time.Time
}

// scratch has the private files of one try of a step, or of a whole attempt.
type scratch struct {
	run    *run
	files  []string
	memory []*os.File // those that hold secrets, where the system can keep them off the disk
	err    error      // of the first file that could not be written
}

// condition is the compiled when of a step.
type condition struct {
	parsed *filter.Condition
	terms  []term
}

// term is one of the values in a condition: exactly one of its fields is set.
type term struct {
	single *template.Expression
	text   *template.Plain
}

// validation is the compiled validation of a step.
type validation struct {
	*workflow.Validate
	commands   []*step
	resultFile *template.Plain // nil: the output is the result
	completion []*step         // of on_incomplete
}

// outputFile is the compiled output_file of a step.
type outputFile struct {
	path *template.Plain
	head *template.Plain // the part of the path before the first value that is data; nil if no value is
}

// destination is where the stdout of a command goes beside the capture. It is written to a file beside the
// path, which gets its name when the step has succeeded: until then, and after a failure, an earlier file stays
// as it was.
type destination struct {
	within string // a directory that the path must not leave; empty if it may be anywhere
	path   string
	// in the name of the file that is written: the same when a resume runs the step again, which removes what a
	// killed run left
	tag    string
	beside string // the file that is written, below within; empty means none, or the path itself
}
