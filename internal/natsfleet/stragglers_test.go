package natsfleet

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// straggling is a workflow whose item 1 takes very long at its first attempt. What ends that is given time to say so.
const straggling = `mode: mapreduce
map:
  max_parallel: 4
  input: [1, 2, 3, 4]
  straggler: {after: 3s, stop: true}
  agent_template:
    - shell: |
        echo run >> runs-${item}-$PRODIGY_ATTEMPT
        [ ${item} = 1 ] || exit 0
        [ $PRODIGY_ATTEMPT = 1 ] || { sleep 1; exit 0; }
        trap "echo ended > ended; exit 1" TERM
        sleep 60 & wait
error_policy: {retry_config: {attempts: 2, initial_delay: 10ms}}
`

func TestAStragglerIsEndedByItsWorkerAndTriedAgain(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute
	f.worker("a", 2, nil)
	f.worker("b", 2, nil)
	r := f.run(straggling, nil)
	if r.State != jobs.Completed || r.Metrics.Successful != 4 {
		t.Fatalf("got %s (%s) with %+v, want 4 successful", r.State, r.Reason, r.Metrics)
	}
	if files, _ := filepath.Glob(filepath.Join(f.root, "runs-*")); len(files) != 5 {
		t.Errorf("ran %v, want five attempts", files)
	}
	if files, _ := filepath.Glob(filepath.Join(f.root, "ended")); len(files) != 1 {
		t.Error("the first attempt had no grace")
	}
}

// That an attempt is to be ended is said until its worker says no more that it has it. One that no worker has ends here.
func TestAnAttemptIsEndedAlone(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	ended := map[int64]error{}
	submit := func(token int) {
		t.Helper()
		a := attemptAt(f, token, "true")
		if err := c.submit(t.Context(), a, func(_ *agent.Attempt, _ agent.Outcome, err error) { ended[a.Token] = err }); err != nil {
			t.Fatal(err)
		}
	}
	cause := errors.New("enough")
	c.End(1, cause) // before it is known
	submit(1)
	submit(2)
	c.End(2, cause)
	submit(3)
	for token := range int64(2) {
		if err := ended[token+1]; !errors.Is(err, agent.ErrReturned) || !errors.Is(err, cause) {
			t.Errorf("token %d: got %v, want that it is given back", token+1, err)
		}
	}
	l := c.state.ledger
	said := func() []int64 {
		letter, _ := l.Next()
		return letter.End
	}
	status := fleet.WorkerStatus{Instance: "w", Node: "w", Round: 1, Credit: 1, Full: true, Slots: 1}
	f.hear(c, status)
	if l.HolderOf(3) != "w" || len(said()) != 0 {
		t.Fatalf("token 3 is not with the worker, or is to be ended")
	}
	c.End(3, cause)
	var got []string
	for _, holds := range [][]int64{nil, {3}, {3}, {3, 4}} {
		got = append(got, fmt.Sprint(said()))
		status.Holds = holds
		f.hear(c, status)
	}
	if want := []string{"[3]", "[]", "[3]", "[3]"}; !slices.Equal(got, want) || !slices.Equal(said(), []int64{3}) {
		t.Errorf("said %q, want %q: once at first, and whenever the worker has it", got, want)
	}
	c.turn(func(s *jobState) { c.endFlight(s, fleet.Ending{Token: 3}, flightEnd{err: cause}) })
	f.hear(c, status)
	if end := said(); len(end) != 0 {
		t.Errorf("after its end: %v, want nothing", end)
	}
}

// Somebody who does not want to wait any longer reaches the steps that wait on workers, and who skips an item what runs of it there.
func TestWaitsAndAttemptsOnWorkersAreEndedByRequest(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute
	f.worker("a", 2, nil)
	said := new(log)
	r := f.run(`mode: mapreduce
map:
  max_parallel: 2
  input: [1, 2]
  agent_template:
    - shell: "echo run >> runs-${item}; [ ${item} = 1 ] && exec sleep 60; [ $(wc -l < runs-2) = 2 ]"
      retry_config: {attempts: 2, initial_delay: 1h, backoff: fixed, jitter: false}
`, func(c *mapreduce.Config) {
		c.Control = func(_ jobs.Job, ask func(job.Request) job.Answer) (func() error, error) {
			f.doing.Go(func() {
				if !f.untilRunning(2) {
					return
				}
				eventually(func() bool {
					a := ask(job.Request{Do: job.RetryNow, By: "ada", Items: []job.Item{{ID: "item_1", Index: 1}}})
					if a.Done {
						said.add(a.Text)
					}
					return a.Done
				})
				said.add(ask(job.Request{Do: job.Skip, By: "ada", Items: []job.Item{{ID: "item_0"}}}).Text)
			})
			return func() error { return nil }, nil
		}
	})
	if want := "due now: 1 retry\nskipped: item_0\n"; r.Metrics.Successful != 1 || r.Metrics.Skipped != 1 || said.String() != want {
		t.Errorf("got %+v and answers %q, want %q", r.Metrics, said, want)
	}
}
