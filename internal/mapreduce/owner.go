package mapreduce

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// owner runs a job: it has its fold, and what it holds open. All of it belongs to one goroutine.
type owner struct {
	config   Config
	workflow *workflow.Workflow
	place    jobs.Job
	meta     jobs.Meta
	parallel int

	*job.Opened // its fold and its log
	held
	onWorkers
	onItems
	steering

	executor Executor
	host     *host
	printed  printed
	shared   *sharedSlots   // nil if the items share no slots with other jobs
	inbox    chan message   // from agents to the owner
	halting  chan struct{}  // closed when a pool begins to stop
	agents   errgroup.Group // every goroutine of the run

	runSeq int64          // number of the record that the run begins with
	died   *time.Time     // when the run before died, if nothing explains that
	serial bool           // there is one slot, which its agent keeps, so that one item comes after the other
	room   atomic.Int64   // how many agents may run at once by what there is of files, processes and memory
	crowds crowds         // of retries that are due at once
	stages []limits.Stage // of the rollout of the map phase
}

// held is what a run holds besides the files of the job.
type held struct {
	lock     *jobs.Lock
	register *process.Register
	temp     string // directory of the private files of this run
}

// onWorkers is what a job has that runs on a fleet.
type onWorkers struct {
	fleet      Fleet                                      // the executor, if it is one; else nil
	returned   func(*agent.Attempt, agent.Outcome, error) // takes what comes from it
	fleetSlots fleetSlots                                 // what it says
	// nobody has said how many slots: they are those of the workers
	elastic  bool
	recorded int // slots of the fleet, as they were recorded or told last
	// when the change since then is recorded; zero if there is none
	recordAt time.Time
	// another workflow has another number of slots than somebody asked for
	rescaled bool
}

// onItems is what is done for items beside their commands.
type onItems struct {
	space          Space                    // nil if the job has no workspaces
	workspaceSteps map[string]agent.Attempt // setup and verify: see setSteps
	places         map[string]string        // see agent.Config
	files          *reuse.Files             // nil if the map phase names none
	reuse          *reuse.Reuse             // nil if no results are taken over
}

// steering is the way of requests to the owner.
type steering struct {
	controls chan controlCall       // from who steers the job
	closing  chan struct{}          // closed when the owner takes no more requests
	unlisten func() error           // ends the way in of requests; nil if there is none
	ordered  atomic.Pointer[Result] // how the run is to end, because a request said so
	gate     holdGate               // of the next tries of steps
	waits    waits                  // of steps for their next tries
}

// message is sent by an agent to the owner. Exactly one of its fields is set, but for from.
type message struct {
	event   events.Event
	from    string // ID of the attempt of event, if it is of one
	printed *printedBy
	done    *attemptEnd
	merged  *mergeEnd
	park    *parking
	synced  *ack // an agent has waited for the disk
}

// attemptEnd is how an agent ended.
type attemptEnd struct {
	attempt    *agent.Attempt
	outcome    agent.Outcome
	outputFile string // of an output that is too large for its record
	outputCRC  string // of that file
	files      reuse.Attempt
	err        error // a stop, or what prodigy could not do
	ack        chan ack
}

// ack is the answer to an attemptEnd: the record to wait for before the slot is free.
type ack struct {
	seq  int64
	slot int
}

// parking is an agent that waits for the next try of a step and has left its slot to others.
type parking struct {
	token int64 // of its attempt
	index int   // of its item
	id    string
	due   time.Time
	wake  chan int // the slot it continues in, or sameSlot
	turn  bool     // it takes a turn of the limit of starts, if there is one
	keeps bool     // it has kept its slot, and only asks for the turn
	gone  bool     // it has ended meanwhile

	step  *agent.StepTurn // it waits for a turn of the rate of a step
	asked time.Time       // since when

	retries bool // it waits for its next try, not for others
}

// stopping returns the cause of the stop that was asked for, or nil.
func (j *owner) stopping() error {
	if j.stopResult() == nil {
		return nil
	}
	if j.ordered.Load() != nil {
		return errStopping
	}
	return context.Cause(j.config.Stop)
}

// errStopping is what an agent gets that waits for its next try when the pool stops.
var errStopping = errors.New("the job is stopping")

// stopped reports whether err is the result of a stop that was asked for.
func (j *owner) stopped(err error) bool {
	return err != nil && (agent.GivenBack(err) || errors.Is(err, errStopping) || errors.Is(err, errSkipped) ||
		errors.Is(err, process.ErrKill) || errors.Is(err, context.Cause(j.config.Stop)))
}

func (j *owner) notice(text string) {
	if j.config.Notice != nil {
		j.config.Notice(text)
	}
}

func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return strconv.Itoa(n) + " slots"
}

// attempt returns what all attempts of a phase have in common. The breakers of its steps continue in the state
// that the log has.
func (j *owner) attempt(phase string) agent.Attempt {
	j.host.breakers.Continue(phase, maps.Clone(j.Fold.Circuits[phase]))
	a := agent.Attempt{
		JobID: j.place.ID, Workflow: j.workflow.Name, Phase: phase, Dir: j.config.Dir, Env: j.env(),
		Secrets: j.config.Settings.Final, Args: j.config.Settings.Args,
		Earlier: j.earlier(phase),
	}
	j.setSteps(a)
	return a
}

// span returns the span of the job.
func (j *owner) span() events.TraceContext { return events.TraceOfJob(j.place.ID, j.meta.TraceParent) }

// attemptID returns the ID of an attempt at an item.
func (j *owner) attemptID(itemID string, number int) string {
	return j.place.ID + "/" + itemID + "/" + strconv.Itoa(number)
}

