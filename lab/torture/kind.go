//go:build unix

package torture

import (
	_ "embed"
	"math/rand/v2"

	"gopkg.in/yaml.v3"

	"prodigy/lab/try"
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
	Name      string
	Policy    string // the error_policy of the workflow
	Step      string // a further key of the agent's step
	Setup     bool
	Standard  bool     // no map phase
	Fates     []string // of the unlucky items
	Percent   int      // of items that are unlucky
	Streak    int      // how many unlucky items come in a row
	Tries     int      // how often an item that always fails is tried, if the kind says so
	Stops     bool     // the policy stops the job now and then: it is resumed until it is done
	Refuses   bool     // an open breaker may refuse any item
	Mends     bool     // dead letters are sent again when they are mended
	Times     int      // by how much it has more items than others; 0 means as many
	Workspace string   // the block of that name; without one all agents work in one directory
	Share     int      // by how much it has fewer items than others; 0 means as many
	Padding   int      // for each item so many that the filter leaves out, so that selecting takes long
}

//go:embed kinds.yml
var kindsFile []byte

var kinds = readKinds()

func readKinds() (all []kind) {
	try.Check(yaml.Unmarshal(kindsFile, &all))
	return all
}

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return names
}

func kindNamed(name string) kind {
	for _, k := range kinds {
		if k.Name == name {
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

//go:embed workflow.yml.tmpl
var workflowTemplate string

// workflow returns the workflow file.
func (k kind) workflow(parallel int) string {
	return try.Fill(workflowTemplate, map[string]any{"Kind": k, "Parallel": parallel, "StandardSteps": standardSteps})
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
	streak := max(1, k.Streak)
	for i := 0; i < n && len(k.Fates) > 0; i += streak {
		if rng.IntN(100) >= k.Percent {
			continue
		}
		fate := k.Fates[rng.IntN(len(k.Fates))]
		for j := i; j < min(n, i+streak); j++ {
			fates[j] = fate
		}
	}
	if k.Percent < 100 {
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
