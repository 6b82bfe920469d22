//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"prodigy/lab/try"
)

// scenario is one thing that may happen to a job besides being killed.
type scenario struct {
	name  string
	hangs bool // an item hangs in the first run, so that the job is not over too soon
	play  func(context.Context, *round)
}

// scenarios are played once, each with a job of its own.
var scenarios = []scenario{
	{"SIGINT", true, signalled(130, "100ms", syscall.SIGINT)},
	{"SIGINT twice", true, signalled(130, "1h", syscall.SIGINT, syscall.SIGINT)},
	{"SIGTERM", true, signalled(143, "100ms", syscall.SIGTERM)},
	{"SIGHUP", true, signalled(143, "100ms", syscall.SIGHUP)},
	{"SIGQUIT", true, signalled(131, "1h", syscall.SIGQUIT)},
	{"SIGSTOP and SIGCONT", false, suspended},
	{"SIGKILL, and no resume", true, deserted},
	{"output closed", false, outputClosed},
	{"input deleted before the resume", true, inputDeleted},
	{"torn last line of the log", true, tornLine},
	{"two resumes at once", true, twoResumes},
	{"a resume and two retries of dead letters at once", true, threeAtOnce},
	{"clock set back by an hour", true, clockSetBack},
	{"disk full", true, diskFull},
	{"write error inside a record", true, writeError},
	{"read-only directory", false, readOnly},
}

// skip is the error of a scenario that cannot be played here, and says why.
type skip string

func (s skip) Error() string { return string(s) }

// allScenarios plays them all, prints a line for each, and returns what went wrong.
func allScenarios(ctx context.Context, o options, base string) {
	o.items = min(o.items, 60)
	var wrong []error
	for i, s := range scenarios {
		try.CheckIf(ctx.Err() != nil, errInterrupted)
		r := newRound(i+1, o, kind{Name: "scenario", Fates: []string{fateBad}, Percent: 5, Tries: 1}, base)
		r.prodigy = filepath.Join(base, plain)
		r.fates = unhung(r.fates)
		if s.hangs {
			r.fates[0] = fateHang
		}
		err := try.Catch(func() {
			r.prepare()
			s.play(ctx, r)
		})
		r.endLeftovers()
		reason, skipped := errors.AsType[skip](err)
		switch {
		case skipped:
			fmt.Printf("%s: skipped: %s\n", s.name, reason)
		case err == nil:
			fmt.Printf("%s: ok\n", s.name)
		default:
			fmt.Printf("%s: WRONG\n", s.name)
			wrong = append(wrong, fmt.Errorf("scenario %q: %w\nkept: %s\nrepeat: go run ./lab torture -seed %d -items %d -rounds 0",
				s.name, err, r.dir, o.seed, o.items))
			continue
		}
		try.Check(os.RemoveAll(r.dir))
	}
	try.Check(errors.Join(wrong...))
}

// underWay starts the job and returns once some agents have begun. One of them hangs.
func (r *round) underWay(ctx context.Context, grace string) *try.Process {
	p := r.start("run", "workflow.yml", "--grace", grace, "--json")
	r.await(ctx, p, func() bool { return len(r.begunItems()) > r.parallel })
	return p
}

func (r *round) begunItems() []string {
	files, _ := filepath.Glob(filepath.Join(r.dir, "effects", "item_*"))
	return files
}

