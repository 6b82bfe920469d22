package natsfleet

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/mask"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// secretOfAll is the secret of a workflow that has one.
const secretOfAll = "s3cr3t-of-all"

// conforming are workflows that come to the same wherever their items run, and how many of their items succeed.
var conforming = map[string]struct {
	successful int
	text       string
}{
	"captures pass from step to step, and reduce sees the results": {3, `
setup: [{shell: "echo prepared", capture: before}]
map:
  input: [1, 2, 3]
  agent_template:
    - shell: echo "${before} ${item}"
      capture: said
    - shell: "[ '${said}' = 'prepared ${item}' ] && echo ok"
reduce: [{shell: "echo ${map.successful} of ${map.total}"}]
`},
	"failures are dead letters, and what is allowed to fail is not": {2, `
map:
  input: [1, 2, 3, 4]
  agent_template:
    - {shell: "echo note >&2; exit 3", allow_failure: true}
    - shell: "echo out ${item}; echo err ${item} >&2; exit $(( ${item} % 2 ))"
`},
	"steps are tried again": {2, `
map:
  input: [1, 2, 3]
  agent_template:
    - shell: "n=$(cat $TRIES-${item} 2>/dev/null || echo 0); echo $((n+1)) >$TRIES-${item}; echo try $n; [ $n -ge ${item} ]"
      retry_config: {attempts: 3, backoff: fixed, initial_delay: 10ms, jitter: false}
`},
	"items are tried again": {2, `
error_policy: {on_item_failure: retry, retry_config: {max_attempts: 3, backoff: {type: fixed, delay: 10ms}}}
map:
  input: [1, 2, 9]
  agent_template: [{shell: "n=$(cat $TRIES-${item} 2>/dev/null || echo 0); echo $((n+1)) >$TRIES-${item}; [ $n -ge ${item} ]"}]
`},
	"handlers of a failed step run": {2, `
map:
  input: [1, 2]
  agent_template:
    - shell: "exit ${item}"
      on_failure: {shell: "echo mended ${item}"}
    - shell: echo after
`},
	"a step is skipped, and one is run for each value": {2, `
map:
  input: [1, 2]
  agent_template:
    - {shell: "echo not me", when: "${item} == 2"}
    - {foreach: {input: [a, b], do: [{shell: "echo each ${item}"}]}}
`},
	"a step that takes too long is ended": {1, `
map:
  input: [1, 2]
  agent_template: [{shell: "[ ${item} = 1 ] || sleep 30", timeout: 300ms}]
`},
	"failures are skipped": {1, `
error_policy: {on_item_failure: skip}
map:
  input: [1, 2, 3]
  agent_template: [{shell: "exit $(( ${item} % 2 ))"}]
`},
	"the first failure stops the job": {1, `
error_policy: {on_item_failure: stop}
map:
  max_parallel: 1
  input: [1, 2, 3]
  agent_template: [{shell: "exit $(( ${item} - 1 ))"}]
`},
	"files are written": {2, `
map:
  input: [1, 2]
  agent_template:
    - write_file: {path: "made-${item}", content: "of ${item}"}
    - shell: cat made-${item}
`},
	"items are the same to the byte": {3, `
map:
  input: [{"a": "<b> & \u2028", "n": 1.50e3}, "x<y>&z", {"u": "\u00e9 é"}]
  agent_template: [{shell: "echo ${item} | od -c"}]
`},
	"a step begins at its rate, and so do its retries": {4, `
map:
  max_parallel: 2
  input: [1, 2, 3, 4]
  agent_template:
    - shell: echo before
    - shell: "n=$(cat $TRIES-${item} 2>/dev/null || echo 0); echo $((n+1)) >$TRIES-${item}; [ $n -ge $(( ${item} % 2 )) ]"
      rate: {limit: 10/s, burst: 1}
      retry_config: {attempts: 2, backoff: fixed, initial_delay: 10ms, jitter: false}
`},
	"a straggler is stopped, and tried again": {2, `
map:
  max_parallel: 2
  input: [1, 2]
  straggler: {after: 3s, stop: true}
  agent_template:
    - shell: "[ ${item} != 1 ] || [ $PRODIGY_ATTEMPT = 2 ] || exec sleep 30; echo done"
error_policy: {retry_config: {attempts: 2, initial_delay: 10ms, backoff: fixed, jitter: false}}
`},
	"a validation judges what a step has done": {2, `
map:
  input: [30, 40, 60]
  agent_template:
    - validate:
        shell: "if test -e $TRIES-${item}; then echo '{\"completion_percentage\":95}'; else echo '{\"completion_percentage\":${item},\"missing\":[\"tests\"]}'; fi"
        threshold: 50
        on_incomplete: {shell: "[ ${item} = 30 ] || touch $TRIES-${item}", max_attempts: 2}
    - shell: echo "${validation.status} ${validation.completion} ${validation.missing}"
`},
	"the breaker of a step opens, and is half-open after its timeout": {2, `
map:
  max_parallel: 1
  input: [1, 2, 3, 4, 5]
  agent_template:
    - shell: "[ ${item} != 4 ] || sleep 3.5"
    - id: call
      shell: "echo called; [ ${item} -gt 2 ]"
      retry_config: {attempts: 1, circuit_breaker: {failure_threshold: 2, success_threshold: 1, half_open_requests: 1, timeout: 3s}}
`},
	"what held a secret in setup is known": {1, `
env: {TOKEN: {secret: true, value: ` + secretOfAll + `}}
setup: [{shell: "echo token $TOKEN", capture: prepared}]
map:
  input: [1]
  agent_template: [{shell: '[ "${prepared}" = "token $TOKEN" ] && echo "the same: ${prepared}"'}]
`},
	"agents answer, and cost": {2, `
map:
  input: [one, refuse, three]
  agent_template:
    - agent: {use: mine, prompt: "${item}"}
      capture: said
    - shell: echo "${said} ${agent.outcome} ${agent.cost} ${agent.session_id}"
`},
	"the environment is that of the workflow": {1, `
env: {GREETING: hello}
map:
  input: [1]
  agent_template: [{shell: 'echo "$GREETING $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT $PRODIGY_JOB_ID" | sed "s/mapreduce-.*/JOB/"', env: {MORE: x}}]
`},
}

