package simulate

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

// agentsOf returns a workflow whose items are the work of one agent each.
func agentsOf(items, parallel int, step, rest string) string {
	list := make([]string, items)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return fmt.Sprintf("map:\n  input: [%s]\n  max_parallel: %d\n  agent_template:\n    - id: write\n      agent: {prompt: \"do ${item}\"%s}\n%s", strings.Join(list, ", "), parallel, step, rest)
}

// simulatedAgents runs a workflow whose agents end as a script says, and returns its records as well.
func simulatedAgents(t *testing.T, source, script string) (mapreduce.Result, []events.Record) {
	t.Helper()
	m, err := ParseScript("outcomes.yml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	m.Seed = 1
	return simulatedBy(t, source, func(begin time.Time) Model { m.Begin = begin; return m })
}

func simulatedBy(t *testing.T, source string, model func(begin time.Time) Model) (mapreduce.Result, []events.Record) {
	t.Helper()
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	presets, err := ai.Load()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := mapreduce.Config{Home: jobs.Home{Root: dir}, Dir: dir, Environ: os.Environ(), Seed: 5, Agents: presets, EndConfig: mapreduce.EndConfig{Grace: time.Second}, LogConfig: job.LogConfig{LogSteps: true}}
	var all []events.Record
	r, err := Run(t.Context(), Job{
		Config: c, Workflow: w, Source: []byte(source), Model: model(begin), Begin: begin, Observe: func(records []events.Record) { all = append(all, records...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, all
}

func usages(all []events.Record) (found []events.AgentUsage) {
	for _, r := range all {
		if e, ok := r.Event.(events.AgentUsage); ok {
			found = append(found, e)
		}
	}
	return found
}

func usd(f float64) limit.USD { return limit.FromFloat(f) }

func TestABudgetStopsASimulatedJob(t *testing.T) {
	r, _ := simulatedAgents(t, agentsOf(10, 2, "", "budget: {job: 1}\n"), "default: {takes: 1m, cost: $0.30, tokens: {input: 10k, output: 500}}\n")
	if r.State != jobs.Failed || r.Budget == nil || r.Spent.Cost != usd(0.9) || r.Metrics.Successful != 3 || r.Spent.Tokens.Input != 30_000 {
		t.Errorf("got %s (%s) with %d items for %s and %+v, want three items for $0.90", r.State, r.Reason, r.Metrics.Successful, r.Spent.Cost, r.Spent.Tokens)
	}
}

func TestASimulatedAgentIsEndedAsARealOneIs(t *testing.T) {
	for _, c := range []struct {
		name, step, script string
		outcome            string
		took               time.Duration
		cost               limit.USD
	}{
		{"it ends", "", "default: {takes: 10m, cost: $2}", "success", 10 * time.Minute, usd(2)},
		{"it reaches its cap", ", max_cost: 0.5", "default: {takes: 10m, cost: $2}", "budget", 150 * time.Second, usd(0.5)},
		{"it is silent", ", stall_timeout: 5m", "default: {hangs: true, cost: $2}", "stalled", 5 * time.Minute, usd(2)},
		{"its time is up", "}\n      timeout: 4m\n      env: {A: b", "default: {takes: 10m, cost: $2}", "timeout", 4 * time.Minute, usd(0.8)},
		{"it refuses", "", "default: {takes: 1m, cost: $1, error: refused}", "refused", time.Minute, usd(1)},
		{"the service is busy", "", "default: {takes: 1m, cost: $1, error: rate_limit}", "overloaded", time.Minute, usd(1)},
		{"it says nothing", "", `default: {takes: 1m, cost: $1, output: ""}`, "incomplete", time.Minute, usd(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, all := simulatedAgents(t, agentsOf(1, 1, c.step, ""), c.script+"\n")
			used := usages(all)
			if len(used) != 1 || used[0].Outcome != c.outcome || time.Duration(used[0].DurationMS).Round(time.Second) != c.took || used[0].CostUSD == nil || *used[0].CostUSD != c.cost {
				t.Fatalf("got %+v, want one that %s after %v for %s", used, c.outcome, c.took, c.cost)
			}
			if failed := r.Metrics.Failed; (failed == 0) != (c.outcome == "success") {
				t.Errorf("got %d failed items", failed)
			}
		})
	}
}

// A try that meets the limit is made again, and charges nothing: it must not end in the same way for ever.
func TestTheLimitOfAPlanIsWaitedFor(t *testing.T) {
	source := agentsOf(6, 2, "", "error_policy: {on_item_failure: dlq}\n")
	r, all := simulatedAgents(t, source, "default: {takes: 10m, cost: $1}\noutcomes:\n  - {from: 5m, to: 3h, error: quota, takes: 1s, cost: 0}\n")
	if r.Metrics.Successful != 6 || r.Spent.Cost != usd(6) || r.Duration < 3*time.Hour || r.Duration > 4*time.Hour {
		t.Errorf("got %d successful for %s in %v, want 6 for $6.00 in a little more than 3 h", r.Metrics.Successful, r.Spent.Cost, r.Duration)
	}
	tally := NewTally()
	for _, one := range all {
		tally.Apply(one)
	}
	if tally.Pauses != 1 || time.Duration(tally.Paused).Round(10*time.Minute) != 3*time.Hour {
		t.Errorf("got %d pauses of %v in all, want one of three hours", tally.Pauses, time.Duration(tally.Paused))
	}
	r, _ = simulatedAgents(t, source, "default: {takes: 1m}\noutcomes:\n  - {chance: 0.5, error: quota, takes: 1s, resets: 1h}\n")
	if r.Metrics.Successful != 6 {
		t.Errorf("got %d successful, want all: the limit was met by chance", r.Metrics.Successful)
	}
}

func TestAnAnswerIsHeldAgainstItsSchema(t *testing.T) {
	dir := t.TempDir()
	schema := dir + "/schema.json"
	if err := os.WriteFile(schema, []byte(`{"type": "object", "required": ["title"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	source := agentsOf(3, 1, ", schema: "+schema, "")
	r, all := simulatedAgents(t, source, `{outcomes: [{item: item_0, output: '{"title": "a"}'}, {item: item_1, output: '{"name": "b"}'}]}`)
	if r.Metrics.Successful != 2 || r.Metrics.Failed != 1 {
		t.Errorf("got %+v, want the item to fail whose answer has no title", r.Metrics)
	}
	if used := usages(all); len(used) != 3 || used[1].Outcome != "incomplete" {
		t.Errorf("got %+v, want the second one to be incomplete", used)
	}
}

func TestAJobLikeAnotherCostsWhatThatHasCost(t *testing.T) {
	const steps = `
    - id: check
      shell: check ${item}
    - id: mend
      agent: {prompt: "mend ${item}"}
      retry_config: {attempts: 3, initial_delay: 5s}
reduce:
  - agent: {prompt: sum}
`
	const script = `
default: {takes: "lognormal(2m, 0.5)", cost: "lognormal($0.20, 0.5)", tokens: {input: 10k, output: 1k}}
outcomes:
  - {step: check, takes: 10s}
  - {step: mend, chance: 0.2, error: rate_limit, takes: 2s, cost: 0}
  - {step: write, chance: 0.1, error: quota, takes: 2s, cost: 0, resets: 10m}
  - {step: write, chance: 0.1, error: refused}
`
	source := agentsOf(30, 3, "", steps)
	night, records := simulatedAgents(t, source, script)
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	like := func(source string) (mapreduce.Result, []events.Record) {
		return simulatedBy(t, source, func(time.Time) Model {
			log, err := LogOf(func(yield func(events.Record, error) bool) {
				for _, r := range records {
					if !yield(r, nil) {
						return
					}
				}
			}, w.Map.AgentTemplate, 1)
			if err != nil {
				t.Fatal(err)
			}
			return log
		})
	}
	again, all := like(source)
	if again.Spent.Cost != night.Spent.Cost || again.Spent.Agents != night.Spent.Agents || again.Metrics.Failed != night.Metrics.Failed {
		t.Errorf("got %d failed, %s for %d agents, want %d, %s for %d", again.Metrics.Failed, again.Spent.Cost, again.Spent.Agents, night.Metrics.Failed, night.Spent.Cost, night.Spent.Agents)
	}
	if got, want := len(usages(all)), len(usages(records)); got != want {
		t.Errorf("got %d runs of agents, want %d", got, want)
	}
	if slack := night.Duration / 10; again.Duration < night.Duration-slack || again.Duration > night.Duration+slack {
		t.Errorf("got %v, want about %v", again.Duration, night.Duration)
	}
	less, _ := like(source + "budget: {job: 3}\n")
	if less.Budget == nil || less.Spent.Cost > usd(3) || less.Spent.Cost < usd(2) {
		t.Errorf("with a budget of $3.00 got %s (%s), want it to stop", less.Spent.Cost, less.Reason)
	}
}

func TestWithUseLeavesWhatIsKnown(t *testing.T) {
	var cost Costs
	var n Counts
	if err := errors.Join(cost.ReadText("uniform($1, $2)"), n.ReadText("20k")); err != nil {
		t.Fatal(err)
	}
	known := Outcome{Use: Use{Cost: 0, Costed: true}}
	for _, c := range []struct {
		agent *agent.SimulatedAgent
		o     Outcome
		least limit.USD
		most  limit.USD
		in    int64
	}{
		{nil, Outcome{}, 0, 0, 0},
		{&agent.SimulatedAgent{}, Outcome{}, usd(1), usd(2), 20_000},
		{&agent.SimulatedAgent{}, known, 0, 0, 20_000},
	} {
		of := WithUse{Model: modelFunc(func(agent.SimulatedTry) Outcome { return c.o }), Seed: 1, Cost: &cost, Tokens: &n}
		one := try("map", "a", "1", "write", 1, 1)
		one.Agent = c.agent
		got := of.Outcome(one).Use
		if got.Cost < c.least || got.Cost > c.most || got.Tokens.Input != c.in {
			t.Errorf("%+v: got %+v, want %s to %s and %d tokens", c, got, c.least, c.most, c.in)
		}
	}
}
