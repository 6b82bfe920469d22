package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// rated returns a workflow over the numbers from 1 to n whose second step has a rate. Each of them leaves a file before it waits for that.
func rated(n, slots int, rate string) string {
	return source(n, slots, "echo run >> before-${item}", "") + `    - shell: echo run >> runs-${item}
      rate: {limit: ` + rate + `, burst: 1}
`
}

// turnsOf returns how many steps have had their turns, and checks that these are as far from each other as the rate says.
func turnsOf(t *testing.T, r mapreduce.Result, apart time.Duration) int {
	t.Helper()
	var last time.Time
	n := 0
	for _, rec := range recordsOf(t, r.Job) {
		e, ok := rec.Event.(events.StepTurn)
		if !ok {
			continue
		}
		if n++; rec.Time.Sub(last) < apart {
			t.Errorf("%s has its turn %s after the one before, want %s", e.ItemID, rec.Time.Sub(last), apart)
		}
		last = rec.Time
	}
	return n
}

// The workers have one rate together, and others have the slots of those that wait.
func TestTheRateOfAStepIsThatOfTheFleet(t *testing.T) {
	f := newField(t)
	f.worker("a", 1, nil)
	f.worker("b", 1, nil)
	early := 0 // items that have begun before the second turn
	r := f.run(rated(6, 2, "2/s"), nil)
	f.once(r, 6)
	n := 0
	for _, rec := range recordsOf(t, r.Job) {
		switch rec.Event.(type) {
		case events.AgentStarted:
			if n < 2 {
				early++
			}
		case events.StepTurn:
			n++
		}
	}
	// A turn that comes too late, on a machine that is busy, is not used and given once more.
	if turnsOf(t, r, 500*time.Millisecond) < 6 || early < 4 {
		t.Errorf("%d turns, and %d items have begun before the second, want one for each, and more than the two slots", n, early)
	}
}

// Neither a broker nor a coordinator that goes away is waited for in vain, and what waits for its turn ends with the job.
func TestStepsWaitForTheirTurnsOverFaults(t *testing.T) {
	t.Parallel()
	t.Run("the broker is restarted", func(t *testing.T) {
		f := newField(t)
		f.worker("a", 2, nil)
		f.whenWaiting(5, func() { f.restart(false) })
		r := f.run(rated(5, 2, "2/s"), nil)
		f.once(r, 5)
		turnsOf(t, r, 500*time.Millisecond)
	})
	t.Run("the job is stopped and goes on", func(t *testing.T) {
		f := newField(t)
		f.worker("a", 2, nil)
		stop, ask := context.WithCancelCause(t.Context())
		f.whenWaiting(4, func() { ask(errors.New("enough")) })
		began := time.Now()
		r := f.run(rated(4, 2, "1/h"), func(c *mapreduce.Config) { c.Stop = stop })
		if r.State != jobs.Stopped || time.Since(began) > time.Minute {
			t.Fatalf("got %s (%s) after %s, want a pause at once", r.State, r.Reason, time.Since(began))
		}
		back := 0
		for _, rec := range recordsOf(t, r.Job) {
			if _, ok := rec.Event.(events.AgentInterrupted); ok {
				back++
			}
		}
		if back != 3 || turnsOf(t, r, time.Hour) != 1 {
			t.Errorf("%d were given back, want 3", back)
		}
	})
}

// whenWaiting calls do once so many items have ended their first step.
func (f *field) whenWaiting(items int, do func()) {
	f.doing.Go(func() {
		if f.untilThere("before-*", items) {
			do()
		}
	})
}

// A turn that nobody could fetch when it was given is not used: with those of others that were given meanwhile, too many steps would begin at once.
func TestATurnThatComesTooLateIsNotUsed(t *testing.T) {
	f := newField(t)
	conn, err := connect(t.Context(), f.address(), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.nc.Close()
	j := newWorkerJob("j")
	w := newWorker(fleet.WorkerOptions{})
	w.brokerConn, w.node.Instance, w.state.jobs["j"] = conn, "w", j
	k := &heldAttempt{job: j, token: 7, slot: 1}
	w.state.held[k.name()] = k
	var asked []callArgs
	sub, err := conn.nc.Subscribe(callSubject("w", "j"), func(m *nats.Msg) {
		var q fleet.Call
		var args callArgs
		if json.Unmarshal(m.Data, &q) != nil || json.Unmarshal(q.Args, &args) != nil {
			return
		}
		asked = append(asked, args)
		answer := fleet.CallAnswer{Result: encoded(struct{}{})}
		if len(asked) == 1 {
			answer.Age = time.Minute
		}
		_ = m.Respond(encoded(answer))
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // on a slow machine the step gives its slot to others meanwhile, and is given it again
		for ; t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
			w.turn(func(s *workerState) {
				for len(s.free) > 0 && len(s.waking) > 0 {
					s.waking[0] <- s.takeSlot()
					s.waking = s.waking[1:]
				}
			})
		}
	}()
	slot, err := (&workerHost{worker: w, job: j}).StepTurn(t.Context(), &agent.Attempt{
		Assignment: agent.Assignment{Token: 7},
		Worker:     1,
	}, agent.StepTurn{Step: "call"}, true)
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err != nil || slot != 1 || len(asked) != 2 || asked[0].Turn.Late != 0 || asked[1].Turn.Late == 0 {
		t.Errorf("got slot %d, %v after %+v, want a second question that goes before others", slot, err, asked)
	}
}

// askingHost is a job that gives each step its turn at once.
type askingHost struct{ deafHost }

func (askingHost) StepTurn(context.Context, *agent.Attempt, agent.StepTurn, bool) (int, error) {
	return 1, nil
}

// A coordinator that comes back is asked by attempts that it does not know yet.
func TestACallWaitsForTheAttemptsThatTheRunBeforeLeft(t *testing.T) {
	c := quietCoordinator(fleet.JobOptions{})
	c.host, c.state.awaited = askingHost{}, map[string]bool{"job/item_1/1": true}
	answered := make(chan error, 1)
	go func() {
		_, err := c.invoke(fleet.Call{Method: callStepTurn, Token: 1, Args: encoded(callArgs{})})
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("got %v before the attempt is known", err)
	case <-time.After(20 * time.Millisecond):
	}
	c.turn(func(s *jobState) {
		s.flights[1] = newFlight(t.Context(), &agent.Attempt{Assignment: agent.Assignment{Token: 1}})
		clear(s.awaited)
	})
	close(c.adopted)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if _, err := c.invoke(fleet.Call{Method: callStepTurn, Token: 2, Args: encoded(callArgs{})}); !errors.Is(err, errNotOut) {
		t.Errorf("got %v of an attempt that is not out", err)
	}
}
