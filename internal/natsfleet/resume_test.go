package natsfleet

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/outputs"
	"prodigy/internal/workflow"
)

// deafHost is a job that is interested in nothing that happens inside attempts.
type deafHost struct{ agent.Host }

func (deafHost) Emit(*agent.Attempt, events.Event)             {}
func (deafHost) Output(*agent.Attempt, outputs.Entry)          {}
func (deafHost) Progress(*agent.Attempt, events.AgentProgress) {}

// attemptAt returns an attempt at item i of a job, whose one step is a script.
func attemptAt(f *field, i int, script string) *agent.Attempt {
	id := fmt.Sprintf("item_%d", i)
	a := &agent.Attempt{
		ID: "job/" + id + "/1", JobID: "job", CorrelationID: "job/" + id, Phase: "map", ItemID: id, ItemIndex: i, Item: fmt.Appendf(nil, "%d", i), Number: 1,
		Token: int64(i), Dir: f.root, Steps: []workflow.Step{{Shell: &workflow.Text{Value: script}}},
	}
	a.SetSpec()
	return a
}

// ends collects how attempts end.
type ends struct {
	mu   sync.Mutex
	of   map[int64]error
	some chan struct{}
}

func (e *ends) done(token int64) func(agent.Outcome, error) {
	return func(o agent.Outcome, err error) {
		if err == nil && o.Failure != nil {
			err = fmt.Errorf("it failed: %s", o.Failure.Message)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.of[token] = err
		e.some <- struct{}{}
	}
}

// What was on its way to a worker when the coordinator died is given out again as soon as the workers have said what they have, not after a lease.
func TestWhatWaitsWhenTheCoordinatorDiesStartsAtOnce(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute
	f.worker("a", 2, nil)
	const script = `echo run >> runs-${item}; sleep 0.3`
	_, first := f.config(nil)
	died, dead := first.(*crew), &ends{of: map[int64]error{}, some: make(chan struct{}, 8)}
	died.Executor(agent.Config{Seed: 1}, deafHost{})
	var ids []string
	for i := range 8 {
		a := attemptAt(f, i+1, script)
		ids = append(ids, a.ID)
		died.Submit(t.Context(), a, dead.done(a.Token))
	}
	select {
	case <-dead.some:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing ends")
	}
	died.nc.Close() // as if it had been killed: nothing is settled
	died.end()

	_, again := f.config(nil)
	c, e := again.(*crew), &ends{of: map[int64]error{}, some: make(chan struct{}, 8)}
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	if _, err := c.Holds(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		a := attemptAt(f, i+1, script)
		a.Adopted = true
		c.Submit(t.Context(), a, e.done(a.Token))
	}
	late := time.After(f.lease / 3)
	for range 8 {
		select {
		case <-e.some:
		case <-late:
			t.Fatalf("after %s only these have ended: %v", f.lease/3, e.of)
		}
	}
	for token, err := range e.of {
		if err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	f.ranOnce(8)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A worker that has ended while the coordinator was away is not waited for.
func TestAWorkerThatHasEndedMeanwhileIsNotWaitedFor(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute
	a := f.worker("a", 1, nil)
	_, first := f.config(nil)
	died := first.(*crew)
	died.Executor(agent.Config{Seed: 1}, deafHost{})
	var ids []string
	for i := range 3 {
		one := attemptAt(f, i+1, `echo run >> runs-${item}; sleep 0.5`)
		ids = append(ids, one.ID)
		died.Submit(t.Context(), one, func(agent.Outcome, error) {})
	}
	f.untilRunning(1)
	died.nc.Close()
	died.end()
	a.drain() // it finishes the first, which nobody hears of
	select {
	case <-a.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("the worker does not end: %s", a.said)
	}
	f.worker("b", 1, nil)
	_, again := f.config(nil)
	c, e := again.(*crew), &ends{of: map[int64]error{}, some: make(chan struct{}, 3)}
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	if _, err := c.Holds(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		one := attemptAt(f, i+1, `echo run >> runs-${item}; sleep 0.5`)
		one.Adopted = true
		c.Submit(t.Context(), one, e.done(one.Token))
	}
	for range 3 {
		select {
		case <-e.some:
		case <-time.After(f.lease / 3):
			t.Fatalf("only these have ended: %v", e.of)
		}
	}
	f.ranOnce(3)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

var _ fleet.Crew = (*crew)(nil)
