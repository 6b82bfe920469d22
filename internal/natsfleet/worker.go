package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/aicli"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/mask"
	"prodigy/internal/process"
)

// worker runs attempts of the jobs of a fleet.
type worker struct {
	*hub
	o        fleet.WorkerOptions
	curve    nkeys.KeyPair
	curveID  string
	register *process.Register
	temp     string
	inbox    string

	life context.Context // ends when the worker is to end
	end  context.CancelFunc
	runs sync.WaitGroup

	mu       sync.Mutex
	node     fleet.Node
	asked    int
	jobs     map[string]*workerJob
	turn     int                 // of the jobs, whose next request it is
	requests map[int]*request    // that are open, by the last word of their reply subject
	numbered int                 // requests so far
	queue    []*holding          // delivered, and waiting for a slot
	held     map[string]*holding // by job and token
	free     []int               // slots, the next one last
	waking   []chan int          // attempts that wait for a slot to go on in
	guarded  time.Time           // when the watcher kills what runs if it has not heard of this process; zero: it does not
	proof    time.Time           // when the broker last proved that it hears this worker
	rest     time.Time           // nothing begins before, after something went wrong here
	resting  time.Duration       // how long the last rest was
	stopping bool                // takes no more
	changed  chan struct{}       // somebody should look
}

// request is a request for one attempt.
type request struct {
	job     *workerJob
	expires time.Time
}

// workerJob is a job as a worker sees it.
type workerJob struct {
	key string
	fleet.Job
	life    context.Context // ends when the job is to be ended here
	cancel  context.CancelCauseFunc
	halting chan struct{}    // closed when waits are to end
	ran     map[int64]bool   // tokens that were run here
	tickets map[int64]string // of AI agents that were admitted: the coordinator that did
	silent  time.Time        // the coordinator was away then: nothing is asked for before
	refuses string           // why the worker takes no part; empty: it does
	joined  time.Time

	executors map[string]*jobExecutor // by spec
	secrets   map[string]string       // once asked for
	asking    sync.Mutex
}

// jobExecutor runs the attempts of one spec.
type jobExecutor struct {
	*agent.Executor
	spec fleet.Spec
}

// holding is an attempt that this worker was delivered.
type holding struct {
	job     *workerJob
	token   int64
	task    fleet.Task
	reply   string // where it is acknowledged
	first   bool   // see fleet.Book.Claim
	slot    int    // 0: it waits
	began   int    // the slot that it began in
	index   int    // of the last report
	arrived time.Time

	granted bool // the coordinator has said that this worker may run it
	fenced  bool
	cancel  context.CancelCauseFunc
	at      *events.AgentProgress // not told yet
	reports sync.Mutex            // they come in order
}

// Work runs a worker until it is drained or ctx ends.
func (Link) Work(ctx context.Context, o fleet.WorkerOptions) error {
	w := &worker{
		o: o, jobs: map[string]*workerJob{}, requests: map[int]*request{}, held: map[string]*holding{}, changed: make(chan struct{}, 1), proof: time.Now(),
	}
	host, _ := os.Hostname()
	w.node = fleet.Node{
		V: fleet.Protocol, Instance: newInstance(), Name: o.Name, Host: host, Version: o.Version, Labels: o.Labels, Slots: o.Slots, Began: time.Now(),
	}
	for slot := o.Slots; slot > 0; slot-- {
		w.free = append(w.free, slot)
	}
	var err error
	if w.curve, err = nkeys.CreateCurveKeys(); err != nil {
		return err
	}
	if w.curveID, err = w.curve.PublicKey(); err != nil {
		return err
	}
	if w.hub, err = connect(ctx, o.Address, "worker "+o.Name, w.reconnected); err != nil {
		return err
	}
	defer w.nc.Close()
	if err := w.prepare(); err != nil {
		return err
	}
	defer func() { _ = w.register.Close() }()
	defer func() { _ = os.RemoveAll(w.temp) }()
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	defer w.end()
	w.inbox = nats.NewInbox()
	deliveries, err := w.nc.Subscribe(w.inbox+".*", w.delivered)
	if err != nil {
		return err
	}
	defer func() { // or the broker would deliver what it was asked for
		_ = deliveries.Unsubscribe()
		_ = w.nc.FlushTimeout(time.Second)
	}()
	if _, err := w.nc.Subscribe("prodigy.drain", func(m *nats.Msg) {
		if name := string(m.Data); name == w.o.Name {
			_ = m.Respond([]byte(w.node.Instance))
			w.drain()
		}
	}); err != nil {
		return err
	}
	if _, err := w.nc.Subscribe("prodigy.nodes", func(m *nats.Msg) { _ = m.Respond(encoded(w.describe())) }); err != nil {
		return err
	}
	go w.watch()
	o.Say(fmt.Sprintf("worker %s takes attempts in %d slots from %s", o.Name, o.Slots, shown(o.URL)))
	return w.loop(ctx)
}

