package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"prodigy/internal/agent"
	"prodigy/internal/events"
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

// settling is the end of an attempt that is not on disk yet.
type settling struct {
	token    int64
	index    int // of the report
	objects  []string
	instance string // whose it is; empty: there is no report
	msgs     []jetstream.Msg
}

// station is what is to be sent to a worker.
type station struct {
	dirty   bool
	tasks   map[int64][]*flight // by the round that they answer
	settled []fleet.Settled
	over    []int64
	again   bool
	numbers int
	sent    map[int]sent // tasks that may be on the way, by the number of their message
}

// sent are tasks that one message had.
type sent struct {
	round  int64
	tokens []int64
}

type flightEnd struct {
	outcome agent.Outcome
	err     error
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

func (c *crew) submit(ctx context.Context, a *agent.Attempt, done func(agent.Outcome, error)) error {
	if err := c.open(ctx, a.JobID); err != nil {
		return err
	}
	spec, err := c.spec(ctx, *a)
	if err != nil {
		return err
	}
	c.mu.Lock()
	adopted := c.awaited[a.ID]
	delete(c.awaited, a.ID)
	last := adopted && len(c.awaited) == 0
	if c.held && !adopted || ctx.Err() != nil && !adopted {
		c.settling[a.ID] = append(c.settling[a.ID], &settling{})
		c.mu.Unlock()
		return fmt.Errorf("the job is stopping: %w", agent.ErrReturned)
	}
	f := &flight{attempt: a, spec: spec, done: done, of: ctx}
	if adopted {
		f.last = -1
	}
	c.flights[a.Token] = f
	c.book.Add(a.Token, adopted)
	if !c.stops[ctx] {
		c.stops[ctx] = true
		context.AfterFunc(ctx, func() { c.stop(ctx) })
	}
	if last {
		maps.DeleteFunc(c.given, func(token int64, _ string) bool { return c.flights[token] == nil })
	}
	c.deal(time.Now())
	c.mu.Unlock()
	if !last {
		return nil
	}
	return c.unlessSettled(a.Token, c.begin(ctx))
}

// unlessSettled drops an error about an attempt whose end is known already.
func (c *crew) unlessSettled(token int64, err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[token] == nil {
		return nil
	}
	delete(c.flights, token)
	c.book.End(token)
	return err
}

// patience is how long workers may take to answer a stop besides the grace.
const patience = 3 * time.Second

// settle ends a flight. by is the report that says so; zero: none does. It reports false if the attempt is not out: who reported that is late. It is
// called with the lock held.
func (c *crew) settle(token int64, e flightEnd, by settling) bool {
	f, ok := c.flights[token]
	if !ok {
		return false
	}
	h, _ := c.book.End(token)
	delete(c.flights, token)
	delete(c.given, token)
	if f.cancel != nil {
		f.cancel()
	}
	if lost, ok := errors.AsType[*agent.LostError](e.err); ok && lost.Node == "" {
		lost.Node = h.Node
	}
	if f.broke != nil && e.err != nil {
		e.err = f.broke
	}
	c.settling[f.attempt.ID] = append(c.settling[f.attempt.ID], &by)
	if by.instance != "" {
		c.ending[token] = &by
	}
	f.done(e.outcome, e.err)
	return true
}

// deal gives attempts that wait to workers that take some. It is called with the lock held.
func (c *crew) deal(now time.Time) {
	if c.held {
		c.giveBack("the job is stopping")
		return
	}
	for _, g := range c.book.Grants(now) {
		s := c.station(g.Instance)
		if s.tasks == nil {
			s.tasks = map[int64][]*flight{}
		}
		s.tasks[g.Round] = append(s.tasks[g.Round], c.flights[g.Token])
		c.soon(g.Instance, s)
	}
}

// station returns what is to be sent to a worker. It is called with the lock held.
func (c *crew) station(instance string) *station {
	s := c.stations[instance]
	if s == nil {
		s = &station{sent: map[int]sent{}}
		c.stations[instance] = s
	}
	return s
}

// soon has what there is for a worker sent. It is called with the lock held.
func (c *crew) soon(instance string, s *station) {
	c.mark(instance, s)
	c.wake()
}

// settleEvery is how long workers wait for the word that reports are not needed any more, so that it mostly goes with what they are given next.
const settleEvery = 20 * time.Millisecond

// later is soon for what can wait a moment. It is called with the lock held.
func (c *crew) later(instance string, s *station) {
	c.mark(instance, s)
	if !c.waking {
		c.waking = true
		time.AfterFunc(settleEvery, func() {
			c.mu.Lock()
			c.waking = false
			c.mu.Unlock()
			c.wake()
		})
	}
}

func (c *crew) mark(instance string, s *station) {
	if !s.dirty {
		s.dirty = true
		c.dirty = append(c.dirty, instance)
	}
}

func (c *crew) wake() {
	select {
	case c.sending <- struct{}{}:
	default:
	}
}

// send sends what there is for workers, until the crew is closed.
func (c *crew) send() {
	for {
		select {
		case <-c.sending:
		case <-c.life.Done():
			return
		}
		c.mu.Lock()
		for len(c.dirty) > 0 {
			instance := c.dirty[0]
			c.dirty = c.dirty[1:]
			s := c.stations[instance]
			if s == nil {
				continue
			}
			d := fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner, Settled: s.settled, Over: s.over, Again: s.again}
			rounds := s.tasks
			s.dirty, s.settled, s.over, s.again, s.tasks = false, nil, nil, false, nil
			c.mu.Unlock()
			c.sendTo(instance, d, rounds)
			c.mu.Lock()
		}
		c.mu.Unlock()
	}
}

