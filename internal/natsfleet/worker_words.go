package natsfleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
)

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
