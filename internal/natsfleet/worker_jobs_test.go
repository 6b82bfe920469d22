package natsfleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/fleet"
)

// silentBucket is a bucket whose broker answers no request for a watcher.
type silentBucket struct{ jetstream.KeyValue }

func (silentBucket) WatchAll(ctx context.Context, _ ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentBucket) Keys(ctx context.Context, _ ...jetstream.WatchOpt) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// watchedBucket has a watcher whose context the test keeps.
type watchedBucket struct {
	jetstream.KeyValue
	ctx     context.Context
	updates chan jetstream.KeyValueEntry
}

func (b *watchedBucket) WatchAll(ctx context.Context, _ ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	b.ctx, b.updates = ctx, make(chan jetstream.KeyValueEntry)
	return b, nil
}

func (b *watchedBucket) Updates() <-chan jetstream.KeyValueEntry { return b.updates }
func (b *watchedBucket) Error() <-chan error                     { return nil }

// Stop is waited for by who delivers an update, which nobody takes.
func (b *watchedBucket) Stop() error {
	go func() {
		b.updates <- nil
		close(b.updates)
	}()
	return nil
}

// A broker that dies, or a cluster without a leader, never answers the request for a watcher. A worker that waited for that would hear of no job any more.
func TestARequestForAWatcherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, _, err := watchAll(t.Context(), silentBucket{}); err == nil {
			t.Error("got a watcher that nobody has made")
		}
		if _, err := keysOf(t.Context(), silentBucket{}); err == nil {
			t.Error("got keys that nobody has named")
		}
		b := new(watchedBucket)
		_, stop, err := watchAll(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if b.ctx.Err() != nil {
			t.Error("the watcher has ended by itself")
		}
		if stop(); !errors.Is(b.ctx.Err(), context.Canceled) {
			t.Error("its context goes on")
		}
	})
}

// entry is an update of a job.
type entry struct {
	jetstream.KeyValueEntry
	key      string
	revision uint64
	gone     bool
}

func (e entry) Key() string      { return e.key }
func (e entry) Revision() uint64 { return e.revision }
func (e entry) Value() []byte    { return nil }
func (e entry) Operation() jetstream.KeyValueOp {
	if e.gone {
		return jetstream.KeyValueDelete
	}
	return jetstream.KeyValuePut
}

// Jobs are followed anew when the bucket is another one or has entries that were not delivered for some time, and not before.
func TestJobsAreFollowedAnew(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		looks []bucket // one after the other, the last one ever again; the first is that of before
		tells []uint64 // revisions of updates, one each second
		want  time.Duration
	}{
		"nothing happens":               {looks: []bucket{{"1", 5}}, want: never},
		"all is delivered":              {looks: []bucket{{"1", 5}, {"1", 6}, {"1", 7}}, tells: []uint64{6, 7}, want: never},
		"one more is on its way":        {looks: []bucket{{"1", 5}, {"1", 6}}, tells: []uint64{5, 5, 6}, want: never},
		"one is not delivered":          {looks: []bucket{{"1", 5}, {"1", 6}}, want: 2 * checkTime},
		"the bucket is another":         {looks: []bucket{{"1", 5}, {"2", 5}}, want: checkTime},
		"there is none any more":        {looks: []bucket{{"1", 5}, {made: noBucket}}, want: checkTime},
		"it could not be asked for":     {looks: []bucket{{}, {"1", 5}}, want: checkTime},
		"it cannot be asked for now":    {looks: []bucket{{"1", 5}, {}}, want: never},
		"the other has fewer entries":   {looks: []bucket{{"1", 5}, {"2", 1}}, want: checkTime},
		"the last entries were removed": {looks: []bucket{{"1", 5}}, tells: []uint64{2}, want: never},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestWorker(t)
				updates := make(chan jetstream.KeyValueEntry)
				began := time.Now()
				go func() {
					updates <- nil
					for _, revision := range c.tells {
						time.Sleep(time.Second)
						updates <- entry{key: "k", revision: revision}
					}
				}()
				time.AfterFunc(never, w.end)
				looked := 0
				w.follow(updates, c.looks[0], func() bucket {
					looked++
					return c.looks[min(looked, len(c.looks)-1)]
				})
				if got := time.Since(began); got != c.want {
					t.Errorf("followed for %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A job whose entry went with the disk of the broker is forgotten also when something of it was held then.
func TestAJobWithoutAnEntryIsForgottenOnceItIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorker(t)
		newTestJob(w, "there", time.Minute)
		newTestJob(w, "idle", time.Minute)
		busy := newTestJob(w, "busy", time.Minute)
		h, _ := w.hold(busy, 1)
		has := func(want ...string) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.state.jobs) != len(want) {
				t.Errorf("it knows %d jobs, want %q", len(w.state.jobs), want)
			}
			for _, key := range want {
				if w.state.jobs[key] == nil {
					t.Errorf("it has forgotten %s", key)
				}
			}
		}
		updates := make(chan jetstream.KeyValueEntry)
		go w.follow(updates, bucket{"1", 5}, func() bucket { return bucket{"1", 5} })
		updates <- entry{key: "there", revision: 5}
		time.Sleep(2 * checkTime)
		has("there", "idle", "busy") // there may be more
		updates <- nil
		synctest.Wait()
		has("there", "busy")
		w.mu.Lock()
		delete(w.state.held, h.name())
		w.mu.Unlock()
		time.Sleep(2 * checkTime)
		has("there")
		updates <- entry{key: "there", revision: 6, gone: true}
		synctest.Wait()
		has()
		w.end()
	})
}

// A broker may lose its disk when all jobs have ended: nobody makes the bucket again then.
func TestJobsAreForgottenWithTheirBucket(t *testing.T) {
	f := newField(t)
	f.worker("a", 1, nil)
	js := connected(t, f)
	kv, err := js.KeyValue(t.Context(), jobsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: jobsBucket})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "k", encoded(fleet.Job{V: fleet.Protocol, Version: "test", ID: "job", Owner: "O", Lease: time.Minute, Dir: t.TempDir()})); err != nil {
		t.Fatal(err)
	}
	knows := func() string {
		nodes, err := Backend{}.Nodes(t.Context(), f.address())
		if err != nil || len(nodes) != 1 {
			return fmt.Sprint(len(nodes), " nodes ", err)
		}
		return fmt.Sprint(nodes[0].Jobs)
	}
	f.waitFor("map[k:job]", knows)
	if err := js.DeleteKeyValue(t.Context(), jobsBucket); err != nil {
		t.Fatal(err)
	}
	f.waitFor("map[]", knows)
}