// sendTo sends to a worker, in more than one message if that would be too large.
func (c *crew) sendTo(instance string, d fleet.Down, rounds map[int64][]*flight) {
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		size := 0
		d.Round = round
		for _, f := range rounds[round] {
			t := fleet.NewTask(f.attempt, f.spec, time.Now())
			if len(t.Item) > maxBody {
				c.work.Go(func() { c.sendLarge(instance, round, t) })
				continue
			}
			if size += len(t.Item); size > maxBody {
				c.publish(instance, d)
				d, size = fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner, Round: round}, len(t.Item)
			}
			d.Tasks = append(d.Tasks, t)
		}
		if len(d.Tasks) > 0 {
			c.publish(instance, d)
			d = fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner}
		}
	}
	if len(d.Settled)+len(d.Over) > 0 || d.Again {
		c.publish(instance, d)
	}
}

// sendLarge sends a task that is too large for a message.
func (c *crew) sendLarge(instance string, round int64, t fleet.Task) {
	data := encoded(t)
	ref := objectName(c.key+"/task-"+strconv.FormatInt(t.Token, 10), data)
	if keepTrying(c.life, func(ctx context.Context) error { return c.put(ctx, ref, data) }) == nil {
		c.publish(instance, fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner, Round: round, Tasks: []fleet.Task{{Token: t.Token, Ref: ref}}})
	}
}

// publish sends a message to a worker. What it has of tasks is taken back if the worker is not connected.
func (c *crew) publish(instance string, d fleet.Down) {
	m := c.signer.message(downSubject(instance), signedDown, downSubject(instance), encoded(d))
	if len(d.Tasks) > 0 {
		tokens := make([]int64, len(d.Tasks))
		for i, t := range d.Tasks {
			tokens[i] = t.Token
		}
		c.mu.Lock()
		if s := c.stations[instance]; s != nil {
			s.numbers++
			s.sent[s.numbers] = sent{d.Round, tokens}
			m.Reply = c.returns + "." + instance + "." + strconv.Itoa(s.numbers)
		}
		c.mu.Unlock()
		if c.signer != nil {
			c.noteGiven(instance, tokens)
		}
	}
	_ = c.nc.PublishMsg(m) // without a connection it is said again when there is one
}

// returned takes back what could not be delivered.
func (c *crew) returned(m *nats.Msg) {
	words := strings.Split(m.Subject, ".")
	if len(words) < 2 || m.Header.Get("Status") != "503" {
		return
	}
	instance := words[len(words)-2]
	number, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stations[instance]; s != nil {
		what := s.sent[number]
		delete(s.sent, number)
		c.book.Undelivered(instance, what.round, what.tokens)
		c.deal(time.Now())
	}
}

