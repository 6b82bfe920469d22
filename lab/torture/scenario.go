//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// scenario is one thing that may happen to a job besides being killed.
type scenario struct {
	name string
	play func(context.Context, *round) error
}

// scenarios are played once, each with a job of its own.
var scenarios = []scenario{
	{"SIGINT", signalled(130, "100ms", syscall.SIGINT)},
	{"SIGINT twice", signalled(130, "1h", syscall.SIGINT, syscall.SIGINT)},
	{"SIGTERM", signalled(143, "100ms", syscall.SIGTERM)},
	{"SIGHUP", signalled(143, "100ms", syscall.SIGHUP)},
	{"SIGQUIT", signalled(131, "1h", syscall.SIGQUIT)},
	{"SIGSTOP and SIGCONT", suspended},
	{"SIGKILL, and no resume", deserted},
	{"output closed", outputClosed},
	{"input deleted before the resume", inputDeleted},
	{"torn last line of the log", tornLine},
	{"two resumes at once", twoResumes},
	{"a resume and two retries of dead letters at once", threeAtOnce},
	{"clock set back by an hour", clockSetBack},
	{"disk full", diskFull},
	{"write error inside a record", writeError},
	{"read-only directory", readOnly},
}

// skip is the error of a scenario that cannot be played here, and says why.
type skip string

func (s skip) Error() string { return string(s) }

// allScenarios plays them all, prints a line for each, and returns what went wrong.
func allScenarios(ctx context.Context, o options, base string) error {
	o.items = min(o.items, 60)
	var wrong []error
	for i, s := range scenarios {
		if ctx.Err() != nil {
			return errInterrupted
		}
		r := newRound(i+1, o, kind{name: "scenario", fates: []string{fateBad}, percent: 5, tries: 1}, base)
		r.prodigy = filepath.Join(base, plain)
		r.fates[0] = fateHang // so that the job is not over too soon
		err := r.prepare()
		if err == nil {
			err = s.play(ctx, r)
		}
		r.endLeftovers()
		fmt.Printf("%s: %s\n", s.name, outcome(err))
		if outcome(err) == wentWrong {
			wrong = append(wrong, fmt.Errorf("scenario %q: %w\nkept: %s\nrepeat: go run ./lab torture -seed %d -items %d -rounds 0",
				s.name, err, r.dir, o.seed, o.items))
		} else if err := os.RemoveAll(r.dir); err != nil {
			return err
		}
	}
	return errors.Join(wrong...)
}

const wentWrong = "WRONG"

// outcome puts how a scenario ended into a word.
func outcome(err error) string {
	var reason skip
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &reason):
		return "skipped: " + reason.Error()
	}
	return wentWrong
}

// underWay starts the job and returns once some agents have begun. One of them hangs.
func (r *round) underWay(ctx context.Context, grace string) (*running, error) {
	p, err := r.start("run", "workflow.yml", "--grace", grace, "--json")
	if err != nil {
		return nil, err
	}
	return p, r.await(ctx, p, func() bool { return len(r.begunItems()) > r.parallel })
}

func (r *round) begunItems() []string {
	files, _ := filepath.Glob(filepath.Join(r.dir, "effects", "item_*"))
	return files
}

