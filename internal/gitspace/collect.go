package gitspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"prodigy/internal/events"
)

const gitlinkMode = "160000"

// task is what to collect.
type task struct {
	// base is the commit that the work began at.
	base string
	// ref is the ref of the hub that gets the work.
	ref string
	// message is that of the commit for what was not committed, which only counts if all is set.
	message string
	all     bool
	// resolve is the work whose conflict was to be resolved. It is empty if there was none.
	resolve string
}

// unfinished are the files in .git that say that something is under way.
var unfinished = [...]struct{ file, what string }{
	{"MERGE_HEAD", "a merge"},
	{"rebase-merge", "a rebase"},
	{"rebase-apply", "a rebase"},
	{"CHERRY_PICK_HEAD", "a cherry-pick"},
	{"REVERT_HEAD", "a revert"},
	{"sequencer", "a cherry-pick or revert of several commits"},
	{"BISECT_START", "a bisect"},
}

// collect makes one commit of everything that was done in a workspace since base, and puts it into the hub.
// What cannot be told is a *StateError.
func (s *Space) collect(ctx context.Context, w workspace, want task) (c events.Changes, err error) {
	strangers, err := s.vet(w)
	cut := exists(filepath.Join(w.gitDir(), "shallow")) && !exists(filepath.Join(s.templateDir(), "shallow"))
	if err == nil {
		err = s.repair(w)
	}
	if err == nil {
		err = s.refuse(ctx, w, strangers)
	}
	if err == nil {
		c, err = s.take(ctx, w, want)
	}
	if state, is := errors.AsType[*StateError](err); is && cut {
		err = stateErrorf("%s; it has fetched a part of the history (--depth)", state.Reason)
	}
	return c, err
}

// take is collect in a workspace that git can work in.
func (s *Space) take(ctx context.Context, w workspace, want task) (c events.Changes, err error) {
	base := want.base
	if want.all && want.resolve == "" && w.unfinished(false) == "" && isAt(w, base) && s.asSealed(w) && !hasObjects(w) {
		return s.takeFiles(ctx, w, want)
	}
	merging := want.resolve != "" && s.isMerging(w, want.resolve)
	if what := w.unfinished(merging); what != "" {
		return c, stateErrorf("it left %s unfinished", what)
	}
	in := s.in(w)
	out, err := in.output(ctx, "rev-parse", "HEAD^{commit}", "HEAD^{tree}", base+"^{tree}", "--")
	names := strings.Fields(strings.TrimSuffix(out, "--\n"))
	failed, is := errors.AsType[*gitError](err)
	switch {
	case is:
		return c, stateErrorf("cannot read HEAD of its workspace: %s", failed.reason())
	case err != nil:
		return c, err
	}
	head, headTree, baseTree := names[0], names[1], names[2]
	if head != base {
		if err := s.list(ctx, in, head); err != nil {
			return c, err
		}
		contains, err := in.contains(ctx, head, base)
		if err != nil {
			return c, s.blame(err, "cannot read HEAD of its workspace")
		}
		if !contains {
			return c, stateErrorf("HEAD of its workspace does not contain the commit %s that it started from", short(base))
		}
	}
	if err := s.cleanIndex(ctx, in, w, merging); err != nil {
		return c, s.blame(err, "cannot read its index")
	}
	tree, discarded := headTree, 0
	if want.all || merging {
		if err = s.addAll(ctx, in); err == nil {
			tree, err = s.writeTree(ctx, in)
		}
	} else {
		out, err = in.output(ctx, "status", "--porcelain=v1", "--no-renames", "--untracked-files=all", "-z")
		discarded, err = len(fields(out)), s.blame(err, "cannot compare its files")
	}
	if err == nil && want.resolve != "" {
		err = s.blame(
			s.checkResolution(ctx, in, base, tree, head, want.resolve, merging), "cannot read its resolution",
		)
	}
	if err != nil || tree == baseTree {
		return events.Changes{Discarded: discarded}, err
	}
	commit, known := head, []string{base}
	if tree != headTree || merging {
		parents := []string{head}
		if merging {
			parents = append(parents, want.resolve)
		}
		if commit, err = s.commitAmong(ctx, w, tree, want.message, parents...); err != nil {
			return c, err
		}
	}
	if want.resolve != "" {
		known = append(known, want.resolve)
	}
	c, err = s.receive(ctx, w, commit, want.ref, known...)
	c.Discarded = discarded
	return c, err
}

