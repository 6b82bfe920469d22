package mapreduce

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
)

var throughJSON = flag.Bool("through-json", false, "run all attempts through an executor that encodes what goes in and out as JSON")

// testedExecutor returns the executor of the jobs that tests run; nil: the default.
func testedExecutor() func(agent.Config, agent.Host) Executor {
	if *throughJSON {
		return new(wire).executor
	}
	return nil
}

// wire is what stands between a job and its executor when they are two machines: nothing passes it but JSON. It counts what does.
type wire struct{ attempts, calls atomic.Int64 }

// executor wraps the executor that a job would have, and the job.
func (w *wire) executor(c agent.Config, h agent.Host) Executor {
	return farExecutor{w, agent.New(c, farHost{w, h})}
}

// sent returns v as it arrives on the other side.
func sent[T any](v T) T {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var arrived T
	if err := json.Unmarshal(data, &arrived); err != nil {
		panic(fmt.Sprintf("BUG: %v: %s", err, data))
	}
	return arrived
}

type farExecutor struct {
	*wire
	local Executor
}

func (x farExecutor) Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error) {
	x.attempts.Add(1)
	o, err := x.local.Execute(ctx, sent(a))
	return sent(o), err
}

func (x farExecutor) Holds(ctx context.Context, ids []string) ([]string, error) {
	return x.local.Holds(ctx, ids)
}

type farHost struct {
	*wire
	agent.Host // of this machine: Register, Lowered
}

func (h farHost) Emit(a *agent.Attempt, e events.Event) {
	h.calls.Add(1)
	line, err := events.Encode(events.Record{Seq: 1, Time: time.Now(), JobID: a.JobID, CorrelationID: a.CorrelationID, Event: e})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	r, err := events.Decode(line)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	a = new(sent(*a))
	h.Host.Emit(a, r.Event)
}

func (h farHost) Output(a *agent.Attempt, e outputs.Entry) {
	h.calls.Add(1)
	h.Host.Output(new(sent(*a)), sent(e))
}

func (h farHost) Progress(a *agent.Attempt, e events.AgentProgress) {
	h.calls.Add(1)
	h.Host.Progress(new(sent(*a)), sent(e))
}

func (h farHost) Pause(ctx context.Context, a *agent.Attempt, d time.Duration, keepSlot bool) (int, error) {
	h.calls.Add(1)
	return h.Host.Pause(ctx, new(sent(*a)), d, keepSlot)
}

func (h farHost) KeepUnmasked(a *agent.Attempt, step int, p agent.Printed) {
	h.calls.Add(1)
	h.Host.KeepUnmasked(new(sent(*a)), step, sent(p))
}

func (h farHost) Unmasked(a *agent.Attempt, phase string, step int) (agent.Printed, bool) {
	h.calls.Add(1)
	p, ok := h.Host.Unmasked(new(sent(*a)), phase, step)
	return sent(p), ok
}

func (h farHost) AdmitStep(ctx context.Context, b agent.StepBreaker) (limit.Ticket, string, error) {
	h.calls.Add(1)
	t, refusal, err := h.Host.AdmitStep(ctx, sent(b))
	return sent(t), refusal, err
}

func (h farHost) ReportStep(b agent.StepBreaker, t limit.Ticket, success bool) time.Duration {
	h.calls.Add(1)
	return h.Host.ReportStep(sent(b), sent(t), success)
}

func (h farHost) ReleaseStep(b agent.StepBreaker, t limit.Ticket) {
	h.calls.Add(1)
	h.Host.ReleaseStep(sent(b), sent(t))
}

func (h farHost) AdmitAgent(ctx context.Context, a *agent.Attempt, ask agent.AgentAsk, keepSlot bool) (int, agent.AgentTicket, *agent.Failure, error) {
	h.calls.Add(1)
	slot, t, refusal, err := h.Host.AdmitAgent(ctx, new(sent(*a)), sent(ask), keepSlot)
	return slot, sent(t), sent(refusal), err
}

func (h farHost) RecordUsage(a *agent.Attempt, t agent.AgentTicket, e events.AgentUsage) {
	h.calls.Add(1)
	h.Host.RecordUsage(new(sent(*a)), sent(t), sent(e))
}

