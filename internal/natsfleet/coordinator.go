package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
)

// coordinator runs the attempts of one job on workers. It is the executor of the job.
type coordinator struct {
	*brokerConn
	o      fleet.JobOptions
	owner  string
	signer *signer

	reconciling  sync.Mutex
	locking      sync.Mutex
	lockRevision uint64
	epoch        int64
	jobID        string // once it is opened
	curve        nkeys.KeyPair
	curvID       string

	local *agent.Executor // of attempts that are about no item
	host  agent.Host
	c     agent.Config

	life context.Context // ends at Close
	end  context.CancelFunc
	work background

	tendEvery time.Duration // how often what the broker has lost is looked for
	tending   atomic.Bool   // tend is under way

	given        map[int64]string       // with credentials: the ids of the workers that have attempts, by their tokens
	showing      sync.Mutex             // of flight.shown
	noting       sync.Mutex             // of members and present; mu may be taken while it is held, not the other way
	present      map[string]bool        // instances that members has
	torn         bool                   // the last line of members may be a part of one
	attemptsSize int                    // bytes of what is in members about attempts
	clones       mapreduce.Clones       // nil: the job has no workspaces
	base         string                 // the commit that it begins at
	packing      sync.Mutex             // held while objects are packed
	packs        map[string]*fleet.Pack // that the broker has, by what they were asked for with

	opening  sync.Mutex                                      // held by open and reconcile
	putting  sync.Mutex                                      // of specs
	produces func(string, json.RawMessage) ([]string, error) // nil: none
	fetching chan struct{}                                   // bounds what is fetched at once
	key      string                                          // of the job; empty: not opened yet. Once it is set it can be read without mu by what open starts
	opened   bool                                            // open has returned
	unopened error                                           // with this
	probe    string                                          // path of the file
	noted    map[string]bool                                 // instances that are in members
	members  *os.File                                        // the same: it has the instances that were given something
	returns  string                                          // subjects of what could not be delivered
	hear     jetstream.ConsumeContext
	caughtUp chan struct{} // closed when the reports of before have been heard
	once     sync.Once     // closes it

	joining        []fleet.WorkerStatus // of workers that are being noted
	waking         bool                 // what there is will be sent in a moment
	sending        chan struct{}        // something is to be sent
	mu             sync.Mutex
	streamMade     time.Time // when the stream of the reports was; zero: it has not been looked at
	job            fleet.Job
	dispatcher     *fleet.Dispatcher
	flights        map[int64]*flight
	lost           map[int64]*lostAttempt   // by token; the oldest are forgotten
	lostOrder      []int64                  // their tokens, and those of some whose ends are known
	awaited        map[string]bool          // ids of attempts that the run before left, which Submit has not been called with yet
	adopted        chan struct{}            // closed when it has been called with all of them
	pending        map[string][]*pendingAck // ends whose records are not durable, by agent id, in order
	pendingByToken map[int64]*pendingAck    // the same by token
	outboxes       map[string]*outbox
	ends           map[int64]error    // why attempts are to be ended alone, by token
	dirty          []string           // instances that something is to be sent to
	ups            *nats.Subscription // nil: workers are not heard yet
	objects        map[string][]byte  // specs and the list of files, by name
	files          []fleet.File
	specs          map[string]*sharedSpec // that the broker has, by the spec of the attempt and what else is in it
	calls          map[callID]*call
	answered       []callID            // those of calls that are answered, the oldest first
	tickets        map[string][]ticket // of half-open breakers and quotas, by instance
	notice         func(string)
	onSlots        func(workers, slots int) // nil: nobody wants to know
	workers        int                      // as onSlots was told
	slots          int
	seen           map[string]time.Time // when instances were heard of
	roster         roster
	clocks         fleet.Clocks
	short          map[string]string // what the machines of instances have too little of, by their name, as it was told
	named          map[string]bool   // instances with names that are theirs
	refused        map[string]bool   // what notifyOnce has told, by the digest of its key: instances whose refusal was told, and with what they have not believed
	stops          map[context.Context]bool
	refuses        refusals
	held           bool
	gone           bool              // another coordinator has the job
	announcing     sync.Mutex        // held while the entry of the job is written
	described      bool              // job has all that workers need
	stopRun        func(cause error) // see fleet.Coordinator.OnAbort
	detached       bool              // some attempts may still run
	detachedTokens map[int64]bool    // of attempts that may still run, and whose ends are for the run after this one
	stopping       sync.Once
}

