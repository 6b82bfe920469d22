package natsfleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/aicli"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/gitspace"
	"prodigy/internal/mask"
	"prodigy/internal/pressure"
	"prodigy/internal/process"
)

// worker runs attempts of the jobs of a fleet.
type worker struct {
	*hub
	o        fleet.WorkerOptions
	curve    nkeys.KeyPair
	trust    trust
	curveID  string
	register *process.Register
	temp     string
	after    string // instance of the worker before with this home

	life context.Context // ends when the worker is to end
	end  context.CancelFunc
	runs sync.WaitGroup

	caching sync.Mutex // of files
	storing sync.Mutex // of repositories
	beating sync.Mutex // of beat; mu may be taken while it is held
	gitOnce sync.Once
	noGit   string // see lacksGit

	mu       sync.Mutex
	space    *sync.Cond // of mu: reports have been taken, or nobody wants them
	node     fleet.Node
	asked    int
	rounds   int64 // of offers so far
	jobs     map[string]*workerJob
	owners   map[string]string   // with trust, by job: the coordinator that has confirmed that it runs it
	asking   map[string]string   // with trust, by job: the coordinator that is asked to
	warned   map[string]bool     // what was said of what was not believed
	turn     int                 // of the jobs, whose next offer it is
	turned   time.Time           // when offers last went round
	queue    []*holding          // given to this worker, and waiting for a slot
	held     map[string]*holding // by job and token
	free     []int               // slots, the next one last
	short    string              // why nothing begins here now, see measure; empty: it may
	waking   []chan int          // attempts that wait for a slot to go on in
	idle     chan *holding       // of goroutines that wait for another attempt
	guarded  time.Time           // when the watcher kills what runs if it has not heard of this process; zero: it does not
	proof    time.Time           // when the broker last proved that it hears this worker
	rest     time.Time           // nothing begins before, after something went wrong here
	resting  time.Duration       // how long the last rest was
	began    bool                // it has all that it needs
	stopping bool                // takes no more
	absent   absentBroker        // of the loop alone
	changed  chan struct{}       // somebody should look
	rewatch  chan struct{}       // the jobs are to be followed anew
}

// workerJob is a job as a worker sees it.
type workerJob struct {
	key string
	fleet.Job
	life    context.Context // ends when the job is to be ended here
	cancel  context.CancelCauseFunc
	halting chan struct{}    // closed when waits are to end
	tickets map[int64]string // of AI agents that were admitted: the coordinator that did
	refuses string           // why the worker takes no part; empty: it does
	short   string           // why nothing of it begins here now, see measure; empty: it may
	foreign bool             // its entry is not believed
	warns   string           // what was not believed, to be said

	round, credit, got int64          // of the offer, and how many attempts of it have arrived
	arrived            map[int64]bool // the tokens of those: what is repeated is not run again
	dirty              bool           // there is something to say
	full               bool           // all that is held is to be said
	outbox             []*holding     // that have reports that were not sent
	unread             int            // bytes of reports that the coordinator has not taken

	executors map[string]*jobExecutor // by spec
	dirs      map[string]string       // that attempts run in, by the list of their files
	spaces    map[string]*jobSpace    // by their seed
	secrets   map[string]string       // once asked for
	asking    sync.Mutex
}

// jobExecutor runs the attempts of one spec.
type jobExecutor struct {
	*agent.Executor
	spec     fleet.Spec
	produces func(string, json.RawMessage) ([]string, error) // nil: none
}

// holding is an attempt that this worker was given.
type holding struct {
	job     *workerJob
	token   int64
	task    fleet.Task
	slot    int // 0: it waits
	began   int // the slot that it began in
	arrived time.Time

	ran    atomic.Bool // a command of it was begun
	fenced bool
	over   bool // nobody wants to know how it ends
	cancel context.CancelCauseFunc
	at     *events.AgentProgress // not told yet

	preparing bool // it waits for the commits that it begins at

	x        *jobExecutor // once it runs
	checkout string       // with workspaces: the directory of the run here, or that of its files

	reports  []report   // that the coordinator has not taken, in order
	sent     int        // how many of them were sent
	index    int        // of the last report
	ended    bool       // the last of them is its end
	spilling bool       // they are being left with the broker
	left     bool       // its end is with the broker
	making   sync.Mutex // reports come in order
}

// report is a fleet.Report as JSON.
type report struct {
	data  []byte
	index int
	made  time.Time
}