// happened is what is compared of a record.
type happened struct {
	Type, Step, Error, Kind, Action, Output string
	Attempt, Exit                           int
	Captured                                map[string]json.RawMessage
}

// story returns what happened to each item, in order; "" is all that is about none.
func story(t *testing.T, place jobs.Job) map[string][]happened {
	all := map[string][]happened{}
	for _, r := range recordsOf(t, place) {
		h := happened{Type: events.TypeOf(r.Event)}
		id := ""
		switch e := r.Event.(type) {
		case events.AgentStarted:
			id, h.Attempt = e.ItemID, e.Attempt
		case events.AgentCompleted:
			id, h.Attempt, h.Output, h.Exit, h.Captured = e.ItemID, e.Attempt, e.Output, e.ExitCode, e.Captured
		case events.AgentFailed:
			id, h.Attempt, h.Step, h.Error, h.Kind, h.Action, h.Output = e.ItemID, e.Attempt, e.Step, e.Error, string(e.ErrorType), string(e.Action), e.StdoutTail+e.StderrTail
			if e.ExitCode != nil {
				h.Exit = *e.ExitCode
			}
		case events.StepRetrying:
			id, h.Step, h.Kind = e.ItemID, e.Step, string(e.ErrorType)
		case events.StepFailed:
			id, h.Step, h.Error = e.ItemID, e.Step, e.Error
		case events.StepSkipped:
			id, h.Step = e.ItemID, e.Step
		case events.StepTurn: // a worker asks for a turn in another way than it reports a retry, so their order may differ
			id, h.Step = e.ItemID+", turns", e.Step
		case events.AgentUsage:
			id, h.Step, h.Kind, h.Output = e.ItemID, e.Step, e.Outcome, e.CostUSD.Decimal()
		case events.AgentSkipped:
			id = e.ItemID
		case events.DLQItemAdded:
			id = e.ItemID
		case events.StepCompleted:
			h.Step, h.Output = e.Step, e.Output
		case events.CircuitOpen:
			h.Step, h.Exit = e.Scope, e.ConsecutiveFailures
		case events.CircuitHalfOpen, events.CircuitClosed, events.JobCompleted, events.JobFailed, events.PhaseStarted, events.PhaseCompleted:
		default:
			continue
		}
		if h.Captured != nil && len(h.Captured) == 0 {
			h.Captured = nil
		}
		all[id] = append(all[id], h)
	}
	return all
}

// All that a workflow says comes to the same on a fleet as in the local pool: the same events of each item, and the same end.
func TestTheFleetDoesAsTheLocalPool(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute // a busy machine is no fault
	f.worker("a", 3, nil)
	f.worker("b", 3, nil)
	for name, c := range conforming {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stories [2]map[string][]happened
			var results [2]mapreduce.Result
			for i, where := range []string{"pool", "fleet"} {
				source := "mode: mapreduce" + c.text
				w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
				if err != nil {
					t.Fatal(err)
				}
				w.Env = append(w.Env, workflow.EnvVar{Name: "TRIES", Value: workflow.Text{Value: filepath.Join(t.TempDir(), "tries")}})
				dir := t.TempDir()
				cli := newFakeCLI(t)
				config := mapreduce.Config{Agents: cli.agents, Home: jobs.Home{Root: dir}, Dir: dir, Environ: []string{"PATH=/usr/bin:/bin"}, Version: "test", MaxRetries: 3, EndConfig: mapreduce.EndConfig{Grace: time.Second}, LogConfig: job.LogConfig{Durability: events.Batch}}
				if strings.Contains(c.text, "TOKEN") {
					config.Settings = settings.Settings{Env: []workflow.EnvVar{{Name: "TOKEN", Secret: true}}, Secrets: map[string]string{"TOKEN": secretOfAll}, Mask: mask.New([]string{secretOfAll})}
				}
				if where == "fleet" {
					of, coordinator := f.config(cli.tell)
					config.Executor, config.OnFleet, config.Observe, config.Dir = of.Executor, true, of.Observe, f.root
					defer func() { _ = coordinator.Close() }()
				}
				if results[i], err = mapreduce.Run(t.Context(), config, w, []byte(source)); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				stories[i] = story(t, results[i].Job)
			}
			if diff := cmp.Diff(stories[0], stories[1]); diff != "" {
				t.Errorf("the fleet does otherwise (-pool +fleet):\n%s", diff)
			}
			results[0].Metrics.TotalItems, results[1].Metrics.TotalItems = 0, 0 // of a job that stops, not all may have been selected
			if a, b := results[0], results[1]; a.State != b.State || a.Reason != b.Reason || !cmp.Equal(a.Metrics, b.Metrics) {
				t.Errorf("pool: %s (%s) %+v\nfleet: %s (%s) %+v", a.State, a.Reason, a.Metrics, b.State, b.Reason, b.Metrics)
			}
			if n := results[0].Metrics.Successful; n != c.successful {
				t.Errorf("%d items succeed, want %d", n, c.successful)
			}
		})
	}
}
