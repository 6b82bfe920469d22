package natsfleet

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// ended is how an attempt ended.
type ended struct {
	outcome agent.Outcome
	err     error
}

// submitted opens the job of a coordinator, and gives it an attempt that a puppet takes. It returns the puppet, the attempt's token and how it ends.
func submitted(f *field, c *coordinator) (*puppet, int64, chan ended) {
	f.t.Helper()
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	end := make(chan ended, 1)
	c.Submit(f.t.Context(), attemptAt(f, 1, "true"), func(_ *agent.Attempt, o agent.Outcome, err error) { end <- ended{o, err} })
	p := f.puppet(c)
	return p, p.take(), end
}

// reference returns a report that has the end of an attempt as an object of the broker, and that object.
func (p *puppet) reference(token int64) (r fleet.Report, data []byte) {
	r = p.report(token, 1, fleet.Ended)
	data = encoded(r)
	r.Outcome, r.Ref = nil, objectName(p.c.key+"/report", data)
	return r, data
}

// A broker of a cluster may not have yet what another has taken: an object that is not found at once is not lost.
func TestAReportThatTheBrokerDoesNotFindAtOnceIsNotLost(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*storedReport{"from the worker": nil, "left with the broker": {}} {
		t.Run(name, func(t *testing.T) {
			f := newField(t)
			c := f.coordinator()
			p, token, end := submitted(f, c)
			r, data := p.reference(token)
			report := func() {
				if m == nil {
					c.report(r, p.instance, nil)
					return
				}
				m.again = 0
				c.report(r, p.instance, m)
			}
			report()
			if m != nil && m.again != relayRetry {
				t.Errorf("it comes again after %s, want %s", m.again, relayRetry)
			}
			c.report(p.report(token, 2, fleet.Dropped), p.instance, nil) // not before it
			c.mu.Lock()
			if c.endLost(fleet.Loss{Token: token, Began: true, Left: true}) {
				t.Error("it is lost")
			}
			c.mu.Unlock()
			if err := c.put(t.Context(), r.Ref, data); err != nil {
				t.Fatal(err)
			}
			if m != nil {
				report()
			}
			if e := <-end; e.err != nil || e.outcome.Output != "fine" {
				t.Errorf("it ended with %q, %v, want what was reported", e.outcome.Output, e.err)
			}
		})
	}
}

func TestAReportThatTheBrokerHasLostLosesItsAttempt(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	p, token, end := submitted(f, c)
	r, _ := p.reference(token)
	p.say([]int64{token}, r)
	e := <-end
	if _, lost := errors.AsType[*agent.LostError](e.err); !lost || !strings.Contains(e.err.Error(), "the broker lost its report") {
		t.Errorf("got %v, want that it is lost", e.err)
	}
}

// whenAsked calls do once the broker was asked for an object.
func whenAsked(t *testing.T, c *coordinator, object string, do func()) {
	t.Helper()
	store, err := c.js.ObjectStore(t.Context(), filesStore)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.GetInfo(t.Context(), object); !errors.Is(err, jetstream.ErrObjectNotFound) {
		t.Fatalf("got %v, want that there is no such object", err)
	}
	asked := make(chan struct{}, 100)
	sub, err := c.nc.Subscribe("$JS.API.DIRECT.GET."+filesStream+".>", func(*nats.Msg) {
		select {
		case asked <- struct{}{}:
		default:
		}
	})
	if err == nil {
		err = c.nc.FlushTimeout(requestTime)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-asked:
			_ = sub.Unsubscribe()
			do()
		case <-t.Context().Done():
		}
	}()
	t.Cleanup(func() { <-done })
}

func TestAFileThatTheBrokerDoesNotFindAtOnceIsNotLost(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	f.write("made", "made", 0o600)
	root, err := os.OpenRoot(filepath.Join(f.root, "run"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	const object = "job/made-1"
	file, err := c.putFile(t.Context(), "job/another", root, "made")
	if err != nil {
		t.Fatal(err)
	}
	file.Object = object
	put := func() {
		if _, err := c.putFile(t.Context(), object, root, "made"); err != nil {
			t.Error(err)
		}
	}
	whenAsked(t, c, object, put)
	text := ""
	if err := c.fetchPack(t.Context(), t.TempDir(), &fleet.Pack{File: &file}, func(pack *os.File) error {
		data, err := os.ReadFile(pack.Name())
		text = string(data)
		return err
	}); err != nil || text != "made" {
		t.Errorf("a pack: got %q, %v, want what was sent", text, err)
	}
	if err := c.remove(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	c.produces = func(string, json.RawMessage) ([]string, error) { return []string{"made"}, nil }
	flight := &flight{token: 1}
	c.mu.Lock()
	c.flights[1] = flight
	c.mu.Unlock()
	whenAsked(t, c, object, put)
	if err := c.fetchMade(flight, []fleet.File{file}); err != nil {
		t.Errorf("what was produced: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(c.o.Dir, "made")); err != nil || string(data) != "made" {
		t.Errorf("got %q, %v, want what was produced", data, err)
	}
	c.mu.Lock()
	delete(c.flights, 1)
	c.mu.Unlock()
}
