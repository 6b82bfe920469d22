package simulate

import (
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// isolated is a job whose agents work at the same time from the same commit, so that what they did may conflict.
const isolated = `
workspace: {verify: {commands: [{shell: make test}], batch: 8}, setup: [{shell: make deps}]}
map:
  input: [0, 1, 2, 3, 4, 5, 6, 7]
  max_parallel: 8
  agent_template: [{shell: "change ${item}"}]
error_policy: {on_item_failure: dlq}
`

// rejections returns why the work of items was not merged, by item.
func rejections(all []events.Record) map[string]retry.Type {
	found := map[string]retry.Type{}
	for _, r := range all {
		if e, ok := r.Event.(events.AgentFailed); ok {
			found[e.ItemID] = e.ErrorType
		}
	}
	return found
}

func TestTheMergeQueueIsSimulated(t *testing.T) {
	for _, c := range []struct {
		name, source, script string
		merged               int
		rejected             map[string]retry.Type
		verified             int // runs of the steps that verify, at least
	}{
		{"all is well", isolated, "default: {takes: 1m}", 8, nil, 1},
		{"one conflicts", isolated, "{default: {takes: 1m}, outcomes: [{item: item_3, conflict: [a.go, b.go]}]}", 7, map[string]retry.Type{"item_3": retry.TypeMergeConflict}, 1},
		{
			"one breaks the tests", isolated, "{default: {takes: 1m}, outcomes: [{phase: verify, item: item_5, exit: 1, stderr: 'FAIL: a test'}]}",
			7,
			map[string]retry.Type{"item_5": retry.TypeVerifyFailed},
			4,
		},
		{"the workspace is not made", isolated, "{default: {takes: 1m}, outcomes: [{phase: workspace, exit: 1}]}", 0, nil, 0},
		{
			"the resolution is merged", "workspace: {resolve: [{id: mend, shell: mend}]}\n" + isolated[len("\nworkspace: {verify: {commands: [{shell: make test}], batch: 8}, setup: [{shell: make deps}]}\n"):],
			"{default: {takes: 1m}, outcomes: [{item: item_3, attempt: 1, conflict: true}]}", 8,
			map[string]retry.Type{"item_3": retry.TypeMergeConflict},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, all := simulatedAgents(t, c.source, c.script)
			tally, first := NewTally(), 0
			for _, one := range all {
				tally.Apply(one)
				if e, ok := one.Event.(events.AgentFailed); ok && e.ErrorType == retry.TypeMergeConflict && first == 0 {
					first = len(e.Conflicts)
				}
			}
			if tally.Merged != c.merged || r.Merge == nil || r.Merge.Merged != c.merged || tally.Verified < c.verified || tally.Job.AtWork() != 0 {
				t.Errorf("got %+v and %+v, want %d merged and %d verified", tally, r.Merge, c.merged, c.verified)
			}
			got := rejections(all)
			if c.merged > 0 && len(got) != len(c.rejected) {
				t.Errorf("got %v, want %v", got, c.rejected)
			}
			for id, why := range c.rejected {
				if got[id] != why {
					t.Errorf("%s: got %q, want %q", id, got[id], why)
				}
			}
			if c.name == "one conflicts" && first != 2 {
				t.Errorf("got %d files in conflict, want the two", first)
			}
		})
	}
}

// Nothing conflicts with nothing: what an attempt did that began at the head can always be merged.
func TestTheFirstNeverConflicts(t *testing.T) {
	const source = "workspace: git\nmap:\n  input: [1, 2, 3, 4, 5, 6]\n  max_parallel: 6\n  agent_template: [{shell: change}]\nerror_policy: {on_item_failure: dlq}\n"
	r, all := simulatedBy(t, source, func(time.Time) Model { return Chance{Seed: 1, ConflictRate: 1} })
	// One that begins at the same virtual instant as the first ends, but after it, begins at the work of that.
	if got := rejections(all); len(got) < 3 || r.Merge.Merged < 1 || len(got)+r.Merge.Merged != 6 || r.State != jobs.Completed {
		t.Errorf("got %d merged and %v in a job that has %s, want the first merged and most others to conflict", r.Merge.Merged, got, r.State)
	}
}

func TestAJobLikeAnotherMergesWhatThatHasMerged(t *testing.T) {
	night, records := simulatedAgents(t, isolated, `
default: {takes: "uniform(1m, 3m)"}
outcomes:
  - {item: [item_2, item_6], conflict: true}
  - {phase: verify, item: item_4, exit: 1, takes: 5m}
`)
	w, err := workflow.Parse("w.yml", []byte(isolated), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again, all := simulatedBy(t, isolated, func(time.Time) Model {
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
	if again.Merge.Merged != night.Merge.Merged {
		t.Errorf("got %d merged, want %d", again.Merge.Merged, night.Merge.Merged)
	}
	got, want := rejections(all), rejections(records)
	if len(got) != len(want) || got["item_4"] != retry.TypeVerifyFailed {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestARuleAboutMergesIsAboutNothingElse(t *testing.T) {
	for text, want := range map[string]string{
		"{outcomes: [{conflict: true, exit: 1}]}":     "o.yml:1:13: conflict applies to merging",
		"{outcomes: [{conflict: true, step: fetch}]}": "o.yml:1:13: conflict applies to merging",
		"{outcomes: [{phase: verfy}]}":                `o.yml:1:21: phase: unknown phase "verfy" (did you mean "verify"?)`,
	} {
		_, err := ParseScript("o.yml", []byte(text))
		if err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
