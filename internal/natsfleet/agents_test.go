package natsfleet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// fakeCLI is the preset of an AI coding CLI named mine. It answers each prompt with that, at 2.5 cents, but does not want to answer "refuse".
type fakeCLI struct {
	agents ai.Set
	layer  string
}

func newFakeCLI(t *testing.T) fakeCLI {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mycli")
	const script = `#!/bin/sh
read -r prompt
stop=end_turn
if [ "$prompt" = refuse ]; then stop=refusal; fi
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s1","stop_reason":"'$stop'","total_cost_usd":0.025,"result":"'"$prompt"'"}'
`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	c := fakeCLI{layer: "mine: {extends: claude, argv: ['" + path + "']}"}
	layer, err := ai.ReadLayer("agents.yml", []byte(c.layer))
	if err == nil {
		c.agents, err = ai.Load(layer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tell tells a coordinator of the CLI.
func (c fakeCLI) tell(o *fleet.JobOptions) { o.Agents, o.Layers = true, []string{c.layer} }

// A job whose budget is spent ends, and its worker goes on with other jobs at once: it has done nothing wrong.
func TestABudgetThatIsSpentIsNoFaultOfTheWorker(t *testing.T) {
	f := newField(t)
	cli := newFakeCLI(t)
	w := f.worker("a", 2, nil)
	run := func(source string) mapreduce.Result {
		t.Helper()
		c, coordinator := f.config(cli.tell)
		c.Agents = cli.agents
		r, err := f.runWith(c, coordinator, source)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const items = `mode: mapreduce
map:
  max_parallel: 2
  input: [1, 2, 3, 4, 5, 6]
  agent_template: [{agent: {use: mine, prompt: "${item}", max_cost: 0.05}}]
`
	if r := run(items + "budget: {job: 0.07}\n"); r.State != jobs.Failed || !strings.Contains(r.Reason, "the budget of $0.07 ") || r.Metrics.Failed != 0 {
		t.Errorf("got %s (%s) with %+v, want a job that its budget has stopped", r.State, r.Reason, r.Metrics)
	}
	if r := run(items); r.Metrics.Successful != 6 {
		t.Errorf("got %s (%s) with %+v, want 6 successful", r.State, r.Reason, r.Metrics)
	}
	if said := w.said.String(); strings.Contains(said, "rests") {
		t.Errorf("the worker rests after a job of which the budget is spent:\n%s", said)
	}
}

// admittingHost admits all agents, and notes which starts are answered.
type admittingHost struct {
	deafHost
	admitted           int64
	reported, released []int64
}

func (h *admittingHost) AdmitAgent(context.Context, *agent.Attempt, agent.AgentAsk, bool) (int, agent.AgentTicket, *agent.Failure, error) {
	h.admitted++
	return 1, agent.AgentTicket{ID: h.admitted}, nil, nil
}

func (h *admittingHost) ReportAgent(_ *agent.Attempt, t agent.AgentTicket, _ *agent.Failure, _ ai.LimitUse) (bool, error) {
	h.reported = append(h.reported, t.ID)
	return false, nil
}

func (h *admittingHost) ReleaseAgent(t agent.AgentTicket) { h.released = append(h.released, t.ID) }

// What an agent was admitted with is given back once: by its worker, or when that is lost.
func TestTheStartsOfALostWorkerAreGivenBack(t *testing.T) {
	h := &admittingHost{}
	c := quietCoordinator(fleet.JobOptions{Lease: time.Minute})
	c.host = h
	c.state.flights[1] = newFlight(t.Context(), &agent.Attempt{Assignment: agent.Assignment{Token: 1}})
	call := func(method, from string, args callArgs) (result callResult) {
		t.Helper()
		r, err := c.invoke(fleet.Call{Method: method, Token: 1, From: from, Args: encoded(args)})
		if err != nil {
			t.Fatal(err)
		}
		result, _ = r.(callResult)
		return result
	}
	var starts []callArgs
	for _, from := range []string{"a", "b", "b", "a"} {
		r := call(callAdmitAgent, from, callArgs{})
		starts = append(starts, callArgs{Agent: r.Agent})
	}
	call(callReportAgent, "a", starts[0])
	call(callRelease, "b", starts[1])
	lose := func(after time.Duration) { c.releaseTickets(time.Now().Add(after)) }
	lose(50 * time.Second)
	c.state.workers.of("a").heard = time.Now().Add(time.Hour)
	lose(2 * time.Minute)
	lose(3 * time.Minute)
	call(callReportAgent, "b", starts[2])
	call(callRelease, "b", starts[2])
	before := starts[3] // a coordinator before may have given one with the same ID: nothing of it is open here
	before.Agent.Owner = "another"
	call(callReportAgent, "a", before)
	call(callRelease, "a", before)
	call(callReportAgent, "a", starts[3])
	if want := []int64{1, -1, 4}; !slices.Equal(h.reported, want) {
		t.Errorf("reported: %v, want %v", h.reported, want)
	}
	if want := []int64{2, 3}; !slices.Equal(h.released, want) {
		t.Errorf("released: %v, want %v", h.released, want)
	}
}
