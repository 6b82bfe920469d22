package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	shelltext "prodigy/internal/shell"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// This file is one try of a step, from top to bottom: the values are bound, the breaker is asked, the command
// runs, and its output and exit become a result or a failure.

// try runs st once. When its breaker refuses that, the failure has the type circuit_open.
func (r *run) try(ctx context.Context, s *scope, st *step) (result, error) {
	if ctx.Err() != nil {
		return notRun, context.Cause(ctx)
	}
	b, err := r.bind(s, st, st.command)
	r.session = "" // a validation of the step has none to continue
	if err != nil {
		return notRun, err
	}
	defer b.scratch.remove()

	gate, guarded := r.breaker(st)
	var ticket limit.Ticket
	if guarded {
		var refusal string
		if ticket, refusal, err = r.x.host.AdmitStep(ctx, gate); err != nil {
			return notRun, err
		}
		if refusal != "" {
			return result{code: -1, failed: true, dir: b.dir}, st.fails(retry.TypeCircuitOpen, refusal)
		}
	}
	res, err := r.requireCommit(ctx, st, b)
	err = r.settleOutput(st, b, res, err)
	res.dir = b.dir
	if err == nil && st.validate != nil {
		res, err = st.validate.run(ctx, r, s, st, res)
	}
	failure := failureIn(err)
	stopped := err != nil && failure == nil
	ofPlan := b.aiRun != nil && failure != nil && (failure.Type == retry.TypeQuota || failure.Type == retry.TypeAuth)
	switch {
	case !guarded:
	case stopped, ofPlan: // it says nothing of the step
		r.x.host.ReleaseStep(gate, ticket)
	default:
		r.x.host.ReportStep(gate, ticket, err == nil)
	}
	if stopped {
		res = notRun
	}
	return res, err
}

// breaker returns the circuit breaker of st, if it has one.
func (r *run) breaker(st *step) (b StepBreaker, ok bool) {
	c := st.policy().CircuitBreaker
	if c == nil {
		return StepBreaker{}, false
	}
	return StepBreaker{JobID: r.a.JobID, Phase: r.a.Phase, Step: st.label, Nth: st.nth, Config: *c}, true
}

// bind puts the values into one of the commands of st, and makes its private files. A value that is missing or
// does not fit is a failure.
func (r *run) bind(s *scope, st *step, cmd command) (boundCommand, error) {
	if st.broken != nil {
		return boundCommand{}, st.fails(retry.TypeTemplate, st.broken.Error())
	}
	if r.envErr != nil {
		return boundCommand{}, r.bindFailure(st, r.envErr)
	}
	r.lostSecret = nil
	files := r.newScratch()
	inner := s.binding(st)
	inner.scratch = &files
	b, err := r.bindTexts(inner, st, cmd)
	if err == nil {
		err = b.makeFiles()
	}
	err = cmp.Or(r.lostSecret, err)
	if err != nil && r.x.Simulate != nil && r.x.forgives(err) {
		b, err = boundCommand{scope: inner, scratch: &files, dir: r.a.Dir}, nil
		b.action = withoutValues(cmd)
	}
	if err == nil && r.rowsErr == nil {
		return b, nil
	}
	files.remove()
	if broken := cmp.Or(r.rowsErr, files.err); broken != nil {
		return boundCommand{}, broken
	}
	return boundCommand{}, r.bindFailure(st, err)
}

// bindTexts binds the texts of st: its variables first, since the others see them.
func (r *run) bindTexts(s *scope, st *step, cmd command) (b boundCommand, err error) {
	if s.env, err = r.bindEnv(s, st.env); err != nil {
		return boundCommand{}, err
	}
	b.scope, b.scratch = s, s.scratch
	if b.call, err = cmd.bind(s, r.x); err != nil {
		return boundCommand{}, err
	}
	if b.dir, err = r.dir(s, st); err != nil {
		return boundCommand{}, err
	}
	b.env = r.environ(s.env, b.call, b.dir)
	if b.aiRun != nil && !b.aiRun.raw {
		if err := b.complete(r); err != nil {
			return boundCommand{}, err
		}
	}
	if b.output, err = st.output.bind(s, b.dir); b.output != nil {
		b.output.tag = r.outputTag(s, st)
	}
	return b, err
}

