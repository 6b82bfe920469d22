package gitspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

const phaseRef = "refs/phases/head" // in the hub: where the phases of the job were last seen

// job returns the workspace of the phases, which is no slot's.
func (s *Space) job() workspace { return s.workspace("job", 0) }

// moving names the file that is there while the workspace is moved from one commit to another. It has both.
func (w workspace) moving() string { return w.dir + ".moving" }

// Phase returns the directory in which the phases of the job run, with head in it. The workspace is made once
// and never cleaned: what a phase did not commit is there for the next. It is moved to head, which is refused
// with a *StateError when a change would be lost.
func (s *Space) Phase(ctx context.Context, head string) (dir string, err error) {
	s.phase.Lock()
	defer s.phase.Unlock()
	s.phaseBase = head
	w := s.job()
	if !exists(w.seal) { // it was not made, or not wholly
		if err = s.discard(w); err == nil {
			err = s.create(ctx, w, head, s.ResultBranch())
		}
		if setup, failed := errors.AsType[*setupFailed](err); failed {
			return "", stateErrorf("workspace.setup failed in the job's workspace: %s", setup.outcome.Failure.Message)
		}
		if err != nil {
			return "", err
		}
		return s.start(w)
	}
	if err := s.moveTo(ctx, w, head); err != nil {
		return "", err
	}
	if dir, err = s.start(w); err != nil {
		return "", stateErrorf("the job's workspace has no starting directory: %v", err)
	}
	return dir, nil
}

// head returns the commit that a workspace, which is called so, is at.
func (s *Space) head(ctx context.Context, w workspace, called string) (string, error) {
	at, err := s.in(w).commit(ctx, "HEAD")
	if _, failed := errors.AsType[*gitError](err); failed || err == nil && at == "" {
		err = stateErrorf("HEAD of %s is no longer a commit", called)
	}
	return at, err
}

// moveTo moves the job's workspace to head. One that has head, and perhaps commits of a phase on top, stays. A
// file beside the workspace says that git is at work: a git that was killed has left some files of one commit
// and some of the other, which it would refuse to touch again.
func (s *Space) moveTo(ctx context.Context, w workspace, head string) error {
	if _, err := s.vet(w); err != nil {
		return err
	}
	in := s.in(w)
	if err := s.finishMove(ctx, w); err != nil {
		return err
	}
	at, err := s.head(ctx, w, "the job's workspace, "+w.dir+",")
	if err != nil || at == head {
		return err
	}
	contains, err := in.contains(ctx, at, head)
	if err != nil || contains {
		return s.blame(err, "cannot read HEAD of the job's workspace")
	}
	// Commits of a phase that was not completed are not part of the result. They stay where they can be found.
	if err := s.bring(ctx, w, at, head); err != nil {
		return err
	}
	if reason, err := s.missing(ctx, at, s.record.Base); err != nil || reason != "" {
		return errors.Join(err, stateErrorf("commits of the phase are incomplete: %s", reason))
	}
	if err := s.writeRef("refs/phases/"+short(at), at); err != nil {
		return err
	}
	move := func(args ...string) error {
		err := in.do(ctx, append(args, head)...)
		if failed := refusal(err); failed != nil {
			return stateErrorf("cannot update the job's workspace, %s, to the merged commits: %s", w.dir, failed.reason())
		}
		return err
	}
	if err := move("read-tree", "-n", "-m", "-u", at); err != nil { // changes nothing, and fails if a change would be lost
		return err
	}
	if err := jobs.WriteFile(w.moving(), []byte(at+" "+head)); err != nil {
		return err
	}
	if err := move("reset", "-q", "--keep"); err != nil {
		return err
	}
	return os.Remove(w.moving())
}

// finishMove finishes a move of the job's workspace that was cut off. All files that differ between the two
// commits are the move's: it had begun only because no change was in its way, and no phase has run since.
func (s *Space) finishMove(ctx context.Context, w workspace) error {
	data, err := os.ReadFile(w.moving())
	if err != nil {
		return check.Unless(err, fs.ErrNotExist)
	}
	from, to, _ := strings.Cut(string(data), " ")
	if err := removeLocks(w.gitDir()); err != nil {
		return err
	}
	for _, args := range [][]string{{"read-tree", from}, {"read-tree", "--reset", "-u", from, to}, {"reset", "-q", to}} {
		if err := s.in(w).do(ctx, args...); err != nil {
			return err
		}
	}
	return os.Remove(w.moving())
}

// PhaseHead returns the commit that a phase ended at, once it is in the hub: the head that Phase was called
// with, or one that contains it. With all, what the phase did not commit is committed, with this subject. A
// *StateError says why it cannot be told.
func (s *Space) PhaseHead(ctx context.Context, all bool, message string) (commit string, err error) {
	s.phase.Lock()
	defer s.phase.Unlock()
	w, head := s.job(), s.phaseBase
	if all {
		c, err := s.collect(ctx, w, task{base: head, ref: phaseRef, message: message + "\n", all: true})
		if err == nil {
			err = s.checkSubmodules(ctx, w)
		}
		if err != nil || c.Commit == "" {
			return head, err
		}
		if err := s.in(w).do(ctx, "reset", "-q", c.Commit); err != nil {
			return "", s.blame(err, "cannot update the job's workspace to the commits of the phase")
		}
		return c.Commit, nil
	}
	if _, err := s.vet(w); err != nil {
		return "", err
	}
	at, err := s.head(ctx, w, "the job's workspace")
	if err != nil || at == head {
		return at, err
	}
	if what := w.unfinished(false); what != "" {
		return "", stateErrorf("the phase left %s unfinished", what)
	}
	if err := s.list(ctx, s.in(w), at); err != nil {
		return "", err
	}
	_, err = s.receive(ctx, w, at, phaseRef, head)
	return at, err
}
