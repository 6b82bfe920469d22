package natsfleet

import (
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
	curve  nkeys.KeyPair
	curvID string

	local *agent.Executor // of attempts that are about no item
	host  agent.Host
	c     agent.Config

	life context.Context // ends at Close
	end  context.CancelFunc
	work sync.WaitGroup

	opening sync.Mutex
	key     string // of the job; empty: not opened yet
	probe   string // path of the file
	hear    jetstream.ConsumeContext
	heard   chan struct{} // closed when the reports of before have been heard
	once    sync.Once     // closes it

	mu        sync.Mutex
	job       fleet.Job
	book      *fleet.Book
	flights   map[int64]*flight
	awaited   map[string]bool            // ids of attempts that the run before left, which Execute has not been called with yet
	unsettled map[string][]jetstream.Msg // reports of ends whose records are not durable, by agent id; nil: there is no report
	specs     map[string]string          // digests of the specs that the broker has, by that of the attempt and what else is in it
	calls     map[string]*call
	tickets   map[string][]ticket // of half-open breakers and quotas, by instance
	notice    func(string)
	seen      map[string]time.Time // when instances were heard of
	refused   map[string]bool      // instances whose refusal was told
	held      bool
	detached  bool // some attempts may still run
	stopping  sync.Once
}

// flight is an attempt that is out.
type flight struct {
	attempt agent.Attempt
	end     chan flightEnd // gets one value
	last    int            // index of the last report
	broke   error          // that the job is to stop with, which a call of the worker was answered with
	stop    context.Context
	cancel  context.CancelFunc
}

type flightEnd struct {
	outcome agent.Outcome
	err     error
	msg     jetstream.Msg // that says so; nil: none does
}