// outputTag returns a text that differs between all steps that may write the same output_file at once.
func (r *run) outputTag(s *scope, st *step) string {
	digest := sha256.New()
	_, _ = fmt.Fprintf(digest, "%q %q %q %q", r.a.JobID, r.a.Phase, r.a.ItemID, st.label)
	for l := s.loop; l != nil; l = l.outer {
		_, _ = fmt.Fprintf(digest, " %d", l.index)
	}
	return hex.EncodeToString(digest.Sum(nil)[:8])
}

// dir returns the working directory of st.
func (r *run) dir(s *scope, st *step) (string, error) {
	if st.dir == nil {
		return cmp.Or(s.dir, r.a.Dir), nil
	}
	dir, err := st.dir.Bind(s)
	if err != nil {
		return "", err
	}
	return process.Resolve(r.a.Dir, dir), nil
}

// makeFiles writes the private files that b needs and makes b name them.
func (b *boundCommand) makeFiles() error {
	if b.values != "" {
		path, err := b.scratch.addValues("values-*.sh", b.values)
		if err != nil {
			return err
		}
		b.env = append(b.env, valuesVar+"="+path)
	}
	if b.script != "" {
		path, err := b.scratch.add("script-*.sh", b.script)
		if err != nil {
			return err
		}
		b.argv = append(b.argv, path)
	}
	return nil
}

// bindEnv returns the variables of a block as "K=V", after those in s. Each sees the ones before it. A secret
// overrides a variable of its name.
func (r *run) bindEnv(s *scope, vars []variable) ([]string, error) {
	inner := *s
	inner.env = slices.Clip(s.env)
	for _, v := range vars {
		if slices.Contains(r.a.Secrets, v.name) {
			continue
		}
		value, err := v.literal, error(nil)
		switch {
		case v.command != nil:
			value, err = r.commandValue(&inner, v.command)
		case v.value != nil:
			value, err = v.value.Bind(&inner)
		case v.secret:
			value, err = r.secret(v.name)
		}
		if err == nil && strings.IndexByte(value, 0) >= 0 {
			err = &template.BindError{Text: "the value holds a NUL byte, which no variable can"}
		}
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.name, err)
		}
		inner.env = append(inner.env, v.name+"="+value)
	}
	return inner.env, nil
}

// secret returns a value that the Executor was given beside the attempt.
func (r *run) secret(name string) (string, error) {
	value, ok := r.x.Secrets[name]
	if !ok {
		return "", errors.New("the secret is not here")
	}
	return value, nil
}

// maxValueTime is how long a command may take that gives a variable its value.
const maxValueTime = time.Minute

// commandValue runs a command and returns what it printed, without trailing newlines.
func (r *run) commandValue(s *scope, cmd command) (string, error) {
	c, err := cmd.bind(s, r.x)
	if err != nil || r.x.Simulate != nil {
		return "", err
	}
	b := boundCommand{call: c, dir: r.a.Dir, env: r.environ(s.env, c, r.a.Dir), scratch: s.scratch}
	if err := b.makeFiles(); err != nil {
		return "", err
	}
	stdout, stderr := newStream(r.x.Mask), newStream(r.x.Mask)
	exit, err := r.x.Run(r.stop, process.Command{
		Path: b.path, Argv: b.argv, Dir: b.dir, Env: b.env, Stdout: stdout, Stderr: stderr, Timeout: maxValueTime,
		Grace:    r.x.Grace,
		Register: r.x.host.Register(),
	})
	if err != nil {
		return "", err
	}
	f := failureOf(&step{Step: &workflow.Step{Timeout: maxValueTime}}, exit, trimmed(stderr.masked()))
	if f != nil {
		f.Message = "the command for its value: " + f.Message
		return "", f
	}
	return trimmed(&stdout.Capture), nil
}