// receive brings a commit of a workspace into the hub, looks at it there, and makes it a ref.
func (s *Space) receive(
	ctx context.Context, w workspace, commit, ref string, known ...string,
) (c events.Changes, err error) {
	if err := s.bring(ctx, w, commit, known...); err != nil {
		return c, err
	}
	return s.accept(ctx, commit, ref, known...)
}

// accept makes a commit that is in the hub a ref, after a look at it.
func (s *Space) accept(ctx context.Context, commit, ref string, known ...string) (c events.Changes, err error) {
	if c, err = s.examine(ctx, commit, known...); err == nil {
		err = s.writeRef(ref, commit)
	}
	return c, err
}

// unfinished says what is under way in a workspace, besides a merge that may be: "" for nothing.
func (w workspace) unfinished(merging bool) string {
	for _, u := range unfinished {
		if exists(filepath.Join(w.gitDir(), u.file)) && !(merging && u.file == "MERGE_HEAD") {
			return u.what
		}
	}
	return ""
}

// isAt reports whether HEAD of a workspace is surely at a commit. It is quicker than git, and does not know all
// ways to store a ref.
func isAt(w workspace, commit string) bool {
	text := w.readRef("HEAD")
	if branch, is := strings.CutPrefix(text, "ref: refs/heads/"); is {
		text = w.readRef("refs/heads/" + branch)
	}
	return text == commit
}

// takeFiles is take for an attempt that has left git alone: it changed no more than files, and those need no pack. What
// it did is written into the hub at once.
func (s *Space) takeFiles(ctx context.Context, w workspace, want task) (c events.Changes, err error) {
	in := s.in(w)
	in.env = append(in.env, "GIT_OBJECT_DIRECTORY="+filepath.Join(s.hubDir(), "objects"))
	if err := s.addAll(ctx, in); err != nil || s.asSealed(w) {
		return c, err
	}
	tree, err := s.writeTree(ctx, in)
	if err != nil {
		return c, err
	}
	if c, err = s.describe(ctx, want.base, tree); err != nil || c.Files == 0 {
		return c, err
	}
	if c.Commit, err = s.commitTree(ctx, s.hub(), tree, want.message, want.base); err != nil {
		return events.Changes{}, err
	}
	return c, s.writeRef(want.ref, c.Commit)
}

// hasObjects reports whether a workspace has objects of its own, besides those that it borrows.
func hasObjects(w workspace) bool {
	dir := filepath.Join(w.gitDir(), "objects")
	all, err := os.ReadDir(dir)
	packs, packErr := os.ReadDir(filepath.Join(dir, "pack"))
	if err != nil || packErr != nil || len(packs) > 0 {
		return true
	}
	for _, one := range all {
		if name := one.Name(); name != "info" && name != "pack" {
			return true
		}
	}
	return false
}

