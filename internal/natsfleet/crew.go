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
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
)

// crew is the coordinator of one job.
type crew struct {
	*hub
	o      fleet.JobOptions
	owner  string
	signer *signer

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
	work sync.WaitGroup

	given     map[int64]string       // with credentials: the ids of the workers that have attempts, by their tokens
	noting    sync.Mutex             // of members and present; mu may be taken while it is held, not the other way
	present   map[string]bool        // instances that members has
	givenSize int                    // bytes of what is in members about given
	clones    mapreduce.Clones       // nil: the job has no workspaces
	base      string                 // the commit that it begins at
	packing   sync.Mutex             // held while objects are packed
	packs     map[string]*fleet.Pack // that the broker has, by what they were asked for with

	opening  sync.Mutex
	putting  sync.Mutex                                      // of specs
	produces func(string, json.RawMessage) ([]string, error) // nil: none
	fetching chan struct{}                                   // bounds what is fetched at once
	key      string                                          // of the job; empty: not opened yet
	unopened error                                           // why not
	probe    string                                          // path of the file
	noted    map[string]bool                                 // instances that are in members
	members  *os.File                                        // the same: it has the instances that were given something
	returns  string                                          // subjects of what could not be delivered
	hear     jetstream.ConsumeContext
	heard    chan struct{} // closed when the reports of before have been heard
	once     sync.Once     // closes it

	joining  []fleet.Word  // of workers that are being noted
	waking   bool          // what there is will be sent in a moment
	sending  chan struct{} // something is to be sent
	mu       sync.Mutex
	job      fleet.Job
	book     *fleet.Book
	flights  map[int64]*flight
	awaited  map[string]bool        // ids of attempts that the run before left, which Submit has not been called with yet
	settling map[string][]*settling // ends whose records are not durable, by agent id, in order
	ending   map[int64]*settling    // the same by token
	stations map[string]*station
	dirty    []string           // instances that something is to be sent to
	ups      *nats.Subscription // nil: workers are not heard yet
	objects  map[string][]byte  // specs and the list of files, by name
	files    []fleet.File
	specs    map[string]string // names of the specs that the broker has, by that of the attempt and what else is in it
	calls    map[string]*call
	tickets  map[string][]ticket // of half-open breakers and quotas, by instance
	notice   func(string)
	onSlots  func(workers, slots int) // nil: nobody wants to know
	workers  int                      // as onSlots was told
	slots    int
	seen     map[string]time.Time // when instances were heard of
	short    map[string]string    // what the machines of instances have too little of, by their name, as it was told
	refused  map[string]bool      // instances whose refusal was told, and with what they have not believed
	stops    map[context.Context]bool
	held     bool
	gone     bool              // another coordinator has the job
	stopRun  func(cause error) // see fleet.Crew.OnAbort
	detached bool              // some attempts may still run
	stopping sync.Once
}

// flight is an attempt that is out.
type flight struct {
	attempt *agent.Attempt
	spec    string // name
	done    func(agent.Outcome, error)
	last    int   // index of the last report; -1: nobody knows, since the run before was told of some
	fetches bool  // what it has produced is being fetched
	broke   error // that the job is to stop with, which a call of the worker was answered with
	of      context.Context
	ctx     context.Context // ends with the attempt; nil: nobody has asked for it
	cancel  context.CancelFunc
}

// context returns a context that ends with the attempt. It is called with the lock held.
func (f *flight) context() context.Context {
	if f.ctx == nil {
		f.ctx, f.cancel = context.WithCancel(f.of)
	}
	return f.ctx
}

