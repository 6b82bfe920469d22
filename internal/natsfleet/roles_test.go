package natsfleet

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mask"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// securedField is a field whose broker and credentials fleet init has made.
func securedField(t *testing.T, workers ...string) *field {
	t.Helper()
	f := &field{t: t, root: t.TempDir(), lease: 4 * time.Second}
	f.dir = filepath.Join(f.root, "fleet")
	if _, err := (Backend{}).Init(fleet.InitOptions{Dir: f.dir, Hosts: []string{"127.0.0.1"}, Port: freePort(t), Workers: workers}); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(f.dir, "broker"))
	f.restartFrom("nats.conf")
	t.Cleanup(func() { f.doing.Wait(); f.broker.Shutdown(); f.broker.WaitForShutdown() })
	return f
}

func (f *field) restartFrom(config string) {
	f.t.Helper()
	if *natsServer != "" {
		f.broker = f.startStock(0, "--config", config)
		return
	}
	var s *server.Server
	var err error
	if !eventually(func() bool { // a command that just starts has the port of the broker before until it runs its program
		s, err = startBroker(fleet.BrokerOptions{Config: config, Insecure: f.dir == ""})
		return err == nil
	}) {
		f.t.Fatal(err)
	}
	f.broker = s
}

// reload has the broker read its configuration again.
func (f *field) reload() {
	f.t.Helper()
	if s, ok := f.broker.(*stock); ok {
		s.reload(f)
		return
	}
	config, err := brokerConfig(fleet.BrokerOptions{Config: "nats.conf"})
	if err == nil {
		err = f.embedded().ReloadOptions(config)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// as returns the address that the credentials in a file of the fleet give.
func (f *field) as(file string) fleet.Address {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, file))
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := fleet.ParseCredentials(data)
	if err != nil {
		f.t.Fatal(err)
	}
	return fleet.Address{URL: c.URL, Credentials: c}
}

// Coordinator and workers can do all of their work with what their roles allow: secrets, large items and outputs, retries, and a worker that is added later.
func TestRolesAllowAllThatIsNeeded(t *testing.T) {
	f := securedField(t, "a")
	a := f.worker("a", 2, func(o *fleet.WorkerOptions) { o.Address = f.as("worker-a.yml") })
	f.waitFor("accepts attempts", a.said.String)
	files, err := (Backend{}).Add(f.dir, fleet.WorkerRole, "late")
	if err != nil || len(files) != 2 {
		t.Fatalf("added %v, %v, want the credentials and the users", files, err)
	}
	f.reload()
	late := f.worker("late", 2, func(o *fleet.WorkerOptions) { o.Address = f.as("worker-late.yml") })

	const secret = "s3cr3t-of-the-fleet"
	big := strings.Repeat("x", 300<<10)
	if err := os.WriteFile(filepath.Join(f.root, "in.txt"), []byte("sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, of := f.config(func(o *fleet.JobOptions) {
		o.Address, o.Files, o.Produces = f.as("coordinator.yml"), []string{"in.txt"}, []workflow.Text{{Value: "made"}}
	})
	c.Settings = settings.Settings{Env: []workflow.EnvVar{{Name: "SHELL_TOKEN", Secret: true}}, Secrets: map[string]string{"SHELL_TOKEN": secret}, Mask: mask.New([]string{secret})}
	text := `mode: mapreduce
env: {SHELL_TOKEN: {secret: true, value: ` + secret + `}}
map:
  max_parallel: 4
  input: [1, 2, 3, 4, 5, 6, 7, "` + big + `"]
  agent_template:
    - shell: |
        sleep 0.2
        cp in.txt made-${item_index}
        mv made-${item_index} made
        test "$SHELL_TOKEN" = "s3cr3t-of""-the-fleet"
        head -c 300000 /dev/zero | tr '\0' y
      capture: all
      retry_config: {attempts: 2, circuit_breaker: {failure_threshold: 100}}
`
	r, err := f.runWith(c, of, text)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != jobs.Completed || r.Metrics.Successful != 8 {
		t.Fatalf("got %s (%s) with %+v, want 8 successful", r.State, r.Reason, r.Metrics)
	}
	if data, err := os.ReadFile(filepath.Join(f.root, "made")); err != nil || string(data) != "sent" {
		t.Errorf("made: %q, %v, want what was sent", data, err)
	}
	nodes, err := (Backend{}).Nodes(t.Context(), f.as("observer.yml"))
	if err != nil || len(nodes) != 2 {
		t.Errorf("the observer sees %+v, %v, want two workers: %s, %s", nodes, err, a.said, late.said)
	}
	if n, err := (Backend{}).Drain(t.Context(), f.as("coordinator.yml"), "a"); n != 1 || err != nil {
		t.Errorf("drained %d, %v, want 1", n, err)
	}
	if err := context.Cause(of.(*coordinator).denied); err != nil {
		t.Errorf("the coordinator was refused something: %v", err)
	}
	for _, m := range []*member{a, late} {
		if strings.Contains(m.said.String(), "ermission") {
			t.Errorf("a worker was refused something: %s", m.said)
		}
	}
}