// await waits for something that p does.
func (r *round) await(ctx context.Context, p *running, happened func() bool) error {
	limit := time.After(hung)
	for !happened() {
		select {
		case <-p.done:
			return r.wrong("prodigy ended too early, with exit code %d\n%s", p.code(), r.output())
		case <-ctx.Done():
			r.strike(p, everything)
			return errInterrupted
		case <-limit:
			r.strike(p, everything)
			return r.wrong("prodigy hung\n%s", r.output())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// killUnderWay starts the job and kills it.
func (r *round) killUnderWay(ctx context.Context) error {
	p, err := r.underWay(ctx, "100ms")
	if err != nil {
		return err
	}
	r.strike(p, everything)
	r.kills++
	r.snap()
	return nil
}

// complete resumes the job until it is done, and judges.
func (r *round) complete(ctx context.Context) error {
	if err := r.drive(ctx, 0); err != nil {
		return err
	}
	return r.judge()
}

// signalled sends signals to a job and wants this exit code.
func signalled(want int, grace string, signals ...syscall.Signal) func(context.Context, *round) error {
	return func(ctx context.Context, r *round) error {
		p, err := r.underWay(ctx, grace)
		if err != nil {
			return err
		}
		for i, s := range signals {
			if i > 0 { // sooner it would be taken for the same request
				if err := r.await(ctx, p, func() bool { return strings.Contains(r.output(), "stopping") }); err != nil {
					return err
				}
				time.Sleep(150 * time.Millisecond)
			}
			if err := p.cmd.Process.Signal(s); err != nil {
				return err
			}
		}
		code, err := r.end(ctx, p)
		if err != nil {
			return err
		}
		if code != want {
			return r.wrong("exit code %d, want %d\n%s", code, want, r.output())
		}
		if pids := r.alive(); len(pids) > 0 {
			return r.wrong("processes are still alive: %v", pids)
		}
		if !r.last("JobPaused") {
			return r.wrong("the log does not end with JobPaused\n%s", r.output())
		}
		r.snap()
		return r.complete(ctx)
	}
}

// suspended stops prodigy for a moment, as Ctrl-Z does.
func suspended(ctx context.Context, r *round) error {
	r.fates = unhung(r.fates)
	if err := r.prepare(); err != nil {
		return err
	}
	p, err := r.underWay(ctx, "100ms")
	if err != nil {
		return err
	}
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := p.cmd.Process.Signal(s); err != nil {
			return err
		}
		time.Sleep(150 * time.Millisecond)
	}
	return r.untouched(ctx, p)
}

// untouched wants a run to end as if nothing had been done to it.
func (r *round) untouched(ctx context.Context, p *running) error {
	code, err := r.end(ctx, p)
	if err != nil {
		return err
	}
	if code != 0 && code != 3 || !r.last("JobCompleted") {
		return r.wrong("exit code %d, want the job to be completed\n%s", code, r.output())
	}
	return r.judge()
}

// deserted kills prodigy alone, and nobody resumes it: its agents must end all the same.
func deserted(ctx context.Context, r *round) error {
	if runtime.GOOS != "linux" {
		return skip("only Linux shows what is left of a job")
	}
	r.fates[0] = fateHang
	if err := r.prepare(); err != nil {
		return err
	}
	p, err := r.underWay(ctx, "100ms")
	if err != nil {
		return err
	}
	if err := r.await(ctx, p, func() bool { return len(r.watchers()) == 1 }); err != nil {
		return err
	}
	r.strike(p, alone)
	r.kills++
	if pids := r.alive(); len(pids) > 0 {
		return r.wrong("processes are still alive: %v", pids)
	}
	r.snap()
	return r.complete(ctx)
}

// outputClosed lets nobody read what prodigy prints. The job goes on.
func outputClosed(ctx context.Context, r *round) error {
	r.fates = unhung(r.fates)
	if err := r.prepare(); err != nil {
		return err
	}
	r.runs++
	if err := os.WriteFile(r.outputFile(r.runs), nil, 0o600); err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := r.command("run", "workflow.yml")
	cmd.Stdout, cmd.Stderr = writer, writer
	p, err := begin(cmd)
	if err := errors.Join(err, writer.Close(), reader.Close()); err != nil {
		return err
	}
	return r.untouched(ctx, p)
}

// unhung returns fates without items that hang.
func unhung(fates []string) []string {
	all := make([]string, len(fates))
	for i, f := range fates {
		all[i] = f
		if f == fateHang {
			all[i] = fateSlow
		}
	}
	return all
}

// inputDeleted takes the input away once it has been selected, which must be long before its last item runs.
func inputDeleted(ctx context.Context, r *round) error {
	r.parallel, r.fates = 4, slices.Repeat([]string{fateSlow}, 500)
	if err := r.prepare(); err != nil {
		return err
	}
	p, err := r.underWay(ctx, "100ms")
	if err != nil {
		return err
	}
	if err := r.await(ctx, p, func() bool { return strings.Contains(string(r.logBytes()), `"type":"ItemsSelected"`) }); err != nil {
		return err
	}
	begun := len(r.begunItems())
	r.strike(p, everything)
	r.kills++
	r.snap()
	if begun > len(r.fates)/2 {
		return r.wrong("%d of %d items had begun before the input was no longer needed", begun, len(r.fates))
	}
	if err := os.Remove(filepath.Join(r.dir, "items.jsonl")); err != nil {
		return err
	}
	return r.complete(ctx)
}

// tornLine leaves half a record at the end of the log, as a power loss does.
func tornLine(ctx context.Context, r *round) error {
	if err := r.killUnderWay(ctx); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(r.home(), "events", "*", "*", "events-*.jsonl"))
	f, err := os.OpenFile(files[len(files)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(`{"seq":99,"time":"2026-11-`)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := r.drive(ctx, 0); err != nil {
		return err
	}
	if !strings.Contains(r.output(), "cut off") {
		return r.wrong("the resume does not tell of the torn line\n%s", r.output())
	}
	return r.judge()
}

// twoResumes starts two at once, of which one must win.
func twoResumes(ctx context.Context, r *round) error {
	for i := range r.fates {
		r.fates[i] = fateSlow
	}
	r.fates[0] = fateHang
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.killUnderWay(ctx); err != nil {
		return err
	}
	var both [2]*running
	for i := range both {
		p, err := r.start("resume", "latest", "--max-parallel", "1")
		if err != nil {
			return err
		}
		both[i] = p
	}
	first, second := both[0], both[1]
	loser, number := first, r.runs-1
	if first.code() != 1 {
		loser, number = second, r.runs
	}
	winner := first
	if loser == first {
		winner = second
	}
	if w, l := winner.code(), loser.code(); w != 0 && w != 3 || l != 1 {
		return r.wrong("exit codes of the two are %d and %d, want 0 and 1\n%s", w, l, r.output())
	}
	said, err := os.ReadFile(r.outputFile(number))
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("process %d", winner.cmd.Process.Pid); !strings.Contains(string(said), want) {
		return r.wrong("the one that was refused does not name %s:\n%s", want, said)
	}
	return r.judge()
}

// threeAtOnce starts a resume and two retries of dead letters of a job that has some, of which one at a time may work.
func threeAtOnce(ctx context.Context, r *round) error {
	r.kind = kindNamed("dlq-retry")
	r.fates = r.kind.deal(r.rng, len(r.fates))
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.killUnderWay(ctx); err != nil {
		return err
	}
	var all []*running
	for _, args := range [][]string{{"resume"}, {"dlq", "retry"}, {"dlq", "retry"}} {
		p, err := r.start(args...)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	refused := 0
	for _, p := range all {
		if code := p.code(); code == 1 {
			refused++
		} else if code != 0 && code != 3 {
			return r.wrong("exit code %d of one of the three\n%s", code, r.output())
		}
	}
	if refused == len(all) {
		return r.wrong("all three were refused\n%s", r.output())
	}
	if err := r.drive(ctx, 0); err != nil {
		return err
	}
	if err := r.mend(ctx, 0); err != nil {
		return err
	}
	return r.judge()
}