// prepare ends what a worker before has left, and makes the register.
func (w *worker) prepare() error {
	if err := os.MkdirAll(w.o.Home, 0o700); err != nil {
		return err
	}
	path := filepath.Join(w.o.Home, "processes")
	n, err := process.EndLeftovers(context.Background(), path, w.o.Grace)
	if err != nil {
		return err
	}
	if n > 0 {
		w.o.Say(fmt.Sprintf("commands that the worker before had left and that have been ended: %d", n))
	}
	if w.temp, err = os.MkdirTemp(w.o.Home, "run-"); err != nil {
		return err
	}
	watcher := w.o.Watcher
	if len(watcher) > 0 {
		watcher = append(slices.Clip(watcher), w.temp)
	}
	w.register, err = process.OpenRegister(path, w.o.Grace, watcher...)
	return err
}

// loop keeps the worker going.
func (w *worker) loop(ctx context.Context) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	drain, killed := w.o.Drain.Done(), ctx.Done()
	var said, renewed time.Time
	for {
		w.schedule(time.Now())
		select {
		case <-w.changed:
			continue
		case <-drain:
			drain = nil
			w.drain()
		case <-killed:
			killed = nil
			w.drain()
			w.giveBack()
		case now := <-tick.C:
			w.fence(now)
			w.beat(now)
			if now.Sub(said) >= w.every() {
				said = now
				w.reconsider()
				w.say()
			}
			if now.Sub(renewed) >= w.lease()/4 {
				renewed = now
				go w.renew()
			}
		}
		w.mu.Lock()
		ended := w.stopping && len(w.held) == 0
		w.mu.Unlock()
		if ended {
			w.runs.Wait()
			w.o.Say("worker " + w.o.Name + " has ended")
			return nil
		}
	}
}

func (w *worker) kick() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// drain has the worker take no more.
func (w *worker) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return
	}
	w.stopping, w.node.Draining = true, true
	for _, h := range w.queue { // it did not begin: another worker may have it at once
		_ = w.nc.Publish(h.reply, []byte("-NAK"))
		delete(w.held, h.name())
	}
	w.queue = nil
	w.o.Say(fmt.Sprintf("worker %s takes no more and finishes what it has: %d", w.o.Name, len(w.held)))
	w.kick()
}

// giveBack ends what runs, with the grace.
func (w *worker) giveBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.cancel != nil {
			h.cancel(errGivenBack)
		}
	}
}

var (
	errGivenBack = errors.New("the worker is being ended")
	errNoContact = fmt.Errorf("the worker had no contact with the broker: %w", process.ErrKill)
)

// lease is the shortest of the jobs that this worker has attempts of.
func (w *worker) lease() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shortest()
}

func (w *worker) shortest() time.Duration {
	lease := time.Duration(0)
	for _, j := range w.jobs {
		if lease == 0 || j.Lease < lease {
			lease = j.Lease
		}
	}
	return cmp.Or(lease, fleet.DefaultLease)
}

func (w *worker) every() time.Duration { return every(w.lease()) }

// describe returns what the worker says of itself.
func (w *worker) describe() fleet.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.node
	n.Every, n.Busy = every(w.shortest()), w.o.Slots-len(w.free)
	n.Holds, n.Refuses, n.Jobs = map[string][]int64{}, map[string]string{}, map[string]string{}
	for _, h := range w.held {
		if h.granted && !h.fenced { // to list one that is asked for would look as if this worker had been granted it by the coordinator before
			n.Holds[h.job.key] = append(n.Holds[h.job.key], h.token)
		}
	}
	for key, j := range w.jobs {
		n.Jobs[key] = j.ID
		if j.refuses != "" {
			n.Refuses[key] = j.refuses
		}
	}
	return n
}