// Work runs a worker until it is drained or ctx ends.
func (Link) Work(ctx context.Context, o fleet.WorkerOptions) error {
	if _, err := exec.LookPath("sh"); err != nil {
		return fmt.Errorf("%w: the steps of items are run by sh, and there is none in PATH", fleet.ErrRefused)
	}
	w := &worker{
		o: o, jobs: map[string]*workerJob{}, held: map[string]*holding{}, changed: make(chan struct{}, 1), proof: time.Now(), idle: make(chan *holding),
	}
	w.rewatch = make(chan struct{}, 1)
	w.owners, w.asking, w.warned = map[string]string{}, map[string]string{}, map[string]bool{}
	w.space = sync.NewCond(&w.mu)
	defer close(w.idle)
	host, _ := os.Hostname()
	w.node = fleet.Node{
		V: fleet.Protocol, Name: o.Name, Host: host, Version: o.Version, Labels: o.Labels, Slots: o.Slots, Began: time.Now(),
	}
	for slot := o.Slots; slot > 0; slot-- {
		w.free = append(w.free, slot)
	}
	err := o.May(fleet.WorkerRole)
	if err != nil {
		return err
	}
	if w.trust, err = newTrust(o.Trust); err != nil {
		return err
	}
	if w.curve, err = nkeys.CreateCurveKeys(); err != nil {
		return err
	}
	if w.curveID, err = w.curve.PublicKey(); err != nil {
		return err
	}
	if w.hub, err = connect(ctx, o.Address, "worker "+o.Name, usable, w.reconnected); err != nil {
		return err
	}
	defer w.nc.Close()
	w.node.Instance = w.instance()
	defer context.AfterFunc(w.denied, func() { o.Say("the broker: " + context.Cause(w.denied).Error()) })()
	if m, err := w.nc.Request(nameSubject(o.Name), nil, 500*time.Millisecond); err == nil {
		return fmt.Errorf("%w: there is a worker named %s already, on %s: give each another --name", fleet.ErrRefused, o.Name, m.Data)
	}
	if _, err := w.subscribe(nameSubject(o.Name), func(m *nats.Msg) { _ = m.Respond([]byte(host)) }); err != nil {
		return err
	}
	if err := w.prepare(); err != nil {
		return err
	}
	defer func() { _ = w.register.Close() }()
	defer func() { _ = os.RemoveAll(w.temp) }()
	defer func() { _ = gitspace.RemoveClone(filepath.Join(o.Home, "jobs")) }()
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	defer w.end()
	down, err := w.subscribe(downSubject(w.node.Instance), w.delivered)
	if err == nil {
		err = down.SetPendingLimits(-1, -1)
	}
	if err != nil {
		return err
	}
	if _, err := w.subscribe("prodigy.drain", func(m *nats.Msg) {
		if name := string(m.Data); name == w.o.Name {
			_ = m.Respond([]byte(w.node.Instance))
			w.drain()
		}
	}); err != nil {
		return err
	}
	if _, err := w.subscribe("prodigy.nodes", func(m *nats.Msg) { _ = m.Respond(encoded(w.describe())) }); err != nil {
		return err
	}
	w.mu.Lock()
	w.began = true
	w.mu.Unlock()
	o.Say(fmt.Sprintf("worker %s takes attempts in %d slots from %s", o.Name, o.Slots, fleet.ShownURL(o.URL)))
	w.measure()
	go w.measureAgain()
	go w.watch()
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
	if w.register, err = process.OpenRegister(path, w.o.Grace, watcher...); err != nil {
		return err
	}
	if err := gitspace.RemoveClone(filepath.Join(w.o.Home, "jobs")); err != nil {
		return err
	}
	// Coordinators are told that what the worker before had is ended.
	last := filepath.Join(w.o.Home, "instance")
	if before, err := os.ReadFile(last); err == nil {
		w.after = strings.TrimSpace(string(before))
	}
	return os.WriteFile(last, []byte(w.node.Instance+"\n"), 0o600)
}

// loop keeps the worker going.
func (w *worker) loop(ctx context.Context) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	drain, killed := w.o.Drain.Done(), ctx.Done()
	var said, renewed time.Time
	for {
		if w.unguarded() { // before any of them begins
			w.beat(time.Now())
		}
		w.schedule(time.Now())
		w.speak(false)
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
			w.lookForBroker(now)
			if now.Sub(said) >= w.every() {
				said = now
				w.reconsider()
				w.sayAll()
				w.speak(false)
				w.progress()
			}
			w.leave(now)
			if now.Sub(renewed) >= w.lease()/4 {
				renewed = now
				go w.renew()
			}
		}
		if w.finished() {
			w.runs.Wait()
			w.sayGone()
			w.o.Say("worker " + w.o.Name + " has ended")
			return nil
		}
	}
}

// absentBroker is how long there has been no connection.
type absentBroker struct {
	since time.Time // zero: there is one
	told  bool
}

// absentFor is how long that may last before somebody is told.
const absentFor = 2 * time.Second

