package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
	"prodigy/internal/retry"

	shelltext "prodigy/internal/shell"
)

// runCommand runs a bound command of st.
func (r *run) runCommand(ctx context.Context, st *step, b boundCommand) (result, error) {
	if b.action != nil {
		return r.runAction(ctx, st, b)
	}
	rec, end := r.record(st, b.aiRun), stoppedEnd()
	defer func() { rec.close(end) }()
	stdout, stderr := &rec.stdout, &rec.stderr
	out, err := r.openOutput(ctx, b.output, stdout)
	if err != nil {
		return notRun, r.outputFailure(st, err)
	}
	if b.aiRun != nil && r.x.Simulate == nil {
		out.reading, out.held = b.aiRun.preset.Read(), !b.aiRun.raw
		out.watch = r.newWatch(b.aiRun)
		defer out.watch.stop()
		r.followSession(st, b.aiRun, out)
	}
	began := time.Now()
	exit, err := r.execWithTimeout(ctx, st, b, out, stderr)
	if err != nil {
		_ = out.close()
		r.recordCutOff(st, b, out, time.Since(began), err)
		return result{}, err
	}
	res := result{code: exit.Code, duration: exit.Duration}
	res.print(
		Printed{trimmed(&stdout.Capture), trimmed(&stderr.Capture)},
		Printed{trimmed(stdout.masked()), trimmed(stderr.masked())},
	)

	var failure *Failure
	judged := false
	if b.aiRun != nil {
		res, failure, judged = r.judge(ctx, st, b, out, exit, stderr.Tail(maxReadStderr), res)
	}
	if rec.answer != nil && res.Output != "" {
		_, _ = fmt.Fprintln(rec.answer, res.shown().Output)
	}
	out.release(res.Output)
	written := out.close()
	if !judged {
		reason, exact := res.shown().Stderr, false
		if b.ai && exit.Code > 0 && exit.Code != 126 {
			reason, exact = lastWords(res.shown())
		}
		if failure = failureOf(st, exit, reason); failure != nil {
			failure.Exact = exact
			if t := r.simulated.Type; t != "" {
				failure.Type = t
			}
		}
	}
	if b.ai && errors.Is(exit.Start, process.ErrTooLarge) {
		failure.Message = exit.Start.Error() + promptTooLarge
	}
	if failure != nil && ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	res, failure, err = r.conclude(st, res, failure, &stdout.Capture, written)
	if err != nil {
		return result{}, err
	}
	if end = endOf(exit, failure); failure == nil {
		return res, nil
	}
	failure.Stdout, failure.Stderr = r.tail(b, stdout), stderr.masked().Tail(events.MaxTail)
	deciders := shelltext.DecidersOf(b.argv) // the programs whose exit code the command may end with
	if b.script != "" {
		deciders = shelltext.Deciders(b.script)
	}
	failure.Type, failure.Rule = retry.Judge(failure.Failure, deciders)
	res.code, res.failed = failure.ExitCode, true
	return res, failure
}

// tail returns the end of what a command has printed to stdout, as people see it.
func (r *run) tail(b boundCommand, stdout *stream) string {
	printed := stdout.masked()
	if b.aiRun == nil || b.aiRun.raw {
		return printed.Tail(events.MaxTail)
	}
	t := b.aiRun.preset.Transcript(false)
	shown := append(t.Write([]byte(printed.Text())), t.Close()...)
	return events.ClipTail(r.x.Mask.Text(string(shown)), events.MaxTail) // a secret may have come in pieces
}

// maxReadStderr is how much of the end of stderr a preset is given.
const maxReadStderr = 8 << 10

// runAction runs a step that is not a command (write_file, foreach, validate). Its output is masked, captured
// and written to output_file like a command's.
func (r *run) runAction(ctx context.Context, st *step, b boundCommand) (result, error) {
	inner, up := withTimeLimit(ctx, st.Timeout, st.label)
	defer up.cancel(nil)
	res, err := b.action(inner, r, st, b)
	if errors.Is(err, up) {
		res, err = notRun, r.timedOut(st.label, st.Timeout)
	}
	failure := failureIn(err)
	if err != nil && failure == nil {
		return result{}, err
	}
	kept := newStream(r.x.Mask)
	out, err := r.openOutput(ctx, b.output, kept)
	if err != nil {
		return notRun, r.outputFailure(st, err)
	}
	_, _ = out.Write([]byte(res.Output))
	written := out.close()
	output := strings.TrimRight(res.Output, "\n")
	res.print(Printed{output, res.Stderr}, Printed{r.x.Mask.Text(output), r.x.Mask.Text(res.Stderr)})
	res, failure, err = r.conclude(st, res, failure, &kept.Capture, written)
	if err != nil || failure == nil {
		return res, err
	}
	res.code, res.failed = failure.ExitCode, true
	return res, failure
}