// Join connects the coordinator of a job.
func (Backend) Join(ctx context.Context, o fleet.JobOptions) (fleet.Coordinator, error) {
	if least := leastLease(o.Address); o.Lease < least {
		return nil, fleet.Refusef("--lease %s is too short: with this broker it must be at least %s", o.Lease, least)
	}
	if err := o.May(fleet.CoordinatorRole); err != nil {
		return nil, err
	}
	sign, err := newSigner(o.Sign)
	if err != nil {
		return nil, err
	}
	curve, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, err
	}
	public, err := curve.PublicKey()
	if err != nil {
		return nil, err
	}
	c := &coordinator{
		o: o, tendEvery: time.Minute, owner: newInstance(), signer: sign, curve: curve, curvID: public, caughtUp: make(chan struct{}), sending: make(chan struct{}, 1), adopted: make(chan struct{}), flights: map[int64]*flight{},
		pending: map[string][]*pendingAck{}, pendingByToken: map[int64]*pendingAck{}, lost: map[int64]*lostAttempt{}, outboxes: map[string]*outbox{}, ends: map[int64]error{}, specs: map[string]*sharedSpec{}, objects: map[string][]byte{}, noted: map[string]bool{}, fetching: make(chan struct{}, 4), calls: map[callID]*call{},
		tickets: map[string][]ticket{}, named: map[string]bool{}, refused: map[string]bool{}, short: map[string]string{}, seen: map[string]time.Time{}, roster: roster{}, clocks: fleet.Clocks{}, stops: map[context.Context]bool{},
		packs: map[string]*fleet.Pack{}, given: map[int64]string{}, present: map[string]bool{}, dispatcher: fleet.NewDispatcher(o.Lease, every(o.Lease), time.Now()), notice: func(string) {}, stopRun: func(error) {},
	}
	c.life, c.end = context.WithCancel(context.Background())
	if len(o.Files) > 0 && len(o.Produces) > 0 {
		if c.produces, err = agent.Paths(o.Produces); err != nil {
			return nil, err
		}
	}
	c.brokerConn, err = connect(ctx, o.Address, "coordinator", provisioned, c.reconnected)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(c.denied, func() { c.notify("the broker: %v", context.Cause(c.denied)) })
	return c, nil
}