// lookForBroker says that the broker is away, or lets this worker in no more, and that it is back.
func (w *worker) lookForBroker(now time.Time) {
	a := &w.absent
	switch {
	case w.nc.IsConnected():
		if a.told {
			w.o.Say("the broker is back")
		}
		*a = absentBroker{}
	case a.since.IsZero():
		a.since = now
	case a.told || now.Sub(a.since) < absentFor:
	case errors.Is(w.nc.LastError(), nats.ErrAuthorization):
		a.told = true
		w.o.Say("the broker lets worker " + w.o.Name + " in no more: were its credentials removed, or replaced? It tries again and again")
	default:
		a.told = true
		w.o.Say("the broker is away: nothing begins before it is back")
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
	running := len(w.held)
	for _, h := range w.held {
		if h.ended {
			running--
		}
	}
	running -= len(w.queue)
	w.giveBackQueued("the worker is being ended")
	for _, h := range w.held {
		if h.preparing && h.cancel != nil {
			h.cancel(errGivenBack)
		}
	}
	for _, j := range w.jobs {
		w.withdraw(j)
	}
	w.o.Say(fmt.Sprintf("worker %s takes no more and finishes what it has: %d", w.o.Name, running))
	w.kick()
}

// giveBackQueued gives back what has not begun. It is called with the lock held.
func (w *worker) giveBackQueued(reason string) {
	for _, h := range w.queue {
		h.ended = true
		w.runs.Go(func() { w.report(h, fleet.Report{Kind: fleet.Returned, Reason: reason}) })
	}
	w.queue = nil
}

// tidy removes the directories of a job that is gone, when nothing of it runs here any more. It is called with the lock held.
func (w *worker) tidy(j *workerJob) {
	if w.jobs[j.key] == j || len(j.dirs)+len(j.spaces) == 0 {
		return
	}
	for _, h := range w.held {
		if h.job == j {
			return
		}
	}
	dir := filepath.Join(w.o.Home, "jobs", j.key)
	w.runs.Go(func() {
		w.mu.Lock()
		back := w.jobs[j.key] != nil
		w.mu.Unlock()
		if !back {
			_ = gitspace.RemoveClone(dir) // or when the next worker starts
		}
	})
}

// finished reports whether a worker that takes no more has ended all that it had, and coordinators know or the broker does. A report that neither
// takes for a lease is lost with the attempt: its coordinator has given it up by then.
func (w *worker) finished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopping {
		return false
	}
	for _, h := range w.held {
		given := h.ended && len(h.reports) > 0 && time.Since(h.reports[0].made) > h.job.Lease
		if !h.left && !given {
			return false
		}
	}
	return true
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
	errGivenUp   = fmt.Errorf("the coordinator has given it up: %w", process.ErrKill)
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
	n.Holds, n.Refuses, n.Jobs, n.Short = map[string][]int64{}, map[string]string{}, map[string]string{}, map[string]string{}
	for _, h := range w.held {
		if !h.ended { // else only its coordinator still has to write down how
			n.Holds[h.job.key] = append(n.Holds[h.job.key], h.token)
		}
	}
	for key, j := range w.jobs {
		n.Jobs[key] = j.ID
		if j.refuses != "" {
			n.Refuses[key] = j.refuses
		}
		if j.short != "" {
			n.Short[key] = j.short
		}
	}
	if w.short != "" {
		n.Short[""] = w.short
	}
	return n
}

// progress tells coordinators which steps attempts are at.
func (w *worker) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.at == nil {
			continue
		}
		line, err := events.Encode(events.Record{Seq: 1, Time: time.Now(), JobID: h.job.ID, Event: *h.at})
		if err == nil {
			_ = w.nc.Publish(liveSubject(w.node.Instance, h.job.key), line)
		}
		h.at = nil
	}
}

// sayAll has all coordinators told what this worker holds.
func (w *worker) sayAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		j.dirty, j.full = true, true
	}
}

// again has a coordinator told everything anew: something may have been lost on the way. It is called with the lock held.
func (w *worker) again(j *workerJob) {
	w.restate(j)
	w.kick()
}

func (w *worker) restate(j *workerJob) {
	w.withdraw(j)
	j.outbox = nil
	for _, h := range w.held {
		if h.job == j && len(h.reports) > 0 {
			h.sent = 0
			j.outbox = append(j.outbox, h)
		}
	}
}

// withdraw closes the round of the offers to a job: what answers them from now on is refused. It is called with the lock held.
func (w *worker) withdraw(j *workerJob) {
	w.rounds++ // never the same again, also not of a job that comes again
	j.round, j.credit, j.got = w.rounds, 0, 0
	clear(j.arrived)
	j.dirty, j.full = true, true
}

// speak sends what there is to say to coordinators. gone says that the worker ends.
func (w *worker) speak(gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.nc.IsConnected() {
		return // everything is said when it is
	}
	for _, j := range w.jobs {
		for j.dirty || len(j.outbox) > 0 || gone {
			if !w.speakTo(j, gone) {
				w.restate(j) // next time
				break
			}
			if gone {
				break
			}
		}
	}
}

// speakTo sends one message to the coordinator of a job, with as many reports as there is room for. It reports false if there is no connection.
func (w *worker) speakTo(j *workerJob, gone bool) bool {
	u := fleet.Up{V: fleet.Protocol, Owner: j.Owner, Host: w.node.Host, Refuses: j.refuses, Warns: j.warns, Word: fleet.Word{
		Instance: w.node.Instance, Node: w.o.Name, Round: j.round, Credit: j.credit, Full: j.full, Gone: gone,
	}}
	if !w.stopping && !gone && w.short == "" && j.short == "" {
		u.Slots = w.o.Slots
	}
	if j.full {
		u.After, u.Short = w.after, cmp.Or(w.short, j.short)
		for _, h := range w.held {
			if h.job != j {
				continue
			}
			u.Holds = append(u.Holds, h.token)
			if h.left {
				u.Left = append(u.Left, h.token)
			}
		}
	}
	size := 0
	var reports [][]byte
	for len(j.outbox) > 0 && size < maxBody {
		h := j.outbox[0]
		for h.sent < len(h.reports) && size < maxBody {
			reports = append(reports, h.reports[h.sent].data)
			size += len(h.reports[h.sent].data)
			h.sent++
		}
		if h.sent == len(h.reports) {
			j.outbox = j.outbox[1:]
		}
	}
	j.dirty, j.full, j.warns = false, false, ""
	return w.nc.Publish(upSubject(w.node.Instance, j.key), upMessage(u, reports)) == nil
}

// upMessage returns an Up with reports, which are JSON already.
func upMessage(u fleet.Up, reports [][]byte) []byte {
	data := encoded(u)
	if len(reports) == 0 {
		return data
	}
	data = append(data[:len(data)-1], `,"reports":[`...)
	for i, one := range reports {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, one...)
	}
	return append(data, "]}"...)
}

