package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/process"
)

// workerState is what a worker knows of its jobs and attempts.
type workerState struct {
	contact
	offers
	parting
	// asked is how many calls the worker has made so far, which numbers them.
	asked int
	jobs  map[string]*workerJob
	// held has what the worker was given and coordinators still want to know of, by job and token.
	held map[string]*heldAttempt
	// queue has what waits for a slot, the next attempt first.
	queue []*heldAttempt
	// free has the slots that nobody uses. The last one is used next.
	free []int
	// waking has a channel for each attempt that had given up its slot and waits for one to go on in.
	waking []chan int
	// refuses follows whether the broker keeps what attempts have made.
	refuses refusals
	// looking has the entries of jobs that are being examined, so that none is examined twice at a time.
	looking map[string]bool
	// warned has the texts that were said of what was not believed.
	warned map[string]bool
	// kept is the size in bytes of the reports that are kept though the broker has them.
	kept int
	// short is why nothing begins here now, see measure. It is empty if something may.
	short string
	// Before rest nothing begins, after something went wrong here. resting is how long the last rest was: each is
	// longer than the one before.
	rest    time.Time
	resting time.Duration
	// began is set once the worker listens.
	began bool
	// space is closed by freed.
	space chan struct{}
	// woken makes the loop look after this turn.
	woken bool
}

// offers are whose turn it is of the jobs that slots are offered to.
type offers struct {
	// rounds counts the rounds of all jobs, so that none has the number of another.
	rounds int64
	// turn counts the offers, see nextOf.
	turn int
	// turned is when a slot was offered last.
	turned time.Time
}

// parting is how the worker comes to its end.
type parting struct {
	// stopping is set when the worker takes no more, since drained.
	stopping bool
	drained  time.Time
	// gaveBack is set when what the worker has is to end immediately.
	gaveBack bool
	absent   absentBroker
}

// absentBroker is how long there has been no connection.
type absentBroker struct {
	spell
	// away is set while there is no connection, or the broker has not answered for most of a lease.
	away bool
	// last is when that was so last.
	last time.Time
}

// freed wakes those that wait until there is room for their reports, or nobody wants those any more.
func (s *workerState) freed() {
	close(s.space)
	s.space = make(chan struct{})
}

// workerJob is a job as a worker sees it.
type workerJob struct {
	// key is the name of the job in the subjects, see keyOf.
	key string
	standing
	// life ends when what runs of the job is to be ended here.
	life   context.Context
	cancel context.CancelCauseFunc
	// waits ends when waits between two tries are to end.
	waits context.Context
	halt  context.CancelFunc
	// untrusted is set while the entry of the job is not believed.
	untrusted bool
	// heard is when the coordinator last spoke of the job.
	heard time.Time

	// round numbers the offer, credit is how many attempts it takes, and got how many of them have arrived.
	round, credit, got int64
	// arrived has the tokens of those: what is repeated is not run again.
	arrived map[int64]bool
	// joined has the pieces of attempts of the round, by token.
	joined map[int64]*fleet.Joined
	// dirty is set if there is something to say to the coordinator, and full if that is all that is held.
	dirty, full bool
	// outbox has the attempts with reports that were not sent.
	outbox []*heldAttempt
	// unread is the size in bytes of the reports that nobody has taken, see mostUnread.
	unread int
	share

	// asking guards what follows, which is asked of the coordinator once.
	asking sync.Mutex
	// executors run the attempts of a spec, by its name.
	executors map[string]*jobExecutor
	// dirs has the directories that attempts run in, by the lists of their files.
	dirs map[string]string
	// spaces has the workspaces by their seeds. A turn is needed to use it, besides asking.
	spaces  map[string]*jobSpace
	secrets map[string]string
}

// standing is what a worker goes by that looks whether it has what a job needs, and what it has found.
type standing struct {
	// Job is what the coordinator says of the job.
	fleet.Job
	// refuses is why the worker does not join the job. It is empty if it does.
	refuses string
	// short is why nothing of the job begins here now, see measure.
	short string
}

// newWorkerJob returns a job that nothing is known of yet.
func newWorkerJob(key string) *workerJob {
	j := &workerJob{
		key: key, arrived: map[int64]bool{}, joined: map[int64]*fleet.Joined{}, executors: map[string]*jobExecutor{}, dirs: map[string]string{},
		spaces: map[string]*jobSpace{}, share: share{wants: -1},
	}
	j.begin()
	return j
}

// begin has what waits and runs of a job not end any more.
func (j *workerJob) begin() {
	j.waits, j.halt = context.WithCancel(context.Background())
	j.life, j.cancel = context.WithCancelCause(context.Background())
}

