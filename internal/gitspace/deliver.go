package gitspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Deliver puts the result into the user's repository: as the hidden ref, and as the branch ResultBranch, which
// is only moved forward. A branch that cannot be moved is a notice. When the hidden ref cannot be set there is
// an error, and Deliver may be called again.
func (s *Space) Deliver(ctx context.Context, head string) (Delivery, error) {
	d := Delivery{Hidden: s.hiddenRef()}
	if head == s.record.Base {
		return d, nil
	}
	if _, err := s.git.output(ctx, s.hub(), "update-ref", headRef, head); err != nil {
		return d, fmt.Errorf("deliver the result: %w", err)
	}
	fetch := []string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"}
	into := append(fetch[:len(fetch):len(fetch)], s.hubDir(), "+"+headRef+":"+s.hiddenRef())
	if err := s.tryAgain(ctx, func() error { _, err := s.git.output(ctx, s.user.place, into...); return err }); err != nil {
		return d, fmt.Errorf("deliver the result to %s: %w", s.user.top, err)
	}
	branch := s.ResultBranch()
	_, err := s.git.output(ctx, s.user.place, append(fetch, ".", s.hiddenRef()+":refs/heads/"+branch)...)
	var failed *gitError
	switch {
	case errors.As(err, &failed) && failed.byItself():
		reason := cmp.Or(failed.reason(), "it has commits that the result does not have") // that is all git is silent about
		d.Notices = append(d.Notices, fmt.Sprintf("the branch %s was not moved: %s; the result is %s", branch, reason,
			s.hiddenRef()))
	case err != nil:
		return d, err
	default:
		d.Branch = branch
	}
	return d, nil
}

// tryAgain calls try up to three times as long as git fails: a gc or another command of the user may be in the
// way, and is soon over.
func (s *Space) tryAgain(ctx context.Context, try func() error) error {
	err := try()
	var failed *gitError
	for range 2 {
		if !errors.As(err, &failed) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		err = try()
	}
	return err
}

// Into fast-forwards a branch of the user to the result. A *StateError says why that cannot be.
func (s *Space) Into(ctx context.Context, branch, head string) error {
	full := "refs/heads/" + branch
	at, code, err := s.git.answer(ctx, s.user.place, "rev-parse", "--verify", "--quiet", full+"^{commit}")
	if err != nil {
		return err
	}
	if strings.TrimSpace(at) == head {
		return nil
	}
	if code == 0 {
		_, diverged, err := s.git.answer(ctx, s.user.place, "merge-base", "--is-ancestor", full, head)
		if err != nil {
			return err
		}
		if diverged == 1 {
			_, without, err := s.git.answer(ctx, s.user.place, "merge-base", "--is-ancestor", head, full)
			if err != nil || without == 0 { // somebody went on from the result
				return err
			}
			return stateErrorf("%s cannot be fast-forwarded: it has commits that the result does not have; merge them (git merge %s), then prodigy resume, or take the result as it is", branch, s.ResultBranch())
		}
	}
	where, err := s.checkedOut(ctx, full)
	if err != nil {
		return err
	}
	var failed *gitError
	if where == "" {
		_, err = s.git.output(
			ctx, s.user.place, "fetch", "-q", "--no-tags", "--no-write-fetch-head", ".", s.hiddenRef()+":"+full,
		)
	} else {
		_, err = s.git.output(ctx, place{dir: where}, "merge", "-q", "--ff-only", "--no-autostash", head)
	}
	if errors.As(err, &failed) && failed.byItself() {
		return stateErrorf("%s was not moved: %s; mend that, then prodigy resume", branch, failed.reason())
	}
	return err
}

// checkedOut returns the checkout of the user's repository that a branch is checked out in.
func (s *Space) checkedOut(ctx context.Context, full string) (dir string, err error) {
	out, err := s.git.output(ctx, s.user.place, "for-each-ref", "--format=%(worktreepath)", full)
	return strings.TrimSuffix(out, "\n"), err
}

// Clean deletes the workspaces. What was collected is in the hub.
func (s *Space) Clean(context.Context) error {
	err := removeAll(s.WorkDir)
	_ = os.Remove(filepath.Dir(s.WorkDir)) // when it is empty
	if err != nil {
		return fmt.Errorf("delete the workspaces: %w", err)
	}
	return nil
}

// Forget deletes the hub once everything in it that counts has been delivered. Open makes another one from the user's
// repository, also when this is cut off.
func (s *Space) Forget() error {
	for _, name := range [...]string{s.recordFile(), s.hubDir(), s.templateDir(), s.attributesDir(), s.bootFile()} {
		if err := removeAll(name); err != nil {
			return fmt.Errorf("delete the hub of the job: %w", err)
		}
	}
	_ = os.Remove(s.GitDir) // when it is empty
	return nil
}

// Remove deletes everything of a job but its branch: the workspaces, the hub, and the hidden ref in the user's
// repository.
func Remove(ctx context.Context, c Config) error {
	errs := []error{removeAll(c.WorkDir), removeAll(c.GitDir)}
	_ = os.Remove(filepath.Dir(c.WorkDir))
	g := newGit(c)
	if !isDir(c.Dir) || g.find(ctx) != nil {
		return errors.Join(errs...)
	}
	user := place{dir: c.Dir}
	_, err := g.output(ctx, user, "update-ref", "-d", c.hiddenRef())
	if _, noRepository := g.output(ctx, user, "rev-parse", "--git-dir"); noRepository != nil {
		err = nil
	}
	return errors.Join(append(errs, err)...)
}
