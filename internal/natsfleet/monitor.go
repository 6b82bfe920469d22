package natsfleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/fleet"
)

// monitor finds lost attempts, and now and then what the broker has lost.
func (c *coordinator) monitor() {
	often := every(c.o.Lease)
	if c.o.Patience > 0 {
		often = min(often, max(c.o.Patience, time.Second)) // an answer may be on the way for so long
	}
	tick, look := time.NewTicker(often), time.NewTicker(min(often, starvedFor/2))
	defer tick.Stop()
	defer look.Stop()
	tended, lock := time.Now(), renewal{time.Now()}
	var away absence
	var alone starvation
	var suspected suspicion
	for {
		select {
		case <-c.life.Done():
			return
		case <-look.C:
			now := time.Now()
			if !c.nc.IsConnected() {
				away.missing(c, now, now)
				continue
			}
			alone.look(c, now)
			c.lookForSilence(now)
			continue
		case <-tick.C:
		}
		asked := time.Now()
		if !c.nc.IsConnected() {
			away.missing(c, asked, asked)
			continue
		}
		if err := c.nc.FlushTimeout(often); err != nil { // nobody can be heard
			away.missing(c, asked, time.Now())
			c.turn(c.restartLeases)
			continue
		}
		if away.told {
			c.notify("the broker is reachable again")
		}
		away.spell = spell{}
		now := time.Now()
		lock.look(c, now)
		c.announce(false)
		c.lookAtStore(now)
		suspected.look(c, now)
		c.releaseTickets(now)
		if now.Sub(tended) > c.slow.tendEvery && c.slow.tending.CompareAndSwap(false, true) {
			tended = now
			// The monitor does not wait: a broker that keeps nothing delays that for a lease.
			c.work.Go(func() {
				defer c.slow.tending.Store(false)
				ctx, cancel := context.WithTimeout(c.life, c.o.Lease)
				c.reconcile(ctx)
				cancel()
				c.sweep(c.life)
			})
		}
	}
}

// starvation is a time in which attempts wait and no worker takes part.
type starvation struct{ spell }

// starvedFor is how long that may last before somebody is told.
const starvedFor = 2 * time.Second

// look says once that attempts wait for a worker, and why the workers that there are do not join.
func (d *starvation) look(c *coordinator, now time.Time) {
	alone, waiting, refusing := false, 0, ""
	c.turn(func(s *jobState) {
		alone = s.ledger.NoWorkers() && s.mailbox.ups != nil && !s.ledger.Halted
		waiting, refusing = s.ledger.Len(), s.workers.refusing()
	})
	switch {
	case !alone:
		*d = starvation{}
	case d.lasts(now, starvedFor):
		flags := append([]string{c.o.WorkerFlags()}, c.o.Requires...)
		c.notify("no workers available%s, attempts waiting: %d; start one with: prodigy worker %s", refusing,
			waiting, strings.Join(flags, " --label "))
	}
}

// lookForSilence says which workers are silent.
func (c *coordinator) lookForSilence(now time.Time) {
	var silent []fleet.Silence
	c.turn(func(s *jobState) {
		if s.mailbox.unread() == 0 { // else what is to be read may be from them
			silent = s.ledger.Silent(now)
		}
	})
	for _, w := range silent {
		text := ", and gets no new items"
		if w.Holds > 0 {
			text = fmt.Sprintf("; reassigning its attempts in %s: %d",
				duration.Format((c.o.Lease - w.For).Round(time.Second)), w.Holds)
		}
		c.notify("worker %s has been silent for %s%s", w.Node, duration.Format(w.For.Round(time.Second)), text)
	}
}

// renewal follows when the lock of the job was renewed.
type renewal struct{ last time.Time }

// look renews the lock when it is time, and more often while the broker refuses things: it may have room again.
func (r *renewal) look(c *coordinator, now time.Time) {
	refused := false
	c.turn(func(s *jobState) { refused = s.refuses.now(now) })
	if past := now.Sub(r.last); past <= c.o.Lease/4 && (!refused || past <= refusedFor/5) {
		return
	}
	r.last = now
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	if err := c.renewLock(ctx); errors.Is(err, errTaken) {
		c.taken()
	} else if err != nil { // there may be room for so little, and no more
		c.noteKept(err)
	}
}

// suspicion has the attempts whose workers were silent the last time.
type suspicion struct{ of []fleet.Loss }

// look ends the attempts that are lost. What was read when it was asked about has been taken by the next time, so an
// attempt is lost when its worker is silent twice.
func (s *suspicion) look(c *coordinator, now time.Time) {
	unread := 0
	var silent []fleet.Loss
	c.turn(func(j *jobState) { silent, unread = j.ledger.Lost(now), j.mailbox.unread() })
	if len(silent) > 0 && (unread > 0 || !c.heardAll()) { // the end of some may be among what is to be read
		silent = nil
	}
	had, forgot := map[string]int{}, map[string]int{} // attempts that were lost, by the worker
	c.turn(func(j *jobState) {
		for _, lost := range silent {
			switch {
			case !slices.Contains(s.of, lost) || !c.endLost(j, lost):
			case lost.Missing:
				forgot[lost.Node]++
			default:
				had[lost.Node]++
			}
		}
	})
	s.of = silent
	for node, n := range check.ByKey(had) {
		c.notify("worker %s lost, reassigning its attempts: %d", cmp.Or(node, "(of the previous run)"),
			n)
	}
	for node, n := range check.ByKey(forgot) {
		c.notify("worker %s gave up its attempts, starting them again: %d", node, n)
	}
}

// releaseTickets gives back the starts that workers were admitted to which have been silent for a lease.
func (c *coordinator) releaseTickets(now time.Time) {
	var lost []ticket
	c.turn(func(s *jobState) {
		for instance, list := range s.calls.tickets {
			if now.Sub(s.workers.of(instance).heard) > c.o.Lease {
				lost = append(lost, list...)
				delete(s.calls.tickets, instance)
			}
		}
	})
	for _, t := range lost {
		t.release()
	}
}

// unread is how many messages of workers have arrived and were not taken yet.
func (m mailbox) unread() (n int) {
	if m.ups != nil {
		n, _, _ = m.ups.Pending()
	}
	return n
}

// shortAbsence is how long the broker may be away before somebody is told.
const shortAbsence = 5 * time.Second

// absence follows how long the broker does not answer.
type absence struct {
	spell
	over bool // the run was asked to stop
}

// missing notes that the broker does not answer what it was asked at a time, and stops the run when that lasts too
// long. Nobody can tell workers to end what they run, so it is left to the resume at once.
func (a *absence) missing(c *coordinator, asked, now time.Time) {
	a.since = cmp.Or(a.since, asked)
	if a.lasts(now, shortAbsence) {
		c.notify("broker unreachable: running items continue for most of a lease, no new items start")
	}
	if !a.over && c.o.Patience > 0 && now.Sub(a.since) >= c.o.Patience {
		a.over = true
		c.stop(fmt.Errorf("broker unreachable for %s (--broker-patience)", c.o.Patience))
		c.turn(func(s *jobState) { s.ledger.Halt() })
		c.turn(func(s *jobState) { s.leave(everyFlight) })
	}
}
