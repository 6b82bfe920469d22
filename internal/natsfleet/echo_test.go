package natsfleet

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// echoes is an agent.Echo that keeps what each item has printed in the order in which it comes.
type echoes struct {
	mu   sync.Mutex
	text map[string]*strings.Builder
}

type echoOf struct {
	*echoes
	to *strings.Builder
}

func (e *echoes) Command(a *agent.Attempt, step string, try int) (stdout, stderr io.Writer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := func(stream string) io.Writer {
		name := strings.Join([]string{a.ItemID, step, strings.Repeat("again ", try-1) + stream}, " ")
		if e.text[name] == nil {
			e.text[name] = &strings.Builder{}
		}
		return echoOf{e, e.text[name]}
	}
	return of("stdout"), of("stderr")
}

func (o echoOf) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(p)
}

func (e *echoes) all() map[string]string {
	texts := map[string]string{}
	for name, b := range e.text {
		texts[name] = b.String()
	}
	return texts
}

// All that commands print is shown, as it is without a fleet: more than a job keeps, of tries that failed, and that nothing was printed.
func TestWhatItemsPrintOnWorkersIsShown(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute
	f.worker("a", 2, nil)
	const script = `mode: mapreduce
outputs: {per_step: 64KiB}
map:
  max_parallel: 3
  input: [1, 2, 3]
  agent_template:
    - shell: "seq 1 60000; echo first >&2; sleep 0.3; echo second >&2; printf '\\377 no line'"
    - shell: "true"
    - shell: "echo try; exit 1"
      retry_config: {attempts: 2, initial_delay: 10ms, backoff: fixed}
`
	here, there := &echoes{text: map[string]*strings.Builder{}}, &echoes{text: map[string]*strings.Builder{}}
	f.run(script, func(c *mapreduce.Config) {
		c.Home, c.Executor, c.OnFleet, c.Echo = jobs.Home{Root: t.TempDir()}, nil, false, here
	})
	f.run(script, func(c *mapreduce.Config) { c.Echo = there })
	if diff := cmp.Diff(here.all(), there.all()); diff != "" || len(here.text) != 24 {
		t.Errorf("%d streams; the fleet shows other things (-here +fleet):\n%s", len(here.text), diff)
	}
}

// blockedEcho is an agent.Echo whose reader does not read.
type blockedEcho struct{ writes, open chan struct{} }

func (e blockedEcho) Command(*agent.Attempt, string, int) (stdout, stderr io.Writer) { return e, e }

func (e blockedEcho) Write(p []byte) (int, error) {
	close(e.writes)
	<-e.open
	return len(p), nil
}

// Who reads slowly what is shown gets all of it: the end of an attempt, which comes by another way meanwhile, does not overtake it.
func TestTheEndWaitsForWhatIsBeingShown(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	echo := blockedEcho{make(chan struct{}), make(chan struct{})}
	c.Executor(agent.Config{Echo: echo}, deafHost{})
	ended := false
	one := newFlight(t.Context(), &agent.Attempt{Assignment: agent.Assignment{Token: 1, ItemID: "item_1"}})
	one.done = func(*agent.Attempt, agent.Outcome, error) { ended = true }
	c.state.flights[1] = one
	c.turn(func(s *jobState) {
		s.ledger.Add(1)
		assign(t, s.ledger, "w", 1, 1)
	})
	w := fleet.Holder{Instance: "w"}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		c.report(fleet.Report{Token: 1, Index: 1, Holder: w, Kind: fleet.Echoed, Echo: &fleet.Echo{Command: 1, Data: []byte("some")}})
	}()
	<-echo.writes
	end := fleet.Report{Token: 1, Index: 2, Holder: w, Kind: fleet.Ended, Outcome: &agent.Outcome{}}
	if c.report(end); ended {
		t.Error("the end came first")
	}
	close(echo.open)
	<-shown
	if c.report(end); !ended {
		t.Error("the end was not taken")
	}
}

// What printed before the end comes before the end, and nothing behind it.
func TestTheEndOfAnAttemptIsTheLastOfItsReports(t *testing.T) {
	j := &workerJob{key: "j"}
	w := newWorker(fleet.WorkerOptions{})
	w.state.jobs["j"] = j
	w.life = t.Context()
	k := &heldAttempt{job: j, token: 7}
	w.state.held[k.name()] = k
	out, _ := workerEcho{&workerHost{worker: w, job: j}}.Command(&agent.Attempt{Assignment: agent.Assignment{
		Token:  7,
		ItemID: "item_1",
	}}, "step", 1)
	_, _ = io.WriteString(out, "some")
	w.finish(k, fleet.Report{Kind: fleet.Ended})
	_, _ = io.WriteString(out, "late")
	if n := len(k.reports); n != 3 || !strings.Contains(string(k.reports[1].data), `"echoed"`) || !strings.Contains(string(k.reports[2].data), `"ended"`) {
		t.Errorf("got %d reports, want what it printed and its end", n)
	}
}