// say tells all coordinators that the worker lives and what it holds, and which steps its attempts are at.
func (w *worker) say() {
	_ = w.nc.Publish("prodigy.node", encoded(w.describe()))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.at == nil {
			continue
		}
		line, err := events.Encode(events.Record{Seq: 1, Time: time.Now(), JobID: h.job.ID, Event: *h.at})
		if err == nil {
			_ = w.nc.Publish("prodigy.live."+h.job.key, line)
		}
		h.at = nil
	}
}

// renew keeps the leases of all that is held. The answer of the broker proves that it has heard.
func (w *worker) renew() {
	w.mu.Lock()
	sent := time.Now()
	last := ""
	for _, h := range w.held {
		if h.fenced {
			continue
		}
		if last != "" {
			_ = w.nc.Publish(last, []byte("+WPI"))
		}
		last = h.reply
	}
	if last == "" {
		w.proof = sent
	}
	w.mu.Unlock()
	if last == "" {
		return
	}
	if _, err := w.nc.Request(last, []byte("+WPI"), w.lease()/4); err == nil {
		w.mu.Lock()
		if sent.After(w.proof) {
			w.proof = sent
		}
		w.mu.Unlock()
	}
}

// outOfContact reports whether the leases of what is held may be over soon, so that others may begin it.
func (w *worker) outOfContact(now time.Time) bool {
	return now.Sub(w.proof) > w.shortest()*5/6
}

// fence kills all that is held when the broker has not been heard of for most of a lease.
func (w *worker) fence(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.outOfContact(now) {
		return
	}
	n := 0
	for _, h := range w.held {
		if h.fenced {
			continue
		}
		h.fenced = true
		if h.cancel != nil {
			h.cancel(errNoContact)
			n++
		}
	}
	for _, h := range w.queue {
		delete(w.held, h.name())
	}
	w.queue = nil
	if n > 0 {
		w.o.Say(fmt.Sprintf("no contact with the broker for most of the lease: killed what ran, %d", n))
	}
}

// afterFreeze is how long nothing begins after this process was frozen.
const afterFreeze = 2 * time.Second

// frozen reports whether this process has been silent for so long that its watcher has killed what it ran. It is called with the lock held.
func (w *worker) frozen(now time.Time) bool { return !w.guarded.IsZero() && now.After(w.guarded) }

// beat has what runs killed in time even if this process is frozen from now on.
func (w *worker) beat(now time.Time) {
	w.mu.Lock()
	if w.frozen(now) { // what ran has been killed, and the watcher may still be at it
		w.rest = now.Add(afterFreeze)
		for _, h := range w.held {
			h.fenced = true
			if h.cancel != nil {
				h.cancel(errNoContact)
			}
		}
	}
	left := time.Duration(0)
	w.guarded = time.Time{}
	if len(w.held) > 0 {
		left = max(w.proof.Add(w.shortest()*5/6).Sub(now), time.Millisecond)
		w.guarded = now.Add(left)
	}
	w.mu.Unlock()
	w.register.Beat(left)
}

func (w *worker) reconnected() {
	w.mu.Lock()
	clear(w.requests) // the broker has forgotten them
	w.mu.Unlock()
	go w.renew()
	w.kick()
}

// watch follows the jobs of the fleet.
func (w *worker) watch() {
	for w.life.Err() == nil {
		kv, err := w.js.KeyValue(w.life, jobsBucket)
		var updates jetstream.KeyWatcher
		if err == nil {
			updates, err = kv.WatchAll(w.life)
		}
		if err != nil {
			time.Sleep(250 * time.Millisecond)
			continue
		}
		w.follow(kv, updates)
		_ = updates.Stop()
	}
}

// follow takes updates of the jobs until the bucket is another: a broker that lost its disk has one without those of before, and tells nobody.
func (w *worker) follow(kv jetstream.KeyValue, updates jetstream.KeyWatcher) {
	check := time.NewTicker(2 * time.Second)
	defer check.Stop()
	known := map[string]bool{} // jobs named before the end of the list; nil after it
	bucket := bucketOf(w.life, kv)
	for {
		select {
		case <-w.life.Done():
			return
		case u, ok := <-updates.Updates():
			switch {
			case !ok:
				return
			case u == nil: // all that there are; a job that runs here may be unknown to a broker that lost its disk
				for _, key := range w.idle() {
					if known != nil && !known[key] {
						w.forget(key)
					}
				}
				known = nil
			case u.Operation() != jetstream.KeyValuePut:
				w.forget(u.Key())
			default:
				if known != nil {
					known[u.Key()] = true
				}
				var j fleet.Job
				if json.Unmarshal(u.Value(), &j) == nil {
					w.update(u.Key(), j)
				}
			}
		case <-check.C:
			if now := bucketOf(w.life, kv); now != "" && now != bucket {
				return
			}
		}
	}
}

