package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
)

// coordinator runs the attempts of one job on workers. It is the executor of the job.
//
// What it knows of the job is its jobState, and only turn has that. All else is set once, or has a lock of its own.
type coordinator struct {
	*brokerConn
	jobLock
	jobRun
	o       fleet.JobOptions
	signer  *signer
	members members
	slow    slowWork
	sender  sender

	// life ends at Close. work has what is done beside what is heard.
	life context.Context
	end  context.CancelFunc
	work background

	// key is the name of the job in the subjects. It is empty until the job is opened; what open starts reads it
	// without a turn.
	key string
	// adopted is closed when Submit has been called with all attempts that the run before left.
	adopted chan struct{}

	// mu guards state. Only turn has both.
	mu    sync.Mutex
	state jobState
}

// jobRun is what a coordinator is told by who runs the job, before it is opened.
type jobRun struct {
	// local runs attempts that are about no item.
	local *agent.Executor
	host  agent.Host
	c     agent.Config
	// clones is nil without workspaces.
	clones mapreduce.Clones
	// produces returns the paths of what an item leaves. It is nil if items leave no files.
	produces func(id string, item json.RawMessage) ([]string, error)
}

// jobState is what a coordinator knows of its job.
type jobState struct {
	ledger *fleet.Ledger
	// flights has the attempts that are out, by token.
	flights map[int64]*flight
	// ended has the attempts whose ends are not on disk yet, by token.
	ended map[int64]*flightEnd
	// awaited has the ids of attempts that the run before left, and that Submit has not been called with yet.
	awaited map[string]bool
	// stops has the contexts of attempts that endAll will be called for.
	stops map[context.Context]bool
	// gone is set when another coordinator has the job.
	gone bool
	// entry is what workers are told of the job.
	entry   fleet.Job
	shared  shared
	workers workerBook
	calls   callTable
	mailbox mailbox
	refuses refusals
	room    roomTold
	// told is what notifyOnce has told, by the digest of its key.
	told map[string]bool
}

// mailbox is what reports come by.
type mailbox struct {
	// ups has what workers say. It is nil while they are not heard.
	ups *nats.Subscription
	// made is when the stream of what they have left with the broker was made. It is zero before that was looked at.
	made time.Time
}

// roomTold is how many workers and slots somebody was told of.
type roomTold struct {
	tell           func(workers, slots int) // nil if nobody wants to know
	workers, slots int
}

// slowWork are things that take long. Of each, one is done at a time.
type slowWork struct {
	// opening opens the job once, with the error unopened.
	opening     sync.Once
	unopened    error
	reconciling sync.Mutex
	// packing guards packs: the packs that the broker has, by what they were asked for with.
	packing sync.Mutex
	packs   map[string]*fleet.File
	// sending is held while a file is sent again.
	sending sync.Mutex
	// showing guards flight.shown.
	showing sync.Mutex
	// fetching bounds how many results are fetched at a time.
	fetching chan struct{}
	// tendEvery is how often what the broker has lost is looked for. tending is set while tend is under way.
	tendEvery time.Duration
	tending   atomic.Bool
	// greeted answers workers that have said hello.
	greeted delayed
}

// Join connects the coordinator of a job.
func (Backend) Join(ctx context.Context, o fleet.JobOptions) (fleet.Coordinator, error) {
	if least := leastLease(o.Address); o.Lease < least {
		return nil, fleet.Refusef("--lease %s is too short: the minimum for this broker is %s", o.Lease, least)
	}
	if err := o.May(fleet.CoordinatorRole); err != nil {
		return nil, err
	}
	c := newCoordinator(o)
	var err error
	if c.signer, err = newSigner(o.Sign); err != nil {
		return nil, err
	}
	if len(o.Files) > 0 && len(o.Produces) > 0 {
		if c.produces, err = agent.Paths(o.Produces); err != nil {
			return nil, err
		}
	}
	if c.brokerConn, err = connect(ctx, o.Address, "coordinator", ensureStreams, c.reconnected); err != nil {
		return nil, err
	}
	context.AfterFunc(c.denied, func() { c.notify("the broker: %v", context.Cause(c.denied)) })
	return c, nil
}