// stop ends what waits of a job, and what runs as far as its entry says.
func (j *workerJob) stop() {
	j.halt()
	switch j.Stop {
	case fleet.Grace:
		j.cancel(errors.New("the job is stopping"))
	case fleet.Kill:
		j.cancel(fmt.Errorf("the job is stopping: %w", process.ErrKill))
	}
}

// heldAttempt is an attempt that this worker was given.
type heldAttempt struct {
	job   *workerJob
	token int64
	task  fleet.Task
	// slot is 0 while the attempt waits. began is the slot that it began in, by which reports name it.
	slot, began int
	arrived     time.Time

	// ran is set when a command of the attempt has begun.
	ran atomic.Bool
	// fenced is set when the attempt was killed for lack of contact, or may have been, and cut if the worker was well
	// then, and only without contact.
	fenced, cut bool
	// cause is why the attempt is to end, or nil. With errGivenUp nobody wants to know how it ends.
	cause error
	// life is that of the job when the attempt began: one that was stopped and goes on has another.
	life context.Context
	// cancel ends the attempt. It is nil before it runs, and once it has been run.
	cancel context.CancelCauseFunc
	// at is the step that it is at, if that was not told yet.
	at *events.AgentProgress

	// hurried is closed when the steps are not to wait any longer for their next tries. It is nil while none waits.
	hurried chan struct{}

	// preparing is set while the attempt waits for the commits that it begins at.
	preparing bool

	// x runs the attempt. With workspaces, checkout is the directory of the run here, or that of its files. Both are
	// set when it runs.
	x        *jobExecutor
	checkout string

	reporting
}

// reporting is what is said of an attempt.
type reporting struct {
	// reports has those that the coordinator has not taken, in order.
	reports []report
	// kept is how many of them the broker has, sent how many were sent.
	kept, sent int
	// index numbers the last report.
	index int
	// ended is set if that is the end of the attempt, and result if the end says how it succeeded or failed.
	ended, result bool
	// spilling is set while reports are being left with the broker, left once the end is there.
	spilling, left bool
	// commands counts the commands whose output is shown.
	commands int
}

// report is a fleet.Report as JSON.
type report struct {
	data  []byte
	index int
	made  time.Time
}

// name is the key of an attempt among those that are held. Tokens are those of a job.
func (h *heldAttempt) name() string { return h.job.key + "." + strconv.FormatInt(h.token, 10) }

// heldOf returns what is held of a job with a token, or nil.
func (s *workerState) heldOf(j *workerJob, token int64) *heldAttempt {
	return s.held[(&heldAttempt{job: j, token: token}).name()]
}

// take enters a task that has arrived, unless the offer that it answers was taken back.
func (s *workerState) take(j *workerJob, round int64, t fleet.Task, now time.Time) {
	if round != j.round || j.got >= j.credit || s.heldOf(j, t.Token) != nil || j.arrived[t.Token] {
		return
	}
	if t.Piece != nil {
		if j.joined[t.Token] == nil {
			j.joined[t.Token] = new(fleet.Joined)
		}
		all := j.joined[t.Token]
		if !all.Join(*t.Piece) || json.Unmarshal(all.Data, &t) != nil {
			return
		}
	}
	h := &heldAttempt{job: j, token: t.Token, task: t, arrived: now}
	s.assigned(j)
	j.got++
	j.arrived[t.Token] = true
	s.held[h.name()] = h
	s.queue = append(s.queue, h)
}

// giveUp ends an attempt that the coordinator has given up.
func (s *workerState) giveUp(j *workerJob, token int64) {
	h := s.heldOf(j, token)
	if h == nil {
		return
	}
	if at := slices.Index(s.queue, h); at >= 0 || h.left {
		s.drop(h)
		if at >= 0 {
			s.queue = slices.Delete(s.queue, at, at+1)
		}
		return
	}
	if h.ended || h.fenced { // that is answered
		return
	}
	h.end(errGivenUp)
}

// end ends an attempt, once it runs.
func (h *heldAttempt) end(cause error) {
	if !errors.Is(h.cause, errGivenUp) {
		h.cause = cause
	}
	if h.cancel != nil {
		h.cancel(cause)
	}
}

// goRound is how long slots are offered to one job before another one is offered them.
const goRound = 300 * time.Millisecond