func (h farHost) ReportAgent(a *agent.Attempt, t agent.AgentTicket, f *agent.Failure, use ai.LimitUse) (bool, error) {
	h.calls.Add(1)
	return h.Host.ReportAgent(new(sent(*a)), sent(t), sent(f), sent(use))
}

// The executor of a Config runs all attempts of a job, those of its phases too, and the job is told what happens in them.
func TestAnExecutorCanWrapTheLocalOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w wire
		c := config(t, fake(failing("item_1", "item_2", "item_3")))
		c.Executor = w.executor
		r := run(t, c, "setup:\n  - shell: before\n    capture: x\nreduce:\n  - shell: after ${x}\n"+guarded(6))
		if r.State != jobs.Completed || r.Metrics.Failed != 5 || r.Metrics.Successful != 1 { // the breaker opens at item_2 and refuses the rest
			t.Errorf("got %s (%s) with %+v", r.State, r.Reason, r.Metrics)
		}
		if got := w.attempts.Load(); got != 6+2 {
			t.Errorf("attempts: got %d, want 8", got)
		}
		if w.calls.Load() == 0 {
			t.Error("the job was told nothing")
		}
		if opened, _ := told[events.CircuitOpen](recordsOf(t, r.Job)); len(opened) != 1 {
			t.Errorf("got %v, want one breaker to open", opened)
		}
	})
}

// holding is an executor that still has some attempts of the run before.
type holding struct {
	Executor
	held []string
}

func (x holding) Holds(_ context.Context, ids []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(x.held, id) }), nil
}

// Of two attempts in flight when the run was killed one is gone and one goes on: only the first starts again.
func TestAnAttemptThatItsExecutorStillHasGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(call) answer { return answer{takes: time.Second} }))
		whole := run(t, c, workflowOf(4, 2, ""))
		place := copyJob(t, c, whole.Job, upTo(readLog(t, whole.Job), `"type":"AgentStarted","item_id":"item_1"`))
		c = withHome(c, place)
		c.MaxCrashes = 1
		held := place.job.ID + "/item_1/1"
		c.Executor = func(k agent.Config, h agent.Host) Executor {
			return holding{agent.New(k, h), []string{held, "another"}}
		}
		r, err := Resume(t.Context(), c, place.job)
		if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 4 {
			t.Fatalf("got %s (%s) with %+v, %v, want 4 successful", r.State, r.Reason, r.Metrics, err)
		}
		all := recordsOf(t, place.job)
		resumed, _ := told[events.JobResumed](all)
		if diff := cmp.Diff([]int{1}, resumed[0].Attached); diff != "" {
			t.Errorf("attached (-want +got):\n%s", diff)
		}
		started, _ := told[events.AgentStarted](all)
		completed, _ := told[events.AgentCompleted](all)
		if n := count(started, func(e events.AgentStarted) bool { return e.ItemID == "item_1" }); n != 1 {
			t.Errorf("item_1 started %d times, want once", n)
		}
		if n := count(completed, func(e events.AgentCompleted) bool { return e.AgentID == held && e.Attempt == 1 }); n != 1 {
			t.Errorf("the attempt that was held ended %d times, want once", n)
		}
	})
}

func count[E any](list []E, is func(E) bool) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(e E) bool { return !is(e) }))
}

// slowThroughJSON are tests that plain `go test` does not run a second time. They take long, and are about the files of a job or its limits
// rather than about what runs its attempts. `make through-json` runs them too.
const slowThroughJSON = "LogCut|QueueAhead|KilledRunAre|LogHasLost|Damaged|LostJournal|Checkpoint|TheJSONOf|Fold|Summary|FarAhead|HoldsOverResumes|" +
	"WhereverTheLogIsCut|MadeWorseByRetries|ManyKeys|RateOfAService|MayHaveChangedRunsAgain|LeftOfAJob"

// All that jobs do they do as well when nothing but JSON passes between them and what runs their attempts.
func TestJobsRunThroughJSON(t *testing.T) {
	if *throughJSON || testing.Short() {
		return // this is the run with it, or TestAnExecutorCanWrapTheLocalOne is enough
	}
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-through-json", "-test.v", "-test.skip="+slowThroughJSON).CombinedOutput()
	if n := strings.Count(string(out), "\n--- PASS"); err != nil || n < 40 {
		t.Errorf("%v, and %d tests passed, want 40 or more:\n%s", err, n, out)
	}
}
