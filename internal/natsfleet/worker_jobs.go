package natsfleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/fleet"
	"prodigy/internal/process"
)

// announced takes what a coordinator says of its job.
func (w *worker) announced(m *nats.Msg) {
	key := strings.TrimPrefix(m.Subject, jobsSubject)
	var now fleet.Job
	if json.Unmarshal(m.Data, &now) != nil || strings.ContainsFunc(key, unsafeInKey) {
		return // no coordinator has said that
	}
	known := false
	look := fmt.Sprint(key, " ", now.Owner, " ", now.Serial)
	w.turn(func(s *workerState) {
		if j := s.jobs[key]; j != nil && j.Owner == now.Owner {
			j.heard = time.Now()
			known = !j.untrusted && j.Serial == now.Serial
		}
		if known = known || s.looking[look]; !known {
			s.looking[look] = true
		}
	})
	if known {
		return
	}
	go func() { // which may have to wait for a directory that does not answer
		w.examine(key, now)
		w.turn(func(s *workerState) { delete(s.looking, look) })
	}()
}

// forgetSilent forgets the jobs that no coordinator has spoken of for two leases, if they have ended or nothing of them is
// here: that a job has ended may be said while this worker has no connection.
func (w *worker) forgetSilent(now time.Time) {
	silent := map[string]bool{} // whether something of the job is here, by its key
	w.turn(func(s *workerState) {
		for key, j := range s.jobs {
			if process.Elapsed(j.heard, now) > 2*max(j.Lease, fleet.LeastHere) {
				silent[key] = false
				j.heard = now // it is asked for again after as long
			}
		}
		for _, h := range s.held {
			if _, is := silent[h.job.key]; is {
				silent[h.job.key] = true
			}
		}
	})
	for key, here := range silent {
		if !here || w.isOver(key) {
			w.turn(func(s *workerState) {
				if j := s.jobs[key]; j != nil && j.heard.Equal(now) { // else somebody speaks again
					w.forget(s, key)
				}
			})
		}
	}
}

// isOver reports whether the broker knows that a job has ended.
func (w *worker) isOver(key string) bool {
	ctx, cancel := context.WithTimeout(w.life, requestTime)
	defer cancel()
	kv, err := w.js.KeyValue(ctx, locksBucket)
	if err != nil {
		return false
	}
	held, _, err := readLock(ctx, kv, key)
	return err == nil && held.Over
}

// examine takes over the entry of a job. With trust it must be signed. One that was signed once and is repeated costs no
// more than an offer that nobody takes: what answers an offer is signed for this instance and its round.
func (w *worker) examine(key string, now fleet.Job) {
	var why error                                                          // it is not believed
	if now.Over || now.V == fleet.Protocol && now.Version == w.o.Version { // others are refused, and could not be checked
		why = w.trust.check(signature{now.By, now.Sig}, signedJob, key, bareJob(now))
	}
	trusted := false
	w.turn(func(s *workerState) { trusted = s.jobs[key] != nil && !s.jobs[key].untrusted })
	switch {
	case why != nil && trusted: // what was believed of it before stays
		w.warn("the description of job " + now.ID + ": " + why.Error())
		return
	case why != nil:
		now.Stop = ""
	}
	w.applyJob(key, now, why)
}

// warn says once what was not believed.
func (w *worker) warn(text string) {
	w.turn(func(s *workerState) {
		if s.warned[text] {
			return
		}
		if len(s.warned) > 1000 {
			clear(s.warned)
		}
		s.warned[text] = true
		w.say("not believed: %s", text)
	})
}

// entry returns what the coordinator of a job says of it.
func (w *worker) entry(j *workerJob) (entry fleet.Job) {
	w.turn(func(*workerState) { entry = j.Job })
	return entry
}

// lifeOf returns a context that ends when a job is to be ended here. A job that was stopped and goes on has another.
func (w *worker) lifeOf(j *workerJob) (life context.Context) {
	w.turn(func(*workerState) { life = j.life })
	return life
}

// applyJob takes over the entry of a job. untrusted is why it is not believed, or nil.
func (w *worker) applyJob(key string, now fleet.Job, untrusted error) {
	refuses, short := "", "" // looked up without a turn: a directory may not answer
	if untrusted != nil {
		refuses = untrusted.Error()
	} else if refuses = w.unfit(now); refuses == "" {
		short = w.shortOf(now, "")
	}
	w.turn(func(s *workerState) {
		j := s.jobs[key]
		if j != nil && untrusted == nil && !j.untrusted && (now.Epoch < j.Epoch || now.Owner == j.Owner &&
			now.Serial < j.Serial) {
			return // of a coordinator that another has taken the job over from, or an older one
		}
		if now.Over {
			w.forget(s, key)
			return
		}
		if j == nil {
			j = newWorkerJob(key)
			s.jobs[key] = j
		}
		j.heard = time.Now()
		before := j.Job
		if before.Owner != "" && before.Owner != now.Owner && before.Stop != "" { // it was stopped, and goes on
			j.begin()
		}
		j.Job, j.untrusted, j.refuses = now, untrusted != nil, refuses
		if j.refuses != "" && before.Owner != now.Owner {
			w.say("worker %s cannot join job %s: %s", w.o.Name, now.ID, j.refuses)
		}
		if now.Stop != "" {
			j.stop()
			w.giveBackQueued(s, j, "the job is stopping")
		}
		if j.short == "" && short != "" { // before slots are offered to it
			j.short = short
			w.sayShort(now.ID, j.short)
		}
		s.resync(j) // a new coordinator wants to know everything, and one that was away
	})
}

// lacking returns those of the programs that a command would not find on PATH. One with a slash is not looked for: the
// job may send it.
func lacking(programs []string) (lacks []string) {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil && !strings.Contains(name, "/") {
			lacks = append(lacks, name)
		}
	}
	return lacks
}

// forget ends what runs of a job that is gone.
func (w *worker) forget(s *workerState, key string) {
	j := s.jobs[key]
	delete(s.jobs, key)
	if j == nil {
		return
	}
	j.cancel(fmt.Errorf("the job is gone: %w", process.ErrKill))
	for _, h := range s.held {
		if h.job == j && (h.ended || slices.Contains(s.queue, h)) {
			s.drop(h)
		}
	}
	s.queue = slices.DeleteFunc(s.queue, func(h *heldAttempt) bool { return h.job == j })
	s.freed()
	w.tidy(s, j)
	s.woken = true
}
