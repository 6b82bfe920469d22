package natsfleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/mask"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// field is a fleet in this process: a broker, and workers whose commands are real.
type field struct {
	t      testing.TB
	root   string
	dir    string // of fleet init; empty: the broker takes everybody
	broker testBroker
	lease  time.Duration
	doing  sync.WaitGroup // what happens while a job runs
}

func newField(t *testing.T) *field {
	t.Helper()
	t.Parallel() // most of the time they wait
	return newFieldOf(t)
}

func newFieldOf(t testing.TB) *field {
	t.Helper()
	f := &field{t: t, root: t.TempDir(), lease: 4 * time.Second}
	f.start(freePort(t))
	t.Cleanup(func() { f.doing.Wait(); f.broker.Shutdown(); f.broker.WaitForShutdown() })
	return f
}

// ports are those of the last test and those before it. None is used twice: the broker of the other test may just be away.
var ports atomic.Int32

func init() { ports.Store(10_000 + rand.Int32N(15_000)) }

// freePort returns a port that nobody listens on, and that the system gives to no connection: a broker that was restarted would not have its port again.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := ports.Add(1)
		if canListen(fmt.Sprintf("127.0.0.1:%d", port)) == nil {
			return int(port)
		}
	}
	t.Fatal("no port is free")
	return 0
}

