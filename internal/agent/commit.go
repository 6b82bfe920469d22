package agent

import (
	"context"
	"strings"

	"prodigy/internal/retry"
)

// watched launches st, which fails when it has to make a commit and does not. What counts is where HEAD of its working directory
// was before its first try.
func (r *run) watched(ctx context.Context, st *step, b bound) (result, *Failure, error) {
	if !st.CommitRequired {
		return r.launch(ctx, st, b)
	}
	before, known := r.heads[st]
	if !known {
		head, failure, err := r.head(ctx, st, b)
		if err != nil || failure != nil {
			return notRun, failure, err
		}
		if r.heads == nil {
			r.heads = make(map[*step]string)
		}
		r.heads[st], before = head, head
	}
	res, failure, err := r.launch(ctx, st, b)
	if err != nil || failure != nil {
		return res, failure, err
	}
	after, failure, err := r.head(ctx, st, b)
	if err == nil && failure == nil && after == before {
		failure = commitFailure(st, "no commit was made in "+b.dir)
	}
	if failure != nil {
		failure.Stdout, failure.Stderr, res.failed = res.shown().output, res.shown().stderr, true
	}
	return res, failure, err
}

// head returns the commit that HEAD of the working directory is at, empty before the first one.
func (r *run) head(ctx context.Context, st *step, b bound) (string, *Failure, error) {
	git := bound{call: call{argv: []string{"git", "rev-parse", "--quiet", "--verify", "HEAD"}}, env: b.env, dir: b.dir}
	stdout, stderr := r.x.stream(), r.x.stream()
	exit, err := r.limited(ctx, st, git, &sink{kept: stdout}, stderr)
	switch {
	case err != nil:
		return "", nil, err
	case exit.Start != nil:
		return "", commitFailure(st, exit.Start.Error()), nil
	case exit.Code != 0 && exit.Code != 1: // 1: there is no commit yet
		return "", commitFailure(st, strings.TrimSpace(stderr.shown().Text())), nil
	}
	return strings.TrimSpace(stdout.Text()), nil, nil
}

func commitFailure(st *step, why string) *Failure {
	return &Failure{Step: st.label, Failure: retry.Failure{Type: retry.TypeCommitMissing, Message: "commit_required: " + why}}
}