// await waits for something that p does.
func (r *round) await(ctx context.Context, p *try.Process, happened func() bool) {
	limit := time.After(hung)
	for !happened() {
		select {
		case <-p.Done:
			r.fail("prodigy ended too early, with exit code %d\n%s", codeOf(p), r.output())
		case <-ctx.Done():
			r.strike(p, everything)
			try.Check(errInterrupted)
		case <-limit:
			r.strike(p, everything)
			r.fail("prodigy hung\n%s", r.output())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// killUnderWay starts the job and kills it.
func (r *round) killUnderWay(ctx context.Context) {
	p := r.underWay(ctx, "100ms")
	r.strike(p, everything)
	r.kills++
	r.snap()
}

// complete resumes the job until it is done, and judges.
func (r *round) complete(ctx context.Context) {
	r.drive(ctx, 0)
	r.judge()
}

// signalled sends signals to a job and wants this exit code.
func signalled(want int, grace string, signals ...syscall.Signal) func(context.Context, *round) {
	return func(ctx context.Context, r *round) {
		p := r.underWay(ctx, grace)
		for i, s := range signals {
			if i > 0 { // sooner it would be taken for the same request
				r.await(ctx, p, func() bool { return strings.Contains(r.output(), "stopping") })
				time.Sleep(150 * time.Millisecond)
			}
			try.Check(p.Process.Signal(s))
		}
		if code := r.end(ctx, p); code != want {
			r.fail("exit code %d, want %d\n%s", code, want, r.output())
		}
		r.wantNoneAlive()
		r.failIf(!r.last("JobPaused"), "the log does not end with JobPaused\n%s", r.output())
		r.snap()
		r.complete(ctx)
	}
}

// suspended stops prodigy for a moment, as Ctrl-Z does.
func suspended(ctx context.Context, r *round) {
	p := r.underWay(ctx, "100ms")
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		try.Check(p.Process.Signal(s))
		time.Sleep(150 * time.Millisecond)
	}
	r.untouched(ctx, p)
}

// untouched wants a run to end as if nothing had been done to it.
func (r *round) untouched(ctx context.Context, p *try.Process) {
	code := r.end(ctx, p)
	r.failIf(code != 0 && code != 3 || !r.last("JobCompleted"), "exit code %d, want the job to be completed\n%s", code, r.output())
	r.judge()
}

// deserted kills prodigy alone, and nobody resumes it: its agents must end all the same.
func deserted(ctx context.Context, r *round) {
	try.CheckIf(runtime.GOOS != "linux", skip("only Linux shows what is left of a job"))
	p := r.underWay(ctx, "100ms")
	r.await(ctx, p, func() bool { return len(r.watchers()) == 1 })
	r.strike(p, alone)
	r.kills++
	r.wantNoneAlive()
	r.snap()
	r.complete(ctx)
}

// outputClosed lets nobody read what prodigy prints. The job goes on.
func outputClosed(ctx context.Context, r *round) {
	r.runs++
	try.Check(os.WriteFile(r.outputFile(r.runs), nil, 0o600))
	reader, writer := try.To2(os.Pipe())
	cmd := r.command("run", "workflow.yml")
	cmd.Stdout, cmd.Stderr = writer, writer
	p := try.Start(cmd)
	try.Check(errors.Join(writer.Close(), reader.Close()))
	r.untouched(ctx, p)
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
func inputDeleted(ctx context.Context, r *round) {
	r.parallel, r.fates = 4, slices.Repeat([]string{fateSlow}, 500)
	r.prepare()
	p := r.underWay(ctx, "100ms")
	r.await(ctx, p, func() bool { return strings.Contains(string(r.logBytes()), `"type":"ItemsSelected"`) })
	begun := len(r.begunItems())
	r.strike(p, everything)
	r.kills++
	r.snap()
	r.failIf(begun > len(r.fates)/2, "%d of %d items had begun before the input was no longer needed", begun, len(r.fates))
	try.Check(os.Remove(filepath.Join(r.dir, "items.jsonl")))
	r.complete(ctx)
}

// tornLine leaves half a record at the end of the log, as a power loss does.
func tornLine(ctx context.Context, r *round) {
	r.killUnderWay(ctx)
	files, _ := filepath.Glob(filepath.Join(r.home(), "events", "*", "*", "events-*.jsonl"))
	f := try.To(os.OpenFile(files[len(files)-1], os.O_APPEND|os.O_WRONLY, 0))
	_ = try.To(f.WriteString(`{"seq":99,"time":"2026-11-`))
	try.Check(f.Close())
	r.drive(ctx, 0)
	r.failIf(!strings.Contains(r.output(), "cut off"), "the resume does not tell of the torn line\n%s", r.output())
	r.judge()
}

// twoResumes starts two at once, of which one must win.
func twoResumes(ctx context.Context, r *round) {
	for i := range r.fates {
		r.fates[i] = fateSlow
	}
	r.fates[0] = fateHang
	r.prepare()
	r.killUnderWay(ctx)
	first := r.start("resume", "latest", "--max-parallel", "1")
	second := r.start("resume", "latest", "--max-parallel", "1")
	loser, number := first, r.runs-1
	if codeOf(first) != 1 {
		loser, number = second, r.runs
	}
	winner := first
	if loser == first {
		winner = second
	}
	if w, l := codeOf(winner), codeOf(loser); w != 0 && w != 3 || l != 1 {
		r.fail("exit codes of the two are %d and %d, want 0 and 1\n%s", w, l, r.output())
	}
	said := try.To(os.ReadFile(r.outputFile(number)))
	if want := fmt.Sprintf("process %d", winner.Process.Pid); !strings.Contains(string(said), want) {
		r.fail("the one that was refused does not name %s:\n%s", want, said)
	}
	r.judge()
}

// threeAtOnce starts a resume and two retries of dead letters of a job that has some, of which one at a time may work.
func threeAtOnce(ctx context.Context, r *round) {
	r.kind = kindNamed("dlq-retry")
	r.fates = r.kind.deal(r.rng, len(r.fates))
	r.prepare()
	r.killUnderWay(ctx)
	var all []*try.Process
	for _, args := range [][]string{{"resume"}, {"dlq", "retry"}, {"dlq", "retry"}} {
		all = append(all, r.start(args...))
	}
	refused := 0
	for _, p := range all {
		if code := codeOf(p); code == 1 {
			refused++
		} else if code != 0 && code != 3 {
			r.fail("exit code %d of one of the three\n%s", code, r.output())
		}
	}
	r.failIf(refused == len(all), "all three were refused\n%s", r.output())
	r.drive(ctx, 0)
	r.mend(ctx, 0)
	r.judge()
}

// clockSetBack makes the log of a killed job an hour older than its future: to the resume, the clock has been set back. A
// library that lies about the time does not reach a Go program, which asks the kernel.
func clockSetBack(ctx context.Context, r *round) {
	// Items that wait for their next attempt must not wait for the hour as well.
	r.kind.Policy = "{on_item_failure: retry, retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 300ms}}"
	r.kind.Tries = 2
	r.fates[0] = fateBad
	r.prepare()
	r.killUnderWay(ctx)
	files, _ := filepath.Glob(filepath.Join(r.home(), "events", "*", "*", "events-*.jsonl"))
	for _, f := range files {
		data := try.To(os.ReadFile(f))
		try.Check(os.WriteFile(f, anHourLater(data), 0o600))
	}
	r.before, r.clockSet = nil, true
	r.snap()
	r.complete(ctx)
}

// anHourLater moves every point of time in the text, and takes out the checksums, which would no longer hold: a log may lack them up
// to a resume.
func anHourLater(text []byte) []byte {
	text = regexp.MustCompile(`,"crc":"[0-9a-f]{8}"}`).ReplaceAllLiteral(text, []byte("}"))
	stamp := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z`)
	return stamp.ReplaceAllFunc(text, func(found []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(found))
		if err != nil {
			return found
		}
		return []byte(at.Add(time.Hour).Format("2006-01-02T15:04:05.000000Z"))
	})
}

// diskFull gives the job a disk that is too small, and then a larger one.
func diskFull(ctx context.Context, r *round) {
	try.CheckIf(os.Geteuid() != 0, skip("only root can mount a small disk"))
	try.Check(os.MkdirAll(r.home(), 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", r.home()).CombinedOutput(); err != nil {
		try.Check(skip("a small disk cannot be mounted: " + strings.TrimSpace(string(out))))
	}
	err := try.Catch(func() { r.fillAndMend(ctx) })
	r.endLeftovers()
	try.Check(errors.Join(err, exec.Command("umount", "-l", r.home()).Run()))
}

func (r *round) fillAndMend(ctx context.Context) {
	p := r.start("run", "workflow.yml", "--grace", "100ms")
	// The item that hangs keeps the job from its end before the disk is full.
	filler := filepath.Join(r.home(), "filler")
	r.await(ctx, p, func() bool { return len(r.begunItems()) > 0 })
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // fails: it takes all that there is
	r.failed(ctx, p, "no space left")
	try.Run(exec.Command("mount", "-o", "remount,size=64m", r.home()))
	try.Check(os.Remove(filler))
	r.complete(ctx)
}

// writeError lets the log of a running job grow by no more than a part of its next record: what is written is torn, and then fails.
func writeError(ctx context.Context, r *round) {
	limiter, err := exec.LookPath("prlimit")
	try.CheckIf(err != nil, skip("there is no prlimit"))
	p := r.underWay(ctx, "100ms")
	// The item that hangs keeps the job from its end before that.
	most := len(r.logBytes()) + 20 + r.rng.IntN(1000)
	out, err := exec.Command(limiter, "--pid", strconv.Itoa(p.Process.Pid), "--fsize="+strconv.Itoa(most)).CombinedOutput()
	if err != nil {
		r.strike(p, everything)
		try.Check(skip("prlimit: " + strings.TrimSpace(string(out))))
	}
	r.failed(ctx, p, "file too large")
	r.complete(ctx)
}

// failed wants a run to end with this reason because it can no longer write.
func (r *round) failed(ctx context.Context, p *try.Process, reason string) {
	code := r.end(ctx, p)
	r.failIf(code != 1 || !strings.Contains(r.output(), reason), "exit code %d when the log cannot be written, want 1 and %q\n%s", code, reason, r.output())
	r.wantNoneAlive()
	r.snap()
}

// readOnly lets prodigy keep its jobs where it may not write.
func readOnly(ctx context.Context, r *round) {
	if os.Geteuid() == 0 {
		const nobody = 65534
		r.user = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	try.Check(os.MkdirAll(r.home(), 0o755))
	try.Check(os.Chmod(r.home(), 0o555))
	var p *try.Process
	if err := try.Catch(func() { p = r.start("run", "workflow.yml") }); err != nil {
		try.Check(skip("prodigy cannot be run as somebody else: " + err.Error()))
	}
	if code := codeOf(p); code != 1 || !strings.Contains(r.output(), "permission denied") {
		r.fail("exit code %d in a directory that is read-only, want 1 and the reason\n%s", code, r.output())
	}
	if n := len(r.begunItems()); n > 0 {
		r.fail("%d agents ran without a log", n)
	}
	try.Check(os.Chmod(r.home(), 0o777))
	try.Check(os.Chmod(filepath.Join(r.dir, "effects"), 0o777))
	r.prepare()
	r.complete(ctx)
}
