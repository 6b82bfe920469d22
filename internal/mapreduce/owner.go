package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/items"
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

	// shared is nil if the items share no slots with other jobs.
	shared *sharedSlots

	// inbox has the messages to the owner. It is buffered, and read only while a pool runs.
	inbox chan message

	// halting is closed when a pool begins to stop, which ends the waits of its agents.
	halting chan struct{}

	// agents has every goroutine of the run. The run ends when all of them have.
	agents errgroup.Group

	// runSeq is the number of the record that the run begins with.
	runSeq int64

	// died is when the run before died. Nil means that it did not, or that something explains its death.
	died *time.Time

	// serial means that there is one slot, which its agent keeps, so that one item comes after the other.
	serial bool

	// room is how many agents may run at a time by what there is of files, processes and memory. Goroutines of
	// agents lower it.
	room atomic.Int64

	// stages are those of the rollout of the map phase.
	stages []limits.Stage
}

// held is what a run holds besides the files of the job.
type held struct {
	lock     *jobs.Lock
	register *process.Register

	// temp is the directory of the private files of this run.
	temp string
}

// onWorkers is what a job has that runs on a fleet.
type onWorkers struct {
	// fleet is the executor, if that is one. Nil means that the items run on this machine.
	fleet Fleet

	// fleetSlots are the slots of the workers, as the fleet has said last.
	fleetSlots fleetSlots

	// elastic means that nobody has said how many slots there are: they are those of the workers.
	elastic bool

	// recorded is the number of slots of the fleet that was recorded or told last.
	recorded int

	// recordAt is when the change since then is recorded. Zero means that nothing has changed.
	recordAt time.Time

	// rescaled means that another workflow has another number of slots than somebody asked for.
	rescaled bool
}

// onItems is what is done for items beside their commands.
type onItems struct {
	// space is nil if the job has no workspaces.
	space Space

	// workspaceSteps are the attempts that make workspaces ready and verify merges, by "setup" and "verify". They
	// are made anew when a phase begins: see setSteps.
	workspaceSteps map[string]agent.Attempt

	// places are those of agent.Config.
	places map[string]string

	// files is nil if the map phase names none.
	files *reuse.Files

	// reuse is nil if no results are taken over.
	reuse *reuse.Reuse
}

// steering is the way of requests to the owner.
type steering struct {
	// controls has the requests of whoever steers the job.
	controls chan controlCall

	// closing is closed when the owner takes no more requests.
	closing chan struct{}

	// unlisten ends the way in of requests. It is nil if there is none.
	unlisten func() error

	// ordered is how the run is to end because a request said so. Nil means that none has.
	ordered atomic.Pointer[Result]
}

// attemptEnd is how an agent ended.
type attemptEnd struct {
	*agent.Attempt
	agent.Outcome
	files reuse.Attempt

	// err is the cause of a stop, or what prodigy itself could not do. Neither is a failure of the item.
	err error
}

// parking is an agent that waits, in its slot or outside of the slots.
type parking struct {
	token int64 // of its attempt
	index int   // of its item
	id    string
	slot  int // that it had when it began to wait
	due   time.Time

	// wake gets the slot in which the agent continues. It has room for that one value, so that the owner never waits
	// for an agent.
	wake chan int

	// turn means that the agent takes a turn of the limit of starts, if there is one.
	turn bool

	// keeps means that the agent keeps its slot.
	keeps bool

	// gone means that the agent has ended meanwhile. It is dropped when its turn comes.
	gone bool

	// step is the turn of the rate of a step that the agent has waited for since asked. It is nil if it waits for
	// something else.
	step  *agent.StepTurn
	asked time.Time

	// retries means that the agent waits for its own next try, and not for others.
	retries bool

	// forEnd means that the agent waits until another one has ended, of which ends had when it began to wait.
	forEnd bool
	ends   int64
}

// dueInOrder has k wait until then. Agents that are due together go on in the order of their items, nanoseconds apart.
func (k *parking) dueInOrder(then time.Time) { k.due = then.Add(time.Duration(k.index)) }

// newParking returns a wait of an attempt that takes no turn and is over at once.
func newParking(a *agent.Attempt) *parking {
	return &parking{token: a.Token, index: a.ItemIndex, id: a.ItemID, slot: a.Worker, wake: make(chan int, 1)}
}

// item returns an item as it was recorded.
func (j *owner) item(index int) (items.Item, error) {
	it, err := j.Store.At(index)
	if err != nil {
		err = fmt.Errorf("read the recorded item: %w", err)
	}
	return it, err
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

func slots(n int) string { return check.Counted(n, "slot") }

// span returns the span of the job.
func (j *owner) span() events.TraceContext { return events.TraceOfJob(j.place.ID, j.meta.TraceParent) }

// attemptID returns the ID of an attempt at an item.
func (j *owner) attemptID(itemID string, number int) string {
	return j.place.ID + "/" + itemID + "/" + strconv.Itoa(number)
}

// attemptOf names an attempt at an item.
func (j *owner) attemptOf(itemID string, index, number int) events.AttemptID {
	return events.AttemptID{ItemID: itemID, ItemIndex: index, AgentID: j.attemptID(itemID, number), Attempt: number}
}

// notRun names the end of an item for which nothing is run, after the attempts that it has had.
func (j *owner) notRun(itemID string, index int) events.AttemptID {
	return events.AttemptID{ItemID: itemID, ItemIndex: index, Attempt: j.NextNumber(index) - 1}
}

// earlier returns the steps of the phases before this one whose output later phases may name.
func (j *owner) earlier(phase string) []events.StepCompleted {
	var done []events.StepCompleted
	for _, name := range []string{"setup", "reduce"} {
		if name == phase || (name == "reduce" && phase != "merge") {
			break
		}
		for _, s := range j.Phase(name).Steps {
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
	took := j.Duration(time.Now()) - j.Phase(name).Began
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
	check.Wake(f.changed)
}

func (f *fleetSlots) now() (workers, slots int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.workers, f.slots
}

// mergeEnd is what the merger returns.
type mergeEnd struct {
	gitspace.Merged
	err  error
	took time.Duration
}

// printed is what the steps of a job print, as the owner of the job keeps it.
type printed struct {
	policy outputs.Policy
	store  *outputs.Store

	// spans are where the outputs of the running attempts are in the store, by the IDs of the attempts.
	spans map[string]outputs.Span

	// err is that of the first entry that could not be written. Nothing is written after it.
	err error
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

// errSkipped ends an attempt at an item that is not to run any more.
var errSkipped = errors.New("the item is skipped")

// stopResult returns how the run ends because somebody has asked for it; nil if nobody has.
func (j *owner) stopResult() *Result {
	if v := j.ordered.Load(); v != nil {
		return v
	}
	if cause := context.Cause(j.config.Stop); cause != nil {
		return &Result{State: jobs.Stopped, Reason: cause.Error()}
	}
	return nil
}

// host is a job as the executor of its attempts sees it. Its methods run on the goroutines of the attempts:
// they send messages to the owner of the job, and touch nothing that is the owner's.
type host struct {
	*owner
	agent.StepBreakers
	agent.UnmaskedOutputs
	starts starts
}

func inPhase(name, message string) string {
	if name == "" {
		return message
	}
	return name + ": " + message
}

// emitted is an event that happened outside of the loop.
type emitted struct {
	event events.Event

	// attempt is the ID of the attempt whose step the event is about. It is empty for an event of the job.
	attempt string
}