// Join connects the coordinator of a job.
func (Link) Join(ctx context.Context, o fleet.JobOptions) (fleet.Crew, error) {
	if least := leastLease(o.Address); o.Lease < least {
		return nil, fmt.Errorf("%w: --lease: %s is too short: %s at least", fleet.ErrRefused, o.Lease, least)
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
		o: o, owner: newInstance(), curve: curve, curvID: public, heard: make(chan struct{}), flights: map[int64]*flight{},
		unsettled: map[string][]jetstream.Msg{}, specs: map[string]string{}, calls: map[string]*call{}, tickets: map[string][]ticket{}, refused: map[string]bool{}, seen: map[string]time.Time{},
		book: fleet.NewBook(o.Lease, every(o.Lease), time.Now()), notice: func(string) {},
	}
	c.life, c.end = context.WithCancel(context.Background())
	c.hub, err = connect(ctx, o.Address, "coordinator", c.reconnected)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *crew) Notify(notice func(string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice = notice
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
func (c *crew) open(ctx context.Context, jobID string) error {
	c.opening.Lock()
	defer c.opening.Unlock()
	if c.key != "" {
		return nil
	}
	key := keyOf(jobID, c.c.Seed)
	if _, err := c.nc.Request("prodigy.ask."+key+".owner", nil, 500*time.Millisecond); err == nil {
		return fmt.Errorf("%w: job %s is run by another coordinator of this fleet", fleet.ErrRefused, jobID)
	}
	c.probe = filepath.Join(c.o.Dir, ".prodigy-fleet-"+key)
	if err := os.WriteFile(c.probe, []byte(key+"\n"), 0o600); err != nil {
		return fmt.Errorf("make the file by which workers find the directory of the run: %w", err)
	}
	c.mu.Lock()
	c.job = fleet.Job{
		V: fleet.Protocol, ID: jobID, Owner: c.owner, Version: c.o.Version, Lease: c.o.Lease, Requires: c.o.Requires, Dir: c.o.Dir,
		Probe: filepath.Base(c.probe), Grace: c.c.Grace, Secrets: len(c.c.Secrets) > 0,
	}
	adopts := len(c.awaited) > 0
	c.mu.Unlock()
	c.key = key
	for subject, answer := range map[string]nats.MsgHandler{
		"prodigy.ask." + key + ".owner": func(m *nats.Msg) { _ = m.Respond([]byte(c.owner)) },
		"prodigy.ask." + key + ".claim": c.claim,
		"prodigy.ask." + key + ".call":  func(m *nats.Msg) { go c.call(m) },
		"prodigy.live." + key:           c.progress,
		"prodigy.node":                  c.node,
	} {
		if _, err := c.nc.Subscribe(subject, answer); err != nil {
			return err
		}
	}
	// Reports that the coordinator before had not acknowledged come at once when the consumer is new.
	if err := c.js.DeleteConsumer(ctx, outStream, key); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	if err := c.establish(ctx); err != nil {
		return err
	}
	if !adopts {
		if err := c.listen(); err != nil {
			return err
		}
	}
	c.work.Go(c.look)
	return nil
}

// establish makes the consumers and the entry of the job, unless they are there.
func (c *crew) establish(ctx context.Context) error {
	if err := ensure(ctx, c.js); err != nil {
		return err
	}
	if _, err := c.js.CreateOrUpdateConsumer(ctx, runStream, jetstream.ConsumerConfig{
		Durable: c.key, FilterSubject: "prodigy.run." + c.key + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.o.Lease, MaxDeliver: -1,
		MaxAckPending: -1, MaxWaiting: 8192, InactiveThreshold: 7 * 24 * time.Hour,
	}); err != nil {
		return err
	}
	if _, err := c.js.CreateOrUpdateConsumer(ctx, outStream, jetstream.ConsumerConfig{
		Durable: c.key, FilterSubject: "prodigy.out.*." + c.key + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.o.Lease, MaxDeliver: -1,
		MaxAckPending: -1, InactiveThreshold: 7 * 24 * time.Hour,
	}); err != nil {
		return err
	}
	return c.announce(ctx)
}

// announce writes the entry of the job.
func (c *crew) announce(ctx context.Context) error {
	kv, err := c.js.KeyValue(ctx, jobsBucket)
	if err != nil {
		return err
	}
	c.mu.Lock()
	data, err := json.Marshal(c.job)
	c.mu.Unlock()
	if err == nil {
		_, err = kv.Put(ctx, c.key, data)
	}
	return err
}

// listen begins to take reports. All attempts that the run before left must be known by then, or their reports would be late.
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
		c.report(m)
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

// Execute gives an attempt at an item to a worker and waits for its end. All others run here.
func (c *crew) Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error) {
	if a.ItemID == "" {
		return c.local.Execute(ctx, a)
	}
	e := c.give(ctx, a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(e.err, agent.ErrDetached) {
		c.detached = true
		return e.outcome, e.err
	}
	c.unsettled[a.ID] = append(c.unsettled[a.ID], e.msg)
	return e.outcome, e.err
}

// give gives an attempt to a worker and waits for its end.
func (c *crew) give(ctx context.Context, a agent.Attempt) flightEnd {
	if err := c.open(ctx, a.JobID); err != nil {
		return flightEnd{err: err}
	}
	f := &flight{attempt: a, end: make(chan flightEnd, 1)}
	f.stop, f.cancel = context.WithCancel(ctx)
	defer f.cancel()
	c.mu.Lock()
	adopted := c.awaited[a.ID]
	delete(c.awaited, a.ID)
	last := adopted && len(c.awaited) == 0
	held := c.held && !adopted
	if !held {
		c.flights[a.Token] = f
		c.book.Add(a.Token, adopted, time.Now())
	}
	c.mu.Unlock()
	if held {
		return flightEnd{err: fmt.Errorf("the job is stopping: %w", agent.ErrReturned)}
	}
	if last {
		if err := c.listen(); err != nil {
			return flightEnd{err: err}
		}
	}
	if adopted {
		select {
		case <-c.heard:
		case <-ctx.Done():
		}
	}
	if err := c.publish(f, adopted); err != nil {
		return flightEnd{err: err}
	}
	select {
	case e := <-f.end:
		return e
	case <-ctx.Done():
	}
	c.stop(context.Cause(ctx))
	select {
	case e := <-f.end:
		return e
	case <-time.After(c.c.Grace + patience):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case e := <-f.end:
		return e
	default:
	}
	c.book.End(a.Token)
	delete(c.flights, a.Token)
	return flightEnd{err: agent.ErrDetached}
}

// patience is how long workers may take to answer a stop besides the grace.
const patience = 3 * time.Second

// settle ends a flight. It reports false if the attempt is not out: who reported that is late. It is called with the lock held.
func (c *crew) settle(token int64, e flightEnd) bool {
	f, ok := c.flights[token]
	if !ok {
		return false
	}
	h, _ := c.book.End(token)
	delete(c.flights, token)
	f.cancel()
	if lost, ok := errors.AsType[*agent.LostError](e.err); ok && lost.Node == "" {
		lost.Node = h.Node
	}
	f.end <- e
	return true
}

// publish has the broker take an attempt, whatever time that takes.
func (c *crew) publish(f *flight, again bool) error {
	a := f.attempt
	spec, err := c.spec(f.stop, a)
	if err != nil {
		return c.unlessOver(f, err)
	}
	own := agent.Attempt{
		ID: a.ID, CorrelationID: a.CorrelationID, ItemID: a.ItemID, ItemIndex: a.ItemIndex, ItemTotal: a.ItemTotal, Item: a.Item, Number: a.Number,
		Retrying: a.Retrying, Token: a.Token, Adopted: a.Adopted, // a session of an AI coding CLI is on the machine that it was begun on
	}
	task := fleet.Task{V: fleet.Protocol, Token: a.Token, Spec: spec, Again: again}
	if !a.Due.IsZero() {
		task.Wait = max(0, time.Until(a.Due))
	}
	if task.Attempt, err = json.Marshal(own); err != nil {
		return err
	}
	if len(task.Attempt) > maxBody {
		task.Ref = c.key + "/task-" + strconv.FormatInt(a.Token, 10)
		if err := stubbornly(f.stop, func(ctx context.Context) error { return c.put(ctx, task.Ref, task.Attempt) }); err != nil {
			return c.unlessOver(f, err)
		}
		task.Attempt = nil
	}
	data, err := json.Marshal(task)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: fmt.Sprintf("prodigy.run.%s.%d", c.key, a.Token), Data: data, Header: nats.Header{}}
	if !again {
		m.Header.Set(nats.MsgIdHdr, c.key+"."+strconv.FormatInt(a.Token, 10))
	}
	err = stubbornly(f.stop, func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, m)
		if err != nil && strings.Contains(err.Error(), "maximum messages per subject exceeded") {
			return nil // the broker has it
		}
		return err
	})
	return c.unlessOver(f, err)
}

