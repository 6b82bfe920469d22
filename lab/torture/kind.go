//go:build unix

package torture

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// What becomes of an item is in its data, so that its agent and the judge know it without asking prodigy.
const (
	fateOK    = "ok"
	fateSlow  = "slow"  // succeeds after a moment
	fateHang  = "hang"  // never ends in the first run of the job, so that the kill finds it in flight
	fateBad   = "bad"   // always fails
	fateFlaky = "flaky" // fails until it has been tried three times
	fateMend  = "mend"  // fails until the file called mended is there
	fateBig   = "big"   // succeeds and prints more than a record holds
)

// kind is one way to use prodigy.
type kind struct {
	name      string
	policy    string // the error_policy of the workflow
	step      string // further keys of the agent's step
	setup     bool
	standard  bool     // no map phase
	fates     []string // of the unlucky items
	percent   int      // of items that are unlucky
	streak    int      // how many unlucky items come in a row
	tries     int      // that an item which always fails has; 0: not told
	stops     bool     // the policy stops the job now and then: it is resumed until it is done
	refuses   bool     // an open breaker may refuse any item
	mends     bool     // dead letters are sent again when they are mended
	times     int      // as many items as others have; 0: once
	workspace string   // the block of that name; empty: all agents work in one directory
	share     int      // only one in so many items that others have; 0: all
	padding   int      // for each item so many that the filter leaves out, so that selecting takes long
}

var kinds = []kind{
	{name: "map", fates: []string{fateBad, fateBig}, percent: 8, tries: 1},
	{name: "selection", fates: []string{fateBad}, percent: 5, tries: 1, padding: 400},
	{
		name: "item-retry", fates: []string{fateBad, fateFlaky}, percent: 15, tries: 3,
		policy: "on_item_failure: retry\n  retry_config: {max_attempts: 3, backoff: fixed, initial_delay: 300ms, jitter: true}",
	},
	{
		name: "step-retry", fates: []string{fateBad, fateFlaky}, percent: 15, tries: 3,
		step: "retry_config: {attempts: 3, backoff: fixed, initial_delay: 20ms}",
	},
	{
		name: "breaker-wait", fates: []string{fateBad}, percent: 15, streak: 6, tries: 1,
		policy: "circuit_breaker: {failure_threshold: 4, success_threshold: 2, timeout: 30ms, half_open_requests: 2}\n  on_open: wait",
	},
	{
		name: "breaker-reject", fates: []string{fateBad}, percent: 15, streak: 6, tries: 1, refuses: true,
		policy: "circuit_breaker: {failure_threshold: 4, success_threshold: 2, timeout: 30ms, half_open_requests: 2}\n  on_open: reject",
	},
	{name: "phases", fates: []string{fateBad}, percent: 3, tries: 1, setup: true},
	{name: "policy-stop", fates: []string{fateBad}, percent: 8, tries: 1, stops: true, policy: "max_failures: 6"},
	{
		name: "dlq-retry", fates: []string{fateMend}, percent: 25, mends: true,
		policy: "on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 20ms}",
	},
	{name: "compaction", fates: []string{fateMend}, percent: 100, mends: true, times: 2},
	{name: "standard", standard: true},
	{name: "workspace", workspace: "git", share: 8, fates: wild, percent: 80},
	{
		name: "workspace-items", share: 8, fates: append(slices.Clone(wild), fateCulprit), percent: 80,
		workspace: "{order: items, verify: {batch: 4, commands: [{shell: test ! -e culprits}]}}",
	},
	{name: "workspace-squash", workspace: "{history: squash, verify: {commands: [{shell: test ! -e culprits}]}}", share: 8, fates: append(slices.Clone(wild), fateCulprit), percent: 80},
	{name: "workspace-retry", workspace: "git", share: 8, fates: []string{fateMend, fateUnion, fateCommits, fateHide, fateStash}, percent: 80, mends: true},
}

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

func kindNamed(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("BUG: no kind " + name)
}

// standardSteps is how many steps a standard workflow has, and lastSteps the reduce phase.
const (
	standardSteps = 25
	lastSteps     = 3
)

// workflow returns the workflow file.
func (k kind) workflow(parallel int) string {
	var b strings.Builder
	if k.standard {
		_, _ = fmt.Fprintln(&b, "commands:")
		for n := range standardSteps {
			writeStep(&b, fmt.Sprintf("c%d", n), "nothing", "")
		}
		return b.String()
	}
	if k.setup {
		_, _ = fmt.Fprintln(&b, "setup:")
		writeStep(&b, "s0", "nothing", "")
		writeStep(&b, "s1", "${s0.output}", "capture: token")
	}
	if k.workspace != "" {
		_, _ = fmt.Fprintf(&b, "workspace: %s\n", k.workspace)
	}
	_, _ = fmt.Fprintf(&b, `map:
  input: items.jsonl
  filter: "fate != 'none'"
  max_parallel: %d
  agent_template:
    - shell: "fate=${item.fate}; . ./agent.sh"
`, parallel)
	if k.step != "" {
		_, _ = fmt.Fprintf(&b, "      %s\n", k.step)
	}
	if k.policy != "" {
		policy := k.policy
		if before, after, ok := strings.Cut(k.policy, "\n  on_open: "); ok {
			policy = strings.TrimSuffix(before, "}") + ", on_open: " + after + "}"
		}
		_, _ = fmt.Fprintf(&b, "error_policy:\n  %s\n", policy)
	}
	_, _ = fmt.Fprintln(&b, "reduce:")
	value := "${map.total}"
	if k.setup {
		value += " ${token}"
	}
	for n := range lastSteps {
		writeStep(&b, fmt.Sprintf("r%d", n), value, fmt.Sprintf("capture: out%d", n))
		value = fmt.Sprintf("${out%d}", n)
	}
	return b.String()
}

func writeStep(b *strings.Builder, id, value, more string) {
	_, _ = fmt.Fprintf(b, "  - shell: \"step=%s; value=\\\"%s\\\"; . ./step.sh\"\n    id: %s\n", id, value, id)
	if more != "" {
		_, _ = fmt.Fprintf(b, "    %s\n", more)
	}
}

// deal gives each item its fate.
func (k kind) deal(rng *rand.Rand, n int) []string {
	fates := make([]string, n)
	for i := range fates {
		fates[i] = fateOK
		if rng.IntN(6) == 0 {
			fates[i] = fateSlow
		}
	}
	streak := max(1, k.streak)
	for i := 0; i < n && len(k.fates) > 0; i += streak {
		if rng.IntN(100) >= k.percent {
			continue
		}
		fate := k.fates[rng.IntN(len(k.fates))]
		for j := i; j < min(n, i+streak); j++ {
			fates[j] = fate
		}
	}
	if k.percent < 100 {
		fates[rng.IntN(n)] = fateHang
	}
	return fates
}

// bigOutput is how many bytes an agent with fateBig prints besides what all do.
const bigOutput = 200000

// agentScript is what each agent runs: a line when it begins, its fate, a line when it ends.
//
//go:embed agent.sh
var agentScript string

// stepScript is what the steps of the phases that run once run. It hands its value on, so that what was captured is seen at
// the end.
//
//go:embed step.sh
var stepScript string
