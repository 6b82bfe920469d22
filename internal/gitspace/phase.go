package gitspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

const phaseRef = "refs/phases/head" // in the hub: where the phases of the job were last seen

func (s *Space) job() workspace { return s.workspace("job", 0) }

// Phase returns the directory in which the phases of the job run, with head in it. The workspace is made once and never cleaned: what a phase did not
// commit is there for the next. It is moved to head, which is refused with a *StateError when a change would be lost.
func (s *Space) Phase(ctx context.Context, head string) (dir string, err error) {
	s.phase.Lock()
	defer s.phase.Unlock()
	s.phaseBase = head
	w := s.job()
	if !exists(w.seal) { // it was not made, or not wholly
		if err := s.discard(w); err != nil {
			return "", err
		}
		err := s.create(ctx, w, head, s.ResultBranch())
		var setup *setupFailed
		if errors.As(err, &setup) {
			return "", stateErrorf("workspace.setup failed in the workspace of the job: %s", setup.outcome.Failure.Message)
		}
		if err != nil {
			return "", err
		}
		return s.start(w)
	}
	if err := s.moveTo(ctx, w, head); err != nil {
		return "", err
	}
	return s.start(w)
}

// moveTo moves the job's workspace to head. One that has head, and perhaps commits of a phase on top, stays.
func (s *Space) moveTo(ctx context.Context, w workspace, head string) error {
	in := s.in(w)
	at, err := s.git.line(ctx, in, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	var failed *gitError
	if errors.As(err, &failed) {
		return stateErrorf("HEAD of the workspace of the job, %s, is no commit any more", w.dir)
	}
	if err != nil || at == head {
		return err
	}
	_, code, err := s.git.answer(ctx, in, "merge-base", "--is-ancestor", head, at)
	if err != nil || code == 0 {
		return err
	}
	// Commits of a phase that was not completed are not part of the result. They stay where they can be found.
	if err := s.fetchInto(ctx, w, at, "refs/phases/"+short(at)); err != nil {
		return err
	}
	if _, err := s.git.output(ctx, in, "reset", "-q", "--keep", head); err != nil {
		if errors.As(err, &failed) && failed.exit.Signal == "" {
			return stateErrorf("the workspace of the job, %s, cannot be moved to what was merged: %s", w.dir, failed.reason())
		}
		return err
	}
	return nil
}

// PhaseHead returns the commit that a phase ended at, once it is in the hub: the head that Phase was called with, or one that contains it. With all,
// what the phase did not commit is committed, with this subject. A *StateError says why it cannot be told.
func (s *Space) PhaseHead(ctx context.Context, all bool, message string) (commit string, err error) {
	s.phase.Lock()
	defer s.phase.Unlock()
	w, head := s.job(), s.phaseBase
	if all {
		c, err := s.collect(ctx, w, task{base: head, ref: phaseRef, message: message + "\n", all: true})
		if err != nil || c.commit == "" {
			return head, err
		}
		if _, err := s.git.output(ctx, s.in(w), "reset", "-q", c.commit); err != nil {
			return "", err
		}
		return c.commit, nil
	}
	if !isDir(w.gitDir()) {
		return "", stateErrorf("the workspace of the job, %s, has no .git directory any more", w.dir)
	}
	at, err := s.git.line(ctx, s.in(w), "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	var failed *gitError
	if errors.As(err, &failed) {
		return "", stateErrorf("HEAD of the workspace of the job is no commit any more")
	}
	if err != nil || at == head {
		return at, err
	}
	for _, u := range unfinished {
		if exists(w.gitDir() + "/" + u.file) {
			return "", stateErrorf("the phase left %s unfinished", u.what)
		}
	}
	if _, code, err := s.git.answer(ctx, s.in(w), "merge-base", "--is-ancestor", head, at); err != nil || code == 1 {
		return "", errors.Join(err, stateErrorf("HEAD of the workspace of the job does not contain %s, what was merged before", short(head)))
	}
	if links, err := s.changedLinks(ctx, w, head, at); err != nil || len(links) > 0 {
		return "", errors.Join(err, stateErrorf("the phase changed the submodules %s: what is in them would be lost", someOf(links)))
	}
	return at, s.fetchInto(ctx, w, at, phaseRef)
}

// changedLinks returns the submodules that differ between two commits.
func (s *Space) changedLinks(ctx context.Context, w workspace, from, to string) ([]string, error) {
	out, err := s.git.output(ctx, s.in(w), "diff-tree", "-r", "-z", "--raw", "--no-renames", from, to)
	if err != nil {
		return nil, fmt.Errorf("look for changed submodules: %w", err)
	}
	var links []string
	all := fields(out)
	for i := 0; i+1 < len(all); i += 2 {
		if strings.HasPrefix(all[i], ":"+gitlinkMode) || strings.Contains(all[i], " "+gitlinkMode+" ") {
			links = append(links, all[i+1])
		}
	}
	return links, nil
}
