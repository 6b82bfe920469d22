package natsfleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
)

func TestOnlyWhatATrustedKeyHasSignedIsBelieved(t *testing.T) {
	mine := keyPair(nkeys.CreateAccount)
	other := keyPair(nkeys.CreateAccount)
	believes, err := newTrust([]string{mine.public})
	if err != nil {
		t.Fatal(err)
	}
	signerOf := func(seed string) *signer {
		s, err := newSigner(seed)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	me, body := signerOf(mine.seed), []byte("body")
	for name, c := range map[string]struct {
		g           signature
		kind, about string
		body        string
		want        error
	}{
		"as it is":               {me.sign(signedDown, "a", body), signedDown, "a", "body", nil},
		"without a signature":    {signerOf("").sign(signedDown, "a", body), signedDown, "a", "body", errUnsigned},
		"of another key":         {signerOf(other.seed).sign(signedDown, "a", body), signedDown, "a", "body", errStranger},
		"altered":                {me.sign(signedDown, "a", body), signedDown, "a", "bodY", errForged},
		"about something else":   {me.sign(signedDown, "a", body), signedDown, "b", "body", errForged},
		"of another kind":        {me.sign(signedDown, "a", body), signedAnswer, "a", "body", errForged},
		"by another's name":      {signature{mine.public, signerOf(other.seed).sign(signedDown, "a", body).sig}, signedDown, "a", "body", errForged},
		"with nothing signed":    {signature{mine.public, ""}, signedDown, "a", "body", errForged},
		"with words moved along": {me.sign(signedDown, "ab", body), signedDown, "a", "bbody", errForged},
	} {
		if err := believes.check(c.g, c.kind, c.about, []byte(c.body)); err != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if err := (trust{}).check(signature{}, signedDown, "a", body); err != nil {
		t.Errorf("got %v: who trusts nobody in particular believes all", err)
	}
	user := keyPair(nkeys.CreateUser)
	if _, err := newSigner(user.seed); err == nil {
		t.Error("a key for the broker signs jobs: a broker could have it sign one")
	}
	if _, err := newTrust([]string{user.public}); err == nil {
		t.Error("a key for the broker is trusted")
	}
}

// stranger is somebody who may do all at the broker, and has no key that is trusted.
func (f *field) stranger() *brokerConn {
	f.t.Helper()
	h, err := connect(f.t.Context(), f.address(), "stranger", ensureStreams, func() {})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(h.nc.Close)
	return h
}

// signing returns the keys of a coordinator that signs, and a change of a worker that trusts it.
func signing(t *testing.T) (seed string, trusting func(*fleet.WorkerOptions)) {
	t.Helper()
	k := keyPair(nkeys.CreateAccount)
	return k.seed, func(o *fleet.WorkerOptions) { o.Trust = []string{k.public} }
}

// waitFor waits until somebody has said something.
func (f *field) waitFor(what string, said func() string) {
	f.t.Helper()
	if !eventually(func() bool { return strings.Contains(said(), what) }) {
		f.t.Errorf("nobody says %q, but %s", what, said())
	}
}

// A job that nobody has signed runs on no worker that trusts somebody, and both sides say so.
func TestAJobThatIsNotSignedIsRefused(t *testing.T) {
	f := newField(t)
	_, trusting := signing(t)
	a := f.worker("a", 2, trusting)
	c, coordinator := f.config(nil)
	told := new(log)
	onNotice(coordinator, told.add)
	stop, cancel := context.WithCancelCause(t.Context())
	c.Stop = stop
	f.doing.Go(func() {
		f.waitFor("worker a cannot join: not signed", told.String)
		cancel(nil)
	})
	text := source(2, 2, "touch ran-${item}", "")
	r, err := f.runWith(c, coordinator, text)
	if err != nil || r.State != jobs.Stopped || r.Metrics.Successful != 0 {
		t.Errorf("got %s with %+v, %v, want it stopped with nothing done", r.State, r.Metrics, err)
	}
	if !strings.Contains(a.said.String(), "not signed") {
		t.Errorf("the worker says %s", a.said)
	}
}

// Somebody who may write all at the broker gets nothing run by workers that trust a coordinator, whether by what is new, altered or repeated. The job that
// is signed runs to its end beside it.
func TestNothingThatIsAlteredOrRepeatedRuns(t *testing.T) {
	f := newField(t)
	seed, trusting := signing(t)
	a := f.worker("a", 2, trusting)
	f.waitFor("accepts attempts", a.said.String)
	var nodes []fleet.Node
	f.waitFor("1 worker", func() string { // it may be too busy to answer the first time
		nodes, _ = (Backend{}).Nodes(t.Context(), f.address())
		return fmt.Sprintf("%d worker", len(nodes))
	})
	s := f.stranger()
	heard, entries := make(chan *nats.Msg, 1000), make(chan []byte, 100)
	for subject, take := range map[string]nats.MsgHandler{
		"prodigy.down.>":  func(m *nats.Msg) { heard <- m },
		jobsSubject + ">": func(m *nats.Msg) { entries <- m.Data },
	} {
		if _, err := s.nc.Subscribe(subject, take); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c, coordinator := f.config(func(o *fleet.JobOptions) { o.Sign = seed })
	var entry []byte
	var key string
	put := func(data []byte) {
		if err := s.nc.Publish(jobsSubject+key, data); err != nil {
			t.Error(err)
		}
	}
	f.doing.Go(func() {
		entry = <-entries
		var j fleet.Job
		if err := json.Unmarshal(entry, &j); err != nil {
			t.Error(err)
			return
		}
		key = strings.TrimPrefix(j.Probe, ".prodigy-fleet-")
		f.untilRunning(1)
		altered := j
		altered.Stop, altered.Serial = fleet.Kill, j.Serial+1
		put(encoded(altered))
		f.waitFor("not believed: the description of job "+j.ID+": invalid signature", a.said.String)
		down := fleet.CoordinatorMessage{Key: key, Owner: j.Owner, Round: 1, Orders: fleet.Orders{Over: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}}, Tasks: []fleet.Task{{Assignment: agent.Assignment{Token: 4711}}}}
		if err := s.nc.Publish(downSubject(nodes[0].Instance), encoded(down)); err != nil {
			t.Error(err)
		}
		f.waitFor("a message with 1 attempts: not signed", a.said.String)
	})
	text := source(8, 4, "echo run >> runs-${item}; sleep 0.3", "")
	r, err := f.runWith(c, coordinator, text)
	if err != nil {
		t.Fatal(err)
	}
	f.once(r, 8)

	// All that was said is said again, when the job is over. The worker takes it for a job, and runs nothing of it.
	var j fleet.Job
	if err := json.Unmarshal(entry, &j); err != nil {
		t.Fatal(err)
	}
	put(entry)
	f.waitFor(j.ID, func() string {
		nodes, _ := (Backend{}).Nodes(t.Context(), f.address())
		return fmt.Sprint(nodes)
	})
	for len(heard) > 0 {
		m := <-heard
		if err := s.nc.PublishMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	f.waitFor("1 worker that has 0 attempts", func() string { // it may be too busy to answer the first time
		nodes, err := (Backend{}).Nodes(t.Context(), f.address())
		if err != nil || len(nodes) != 1 {
			return fmt.Sprintf("%d workers, %v", len(nodes), err)
		}
		items := 0
		for _, j := range nodes[0].Jobs {
			items += j.Items
		}
		return fmt.Sprintf("1 worker that has %d attempts", items)
	})
	f.once(r, 8)
}

// A word about a key that no coordinator makes is no job: directories have the names of keys, and those of one that has gone are removed.
func TestAKeyThatNoCoordinatorMakesIsNoJob(t *testing.T) {
	f := newField(t)
	_, trusting := signing(t)
	a := f.worker("a", 1, trusting)
	f.waitFor("accepts attempts", a.said.String)
	of := filepath.Join(f.root, "a", "jobs", "of-another-job")
	if err := os.MkdirAll(of, 0o700); err != nil {
		t.Fatal(err)
	}
	s := f.stranger()
	put := func(key string, over bool) {
		t.Helper()
		entry := encoded(fleet.Job{Over: over, V: fleet.Protocol, ID: "job of key " + key, Version: "test", Owner: "o", Lease: time.Minute})
		if err := s.nc.Publish(jobsSubject+key, entry); err != nil {
			t.Fatal(err)
		}
	}
	others := []string{"/", "x/y", "x.y", "x=y"}
	if !eventually(func() bool { // the broker may not know yet what the worker hears
		for _, key := range append(others, "x-1") {
			put(key, false)
		}
		return strings.Contains(a.said.String(), "cannot join job job of key x-1")
	}) {
		t.Fatalf("it takes no job: %s", a.said)
	}
	if said := a.said.String(); strings.Count(said, "job of key") != 1 {
		t.Errorf("it takes others for jobs: %s", said)
	}
	for _, key := range others {
		put(key, true)
	}
	put("x-2", false)
	f.waitFor("cannot join job job of key x-2", a.said.String)
	if _, err := os.Stat(of); err != nil {
		t.Errorf("the directory of another job is removed: %v", err)
	}
}

// key is a pair of keys as text.
type key struct{ seed, public string }

// keyPair is newKey in one value.
func keyPair(create func() (nkeys.KeyPair, error)) key {
	seed, public := newKey(create)
	return key{seed, public}
}