// spec has the broker keep what the attempt has in common with others, and returns its name.
func (c *crew) spec(ctx context.Context, a agent.Attempt) (string, error) {
	known := a.Spec + "\x00" + string(a.Outputs.Keep)
	c.mu.Lock()
	name := c.specs[known]
	c.mu.Unlock()
	if name != "" {
		return name, nil
	}
	s := fleet.NewSpec(a)
	if c.produces != nil {
		s.Produces = c.o.Produces
	}
	if c.clones != nil {
		s.Setup = c.clones.Setup()
	}
	s.Seed, s.LogSteps, s.Claude, s.Agents, s.Layers = c.c.Seed, c.c.LogSteps, c.c.Claude, c.o.Agents, c.o.Layers
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	name = objectName(c.key+"/spec", data)
	c.putting.Lock()
	defer c.putting.Unlock()
	c.mu.Lock()
	_, put := c.objects[name]
	c.mu.Unlock()
	if !put {
		if err := c.restoring(ctx, func(ctx context.Context) error { return c.put(ctx, name, data) }); err != nil {
			return "", err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs[known], c.objects[name] = name, data // now that workers can fetch it
	return name, nil
}

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

// Settle acknowledges the reports whose ends are durable now.
func (c *crew) Settle(records []events.Record) {
	for _, r := range records {
		var id string
		switch e := r.Event.(type) {
		case events.AgentCompleted:
			id = e.AgentID
		case events.AgentFailed:
			id = e.AgentID
		case events.AgentInterrupted:
			id = e.AgentID
		case events.AgentLost:
			id = e.AgentID
		}
		if id == "" {
			continue
		}
		c.mu.Lock()
		queue := c.settling[id]
		if len(queue) == 0 {
			c.mu.Unlock()
			continue
		}
		end := queue[0]
		c.settling[id] = queue[1:]
		if len(queue) == 1 {
			delete(c.settling, id)
		}
		if end.instance != "" {
			delete(c.ending, end.token)
			s := c.station(end.instance)
			c.later(end.instance, s)
			s.settled = append(s.settled, fleet.Settled{Token: end.token, Index: end.index})
		}
		c.mu.Unlock()
		for _, m := range end.msgs {
			_ = m.Ack()
		}
		if len(end.objects) > 0 {
			c.work.Go(func() {
				for _, name := range end.objects {
					_ = c.remove(c.life, name) // or with the job
				}
			})
		}
	}
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

// up takes what a worker says.
func (c *crew) up(m *nats.Msg) {
	var u fleet.Up
	err := decode(m.Data, &u)
	if u.V != 0 && u.V != fleet.Protocol { // there may be no more that is the same
		c.mu.Lock()
		told := c.refused[u.Instance]
		c.refused[u.Instance] = true
		c.mu.Unlock()
		if !told {
			c.tell("worker %s takes no part: it speaks protocol %d of the fleet, and this prodigy, %s, speaks %d", u.Node, u.V, c.o.Version, fleet.Protocol)
		}
		return
	}
	if err != nil || u.V == 0 || u.Owner != c.owner || u.Instance == "" || !sentBy(u.Instance, m.Subject, 2) {
		return
	}
	for _, r := range u.Reports {
		if r.V == fleet.Protocol {
			c.report(r, u.Instance, nil)
		}
	}
	if u.After != "" && !follows(u.Instance, u.After) {
		u.After = ""
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.given) > 0 {
		u.Holds = slices.DeleteFunc(u.Holds, func(token int64) bool { return !c.isGivenTo(token, u.Instance) })
	}
	c.seen[u.Instance] = now
	if u.Warns != "" && !c.refused[u.Instance+u.Warns] {
		c.refused[u.Instance+u.Warns] = true
		notice := c.notice
		go notice(fmt.Sprintf("worker %s has not believed something: %s", u.Node, u.Warns))
	}
	if u.Refuses != "" {
		told := c.refused[u.Instance]
		c.refused[u.Instance] = true
		if !told {
			notice := c.notice
			go notice(fmt.Sprintf("worker %s takes no part: %s", u.Node, u.Refuses))
		}
		return
	}
	if u.Full && (u.Short == "") != (c.short[u.Instance] == "") {
		notice, text := c.notice, fmt.Sprintf("worker %s takes attempts again", u.Node)
		if c.short[u.Instance] = u.Short; u.Short != "" {
			text = fmt.Sprintf("worker %s takes no attempts for now: %s", u.Node, u.Short)
		}
		go notice(text)
	}
	if c.noted[u.Instance] {
		c.heed(u.Word, now)
		return
	}
	c.joining = append(c.joining, u.Word)
	if len(c.joining) == 1 {
		c.work.Go(c.join)
	}
}

// heed takes what a worker says of itself. It is called with the lock held.
func (c *crew) heed(w fleet.Word, now time.Time) {
	s := c.station(w.Instance)
	if w.Full {
		clear(s.sent)
	}
	over, again := c.book.Hear(w, now)
	c.countSlots()
	for _, token := range over {
		if c.ending[token] == nil {
			s.over = append(s.over, token)
		}
	}
	if s.again = s.again || again; s.again || len(s.over) > 0 {
		c.soon(w.Instance, s)
	}
	c.deal(now)
	if w.Gone {
		c.work.Go(func() { _ = c.note("-", []fleet.Word{w}) })
		delete(c.stations, w.Instance)
	}
}

// join notes new workers, and hears them then: they are given nothing before, since a resume would not know that they were.
func (c *crew) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.joining) > 0 {
		words := slices.Clone(c.joining)
		c.mu.Unlock()
		err := c.note("+", words)
		c.mu.Lock()
		c.joining = c.joining[len(words):]
		if err != nil {
			continue // they will say so again
		}
		for _, w := range words {
			c.noted[w.Instance] = true
			c.heed(w, time.Now())
		}
	}
}

// openMembers opens the file by which workers find the directory, and which has the instances that were given something. A resume reads there who may
// have what the run before gave out.
func (c *crew) openMembers(key string, adopts bool) error {
	var before []byte
	if adopts {
		before, _ = os.ReadFile(c.probe)
	}
	f, err := os.OpenFile(c.probe, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	c.members = f
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s%d\n", key, epochSign, c.epoch)
	known := map[string]bool{}
	lines := strings.Split(string(before), "\n")
	for _, line := range lines[min(1, len(lines)):] {
		if rest, ok := strings.CutPrefix(line, givenSign); ok {
			token, id, _ := strings.Cut(rest, " ")
			if n, err := strconv.ParseInt(token, 10, 64); err == nil {
				c.given[n] = id
			}
		} else if instance, ok := strings.CutPrefix(line, "+"); ok {
			known[instance] = true
		} else if instance, ok := strings.CutPrefix(line, "-"); ok {
			delete(known, instance)
		}
	}
	for instance := range known {
		c.noted[instance], c.present[instance] = true, true
		text.WriteString("+" + instance + "\n")
	}
	c.writeGiven(&text)
	c.mu.Lock()
	c.book.Expect(slices.Collect(maps.Keys(known)), adopts && lines[0] != key, time.Now())
	c.mu.Unlock()
	if _, err := f.WriteString(text.String()); err != nil {
		return err
	}
	return f.Sync()
}

// epochSign begins the line of that file that has the epoch of the last coordinator.
const epochSign = "="

// epochIn returns the epoch of the last coordinator that had the job in this directory; 0 if there was none, or the job has ended. The clock of that one
// may have been ahead of this one's, and the broker may have lost its lock since.
func epochIn(path string) int64 {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), epochSign); ok {
			n, _ := strconv.ParseInt(text, 10, 64)
			return n
		}
	}
	return 0
}