// bindFailure returns an error of a binding as the failure of st. A stop is none.
func (r *run) bindFailure(st *step, err error) error {
	if r.stop.Err() != nil {
		return context.Cause(r.stop)
	}
	f := st.fails(retry.TypeTemplate, err.Error())
	if command := failureIn(err); command != nil { // of the command of a variable
		f.Failure = command.Failure
		f.Message = err.Error()
	}
	return f
}

// requireCommit runs b. With commit_required, st fails when HEAD of its working directory is where it was
// before the first try.
func (r *run) requireCommit(ctx context.Context, st *step, b boundCommand) (result, error) {
	if !st.CommitRequired || r.x.Simulate != nil {
		return r.runCommand(ctx, st, b)
	}
	if _, known := r.heads[st]; !known {
		head, err := r.head(ctx, st, b)
		if err != nil {
			return notRun, err
		}
		if r.heads == nil {
			r.heads = make(map[*step]string)
		}
		r.heads[st] = head
	}
	res, err := r.runCommand(ctx, st, b)
	if err != nil {
		return res, err
	}
	after, err := r.head(ctx, st, b)
	if err == nil && after == r.heads[st] {
		err = st.withoutCommit("no commit was made in " + b.dir)
	}
	if failure := failureIn(err); failure != nil {
		failure.Stdout, failure.Stderr, res.failed = res.shown().Output, res.shown().Stderr, true
	}
	return res, err
}

// head returns the commit that HEAD of the working directory is at, empty before the first one.
func (r *run) head(ctx context.Context, st *step, b boundCommand) (string, error) {
	git := boundCommand{
		call: call{argv: []string{"git", "rev-parse", "--quiet", "--verify", "HEAD"}}, env: b.env, dir: b.dir,
	}
	stdout, stderr := newStream(r.x.Mask), newStream(r.x.Mask)
	exit, err := r.execWithTimeout(ctx, st, git, &sink{kept: stdout}, stderr)
	switch {
	case err != nil:
		return "", err
	case exit.Start != nil:
		return "", st.withoutCommit(exit.Start.Error())
	case exit.Code != 0 && exit.Code != 1: // 1: there is no commit yet
		return "", st.withoutCommit(strings.TrimSpace(stderr.masked().Text()))
	}
	return strings.TrimSpace(stdout.Text()), nil
}

func (s *step) withoutCommit(why string) *Failure {
	f := s.fails(retry.TypeCommitMissing, "commit_required: "+why)
	f.ExitCode = 0
	return f
}

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
		out.watch = newWatch(b.aiRun)
		defer out.watch.stop()
		out.costs = newMeter(b.aiRun, r.x.host, r.ticket)
		r.followSession(st, b.aiRun, out)
	}
	began := time.Now()
	exit, err := r.execWithTimeout(ctx, st, b, out, stderr)
	if err != nil {
		_ = out.close()
		r.recordCutOff(ctx, st, b, out, time.Since(began), err)
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
	if failure == nil && written != nil {
		err := r.outputFailure(st, written)
		if failure = failureIn(err); failure == nil {
			return result{}, err
		}
	}
	res, failure = res.format(st, &stdout.Capture, failure, r.simulated.Unknown)
	if end = endOf(exit, failure); failure == nil {
		return res, nil
	}
	failure.Stdout, failure.Stderr = stdout.masked().Tail(events.MaxTail), stderr.masked().Tail(events.MaxTail)
	failure.Type, failure.Rule = retry.Judge(failure.Failure, b.deciders())
	res.code, res.failed = failure.ExitCode, true
	return res, failure
}

// print sets what was printed, and the same without secrets.
func (r *result) print(p, masked Printed) {
	if r.Printed, r.masked = p, nil; masked != p {
		r.masked = &masked
	}
}

// deciders returns the programs whose exit code the command may end with.
func (b boundCommand) deciders() []string {
	if b.script != "" {
		return shelltext.Deciders(b.script)
	}
	return shelltext.DecidersOf(b.argv)
}