// writeRef makes a ref in the hub, as git would: the refs there are files, and no other process has this one.
// It is written outside of refs, where git would take a half-written file for a ref.
func (s *Space) writeRef(ref, commit string) error {
	file := filepath.Join(s.hubDir(), filepath.FromSlash(ref))
	var err error
	for range 5 { // git may be deleting the directory, which was empty
		if err = os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			continue
		}
		temporary := filepath.Join(s.hubDir(), "tmp_"+strings.ReplaceAll(ref, "/", "_"))
		if err = os.WriteFile(temporary, []byte(commit+"\n"), 0o666); err == nil {
			err = os.Rename(temporary, file)
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("create the ref %s: %w", ref, err)
}

// short returns the name of a commit as people read it.
func short(commit string) string { return commit[:min(len(commit), 10)] }

// cleanIndex sees to it that the index shows all files as they are: no flags that hide changes, and nothing
// unmerged, which `git add` would take for resolved. In a merge that is being resolved a file counts as
// resolved when it is staged, or its conflict was between two texts: then the marks of the conflict, which are
// looked for later, show whether it is.
func (s *Space) cleanIndex(ctx context.Context, in place, w workspace, merging bool) error {
	var out string
	err := error(fs.ErrNotExist)
	if exists(w.index()) {
		out, err = in.output(ctx, "ls-files", "-v", "-s", "-z")
	}
	_, failed := errors.AsType[*gitError](err)
	switch {
	case failed, errors.Is(err, fs.ErrNotExist): // it is gone, or damaged
		if err := removeAll(w.index()); err != nil {
			return err
		}
		return in.do(ctx, "read-tree", "HEAD")
	case err != nil:
		return err
	}
	var assumed, skipped []string
	sides := make(map[string]int) // how many of the two sides of a merge have a file that is not merged
	for _, entry := range fields(out) {
		if entry[0] == 'H' && entry[1] == ' ' {
			continue // as it should be
		}
		meta, name, _ := strings.Cut(entry, "\t")
		switch {
		case !strings.HasSuffix(meta, " 0") && merging:
			if !strings.HasSuffix(meta, " 1") {
				sides[name]++
			}
			continue
		case !strings.HasSuffix(meta, " 0"):
			return stateErrorf("it left an unfinished merge: %s is unmerged", name)
		case entry[0] == 'h' || entry[0] == 's':
			assumed = append(assumed, name)
		}
		if (entry[0] == 'S' || entry[0] == 's') && !s.record.Sparse {
			skipped = append(skipped, name)
		}
	}
	if err := s.checkStaged(ctx, in, sides); err != nil {
		return err
	}
	for flag, names := range map[string][]string{"--no-assume-unchanged": assumed, "--no-skip-worktree": skipped} {
		if len(names) == 0 {
			continue
		}
		if _, err := in.feed(ctx, list(names), "update-index", "-z", flag, "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// addAll stages all files of a workspace, but for those that are ignored.
func (s *Space) addAll(ctx context.Context, in place) error {
	return s.blame(in.do(ctx, "add", "-A", "--sparse"), "cannot read its files")
}

// writeTree makes a tree of what is staged, and returns its name.
func (s *Space) writeTree(ctx context.Context, in place) (tree string, err error) {
	tree, err = in.line(ctx, "write-tree")
	return tree, s.blame(err, "cannot read its index")
}

// blame returns err as one of the workspace, unless the disk or a stop is to blame.
func (s *Space) blame(err error, what string) error {
	failed, is := errors.AsType[*gitError](err)
	if !is || !failed.byItself() && !failed.exit.Expired {
		return err
	}
	for _, dir := range [...]string{s.WorkDir, s.GitDir} {
		if free, ok := freeSpace(dir); ok && free < minFree {
			return fmt.Errorf("%w (the disk is full)", err)
		}
	}
	return stateErrorf("%s: %s", what, failed.reason())
}

// minFree is how many bytes are free when git can be believed that a file, not the disk, is to blame.
const minFree = 1 << 20

// count returns a number of lines; a binary file has "-".
func count(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// commitAmong makes a commit among the objects of a workspace. Its refs, which may be damaged, are not looked at:
// when git cannot sign, for instance, the agent is not to blame.
func (s *Space) commitAmong(ctx context.Context, w workspace, tree, message string, parents ...string) (string, error) {
	p := s.hub()
	p.env = append(p.env, "GIT_OBJECT_DIRECTORY="+filepath.Join(w.gitDir(), "objects"))
	commit, err := s.commitTree(ctx, p, tree, message, parents...)
	if err == nil {
		return commit, nil
	}
	if unreadable := p.do(ctx, "ls-tree", tree); unreadable != nil {
		return "", s.blame(unreadable, "cannot read its files")
	}
	return "", err
}

// commitTree makes a commit and returns its name.
func (s *Space) commitTree(ctx context.Context, p place, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	if s.Policy.Sign {
		args = append(args, "-S")
	}
	out, err := p.feed(ctx, message, args...)
	return strings.TrimSpace(out), err
}
