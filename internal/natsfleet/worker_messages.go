package natsfleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/process"
)

// progress sends coordinators the step that each attempt is at.
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

// restateAll has the next message to each coordinator list all that this worker holds.
func (w *worker) restateAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		j.dirty, j.full = true, true
	}
}

// resync repeats everything to the coordinator of a job: something may have been lost on the way. It is called with the lock held.
func (w *worker) resync(j *workerJob) {
	w.restate(j)
	w.wake()
}

func (w *worker) restate(j *workerJob) {
	w.closeRound(j)
	j.outbox = nil
	for _, h := range w.held {
		if h.job == j {
			w.resendKept(h)
		}
		if h.job == j && len(h.reports) > 0 {
			h.sent = 0
			j.outbox = append(j.outbox, h)
		}
	}
}

// closeRound closes the round of the offers to a job: what answers them from now on is refused. It is called with the lock held.
func (w *worker) closeRound(j *workerJob) {
	w.rounds++ // never the same again, also not of a job that comes again
	j.round, j.credit, j.got = w.rounds, 0, 0
	clear(j.arrived)
	j.dirty, j.full = true, true
}

// sendAll sends what there is to say to coordinators. gone says that the worker ends.
func (w *worker) sendAll(gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.nc.IsConnected() {
		return // everything is said when it is
	}
	for _, j := range w.jobs {
		for j.dirty || len(j.outbox) > 0 || gone {
			if !w.sendTo(j, gone) {
				w.restate(j) // next time
				break
			}
			if gone {
				break
			}
		}
	}
}