// note writes down that instances may be given something from now on, or have nothing any more.
func (c *crew) note(sign string, words []fleet.Word) error {
	var text strings.Builder
	for _, w := range words {
		text.WriteString(sign + w.Instance + "\n")
	}
	c.noting.Lock()
	defer c.noting.Unlock()
	for _, w := range words {
		if c.present[w.Instance] = true; sign == "-" {
			delete(c.present, w.Instance)
		}
	}
	if _, err := c.members.WriteString(text.String()); err != nil {
		return err
	}
	return c.members.Sync()
}

// givenSign begins the lines of that file that say which worker an attempt was given to. They are not synced: without one, the worker that speaks first
// has the attempt.
const givenSign = ":"

// noteGiven notes the worker that attempts are about to be given to. After a resume no other one can say that it has them.
func (c *crew) noteGiven(instance string, tokens []int64) {
	id := idOf(instance)
	var text strings.Builder
	c.mu.Lock()
	for _, token := range tokens {
		if c.flights[token] != nil {
			c.given[token] = id
			fmt.Fprintf(&text, "%s%d %s\n", givenSign, token, id)
		}
	}
	c.mu.Unlock()
	c.noting.Lock()
	defer c.noting.Unlock()
	if c.givenSize += text.Len(); c.givenSize < mostGiven {
		_, _ = c.members.WriteString(text.String())
		return
	}
	// Most of those in the file have ended.
	text.Reset()
	fmt.Fprintf(&text, "%s\n%s%d\n", c.key, epochSign, c.epoch)
	for instance := range c.present {
		text.WriteString("+" + instance + "\n")
	}
	c.writeGiven(&text)
	path := c.probe + ".new"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	if _, err = f.WriteString(text.String()); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path, c.probe)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return
	}
	_ = c.members.Close()
	c.members = f
}

