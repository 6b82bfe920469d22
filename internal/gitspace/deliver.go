package gitspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Deliver puts the result into the user's repository: as the hidden ref, and as the branch ResultBranch, which
// is only moved forward. A branch that cannot be moved is a notice. When the hidden ref cannot be set there is
// an error, and Deliver may be called again.
func (s *Space) Deliver(ctx context.Context, head string) (Delivery, error) {
	d := Delivery{Hidden: s.hiddenRef()}
	if head == s.record.Base {
		return d, nil
	}
	if err := s.hub().do(ctx, "update-ref", headRef, head); err != nil {
		return d, fmt.Errorf("deliver the result: %w", err)
	}
	fetch := strings.Fields("fetch -q --no-tags --no-write-fetch-head --no-recurse-submodules")
	into := append(slices.Clip(fetch), s.hubDir(), "+"+headRef+":"+s.hiddenRef())
	// As a pack: git gc of the user removes the directories of loose objects while something is written there.
	packed := s.user.place
	packed.env = append(slices.Clip(packed.env),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=fetch.unpackLimit", "GIT_CONFIG_VALUE_0=1")
	if err := packed.do(ctx, into...); err != nil {
		return d, fmt.Errorf("deliver the result to %s: %w", s.user.top, err)
	}
	branch := s.ResultBranch()
	err := s.user.do(ctx, append(fetch, ".", s.hiddenRef()+":refs/heads/"+branch)...)
	switch failed := refusal(err); {
	case failed != nil:
		reason := cmp.Or(failed.reason(), "it has commits missing from the result") // that is all git is silent about
		d.Notices = append(d.Notices, fmt.Sprintf("the branch %s was not updated: %s; the result is %s", branch, reason,
			s.hiddenRef()))
	case err != nil:
		return d, err
	default:
		d.Branch = branch
	}
	return d, nil
}

// Into fast-forwards a branch of the user to the result. A *StateError says why that cannot be.
func (s *Space) Into(ctx context.Context, branch, head string) error {
	full := "refs/heads/" + branch
	at, err := s.user.commit(ctx, full)
	if err != nil || at == head {
		return err
	}
	if at != "" {
		behind, err := s.user.contains(ctx, head, full)
		if err != nil {
			return err
		}
		if !behind {
			ahead, err := s.user.contains(ctx, full, head)
			if err != nil || ahead { // somebody went on from the result
				return err
			}
			return stateErrorf("%s cannot be fast-forwarded: it has commits missing from the result; run git "+
				"merge %s, then prodigy resume, or use the result as it is", branch, s.ResultBranch())
		}
	}
	// The checkout of the user's repository that the branch is checked out in.
	where, err := s.user.line(ctx, "for-each-ref", "--format=%(worktreepath)", full)
	if err != nil {
		return err
	}
	if where == "" {
		err = s.user.do(ctx, "fetch", "-q", "--no-tags", "--no-write-fetch-head", ".", s.hiddenRef()+":"+full)
	} else {
		err = place{git: &s.git, dir: where}.do(ctx, "merge", "-q", "--ff-only", "--no-autostash", head)
	}
	if failed := refusal(err); failed != nil {
		return stateErrorf("%s was not updated: %s; fix that, then run prodigy resume", branch, failed.reason())
	}
	return err
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
			return fmt.Errorf("delete the job's repository: %w", err)
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
	g, err := newGit(ctx, c)
	if !isDir(c.Dir) || err != nil {
		return errors.Join(errs...)
	}
	user := place{git: &g, dir: c.Dir}
	err = user.do(ctx, "update-ref", "-d", c.hiddenRef())
	if user.do(ctx, "rev-parse", "--git-dir") != nil { // there is no repository any more
		err = nil
	}
	return errors.Join(append(errs, err)...)
}