// unlessOver drops an error about an attempt that has ended or is being stopped: that is seen elsewhere.
func (c *crew) unlessOver(f *flight, err error) error {
	if f.stop.Err() != nil {
		return nil
	}
	return err
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
	a.ID, a.CorrelationID, a.ItemID, a.Item, a.Retrying, a.Session, a.Adopted = "", "", "", nil, nil, nil, false
	a.ItemIndex, a.ItemTotal, a.Number, a.Worker, a.Token, a.Due = 0, 0, 0, 0, 0, time.Time{}
	s := fleet.Spec{Template: a, Seed: c.c.Seed, LogSteps: c.c.LogSteps, Claude: c.c.Claude, Agents: c.o.Agents, Layers: c.o.Layers}
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	name = c.key + "/spec-" + digest(data)
	if err := stubbornly(ctx, func(ctx context.Context) error { return c.put(ctx, name, data) }); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs[known] = name
	return name, nil
}

// Hold gives back what no worker has, and has those wait no longer that wait.
func (c *crew) Hold() {
	c.mu.Lock()
	c.held = true
	for _, token := range c.book.Unheld() {
		c.settle(token, flightEnd{err: fmt.Errorf("the job is stopping: %w", agent.ErrReturned)})
	}
	c.mu.Unlock()
	c.setStop(fleet.Hold)
}