// mostGiven is how many bytes there are about attempts in that file before it is written anew.
const mostGiven = 1 << 20

// writeGiven writes who has which attempts.
func (c *crew) writeGiven(text *strings.Builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := text.Len()
	for token, id := range c.given {
		fmt.Fprintf(text, "%s%d %s\n", givenSign, token, id)
	}
	c.givenSize = (text.Len() - before) / 2 // it may double
}

// isGivenTo reports whether an instance may have an attempt. It is called with the lock held.
func (c *crew) isGivenTo(token int64, instance string) bool {
	id, known := c.given[token]
	return !known || id == idOf(instance)
}

// left takes a report that a worker has left with the broker.
func (c *crew) left(m jetstream.Msg) {
	var r fleet.Report
	if err := json.Unmarshal(m.Data(), &r); err != nil || r.V != fleet.Protocol || !sentBy(r.Holder.Instance, m.Subject(), 2) {
		_ = m.Ack() // nobody will ever be able to read it
		return
	}
	if r.Kind == fleet.Gone {
		c.mu.Lock()
		c.book.Ended(r.Holder, r.Left, time.Now())
		c.countSlots()
		c.deal(time.Now())
		c.mu.Unlock()
		_ = m.Ack()
		return
	}
	c.report(r, r.Holder.Instance, m)
}

// report takes what a worker says of an attempt. m is the message of a report that was left with the broker.
func (c *crew) report(r fleet.Report, instance string, m jetstream.Msg) {
	if r.Ref != "" {
		ref := r.Ref
		err := keepTrying(c.life, func(ctx context.Context) error {
			data, err := c.get(ctx, ref)
			if errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, errAltered) {
				r = fleet.Report{Token: r.Token, Index: r.Index, Kind: fleet.Dropped, Holder: r.Holder, Reason: "the broker lost its report, or somebody altered it"}
				return nil
			}
			if err == nil {
				err = json.Unmarshal(data, &r)
			}
			return err
		})
		if err != nil {
			return
		}
	}
	r.Holder.Instance = instance
	c.mu.Lock()
	f, out := c.flights[r.Token]
	switch {
	case out && !c.isGivenTo(r.Token, instance):
		c.mu.Unlock()
		return
	case !out && c.ending[r.Token] != nil: // repeated, and not on disk yet
		if m != nil {
			end := c.ending[r.Token]
			end.msgs = append(end.msgs, m)
		}
		c.mu.Unlock()
		return
	case out && f.fetches:
		c.mu.Unlock()
		return
	case !out || !c.book.Reported(r.Token, r.Holder, time.Now()), f.last >= r.Index:
		c.settled(r, m)
		return
	case f.last >= 0 && r.Index != f.last+1: // one before it is missing, and will come again
		c.mu.Unlock()
		return
	}
	f.last = r.Index
	e := flightEnd{}
	switch r.Kind {
	case fleet.Ended:
		if r.Outcome == nil {
			e.err = &agent.LostError{Node: r.Holder.Node, Reason: "its report has no outcome"}
			break
		}
		e.outcome = *r.Outcome
		e.outcome.Node, e.outcome.Slot = r.Holder.Node, r.Holder.Slot
	case fleet.Returned:
		e.err = fmt.Errorf("%s: %w", r.Reason, agent.ErrReturned)
	case fleet.Broken:
		e.err = fmt.Errorf("%s on %s: %w", r.Reason, r.Holder.Node, agent.ErrReturned)
	case fleet.Dropped:
		e.err = &agent.LostError{Node: r.Holder.Node, Reason: r.Reason}
	default:
		a, stop := f.attempt, f.context()
		c.mu.Unlock()
		c.inside(stop, a, r)
		c.mu.Lock()
		c.settled(r, m)
		return
	}
	by := settling{token: r.Token, index: r.Index, instance: instance}
	if m != nil {
		by.msgs = []jetstream.Msg{m}
	}
	if c.produces == nil {
		r.Files = nil
	}
	if e.err == nil && (len(r.Files) > 0 || e.outcome.Commit != "") {
		for _, file := range r.Files {
			by.objects = append(by.objects, file.Object)
		}
		if r.Pack != nil && r.Pack.File != nil {
			by.objects = append(by.objects, r.Pack.File.Object)
		}
		f.fetches = true
		c.mu.Unlock()
		c.work.Go(func() { c.settleMade(f, r, e, by) })
		return
	}
	c.settle(r.Token, e, by)
	c.mu.Unlock()
}