// bucketOf identifies the bucket: another one of the same name was made at another time. Empty: it cannot be asked for.
func bucketOf(ctx context.Context, kv jetstream.KeyValue) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s, err := kv.Status(ctx)
	if err != nil {
		return ""
	}
	if b, ok := s.(*jetstream.KeyValueBucketStatus); ok {
		return b.StreamInfo().Created.String()
	}
	return ""
}

// idle returns the keys of the jobs that nothing is held of.
func (w *worker) idle() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy := map[string]bool{}
	for _, h := range w.held {
		busy[h.job.key] = true
	}
	var keys []string
	for key := range w.jobs {
		if !busy[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// update takes over what a coordinator says of its job.
func (w *worker) update(key string, now fleet.Job) {
	w.mu.Lock()
	j := w.jobs[key]
	if j == nil {
		j = &workerJob{key: key, ran: map[int64]bool{}, tickets: map[int64]string{}, halting: make(chan struct{}), executors: map[string]*jobExecutor{}, joined: time.Now()}
		j.life, j.cancel = context.WithCancelCause(context.Background())
		w.jobs[key] = j
	}
	before := j.Job
	if before.Owner != "" && before.Owner != now.Owner && before.Stop != "" { // it was stopped, and goes on
		j.halting = make(chan struct{})
		j.life, j.cancel = context.WithCancelCause(context.Background())
	}
	j.Job = now
	if j.refuses = w.unfit(now); j.refuses != "" && before.Owner != now.Owner {
		w.o.Say(fmt.Sprintf("takes no part in job %s: %s", now.ID, j.refuses))
	}
	if now.Stop != "" {
		select {
		case <-j.halting:
		default:
			close(j.halting)
		}
	}
	switch now.Stop {
	case fleet.Grace:
		j.cancel(errors.New("the job is stopping"))
	case fleet.Kill:
		j.cancel(fmt.Errorf("the job is stopping: %w", process.ErrKill))
	}
	w.mu.Unlock()
	w.kick()
	go w.say() // a new coordinator wants to know at once
}

// reconsider looks whether the worker can take part by now in jobs that it has refused.
func (w *worker) reconsider() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.refuses != "" {
			j.refuses = w.unfit(j.Job)
		}
	}
}

// unfit returns why the worker cannot take part in a job, or nothing.
func (w *worker) unfit(j fleet.Job) string {
	if j.V != fleet.Protocol {
		return fmt.Sprintf("prodigy %s speaks protocol %d of the fleet, and this worker, prodigy %s, speaks %d", j.Version, j.V, w.o.Version, fleet.Protocol)
	}
	if j.Version != w.o.Version {
		return fmt.Sprintf("it is run by prodigy %s, and this worker is prodigy %s: they must be the same", j.Version, w.o.Version)
	}
	for _, label := range j.Requires {
		if !slices.Contains(w.o.Labels, label) {
			return fmt.Sprintf("it requires %s, which this worker does not have", label)
		}
	}
	if w.o.Dir == "" {
		if _, err := os.Stat(filepath.Join(j.Dir, j.Probe)); err != nil {
			return fmt.Sprintf("the directory of the run is not shared with %s: there is no %s; mount it there, or say where it is with --dir", w.node.Host, filepath.Join(j.Dir, j.Probe))
		}
	}
	return ""
}

// forget ends what runs of a job that is gone.
func (w *worker) forget(key string) {
	w.mu.Lock()
	j := w.jobs[key]
	delete(w.jobs, key)
	if j != nil {
		j.cancel(fmt.Errorf("the job is gone: %w", process.ErrKill))
	}
	w.mu.Unlock()
	w.kick()
}