func (c *coordinator) Notify(notice func(string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice = notice
}

func (c *coordinator) OnAbort(stop func(cause error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopRun = stop
}

func (c *coordinator) notify(format string, args ...any) {
	c.mu.Lock()
	notice := c.notice
	c.mu.Unlock()
	notice(fmt.Sprintf(format, args...))
}

// notifyOnce is notify, unless it was called with the same key before.
func (c *coordinator) notifyOnce(key, format string, args ...any) {
	c.mu.Lock()
	first := c.isFirst(key)
	c.mu.Unlock()
	if first {
		c.notify(format, args...)
	}
}

// mostRefused is how many keys are remembered. What is told after so many others may be told again.
const mostRefused = 1000

// isFirst reports whether nothing was told with a key yet, and remembers the key. It is called with the lock held.
func (c *coordinator) isFirst(key string) bool {
	key = digest([]byte(key)) // it may have what somebody has sent, however long
	if c.refused[key] {
		return false
	}
	if len(c.refused) >= mostRefused {
		clear(c.refused)
	}
	c.refused[key] = true
	return true
}

// Executor is for mapreduce.Config.
func (c *coordinator) Executor(k agent.Config, h agent.Host) mapreduce.Executor {
	c.local, c.host, c.c = agent.New(k, h), h, k
	return c
}

var _ mapreduce.Fleet = (*coordinator)(nil)

// Holds returns all that it is asked about: whether workers have it is found out when it is executed.
func (c *coordinator) Holds(ctx context.Context, ids []string) ([]string, error) {
	job, _, _ := strings.Cut(ids[0], "/")
	c.mu.Lock()
	c.awaited = map[string]bool{}
	for _, id := range ids {
		c.awaited[id] = true
	}
	c.mu.Unlock()
	return ids, c.open(ctx, job)
}

// open takes the lock of the job, makes what it needs at the broker, and begins to receive from workers. It does so once: later calls return the
// same error.
func (c *coordinator) open(ctx context.Context, jobID string) (err error) {
	if opened, err := c.isOpen(); opened {
		return err
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	if opened, err := c.isOpen(); opened { // meanwhile
		return err
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.opened, c.unopened = true, err
	}()
	key := keyOf(jobID, c.c.Seed)
	c.probe = c.probeOf(key)
	if c.clones != nil { // nobody looks for it in the checkout of the user
		c.probe = filepath.Join(c.clones.Dir(), "fleet")
	}
	c.jobID, c.epoch = jobID, max(c.epoch, epochIn(c.probe)+1)
	if err := c.provided(ctx, func(ctx context.Context) error { return c.lock(ctx, key, jobID) }); err != nil {
		return err
	}
	c.mu.Lock()
	adopts := len(c.awaited) > 0
	c.mu.Unlock()
	if err := c.openMembers(key, adopts); err != nil {
		return fmt.Errorf("make the file by which workers find the directory of the run: %w", err)
	}
	c.mu.Lock()
	c.key = key
	c.job = fleet.Job{
		V: fleet.Protocol, ID: jobID, Owner: c.owner, Version: c.o.Version, Lease: c.o.Lease, Requires: c.o.Requires, Programs: c.o.Programs, Guards: c.o.Guards, Dir: c.o.Dir,
		Probe: filepath.Base(c.probe), Grace: c.c.Grace, Secrets: len(c.c.Secrets) > 0, Epoch: c.epoch,
		Stop: c.job.Stop, Serial: c.job.Serial, // somebody may have asked for a stop
	}
	c.mu.Unlock()
	c.returns = c.nc.NewInbox()
	for subject, answer := range map[string]nats.MsgHandler{
		ownerSubject(key):     c.confirm,
		callSubject("*", key): func(m *nats.Msg) { go c.call(m) },
		liveSubject("*", key): c.progress,
		c.returns + ".>":      c.returned,
		nodesSubject:          c.tellRoster,
	} {
		if _, err := c.subscribe(subject, answer); err != nil {
			return err
		}
	}
	// Reports that the coordinator before had not acknowledged come at once when the consumer is new.
	if err := c.provided(ctx, func(ctx context.Context) error {
		if err := c.js.DeleteConsumer(ctx, outStream, key); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
		return c.ensureConsumer(ctx)
	}); err != nil {
		return err
	}
	if len(c.o.Files) > 0 {
		var name string
		if err := c.provided(ctx, func(ctx context.Context) (err error) {
			name, err = c.sendFiles(ctx)
			return err
		}); err != nil {
			return err
		}
		c.mu.Lock()
		c.job.Files = name
		c.mu.Unlock()
	}
	if c.clones != nil {
		name, err := c.sendSeed(ctx)
		if err != nil {
			return fmt.Errorf("send what workspaces are made of: %w", err)
		}
		c.mu.Lock()
		c.job.Seed = name
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.described = true
	c.mu.Unlock()
	c.work.Go(c.send)
	c.work.Go(c.monitor)
	if adopts {
		return nil
	}
	return c.begin(ctx)
}

// isOpen reports whether open has returned, and with which error.
func (c *coordinator) isOpen() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened, c.unopened
}

// confirm answers who asks whether this is the coordinator of the job.
func (c *coordinator) confirm(m *nats.Msg) {
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone {
		return
	}
	_ = m.RespondMsg(c.signer.message("", signedOwner, c.key+"\x00"+string(m.Data), []byte(c.owner)))
}

// begin starts to receive from workers, and announces the job to them. All attempts that the run before left must be known by then, or what is reported of them
// would be late.
func (c *coordinator) begin(ctx context.Context) error {
	consume := func(context.Context) error { return c.consume() }
	if err := c.provided(ctx, consume); err != nil {
		return err
	}
	for waits := true; waits; {
		select {
		case <-c.caughtUp:
			waits = false
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
			if !c.lostBacklog(ctx) {
				continue
			}
			if err := c.provided(ctx, consume); err != nil {
				return err
			}
		}
	}
	ups, err := c.subscribe(upSubject("*", c.key), c.receive)
	if err != nil {
		return err
	}
	if err := ups.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	c.mu.Lock()
	c.ups = ups
	c.mu.Unlock()
	return c.provided(ctx, c.announce)
}

// lostBacklog reports whether the broker has nothing left of the reports that are to be read: it has lost its disk, and the consumer too, unless that was made
// again since.
func (c *coordinator) lostBacklog(ctx context.Context) bool {
	consumer, err := c.js.Consumer(ctx, outStream, c.key)
	if err != nil {
		return isMissing(err)
	}
	is := consumer.CachedInfo()
	return is.NumPending == 0 && is.NumAckPending == 0
}

// provided calls do as steadily does. What the broker has lost since it was connected with is made again for that.
func (c *coordinator) provided(ctx context.Context, do func(ctx context.Context) error) error {
	return c.steadily(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if !isMissing(err) {
			return err
		}
		if c.key == "" {
			err = ensureStreams(ctx, c.brokerConn)
		} else {
			err = c.ensureConsumer(ctx)
		}
		if err != nil {
			return err
		}
		return do(ctx)
	})
}

// isMissing reports whether an error is that the broker does not have what a fleet needs.
func isMissing(err error) bool {
	return errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}

// ensureConsumer makes what the broker needs for the job, unless it is there, and says once that the broker has lost it.
func (c *coordinator) ensureConsumer(ctx context.Context) error {
	if err := ensureStreams(ctx, c.brokerConn); err != nil {
		return err
	}
	s, err := c.js.Stream(ctx, outStream)
	if err != nil {
		return err
	}
	c.mu.Lock()
	made := s.CachedInfo().Created // which no other of this name has
	lost := !c.streamMade.IsZero() && !made.Equal(c.streamMade)
	c.streamMade = made
	c.mu.Unlock()
	if lost {
		c.notify("the broker has lost what it had of the job: was its store emptied, or is it another broker? It is given all that again; what had ended, and only the broker had the report, runs again")
	}
	_, err = s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: c.key, FilterSubject: "prodigy.out.*." + c.key + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.o.Lease, MaxDeliver: -1,
		MaxAckPending: -1, InactiveThreshold: 7 * 24 * time.Hour,
	})
	return err
}