// offer offers free slots to the jobs, each in turn. What was offered is taken back when there are fewer, or when a job
// leaves it unused that another one may want.
func (s *workerState) offer(free int, now time.Time) {
	s.countShares()
	var open []*workerJob
	offered := 0
	for _, j := range s.jobs {
		if s.short != "" || j.short != "" {
			if j.credit > j.got {
				s.closeRound(j)
			}
		} else if j.refuses == "" && j.Stop == "" {
			open = append(open, j)
		}
		offered += int(j.credit - j.got)
	}
	unused := len(open) > 1 && offered > 0 && now.Sub(s.turned) > goRound
	if offered > free || unused {
		for _, j := range s.jobs {
			if j.credit == j.got {
				continue
			}
			if unused {
				// It wants no more slots than it has, until it takes more. The shares were counted before.
				j.wants = j.slots - int(j.credit-j.got)
			}
			j.slots -= int(j.credit - j.got)
			s.closeRound(j)
		}
		offered = 0
	}
	if len(open) == 0 || offered >= free {
		return
	}
	s.turned = now
	slices.SortFunc(open, func(a, b *workerJob) int { return cmp.Compare(a.key, b.key) })
	for ; offered < free; offered++ {
		j := s.nextOf(open)
		j.slots++
		j.credit++
		j.dirty = true
	}
}

// takeSlot takes a free slot. There must be one.
func (s *workerState) takeSlot() int {
	slot := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return slot
}

// release gives a slot back.
func (s *workerState) release(slot int) {
	s.free = append(s.free, slot)
	s.woken = true
}

// vacate gives the slot of an attempt back, if it has one.
func (s *workerState) vacate(h *heldAttempt) {
	if h.slot > 0 {
		s.release(h.slot)
	}
	h.slot = 0
}

// share is the part of the slots of a worker that a job has.
type share struct {
	slots int // that it has or is offered, as it was last counted
	wants int // how many it had when it left an offer unused; less than 0: it takes all that it is offered
}

// countShares brings the shares of the jobs up to date.
func (s *workerState) countShares() {
	for _, j := range s.jobs {
		j.slots = int(j.credit - j.got)
	}
	for _, h := range s.held {
		if h.slot > 0 {
			h.job.slots++
		}
	}
	for _, h := range s.queue {
		h.job.slots++
	}
}

// satisfied reports whether a job has as many slots as it wants.
func (j *workerJob) satisfied() bool { return j.wants >= 0 && j.slots >= j.wants }

// assigned notes that a job has been given an attempt. When that is more than it wanted, it wants all again. It is
// called before the attempt is entered.
func (s *workerState) assigned(j *workerJob) {
	if j.wants < 0 {
		return
	}
	has := 1
	for _, h := range s.held {
		if h.job == j && (h.slot > 0 || slices.Contains(s.queue, h)) {
			has++
		}
	}
	if has > j.wants {
		j.wants = -1
	}
}

// nextOf returns the job that a slot is offered to: of those that want one the job that has the fewest, in turn. A job
// that has begun first, or has more attempts out, takes nothing from the others this way. Jobs that have left an offer
// unused are asked in turn with the others whether they want more by now.
func (s *workerState) nextOf(open []*workerJob) *workerJob {
	next := open[s.turn%len(open)]
	s.turn++
	if next.satisfied() {
		return next
	}
	for _, j := range open {
		if !j.satisfied() && j.slots < next.slots {
			next = j
		}
	}
	return next
}

// closeRound closes the round of the offers to a job: what answers them from now on is refused.
func (s *workerState) closeRound(j *workerJob) {
	s.rounds++ // never the same again, also not of a job that comes again
	j.round, j.credit, j.got = s.rounds, 0, 0
	clear(j.arrived)
	clear(j.joined)
	j.dirty, j.full = true, true
}

// resync repeats everything to the coordinator of a job: something may have been lost on the way.
func (s *workerState) resync(j *workerJob) {
	s.restate(j)
	s.woken = true
}

// restate makes the next message to the coordinator of a job the first of a new round, with all that is held and all
// reports that nobody has taken.
func (s *workerState) restate(j *workerJob) {
	s.closeRound(j)
	j.outbox = nil
	for _, h := range s.held {
		if h.job == j {
			s.resendKept(h)
		}
		if h.job == j && len(h.reports) > 0 {
			h.sent = 0
			j.outbox = append(j.outbox, h)
		}
	}
}

// add puts a report among those to be sent, unless its attempt was dropped.
func (s *workerState) add(h *heldAttempt, r report) {
	if s.held[h.name()] != h {
		return
	}
	j := h.job
	j.unread += len(r.data)
	h.reports = append(h.reports, r)
	if !slices.Contains(j.outbox, h) {
		j.outbox = append(j.outbox, h)
	}
	s.woken = true
}