// env returns the resolved variables, or those of the workflow if the settings have not been resolved.
func (j *owner) env() []workflow.EnvVar {
	if s := j.config.Settings; s.Env != nil {
		return s.Env
	}
	return j.workflow.Env
}

// earlier returns the steps of the phases before this one whose output later phases may name.
func (j *owner) earlier(phase string) []events.StepCompleted {
	var done []events.StepCompleted
	for _, name := range []string{"setup", "reduce"} {
		if name == phase || (name == "reduce" && phase != "merge") {
			break
		}
		for _, s := range j.Fold.Phase(name).Steps {
			if s.Capture != "" {
				done = append(done, s)
			}
		}
	}
	return done
}

// recordPhaseCompleted records the end of a phase, with the time that all runs of the job have worked on it,
// and the commit that it ended at.
func (j *owner) recordPhaseCompleted(name, head string) {
	took := j.Fold.Duration(time.Now()) - j.Fold.Phase(name).Began
	j.Record(events.PhaseCompleted{Phase: name, DurationMS: events.Millis(took), Head: head})
}

// controlCall is a request on its way to the owner.
type controlCall struct {
	request job.Request
	reply   chan controlReply // gets one value
}

// controlReply is an answer, and the record that has to be durable before it is given, or 0 if none has to be.
type controlReply struct {
	job.Answer
	seq int64
}

// holdGate holds back the next tries of steps while the job is paused. Its zero value is open.
type holdGate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while it is open
}

func (g *holdGate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *holdGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// wait returns a channel that is closed when the gate opens, nil if it is open.
func (g *holdGate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// waits are the steps that wait for their next try in their slots or outside.
type waits struct {
	mu   sync.Mutex
	list map[*stepWait]struct{}
}

// stepWait is one step that waits.
type stepWait struct {
	itemID string
	over   chan struct{} // closed when it is not to wait any longer
}

func (w *waits) begin(itemID string) *stepWait {
	s := &stepWait{itemID: itemID, over: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list == nil {
		w.list = map[*stepWait]struct{}{}
	}
	w.list[s] = struct{}{}
	return s
}

func (w *waits) remove(s *stepWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.list, s)
}

func (w *waits) count(names func(itemID string) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for s := range w.list {
		if names(s.itemID) {
			n++
		}
	}
	return n
}

// end ends the waits of the steps of some items.
func (w *waits) end(names func(itemID string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.list {
		if names(s.itemID) {
			close(s.over)
			delete(w.list, s)
		}
	}
}

// fleetSlots are the slots of the workers that take part in a job, as the fleet has said last. It may be used
// by several goroutines.
type fleetSlots struct {
	changed chan struct{} // gets a value when they have changed

	mu             sync.Mutex
	workers, slots int
}

func (f *fleetSlots) set(workers, slots int) {
	f.mu.Lock()
	f.workers, f.slots = workers, slots
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default: // there is one already
	}
}

func (f *fleetSlots) now() (workers, slots int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.workers, f.slots
}

// mergeEnd is what the merger returns.
type mergeEnd struct {
	merged gitspace.Merged
	err    error
	took   time.Duration
}

// printed is what the steps of a job print, as the owner of the job keeps it.
type printed struct {
	policy outputs.Policy
	store  *outputs.Store
	spans  map[string]outputs.Span // of the attempts that run, by ID
	err    error                   // of the first entry that could not be written
}

// printedBy is a message of an attempt: a piece of what it printed.
type printedBy struct {
	attempt string // its ID
	entry   outputs.Entry
}

// granted returns what is kept of an attempt that begins now.
func (p *printed) granted() outputs.Policy {
	granted := p.policy
	granted.Keep = p.store.Granted(granted.Keep)
	return granted
}

// keep writes what an attempt has printed.
func (p *printed) keep(m *printedBy) error {
	if p.err != nil {
		return p.err
	}
	at, err := p.store.Append(m.entry)
	if err != nil {
		p.err = err
		return err
	}
	if at.Length > 0 {
		p.spans[m.attempt] = p.spans[m.attempt].To(at)
	}
	return nil
}

// of returns where the outputs of an attempt are that it has printed by now, or nil.
func (p *printed) of(attempt string) *outputs.Span {
	span, ok := p.spans[attempt]
	if !ok {
		return nil
	}
	return &span
}

// take is of, for an attempt or step that has ended: what follows is of the next.
func (p *printed) take(attempt string) *outputs.Span {
	span := p.of(attempt)
	delete(p.spans, attempt)
	return span
}

// withOutputs adds to an event of an attempt, when it ends a step of a phase that runs once, where the outputs
// of the step are.
func (p *printed) withOutputs(e events.Event, attempt string) events.Event {
	switch e := e.(type) {
	case events.StepCompleted:
		e.Outputs = p.take(attempt)
		return e
	case events.StepFailed:
		if e.ItemID == "" {
			e.Outputs = p.of(attempt)
		}
		return e
	}
	return e
}

// sharedSlots are the slots of a pool of this machine that the items of the job hold, by the slot of the job.
// An item that waits holds none.
type sharedSlots struct {
	*limit.SharedPool
	mu   sync.Mutex
	held map[int]*limit.SharedSlot
}

// put notes that a slot of the job holds s.
func (s *sharedSlots) put(slot int, shared *limit.SharedSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[slot] = shared
}

// yield gives back what a slot of the job holds, if it does.
func (s *sharedSlots) yield(slot int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	shared := s.held[slot]
	delete(s.held, slot)
	s.mu.Unlock()
	if shared != nil {
		_ = shared.Release() // the file is closed in any case, which unlocks it
	}
}

func (s *sharedSlots) has(slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[slot] != nil
}

// close gives everything back.
func (s *sharedSlots) close() error {
	if s == nil {
		return nil
	}
	for slot := range s.held {
		s.yield(slot)
	}
	return s.Close()
}
