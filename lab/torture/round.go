//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"prodigy/lab/try"
)

// round is one job from its first run to its end, with the kills between.
type round struct {
	number  int
	rng     *rand.Rand
	kind    kind
	fates   []string
	dir     string // the working directory of the job, with the home of prodigy in it
	prodigy string
	mark    string // in the environment of every process of the round

	parallel   int
	durability string
	session    bool                // a kill takes the agents as well, always
	user       *syscall.Credential // that prodigy runs as; nil: the user of this process
	runs       int                 // of prodigy
	kills      int
	before     []snapshot     // as it was after each kill
	cut        map[int]bool   // runs that were killed or interrupted
	again      int            // items that ran again since they were in flight at a kill
	overlaps   []error        // agents of a killed run that went on beside the next one
	unlogged   int            // tries that a kill took from the log
	early      []error        // dead letters that were there before their record, or gone before it
	clockSet   bool           // the times of the log are not those of the clock
	hits       map[string]int // instant → kills

	base  string // with workspaces: the commit that the job begins at
	user0 string // and what must not change in the user's repository
}

// snapshot is what was certain at a kill: it must not change any more.
type snapshot struct {
	log     []byte         // all of its whole lines
	settled map[string]int // items that had completed, and steps that were done → how often they had begun
}

// hung is how long prodigy gets for a run that nobody kills.
const hung = 3 * time.Minute

func newRound(n int, o options, k kind, base string) *round {
	rng := rand.New(rand.NewPCG(o.seed, uint64(n)))
	r := &round{
		number: n, rng: rng, kind: k, dir: filepath.Join(base, fmt.Sprintf("%s-%d", k.Name, n)),
		mark: fmt.Sprintf("TORTURE_MARK=%d-%d-%s-%d", os.Getpid(), o.seed, k.Name, n),
		cut:  map[int]bool{}, hits: map[string]int{}, session: o.session, parallel: 4 + rng.IntN(13),
		durability: []string{"batch", "strict", "none"}[rng.IntN(3)],
	}
	r.prodigy = filepath.Join(base, []string{plain, rotating}[rng.IntN(2)])
	if !k.Standard {
		r.fates = k.deal(rng, max(2, o.items*max(1, k.Times)/max(1, k.Share)))
	}
	return r
}

// play is the round; the error tells all its violations.
func (r *round) play(ctx context.Context) {
	r.prepare()
	r.drive(ctx, 1+r.rng.IntN(4))
	if r.kind.Mends {
		r.mend(ctx, 1+r.rng.IntN(3))
	}
	r.judge()
}

// prepare writes the workflow, its items and its scripts.
func (r *round) prepare() {
	try.Check(os.MkdirAll(filepath.Join(r.dir, "effects"), 0o777))
	type item struct {
		N    int    `json:"n"`
		Fate string `json:"fate"`
	}
	var list bytes.Buffer
	enc := json.NewEncoder(&list)
	for i, f := range r.fates {
		for range r.kind.Padding {
			list.WriteString(`{"n":0,"fate":"none"}` + "\n")
		}
		try.Check(enc.Encode(item{i, f}))
	}
	for name, text := range map[string]string{
		"items.jsonl": list.String(), "agent.sh": agentScript, "step.sh": stepScript, "workflow.yml": r.kind.workflow(r.parallel),
	} {
		try.Write(filepath.Join(r.dir, name), text)
	}
	if r.kind.Workspace != "" {
		r.makeRepository()
	}
}

// drive runs the job, kills it that often, and resumes it until it is done.
func (r *round) drive(ctx context.Context, kills int) {
	for {
		command := []string{"run", "workflow.yml"}
		if r.kind.Workspace != "" {
			command = append(command, "--allow-dirty")
		}
		if r.begun() {
			command = []string{"resume", "latest"}
		}
		code := r.run(ctx, kills, append(command, "--durability", r.durability)...)
		switch {
		case code == killed:
			kills--
		case code == 0 || code == 3:
			return
		case code == 1 && r.kind.Stops && r.last("JobFailed") && r.runs < 200:
		default:
			r.fail("prodigy %s ended with exit code %d\n%s", command[0], code, r.output())
		}
	}
}

// mend sends the dead letters again, kills that too, and goes on until none is left.
func (r *round) mend(ctx context.Context, kills int) {
	try.Write(filepath.Join(r.dir, "mended"), "")
	for {
		code := r.run(ctx, kills, "dlq", "retry", "--reduce", "--max-retries", "100", "--durability", r.durability)
		if code == killed {
			kills--
			if r.rng.IntN(2) == 0 {
				if code := r.run(ctx, 0, "resume", "latest"); code != 0 && code != 3 {
					r.fail("resume after a killed dlq retry: exit code %d\n%s", code, r.output())
				}
			}
			continue
		}
		r.failIf(code != 0, "dlq retry ended with exit code %d\n%s", code, r.output())
		return
	}
}

func (r *round) home() string { return filepath.Join(r.dir, "home") }

// fail ends the round with what is wrong.
func (r *round) fail(format string, args ...any) { try.Check(r.wrong(format, args...)) }

// failIf is fail if something is so.
func (r *round) failIf(is bool, format string, args ...any) {
	if is {
		r.fail(format, args...)
	}
}

func (r *round) wrong(format string, args ...any) error {
	return fmt.Errorf("run %d, after %d kills, %d slots, durability %s: %s",
		r.runs, r.kills, r.parallel, r.durability, fmt.Sprintf(format, args...))
}