// unsent takes as many reports that were not sent as there is room for in a message.
func (j *workerJob) unsent() (reports []json.RawMessage) {
	size := 0
	for len(j.outbox) > 0 && size < maxBody {
		h := j.outbox[0]
		for h.sent < len(h.reports) && size < maxBody {
			data := h.reports[h.sent].data
			reports = append(reports, data)
			size += len(data)
			h.sent++
		}
		if h.sent == len(h.reports) {
			j.outbox = j.outbox[1:]
		}
	}
	return reports
}

// untaken returns the reports of an attempt that neither the coordinator nor the broker has.
func (h *heldAttempt) untaken() []report { return h.reports[h.kept:] }

// upTo returns how many of the reports of an attempt have at most this index.
func (h *heldAttempt) upTo(index int) int {
	n := 0
	for n < len(h.reports) && h.reports[n].index <= index {
		n++
	}
	return n
}

// shed forgets the first reports of an attempt.
func (s *workerState) shed(h *heldAttempt, n int) {
	s.setKept(h, max(h.kept, n))
	s.kept -= sizeOf(h.reports[:n])
	h.reports = h.reports[n:]
	h.kept -= n
	h.sent -= min(n, h.sent)
}

// setKept notes how many of the reports of an attempt the broker has.
func (s *workerState) setKept(h *heldAttempt, n int) {
	more := sizeOf(h.reports[:n]) - sizeOf(h.reports[:h.kept])
	s.kept += more
	h.job.unread -= more
	h.kept, h.sent = n, max(h.sent, n)
	s.freed()
}

// maxKept is how many bytes of reports a worker keeps that it has left with the broker. It says them again to a
// coordinator that comes back, or after the connection was lost: the broker may have lost its disk.
const maxKept = 4 << 20

// keep notes that the broker has the reports of an attempt that is held up to an index.
func (s *workerState) keep(h *heldAttempt, index int) {
	s.setKept(h, h.upTo(index))
	for s.kept > maxKept {
		oldest := s.oldestKept()
		s.shed(oldest, oldest.kept)
	}
}

// oldestKept returns the attempt with the report that has been kept longest. Those of an attempt go together: without
// the first, nobody believes the others.
func (s *workerState) oldestKept() *heldAttempt {
	var oldest *heldAttempt
	for _, h := range s.held {
		if h.kept > 0 && (oldest == nil || h.reports[0].made.Before(oldest.reports[0].made)) {
			oldest = h
		}
	}
	return oldest
}

// resendKept has the kept reports of an attempt sent again, and left with the broker again if no coordinator takes
// them.
func (s *workerState) resendKept(h *heldAttempt) {
	for i := range h.kept {
		h.reports[i].made, h.left = time.Now(), false
	}
	s.setKept(h, 0)
}

// drop forgets an attempt, and what was reported of it.
func (s *workerState) drop(h *heldAttempt) {
	s.shed(h, len(h.reports))
	delete(s.held, h.name())
}

// sizeOf returns the size of reports in bytes.
func sizeOf(reports []report) (n int) {
	for _, r := range reports {
		n += len(r.data)
	}
	return n
}

// finished reports whether a worker that takes no more has ended all that it had, and coordinators know or the broker
// does, or it has waited long enough for one of them to.
func (s *workerState) finished(now time.Time) bool {
	if !s.stopping {
		return false
	}
	for _, h := range s.held {
		if !h.left && !s.givesUp(h, now) {
			return false
		}
	}
	return true
}

// longestWait is how long a worker that is to end waits at least for a broker that is away to take results. When the
// coordinator cannot reach it either, it takes them however late: it restarts all leases when the broker is back.
const longestWait = 10 * time.Minute

// givesUp reports whether a worker that is to end no longer waits until somebody takes what an attempt reports. With
// the broker there, the coordinator has given the attempt up after a lease. It is called by the loop.
func (s *workerState) givesUp(h *heldAttempt, now time.Time) bool {
	if !h.ended || len(h.untaken()) == 0 {
		return false
	}
	made := h.untaken()[0].made
	from, wait := made, h.job.Lease
	switch a := &s.absent; {
	case s.gaveBack:
		from, wait = later(from, a.last), requestTime
		if a.away {
			from = made
		}
	case !h.result:
	case a.away:
		from, wait = later(from, s.drained), max(wait, longestWait)
	default:
		from = later(from, a.last)
	}
	return now.Sub(from) > wait
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// lostResults returns an error that names the items that have ended here and whose results were not taken, if there are
// any.
func (s *workerState) lostResults() error {
	var lost []string
	for _, h := range s.held {
		if h.result && !h.left {
			lost = append(lost, h.job.ID+"/"+h.task.ItemID)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return fmt.Errorf("the broker did not accept the results of %s, which will run again: %s",
		check.Counted(len(lost), "item"), strings.Join(lost, ", "))
}