// settleMade ends a flight when what it has produced or done is here.
func (c *crew) settleMade(f *flight, r fleet.Report, e flightEnd, by settling) {
	c.fetching <- struct{}{}
	var err error
	if len(r.Files) > 0 {
		err = c.fetchMade(f, r.Files)
	}
	if err == nil && e.outcome.Commit != "" {
		err = c.takeWork(f, r.Pack, &e.outcome)
	}
	<-c.fetching
	if c.life.Err() != nil {
		return
	}
	if err != nil {
		e = flightEnd{err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(f.attempt.Token, e, by)
}

// settled tells a worker that a report is not needed any more. It is called with the lock held, and releases it.
func (c *crew) settled(r fleet.Report, m jetstream.Msg) {
	s := c.station(r.Holder.Instance)
	c.later(r.Holder.Instance, s)
	s.settled = append(s.settled, fleet.Settled{Token: r.Token, Index: r.Index})
	c.mu.Unlock()
	if m != nil {
		_ = m.Ack()
	}
}

// inside passes on what happens inside an attempt.
func (c *crew) inside(stop context.Context, a *agent.Attempt, r fleet.Report) {
	switch r.Kind {
	case fleet.Placed:
		c.host.Emit(a, events.AgentPlaced{ItemID: a.ItemID, ItemIndex: a.ItemIndex, AgentID: a.ID, Attempt: a.Number, Node: r.Holder.Node, Slot: r.Holder.Slot})
	case fleet.Event:
		if rec, err := events.Decode(r.Event); err == nil {
			c.host.Emit(a, rec.Event)
		}
	case fleet.Printed:
		if r.Entry != nil {
			c.host.Output(a, *r.Entry)
		}
	case fleet.Parked: // another may be sent to the worker meanwhile; that goes on without asking
		go func() { _, _ = c.host.Pause(stop, a, r.For, false) }()
	}
}

// progress hears which step an attempt is at.
func (c *crew) progress(m *nats.Msg) {
	rec, err := events.Decode(m.Data)
	if err != nil {
		return
	}
	if e, ok := rec.Event.(events.AgentProgress); ok {
		c.host.Progress(&agent.Attempt{ItemID: e.ItemID}, e)
	}
}

// reconnected makes good for what the broker may have lost, and for what could not be heard.
func (c *crew) reconnected() {
	c.mu.Lock()
	c.deaf()
	c.mu.Unlock()
	go c.reconcile(true)
}

// deaf notes that nobody could be heard until now. It is called with the lock held.
func (c *crew) deaf() {
	now := time.Now()
	c.book.Deaf(now)
	for instance := range c.seen {
		c.seen[instance] = now
	}
}

// reconcile has the broker know again what it should. again says that it was away: workers that see the entry of the job say everything again.
func (c *crew) reconcile(again bool) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if c.key == "" || c.life.Err() != nil || keepTrying(c.life, c.keep) != nil {
		return
	}
	err := c.restoring(c.life, func(ctx context.Context) error {
		err := c.renewLock(ctx)
		if errors.Is(err, errTaken) {
			c.taken()
			return nil
		}
		return err
	})
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone || err != nil {
		return
	}
	c.mu.Lock()
	listens := c.ups != nil
	objects := maps.Clone(c.objects)
	c.mu.Unlock()
	if again && listens { // a consumer that was made anew has forgotten who waits for it
		_ = c.restoring(c.life, func(context.Context) error { return c.listen() })
	}
	for name, data := range objects {
		_ = c.restoring(c.life, func(ctx context.Context) error {
			if !again {
				if has, err := c.has(ctx, name); has || err != nil {
					return err
				}
			}
			return c.put(ctx, name, data)
		})
	}
	c.resendFiles(c.life)
	if listens && (again || !c.announced(c.life)) {
		_ = c.restoring(c.life, c.announce)
	}
}

// restoring is keepTrying for what needs something of the broker that it may lose at any time: that is made again before each further try.
func (c *crew) restoring(ctx context.Context, do func(ctx context.Context) error) error {
	failed := false
	return keepTrying(ctx, func(ctx context.Context) error {
		if failed {
			if err := c.keep(ctx); err != nil {
				return err
			}
		}
		err := do(ctx)
		failed = err != nil
		return err
	})
}

// announced reports whether the broker has the entry of the job.
func (c *crew) announced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	kv, err := c.js.KeyValue(ctx, jobsBucket)
	if err == nil {
		_, err = kv.Get(ctx, c.key)
	}
	return err == nil
}