// unheard is how long the coordinator may take to write down a report before it is left with the broker.
const unheard = 2 * time.Second

// leave leaves reports with the broker that no coordinator takes.
func (w *worker) leave(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	patience := unheard
	if w.stopping {
		patience /= 4
	}
	for _, h := range w.held {
		if len(h.reports) == 0 || h.spilling || now.Sub(h.reports[0].made) < patience {
			continue
		}
		h.spilling = true
		w.runs.Go(func() { w.leaveReports(h) })
	}
}

// leaveReports leaves the reports of an attempt with the broker.
func (w *worker) leaveReports(h *holding) {
	ctx, cancel := context.WithTimeout(w.life, requestTime)
	defer cancel()
	for {
		w.mu.Lock()
		if len(h.reports) == 0 || ctx.Err() != nil {
			h.spilling = false
			h.left = h.ended && len(h.reports) == 0
			w.mu.Unlock()
			w.kick()
			return
		}
		r := h.reports[0]
		w.mu.Unlock()
		m := &nats.Msg{Subject: outSubject(w.node.Instance, h.job.key, strconv.FormatInt(h.token, 10)), Data: r.data, Header: nats.Header{}}
		m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%d.%s.%d", h.job.key, h.token, w.node.Instance, r.index))
		one, cancelOne := context.WithTimeout(ctx, unheard)
		_, err := w.js.PublishMsg(one, m)
		cancelOne()
		if err != nil {
			w.mu.Lock()
			h.spilling = false
			w.mu.Unlock()
			return
		}
		w.mu.Lock()
		w.taken(h, r.index)
		w.mu.Unlock()
	}
}

// taken forgets reports up to an index. It is called with the lock held.
func (w *worker) taken(h *holding, index int) {
	n := 0
	for n < len(h.reports) && h.reports[n].index <= index {
		h.job.unread -= len(h.reports[n].data)
		n++
	}
	if n == 0 {
		return
	}
	h.reports, h.sent = h.reports[n:], max(0, h.sent-n)
	w.space.Broadcast()
}

// sayGone tells coordinators that the worker has ended, also those that are away.
func (w *worker) sayGone() {
	w.speak(true)
	ctx, cancel := context.WithTimeout(w.life, unheard)
	defer cancel()
	w.mu.Lock()
	keys := slices.Collect(maps.Keys(w.jobs))
	left := map[string][]int64{}
	for _, h := range w.held {
		if h.left {
			left[h.job.key] = append(left[h.job.key], h.token)
		}
	}
	w.mu.Unlock()
	for _, key := range keys {
		if _, err := w.nc.RequestWithContext(ctx, ownerSubject(key), nil); err == nil {
			continue // it has heard it
		}
		data := encoded(fleet.Report{V: fleet.Protocol, Kind: fleet.Gone, Holder: fleet.Holder{Instance: w.node.Instance, Node: w.o.Name}, Left: left[key]})
		_, _ = w.js.Publish(ctx, outSubject(w.node.Instance, key, "0"), data)
	}
}

// renew has the broker prove that it hears this worker: that coordinators do too is up to it.
func (w *worker) renew() {
	w.sayAll()
	w.speak(false)
	w.mu.Lock()
	sent := time.Now()
	w.mu.Unlock()
	if _, err := w.nc.Request("$JS.API.STREAM.INFO."+outStream, nil, w.lease()/4); err == nil {
		w.mu.Lock()
		if sent.After(w.proof) {
			w.proof = sent
		}
		w.mu.Unlock()
		w.beat(time.Now()) // the watcher counts from the proof before
		w.kick()
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
	w.giveBackQueued("its worker had no contact with the broker")
	if n > 0 {
		w.o.Say(fmt.Sprintf("no contact with the broker for most of the lease: killed what ran, %d", n))
	}
}

// watcherEarly is how long before its time the watcher may kill, by this clock.
const watcherEarly = 200 * time.Millisecond

// afterFreeze is how long nothing begins after this process was frozen.
const afterFreeze = 2 * time.Second

// frozen reports whether this process has been silent for so long that its watcher has killed what it ran. It is called with the lock held.
func (w *worker) frozen(now time.Time) bool { return !w.guarded.IsZero() && now.After(w.guarded) }

// beat has what runs killed in time even if this process is frozen from now on. Until the watcher was told so, it keeps to what it was told before: whoever
// was frozen meanwhile has to know that what ran may have been killed.
func (w *worker) beat(now time.Time) {
	w.beating.Lock()
	defer w.beating.Unlock()
	w.mu.Lock()
	left := time.Duration(0)
	if len(w.held) > 0 {
		left = max(w.proof.Add(w.shortest()*5/6).Sub(now), time.Millisecond)
	}
	w.mu.Unlock()
	w.register.Beat(left)
	told := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen(now) || w.frozen(told) { // what ran has been killed, and the watcher may still be at it
		w.rest = told.Add(afterFreeze)
		for _, h := range w.held {
			h.fenced = true
			if h.cancel != nil {
				h.cancel(errNoContact)
			}
		}
	}
	w.guarded = time.Time{}
	if left > 0 {
		w.guarded = now.Add(left)
	}
}

// unguarded reports whether attempts are held of which the watcher has not been told.
func (w *worker) unguarded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held) > 0 && w.guarded.IsZero()
}

