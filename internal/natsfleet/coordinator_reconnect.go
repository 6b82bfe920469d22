package natsfleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"time"

	"prodigy/internal/fleet"
)

// reconnected makes good for what the broker may have lost, and for what could not be heard.
func (c *coordinator) reconnected() {
	c.mu.Lock()
	c.restartLeases()
	for instance, s := range c.outboxes { // without waiting for a leader, which announcing the job needs
		s.again = true
		c.sendSoon(instance, s)
	}
	c.mu.Unlock()
	c.work.Go(func() { c.reconcile(c.life, true) })
}

// restartLeases notes that nobody could be heard until now. It is called with the lock held.
func (c *coordinator) restartLeases() {
	now := time.Now()
	c.dispatcher.RestartLeases(now)
	for instance := range c.seen {
		c.seen[instance] = now
	}
}

// tend has the broker know again what it has lost, and removes what other jobs have left there. The monitor does not wait for it: a broker that keeps nothing
// delays it for a lease.
func (c *coordinator) tend() {
	ctx, cancel := context.WithTimeout(c.life, c.o.Lease)
	c.reconcile(ctx, false)
	cancel()
	c.sweep(c.life)
	c.tending.Store(false)
}

// reconcile has the broker know again what it should, until it does or ctx ends. again says that it was away: workers that see the entry of the job say
// everything again.
func (c *coordinator) reconcile(ctx context.Context, again bool) {
	c.opening.Lock()
	opened := c.key != ""
	c.opening.Unlock() // without a leader what follows takes seconds, and attempts are submitted meanwhile
	c.reconciling.Lock()
	defer c.reconciling.Unlock()
	if !opened || ctx.Err() != nil || keepTrying(ctx, c.ensureConsumer) != nil {
		return
	}
	err := c.restoring(ctx, func(ctx context.Context) error {
		err := c.renewLock(ctx)
		if errors.Is(err, errTaken) {
			c.taken()
			return nil
		}
		return err
	})
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone || err != nil {
		return
	}
	c.mu.Lock()
	listens := c.ups != nil
	objects, files := maps.Clone(c.objects), c.files
	c.mu.Unlock()
	if listens && (again || c.deaf()) { // a consumer that was made anew has forgotten who waits for it
		_ = c.restoring(ctx, func(context.Context) error { return c.consume() })
	}
	var kept map[string]string
	if err := c.restoring(ctx, func(ctx context.Context) (err error) {
		kept, err = c.digests(ctx)
		return err
	}); err != nil {
		return
	}
	for name, data := range objects {
		if sum := sha256.Sum256(data); kept[name] != hex.EncodeToString(sum[:]) {
			_ = c.restoring(ctx, func(ctx context.Context) error { return c.put(ctx, name, data) })
		}
	}
	lost := slices.DeleteFunc(slices.Clone(files), func(f fleet.File) bool { return kept[c.fileObject(f)] == f.Sum })
	c.resendFiles(c.life, lost) // which may take long, and tries each once
	if listens && (again || !c.announced(ctx)) {
		_ = c.restoring(ctx, c.announce)
	}
}

// deaf reports whether the reports that workers have left are not read any more.
func (c *coordinator) deaf() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hear == nil {
		return false
	}
	select {
	case <-c.hear.Closed():
		return true
	default:
		return false
	}
}

// restoring is keepTrying for what needs something of the broker that it may lose at any time: that is made again before each further try.
func (c *coordinator) restoring(ctx context.Context, do func(ctx context.Context) error) error {
	failed := false
	return keepTrying(ctx, func(ctx context.Context) error {
		if failed {
			if err := c.ensureConsumer(ctx); err != nil {
				return err
			}
		}
		err := do(ctx)
		if failed = err != nil; failed {
			c.noteKept(err)
		}
		return err
	})
}

// announced reports whether the broker has the entry of the job.
func (c *coordinator) announced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	kv, err := c.js.KeyValue(ctx, jobsBucket)
	if err == nil {
		_, err = kv.Get(ctx, c.key)
	}
	return err == nil
}

// heardAll reports whether the broker has no reports that it has not delivered.
func (c *coordinator) heardAll() bool {
	ctx, cancel := context.WithTimeout(c.life, requestTime)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, outStream, c.key)
	return err == nil && consumer.CachedInfo().NumPending == 0
}