// maxReadStderr is how much of the end of stderr a preset is given.
const maxReadStderr = 8 << 10

// runAction runs a step that is not a command (write_file, foreach, validate). Its output is masked, captured
// and written to output_file like a command's.
func (r *run) runAction(ctx context.Context, st *step, b boundCommand) (result, error) {
	inner, up := withTimeLimit(ctx, st.Timeout, st.label)
	defer up.cancel()
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
	if written := out.close(); written != nil && failure == nil {
		err := r.outputFailure(st, written)
		if failure = failureIn(err); failure == nil {
			return result{}, err
		}
	}
	output := strings.TrimRight(res.Output, "\n")
	res.print(Printed{output, res.Stderr}, Printed{r.x.Mask.Text(output), r.x.Mask.Text(res.Stderr)})
	if res, failure = res.format(st, &kept.Capture, failure, false); failure == nil {
		return res, nil
	}
	res.code, res.failed = failure.ExitCode, true
	return res, failure
}

// execWithTimeout runs b until it ends or a time limit is up: its own, or one around it. The error is for a
// limit around it, a stop, and what keeps prodigy itself from running any command.
func (r *run) execWithTimeout(
	ctx context.Context, st *step, b boundCommand, stdout *sink, stderr *stream,
) (process.Exit, error) {
	var exit process.Exit
	var outer bool
	err := r.x.limiter.do(ctx, func() error {
		var limit time.Duration
		var err error
		limit, outer = effectiveTimeout(ctx, st.Timeout)
		c := process.Command{
			Path: b.path, Argv: b.argv, Dir: b.dir, Env: b.env, Input: b.input, Stdout: stdout, Stderr: stderr,
			Timeout: limit, Grace: r.x.Grace,
			Cleanup: r.a.Limits.Cleanup, Expiry: stdout.watch.begin(), Register: r.x.host.Register(), EndAll: b.ai,
			OOM: r.x.oom,
		}
		if r.x.Simulate != nil {
			exit, err = r.simulate(st, b, c)
			return err
		}
		exit, err = r.x.shell().Run(r.stop, r.x.Run, c, b.program)
		return err
	})
	if errors.Is(exit.Start, process.ErrDir) {
		err = r.dirError()
	}
	if exit.TimedOut && outer {
		r.cut = &Failure{Step: st.label, Failure: retry.Failure{
			TimedOut: true, ExitCode: -1, Stdout: stdout.kept.masked().Tail(events.MaxTail),
			Stderr: stderr.masked().Tail(events.MaxTail),
		}}
		<-ctx.Done() // at this moment, if not before
		err = context.Cause(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return exit, err
}

// effectiveTimeout returns the time limit of a command whose own is given (0: none), and whether it is not its
// own but that of ctx.
func effectiveTimeout(ctx context.Context, own time.Duration) (limit time.Duration, outer bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return own, false
	}
	left := max(time.Until(deadline), 1)
	if own > 0 && own <= left {
		return own, false
	}
	return left, true
}

// timeUp is the cause of a context that ends with the time limit of one step.
type timeUp struct {
	label  string
	cancel context.CancelFunc
}

func (u *timeUp) Error() string { return "the time of " + u.label + " is up" }

// withTimeLimit returns ctx with a limit, if there is one, and its cause when that is reached.
func withTimeLimit(ctx context.Context, limit time.Duration, label string) (context.Context, *timeUp) {
	up := &timeUp{label: label, cancel: func() {}}
	if limit <= 0 {
		return ctx, up
	}
	ctx, up.cancel = context.WithTimeoutCause(ctx, limit, up)
	return ctx, up
}

// timedOut returns the failure of a step whose time was up, with the output of the command that ran then.
func (r *run) timedOut(label string, limit time.Duration) *Failure {
	failure := cmp.Or(r.cut, &Failure{Failure: retry.Failure{TimedOut: true, ExitCode: -1}})
	r.cut = nil
	failure.Step, failure.Message = label, "timed out after "+duration.Format(limit)
	return failure
}

// format gives r its output in the capture_format of st. Output that does not fit fails the step; that of a
// step that has failed anyway stays a text. Output that is unknown is null where it does not fit.
func (r result) format(st *step, stdout *process.Capture, failure *Failure, unknown bool) (result, *Failure) {
	data, err := formatted(st.Format, r.Output, failure != nil)
	if err != nil && unknown {
		data, err = json.RawMessage("null"), nil
	}
	if err == nil && data != nil && stdout.Cut() {
		err = fmt.Errorf("the output of %d bytes is larger than what is kept of it", stdout.Total())
	}
	if err == nil {
		r.data = data
		return r, failure
	}
	if _, masked := formatted(st.Format, r.shown().Output, false); masked != nil {
		err = masked
	}
	if failure == nil {
		message := events.Clip(fmt.Sprintf("capture_format %s: %v", st.Format, err), events.MaxError)
		failure = st.fails(retry.TypeCommandFailed, message)
		failure.ExitCode = 0
	}
	return r, failure
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

// ErrDir is in the chain when the directory that the commands of a job run in cannot be used.
var ErrDir = errors.New("the working directory of the job cannot be used")

// dirError returns an error when the working directory of the attempt cannot be used. A directory that a step
// names is the step's affair.
func (r *run) dirError() error {
	if err := process.CheckDir(r.a.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrDir, err)
	}
	return nil
}

// blameless returns an error of files when no step is to blame for it: files or memory ran short, or the job
// has no directory. Else nil.
func (r *run) blameless(err error) error {
	if err == nil || process.Short(err) || errors.Is(err, ErrDir) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return r.dirError()
	}
	return nil
}

