package natsfleet

import (
	"context"
	"errors"
	"maps"
	"time"
)

// reconnected makes good for what the broker may have lost, and for what could not be heard.
func (c *coordinator) reconnected() {
	c.mu.Lock()
	c.restartLeases()
	c.mu.Unlock()
	go c.reconcile(true)
}

// restartLeases notes that nobody could be heard until now. It is called with the lock held.
func (c *coordinator) restartLeases() {
	now := time.Now()
	c.dispatcher.RestartLeases(now)
	for instance := range c.seen {
		c.seen[instance] = now
	}
}

// reconcile has the broker know again what it should. again says that it was away: workers that see the entry of the job say everything again.
func (c *coordinator) reconcile(again bool) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if c.key == "" || c.life.Err() != nil || keepTrying(c.life, c.ensureConsumer) != nil {
		return
	}
	err := c.restoring(c.life, func(ctx context.Context) error {
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
	objects := maps.Clone(c.objects)
	c.mu.Unlock()
	if again && listens { // a consumer that was made anew has forgotten who waits for it
		_ = c.restoring(c.life, func(context.Context) error { return c.consume() })
	}
	for name, data := range objects {
		_ = c.restoring(c.life, func(ctx context.Context) error {
			if !again {
				if has, err := c.has(ctx, name); has || err != nil {
					return err
				}
			}
			return c.put(ctx, name, data)
		})
	}
	c.resendFiles(c.life)
	if listens && (again || !c.announced(c.life)) {
		_ = c.restoring(c.life, c.announce)
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
