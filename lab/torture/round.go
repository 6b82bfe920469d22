//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
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
		number: n, rng: rng, kind: k, dir: filepath.Join(base, fmt.Sprintf("%s-%d", k.name, n)),
		mark: fmt.Sprintf("TORTURE_MARK=%d-%d-%s-%d", os.Getpid(), o.seed, k.name, n),
		cut:  map[int]bool{}, hits: map[string]int{}, session: o.session, parallel: 4 + rng.IntN(13),
		durability: []string{"batch", "strict", "none"}[rng.IntN(3)],
	}
	r.prodigy = filepath.Join(base, []string{plain, rotating}[rng.IntN(2)])
	if !k.standard {
		r.fates = k.deal(rng, max(2, o.items*max(1, k.times)/max(1, k.share)))
	}
	return r
}

// play is the round; the error tells all its violations.
func (r *round) play(ctx context.Context) error {
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.drive(ctx, 1+r.rng.IntN(4)); err != nil {
		return err
	}
	if r.kind.mends {
		if err := r.mend(ctx, 1+r.rng.IntN(3)); err != nil {
			return err
		}
	}
	return r.judge()
}

// prepare writes the workflow, its items and its scripts.
func (r *round) prepare() error {
	if err := os.MkdirAll(filepath.Join(r.dir, "effects"), 0o777); err != nil {
		return err
	}
	type item struct {
		N    int    `json:"n"`
		Fate string `json:"fate"`
	}
	var list bytes.Buffer
	enc := json.NewEncoder(&list)
	for i, f := range r.fates {
		for range r.kind.padding {
			list.WriteString(`{"n":0,"fate":"none"}` + "\n")
		}
		if err := enc.Encode(item{i, f}); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"items.jsonl": list.String(), "agent.sh": agentScript, "step.sh": stepScript, "workflow.yml": r.kind.workflow(r.parallel),
	} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if r.kind.workspace != "" {
		return r.makeRepository()
	}
	return nil
}

// drive runs the job, kills it that often, and resumes it until it is done.
func (r *round) drive(ctx context.Context, kills int) error {
	for {
		command := []string{"run", "workflow.yml"}
		if r.kind.workspace != "" {
			command = append(command, "--allow-dirty")
		}
		if r.begun() {
			command = []string{"resume", "latest"}
		}
		code, err := r.runner(kills)(ctx, append(command, "--durability", r.durability)...)
		if err != nil {
			return err
		}
		switch {
		case code == killed:
			kills--
		case code == 0 || code == 3:
			return nil
		case code == 1 && r.kind.stops && r.last("JobFailed") && r.runs < 200:
		default:
			return r.wrong("prodigy %s ended with exit code %d\n%s", command[0], code, r.output())
		}
	}
}

// mend sends the dead letters again, kills that too, and goes on until none is left.
func (r *round) mend(ctx context.Context, kills int) error {
	if err := os.WriteFile(filepath.Join(r.dir, "mended"), nil, 0o644); err != nil {
		return err
	}
	for {
		code, err := r.runner(kills)(ctx, "dlq", "retry", "--reduce", "--max-retries", "100", "--durability", r.durability)
		if err != nil {
			return err
		}
		if code == killed {
			kills--
			if r.rng.IntN(2) == 0 {
				if code, err := r.run(ctx, "resume", "latest"); err != nil || code != 0 && code != 3 {
					return errors.Join(err, r.wrong("resume after a killed dlq retry: exit code %d\n%s", code, r.output()))
				}
			}
			continue
		}
		if code != 0 {
			return r.wrong("dlq retry ended with exit code %d\n%s", code, r.output())
		}
		return nil
	}
}

// runner returns how to run prodigy while so many kills are left.
func (r *round) runner(kills int) func(context.Context, ...string) (int, error) {
	if kills > 0 {
		return r.runKilled
	}
	return r.run
}

func (r *round) home() string { return filepath.Join(r.dir, "home") }

func (r *round) wrong(format string, args ...any) error {
	return fmt.Errorf("run %d, after %d kills, %d slots, durability %s: %s",
		r.runs, r.kills, r.parallel, r.durability, fmt.Sprintf(format, args...))
}
