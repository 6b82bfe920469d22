package agent

import (
	"context"
	"strings"

	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

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
		res.shut = r.x.host.ReportStep(gate, ticket, err == nil)
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
		call: call{argv: strings.Fields("git rev-parse --quiet --verify HEAD")}, env: b.env, dir: b.dir,
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