// announce writes the entry of the job.
func (c *coordinator) announce(ctx context.Context) error {
	c.announcing.Lock() // what is older must not come after
	defer c.announcing.Unlock()
	kv, err := c.js.KeyValue(ctx, jobsBucket)
	if err != nil {
		return err
	}
	c.mu.Lock()
	data, err := json.Marshal(c.signer.signJob(c.key, c.job))
	gone := c.gone
	c.mu.Unlock()
	if err == nil && !gone {
		_, err = kv.Put(ctx, c.key, data)
	}
	return err
}

// consume begins to take the reports that workers have left with the broker.
func (c *coordinator) consume() error {
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, outStream, c.key)
	if err != nil {
		return err
	}
	backlog := consumer.CachedInfo().NumPending
	reached := func() { c.once.Do(func() { close(c.caughtUp) }) }
	if backlog == 0 {
		reached()
	}
	hear, err := consumer.Consume(func(m jetstream.Msg) {
		c.stored(m)
		if meta, err := m.Metadata(); err != nil || meta.NumPending == 0 || meta.Sequence.Consumer >= backlog {
			reached()
		}
	}, jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second), jetstream.ConsumeErrHandler(c.interrupted))
	if err != nil {
		return err
	}
	c.mu.Lock()
	before := c.hear
	c.hear = hear
	c.mu.Unlock()
	if before != nil {
		before.Stop()
	}
	return nil
}

// interrupted hears why the reports that workers have left are not read. A consumer that somebody has removed delivers nothing any more, also when it is there
// again.
func (c *coordinator) interrupted(hear jetstream.ConsumeContext, err error) {
	if !errors.Is(err, jetstream.ErrConsumerDeleted) && !errors.Is(err, jetstream.ErrBadRequest) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hear == hear && c.life.Err() == nil {
		c.work.Go(func() { c.reconcile(c.life, true) })
	}
}

// Execute runs an attempt that is about no item, here.
func (c *coordinator) Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error) {
	return c.local.Execute(ctx, a)
}

// Submit gives an attempt at an item to a worker.
func (c *coordinator) Submit(ctx context.Context, a *agent.Attempt, done func(*agent.Attempt, agent.Outcome, error)) {
	err := c.submit(ctx, a, done)
	if err == nil {
		return
	}
	if a.Adopted { // its worker may still run it, which the next resume finds out
		c.mu.Lock()
		c.detach(a.Token)
		c.mu.Unlock()
		if ctx.Err() == nil {
			c.abort(err)
		}
		err = agent.ErrDetached
	}
	done(a, agent.Outcome{}, err)
}

// patience is how long workers may take to answer a stop besides the grace.
const patience = 3 * time.Second

