package mapreduce

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/process"
)

// bill is a CLI that adds up what it has said that it costs. An agent whose cost is not a cent is never the cheaper for that of another.
type bill struct {
	mu    sync.Mutex
	total limit.USD
	calls int
}

func (b *bill) run(_ context.Context, c process.Command) (process.Exit, error) {
	time.Sleep(time.Second)
	b.mu.Lock()
	b.calls++
	cost := float64(b.calls) / 1000
	b.total += limit.FromFloat(cost)
	b.mu.Unlock()
	stop := "end_turn"
	if strings.HasSuffix(c.Input, "item_2") {
		stop = "refusal"
	}
	_, err := fmt.Fprintf(c.Stdout, `{"type":"result","subtype":"success","is_error":false,"stop_reason":%q,"total_cost_usd":%g,"result":"Done."}`+"\n", stop, cost)
	return process.Exit{}, err
}

const costly = `
map:
  input: [1, 2, 3, 4, 5]
  max_parallel: 2
  agent_template:
    - agent: {prompt: "do ${item_id}"}
      retry_config: {attempts: 2, initial_delay: 1s, retry_on: [refused]}
    - agent: {prompt: "check ${item_id}"}
reduce:
  - agent: {prompt: sum}
`

// A job that is killed and resumed anywhere has recorded all that the log had, and all that its agents cost since.
func TestALogCutAfterAnyRecordLosesNoMoney(t *testing.T) {
	set, err := ai.Load()
	if err != nil {
		t.Fatal(err)
	}
	var first bill
	c := config(t, first.run)
	c.Agents = set
	var whole Result
	synctest.Test(t, func(t *testing.T) { whole = run(t, c, costly) })
	if whole.Spent.Cost != first.total || whole.Spent.Agents != first.calls {
		t.Fatalf("got %s for %d agents, want %s for %d", whole.Spent.Cost, whole.Spent.Agents, first.total, first.calls)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(readLog(t, whole.Job), "\n"), "\n")
	for cut := 1; cut < len(lines); cut++ {
		synctest.Test(t, func(t *testing.T) {
			place := copyJob(t, c, whole.Job, strings.Join(lines[:cut], ""))
			had := costs(recordsOf(t, place.job))
			var b bill
			again := withHome(c, place)
			again.Runner = b.run
			r, err := Resume(t.Context(), again, place.job)
			if err != nil {
				t.Fatal(err)
			}
			if in := costs(recordsOf(t, place.job)); in != had+b.total || r.Spent.Cost != in {
				t.Errorf("cut after record %d: the log has %s and the job says %s, want %s from before and %s since", cut, in, r.Spent.Cost, had, b.total)
			}
			if kept, err := job.Summarize(place.job); err != nil || kept.Spent.Cost != r.Spent.Cost {
				t.Errorf("cut after record %d: the summary has %s, %v, want %s", cut, kept.Spent.Cost, err, r.Spent.Cost)
			}
		})
	}
}

func costs(all []events.Record) (sum limit.USD) {
	used, _ := told[events.AgentUsage](all)
	for _, e := range used {
		if e.CostUSD != nil { // else it worked when the run was killed
			sum += *e.CostUSD
		}
	}
	return sum
}

// An agent that waits for money others have reserved lets them end. The job stops when they have, and goes on with more.
func TestASpentBudgetStopsTheJobWhenItsAgentsHaveEnded(t *testing.T) {
	set, err := ai.Load()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var b bill
		c := config(t, b.run)
		c.Agents = set
		c.MaxCost = limit.FromFloat(0.020)
		source := strings.Replace(costly, "agent_template:", "agent_template: # with a budget", 1)
		r := run(t, c, source)
		if r.State != jobs.Failed || r.Budget == nil || r.Spent.Cost != b.total {
			t.Fatalf("got %s (%s) after %s, want a stop by the budget after %s", r.State, r.Reason, r.Spent.Cost, b.total)
		}
		if interrupted, _ := told[events.AgentInterrupted](recordsOf(t, r.Job)); len(interrupted) == 0 {
			t.Error("got no attempt that was given back")
		}
		if failed, _ := told[events.AgentFailed](recordsOf(t, r.Job)); len(failed) > 1 {
			t.Errorf("got %d failures, want none because of the budget", len(failed))
		}
		c.MaxCost = limit.Dollar
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.State != jobs.Completed || r.Spent.Cost != b.total || r.Metrics.Successful != 4 {
			t.Errorf("got %s (%s) with %+v after %s, %v, want 4 successful after %s", r.State, r.Reason, r.Metrics, r.Spent.Cost, err, b.total)
		}
	})
}

// An agent that waits for money starts when another one has ended, and not some time later, nor when the step has that
// goes on with a validation.
func TestMoneyThatIsFreeAgainIsUsedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		step string
		want time.Duration
	}{
		"one agent after the other":            {"", 3 * time.Second},
		"one validated while the other begins": {"\n      validate: {shell: looks}", 13 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b bill
				config := withAgents(t, config(t, func(ctx context.Context, cmd process.Command) (process.Exit, error) {
					if strings.Contains(fmt.Sprint(cmd.Argv), "looks") {
						time.Sleep(10 * time.Second)
						return process.Exit{}, nil
					}
					time.Sleep(time.Second / 2)
					return b.run(ctx, cmd)
				}))
				config.MaxCost = limit.FromFloat(0.30)
				began := time.Now()
				r := run(t, config, `
map:
  input: [0, 1]
  max_parallel: 2
  agent_template:
    - agent: {prompt: "do ${item_id}", max_cost: 0.30}`+c.step+"\n")
				if took := time.Since(began).Truncate(time.Millisecond); r.Metrics.Successful != 2 || took != c.want {
					t.Errorf("two agents of 1.5s took %s with %+v, want %s", took, r.Metrics, c.want)
				}
			})
		})
	}
}

// An agent that ends while another one is on its way to wait for that is not missed.
func TestAnEndThatComesBeforeTheWaitForItEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{inbox: make(chan message, 1)}
		o.host = &host{owner: o}
		o.host.starts.restore(nil, nil, limit.Budget{Job: new(limit.Dollar)}, limit.Account{})
		p := &pool{owner: o}
		ask := agent.AgentAsk{MaxCost: limit.Dollar}
		_, first, _, err := o.host.AdmitAgent(t.Context(), &agent.Attempt{}, ask, true)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var wait sync.WaitGroup
		wait.Go(func() {
			if _, _, _, err := o.host.AdmitAgent(t.Context(), &agent.Attempt{}, ask, true); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		o.host.ReleaseAgent(first)
		<-o.host.starts.ended
		p.agentEnded(time.Now())
		(<-o.inbox).deliver(p)
		time.Sleep(time.Until(p.resting[0].due))
		p.wakeResting(time.Now())
		wait.Wait()
		if took := time.Since(began); took >= time.Second {
			t.Errorf("an agent went on %s after another one had ended", took)
		}
	})
}
