package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// trial is a job whose commands end as a table says, which a shell script can read as well as a Model.
type trial struct {
	source string
	codes  map[string]int // by item, attempt, step and try, as in "b 1 first 2"; missing: 0
	items  int
}

// command takes long enough that a busy machine starts the next one before a retry is due where virtual time would.
const (
	takes = 60 * time.Millisecond
	delay = "20ms"
)

// trialOf makes a job from a seed: its policy, and how its commands end.
func trialOf(seed uint64) trial {
	r := rand.New(rand.NewPCG(seed, 17))
	one := func(choices ...string) string { return choices[r.IntN(len(choices))] }
	t := trial{codes: map[string]int{}, items: 8}
	var items []string
	for i := range t.items {
		id := string(rune('a' + i))
		items = append(items, "{id: "+id+"}")
		for attempt := 1; attempt <= 3; attempt++ {
			for _, step := range []string{"first", "second"} {
				for try := 1; try <= 2; try++ {
					if r.IntN(5) < 2 {
						t.codes[fmt.Sprint(id, " ", attempt, " ", step, " ", try)] = []int{1, 7, 75}[r.IntN(3)]
					}
				}
			}
		}
	}
	step := func(id string) string {
		retries := ""
		if r.IntN(2) == 0 {
			retries = fmt.Sprintf("\n      retry_config: {attempts: 2, initial_delay: %s, jitter: %s, retry_on: [%s]}", delay, one("false", "full"), one("{exit_code: [1, 7]}", "{exit_code: [1, 7, 75]}"))
		}
		return fmt.Sprintf(`
    - id: %s
      shell: |
        sleep %.2f
        echo x >> "$COUNTS/${item.id}-${attempt}-%s"
        exit $(awk -v key="${item.id} ${attempt} %s $(wc -l < "$COUNTS/${item.id}-${attempt}-%s" | tr -d ' ')" '$1" "$2" "$3" "$4 == key {code=$5} END {print code+0}' "$CODES")%s`, id, takes.Seconds(), id, id, id, retries)
	}
	breaker := ""
	if r.IntN(2) == 0 {
		breaker = "\n  circuit_breaker: {failure_threshold: 3, timeout: 1h}"
	}
	limit := ""
	if r.IntN(3) == 0 {
		limit = "\n  max_failures: 3"
	}
	policy := one("dlq", "skip", "retry", "retry", "retry")
	if policy == "retry" {
		policy += fmt.Sprintf("\n  retry_config: {attempts: %d, initial_delay: %s, backoff: %s, jitter: %s}", 2+r.IntN(2), delay, one("fixed", "exponential"), one("false", "equal"))
	}
	t.source = fmt.Sprintf(`name: trial
map:
  input: [%s]
  key: id
  max_parallel: 1
  agent_template:%s%s
error_policy:
  on_item_failure: %s%s%s
`, strings.Join(items, ", "), step("first"), step("second"), policy, breaker, limit)
	return t
}

func (trial) Conflicts(agent.SimulatedTry) []string { return nil }

// Outcome implements Model.
func (t trial) Outcome(s agent.SimulatedTry) Outcome {
	key := fmt.Sprint(s.Attempt.ItemID, " ", s.Attempt.Number, " ", s.Label, " ", s.Number)
	return Outcome{Takes: takes, ExitCode: t.codes[key]}
}

// decisions returns what was decided in a job, in order.
func decisions(t *testing.T, place jobs.Job) []string {
	t.Helper()
	var all []string
	for r, err := range events.Read(place.EventsDir()) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := r.Event.(type) {
		case events.AgentStarted:
			all = append(all, fmt.Sprint("start ", e.ItemID, " ", e.Attempt))
		case events.StepRetrying:
			all = append(all, fmt.Sprint("try ", e.ItemID, " ", e.Step, " again after ", e.Attempt, " ", e.ErrorType, " ", e.Error, " in ", time.Duration(e.DelayMS)))
		case events.AgentCompleted:
			all = append(all, fmt.Sprint("success ", e.ItemID, " ", e.Attempt))
		case events.AgentFailed:
			wait := "-"
			if e.DelayMS != nil {
				wait = fmt.Sprint(time.Duration(*e.DelayMS))
			}
			all = append(all, fmt.Sprint("failure ", e.ItemID, " ", e.Attempt, " ", e.Step, " ", e.ErrorType, " ", e.Error, " ", e.Action, " ", e.Reason, " ", wait))
		case events.CircuitOpen, events.CircuitHalfOpen, events.CircuitClosed, events.DLQItemAdded, events.AgentSkipped, events.JobFailed, events.JobCompleted:
			if o, ok := e.(events.CircuitOpen); ok {
				all = append(all, fmt.Sprint("open ", o.Scope, " ", o.ConsecutiveFailures))
				continue
			}
			all = append(all, fmt.Sprint(events.TypeOf(r.Event), " ", events.Subject(r.Event)))
		}
	}
	return all
}

// A simulated job decides the same, in the same order, as a job whose commands really run and end the same.
func TestASimulationDecidesAsARunDoes(t *testing.T) {
	seeds := 20 / testenv.OneIn(20, 10)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			holdAgainstARun(t, trialOf(seed+1), seed+1)
		})
	}
}

func holdAgainstARun(t *testing.T, one trial, seed uint64) {
	dir := t.TempDir()
	var table strings.Builder
	for key, code := range one.codes {
		fmt.Fprintln(&table, key, code)
	}
	if err := os.WriteFile(filepath.Join(dir, "codes"), []byte(table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := workflow.Parse("trial.yml", []byte(one.source), workflow.ParseOptions{})
	if err != nil {
		t.Fatalf("%v\n%s", err, one.source)
	}
	c := mapreduce.Config{
		Dir: dir, Environ: os.Environ(), Seed: seed,
		MaxRetries: 3,
		EndConfig:  mapreduce.EndConfig{Grace: 5 * time.Second},
		LogConfig:  job.LogConfig{Durability: events.None},
	}
	c.Home.Root = filepath.Join(dir, "simulated")
	began := time.Now()
	simulated, err := Run(t.Context(), Job{Config: c, Workflow: w, Source: []byte(one.source), Model: one, Begin: began})
	if err != nil {
		t.Fatal(err)
	}
	got := decisions(t, simulated.Job)
	for tries := 1; ; tries++ { // a machine that is very busy may start something later than a retry is due
		c.Home.Root, c.Environ = filepath.Join(dir, "real"), append(os.Environ(), "CODES="+filepath.Join(dir, "codes"), "COUNTS="+t.TempDir())
		real, err := mapreduce.Run(t.Context(), c, w, []byte(one.source))
		if err != nil {
			t.Fatal(err)
		}
		want := decisions(t, real.Job)
		same := slices.Equal(got, want) && len(want) >= one.items && counted(t, simulated) == counted(t, real)
		if same {
			return
		}
		if tries == 3 {
			t.Fatalf("simulated, %s:\n%s\nreally run, %s:\n%s\n%s", counted(t, simulated), strings.Join(got, "\n"), counted(t, real), strings.Join(want, "\n"), one.source)
		}
	}
}

// counted returns how a job ended, and its counts.
func counted(t *testing.T, r mapreduce.Result) string {
	t.Helper()
	data, err := json.Marshal(r.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(r.State, " ", r.Reason, " ", m["successful"], " ", m["failed"], " ", m["skipped"], " ", m["rejected"], " ", m["by_type"])
}