// heardAll reports whether the broker has no reports that it has not delivered.
func (c *crew) heardAll() bool {
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, outStream, c.key)
	return err == nil && consumer.CachedInfo().NumPending == 0
}

// desertion is a time in which attempts wait and no worker takes part.
type desertion struct {
	since time.Time // zero: there are some
	told  bool
}

// desertedFor is how long that may last before somebody is told.
const desertedFor = 2 * time.Second

func (d *desertion) look(c *crew, now time.Time) {
	c.mu.Lock()
	alone, waiting := c.book.Deserted() && c.ups != nil && !c.held, c.book.Len()
	c.mu.Unlock()
	switch {
	case !alone:
		*d = desertion{}
	case d.since.IsZero():
		d.since = now
	case !d.told && now.Sub(d.since) >= desertedFor:
		d.told = true
		c.tell("no worker takes part, and attempts wait: %d; start one with: prodigy worker --join %s", waiting, fleet.ShownURL(c.o.URL))
	}
}

// look finds lost attempts, and now and then what the broker has lost.
func (c *crew) look() {
	tick := time.NewTicker(c.book.Every)
	defer tick.Stop()
	checked, renewed := time.Now(), time.Now()
	var away absence
	var suspected []fleet.Loss // that were silent the last time
	var alone desertion
	for {
		select {
		case <-c.life.Done():
			return
		case <-tick.C:
		}
		if !c.nc.IsConnected() {
			away.missing(c, time.Now())
			continue
		}
		if err := c.nc.FlushTimeout(c.book.Every); err != nil { // nobody can be heard
			away.missing(c, time.Now())
			c.mu.Lock()
			c.deaf()
			c.mu.Unlock()
			continue
		}
		away.back(c)
		now := time.Now()
		if now.Sub(renewed) > c.o.Lease/4 {
			renewed = now
			ctx, cancel := context.WithTimeout(c.life, requestTime)
			if errors.Is(c.renewLock(ctx), errTaken) {
				c.taken()
			}
			cancel()
		}
		alone.look(c, now)
		c.mu.Lock()
		silent := c.book.Silent(now)
		c.countSlots()
		unread := 0
		if c.ups != nil {
			unread, _, _ = c.ups.Pending()
		}
		c.mu.Unlock()
		if len(silent) > 0 && (unread > 0 || !c.heardAll()) { // the end of some may be among what is to be read
			silent = nil
		}
		had := map[string]int{} // attempts that were lost, by the worker
		c.mu.Lock()
		for _, lost := range silent {
			if !slices.Contains(suspected, lost) {
				continue // what was read when it was asked about has been taken by the next time
			}
			if f := c.flights[lost.Token]; lost.Left && f != nil && f.fetches { // it has come
				continue
			}
			reason := fmt.Sprintf("its worker has not been heard of for %s", c.o.Lease)
			if lost.Left {
				reason = "the broker has lost the report of its end"
			}
			if c.settle(lost.Token, flightEnd{err: &agent.LostError{Node: lost.Node, Reason: reason, Unbegun: !lost.Began}}, settling{}) {
				had[lost.Node]++
			}
		}
		suspected = silent
		var back []ticket
		for instance, list := range c.tickets {
			if now.Sub(c.seen[instance]) > c.o.Lease {
				back = append(back, list...)
				delete(c.tickets, instance)
			}
		}
		c.mu.Unlock()
		for _, node := range slices.Sorted(maps.Keys(had)) {
			c.tell("worker %s is lost, and what it had goes elsewhere: %d", cmp.Or(node, "(of the run before)"), had[node])
		}
		for _, t := range back {
			t.release()
		}
		if now.Sub(checked) > time.Minute {
			checked = now
			c.reconcile(false)
			c.sweep(c.life)
		}
	}
}