// Join connects the coordinator of a job.
func (Link) Join(ctx context.Context, o fleet.JobOptions) (fleet.Crew, error) {
	if least := leastLease(o.Address); o.Lease < least {
		return nil, fmt.Errorf("%w: --lease: %s is too short: %s at least", fleet.ErrRefused, o.Lease, least)
	}
	if err := o.May(fleet.Coordinator); err != nil {
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
	c := &crew{
		o: o, owner: newInstance(), signer: sign, curve: curve, curvID: public, heard: make(chan struct{}), sending: make(chan struct{}, 1), flights: map[int64]*flight{},
		settling: map[string][]*settling{}, ending: map[int64]*settling{}, stations: map[string]*station{}, specs: map[string]string{}, objects: map[string][]byte{}, noted: map[string]bool{}, fetching: make(chan struct{}, 4), calls: map[string]*call{},
		tickets: map[string][]ticket{}, refused: map[string]bool{}, short: map[string]string{}, seen: map[string]time.Time{}, stops: map[context.Context]bool{},
		packs: map[string]*fleet.Pack{}, given: map[int64]string{}, present: map[string]bool{}, book: fleet.NewBook(o.Lease, every(o.Lease), time.Now()), notice: func(string) {}, stopRun: func(error) {},
	}
	c.life, c.end = context.WithCancel(context.Background())
	if len(o.Files) > 0 && len(o.Produces) > 0 {
		if c.produces, err = agent.Paths(o.Produces); err != nil {
			return nil, err
		}
	}
	c.hub, err = connect(ctx, o.Address, "coordinator", furnished, c.reconnected)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(c.denied, func() { c.tell("the broker: %v", context.Cause(c.denied)) })
	return c, nil
}

func (c *crew) Notify(notice func(string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice = notice
}

func (c *crew) OnAbort(stop func(cause error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopRun = stop
}

func (c *crew) tell(format string, args ...any) {
	c.mu.Lock()
	notice := c.notice
	c.mu.Unlock()
	notice(fmt.Sprintf(format, args...))
}

// Executor is for mapreduce.Config.
func (c *crew) Executor(k agent.Config, h agent.Host) mapreduce.Executor {
	c.local, c.host, c.c = agent.New(k, h), h, k
	return c
}

var _ mapreduce.Fleet = (*crew)(nil)

// Holds returns all that it is asked about: whether workers have it is found out when it is executed.
func (c *crew) Holds(ctx context.Context, ids []string) ([]string, error) {
	job, _, _ := strings.Cut(ids[0], "/")
	c.mu.Lock()
	c.awaited = map[string]bool{}
	for _, id := range ids {
		c.awaited[id] = true
	}
	c.mu.Unlock()
	return ids, c.open(ctx, job)
}

// open tells the workers of the job and begins to hear them.
func (c *crew) open(ctx context.Context, jobID string) (err error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if c.key != "" || c.unopened != nil {
		return c.unopened
	}
	defer func() { c.unopened = err }()
	key := keyOf(jobID, c.c.Seed)
	c.probe = filepath.Join(c.o.Dir, ".prodigy-fleet-"+key)
	if c.clones != nil { // nobody looks for it in the checkout of the user
		c.probe = filepath.Join(c.clones.Dir(), "fleet")
	}
	c.jobID, c.epoch = jobID, max(c.epoch, epochIn(c.probe)+1)
	if err := c.steadily(ctx, func(ctx context.Context) error {
		err := c.lock(ctx, key, jobID)
		if errors.Is(err, jetstream.ErrBucketNotFound) { // the broker has lost its disk since it was connected with
			if err = ensure(ctx, c.hub); err == nil {
				err = c.lock(ctx, key, jobID)
			}
		}
		return err
	}); err != nil {
		return err
	}
	c.mu.Lock()
	adopts := len(c.awaited) > 0
	c.mu.Unlock()
	if err := c.openMembers(key, adopts); err != nil {
		return fmt.Errorf("make the file by which workers find the directory of the run: %w", err)
	}
	c.mu.Lock()
	c.job = fleet.Job{
		V: fleet.Protocol, ID: jobID, Owner: c.owner, Version: c.o.Version, Lease: c.o.Lease, Requires: c.o.Requires, Guards: c.o.Guards, Dir: c.o.Dir,
		Probe: filepath.Base(c.probe), Grace: c.c.Grace, Secrets: len(c.c.Secrets) > 0, Epoch: c.epoch,
	}
	c.mu.Unlock()
	c.key = key
	c.returns = c.nc.NewInbox()
	for subject, answer := range map[string]nats.MsgHandler{
		ownerSubject(key):     c.confirm,
		callSubject("*", key): func(m *nats.Msg) { go c.call(m) },
		liveSubject("*", key): c.progress,
		c.returns + ".>":      c.returned,
	} {
		if _, err := c.subscribe(subject, answer); err != nil {
			return err
		}
	}
	// Reports that the coordinator before had not acknowledged come at once when the consumer is new.
	if err := c.steadily(ctx, func(ctx context.Context) error {
		if err := c.js.DeleteConsumer(ctx, outStream, key); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
		return c.keep(ctx)
	}); err != nil {
		return err
	}
	if len(c.o.Files) > 0 {
		var name string
		if err := c.steadily(ctx, func(ctx context.Context) (err error) {
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
	c.work.Go(c.send)
	c.work.Go(c.look)
	if adopts {
		return nil
	}
	return c.begin(ctx)
}

// confirm answers who asks whether this is the coordinator of the job.
func (c *crew) confirm(m *nats.Msg) {
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone {
		return
	}
	_ = m.RespondMsg(c.signer.message("", signedOwner, c.key+"\x00"+string(m.Data), []byte(c.owner)))
}

// begin hears the workers, and tells them of the job. All attempts that the run before left must be known by then, or what is reported of them
// would be late.
func (c *crew) begin(ctx context.Context) error {
	if err := c.steadily(ctx, func(context.Context) error { return c.listen() }); err != nil {
		return err
	}
	select {
	case <-c.heard:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ups, err := c.subscribe(upSubject("*", c.key), c.up)
	if err != nil {
		return err
	}
	if err := ups.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	c.mu.Lock()
	c.ups = ups
	c.mu.Unlock()
	return c.steadily(ctx, c.announce)
}

// keep makes what the broker needs for the job, unless it is there.
func (c *crew) keep(ctx context.Context) error {
	if err := ensure(ctx, c.hub); err != nil {
		return err
	}
	_, err := c.js.CreateOrUpdateConsumer(ctx, outStream, jetstream.ConsumerConfig{
		Durable: c.key, FilterSubject: "prodigy.out.*." + c.key + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.o.Lease, MaxDeliver: -1,
		MaxAckPending: -1, InactiveThreshold: 7 * 24 * time.Hour,
	})
	return err
}

// announce writes the entry of the job.
func (c *crew) announce(ctx context.Context) error {
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

// listen begins to take the reports that workers have left with the broker.
func (c *crew) listen() error {
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, outStream, c.key)
	if err != nil {
		return err
	}
	backlog := consumer.CachedInfo().NumPending
	reached := func() { c.once.Do(func() { close(c.heard) }) }
	if backlog == 0 {
		reached()
	}
	hear, err := consumer.Consume(func(m jetstream.Msg) {
		c.left(m)
		if meta, err := m.Metadata(); err != nil || meta.NumPending == 0 || meta.Sequence.Consumer >= backlog {
			reached()
		}
	}, jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second), jetstream.ConsumeErrHandler(func(jetstream.ConsumeContext, error) {}))
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

// Execute runs an attempt that is about no item, here.
func (c *crew) Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error) {
	return c.local.Execute(ctx, a)
}

// Submit gives an attempt at an item to a worker.
func (c *crew) Submit(ctx context.Context, a *agent.Attempt, done func(agent.Outcome, error)) {
	if err := c.submit(ctx, a, done); err != nil {
		done(agent.Outcome{}, err)
	}
}

// patience is how long workers may take to answer a stop besides the grace.
const patience = 3 * time.Second

// OnSlots sets who is told of the slots of the workers.
func (c *crew) OnSlots(changed func(workers, slots int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onSlots = changed
}

// countSlots says how many slots there are, if that has changed. It is called with the lock held.
func (c *crew) countSlots() {
	workers, slots := c.book.Slots()
	if c.onSlots == nil || workers == c.workers && slots == c.slots {
		return
	}
	c.workers, c.slots = workers, slots
	c.onSlots(workers, slots)
}

// Hold gives back what no worker has, and has those wait no longer that wait.
func (c *crew) Hold() {
	c.mu.Lock()
	c.held = true
	c.giveBack("the job is stopping")
	c.mu.Unlock()
	c.setStop(fleet.Hold)
}

// giveBack gives back what no worker has. It is called with the lock held.
func (c *crew) giveBack(why string) {
	for _, token := range c.book.Unheld() {
		c.settle(token, flightEnd{err: fmt.Errorf("%s: %w", why, agent.ErrReturned)}, settling{})
	}
}

// TakeBack gives back what no worker has. Its messages stay in the queue: a worker that gets one is refused when it claims it.
func (c *crew) TakeBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack("the job is paused")
}

// stop ends what runs of the attempts of a context that has ended. Those that workers do not answer for in time go on.
func (c *crew) stop(ctx context.Context) {
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
	for token, f := range c.flights {
		if f.of != ctx {
			continue
		}
		c.book.End(token)
		delete(c.flights, token)
		c.detached = true
		if f.cancel != nil {
			f.cancel()
		}
		f.done(agent.Outcome{}, agent.ErrDetached)
	}
}

// setStop tells the workers how far to stop. A stop is never taken back by a weaker one.
func (c *crew) setStop(s fleet.Stop) {
	if c.key == "" {
		return
	}
	rank := []fleet.Stop{"", fleet.Hold, fleet.Grace, fleet.Kill}
	c.mu.Lock()
	if slices.Index(rank, s) <= slices.Index(rank, c.job.Stop) {
		c.mu.Unlock()
		return
	}
	c.job.Stop = s
	c.job.Serial++
	c.mu.Unlock()
	c.work.Go(func() { _ = keepTrying(c.life, c.announce) })
}

// Close ends the part of this process. When nothing of the job is out any more, nothing of it is left at the broker.
func (c *crew) Close() error {
	defer c.nc.Close()
	if c.key == "" {
		c.end()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	c.mu.Lock()
	if c.hear != nil {
		c.hear.Stop()
	}
	clean := !c.detached && c.book.Len() == 0 && len(c.awaited) == 0
	c.mu.Unlock()
	if c.nc.IsConnected() {
		_ = c.nc.FlushWithContext(ctx) // the acknowledgements
	}
	c.end()
	c.work.Wait()
	if c.members != nil {
		_ = c.members.Close()
	}
	if c.gone { // all that is left is another's
		return nil
	}
	for clean && !c.nc.IsConnected() && !c.nc.IsClosed() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	if !c.nc.IsConnected() {
		if clean {
			c.tell("the broker is away, and has something of the job when it is back, which the next run from here removes (or prodigy fleet sweep)")
		}
		return nil
	}
	if clean {
		_ = os.Remove(c.probe)
		if err := keepTrying(ctx, func(ctx context.Context) error { return c.clear(ctx, c.key) }); err != nil {
			c.tell("the broker still has something of the job, which the next run from here removes (or prodigy fleet sweep): %v", err)
		}
	}
	if err := c.unlock(ctx); err != nil && !isConflict(err) {
		c.tell("the broker still has the lock of the job: %v", err)
	}
	c.sweep(ctx)
	return nil
}

// sweep removes what other jobs have left at the broker. What cannot be removed now is removed by another one.
func (c *crew) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	s := &sweeper{hub: c.hub, own: c.key, ended: c.o.Ended}
	_, _ = s.sweep(ctx, false)
}

// partingTime is how long the end of a run may wait for a broker that is away, or has no leader.
const partingTime = 10 * time.Second