func (w *worker) reconnected() {
	w.mu.Lock()
	if !w.began {
		w.mu.Unlock()
		return // nothing was said that could have been lost
	}
	for _, j := range w.jobs {
		w.again(j)
	}
	w.mu.Unlock()
	select {
	case w.rewatch <- struct{}{}:
	default:
	}
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
				for _, key := range w.idleJobs() {
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
					w.examine(u.Key(), j)
				}
			}
		case <-w.rewatch: // after a reconnect nobody delivers updates for some seconds
			return
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

// idleJobs returns the keys of the jobs that nothing is held of.
func (w *worker) idleJobs() []string {
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

// examine takes over the entry of a job, if it can be believed: with trust, one that is signed, and whose coordinator says now that it runs the job.
func (w *worker) examine(key string, now fleet.Job) {
	if len(w.trust) == 0 || now.V != fleet.Protocol || now.Version != w.o.Version { // that is refused, and could not be checked
		w.update(key, now)
		return
	}
	if err := w.trust.checkJob(key, now); err != nil {
		w.disbelieve(key, now, err)
		return
	}
	w.mu.Lock()
	owner := w.owners[key]
	old := owner == now.Owner && w.jobs[key] != nil && now.Serial < w.jobs[key].Serial
	asked := w.asking[key] == now.Owner
	if owner != now.Owner {
		w.asking[key] = now.Owner
	}
	w.mu.Unlock()
	switch {
	case old:
		w.warn(key, "the description of job "+now.ID+": it is an older one than this worker knows")
	case owner == now.Owner:
		w.update(key, now)
	case !asked:
		go w.confirm(key, now)
	}
}

// confirm asks the coordinator of a job whether it runs it, until it says so, and takes the job over then. An entry that somebody repeats is of one that
// does not answer.
func (w *worker) confirm(key string, now fleet.Job) {
	for tries := 0; ; tries++ {
		w.mu.Lock()
		wanted := w.asking[key] == now.Owner
		w.mu.Unlock()
		if !wanted || w.life.Err() != nil {
			return
		}
		nonce := rand.Text()
		m, err := w.nc.Request(ownerSubject(key), []byte(nonce), time.Second)
		if err == nil {
			if err = w.trust.checkMessage(m, signedOwner, key+"\x00"+nonce); err != nil {
				w.disbelieve(key, now, fmt.Errorf("who says to run it: %w", err))
			} else if string(m.Data) != now.Owner {
				err = errors.New("another runs it")
			}
		}
		if err == nil {
			w.mu.Lock()
			w.owners[key] = now.Owner
			delete(w.asking, key)
			w.mu.Unlock()
			w.update(key, now)
			return
		}
		if tries == 3 {
			w.warn(key, "the description of job "+now.ID+": nobody confirms it: its coordinator is away, or it is an old one")
		}
		select {
		case <-time.After(min(time.Duration(tries+1)*200*time.Millisecond, 2*time.Second)):
		case <-w.life.Done():
		}
	}
}

// disbelieve refuses a job whose entry cannot be believed. What was believed of it before stays.
func (w *worker) disbelieve(key string, now fleet.Job, why error) {
	w.mu.Lock()
	j := w.jobs[key]
	if j != nil && !j.foreign {
		w.mu.Unlock()
		w.warn(key, "the description of job "+now.ID+": "+why.Error())
		return
	}
	said := j != nil && j.refuses == why.Error() && j.Owner == now.Owner
	w.mu.Unlock()
	if said {
		return
	}
	now.Stop = ""
	w.take(key, now, why)
}

// warn says once what was not believed, here and to the coordinator of the job.
func (w *worker) warn(key, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warned[text] {
		return
	}
	if len(w.warned) > 1000 {
		clear(w.warned)
	}
	w.warned[text] = true
	w.o.Say("not believed: " + text)
	if j := w.jobs[key]; j != nil {
		j.warns, j.dirty = text, true
		w.kick()
	}
}

// update takes over what a coordinator says of its job.
func (w *worker) update(key string, now fleet.Job) { w.take(key, now, nil) }

// entry returns what the coordinator of a job says of it.
func (w *worker) entry(j *workerJob) fleet.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return j.Job
}

