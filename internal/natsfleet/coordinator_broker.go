package natsfleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// open takes the lock of the job, makes what it needs at the broker, and begins to receive from workers. It does so
// once: later calls return the same error.
func (c *coordinator) open(ctx context.Context, jobID string) error {
	c.slow.opening.Do(func() { c.slow.unopened = c.openOnce(ctx, jobID) })
	return c.slow.unopened
}

// openOnce is open for the first attempt. The order matters: the lock comes first, so that nobody else has the job;
// then the file of members, since workers look for it when they hear of the job; and only then the entry of the job
// and the subscriptions.
func (c *coordinator) openOnce(ctx context.Context, jobID string) error {
	key := keyOf(jobID, c.c.Seed)
	c.members.path = probeOf(c.o.Dir, key)
	if c.clones != nil { // nobody looks for it in the checkout of the user
		c.members.path = filepath.Join(c.clones.Dir(), "fleet")
	}
	// The clock of that coordinator may have been ahead of this one's, and the broker may have lost its lock since.
	_, epoch, _ := readMembers(c.members.path)
	c.jobID, c.epoch = jobID, max(c.epoch, epoch+1)
	if err := c.provided(ctx, func(ctx context.Context) error { return c.lock(ctx, key, jobID) }); err != nil {
		return err
	}
	adopts := false
	c.turn(func(s *jobState) { adopts = len(s.awaited) > 0 })
	if err := c.openMembers(key, adopts); err != nil {
		return fmt.Errorf("create the file that identifies the working directory to workers: %w", err)
	}
	c.turn(func(s *jobState) {
		c.key = key
		s.entry = fleet.Job{
			V: fleet.Protocol, ID: jobID, Owner: c.owner, Version: c.o.Version, Lease: c.o.Lease,
			Requires: c.o.Requires, Programs: c.o.Programs, Guards: c.o.Guards, Dir: c.o.Dir,
			Probe: filepath.Base(c.members.path), Grace: c.c.Grace, Secrets: len(c.c.Secrets) > 0, Epoch: c.epoch,
			Stop: s.entry.Stop, Serial: s.entry.Serial, // somebody may have asked for a stop
		}
	})
	if err := c.subscribeAll(map[string]nats.MsgHandler{
		ownerSubject(key): func(m *nats.Msg) { // who asks whether the job has a coordinator
			if !c.isGone() {
				_ = m.Respond(nil)
			}
		},
		callSubject("*", key): func(m *nats.Msg) { go c.call(m) },
		liveSubject("*", key): c.progress,
		nodesSubject:          c.tellRoster,
		helloSubject: func(*nats.Msg) { // of a worker that wants to know the jobs
			c.slow.greeted.do(greetDelay, func() { c.announce(false) })
		},
	}); err != nil {
		return err
	}
	// Reports that the coordinator before had not acknowledged come at once when the consumer is new.
	if err := c.provided(ctx, func(ctx context.Context) error {
		err := check.Unless(c.js.DeleteConsumer(ctx, outStream, key), jetstream.ErrConsumerNotFound)
		if err != nil {
			return err
		}
		return c.ensureConsumer(ctx)
	}); err != nil {
		return err
	}
	if len(c.o.Files) > 0 {
		if err := c.provided(ctx, c.sendFiles); err != nil {
			return err
		}
	}
	if c.clones != nil {
		seed, err := c.clones.Seed(ctx)
		if err != nil {
			return fmt.Errorf("send the repository for workspaces: %w", err)
		}
		c.turn(func(s *jobState) { s.entry.Seed, s.shared.base = s.shared.add(seed), seed.Record.Base })
	}
	c.work.Go(c.send)
	c.work.Go(c.monitor)
	if adopts {
		return nil
	}
	return c.begin(ctx)
}

// begin starts to receive from workers, and announces the job to them. All attempts that the run before left must be
// known by then, or what is reported of them would be late.
func (c *coordinator) begin(ctx context.Context) error {
	for {
		n := 0
		if err := c.provided(ctx, func(ctx context.Context) (err error) {
			n, err = c.readLeft(ctx, false)
			return err
		}); err != nil {
			return err
		}
		if n == 0 && c.heardAll() {
			break
		}
		if n == 0 && !pause(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	ups, err := c.subscribe(upSubject("*", c.key), c.receive)
	if err != nil {
		return err
	}
	c.turn(func(s *jobState) { s.mailbox.ups = ups })
	c.work.Go(c.keepReading)
	_ = c.nc.FlushTimeout(requestTime) // now workers are heard, if the broker is there
	c.announce(false)
	return nil
}

// leaderTime is how long a broker may be without a leader before what it is asked fails.
const leaderTime = 30 * time.Second

// provided calls do, and again while the brokers have no leader that could answer. What the broker has lost since it
// was connected with is made again for that.
func (c *coordinator) provided(ctx context.Context, do func(ctx context.Context) error) error {
	until := time.Now().Add(leaderTime)
	return persist(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if !isMissing(err) {
			return err
		}
		if c.key == "" {
			err = ensureStreams(ctx, c.brokerConn)
		} else {
			err = c.ensureConsumer(ctx)
		}
		if err != nil {
			return err
		}
		return do(ctx)
	}, func(err error) bool { return leaderless(err) && time.Now().Before(until) })
}

// ensureConsumer makes what the broker needs for the job, unless it is there, and says once that the broker has lost
// it.
func (c *coordinator) ensureConsumer(ctx context.Context) error {
	if err := ensureStreams(ctx, c.brokerConn); err != nil {
		return err
	}
	s, err := c.js.Stream(ctx, outStream)
	if err != nil {
		return err
	}
	made, lost := s.CachedInfo().Created, false // no other of this name was made then
	c.turn(func(s *jobState) {
		lost = !s.mailbox.made.IsZero() && !made.Equal(s.mailbox.made)
		s.mailbox.made = made
	})
	if lost {
		c.notify("the broker lost this job's data (storage deleted, or a different broker?): resending it. Items " +
			"whose results were only on the broker run again")
	}
	_, err = s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: c.key, FilterSubject: "prodigy.out.*." + c.key + ".>", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.o.Lease, MaxDeliver: -1,
		MaxAckPending: -1, InactiveThreshold: 7 * 24 * time.Hour,
	})
	return err
}