// failureOf returns the failure that an exit is, or nil when it is a success. stderr is where the reason is looked for.
func failureOf(st *step, exit process.Exit, stderr string) *Failure {
	f := &Failure{
		Step: st.label, Failure: retry.Failure{ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut},
	}
	if exit.Start != nil || exit.TimedOut || exit.Signal != "" {
		f.ExitCode = -1
	}
	switch {
	case exit.Start != nil: // with the exit codes that a shell has for it
		f.Message = exit.Start.Error()
		switch {
		case errors.Is(exit.Start, process.ErrNotFound):
			f.Type, f.ExitCode = retry.TypeCommandNotFound, 127
		case errors.Is(exit.Start, process.ErrNotExecutable):
			f.Type, f.ExitCode = retry.TypePermission, 126
		case errors.Is(exit.Start, process.ErrTooLarge):
			f.Type, f.ExitCode = retry.TypeTemplate, 126
			f.Message += tooLarge
		}
	case exit.TimedOut:
		f.Message = "timed out after " + duration.Format(st.Timeout)
	case exit.OOM:
		f.Type, f.Message = retry.TypeOOM, "killed for lack of memory: the kernel has killed processes while it ran"
	case exit.Signal != "":
		f.Message = "killed by " + exit.Signal
	case exit.Code == 126 && strings.Contains(stderr, "rgument list too long"):
		f.Type, f.Message = retry.TypeTemplate, events.Clip(
			exitMessage(exit.Code, stderr), events.MaxError-len(tooLarge),
		)+tooLarge
	case exit.Code != 0:
		f.Message = exitMessage(exit.Code, stderr)
	default:
		return nil
	}
	return f
}

// tooLarge says what to do about a value that is too large for an argument.
const tooLarge = "; an argument holds 128 KiB at most: write |file for the path of a file that holds the value, or a heredoc"

// promptTooLarge says the same for a prompt.
const promptTooLarge = "; a prompt that is an argument holds 128 KiB at most: write |file for the path of a file that holds the value, " +
	"or let claude read it from its standard input"

// exitMessage names the exit code and the last line of stderr that is not blank.
func exitMessage(code int, stderr string) string {
	message := fmt.Sprintf("exit code %d", code)
	if line := lastLine(stderr); line != "" {
		message += ": " + line
	}
	return events.Clip(message, events.MaxError)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}
