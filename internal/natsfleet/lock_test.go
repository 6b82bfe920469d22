package natsfleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

func (f *field) coordinator() *coordinator {
	f.t.Helper()
	_, of := f.config(nil)
	c := of.(*coordinator)
	c.o.Dir = f.t.TempDir()
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAJobHasOneCoordinator(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute // the first one is gone then, and not silent
	first, second := f.coordinator(), f.coordinator()
	if err := first.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	err := second.open(t.Context(), "job")
	if !errors.Is(err, fleet.ErrRefused) || !strings.Contains(err.Error(), "job job is already running (process ") {
		t.Errorf("got %v, want a refusal that names the process", err)
	}
	first.nc.Close() // killed
	third := f.coordinator()
	if err := third.open(t.Context(), "job"); err != nil {
		t.Fatalf("the coordinator is gone, and the job cannot be taken over: %v", err)
	}
	if third.epoch <= first.epoch {
		t.Errorf("got epoch %d after %d", third.epoch, first.epoch)
	}
}

// Workers do not listen to a coordinator of before, also when the clock of that one was hours ahead and the broker has forgotten it.
func TestWorkersListenToACoordinatorWhoseClockIsBehind(t *testing.T) {
	f := newField(t)
	first := f.coordinator()
	first.epoch = time.Now().Add(7 * time.Hour).Unix()
	if err := first.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	first.nc.Close() // killed
	f.restart(true)
	second := f.coordinator()
	second.o.Dir = first.o.Dir
	if err := second.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if second.epoch <= first.epoch {
		t.Errorf("got epoch %d after %d", second.epoch, first.epoch)
	}
}

func TestAJobBeginsThoughTheBrokerHasJustLostItsDisk(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"KV_" + locksBucket, outStream, filesStream} {
		t.Run(stream, func(t *testing.T) {
			c := newField(t).coordinator()
			if err := c.js.DeleteStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			if err := c.open(t.Context(), "job"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A broker that loses its disk while a run reads the reports that the workers of the run before have left.
func TestAJobBeginsThoughReportsAreLost(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if strings.HasPrefix(c.nc.ConnectedServerVersion(), "2.10.") {
		t.Skip("nats-server pauses consumers since 2.11, and nothing else keeps a run reading for long enough")
	}
	c.state.awaited = map[string]bool{"job/item_0/1": true}
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.js.Publish(t.Context(), outSubject("worker", c.key, "1"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.js.PauseConsumer(t.Context(), outStream, c.key, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begun := make(chan error, 1)
	go func() { begun <- c.begin(ctx) }()
	if err := c.js.DeleteStream(ctx, outStream); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Errorf("got %v, want that it begins", err)
	}
}

// A connection that breaks and is there again while the worker begins.
func TestAReconnectBeforeTheWorkerHasBegun(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		new(worker).reconnected()
		synctest.Wait()
	})
}

// While a cluster of brokers has no leader, what needs one waits.
func TestABrokerWithoutALeaderIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := &jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}
		refused := fmt.Errorf("%w: no", fleet.ErrRefused)
		for _, c := range []struct {
			name    string
			answers []error
			want    error
			after   time.Duration
		}{
			{"it has one after a moment", []error{none, nats.ErrReconnectBufExceeded, nats.ErrNoResponders, context.DeadlineExceeded, nil}, nil, 20 * time.Millisecond},
			{"it refuses", []error{none, refused}, refused, 20 * time.Millisecond},
			{"it never has one", []error{none}, none, leaderTime},
		} {
			began, n := time.Now(), 0
			err := quietCoordinator(fleet.JobOptions{}).provided(t.Context(), func(context.Context) error {
				n++
				return c.answers[min(n, len(c.answers))-1]
			})
			if took := time.Since(began); !errors.Is(err, c.want) || took < c.after || took > c.after+time.Second {
				t.Errorf("%s: got %v after %s, want %v after %s", c.name, err, took, c.want, c.after)
			}
		}
	})
}

// A coordinator that is frozen, and back when another has its job, ends what it does: what it was about is not lost, since the other goes on with it.
func TestACoordinatorThatComesBackTooLateGoes(t *testing.T) {
	f := newField(t)
	f.lease = 2 * time.Second
	first, second := f.coordinator(), f.coordinator()
	aborted := make(chan error, 1)
	onAbort(first, func(cause error) { aborted <- cause })
	if err := first.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	renew := withholdLock(t, first) // it renews nothing, and answers nothing
	first.turn(func(s *jobState) { s.gone = true })
	if err := second.open(t.Context(), "job"); err != nil {
		t.Fatalf("the lock was not renewed for a lease: %v", err)
	}
	first.turn(func(s *jobState) { s.gone = false })
	renew()
	select {
	case err := <-aborted:
		if !errors.Is(err, errTaken) {
			t.Errorf("got %v, want that it was taken over", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	// One who comes back when the job is done sees that too.
	third := f.coordinator()
	third.key, third.epoch, third.revision = "done", 1, 1
	done := f.coordinator()
	if err := done.lock(t.Context(), "done", "done"); err != nil {
		t.Fatal(err)
	}
	done.key = "done"
	if err := done.unlock(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := third.renewLock(t.Context()); !errors.Is(err, errTaken) {
		t.Errorf("got %v, want that it was taken over and done", err)
	}
	done.key, third.key = "", ""
	said, err := second.nc.SubscribeSync(jobsSubject + second.key)
	if err != nil {
		t.Fatal(err)
	}
	first.announce(false)
	if err := first.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := said.Pending(); n > 0 || err != nil {
		t.Errorf("the first still says %d times that it has the job, %v", n, err)
	}
}

// After the patience with a broker that is away, the job is stopped. A resume takes it up.
func TestABrokerThatStaysAwayPausesTheJob(t *testing.T) {
	f := newField(t)
	f.worker("a", 3, nil)
	c, of := f.config(func(o *fleet.JobOptions) { o.Patience = time.Second })
	stop, abort := context.WithCancelCause(t.Context())
	c.Stop = stop
	c.Grace = time.Hour // nobody can be told to end anything, so that nobody is waited for
	onAbort(of, abort)
	_, port, err := net.SplitHostPort(f.broker.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f.whenRunning(func() { f.broker.Shutdown(); f.broker.WaitForShutdown() })
	text := source(9, 6, twice, "")
	w, err := workflow.Parse("w.yml", []byte(text), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mapreduce.Run(t.Context(), c, w, []byte(text))
	if err != nil || r.State != jobs.Stopped || !strings.Contains(r.Reason, "broker unreachable for 1s (--broker-patience)") {
		t.Fatalf("got %s (%s), %v, want it stopped by --broker-patience", r.State, r.Reason, err)
	}
	if err := of.Close(); err != nil {
		t.Error(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	f.start(n)
	c, of = f.config(nil)
	r, err = mapreduce.Resume(t.Context(), c, r.Job)
	if err != nil {
		t.Fatal(err)
	}
	if err := of.Close(); err != nil {
		t.Error(err)
	}
	f.once(r, 9)
}

func TestAWorkerWithTheNameOfAnotherIsRefused(t *testing.T) {
	f := newField(t)
	a := f.worker("a", 1, nil)
	f.waitFor("accepts attempts", a.said.String)
	b := f.worker("a", 1, func(o *fleet.WorkerOptions) { o.Home += "-other" })
	f.waitFor("the name a is already used by a worker on ", b.said.String)
	if strings.Contains(b.said.String(), "accepts attempts") {
		t.Errorf("it accepts attempts: %s", b.said)
	}
}

// A stop that is asked for while the job is opened is not forgotten: workers read it in the entry of the job.
func TestAStopBeforeTheJobIsOpenIsInItsEntry(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]bool{"before": true, "at the same time": false} {
		t.Run(name, func(t *testing.T) {
			f := newField(t)
			c := f.coordinator()
			c.Executor(agent.Config{Seed: 1}, deafHost{})
			held := make(chan struct{})
			go func() {
				defer close(held)
				c.Hold()
			}()
			if wait {
				<-held
			}
			if err := c.open(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
			<-held
			said := new(log)
			if _, err := c.nc.Subscribe(jobsSubject+c.key, func(m *nats.Msg) { said.add(string(m.Data)) }); err != nil {
				t.Fatal(err)
			}
			c.announce(false)
			f.waitFor(`"stop":"hold"`, said.String)
		})
	}
}
