//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockSetBack makes the log of a killed job an hour older than its future: to the resume, the clock has been set back. A
// library that lies about the time does not reach a Go program, which asks the kernel.
func clockSetBack(ctx context.Context, r *round) error {
	// Items that wait for their next attempt must not wait for the hour as well.
	r.kind.policy = "on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 300ms}"
	r.kind.tries = 2
	r.fates[0] = fateBad
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.killUnderWay(ctx); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(r.home(), "events", "*", "*", "events-*.jsonl"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f, anHourLater(data), 0o600); err != nil {
			return err
		}
	}
	r.before, r.clockSet = nil, true
	r.snap()
	if err := r.complete(ctx); err != nil {
		return err
	}
	return r.noNegativeTimes()
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

func (r *round) noNegativeTimes() error {
	for line := range bytes.Lines(r.logBytes()) {
		var rec struct {
			DurationMS float64 `json:"duration_ms"`
		}
		if err := json.Unmarshal(line, &rec); err != nil {
			return err
		}
		if rec.DurationMS < 0 {
			return r.wrong("a duration is negative: %s", line)
		}
	}
	return nil
}

// diskFull gives the job a disk that is too small, and then a larger one.
func diskFull(ctx context.Context, r *round) error {
	if os.Geteuid() != 0 {
		return skip("only root can mount a small disk")
	}
	if err := os.MkdirAll(r.home(), 0o700); err != nil {
		return err
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", r.home()).CombinedOutput(); err != nil {
		return skip("a small disk cannot be mounted: " + strings.TrimSpace(string(out)))
	}
	err := r.fillAndMend(ctx)
	r.endLeftovers()
	return errors.Join(err, exec.Command("umount", "-l", r.home()).Run())
}

func (r *round) fillAndMend(ctx context.Context) error {
	p, err := r.start("run", "workflow.yml", "--grace", "100ms")
	if err != nil {
		return err
	}
	// The item that hangs keeps the job from its end before the disk is full.
	filler := filepath.Join(r.home(), "filler")
	if err := r.await(ctx, p, func() bool { return len(r.begunItems()) > 0 }); err != nil {
		return err
	}
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // fails: it takes all that there is
	if err := r.failed(ctx, p, "no space left"); err != nil {
		return err
	}
	if out, err := exec.Command("mount", "-o", "remount,size=64m", r.home()).CombinedOutput(); err != nil {
		return r.wrong("enlarge the disk: %v\n%s", err, out)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	return r.complete(ctx)
}

// writeError lets the log of a running job grow by no more than a part of its next record: what is written is torn, and then fails.
func writeError(ctx context.Context, r *round) error {
	limiter, err := exec.LookPath("prlimit")
	if err != nil {
		return skip("there is no prlimit")
	}
	p, err := r.underWay(ctx, "100ms")
	if err != nil {
		return err
	}
	// The item that hangs keeps the job from its end before that.
	most := len(r.logBytes()) + 20 + r.rng.IntN(1000)
	out, err := exec.Command(limiter, "--pid", strconv.Itoa(p.cmd.Process.Pid), "--fsize="+strconv.Itoa(most)).CombinedOutput()
	if err != nil {
		r.strike(p, everything)
		return skip("prlimit: " + strings.TrimSpace(string(out)))
	}
	return r.failAndMend(ctx, p, "file too large")
}

// failAndMend wants a run to end with this reason because it can no longer write, and a resume to go on.
func (r *round) failAndMend(ctx context.Context, p *running, reason string) error {
	if err := r.failed(ctx, p, reason); err != nil {
		return err
	}
	return r.complete(ctx)
}

func (r *round) failed(ctx context.Context, p *running, reason string) error {
	code, err := r.end(ctx, p)
	if err != nil {
		return err
	}
	if code != 1 || !strings.Contains(r.output(), reason) {
		return r.wrong("exit code %d when the log cannot be written, want 1 and %q\n%s", code, reason, r.output())
	}
	if pids := r.alive(); len(pids) > 0 {
		return r.wrong("processes are still alive: %v", pids)
	}
	r.snap()
	return nil
}

// readOnly lets prodigy keep its jobs where it may not write.
func readOnly(ctx context.Context, r *round) error {
	if os.Geteuid() == 0 {
		const nobody = 65534
		r.user = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if err := os.MkdirAll(r.home(), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(r.home(), 0o555); err != nil {
		return err
	}
	p, err := r.start("run", "workflow.yml")
	if err != nil {
		return skip("prodigy cannot be run as somebody else: " + err.Error())
	}
	if code := p.code(); code != 1 || !strings.Contains(r.output(), "permission denied") {
		return r.wrong("exit code %d in a directory that is read-only, want 1 and the reason\n%s", code, r.output())
	}
	if n := len(r.begunItems()); n > 0 {
		return r.wrong("%d agents ran without a log", n)
	}
	if err := os.Chmod(r.home(), 0o777); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(r.dir, "effects"), 0o777); err != nil {
		return err
	}
	r.fates = unhung(r.fates)
	if err := r.prepare(); err != nil {
		return err
	}
	return r.complete(ctx)
}