// take takes over the entry of a job. foreign is why it is not believed; nil: it is.
func (w *worker) take(key string, now fleet.Job, foreign error) {
	w.mu.Lock()
	j := w.jobs[key]
	if j != nil && foreign == nil && !j.foreign && now.Epoch < j.Epoch {
		w.mu.Unlock()
		return // of a coordinator that another has taken the job over from
	}
	if j == nil {
		j = &workerJob{key: key, tickets: map[int64]string{}, arrived: map[int64]bool{}, halting: make(chan struct{}), executors: map[string]*jobExecutor{}, dirs: map[string]string{}, spaces: map[string]*jobSpace{}}
		j.life, j.cancel = context.WithCancelCause(context.Background())
		w.jobs[key] = j
	}
	before := j.Job
	if before.Owner != "" && before.Owner != now.Owner && before.Stop != "" { // it was stopped, and goes on
		j.halting = make(chan struct{})
		j.life, j.cancel = context.WithCancelCause(context.Background())
	}
	j.Job, j.foreign = now, foreign != nil
	if j.refuses = w.unfit(now); foreign != nil {
		j.refuses = foreign.Error()
	}
	if j.refuses != "" && before.Owner != now.Owner {
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
	if now.Stop != "" {
		w.giveBackOf(j)
	}
	if j.refuses == "" && j.short == "" { // before slots are offered to it
		if j.short = w.shortOf(now, ""); j.short != "" {
			w.sayShort(now.ID, j.short)
		}
	}
	w.again(j) // a new coordinator wants to know everything, and one that was away
	w.mu.Unlock()
}

// giveBackOf gives back what has not begun of a job. It is called with the lock held.
func (w *worker) giveBackOf(j *workerJob) {
	others := w.queue
	w.queue = nil
	for _, h := range others {
		if h.job != j {
			w.queue = append(w.queue, h)
			continue
		}
		h.ended = true
		w.runs.Go(func() { w.report(h, fleet.Report{Kind: fleet.Returned, Reason: "the job is stopping"}) })
	}
}

// reconsider looks whether the worker can take part by now in jobs that it has refused.
func (w *worker) reconsider() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.refuses != "" && !j.foreign {
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
	if j.Guards.Any() && !pressure.Supported && w.o.Machine == nil {
		return "it has guards, and what this machine has left cannot be measured"
	}
	if j.Seed != "" {
		return w.lacksGit()
	}
	if w.o.Dir == "" && j.Files == "" {
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
	delete(w.owners, key)
	delete(w.asking, key)
	if j != nil {
		j.cancel(fmt.Errorf("the job is gone: %w", process.ErrKill))
		for name, h := range w.held {
			if h.job == j && (h.ended || slices.Contains(w.queue, h)) {
				delete(w.held, name)
			}
		}
		w.queue = slices.DeleteFunc(w.queue, func(h *holding) bool { return h.job == j })
		w.space.Broadcast()
		w.tidy(j)
	}
	w.mu.Unlock()
	w.kick()
}

// goRound is how long slots are offered to one job before another one is offered them.
const goRound = 300 * time.Millisecond

// schedule gives free slots to attempts that go on, then to those that wait, and offers what is left to the jobs.
func (w *worker) schedule(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.free) > 0 && len(w.waking) > 0 {
		w.waking[0] <- w.takeSlot()
		w.waking = w.waking[1:]
	}
	for len(w.free) > 0 && len(w.queue) > 0 && !now.Before(w.rest) {
		h := w.queue[0]
		w.queue = w.queue[1:]
		h.slot = w.takeSlot()
		h.began = h.slot
		w.start(h)
	}
	var open []*workerJob
	offered := 0
	for _, j := range w.jobs {
		if w.short != "" || j.short != "" {
			if j.credit > j.got {
				w.withdraw(j)
			}
		} else if j.refuses == "" && j.Stop == "" {
			open = append(open, j)
		}
		offered += int(j.credit - j.got)
	}
	rests := w.stopping || now.Before(w.rest) || w.outOfContact(now) || w.frozen(now)
	free := len(w.free) - len(w.queue)
	if rests {
		free = 0
	}
	if offered > free || len(open) > 1 && offered > 0 && now.Sub(w.turned) > goRound {
		for _, j := range w.jobs {
			if j.credit > j.got {
				w.withdraw(j)
			}
		}
		offered = 0
	}
	if len(open) == 0 || offered >= free {
		return
	}
	w.turned = now
	slices.SortFunc(open, func(a, b *workerJob) int { return cmp.Compare(a.key, b.key) })
	for ; offered < free; offered++ {
		j := open[w.turn%len(open)]
		w.turn++
		j.credit++
		j.dirty = true
	}
}

// start has an idle goroutine, whose stack has grown already, or a new one run an attempt.
func (w *worker) start(h *holding) {
	w.runs.Add(1)
	select {
	case w.idle <- h:
	default:
		go func() {
			for ok := true; ok; {
				w.run(h)
				w.runs.Done()
				select {
				case h, ok = <-w.idle:
				case <-w.life.Done():
					return
				case <-time.After(idleTime):
					return
				}
			}
		}()
	}
}

// idleTime is how long a goroutine waits for another attempt.
const idleTime = time.Second

func (w *worker) takeSlot() int {
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

// delivered takes what the coordinator of a job says.
func (w *worker) delivered(m *nats.Msg) {
	var d fleet.Down
	if decode(m.Data, &d) != nil || d.V != fleet.Protocol {
		return
	}
	if err := w.trust.checkMessage(m, signedDown, m.Subject); err != nil {
		w.warn(d.Key, fmt.Sprintf("a message with %d attempts: %v", len(d.Tasks), err))
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.kick()
	j := w.jobs[d.Key]
	if j == nil || j.Owner != d.Owner {
		return
	}
	if now := time.Now(); len(d.Tasks) > 0 && (now.Sub(w.proof) > w.shortest()/2 || w.frozen(now)) { // it may have been on the way for so long that others have it by now
		w.restate(j)
		d.Tasks = nil
		go w.renew()
	}
	for _, t := range d.Tasks {
		h := &holding{job: j, token: t.Token, task: t, arrived: time.Now()}
		if d.Round != j.round || j.got >= j.credit || w.held[h.name()] != nil || j.arrived[t.Token] {
			continue // the offer was taken back
		}
		j.got++
		j.arrived[t.Token] = true
		w.held[h.name()] = h
		w.queue = append(w.queue, h)
	}
	for _, e := range d.Settled {
		h := w.held[(&holding{job: j, token: e.Token}).name()]
		if h == nil {
			continue
		}
		w.taken(h, e.Index)
		if h.ended && len(h.reports) == 0 && e.Index >= h.index {
			delete(w.held, h.name())
		}
	}
	for _, token := range d.Over {
		w.giveUp(j, token)
	}
	if d.Again {
		w.again(j)
	}
}

// giveUp ends an attempt that the coordinator has given up. It is called with the lock held.
func (w *worker) giveUp(j *workerJob, token int64) {
	h := w.held[(&holding{job: j, token: token}).name()]
	if h == nil {
		return
	}
	if at := slices.Index(w.queue, h); at >= 0 || h.left {
		delete(w.held, h.name())
		if at >= 0 {
			w.queue = slices.Delete(w.queue, at, at+1)
		}
		return
	}
	if h.ended { // that is answered
		return
	}
	h.over = true
	if h.cancel != nil {
		h.cancel(errGivenUp)
	}
}

func (h *holding) name() string { return h.job.key + "." + strconv.FormatInt(h.token, 10) }

// run runs an attempt, and reports how it ended.
func (w *worker) run(h *holding) {
	o, made, pack, err := w.execute(h)
	r := fleet.Report{Kind: fleet.Ended, Outcome: &o, Files: made, Pack: pack}
	w.mu.Lock()
	fenced := h.fenced || w.outOfContact(time.Now()) || w.frozen(time.Now()) // it may be the watcher that has killed it
	if o.Failure != nil && o.Failure.Signal != "" {
		fenced = fenced || w.frozen(time.Now().Add(watcherEarly))
	}
	stopped := errors.Is(context.Cause(h.job.life), err) || errors.Is(err, errGivenBack) || errors.Is(err, errHalting) || errors.Is(err, errObjectGone)
	w.mu.Unlock()
	switch {
	case fenced && !h.ran.Load():
		r = fleet.Report{Kind: fleet.Returned, Reason: "its worker had no contact with the broker before it began"}
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
	w.finish(h, r)
}

// broken has the worker rest after it could not do something itself, longer each time.
func (w *worker) broken(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = min(max(2*w.resting, 5*time.Second), time.Minute)
	w.rest = time.Now().Add(w.resting)
	w.o.Say(fmt.Sprintf("could not run an attempt, which is given back: %v; rests for %s", err, w.resting))
}

func (w *worker) holder(h *holding) fleet.Holder {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fleet.Holder{Instance: w.node.Instance, Node: w.o.Name, Slot: h.began}
}

// execute runs an attempt that was granted.
func (w *worker) execute(h *holding) (o agent.Outcome, made []fleet.File, pack *fleet.Pack, err error) {
	w.mu.Lock()
	ctx, cancel := context.WithCancelCause(context.WithValue(h.job.life, holdingKey{}, h))
	defer cancel(nil)
	h.cancel = cancel
	if h.fenced {
		cancel(errNoContact)
	}
	w.mu.Unlock()
	if h.task.Ref != "" {
		data, err := w.fetch(ctx, h.task.Ref)
		if err == nil {
			err = json.Unmarshal(data, &h.task)
		}
		if err != nil {
			return o, nil, nil, fmt.Errorf("fetch the attempt: %w", err)
		}
	}
	x, dir, space, err := w.executor(ctx, h)
	if err != nil {
		return o, nil, nil, err
	}
	a := h.task.Attempt(x.spec, w.entry(h.job).ID, h.slot, h.arrived)
	switch {
	case dir != "":
		a.Dir = dir
	case w.o.Dir != "":
		a.Dir = w.o.Dir
	}
	if a.Lost { // it may be what kills workers: that it has begun must be known before it does it again
		w.report(h, fleet.Report{Kind: fleet.Placed})
		w.speak(false)
		_ = w.nc.FlushTimeout(time.Second)
	} else {
		placed := time.AfterFunc(100*time.Millisecond, func() { w.report(h, fleet.Report{Kind: fleet.Placed}) })
		defer placed.Stop()
	}
	if space != nil {
		h.x, h.checkout = x, a.Dir
		o, pack, err = w.executeIsolated(ctx, h, space, a)
		return o, nil, pack, err
	}
	if o, err = x.Execute(ctx, a); err == nil {
		if dir != "" {
			made, err = w.collect(ctx, x, h, a, &o)
		}
	}
	return o, made, nil, err
}

// errObjectGone is the error about an object that the broker has lost.
var errObjectGone = errors.New("the broker has lost it")

// How long a worker waits for an object that the broker does not have, and for a broker that cannot say: it may have lost its disk, and is told what it
// had, or its cluster may have no leader yet.
const (
	missingFor = 2 * time.Second
	dumbFor    = 30 * time.Second
)

// fetch returns an object.
func (w *worker) fetch(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, dumbFor)
	defer cancel()
	var data []byte
	var final error
	var missing time.Time
	err := keepTrying(ctx, func(ctx context.Context) (err error) {
		data, err = w.get(ctx, name)
		switch {
		case errors.Is(err, errAltered):
			final = err
			return nil
		case !errors.Is(err, jetstream.ErrObjectNotFound) && !errors.Is(err, jetstream.ErrBucketNotFound):
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) > missingFor:
			final = errObjectGone
			return nil
		}
		return err
	})
	return data, cmp.Or(final, err)
}

// executor returns what runs the attempts of a spec, the directory of the files of the job (empty: it is shared), and its workspaces (nil: it has none).
func (w *worker) executor(ctx context.Context, h *holding) (x *jobExecutor, dir string, space *jobSpace, err error) {
	j := h.job
	j.asking.Lock()
	defer j.asking.Unlock()
	entry := w.entry(j)
	files := entry.Files
	if files != "" {
		if dir, err = w.directory(ctx, j, files); err != nil {
			return nil, "", nil, fmt.Errorf("files: %w", err)
		}
	}
	if space, err = w.workspaces(ctx, j, entry); err != nil {
		return nil, "", nil, fmt.Errorf("workspaces: %w", err)
	}
	if x := j.executors[h.task.Spec]; x != nil {
		return x, dir, space, nil
	}
	data, err := w.fetch(ctx, h.task.Spec)
	if err != nil {
		return nil, "", nil, fmt.Errorf("fetch the steps: %w", err)
	}
	x = &jobExecutor{}
	if err := json.Unmarshal(data, &x.spec); err != nil {
		return nil, "", nil, fmt.Errorf("read the steps: %w", err)
	}
	if entry.Secrets && j.secrets == nil {
		if err := w.ask(ctx, j, callSecrets, 0, nil, &j.secrets); err != nil {
			return nil, "", nil, fmt.Errorf("ask for the secrets: %w", err)
		}
	}
	var agents aicli.Set
	if x.spec.Agents {
		var layers []aicli.Layer
		for _, text := range x.spec.Layers {
			var node yaml.Node
			if err := yaml.Unmarshal([]byte(text), &node); err != nil {
				return nil, "", nil, fmt.Errorf("read the presets: %w", err)
			}
			layers = append(layers, aicli.Layer{Name: "the coordinator", Node: node.Content[0]})
		}
		if agents, err = aicli.Load(layers...); err != nil {
			return nil, "", nil, err
		}
	}
	if len(x.spec.Produces) > 0 {
		if x.produces, err = agent.Paths(x.spec.Produces); err != nil {
			return nil, "", nil, err
		}
	}
	environ := w.o.Environ
	if space != nil {
		environ = space.Environ(environ)
	}
	var values []string
	for _, v := range j.secrets {
		values = append(values, v)
	}
	x.Executor = agent.New(agent.Config{
		Run: w.command, Claude: x.spec.Claude, Agents: agents, Seed: x.spec.Seed, Grace: entry.Grace, LogSteps: x.spec.LogSteps, TempDir: w.temp,
		Environ: environ, Secrets: j.secrets, Mask: mask.New(values),
	}, &workerHost{w: w, job: j})
	j.executors[h.task.Spec] = x
	return x, dir, space, nil
}

// holdingKey is the key of the holding in the context of its commands.
type holdingKey struct{}

// command runs a command, unless this worker was out of contact: after it was frozen it must begin nothing.
func (w *worker) command(ctx context.Context, c process.Command) (process.Exit, error) {
	w.mu.Lock()
	out := w.outOfContact(time.Now()) || w.frozen(time.Now())
	w.mu.Unlock()
	if out {
		return process.Exit{}, errNoContact
	}
	if h, ok := ctx.Value(holdingKey{}).(*holding); ok {
		h.ran.Store(true)
	}
	return process.Run(ctx, c)
}

// mostUnread is how many bytes of reports of a job are kept until the coordinator has taken them or the broker has: then what is printed waits.
const mostUnread = 8 << 20

// report has the coordinator told what happened. Reports of an attempt come in order.
func (w *worker) report(h *holding, r fleet.Report) {
	h.making.Lock()
	defer h.making.Unlock()
	w.mu.Lock()
	for h.job.unread > mostUnread && w.jobs[h.job.key] == h.job && !h.fenced && w.life.Err() == nil {
		w.space.Wait()
	}
	w.mu.Unlock()
	one, ok := w.encode(h, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		w.add(h, one)
	}
}

// finish frees the slot of an attempt and reports its end, in one message.
func (w *worker) finish(h *holding, r fleet.Report) {
	h.making.Lock()
	defer h.making.Unlock()
	one, ok := w.encode(h, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.slot > 0 {
		w.free = append(w.free, h.slot)
		h.slot = 0
	}
	h.ended = true
	if h.over || !ok {
		delete(w.held, h.name())
		w.tidy(h.job)
		w.kick()
		return
	}
	w.add(h, one)
}

// encode makes the next report of an attempt. What is too large for a message becomes an object. It reports false if nobody wants to know it.
func (w *worker) encode(h *holding, r fleet.Report) (report, bool) {
	w.mu.Lock()
	wanted := w.jobs[h.job.key] == h.job
	w.mu.Unlock()
	if !wanted {
		return report{}, false // the job is over, and nobody listens any more
	}
	r.V, r.Token, r.Index, r.Holder = fleet.Protocol, h.token, h.index+1, w.holder(h)
	data := encoded(r)
	if len(data) > maxBody {
		ref := objectName(fmt.Sprintf("%s/report-%d-%s-%d", h.job.key, h.token, w.node.Instance, r.Index), data)
		if keepTrying(w.life, func(ctx context.Context) error { return w.put(ctx, ref, data) }) != nil {
			return report{}, false
		}
		data = encoded(fleet.Report{V: r.V, Token: r.Token, Index: r.Index, Kind: r.Kind, Holder: r.Holder, Ref: ref})
	}
	h.index++
	return report{data: data, index: r.Index, made: time.Now()}, true
}

// add puts a report among those to be sent. It is called with the lock held.
func (w *worker) add(h *holding, r report) {
	j := h.job
	j.unread += len(r.data)
	h.reports = append(h.reports, r)
	if !slices.Contains(j.outbox, h) {
		j.outbox = append(j.outbox, h)
	}
	w.kick()
}