// sendTo sends one message to the coordinator of a job, with as many reports as there is room for. It reports false if there is no connection.
func (w *worker) sendTo(j *workerJob, gone bool) bool {
	u := fleet.WorkerMessage{V: fleet.Protocol, Owner: j.Owner, Now: time.Now().UTC(), Host: w.node.Host, Refuses: j.refuses, Warns: j.warns, NameSig: w.o.NameSig, WorkerStatus: fleet.WorkerStatus{
		Instance: w.node.Instance, Node: w.o.Name, Round: j.round, Credit: j.credit, Full: j.full || gone, Gone: gone,
	}}
	if !w.stopping && !gone && w.short == "" && j.short == "" {
		u.Slots = w.o.Slots
	}
	if u.Full {
		u.After, u.Short = w.after, cmp.Or(w.short, j.short)
		if w.refuses.now(time.Now()) {
			u.Unkept = w.refuses.why
		}
		for _, h := range w.held {
			if h.job != j {
				continue
			}
			u.Holds = append(u.Holds, h.token)
			if h.left || gone && h.ended {
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

// upMessage returns a message of a worker as JSON, with reports that are JSON already.
func upMessage(u fleet.WorkerMessage, reports [][]byte) []byte {
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

// spill leaves reports with the broker that no coordinator takes.
func (w *worker) spill(now time.Time) {
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
		w.runs.Go(func() { w.spillReports(h) })
	}
}

// nowHeader is the header of a report that is left with the broker that has the time by the clock of the worker.
const nowHeader = "Prodigy-Now"

// nameHeader is the header of a report that is left with the broker that has the signature of the name of the worker.
const nameHeader = "Prodigy-Name"

// spillReports leaves the reports of an attempt with the broker, until the attempt is dropped.
func (w *worker) spillReports(h *heldAttempt) {
	ctx, cancel := context.WithTimeout(w.life, requestTime)
	defer cancel()
	for {
		w.mu.Lock()
		if w.held[h.name()] != h || len(h.reports) == 0 || ctx.Err() != nil {
			h.spilling = false
			h.left = w.held[h.name()] == h && h.ended && len(h.reports) == 0
			w.mu.Unlock()
			w.wake()
			return
		}
		r := h.reports[0]
		w.mu.Unlock()
		m := &nats.Msg{Subject: outSubject(w.node.Instance, h.job.key, strconv.FormatInt(h.token, 10)), Data: r.data, Header: nats.Header{}}
		m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%d.%s.%d", h.job.key, h.token, w.node.Instance, r.index))
		m.Header.Set(nowHeader, time.Now().UTC().Format(time.RFC3339Nano))
		m.Header.Set(nameHeader, w.o.NameSig)
		one, cancelOne := context.WithTimeout(ctx, unheard)
		_, err := w.js.PublishMsg(one, m)
		cancelOne()
		w.noteKept(err)
		if err != nil {
			w.mu.Lock()
			h.spilling = false
			w.mu.Unlock()
			return
		}
		w.mu.Lock()
		if w.held[h.name()] == h {
			w.keep(h, r.index)
		}
		w.mu.Unlock()
	}
}

// unload forgets reports up to an index, which somebody else has now. It is called with the lock held.
func (w *worker) unload(h *heldAttempt, index int) {
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

// announceEnd tells coordinators that the worker has ended, also those that are away.
func (w *worker) announceEnd() {
	w.sendAll(true)
	w.mu.Lock()
	keys := slices.Collect(maps.Keys(w.jobs))
	left := map[string][]int64{}
	for _, h := range w.held {
		if h.ended { // also those whose reports nobody has taken for a lease
			left[h.job.key] = append(left[h.job.key], h.token)
		}
	}
	w.mu.Unlock()
	var all sync.WaitGroup
	for _, key := range keys {
		all.Go(func() {
			if _, err := w.nc.Request(ownerSubject(key), nil, unheard); err == nil {
				return // it has heard it
			}
			ctx, cancel := context.WithTimeout(w.life, unheard)
			defer cancel()
			data := encoded(fleet.Report{V: fleet.Protocol, Kind: fleet.Gone, Holder: fleet.Holder{Instance: w.node.Instance, Node: w.o.Name}, Left: left[key]})
			m := &nats.Msg{Subject: outSubject(w.node.Instance, key, "0"), Data: data, Header: nats.Header{}}
			m.Header.Set(nameHeader, w.o.NameSig)
			_, _ = w.js.PublishMsg(ctx, m)
		})
	}
	all.Wait()
}

// renewProof asks the broker for an answer, which proves that this worker is connected. The time of the question counts, not that of the answer.
func (w *worker) renewProof() {
	w.restateAll()
	w.sendAll(false)
	sent := time.Now()
	if _, err := w.nc.Request("$JS.API.STREAM.INFO."+outStream, nil, w.lease()/4); w.alive(err) {
		w.mu.Lock()
		if sent.After(w.proof) {
			w.proof = sent
		}
		w.mu.Unlock()
		w.beat(time.Now()) // the watcher counts from the proof before
		w.wake()
	}
}

// outOfContact reports whether the leases of what is held may be over soon, so that others may begin it.
func (w *worker) outOfContact(now time.Time) bool {
	silent := process.Elapsed(w.proof, now)
	return silent > fleet.LeastHere*5/6 && silent > w.runningLease()*5/6 // no lease is shorter, and to look for the shortest takes time
}

// proofTooOld reports whether what arrives may have been on the way for so long that others have it by now. It is called with the lock held.
func (w *worker) proofTooOld(now time.Time) bool {
	return process.Elapsed(w.proof, now) > w.shortestLease()/2
}

// fence kills all that is held when the broker has not been heard of for most of a lease.
func (w *worker) fence(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.outOfContact(now) {
		return
	}
	w.killAll(now)
	w.giveBackQueued("its worker had no contact with the broker")
}

// killAll fences off all that is held, and kills what has not ended. It is called with the lock held.
func (w *worker) killAll(now time.Time) {
	for _, h := range w.held {
		if h.fenced {
			continue
		}
		w.fenceOff(h, now)
		if h.cancel != nil && !h.ended {
			h.cancel(errNoContact)
		}
	}
}

// sayKilled says how much was killed for lack of contact since it was called last, and for how long this process stood still if that may be why, or the
// coordinator may have given up what it had.
func (w *worker) sayKilled(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteTurn(now) // what was killed may be why this is called, before the loop has come round
	why, stood, killed := "no contact with the broker for most of the lease", w.stood, w.killed
	w.stood, w.killed = 0, 0
	if stood > 0 {
		why = fmt.Sprintf("stood still for %s (stopped, suspended, or its clock was set forward)", stood.Round(time.Second))
	}
	switch {
	case killed > 0:
		w.o.Say(fmt.Sprintf("%s: killed what ran, %d", why, killed))
	case stood > w.runningLease()*5/6:
		w.o.Say(why)
	}
}

// fenceOff notes that an attempt was killed for lack of contact, or may have been. It is called with the lock held.
func (w *worker) fenceOff(h *heldAttempt, now time.Time) {
	if !h.fenced {
		h.fenced, h.cut = true, w.steady(now)
		if h.cancel != nil && !h.ended {
			w.killed++
		}
		w.space.Broadcast()
	}
}

// noteTurn notes that the loop has come round. When that took long, this process had no processor, or none to spare: what it runs may be why. It is
// called with the lock held.
func (w *worker) noteTurn(now time.Time) {
	if !w.lastTurn.IsZero() && now.Sub(w.lastTurn) > w.mostTurn() {
		w.stalled = now
	}
	if stood := process.Elapsed(w.lastTurn, now); !w.lastTurn.IsZero() && stood > w.mostTurn() {
		w.stood = max(w.stood, stood)
	}
	w.lastTurn = now
}

// steady reports whether the loop has come round in time for as long as contact may have been missing. It is called with the lock held.
func (w *worker) steady(now time.Time) bool {
	return now.Sub(w.lastTurn) <= w.mostTurn() && (w.stalled.IsZero() || now.Sub(w.stalled) > w.runningLease())
}

// mostTurn is how long the loop takes at most that comes round in time, which is four times a second.
func (w *worker) mostTurn() time.Duration { return max(time.Second, w.runningLease()/4) }

// afterFreeze is how long nothing begins after this process was frozen.
const afterFreeze = 2 * time.Second

// frozen reports whether this process has been silent for so long that its watcher has killed what it ran. It is called with the lock held.
func (w *worker) frozen(now time.Time) bool {
	return !w.guarded.IsZero() && process.Elapsed(w.guarded, now) > 0
}

// beat has what runs killed in time even if this process is frozen from now on. Until the watcher was told so, it keeps to what it was told before: whoever
// was frozen meanwhile has to know that what ran may have been killed.
func (w *worker) beat(now time.Time) {
	w.beating.Lock()
	defer w.beating.Unlock()
	w.mu.Lock()
	left := time.Duration(0)
	if len(w.held) > 0 {
		left = max(w.runningLease()*5/6-process.Elapsed(w.proof, now), time.Millisecond)
	}
	w.mu.Unlock()
	w.register.Beat(left)
	told := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen(now) || w.frozen(told) { // what ran has been killed, and the watcher may still be at it
		w.rest = told.Add(afterFreeze)
		w.killAll(told)
	}
	w.guarded = time.Time{}
	if left > 0 {
		w.guarded = now.Add(left)
	}
}

func (w *worker) reconnected() {
	w.mu.Lock()
	if !w.began {
		w.mu.Unlock()
		return // nothing was said that could have been lost
	}
	for _, j := range w.jobs {
		w.resync(j)
	}
	w.mu.Unlock()
	select {
	case w.rewatch <- struct{}{}:
	default:
	}
	go w.renewProof()
	w.wake()
}
