package natsfleet

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
)

// cluster is a field with three brokers of what fleet init makes. Each is a process, so that it can be killed.
type cluster struct {
	*field
	brokers map[string]*os.Process // by the name of the server
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("starts brokers, and waits until they have leaders")
	}
	c := &cluster{&field{t: t, root: t.TempDir(), lease: time.Minute}, map[string]*os.Process{}}
	c.dir = filepath.Join(c.root, "fleet")
	var hosts []string
	for range clusterSize {
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	}
	if _, err := (Backend{}).Init(fleet.InitOptions{Dir: c.dir, Hosts: hosts}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	list, err := brokersOf(fleet.InitOptions{Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		cmd := &exec.Cmd{
			Path: self, Args: []string{"prodigy", "broker", "--dir", "."}, Env: append(os.Environ(), "PRODIGY_HOME="+c.root),
			Dir: filepath.Join(c.dir, b.dir),
		}
		if *natsServer != "" {
			cmd.Path, cmd.Args = *natsServer, []string{"nats-server", "--config", "nats.conf"}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		c.brokers[hostPort(b.host, b.port)] = cmd.Process
	}
	if !eventually(func() bool {
		h, err := connect(t.Context(), c.as("coordinator.yml"), "test", ensureStreams, func() {})
		if err == nil {
			h.nc.Close()
		}
		return err == nil
	}) {
		t.Fatal("the brokers are not ready")
	}
	return c
}

// A cluster keeps each message three times, and a job goes on when one of its brokers dies: also the one that the run is connected to.
func TestABrokerOfAClusterDies(t *testing.T) {
	t.Parallel()
	streams := []string{outStream, "KV_" + locksBucket, filesStream}
	for name, victim := range map[string]func(*coordinator) string{
		"that the run is connected to": func(c *coordinator) string { return c.nc.ConnectedServerName() },
		"that leads a stream": func(c *coordinator) string {
			s, err := c.js.Stream(t.Context(), outStream)
			if err != nil {
				t.Error(err)
				return ""
			}
			return s.CachedInfo().Cluster.Leader
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCluster(t)
			for _, name := range []string{"a", "b"} {
				f.worker(name, 3, func(o *fleet.WorkerOptions) { o.Address = f.as("worker.yml") })
			}
			c, of := f.config(func(o *fleet.JobOptions) { o.Address = f.as("coordinator.yml") })
			run := of.(*coordinator)
			for _, name := range streams {
				s, err := run.js.Stream(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if info := s.CachedInfo(); info.Config.Replicas != clusterSize {
					t.Errorf("%s is kept %d times, want %d", name, info.Config.Replicas, clusterSize)
				}
			}
			f.whenRunning(func() {
				if b := f.brokers[victim(run)]; b == nil || b.Kill() != nil {
					t.Error("no broker was killed")
				}
			})
			r, err := f.runWith(c, of, source(40, 6, twice, ""))
			if err != nil {
				t.Fatal(err)
			}
			f.once(r, 40)
			for _, rec := range recordsOf(t, r.Job) {
				if e, ok := rec.Event.(events.AgentLost); ok {
					t.Errorf("got %+v, want nothing lost", e)
				}
			}
		})
	}
}

// cutOff has a coordinator know a worker of one slot, which is only a connection here, and then no broker that answers what needs a leader. It returns what
// the worker is sent.
func cutOff(f *field, c *coordinator) chan fleet.CoordinatorMessage {
	f.t.Helper()
	sent := make(chan fleet.CoordinatorMessage, 10)
	h, err := connect(f.t.Context(), f.address(), "test", responsive, func() {})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(h.nc.Close)
	instance := h.instance()
	if _, err := h.nc.Subscribe(downSubject(instance), func(m *nats.Msg) {
		var d fleet.CoordinatorMessage
		if err := json.Unmarshal(m.Data, &d); err != nil {
			f.t.Error(err)
		}
		sent <- d
	}); err != nil {
		f.t.Fatal(err)
	}
	if err := c.open(f.t.Context(), "job"); err != nil {
		f.t.Fatal(err)
	}
	u := fleet.WorkerMessage{V: fleet.Protocol, Owner: c.owner, WorkerStatus: fleet.WorkerStatus{Instance: instance, Node: "w", Round: 1, Credit: 1, Slots: 1, Full: true}}
	if err := h.nc.Publish(upSubject(instance, c.key), encoded(u)); err != nil {
		f.t.Fatal(err)
	}
	if !eventually(func() (knows bool) {
		c.turn(func(s *jobState) { knows = s.ledger.Knows(instance) })
		return knows
	}) {
		f.t.Fatal("the worker is not known")
	}
	withholdLock(f.t, c) // nobody answers
	return sent
}

// withholdLock keeps a coordinator from renewing its lock until the function that it returns is called, or the test
// ends: one that has failed must not wait for the coordinator, which waits for its lock.
func withholdLock(t testing.TB, c *coordinator) (giveBack func()) {
	c.locking.Lock()
	giveBack = sync.OnceFunc(c.locking.Unlock)
	t.Cleanup(giveBack)
	return giveBack
}

// next returns the next message.
func next(t *testing.T, sent chan fleet.CoordinatorMessage) fleet.CoordinatorMessage {
	t.Helper()
	select {
	case d := <-sent:
		return d
	case <-time.After(time.Minute):
		t.Fatal("the worker is sent nothing")
		return fleet.CoordinatorMessage{}
	}
}

func submit(t *testing.T, c *coordinator, a *agent.Attempt) {
	c.Submit(t.Context(), a, func(*agent.Attempt, agent.Outcome, error) {})
}

// A cluster takes some seconds to elect leaders. Attempts need none of them.
func TestAttemptsAreGivenOutWithoutALeader(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	sent := cutOff(f, c)
	if err := c.js.DeleteConsumer(t.Context(), outStream, c.key); err != nil {
		t.Fatal(err)
	}
	go c.reconcile(c.life)
	if !eventually(func() bool { _, err := c.js.Consumer(t.Context(), outStream, c.key); return err == nil }) {
		t.Fatal("the consumer is not made again")
	}
	go submit(t, c, attemptAt(f, 1, "true"))
	if d := next(t, sent); len(d.Tasks) != 1 {
		t.Errorf("got %+v, want the attempt", d)
	}
}

// What was on the way to a worker when the connection broke is asked for at once, and not when it has been missing for long.
func TestWorkersRepeatAllAfterAReconnect(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	sent := cutOff(f, c)
	submit(t, c, attemptAt(f, 1, "true"))
	if d := next(t, sent); len(d.Tasks) != 1 { // it is lost: the worker does not say that it has it
		t.Fatalf("got %+v, want the attempt", d)
	}
	c.reconnected()
	if d := next(t, sent); !d.Again {
		t.Errorf("got %+v, want that it is to say everything again", d)
	}
}