// schedule gives free slots to attempts that go on, then to those that wait, and asks for as many as there are slots left.
func (w *worker) schedule(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.free) > 0 && len(w.waking) > 0 {
		w.waking[0] <- w.take()
		w.waking = w.waking[1:]
	}
	for len(w.free) > 0 && len(w.queue) > 0 && !now.Before(w.rest) {
		h := w.queue[0]
		w.queue = w.queue[1:]
		h.slot = w.take()
		h.began = h.slot
		w.runs.Go(func() { w.run(h) })
	}
	for id, r := range w.requests {
		if now.After(r.expires.Add(500 * time.Millisecond)) {
			delete(w.requests, id)
		}
	}
	if w.stopping || now.Before(w.rest) || w.outOfContact(now) {
		return
	}
	var open []*workerJob
	for _, j := range w.jobs {
		if j.refuses == "" && j.Stop == "" && !now.Before(j.silent) {
			open = append(open, j)
		}
	}
	slices.SortFunc(open, func(a, b *workerJob) int { return cmp.Compare(a.key, b.key) })
	expires := 5 * time.Second
	if len(open) > 1 {
		expires = 300 * time.Millisecond // so that slots go round
	}
	for len(open) > 0 && len(w.requests) < len(w.free) {
		j := open[w.turn%len(open)]
		w.turn++
		w.numbered++
		id := w.numbered
		w.requests[id] = &request{job: j, expires: now.Add(expires)}
		body := fmt.Sprintf(`{"batch":1,"expires":%d}`, expires.Nanoseconds())
		if w.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+runStream+"."+j.key, w.inbox+"."+strconv.Itoa(id), []byte(body)) != nil {
			delete(w.requests, id)
			return // there is no connection
		}
	}
}

func (w *worker) take() int {
	slot := w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	return slot
}

// release gives a slot back.
func (w *worker) release(slot int) {
	w.mu.Lock()
	w.free = append(w.free, slot)
	w.mu.Unlock()
	w.kick()
}

// delivered takes an attempt, or the word that there is none.
func (w *worker) delivered(m *nats.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.kick()
	if m.Reply == "" || m.Header.Get("Status") != "" {
		id, _ := strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
		if status := m.Header.Get("Status"); w.requests[id] != nil && status != "404" && status != "408" { // the consumer is gone or moves
			w.requests[id].job.silent = time.Now().Add(250 * time.Millisecond)
		}
		delete(w.requests, id)
		return
	}
	parts := strings.Split(m.Reply, ".") // $JS.ACK.[domain.account.]stream.consumer.delivered.sseq.dseq.time.pending[.token]
	h := &holding{reply: m.Reply, arrived: time.Now()}
	if json.Unmarshal(m.Data, &h.task) != nil || h.task.V != fleet.Protocol {
		_ = w.nc.Publish(m.Reply, []byte("-NAK {\"delay\": 5000000000}")) // others may be able to read it
		return
	}
	h.token = h.task.Token
	key, deliveries := consumerOf(parts)
	h.first = deliveries == 1 && !h.task.Again
	j := w.jobs[key]
	w.answered(j)
	if j == nil || w.stopping {
		_ = w.nc.Publish(m.Reply, []byte("-NAK"))
		return
	}
	h.job = j
	if known := w.held[h.name()]; known != nil {
		known.reply = m.Reply // it is delivered again, and goes on
		return
	}
	if j.ran[h.token] {
		_ = w.nc.Publish(m.Reply, []byte("+ACK")) // its end has been reported
		return
	}
	w.held[h.name()] = h
	w.queue = append(w.queue, h)
}

// answered forgets the oldest request of a job: what is delivered does not say which request it answers.
func (w *worker) answered(j *workerJob) {
	oldest := 0
	for id, r := range w.requests {
		if r.job == j && (oldest == 0 || id < oldest) {
			oldest = id
		}
	}
	delete(w.requests, oldest)
}

// consumerOf returns the consumer and the number of deliveries of the subject that acknowledges a message, in words.
func consumerOf(words []string) (consumer string, deliveries int) {
	at := 2 // stream
	if len(words) > 9 {
		at = 4 // behind the domain and the account
	}
	if len(words) < at+3 {
		return "", 0
	}
	n, err := strconv.Atoi(words[at+2])
	if err != nil {
		return "", 0
	}
	return words[at+1], n
}

func (h *holding) name() string { return h.job.key + "." + strconv.FormatInt(h.token, 10) }

