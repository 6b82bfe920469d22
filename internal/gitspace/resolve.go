package gitspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/check"
)

// beginMerge merges work into the tree of a workspace, and leaves the conflicts there.
func (s *Space) beginMerge(ctx context.Context, w workspace, work string) error {
	_, _, err := s.in(w).answer(ctx, "-c", "merge.conflictStyle=diff3", "-c", "rerere.enabled=false", "merge", "-q",
		"--no-ff", "--no-commit", "--no-autostash", work)
	if err == nil && !s.isMerging(w, work) {
		err = fmt.Errorf("git did not start a merge of %s", short(work))
	}
	return err
}

// isMerging reports whether a merge of work is under way in a workspace.
func (s *Space) isMerging(w workspace, work string) bool {
	return w.readRef("MERGE_HEAD") == work
}

// checkStaged refuses files that are not merged and do not show it: those that one side deleted, and those that
// are no text. Whoever resolves them stages them.
func (s *Space) checkStaged(ctx context.Context, in place, sides map[string]int) error {
	var both []string
	for name, n := range check.ByKey(sides) {
		if n < 2 {
			return stateErrorf("the conflict in %s is not resolved: stage the resolution with git add or git rm", name)
		}
		both = append(both, name)
	}
	if len(both) == 0 {
		return nil
	}
	// A file that has binary content on one side has no numbers of lines.
	args := strings.Fields("diff --numstat -z --no-ext-diff --no-renames HEAD MERGE_HEAD --")
	out, err := in.output(ctx, append(args, check.Each(both, literally)...)...)
	if err != nil {
		return err
	}
	for _, field := range fields(out) {
		if name, binary := strings.CutPrefix(field, "-\t-\t"); binary {
			return stateErrorf("the conflict in %s is not resolved: stage the resolution with git add or git rm", name)
		}
	}
	return nil
}

// literally returns the pathspec of one file.
func literally(name string) string { return ":(top,literal)" + name }

// checkResolution refuses a tree with marks of conflicts, and a resolution that left the work out.
func (s *Space) checkResolution(ctx context.Context, in place, base, tree, head, work string, merging bool) error {
	if !merging {
		contains, err := in.contains(ctx, head, work)
		if err != nil {
			return err
		}
		if !contains {
			return stateErrorf("the merge to resolve was abandoned: HEAD does not contain %s", short(work))
		}
	}
	in.env = append(slices.Clip(in.env), "LC_ALL=C") // its output is compared
	out, _, err := in.run(ctx, "", 2, "-c", "core.whitespace=-trailing-space,-space-before-tab,-blank-at-eof", "diff",
		"--check", "--no-ext-diff", "--no-renames", base, tree)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if place, found := strings.CutSuffix(line, ": leftover conflict marker\n"); found {
			return stateErrorf("the conflict in %s is not resolved: conflict markers remain", place)
		}
	}
	return nil
}

// Adopt makes a commit of the user's repository the work of an attempt: a resolution that a person made. A
// *StateError says why it cannot be.
func (s *Space) Adopt(ctx context.Context, head, revision string, index, attempt int) (w Work, err error) {
	commit, err := s.user.commit(ctx, revision)
	if err != nil || commit == "" {
		return w, stateErrorf("commit %[2]q not found in %[1]s", s.user.top, revision)
	}
	w.Index, w.Attempt = index, attempt
	out, code, err := s.hub().answer(ctx, "merge-base", head, commit)
	if err != nil {
		return w, err
	}
	if code == 1 {
		return w, stateErrorf("%s shares no history with the job", revision)
	}
	if w.Base = strings.TrimSpace(out); w.Base == commit {
		return w, stateErrorf("%s is already part of the result: commit the resolution first", revision)
	}
	if w.Changes, err = s.describe(ctx, w.Base, commit); err != nil {
		return w, err
	}
	w.Commit = commit
	// The objects are the user's, who may delete them. A fetch would borrow them, so they are packed.
	if err := s.hub().pack(ctx, []string{w.Commit}, []string{s.record.Base}, s.packs()); err != nil {
		return w, err
	}
	return w, s.hub().do(ctx, "update-ref", w.ref(), w.Commit)
}