// stop ends what runs.
func (c *crew) stop(cause error) {
	c.stopping.Do(func() {
		how := fleet.Grace
		if errors.Is(cause, process.ErrKill) {
			how = fleet.Kill
		}
		c.setStop(how)
	})
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
	c.mu.Unlock()
	c.work.Go(func() {
		_ = stubbornly(c.life, c.announce)
		if s == fleet.Hold { // what is queued is over
			_ = stubbornly(c.life, c.purge)
		}
	})
}

// purge empties the queue of the job. What workers hold they go on with.
func (c *crew) purge(ctx context.Context) error {
	stream, err := c.js.Stream(ctx, runStream)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject("prodigy.run."+c.key+".>"))
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
		queue := c.unsettled[id]
		var m jetstream.Msg
		if len(queue) > 0 {
			m = queue[0]
			c.unsettled[id] = queue[1:]
			if len(queue) == 1 {
				delete(c.unsettled, id)
			}
		}
		c.mu.Unlock()
		if m != nil {
			_ = m.Ack()
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
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	c.mu.Lock()
	if c.hear != nil {
		c.hear.Stop()
	}
	clean := !c.detached && c.book.Len() == 0 && len(c.awaited) == 0
	c.mu.Unlock()
	_ = c.nc.FlushWithContext(ctx) // the acknowledgements
	c.end()
	c.work.Wait()
	_ = os.Remove(c.probe)
	if !clean {
		return nil
	}
	kv, err := c.js.KeyValue(ctx, jobsBucket)
	if err == nil {
		err = kv.Purge(ctx, c.key)
	}
	err = errors.Join(err, c.js.DeleteConsumer(ctx, runStream, c.key), c.js.DeleteConsumer(ctx, outStream, c.key), c.purge(ctx))
	if stream, e := c.js.Stream(ctx, outStream); e == nil {
		err = errors.Join(err, stream.Purge(ctx, jetstream.WithPurgeSubject("prodigy.out.*."+c.key+".>")))
	}
	err = errors.Join(err, c.drop(ctx, c.key+"/"))
	if err != nil {
		c.tell("the broker still has something of the job: %v", err)
	}
	return nil
}