// announce tells workers what they have to know of the job, and with over that it has ended. They are told now and then:
// who has not heard it hears it the next time.
func (c *coordinator) announce(over bool) {
	var entry fleet.Job
	says := false
	c.turn(func(s *jobState) {
		if says = s.mailbox.ups != nil && !s.gone; over {
			s.entry.Serial++
			s.entry.Over = true
		}
		entry = s.entry
	})
	if says {
		_ = c.nc.Publish(jobsSubject+c.key, encoded(c.signer.signJob(c.key, entry)))
	}
}

// greetDelay is how long workers wait for an answer to their hello: after a broker was restarted all say it at once.
const greetDelay = 50 * time.Millisecond

// consumer returns what the broker has of the reports of the job, as it is now.
func (c *coordinator) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return c.js.Consumer(ctx, outStream, c.key)
}

// leftAtOnce is how many reports are fetched at a time.
const leftAtOnce = 256

// readLeft takes reports that workers have left with the broker, and returns how many there were. It may wait for some
// until ctx ends.
func (c *coordinator) readLeft(ctx context.Context, wait bool) (n int, err error) {
	consumer, err := c.consumer(ctx)
	if err != nil {
		return 0, err
	}
	var batch jetstream.MessageBatch
	if wait {
		batch, err = consumer.Fetch(leftAtOnce, jetstream.FetchContext(ctx))
	} else {
		batch, err = consumer.FetchNoWait(leftAtOnce)
	}
	if err != nil {
		return 0, err
	}
	for m := range batch.Messages() {
		c.stored(m)
		n++
	}
	return n, batch.Error()
}

// keepReading takes what workers leave with the broker as it comes, until the coordinator is closed. A broker that has
// lost its disk, or is told to forget who reads there, is told again.
func (c *coordinator) keepReading() {
	for c.life.Err() == nil {
		ctx, cancel := context.WithTimeout(c.life, requestTime)
		_, err := c.readLeft(ctx, true)
		if err != nil && ctx.Err() == nil {
			c.reconcile(c.life)
			pause(c.life, 250*time.Millisecond)
		}
		cancel()
	}
}

// reconnected makes good for what the broker may have lost, and for what could not be heard.
func (c *coordinator) reconnected() {
	c.turn(func(s *jobState) {
		c.restartLeases(s)
		s.ledger.SayAgain()
	})
	c.announce(false)
	c.work.Go(func() { c.reconcile(c.life) })
}

// restartLeases notes that nobody could be heard until now.
func (c *coordinator) restartLeases(s *jobState) {
	now := time.Now()
	s.ledger.RestartLeases(now)
	for _, w := range s.workers {
		w.heard = now
	}
}

// reconcile has the broker know again what it should, until it does or ctx ends.
func (c *coordinator) reconcile(ctx context.Context) {
	opened := false
	c.turn(func(*jobState) { opened = c.key != "" })
	c.slow.reconciling.Lock()
	defer c.slow.reconciling.Unlock()
	if !opened || ctx.Err() != nil {
		return
	}
	_ = keepTrying(ctx, func(ctx context.Context) error {
		if err := c.ensureConsumer(ctx); err != nil {
			return err
		}
		err := c.renewLock(ctx)
		if errors.Is(err, errTaken) {
			c.taken()
			return nil
		}
		if err != nil {
			c.noteKept(err)
		}
		return err
	})
}

// heardAll reports whether the broker has no reports that it has not delivered.
func (c *coordinator) heardAll() bool {
	consumer, err := c.consumer(c.life)
	return err == nil && consumer.CachedInfo().NumPending == 0
}

// noteKept notes whether the broker has kept something.
func (c *coordinator) noteKept(err error) {
	c.turn(func(s *jobState) {
		switch {
		case err == nil:
			s.refuses.last = time.Time{}
		case isMissing(err): // it is made again, or the error of that is noted
		case c.life.Err() == nil && c.nc.IsConnected():
			s.refuses.note(err, time.Now())
		}
	})
}

// lookAtStore says that the broker keeps nothing, or does again, and stops the run when that lasts too long.
func (c *coordinator) lookAtStore(now time.Time) {
	var was refusals
	full, tell, stop := false, false, false
	c.turn(func(s *jobState) {
		r := &s.refuses
		was, full = *r, r.now(now)
		tell = full && r.lasts(now, shortAbsence)
		stop = full && !r.over && c.o.Patience > 0 && now.Sub(r.since) >= c.o.Patience
		if r.over = r.over || stop; !full {
			*r = refusals{}
		}
	})
	if tell {
		c.notify("the broker cannot store data: %s. Waiting for it to recover", was.why)
	}
	if stop {
		c.stop(fmt.Errorf("the broker could not store data for %s (--broker-patience): %s", c.o.Patience,
			was.why))
	}
	if !full && was.told {
		c.notify("the broker stores data again")
	}
}