// What a broker has acknowledged outlives a power failure.
func TestTheBrokerOfInitSyncs(t *testing.T) {
	dir := t.TempDir()
	if _, err := (Backend{}).Init(fleet.InitOptions{Dir: dir, Hosts: []string{"127.0.0.1"}, Port: 4222}); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "broker"))
	config, err := brokerConfig(fleet.BrokerOptions{Config: "nats.conf"})
	if err != nil || !config.SyncAlways {
		t.Errorf("it does not sync each message: %v", err)
	}
}

func publish(subject string) func(h *brokerConn) error {
	return func(h *brokerConn) error { return h.nc.PublishRequest(subject, h.nc.NewInbox(), nil) }
}

func subscribe(subject string) func(h *brokerConn) error {
	return func(h *brokerConn) error {
		_, err := h.nc.Subscribe(subject, func(*nats.Msg) {})
		return err
	}
}

// A worker is believed to have the name that its credentials were made for, and no other. Those without a name may
// have any.
func TestAWorkerHasTheNameOfItsCredentials(t *testing.T) {
	f := securedField(t, "desk", "attic")
	if _, err := (Backend{}).Add(f.dir, fleet.WorkerRole, "any"); err != nil {
		t.Fatal(err)
	}
	f.reload()
	c := quietCoordinator(fleet.JobOptions{Address: f.as("coordinator.yml")})
	signer, err := newSigner(c.o.Sign)
	if err != nil {
		t.Fatal(err)
	}
	desk, attic := f.as("worker-desk.yml"), f.as("worker-attic.yml")
	id := func(a fleet.Address) string {
		h, err := connect(t.Context(), a, "test", responsive, func() {})
		if err != nil {
			t.Fatal(err)
		}
		h.nc.Close()
		return h.id
	}
	other := keyPair(nkeys.CreateUser)
	called := id(attic) + "-called"
	c.keep(called+"-1", callArgs{}, func() {})
	for _, one := range []struct {
		what, id, name, sig string
		want                bool
	}{
		{"none is signed", id(desk), "desk", "", false},
		{"no signature", id(desk), "desk", "?", false},
		{"its own", id(desk), "desk", desk.NameSig, true},
		{"that of another", id(desk), "attic", desk.NameSig, false},
		{"that of another, with its signature", id(desk), "attic", attic.NameSig, false},
		{"any", other.public, "attic", signer.name(other.public, ""), true},
		{"no name, of one that has only called", called, "", "", false},
		{"without credentials", newInstance(), "attic", "", true}, // the broker lets it in
	} {
		for range 2 {
			if got := c.isNamed(one.id+"-1", one.name, one.sig); got != one.want {
				t.Errorf("%s: it is believed: %v, want %v", one.what, got, one.want)
			}
		}
	}
	c.o.Names = "" // of a fleet whose names nobody has signed
	if !c.isNamed(id(desk)+"-1", "attic", "") {
		t.Error("a worker of an older fleet is not believed")
	}

	_, joined := f.config(func(o *fleet.JobOptions) { o.Address = f.as("coordinator.yml") })
	of, said := joined.(*coordinator), new(log)
	onNotice(of, said.add)
	if err := of.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if err := of.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := connect(t.Context(), desk, "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	u := fleet.WorkerMessage{V: fleet.Protocol, Owner: of.owner, NameSig: desk.NameSig, WorkerStatus: fleet.WorkerStatus{Instance: h.instance(), Node: "attic", Round: 1, Credit: 1, Slots: 1, Full: true}}
	if err := h.nc.Publish(upSubject(u.Instance, of.key), encoded(u)); err != nil {
		t.Fatal(err)
	}
	f.waitFor("worker attic cannot join: its credentials are for another name", said.String)
	of.turn(func(s *jobState) {
		if s.ledger.Knows(u.Instance) || of.members.present[u.Instance] {
			t.Error("it takes part")
		}
	})
	if err := of.Close(); err != nil {
		t.Error(err)
	}
}

// What is not of a role the broker refuses, whatever program asks.
func TestRolesRefuseAllElse(t *testing.T) {
	f := securedField(t, "a", "b")
	b, err := connect(t.Context(), f.as("worker-b.yml"), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer b.nc.Close()
	coordinator, err := connect(t.Context(), f.as("coordinator.yml"), "test", ensureStreams, func() {})
	if err != nil {
		t.Fatal(err)
	}
	coordinator.nc.Close()
	for _, c := range []struct {
		file string
		do   func(h *brokerConn) error
	}{
		{"worker-a.yml", publish(downSubject(b.instance()))},
		{"worker-a.yml", publish(jobsSubject + "job")},
		{"worker-a.yml", subscribe(helloSubject)},
		{"worker-a.yml", publish(outSubject(b.instance(), "job", "1"))},
		{"worker-a.yml", publish(upSubject(b.instance(), "job"))},
		{"worker-a.yml", publish(callSubject(b.instance(), "job"))},
		{"worker-a.yml", publish(liveSubject(b.instance(), "job"))},
		{"worker-a.yml", subscribe(downSubject(b.instance()))},
		{"worker-a.yml", publish("prodigy.drain")},
		{"worker-a.yml", subscribe(nameSubject("b"))},
		{"worker-a.yml", publish("$JS.API.STREAM.CREATE.PRODIGY_MINE")},
		{"worker-a.yml", publish("$JS.API.STREAM.DELETE." + outStream)},
		{"worker-a.yml", publish("$JS.API.STREAM.PURGE." + outStream)},
		{"worker-a.yml", publish("$JS.API.CONSUMER.CREATE." + outStream + ".mine")},
		{"worker-a.yml", publish("$JS.API.CONSUMER.DELETE." + outStream + ".job")},
		{"worker-a.yml", subscribe("prodigy.>")},
		{"worker-a.yml", subscribe("prodigy.ask.>")},
		{"worker-a.yml", subscribe("_INBOX.>")},
		{"worker-a.yml", subscribe(inboxOf(b.id) + ".>")},
		{"worker-a.yml", subscribe("$JS.API.>")},
		{"coordinator.yml", publish(outSubject(b.instance(), "job", "1"))},
		{"coordinator.yml", publish("$JS.API.STREAM.DELETE." + outStream)},
		{"coordinator.yml", subscribe(inboxOf(b.id) + ".>")},
		{"observer.yml", publish(downSubject(b.instance()))},
		{"observer.yml", publish("prodigy.drain")},
		{"observer.yml", publish("$JS.API.INFO")},
		{"observer.yml", publish("$JS.API.STREAM.CREATE." + outStream)},
		{"observer.yml", publish(jobsSubject + "job")},
		{"observer.yml", subscribe(jobsSubject + ">")},
		{"observer.yml", publish("prodigy.ask.job.call." + b.id)},
		{"observer.yml", subscribe("prodigy.down.>")},
		{"observer.yml", subscribe("$KV.>")},
	} {
		h, err := connect(t.Context(), f.as(c.file), "test", func(_ context.Context, h *brokerConn) error { return c.do(h) }, func() {})
		if err == nil {
			select {
			case <-h.denied.Done():
			case <-time.After(time.Minute):
				t.Errorf("%s may do what it must not", c.file)
			}
			h.nc.Close()
		}
	}
	plain := f.as("worker-a.yml")
	plain.Seed = ""
	if _, err := connect(t.Context(), plain, "test", responsive, func() {}); err == nil {
		t.Error("somebody without a key was let in")
	}
	strange := f.as("worker-a.yml")
	k := keyPair(nkeys.CreateUser)
	strange.Seed = k.seed
	if _, err := connect(t.Context(), strange, "test", responsive, func() {}); err == nil {
		t.Error("somebody with an unknown key was let in")
	}
	other := f.as("worker-a.yml")
	other.CAPEM = ""
	if _, err := connect(t.Context(), other, "test", responsive, func() {}); err == nil {
		t.Error("a broker with a certificate of nobody known was believed")
	}

	removed := f.as("worker-a.yml")
	if files, err := (Backend{}).Remove(f.dir, fleet.WorkerRole, "a"); err != nil || len(files) != 2 {
		t.Fatalf("removed %q, %v, want the credentials and the entry of the users", files, err)
	}
	f.reload()
	if _, err := connect(t.Context(), removed, "test", responsive, func() {}); err == nil {
		t.Error("somebody who was locked out was let in")
	}
	still, err := connect(t.Context(), f.as("worker-b.yml"), "test", responsive, func() {})
	if err != nil {
		t.Fatalf("another was locked out: %v", err)
	}
	still.nc.Close()
}

// A worker whose broker is away says so, and why if it knows: else nobody would know why it does nothing.
func TestAWorkerSaysThatItHasNoBroker(t *testing.T) {
	f := securedField(t, "a", "b")
	of := func(name string) func(*fleet.WorkerOptions) {
		return func(o *fleet.WorkerOptions) { o.Address = f.as("worker-" + name + ".yml") }
	}
	a, b := f.worker("a", 1, of("a")), f.worker("b", 1, of("b"))
	f.waitFor("accepts attempts", a.said.String)
	f.waitFor("accepts attempts", b.said.String)
	if _, err := (Backend{}).Remove(f.dir, fleet.WorkerRole, "a"); err != nil {
		t.Fatal(err)
	}
	f.reload()
	f.waitFor("the broker rejects worker a", a.said.String)
	f.broker.Shutdown()
	f.broker.WaitForShutdown()
	f.waitFor("broker unreachable: no new items start until it is back", b.said.String)
	f.restartFrom("nats.conf")
	f.waitFor("the broker is back", b.said.String)
}

// Whoever may read a stream may have the broker deliver it to any subject, as if somebody had said it there. Nobody believes that, whether or not there is
// a coordinator to be trusted.
func TestWhatAStreamDeliversIsNotBelieved(t *testing.T) {
	f := securedField(t, "a", "b")
	b := f.worker("b", 2, func(o *fleet.WorkerOptions) {
		o.Address = f.as("worker-b.yml")
		o.Address.Trust = nil
	})
	f.waitFor("accepts attempts", b.said.String)
	c, coordinator := f.config(func(o *fleet.JobOptions) { o.Address = f.as("coordinator.yml") })
	nodes, err := (Backend{}).Nodes(t.Context(), f.as("observer.yml"))
	if err != nil || len(nodes) != 1 {
		t.Fatalf("got %+v, %v, want one worker", nodes, err)
	}
	a, err := connect(t.Context(), f.as("worker-a.yml"), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer a.nc.Close()
	heard := make(chan *nats.Msg, 100)
	victim, err := connect(t.Context(), f.as("worker-b.yml"), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer victim.nc.Close()
	if _, err := victim.nc.ChanSubscribe(downSubject(nodes[0].Instance), heard); err != nil {
		t.Fatal(err)
	}
	inject := func(name, subject string, data []byte) {
		object := "$O." + filesStore + ".C." + name
		if _, err := a.js.Publish(t.Context(), object, data); err != nil {
			t.Error(err)
		}
		request := map[string]any{"stream_name": "OBJ_" + filesStore, "config": map[string]any{
			"name": name, "deliver_subject": subject, "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant", "filter_subject": object, "mem_storage": true, "inactive_threshold": int64(time.Minute),
		}}
		m, err := a.nc.Request("$JS.API.CONSUMER.CREATE.OBJ_"+filesStore+"."+name+"."+object, encoded(request), 5*time.Second)
		if err != nil {
			t.Error(err)
		} else if strings.Contains(string(m.Data), `"error"`) {
			t.Errorf("the consumer was not made: %s", m.Data)
		}
	}
	f.doing.Go(func() {
		f.untilRunning(2)
		said, err := a.nc.SubscribeSync(jobsSubject + ">")
		if err == nil {
			err = a.nc.Publish(helloSubject, nil)
		}
		var entry *nats.Msg
		if err == nil {
			entry, err = said.NextMsg(time.Minute)
		}
		if err != nil {
			t.Error(err)
			return
		}
		key := strings.TrimPrefix(entry.Subject, jobsSubject)
		var j fleet.Job
		if err := json.Unmarshal(entry.Data, &j); err != nil {
			t.Error(err)
		}
		over := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}
		inject("down", downSubject(nodes[0].Instance), encoded(fleet.CoordinatorMessage{Key: key, Owner: j.Owner, Orders: fleet.Orders{Over: over}}))
		inject("up", upSubject(nodes[0].Instance, key), encoded(fleet.WorkerMessage{V: fleet.Protocol, Owner: j.Owner, WorkerStatus: fleet.WorkerStatus{Instance: nodes[0].Instance, Node: "b", Full: true, Gone: true}}))
	})
	text := source(4, 2, "echo run >> runs-${item}; sleep 1", "")
	r, err := f.runWith(c, coordinator, text)
	if err != nil {
		t.Fatal(err)
	}
	f.once(r, 4)
	delivered := false
	for len(heard) > 0 {
		m := <-heard
		delivered = delivered || strings.HasPrefix(m.Reply, "$JS.")
	}
	if !delivered {
		t.Error("the broker has delivered nothing: what is tested here does not happen")
	}
}
