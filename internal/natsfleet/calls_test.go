package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/mask"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// What agents have cost is recorded also when a stop ends them.
func TestTheCostOfAgentsIsRecordedWhenTheJobIsStopped(t *testing.T) {
	f := newField(t)
	command := filepath.Join(f.root, "claude")
	if err := os.WriteFile(command, []byte("#!/bin/sh\n> runs-$PRODIGY_ITEM_ID; exec sleep 60\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	preset := fmt.Sprintf("claude: {argv: [%q]}", command)
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(preset), &node); err != nil {
		t.Fatal(err)
	}
	f.worker("a", 2, nil)
	cfg, of := f.config(func(o *fleet.JobOptions) { o.Agents, o.Layers = true, []string{preset} })
	var err error
	if cfg.Agents, err = ai.Load(ai.Layer{Name: "a test", Node: node.Content[0]}); err != nil {
		t.Fatal(err)
	}
	cfg.MaxCost = limit.FromFloat(100)
	stop, ask := context.WithCancelCause(t.Context())
	cfg.Stop = stop
	f.doing.Go(func() {
		f.untilThere("runs-*", 2)
		ask(errors.New("enough"))
	})
	r, err := f.runWith(cfg, of, "mode: mapreduce\nmap:\n  max_parallel: 2\n  input: [1, 2]\n  agent_template:\n    - agent: {prompt: \"do ${item}\"}\n")
	if err != nil || r.State != jobs.Stopped {
		t.Fatalf("got %s (%s), %v", r.State, r.Reason, err)
	}
	used := map[string]string{}
	for _, rec := range recordsOf(t, r.Job) {
		if e, ok := rec.Event.(events.AgentUsage); ok {
			used[e.ItemID] += e.Outcome
		}
	}
	if len(used) != 2 || used["item_0"] != "interrupted" || used["item_1"] != "interrupted" {
		t.Errorf("got %v, want that both were interrupted", used)
	}
}

// An attempt that was given up has cost something too. That of an attempt that the worker never had is not believed.
func TestTheCostOfAnAttemptThatWasGivenUpIsRecorded(t *testing.T) {
	host := new(usageHost)
	c := quietCoordinator(fleet.JobOptions{})
	c.host, c.jobID = host, "job"
	c.turn(func(s *jobState) {
		s.ledger.Add(7)
		assign(t, s.ledger, "A-1", 1, 7)
		s.ledger.Lose(&agent.Attempt{
			ID: "job/item_1/2", Assignment: agent.Assignment{ItemID: "item_1", ItemIndex: 1, Number: 2, Token: 7},
		})
	})
	line, err := events.Encode(events.Record{Seq: 1, JobID: "job", Event: events.AgentUsage{ItemID: "item_9", ItemIndex: 9, AgentID: "job/item_9/1", Step: "agent"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []fleet.Call{{From: "A-1", Token: 8}, {From: "B-1", Token: 7}, {From: "A-1", Token: 7}} {
		q.Method, q.Args = callRecordUsage, encoded(callArgs{Usage: line})
		if _, err := c.invoke(q); (err == nil) != (q.From == "A-1" && q.Token == 7) {
			t.Errorf("%s %d: %v", q.From, q.Token, err)
		}
	}
	want := events.AgentUsage{ItemID: "item_1", ItemIndex: 1, AgentID: "job/item_1/2", Attempt: 2, Step: "agent"}
	if len(host.used) != 1 || host.used[0] != want {
		t.Errorf("got %+v, want %+v", host.used, want)
	}
}

// What a step of setup printed that holds a secret reaches the attempts, however large it is.
func TestALargeOutputWithASecretArrives(t *testing.T) {
	f := newField(t)
	f.worker("a", 1, nil)
	const secret = "s3cr3t-of-the-fleet"
	r := f.run(`mode: mapreduce
env: {SHELL_TOKEN: {secret: true, value: `+secret+`}}
setup:
  - shell: head -c 900000 /dev/zero | tr '\0' y; echo "$SHELL_TOKEN"
    capture: prepared
map:
  input: [1]
  agent_template:
    - write_file: {path: got, content: "${prepared}"}
    - shell: wc -c < got
`, func(c *mapreduce.Config) {
		c.Settings = settings.Settings{Env: []workflow.EnvVar{{Name: "SHELL_TOKEN", Secret: true}}, Secrets: map[string]string{"SHELL_TOKEN": secret}, Mask: mask.New([]string{secret})}
	})
	for _, rec := range recordsOf(t, r.Job) {
		if e, ok := rec.Event.(events.AgentFailed); ok {
			t.Error(e.Error)
		}
		if e, ok := rec.Event.(events.AgentCompleted); ok && strings.TrimSpace(e.Output) != strconv.Itoa(900000+len(secret)) {
			t.Errorf("the attempt got %s bytes", e.Output)
		}
	}
	if r.State != jobs.Completed || r.Metrics.Successful != 1 {
		t.Errorf("got %s (%s) with %+v", r.State, r.Reason, r.Metrics)
	}
}

// Each worker numbers its own calls: with the number of a call of another worker it gets neither the answer, nor does it spoil it.
func TestAWorkerDoesNotAnswerForAnother(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	c.Executor(agent.Config{Seed: 1, Secrets: map[string]string{"A": "s3cr3t"}}, deafHost{})
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	ask := func(from, method string) (answer fleet.CallAnswer) {
		t.Helper()
		q := fleet.Call{ID: "VICTIM-1-5", From: from, Method: method, Args: json.RawMessage("{}"), Curve: c.curveID}
		m, err := c.nc.Request(callSubject(from, c.key), encoded(q), time.Minute)
		if err == nil {
			err = json.Unmarshal(m.Data, &answer)
		}
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if a := ask("EVIL-1", "nonsense"); a.Err == "" {
		t.Errorf("got %+v, want an error", a)
	}
	if a := ask("VICTIM-1", callSecrets); a.Sealed == nil {
		t.Errorf("got %+v, want the secrets", a)
	}
}

// Answers are kept for some time. What a call costs does not depend on how many there are.
func TestAnswersAreKeptForSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quietCoordinator(fleet.JobOptions{})
		asked := 0
		ask := func() {
			asked++
			q := fleet.Call{ID: strconv.Itoa(asked), From: "W-1", Method: "nothing", Args: json.RawMessage("{}")}
			c.call(&nats.Msg{Subject: callSubject(q.From, c.key), Data: encoded(q)})
		}
		const first, second = 30_000, 100
		for range first {
			ask()
		}
		synctest.Wait()
		time.Sleep(callKept - time.Nanosecond)
		for range second {
			ask()
		}
		kept := func() (n int) {
			c.turn(func(s *jobState) { n = len(s.calls.calls) })
			return n
		}
		if n := kept(); n != first+second {
			t.Errorf("%d answers are kept, want %d", n, first+second)
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if n := kept(); n != second {
			t.Errorf("%d answers are kept, want %d", n, second)
		}
	})
}
