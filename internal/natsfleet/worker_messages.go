package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/fleet"
	"prodigy/internal/process"
)

// progress sends coordinators the step that each attempt is at.
func (w *worker) progress(s *workerState) {
	for _, h := range s.held {
		if h.at == nil {
			continue
		}
		line, err := lineOf(h.job.ID, *h.at)
		if err == nil {
			_ = w.nc.Publish(liveSubject(w.node.Instance, h.job.key), line)
		}
		h.at = nil
	}
}

// restateAll has the next message to each coordinator list all that this worker holds.
func (w *worker) restateAll() {
	w.turn(func(s *workerState) {
		for _, j := range s.jobs {
			j.dirty, j.full = true, true
		}
	})
}

// sendAll sends what there is to say to coordinators. gone says that the worker ends.
func (w *worker) sendAll(gone bool) {
	if !w.nc.IsConnected() {
		return // everything is said when it is
	}
	w.turn(func(s *workerState) {
		for _, j := range s.jobs {
			for j.dirty || len(j.outbox) > 0 || gone {
				if !w.sendTo(s, j, gone) {
					s.restate(j) // next time
					break
				}
				if gone {
					break
				}
			}
		}
	})
}

// sendTo sends one message to the coordinator of a job, with as many reports as there is room for. It reports false if
// there is no connection.
func (w *worker) sendTo(s *workerState, j *workerJob, gone bool) bool {
	u := fleet.WorkerMessage{
		V: fleet.Protocol, Owner: j.Owner, Now: time.Now().UTC(), Host: w.node.Host, Refuses: j.refuses,
		NameSig: w.o.NameSig,
		WorkerStatus: fleet.WorkerStatus{
			Instance: w.node.Instance, Node: w.o.Name, Round: j.round, Credit: j.credit, Full: j.full ||
				gone, Gone: gone,
		},
	}
	if !s.stopping && !gone && s.short == "" && j.short == "" {
		u.Slots = w.o.Slots
	}
	if u.Full {
		u.Short = cmp.Or(s.short, j.short)
		if s.refuses.now(time.Now()) {
			u.Unkept = s.refuses.why
		}
		for _, h := range s.held {
			if h.job != j {
				continue
			}
			u.Holds = append(u.Holds, h.token)
			if h.left || gone && h.ended {
				u.Left = append(u.Left, h.token)
			}
		}
	}
	j.dirty, j.full = false, false
	return w.nc.Publish(upSubject(w.node.Instance, j.key), encoded(upMessage{u, j.unsent()})) == nil
}

// upMessage is a fleet.WorkerMessage with reports that are JSON already.
type upMessage struct {
	fleet.WorkerMessage
	Reports []json.RawMessage `json:"reports,omitempty"`
}

// unheard is how long the coordinator may take to write down a report before it is left with the broker.
const unheard = 2 * time.Second

// spill leaves reports with the broker that no coordinator takes.
func (w *worker) spill(s *workerState, now time.Time) {
	patience := unheard
	if s.stopping {
		patience /= 4
	}
	for _, h := range s.held {
		if len(h.untaken()) == 0 || h.spilling || now.Sub(h.untaken()[0].made) < patience {
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
		var r report
		more := false
		w.turn(func(s *workerState) {
			held := s.held[h.name()] == h
			if more = held && len(h.untaken()) > 0 && ctx.Err() == nil; more {
				r = h.untaken()[0]
				return
			}
			h.spilling = false
			h.left = held && h.ended && len(h.untaken()) == 0
			s.woken = true
		})
		if !more {
			return
		}
		err := w.leave(ctx, h.job.key, h.token, r)
		w.noteKept(err)
		w.turn(func(s *workerState) {
			if err != nil {
				h.spilling = false
			} else if s.held[h.name()] == h {
				s.keep(h, r.index)
			}
		})
		if err != nil {
			return
		}
	}
}

// leave leaves a report of an attempt with the broker.
func (w *worker) leave(ctx context.Context, key string, token int64, r report) error {
	m := nats.NewMsg(outSubject(w.node.Instance, key, strconv.FormatInt(token, 10)))
	m.Data = r.data
	m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s.%d.%s.%d", key, token, w.node.Instance, r.index))
	m.Header.Set(nowHeader, time.Now().UTC().Format(time.RFC3339Nano))
	m.Header.Set(nameHeader, w.o.NameSig)
	ctx, cancel := context.WithTimeout(ctx, unheard)
	defer cancel()
	_, err := w.js.PublishMsg(ctx, m)
	return err
}

// renewProof asks the broker for an answer, which proves that this worker is connected. The time of the question
// counts, not that of the answer.
func (w *worker) renewProof() {
	w.restateAll()
	w.sendAll(false)
	sent, within := time.Now(), w.lease()/4
	var err error
	if w.nc.ConnectedClusterName() == "" { // it need not be able to keep anything
		err = w.nc.FlushTimeout(within)
	} else { // a broker of a cluster must reach most of the others to answer
		_, err = w.nc.Request("$JS.API.STREAM.INFO."+outStream, nil, within)
	}
	if err == nil {
		w.turn(func(s *workerState) { s.proof = later(s.proof, sent) })
		w.beat(time.Now()) // the watcher counts from the proof before
		w.turn(func(s *workerState) { s.woken = true })
	}
}

// fence kills all that is held when the broker has not been heard of for most of a lease.
func (w *worker) fence(s *workerState, now time.Time) {
	if s.outOfContact(now) {
		s.killAll(now)
		w.giveBackQueued(s, nil, "its worker lost contact with the broker")
	}
}

// sayKilled says how much was killed for lack of contact since it was called last, and for how long this process stood
// still if that may be why, or the coordinator may have given up what it had.
func (w *worker) sayKilled(s *workerState, now time.Time) {
	s.noteTurn(now) // what was killed may be why this is called, before the loop has come round
	why, stood, killed := "no contact with the broker for most of the lease", s.stood, s.killed
	s.stood, s.killed = 0, 0
	if stood > 0 {
		why = fmt.Sprintf("was frozen for %s (stopped, suspended, or its clock was set forward)",
			stood.Round(time.Second))
	}
	switch {
	case killed > 0:
		w.say("%s: killed running attempts: %d", why, killed)
	case stood > s.runningLease()*5/6:
		w.o.Say(why)
	}
}

// beat has what runs killed in time even if this process is frozen from now on. Until the watcher was told so, it keeps
// to what it was told before: whoever was frozen meanwhile has to know that what ran may have been killed.
func (w *worker) beat(now time.Time) {
	w.beating.Lock()
	defer w.beating.Unlock()
	left := time.Duration(0)
	w.turn(func(s *workerState) {
		if len(s.held) > 0 {
			left = max(s.runningLease()*5/6-process.Elapsed(s.proof, now), time.Millisecond)
		}
	})
	w.register.Beat(left)
	told := time.Now()
	w.turn(func(s *workerState) {
		if s.frozen(now) || s.frozen(told) { // what ran has been killed, and the watcher may still be at it
			s.rest = told.Add(afterFreeze)
			s.killAll(told)
		}
		s.guarded = time.Time{}
		if left > 0 {
			s.guarded = now.Add(left)
		}
	})
}

// reconnected says everything again: what was said meanwhile may be lost, and jobs may have begun.
func (w *worker) reconnected() {
	began := false // else nothing was said that could have been lost
	w.turn(func(s *workerState) {
		if began = s.began; began {
			for _, j := range s.jobs {
				s.resync(j)
			}
		}
	})
	if !began {
		return
	}
	_ = w.nc.Publish(helloSubject, nil)
	go w.renewProof()
}