// OnSlots sets who is told of the slots of the workers.
func (c *coordinator) OnSlots(changed func(workers, slots int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onSlots = changed
}

// countSlots says how many slots there are, if that has changed. It is called with the lock held.
func (c *coordinator) countSlots() {
	workers, slots := c.dispatcher.Slots()
	if c.onSlots == nil || workers == c.workers && slots == c.slots {
		return
	}
	c.workers, c.slots = workers, slots
	c.onSlots(workers, slots)
}

// Hold gives back what no worker has, and has those wait no longer that wait.
func (c *coordinator) Hold() {
	c.mu.Lock()
	c.held = true
	c.giveBack("the job is stopping")
	c.mu.Unlock()
	c.setStop(fleet.Hold)
}

// giveBack gives back what no worker has. It is called with the lock held.
func (c *coordinator) giveBack(why string) {
	for _, token := range c.dispatcher.Unassigned() {
		c.endFlight(token, flightEnd{err: fmt.Errorf("%s: %w", why, agent.ErrReturned)}, pendingAck{})
	}
}

// TakeBack gives back what no worker has.
func (c *coordinator) TakeBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack("the job is paused")
}

// stop ends what runs of the attempts of a context that has ended. Those that workers do not answer for in time go on.
func (c *coordinator) stop(ctx context.Context) {
	c.mu.Lock()
	delete(c.stops, ctx)
	out := false
	for _, f := range c.flights {
		out = out || f.of == ctx
	}
	c.mu.Unlock()
	if !out {
		return
	}
	c.stopping.Do(func() {
		how := fleet.Grace
		if errors.Is(context.Cause(ctx), process.ErrKill) {
			how = fleet.Kill
		}
		c.setStop(how)
	})
	select {
	case <-time.After(c.c.Grace + patience):
	case <-c.life.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(func(f *flight) bool { return f.of == ctx })
}

// detach leaves an attempt to the run after this one, for which its worker and the broker keep what is reported of it. It is called with the lock held.
func (c *coordinator) detach(token int64) {
	c.detached = true
	if c.detachedTokens == nil {
		c.detachedTokens = map[int64]bool{}
	}
	c.detachedTokens[token] = true
}

// setStop tells the workers how far to stop. A stop is never taken back by a weaker one.
func (c *coordinator) setStop(s fleet.Stop) {
	rank := []fleet.Stop{"", fleet.Hold, fleet.Grace, fleet.Kill}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Index(rank, s) <= slices.Index(rank, c.job.Stop) {
		return
	}
	c.job.Stop = s
	c.job.Serial++
	if c.described { // else begin announces it
		c.work.Go(func() { _ = keepTrying(c.life, c.announce) })
	}
}

// Close ends the part of this process. When nothing of the job is out any more, nothing of it is left at the broker.
func (c *coordinator) Close() error {
	defer c.nc.Close()
	c.mu.Lock()
	key := c.key
	c.mu.Unlock()
	if key == "" { // nothing was given out, as by a resume that only had to merge
		if c.nc.IsConnected() {
			c.sweep(c.life)
		}
		c.end()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	c.mu.Lock()
	if c.hear != nil {
		c.hear.Stop()
	}
	clean := !c.detached && c.dispatcher.Len() == 0 && len(c.awaited) == 0
	c.mu.Unlock()
	if c.nc.IsConnected() {
		_ = c.nc.FlushWithContext(ctx) // the acknowledgements
	}
	c.end()
	c.work.Wait()
	if c.members != nil {
		_ = c.members.Close()
	}
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone { // all that is left is another's
		return nil
	}
	for clean && !c.nc.IsConnected() && !c.nc.IsClosed() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	if !c.nc.IsConnected() {
		if clean {
			c.notify("the broker is away, and has something of the job when it is back, which the next run from here removes (or prodigy fleet sweep)")
		}
		return nil
	}
	if clean {
		_ = os.Remove(c.probe)
		if err := keepTrying(ctx, func(ctx context.Context) error { return c.clear(ctx, key) }); err != nil {
			c.notify("the broker still has something of the job, which the next run from here removes (or prodigy fleet sweep): %s", firstLine(inWords(err)))
		}
	}
	if err := c.unlock(ctx); err != nil && !isConflict(err) {
		c.notify("the broker still has the lock of the job: %v", inWords(err))
	}
	c.sweep(ctx)
	return nil
}

// sweep removes what other jobs have left at the broker. What cannot be removed now is removed by another one.
func (c *coordinator) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	s := &sweeper{brokerConn: c.brokerConn, own: c.key, ended: c.o.Ended}
	found, _ := s.sweep(ctx, false)
	for _, r := range found {
		if r.Swept && r.Ended { // its coordinator was killed when all was done
			_ = os.Remove(c.probeOf(r.Key))
		}
	}
}

// probeOf returns the path of the file by which workers find the directory of the run of a job.
func (c *coordinator) probeOf(key string) string {
	return filepath.Join(c.o.Dir, ".prodigy-fleet-"+key)
}

// partingTime is how long the end of a run may wait for a broker that is away, or has no leader.
const partingTime = 10 * time.Second