// newCoordinator returns a coordinator that is not connected yet.
func newCoordinator(o fleet.JobOptions) *coordinator {
	c := &coordinator{
		o: o, jobLock: jobLock{owner: newInstance()}, adopted: make(chan struct{}),
		slow:    slowWork{tendEvery: time.Minute, fetching: make(chan struct{}, 4), packs: map[string]*fleet.File{}},
		sender:  sender{wake: make(chan struct{}, 1)},
		members: members{present: map[string]bool{}},
		state: jobState{
			ledger:  fleet.NewLedger(o.Lease, every(o.Lease), time.Now()),
			flights: map[int64]*flight{}, ended: map[int64]*flightEnd{}, stops: map[context.Context]bool{},
			shared:  shared{data: map[string][]byte{}, specs: map[string]string{}},
			workers: workerBook{},
			calls:   callTable{calls: map[callID]*call{}, tickets: map[string][]ticket{}},
			told:    map[string]bool{},
		},
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// turn calls f with what is known of the job, and does what follows from it. Turns are taken one at a time: f must not
// wait for anything, nor take a turn.
func (c *coordinator) turn(f func(s *jobState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.state
	f(s)
	e := s.ledger.Effects(time.Now())
	for _, r := range e.Back {
		c.endFlight(s, fleet.Ending{Token: r.Token}, flightEnd{err: fmt.Errorf("%w: %w", r.Why, agent.ErrReturned)})
	}
	for _, token := range e.Stuck {
		if f := s.flights[token]; f != nil {
			c.work.Go(func() {
				c.stop(fmt.Errorf("%s was sent to workers %d times, but never confirmed", f.ItemID, fleet.MostTimes))
			})
		}
	}
	if e.Join {
		c.work.Go(c.join)
	}
	if len(e.Gone) > 0 {
		c.work.Go(func() { _ = c.members.note("-", e.Gone) })
	}
	if e.Send {
		c.sender.now()
	} else if e.Ack {
		c.sender.soon.do(ackDelay, c.sender.now)
	}
	workers, slots := s.ledger.Slots()
	if r := &s.room; r.tell != nil && (workers != r.workers || slots != r.slots) {
		r.workers, r.slots = workers, slots
		r.tell(workers, slots)
	}
}

// mostKeys is how many keys are remembered. What is told after so many others may be told again.
const mostKeys = 1000

// notify tells people something. It is not called in a turn: who is told may wait.
func (c *coordinator) notify(format string, args ...any) { c.o.Notice(fmt.Sprintf(format, args...)) }

// notifyOnce is notify, unless it was called with the same key before.
func (c *coordinator) notifyOnce(key, format string, args ...any) {
	key = fleet.Digest([]byte(key)) // it may have what somebody has sent, however long
	known := false
	c.turn(func(s *jobState) {
		if known = s.told[key]; !known && len(s.told) >= mostKeys {
			clear(s.told)
		}
		s.told[key] = true
	})
	if !known {
		c.notify(format, args...)
	}
}

// stop asks the run to stop.
func (c *coordinator) stop(cause error) { c.o.Abort(inWords(cause)) }

// Executor is for mapreduce.Config.
func (c *coordinator) Executor(k agent.Config, h agent.Host) mapreduce.Executor {
	c.local, c.host, c.c = agent.New(k, h), h, k
	return c
}

var _ mapreduce.Fleet = (*coordinator)(nil)

// Holds returns all that it is asked about: whether workers have it is found out when it is executed.
func (c *coordinator) Holds(ctx context.Context, ids []string) ([]string, error) {
	job, _, _ := strings.Cut(ids[0], "/")
	c.turn(func(s *jobState) {
		s.awaited = map[string]bool{}
		for _, id := range ids {
			s.awaited[id] = true
		}
	})
	return ids, c.open(ctx, job)
}

// Execute runs an attempt that is about no item, here.
func (c *coordinator) Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error) {
	return c.local.Execute(ctx, a)
}

// Submit gives an attempt at an item to a worker.
func (c *coordinator) Submit(ctx context.Context, a *agent.Attempt, done doneFunc) {
	err := c.submit(ctx, a, done)
	if err == nil {
		return
	}
	if a.Adopted { // its worker may still run it, which the next resume finds out
		c.turn(func(s *jobState) { s.ledger.Leave(a.Token) })
		if ctx.Err() == nil {
			c.stop(err)
		}
		err = agent.ErrDetached
	}
	done(a, agent.Outcome{}, err)
}

// submit enters an attempt, and begins to hear workers with the last one that the run before left. After an error
// nothing of the attempt is entered, and done was not called.
func (c *coordinator) submit(ctx context.Context, a *agent.Attempt, done doneFunc) error {
	if err := c.open(ctx, a.JobID); err != nil {
		return err
	}
	spec := c.spec(*a)
	var err error
	last := false // of those that the run before left
	c.turn(func(s *jobState) {
		adopted := s.awaited[a.ID]
		delete(s.awaited, a.ID)
		last = adopted && len(s.awaited) == 0
		if !adopted && (s.ledger.Halted || ctx.Err() != nil) {
			s.ledger.Refuse(a.ID)
			err = fmt.Errorf("the job is stopping: %w", agent.ErrReturned)
			return
		}
		f := newFlight(ctx, a)
		f.spec, f.done = spec, done
		s.flights[a.Token] = f
		if adopted {
			s.ledger.Adopt(a.Token, a.RanOn)
		} else {
			s.ledger.Add(a.Token)
		}
		if !s.stops[ctx] {
			s.stops[ctx] = true
			context.AfterFunc(ctx, func() { c.endAll(ctx) })
		}
		if last {
			close(c.adopted)
		}
	})
	if err != nil || !last {
		return err
	}
	if err = c.begin(ctx); err != nil {
		c.turn(func(s *jobState) {
			if s.flights[a.Token] == nil { // its end is known already
				err = nil
				return
			}
			delete(s.flights, a.Token)
			s.ledger.Forget(a.Token)
		})
	}
	return err
}

// OnSlots sets who is told of the slots of the workers.
func (c *coordinator) OnSlots(changed func(workers, slots int)) {
	c.turn(func(s *jobState) { s.room.tell = changed })
}

// Hold gives back what no worker has, and has those wait no longer that wait.
func (c *coordinator) Hold() {
	c.turn(func(s *jobState) { s.ledger.Halted = true })
	c.setStop(fleet.Hold)
}

// TakeBack gives back what no worker has.
func (c *coordinator) TakeBack() { c.turn(func(s *jobState) { s.ledger.TakeBack() }) }

// End ends one attempt alone.
func (c *coordinator) End(token int64, cause error) {
	c.turn(func(s *jobState) { s.ledger.EndAlone(token, cause) })
}

// Hurry has the steps of attempts not wait any longer.
func (c *coordinator) Hurry(tokens []int64) { c.turn(func(s *jobState) { s.ledger.Hurry(tokens) }) }

// patience is how long workers may take to answer a stop besides the grace.
const patience = 3 * time.Second

// endAll ends what runs of the attempts of a context that has ended. Those that workers do not answer for in time go
// on.
func (c *coordinator) endAll(ctx context.Context) {
	out := false
	c.turn(func(s *jobState) {
		delete(s.stops, ctx)
		for _, f := range s.flights {
			out = out || f.of == ctx
		}
	})
	if !out {
		return
	}
	how := fleet.Grace
	if errors.Is(context.Cause(ctx), process.ErrKill) {
		how = fleet.Kill
	}
	c.setStop(how)
	pause(c.life, c.c.Grace+patience)
	c.turn(func(s *jobState) { s.leave(ctx) })
}

// leave leaves attempts to the run after this one: those that were submitted with a context, or all without one.
func (s *jobState) leave(of ...context.Context) {
	for token, f := range s.flights {
		if len(of) == 0 || slices.Contains(of, f.of) {
			delete(s.flights, token)
			s.ledger.Leave(token)
			f.cancel()
			f.done(f.Attempt, agent.Outcome{}, agent.ErrDetached)
		}
	}
}

// setStop tells the workers how far to stop. A stop is never taken back by a weaker one.
func (c *coordinator) setStop(how fleet.Stop) {
	rank := []fleet.Stop{"", fleet.Hold, fleet.Grace, fleet.Kill}
	c.turn(func(s *jobState) {
		j := &s.entry
		if slices.Index(rank, how) <= slices.Index(rank, j.Stop) {
			return
		}
		j.Stop = how
		j.Serial++
	})
	c.announce(false)
}

// isGone reports whether another coordinator has the job.
func (c *coordinator) isGone() (gone bool) {
	c.turn(func(s *jobState) { gone = s.gone })
	return gone
}

// partingTime is how long the end of a run may wait for a broker that is away, or has no leader.
const partingTime = 10 * time.Second

// Close ends the part of this process. When nothing of the job is out any more, nothing of it is left at the broker.
func (c *coordinator) Close() error {
	defer c.nc.Close()
	var key string
	clean := false
	c.turn(func(s *jobState) {
		key = c.key
		clean = !s.ledger.Detached && s.ledger.Len() == 0 && len(s.awaited) == 0
	})
	if key == "" { // nothing was given out, as by a resume that only had to merge
		if c.nc.IsConnected() {
			c.sweep(c.life)
		}
		c.end()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if c.nc.IsConnected() {
		_ = c.nc.FlushWithContext(ctx) // the acknowledgements
	}
	c.end()
	c.work.Wait()
	_ = c.members.file.Close() // nobody writes to it any more
	if c.isGone() {            // all that is left is another's
		return nil
	}
	for clean && !c.nc.IsConnected() && !c.nc.IsClosed() && ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond)
	}
	if !c.nc.IsConnected() {
		if clean {
			c.notify("the broker is unreachable and still has data of the job; the next run from here removes it " +
				"(or prodigy fleet sweep)")
		}
		return nil
	}
	if clean {
		_ = os.Remove(c.members.path)
		c.announce(true)
		if err := keepTrying(ctx, func(ctx context.Context) error { return c.clear(ctx, key) }); err != nil {
			first, _, _ := strings.Cut(inWords(err).Error(), "\n") // of the errors that were joined
			c.notify("the broker still has data of the job; the next run from here removes it (or prodigy fleet "+
				"sweep): %s", first)
		}
	}
	if err := c.unlock(ctx, clean); err != nil && !isConflict(err) {
		c.notify("the broker still has the lock of the job: %v", inWords(err))
	}
	c.sweep(ctx)
	return nil
}

// sweep removes what other jobs have left at the broker. What cannot be removed now is removed by another one.
func (c *coordinator) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	s := &sweeper{brokerConn: c.brokerConn, signer: c.signer, own: c.key, ended: c.o.Ended}
	found, _ := s.sweep(ctx, false)
	for _, r := range found {
		if r.Swept && r.Ended { // its coordinator was killed when all was done
			_ = os.Remove(probeOf(c.o.Dir, r.Key))
		}
	}
}