// start starts the broker on its store.
func (f *field) start(port int) {
	f.t.Helper()
	store := filepath.Join(f.root, "store")
	if *natsServer != "" {
		f.broker = f.startStock(port, "--jetstream", "--store_dir", store)
		return
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for until := time.Now().Add(time.Minute); canListen(address) != nil && time.Now().Before(until); {
		time.Sleep(time.Millisecond) // a command that just starts has the port of the broker before until it runs its program
	}
	s, err := startBroker(fleet.BrokerOptions{Listen: address, Store: store})
	if err != nil {
		panic(err) // the job of a test whose broker is not started again would wait for ever
	}
	f.broker = s
}

// address returns where the broker is; empty: the test has several, and says so itself.
func (f *field) address() fleet.Address {
	if f.broker == nil {
		return fleet.Address{}
	}
	return fleet.Address{URL: f.broker.ClientURL()}
}

// member is a worker of a field.
type member struct {
	drain, kill context.CancelFunc
	done        chan struct{}
	said        *log
}

type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(text + "\n")
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// worker starts a worker and waits until it has said that it is there.
func (f *field) worker(name string, slots int, change func(*fleet.WorkerOptions)) *member {
	f.t.Helper()
	drain, ask := context.WithCancel(context.Background())
	ctx, kill := context.WithCancel(context.Background())
	m := &member{drain: ask, kill: kill, done: make(chan struct{}), said: new(log)}
	o := fleet.WorkerOptions{
		Machine: limit.MachineNow,
		Address: f.address(), Version: "test", Name: name, Slots: slots, Home: filepath.Join(f.root, name), Environ: os.Environ(), Grace: time.Second,
		Say: m.said.add, Drain: drain,
	}
	if change != nil {
		change(&o)
	}
	go func() {
		defer close(m.done)
		if err := (Backend{}).Work(ctx, o); err != nil {
			m.said.add(err.Error())
		}
	}()
	f.t.Cleanup(func() {
		kill()
		select {
		case <-m.done:
		case <-time.After(time.Minute):
			f.t.Errorf("worker %s does not end", name)
		}
	})
	return m
}

// config returns how a job is run on the fleet, and what closes its part of it.
func (f *field) config(change func(*fleet.JobOptions)) (mapreduce.Config, fleet.Coordinator) {
	f.t.Helper()
	o := fleet.JobOptions{
		Address: f.address(), Version: "test", Lease: f.lease, Dir: f.root,
		Notice: func(text string) { f.t.Log("notice: " + text) }, Abort: func(error) {},
	}
	if change != nil {
		change(&o)
	}
	c, err := (Backend{}).Join(f.t.Context(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	c.(*coordinator).host = deafHost{} // the monitor of one that runs no job tells it when the broker is away
	return mapreduce.Config{
		Home: jobs.Home{Root: filepath.Join(f.root, "home")}, Dir: f.root, Environ: os.Environ(), Version: "test",
		MaxRetries:  3,
		EndConfig:   mapreduce.EndConfig{Grace: time.Second},
		FleetConfig: mapreduce.FleetConfig{Executor: c.Executor, OnFleet: true},
		Hooks:       mapreduce.Hooks{Observe: c.Persisted},
		LogConfig:   job.LogConfig{Durability: events.Batch},
	}, c
}

// quietCoordinator returns a coordinator that is not connected, and tells nobody anything.
func quietCoordinator(o fleet.JobOptions) *coordinator {
	o.Notice, o.Abort = func(string) {}, func(error) {}
	return newCoordinator(o)
}

// onNotice has another function take the messages for people.
func onNotice(c fleet.Coordinator, notice func(string)) {
	of := c.(*coordinator)
	of.turn(func(*jobState) { of.o.Notice = notice })
}

// onAbort has another function stop the run.
func onAbort(c fleet.Coordinator, stop func(error)) {
	of := c.(*coordinator)
	of.turn(func(*jobState) { of.o.Abort = stop })
}

// run runs a workflow to its end.
func (f *field) run(source string, change func(*mapreduce.Config)) mapreduce.Result {
	f.t.Helper()
	c, coordinator := f.config(nil)
	if change != nil {
		change(&c)
	}
	r, err := f.runWith(c, coordinator, source)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// runWith runs a workflow as it is configured, waits for what a test does meanwhile, and closes the coordinator.
func (f *field) runWith(c mapreduce.Config, coordinator fleet.Coordinator, source string) (mapreduce.Result, error) {
	f.t.Helper()
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := mapreduce.Run(f.t.Context(), c, w, []byte(source))
	f.doing.Wait()
	if err := coordinator.Close(); err != nil {
		f.t.Error(err)
	}
	return r, err
}

func recordsOf(t *testing.T, place jobs.Job) []events.Record {
	t.Helper()
	var all []events.Record
	for r, err := range events.Read(place.EventsDir()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// source returns a workflow over the numbers from 1 to n, whose command is a script.
func source(n, slots int, script, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: w\nmode: mapreduce\n%smap:\n  max_parallel: %d\n  input: [", more, slots)
	for i := range n {
		fmt.Fprintf(&b, "%d,", i+1)
	}
	fmt.Fprintf(&b, "]\n  agent_template:\n    - shell: |\n        %s\n", strings.ReplaceAll(script, "\n", "\n        "))
	return b.String()
}

// Items run on both workers, and all that happens in them is known here as if they had run here.
func TestAJobRunsOnTwoWorkers(t *testing.T) {
	f := newField(t)
	f.worker("a", 3, nil)
	f.worker("b", 3, nil)
	r := f.run(source(40, 8, `echo "ran ${item} in $PRODIGY_WORKER_ID"; sleep 0.05; [ ${item} != 7 ]`, ""), nil)
	if r.State != jobs.Completed || r.Metrics.Successful != 39 || r.Metrics.Failed != 1 {
		t.Fatalf("got %s (%s) with %+v, want 39 successful and one failed", r.State, r.Reason, r.Metrics)
	}
	nodes, outputs := map[string]int{}, 0
	for _, rec := range recordsOf(t, r.Job) {
		switch e := rec.Event.(type) {
		case events.AgentCompleted:
			nodes[e.Node]++
			if want := fmt.Sprintf(" in %d", e.Slot); !strings.Contains(e.Output, want) {
				t.Errorf("%s: slot %d, and it said %q", e.ItemID, e.Slot, e.Output)
			}
			if strings.HasPrefix(e.Output, "ran ") && e.Outputs != nil {
				outputs++
			}
		case events.AgentFailed:
			nodes[e.Node]++
		}
	}
	if nodes["a"]+nodes["b"] != 40 || nodes["a"] == 0 || nodes["b"] == 0 || outputs != 39 {
		t.Errorf("got %v and %d outputs, want 40 on both, and 39", nodes, outputs)
	}
	js := connected(t, f)
	if info := streamInfo(t, js, outStream); info.Msgs != 0 || info.Consumers != 0 {
		t.Errorf("%d messages and %d consumers are left", info.Msgs, info.Consumers)
	}
	if left, _ := filepath.Glob(filepath.Join(f.root, ".prodigy-fleet-*")); len(left) > 0 {
		t.Errorf("left in the directory of the run: %v", left)
	}
}

func TestRetriesBreakersCapturesAndSecretsWorkOnWorkers(t *testing.T) {
	f := newField(t)
	f.worker("a", 2, nil)
	const secret = "s3cr3t-of-the-fleet"
	r := f.run(`mode: mapreduce
env: {SHELL_TOKEN: {secret: true, value: `+secret+`}}
setup:
  - shell: echo "from setup"
    capture: prepared
map:
  max_parallel: 4
  input: [1, 2, 3, 4]
  agent_template:
    - shell: |
        n=$(cat tries-${item} 2>/dev/null || echo 0); echo $((n+1)) > tries-${item}
        [ "$n" -ge 2 ] || { echo "connection refused" >&2; exit 1; }
        echo "${prepared}: $SHELL_TOKEN"
      retry_config: {attempts: 5, initial_delay: 200ms, backoff: fixed, circuit_breaker: {failure_threshold: 100}}
      capture: said
    - shell: |
        test "${said}" = "from setup: $SHELL_TOKEN"
`, func(c *mapreduce.Config) {
		c.Settings = settings.Settings{Env: []workflow.EnvVar{{Name: "SHELL_TOKEN", Secret: true}}, Secrets: map[string]string{"SHELL_TOKEN": secret}, Mask: mask.New([]string{secret})}
	})
	if r.State != jobs.Completed || r.Metrics.Successful != 4 {
		t.Fatalf("got %s (%s) with %+v, want 4 successful", r.State, r.Reason, r.Metrics)
	}
	retries := 0
	for _, rec := range recordsOf(t, r.Job) {
		if _, ok := rec.Event.(events.StepRetrying); ok {
			retries++
		}
	}
	if retries != 8 {
		t.Errorf("got %d retries, want 8", retries)
	}
	f.broker.Shutdown()
	f.broker.WaitForShutdown()
	_ = filepath.WalkDir(filepath.Join(f.root, "store"), func(path string, d os.DirEntry, err error) error {
		if data, readErr := os.ReadFile(path); err == nil && readErr == nil && strings.Contains(string(data), secret) {
			t.Errorf("%s has the secret", path)
		}
		return nil
	})
}

// What is too large for a message goes by other ways.
func TestLargeItemsAndOutputsArrive(t *testing.T) {
	f := newField(t)
	f.worker("a", 2, nil)
	big := strings.Repeat("x", 600<<10)
	r := f.run("mode: mapreduce\nmap:\n  input: [\""+big+"\", \"small\"]\n  agent_template:\n    - shell: 'wc -c < \"$PRODIGY_ITEM_FILE\"; head -c 700000 /dev/zero | tr \"\\\\0\" y'\n      capture: all\n", nil)
	if r.State != jobs.Completed || r.Metrics.Successful != 2 {
		t.Fatalf("got %s (%s) with %+v, want 2 successful", r.State, r.Reason, r.Metrics)
	}
	for _, rec := range recordsOf(t, r.Job) {
		if e, ok := rec.Event.(events.AgentCompleted); ok && len(e.Captured["all"]) < 700000 {
			t.Errorf("%s: captured %d bytes, want 700,000", e.ItemID, len(e.Captured["all"]))
		}
	}
}
