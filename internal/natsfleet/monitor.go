package natsfleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
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
	m := &monitoring{coordinator: c, renewed: time.Now()}
	tended := time.Now()
	for {
		looks := false
		select {
		case <-c.life.Done():
			return
		case <-look.C:
			looks = true
		case <-tick.C:
		}
		asked := time.Now()
		if !c.nc.IsConnected() {
			m.missing(asked, asked)
			continue
		}
		if looks {
			m.lookForWorkers(asked)
			c.lookForSilence(asked)
			continue
		}
		if err := c.nc.FlushTimeout(often); err != nil { // nobody can be heard
			m.missing(asked, time.Now())
			c.turn(c.restartLeases)
			continue
		}
		if m.away.told {
			c.host.Emit(&agent.Attempt{}, events.StartsAllowed{By: byBroker})
		}
		m.away = spell{}
		now := time.Now()
		m.renew(now)
		c.announce(false)
		c.lookAtStore(now)
		m.endLost(now)
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

// monitoring is what a monitor has seen so far.
type monitoring struct {
	*coordinator
	away      spell        // the broker does not answer
	stopped   bool         // the run was asked to stop for that
	alone     spell        // attempts wait, and no worker takes part
	renewed   time.Time    // when the lock of the job was
	suspected []fleet.Loss // attempts whose workers were silent the last time
}

// starvedFor is how long that may last before somebody is told.
const starvedFor = 2 * time.Second

// lookForWorkers says once that attempts wait for a worker, and why the workers that there are do not join.
func (c *monitoring) lookForWorkers(now time.Time) {
	alone, waiting, refusing := false, 0, ""
	c.turn(func(s *jobState) {
		alone = s.ledger.NoWorkers() && s.mailbox.ups != nil && !s.ledger.Halted
		waiting, refusing = s.ledger.Len(), s.workers.refusing()
	})
	switch {
	case !alone:
		c.alone = spell{}
	case c.alone.lasts(now, starvedFor):
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
				duration.Seconds(c.o.Lease-w.For), w.Holds)
		}
		c.notify("worker %s has been silent for %s%s", w.Node, duration.Seconds(w.For), text)
	}
}

// renew renews the lock of the job when it is time, and more often while the broker refuses things: it may have room
// again.
func (c *monitoring) renew(now time.Time) {
	refused := false
	c.turn(func(s *jobState) { refused = s.refuses.now(now) })
	if past := now.Sub(c.renewed); past <= c.o.Lease/4 && (!refused || past <= refusedFor/5) {
		return
	}
	c.renewed = now
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	if err := c.renewLock(ctx); errors.Is(err, errTaken) {
		c.taken()
	} else if err != nil { // there may be room for so little, and no more
		c.noteKept(err)
	}
}

// endLost ends the attempts that are lost. What was read when it was asked about has been taken by the next time, so an
// attempt is lost when its worker is silent twice.
func (c *monitoring) endLost(now time.Time) {
	unread := 0
	var silent []fleet.Loss
	c.turn(func(j *jobState) { silent, unread = j.ledger.Lost(now), j.mailbox.unread() })
	if len(silent) > 0 && (unread > 0 || !c.heardAll()) { // the end of some may be among what is to be read
		silent = nil
	}
	told := map[string]int{} // attempts, by what happened to them
	c.turn(func(j *jobState) {
		for _, lost := range silent {
			if !slices.Contains(c.suspected, lost) || !c.coordinator.endLost(j, lost) {
				continue
			}
			text := "worker " + cmp.Or(lost.Node, "(of the previous run)")
			if lost.Missing {
				told[text+" gave up its attempts, starting them again"]++
			} else {
				told[text+" lost, reassigning its attempts"]++
			}
		}
	})
	c.suspected = silent
	for text, n := range check.ByKey(told) {
		c.notify("%s: %d", text, n)
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

// byBroker is what holds starts back while the broker does not answer.
const byBroker = "the broker"

// shortAbsence is how long the broker may be away before somebody is told.
const shortAbsence = 5 * time.Second

// missing notes that the broker does not answer what it was asked at a time, and stops the run when that lasts too
// long. Nobody can tell workers to end what they run, so it is left to the resume at once.
func (c *monitoring) missing(asked, now time.Time) {
	c.away.since = cmp.Or(c.away.since, asked)
	if c.away.lasts(now, shortAbsence) {
		c.host.Emit(&agent.Attempt{}, events.StartsHeld{
			By: byBroker, Reason: "broker unreachable; running items continue for most of a lease",
		})
	}
	if !c.stopped && c.o.Patience > 0 && now.Sub(c.away.since) >= c.o.Patience {
		c.stopped = true
		c.stop(fmt.Errorf("broker unreachable for %s (--broker-patience)", c.o.Patience))
		c.turn(func(s *jobState) { s.ledger.Halted = true })
		c.turn(func(s *jobState) { s.leave() })
	}
}