// conclude adds to the end of st what follows from its output: written, the error of its output_file, and the output in
// the capture_format of st. Output that does not fit fails the step, but of a step that has failed anyway it stays a
// text. Output that is not known is null where it does not fit.
func (r *run) conclude(
	st *step, res result, failure *Failure, stdout *process.Capture, written error,
) (result, *Failure, error) {
	if failure == nil && written != nil {
		err := r.outputFailure(st, written)
		if failure = failureIn(err); failure == nil {
			return notRun, nil, err
		}
	}
	data, err := formatted(st.Format, res.Output, failure != nil)
	if err != nil && r.simulated.Unknown {
		data, err = json.RawMessage("null"), nil
	}
	if err == nil && data != nil && stdout.Cut() {
		err = fmt.Errorf("the output (%d bytes) exceeds the limit for captures", stdout.Total())
	}
	if err == nil {
		res.data = data
	} else if failure == nil {
		if _, masked := formatted(st.Format, res.shown().Output, false); masked != nil {
			err = masked
		}
		message := events.Clip(fmt.Sprintf("capture_format %s: %v", st.Format, err), events.MaxError)
		failure = st.fails(retry.TypeCommandFailed, message)
		failure.ExitCode = 0
	}
	return res, failure, nil
}

// openOutput opens d, which may be nil, when one more file may be open.
func (r *run) openOutput(ctx context.Context, d *destination, kept *stream) (*sink, error) {
	out := &sink{kept: kept}
	if d == nil || r.x.Simulate != nil {
		return out, nil
	}
	if err := r.dirError(); err != nil {
		return nil, err // creating the file would make the directory anew, empty
	}
	err := r.x.limiter.do(ctx, func() (err error) {
		out.file, err = d.create()
		return err
	})
	return out, err
}

// settleOutput keeps the output_file of a step that has succeeded. That of a step which failed is kept only
// when its failure is accepted and its command printed something and exited by itself.
func (r *run) settleOutput(st *step, b boundCommand, res result, err error) error {
	d := b.output
	if d == nil || d.beside == "" {
		return err
	}
	failure := failureIn(err)
	accepted := failure != nil && (st.AllowFailure || st.policy().OnFailure.Kind == retry.Continue)
	if err == nil || accepted && failure.ExitCode > 0 && res.Output != "" {
		kept := d.keep()
		if kept == nil || failure != nil {
			return err
		}
		err = r.outputFailure(st, kept)
	}
	d.discard()
	return err
}

// outputFailure returns the failure of a step whose output_file could not be written, or the error when the
// step is not to blame.
func (r *run) outputFailure(st *step, err error) error {
	if blameless := r.blameless(err); blameless != nil {
		return blameless
	}
	t := retry.TypeCommandFailed
	if errors.Is(err, fs.ErrPermission) {
		t = retry.TypePermission
	}
	return st.fails(t, "output_file: "+err.Error())
}

// record returns what takes the output of the next command of st. a is how it is read; nil if it is not.
func (r *run) record(st *step, a *aiRun) *recording {
	p := new(recording)
	p.stdout.init(r.x.Mask, &p.recorder, outputs.Stdout)
	p.stderr.init(r.x.Mask, &p.recorder, outputs.Stderr)
	if r.x.Echo != nil && r.a.Phase == phaseMap {
		p.stdout.echo, p.stderr.echo = r.x.Echo.Command(r.a, st.label, r.tryNumber)
		if a != nil && !a.raw && a.preset.Parse == ai.JSONL {
			p.answer, p.stdout.echo = p.stdout.echo, nil
		}
	}
	if policy := r.a.Outputs; policy.Keep != "" && policy.Keep != outputs.None {
		source := outputs.Source{ItemID: r.a.ItemID, Step: st.label, Try: r.tryNumber, Command: int(r.commands.Add(1))}
		if a != nil && !a.raw {
			source.Agent = a.preset.Name
		}
		if r.a.ItemID == "" {
			source.Phase = r.a.Phase
		} else {
			source.Attempt = r.a.Number
		}
		p.recorder.Policy, p.recorder.To, p.recorder.Source = policy, r, source
	}
	return p
}