// report takes what a worker says of an attempt.
func (c *crew) report(m jetstream.Msg) {
	var r fleet.Report
	if err := json.Unmarshal(m.Data(), &r); err != nil || r.V != fleet.Protocol {
		_ = m.Ack() // nobody will ever be able to read it
		return
	}
	if r.Ref != "" {
		ref := r.Ref
		err := stubbornly(c.life, func(ctx context.Context) error {
			data, err := c.get(ctx, ref)
			if errors.Is(err, jetstream.ErrObjectNotFound) { // the broker lost it
				r = fleet.Report{Token: r.Token, Index: r.Index, Kind: fleet.Dropped, Holder: r.Holder, Reason: "the broker lost its report"}
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
	now := time.Now()
	c.mu.Lock()
	f, out := c.flights[r.Token]
	if h, _ := c.book.Holder(r.Token); out && h.Instance != "" && h.Instance != r.Holder.Instance {
		out = false // it was given to another since
	}
	if !out || f.last >= r.Index {
		c.mu.Unlock()
		_ = m.Ack() // late, or repeated
		return
	}
	f.last = r.Index
	c.book.Hears(r.Holder, []int64{r.Token}, now)
	e := flightEnd{msg: m}
	switch r.Kind {
	case fleet.Ended:
		if r.Outcome == nil {
			e.err = &agent.LostError{Node: r.Holder.Node, Reason: "its report has no outcome"}
			break
		}
		e.outcome = *r.Outcome
		e.outcome.Node = r.Holder.Node
	case fleet.Returned:
		e.err = fmt.Errorf("%s: %w", r.Reason, agent.ErrReturned)
	case fleet.Broken:
		e.err = fmt.Errorf("%s on %s: %w", r.Reason, r.Holder.Node, agent.ErrReturned)
	case fleet.Dropped:
		e.err = &agent.LostError{Node: r.Holder.Node, Reason: r.Reason}
	default:
		a := f.attempt
		stop := f.stop
		c.mu.Unlock()
		c.inside(stop, &a, r)
		_ = m.Ack()
		return
	}
	if f.broke != nil && e.err != nil {
		e.err = f.broke
	}
	c.settle(r.Token, e)
	c.mu.Unlock()
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

// claim answers a worker that wants to run an attempt.
func (c *crew) claim(m *nats.Msg) {
	var q fleet.Claim
	if json.Unmarshal(m.Data, &q) != nil {
		return
	}
	c.mu.Lock()
	word, again := c.book.Claim(q.Token, q.Holder, q.First, time.Now())
	c.mu.Unlock()
	answer, err := json.Marshal(fleet.ClaimAnswer{Word: word, Again: again})
	if err == nil {
		_ = m.Respond(answer)
	}
}

// node hears what a worker says of itself.
func (c *crew) node(m *nats.Msg) {
	var n fleet.Node
	if json.Unmarshal(m.Data, &n) != nil || n.V != fleet.Protocol {
		return
	}
	c.mu.Lock()
	c.book.Hears(fleet.Holder{Instance: n.Instance, Node: n.Name}, n.Holds[c.key], time.Now())
	c.seen[n.Instance] = time.Now()
	why, told := n.Refuses[c.key], c.refused[n.Instance]
	if why != "" {
		c.refused[n.Instance] = true
	}
	c.mu.Unlock()
	if why != "" && !told {
		c.tell("worker %s takes no part: %s", n.Name, why)
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

// reconcile has the broker know again what it should. again says that it was away.
func (c *crew) reconcile(again bool) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if c.key == "" || c.life.Err() != nil {
		return
	}
	if stubbornly(c.life, c.establish) != nil {
		return
	}
	c.mu.Lock()
	clear(c.specs)
	held := c.held
	listens := c.hear != nil
	flights := slices.Collect(maps.Values(c.flights))
	c.mu.Unlock()
	if again && listens { // a consumer that was made anew has forgotten who waits for it
		_ = stubbornly(c.life, func(context.Context) error { return c.listen() })
	}
	if held {
		return
	}
	for _, f := range flights {
		_ = c.publish(f, true)
	}
}

// heardAll reports whether the broker has no reports that it has not delivered.
func (c *crew) heardAll() bool {
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, outStream, c.key)
	return err == nil && consumer.CachedInfo().NumPending == 0
}

// look finds lost attempts, and now and then what the broker has lost.
func (c *crew) look() {
	tick := time.NewTicker(c.book.Every)
	defer tick.Stop()
	checked := time.Now()
	var suspected []int64 // that were silent the last time
	for {
		select {
		case <-c.life.Done():
			return
		case <-tick.C:
		}
		if !c.nc.IsConnected() {
			continue
		}
		if err := c.nc.FlushTimeout(c.book.Every); err != nil { // nobody can be heard
			c.mu.Lock()
			c.deaf()
			c.mu.Unlock()
			continue
		}
		now := time.Now()
		c.mu.Lock()
		silent := c.book.Silent(now)
		c.mu.Unlock()
		if len(silent) > 0 && !c.heardAll() { // the end of some may be among what is to be read
			silent = nil
		}
		c.mu.Lock()
		for _, token := range silent {
			if !slices.Contains(suspected, token) {
				continue // what was read when it was asked about has been taken by the next time
			}
			c.settle(token, flightEnd{err: &agent.LostError{Reason: fmt.Sprintf("its worker has not been heard of for %s", c.o.Lease)}})
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
		for _, t := range back {
			t.release()
		}
		if now.Sub(checked) > time.Minute {
			checked = now
			c.reconcile(false)
		}
	}
}