// run asks for the right to run an attempt, runs it, and reports how it ended.
func (w *worker) run(h *holding) {
	slot := h.slot
	free := func() {
		if slot > 0 {
			w.release(slot)
			slot = 0
		}
	}
	defer free()
	if !w.granted(h) {
		w.mu.Lock()
		delete(w.held, h.name())
		w.mu.Unlock()
		return
	}
	o, err := w.execute(h)
	w.mu.Lock()
	slot = h.slot
	w.mu.Unlock()
	free()
	r := fleet.Report{Kind: fleet.Ended, Outcome: &o}
	w.mu.Lock()
	fenced := h.fenced || w.outOfContact(time.Now()) || w.frozen(time.Now()) // it may be the watcher that has killed it
	stopped := errors.Is(context.Cause(h.job.life), err) || errors.Is(err, errGivenBack) || errors.Is(err, errHalting)
	w.mu.Unlock()
	switch {
	case fenced:
		r = fleet.Report{Kind: fleet.Dropped, Reason: "its worker had no contact with the broker for most of the lease, and has killed it"}
	case err != nil && (stopped || errors.Is(err, process.ErrKill)):
		r = fleet.Report{Kind: fleet.Returned, Reason: err.Error()}
	case err != nil:
		r = fleet.Report{Kind: fleet.Broken, Reason: err.Error()}
		w.broken(err)
	default:
		w.mu.Lock()
		w.resting = 0
		w.mu.Unlock()
	}
	w.report(h, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.nc.Publish(h.reply, []byte("+ACK"))
	delete(w.held, h.name())
	w.kick()
}

// broken has the worker rest after it could not do something itself, longer each time.
func (w *worker) broken(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = min(max(2*w.resting, 5*time.Second), time.Minute)
	w.rest = time.Now().Add(w.resting)
	w.o.Say(fmt.Sprintf("could not run an attempt, which is given back: %v; rests for %s", err, w.resting))
}

// granted asks the coordinator whether this worker may run an attempt.
func (w *worker) granted(h *holding) bool {
	j := h.job
	q := encoded(fleet.Claim{Token: h.token, Holder: w.holder(h), First: h.first})
	for range 3 {
		if w.isFenced(h) || j.life.Err() != nil {
			break
		}
		m, err := w.nc.Request("prodigy.ask."+j.key+".claim", q, 2*time.Second)
		var answer fleet.ClaimAnswer
		if err == nil {
			err = json.Unmarshal(m.Data, &answer)
		}
		if err != nil { // the coordinator is away; it stays queued
			w.mu.Lock()
			j.silent = time.Now().Add(2 * time.Second)
			w.mu.Unlock()
			break
		}
		switch answer.Word {
		case fleet.Run:
			w.mu.Lock()
			defer w.mu.Unlock()
			if h.fenced || j.ran[h.token] {
				return false
			}
			j.ran[h.token], h.granted = true, true
			return true
		case fleet.Over:
			w.mu.Lock()
			defer w.mu.Unlock()
			_ = w.nc.Publish(h.reply, []byte("+ACK"))
			return false
		case fleet.Held: // whoever has it keeps its lease
			return false
		case fleet.Wait:
			if answer.Again > 2*time.Second {
				w.mu.Lock()
				defer w.mu.Unlock()
				_ = w.nc.Publish(h.reply, fmt.Appendf(nil, "-NAK {\"delay\": %d}", answer.Again.Nanoseconds()))
				return false
			}
			time.Sleep(answer.Again)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.nc.Publish(h.reply, []byte("-NAK {\"delay\": 2000000000}"))
	return false
}

func (w *worker) isFenced(h *holding) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return h.fenced
}

func (w *worker) holder(h *holding) fleet.Holder {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fleet.Holder{Instance: w.node.Instance, Node: w.o.Name, Slot: h.began}
}

// execute runs an attempt that was granted.
func (w *worker) execute(h *holding) (agent.Outcome, error) {
	ctx, cancel := context.WithCancelCause(h.job.life)
	defer cancel(nil)
	w.mu.Lock()
	h.cancel = cancel
	if h.fenced {
		cancel(errNoContact)
	}
	w.mu.Unlock()
	x, err := w.executor(ctx, h)
	if err != nil {
		return agent.Outcome{}, err
	}
	a := x.spec.Template
	var own agent.Attempt
	data := []byte(h.task.Attempt)
	if h.task.Ref != "" {
		if data, err = w.get(ctx, h.task.Ref); err != nil {
			return agent.Outcome{}, fmt.Errorf("fetch the attempt: %w", err)
		}
	}
	if err := json.Unmarshal(data, &own); err != nil {
		return agent.Outcome{}, fmt.Errorf("read the attempt: %w", err)
	}
	a.ID, a.CorrelationID, a.ItemID, a.ItemIndex, a.ItemTotal, a.Item = own.ID, own.CorrelationID, own.ItemID, own.ItemIndex, own.ItemTotal, own.Item
	a.Number, a.Retrying, a.Token, a.Worker, a.Adopted = own.Number, own.Retrying, own.Token, h.slot, own.Adopted
	if own.Retrying != nil {
		a.Due = h.arrived.Add(h.task.Wait)
	}
	if w.o.Dir != "" {
		a.Dir = w.o.Dir
	}
	placed := time.AfterFunc(100*time.Millisecond, func() { w.report(h, fleet.Report{Kind: fleet.Placed}) })
	defer placed.Stop()
	return x.Execute(ctx, a)
}

// executor returns what runs the attempts of a spec.
func (w *worker) executor(ctx context.Context, h *holding) (*jobExecutor, error) {
	j := h.job
	j.asking.Lock()
	defer j.asking.Unlock()
	if x := j.executors[h.task.Spec]; x != nil {
		return x, nil
	}
	data, err := w.get(ctx, h.task.Spec)
	if err != nil {
		return nil, fmt.Errorf("fetch the steps: %w", err)
	}
	x := &jobExecutor{}
	if err := json.Unmarshal(data, &x.spec); err != nil {
		return nil, fmt.Errorf("read the steps: %w", err)
	}
	if j.Secrets && j.secrets == nil {
		if err := w.ask(ctx, j, callSecrets, 0, nil, &j.secrets); err != nil {
			return nil, fmt.Errorf("ask for the secrets: %w", err)
		}
	}
	var agents aicli.Set
	if x.spec.Agents {
		var layers []aicli.Layer
		for _, text := range x.spec.Layers {
			var node yaml.Node
			if err := yaml.Unmarshal([]byte(text), &node); err != nil {
				return nil, fmt.Errorf("read the presets: %w", err)
			}
			layers = append(layers, aicli.Layer{Name: "the coordinator", Node: node.Content[0]})
		}
		if agents, err = aicli.Load(layers...); err != nil {
			return nil, err
		}
	}
	var values []string
	for _, v := range j.secrets {
		values = append(values, v)
	}
	x.Executor = agent.New(agent.Config{
		Run: w.command, Claude: x.spec.Claude, Agents: agents, Seed: x.spec.Seed, Grace: j.Grace, LogSteps: x.spec.LogSteps, TempDir: w.temp,
		Environ: w.o.Environ, Secrets: j.secrets, Mask: mask.New(values),
	}, &workerHost{w: w, job: j})
	j.executors[h.task.Spec] = x
	return x, nil
}

// command runs a command, unless this worker was out of contact: after it was frozen it must begin nothing.
func (w *worker) command(ctx context.Context, c process.Command) (process.Exit, error) {
	w.mu.Lock()
	out := w.outOfContact(time.Now()) || w.frozen(time.Now())
	w.mu.Unlock()
	if out {
		return process.Exit{}, errNoContact
	}
	return process.Run(ctx, c)
}

// report has the broker keep what happened, whatever time that takes. Reports of an attempt come in order.
func (w *worker) report(h *holding, r fleet.Report) {
	h.reports.Lock()
	defer h.reports.Unlock()
	w.mu.Lock()
	known := w.jobs[h.job.key] != nil
	w.mu.Unlock()
	if !known {
		return // the job is over, and nobody listens any more
	}
	h.index++
	r.V, r.Token, r.Index, r.Holder = fleet.Protocol, h.token, h.index, w.holder(h)
	data := encoded(r)
	subject := fmt.Sprintf("prodigy.out.%s.%s.%d", w.node.Instance, h.job.key, h.token)
	if len(data) > maxBody {
		ref := fmt.Sprintf("%s/report-%d-%s-%d", h.job.key, h.token, w.node.Instance, h.index)
		if stubbornly(w.life, func(ctx context.Context) error { return w.put(ctx, ref, data) }) != nil {
			return
		}
		data = encoded(fleet.Report{V: r.V, Token: r.Token, Index: r.Index, Kind: r.Kind, Holder: r.Holder, Ref: ref})
	}
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%d.%s.%d", h.job.key, h.token, w.node.Instance, h.index))
	_ = stubbornly(w.life, func(ctx context.Context) error {
		_, err := w.js.PublishMsg(ctx, m)
		return err
	})
}
