package gitspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"prodigy/internal/workflow"
)

const gitlinkMode = "160000"

// collected is what was found in a workspace.
type collected struct {
	commit                                  string // empty: nothing was changed
	files, insertions, deletions, discarded int
	attributes                              bool // a .gitattributes was changed
}

// task is what to collect.
type task struct {
	base    string // the commit that the work began at
	ref     string // of the hub, for the work
	message string // of the commit for what was not committed
	all     bool   // what is not committed counts
	resolve string // the work whose conflict was to be resolved; empty: none
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

// collect makes one commit of everything that was done in a workspace since base, and puts it into the hub. What cannot be told is a *StateError.
func (s *Space) collect(ctx context.Context, w workspace, want task) (collected, error) {
	base := want.base
	if !isDir(w.gitDir()) {
		return collected{}, stateErrorf("its workspace has no .git directory any more")
	}
	if err := s.repair(w); err != nil {
		return collected{}, err
	}
	if want.resolve == "" && !s.isUnfinished(w) && isAt(w, base) {
		return s.collectAtBase(ctx, w, want)
	}
	merging := want.resolve != "" && s.isMerging(w, want.resolve)
	for _, u := range unfinished {
		if exists(filepath.Join(w.gitDir(), u.file)) && !(merging && u.file == "MERGE_HEAD") {
			return collected{}, stateErrorf("it left %s unfinished", u.what)
		}
	}
	in := s.in(w)
	out, err := s.git.output(ctx, in, "rev-parse", "HEAD^{commit}", "HEAD^{tree}", base+"^{tree}")
	names := strings.Fields(out)
	var failed *gitError
	switch {
	case errors.As(err, &failed), err == nil && len(names) != 3:
		return collected{}, stateErrorf("HEAD of its workspace is no commit that can be read: %s", reasonOf(err))
	case err != nil:
		return collected{}, err
	}
	head, headTree, baseTree := names[0], names[1], names[2]
	if head != base {
		_, code, err := s.git.answer(ctx, in, "merge-base", "--is-ancestor", base, head)
		if err != nil {
			return collected{}, err
		}
		if code == 1 {
			return collected{}, stateErrorf("HEAD of its workspace does not contain the commit %s that it began at", short(base))
		}
	}
	if err := s.cleanIndex(ctx, in, w, merging); err != nil {
		return collected{}, err
	}
	var c collected
	tree := headTree
	if want.all || merging {
		tree, err = s.takeAll(ctx, in)
	} else {
		c.discarded, err = s.countChanges(ctx, in)
	}
	if err == nil && want.resolve != "" {
		err = s.checkResolution(ctx, in, base, tree, head, want.resolve, merging)
	}
	if err != nil || tree == baseTree {
		return c, err
	}
	if err := s.describe(ctx, in, base, tree, &c); err != nil {
		return c, err
	}
	c.commit = head
	if tree != headTree || merging {
		parents := []string{head}
		if merging {
			parents = append(parents, want.resolve)
		}
		if c.commit, err = s.commitTree(ctx, in, tree, want.message, parents...); err != nil {
			return c, err
		}
	}
	return c, s.fetchInto(ctx, w, c.commit, want.ref)
}

// isUnfinished reports whether something is under way in a workspace.
func (s *Space) isUnfinished(w workspace) bool {
	for _, u := range unfinished {
		if exists(filepath.Join(w.gitDir(), u.file)) {
			return true
		}
	}
	return false
}

// isAt reports whether HEAD of a workspace is surely at a commit. It is quicker than git, and does not know all ways to store a ref.
func isAt(w workspace, commit string) bool {
	for name := "HEAD"; ; {
		data, err := os.ReadFile(filepath.Join(w.gitDir(), filepath.FromSlash(name)))
		text := strings.TrimSpace(string(data))
		branch, is := strings.CutPrefix(text, "ref: refs/heads/")
		if err != nil || !is || name != "HEAD" {
			return err == nil && text == commit
		}
		name = "refs/heads/" + branch
	}
}

// collectAtBase is collect for an attempt that has made no commit. One that has made no object of git either needs no fetch: what it did is written into
// the hub at once.
func (s *Space) collectAtBase(ctx context.Context, w workspace, want task) (collected, error) {
	in, index, was := s.in(w), filepath.Join(w.gitDir(), "index"), s.sealedAs(w)
	direct := !hasObjects(w)
	if direct {
		in.env = append(in.env, "GIT_OBJECT_DIRECTORY="+filepath.Join(s.hubDir(), "objects"))
	}
	same := was.base == want.base && was.index != "" && fileID(index) == was.index
	if !same && !s.isPlain(index) {
		if err := s.cleanIndex(ctx, in, w, false); err != nil {
			return collected{}, err
		}
	}
	var c collected
	var err error
	if !want.all {
		c.discarded, err = s.countChanges(ctx, in)
		return c, err
	}
	if err := s.addAll(ctx, in); err != nil {
		return c, err
	}
	if same && fileID(index) == was.index {
		return c, nil
	}
	tree, err := s.writeTree(ctx, in)
	if err != nil {
		return c, err
	}
	if err := s.describe(ctx, in, want.base, tree, &c); err != nil || c.files == 0 {
		return c, err
	}
	if c.commit, err = s.commitTree(ctx, in, tree, want.message, want.base); err != nil {
		return c, err
	}
	if direct {
		return c, s.writeRef(want.ref, c.commit)
	}
	return c, s.fetchInto(ctx, w, c.commit, want.ref)
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

// isPlain reports whether an index surely has no flags that hide changes, and nothing that is not merged.
func (s *Space) isPlain(index string) bool {
	entries, ok := s.readIndex(index)
	for _, e := range entries {
		if !e.plainFlag && !(e.skipped && s.record.Sparse) {
			return false
		}
	}
	return ok
}

// writeRef makes a ref in the hub, as git would: the refs there are files, and no other process has this one. It is written outside of refs, where git
// would take a half-written file for a ref.
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
			s.loose.Add(1)
			return nil
		}
	}
	return fmt.Errorf("make the ref %s: %w", ref, err)
}

func short(commit string) string { return commit[:min(len(commit), 10)] }

// reasonOf returns what git said, for a sentence.
func reasonOf(err error) string {
	var failed *gitError
	if errors.As(err, &failed) {
		return failed.reason()
	}
	if err != nil {
		return err.Error()
	}
	return "git printed something else"
}

// repair makes those files of a .git anew that an agent may have changed and that decide what the commands below see, and removes locks.
func (s *Space) repair(w workspace) error {
	template, dir := s.templateDir(), w.gitDir()
	for _, sub := range [...]string{"info", "objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			return stateErrorf("its .git cannot be read: %v", err)
		}
	}
	for _, name := range [...]string{"config", "info/exclude", "info/attributes", "info/sparse-checkout", "objects/info/alternates"} {
		if err := removeAll(filepath.Join(dir, name)); err != nil {
			return stateErrorf("its .git cannot be read: %v", err)
		}
		if err := copyIfThere(filepath.Join(template, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range [...]string{"config.worktree", "commondir", "info/grafts"} {
		if err := removeAll(filepath.Join(dir, name)); err != nil {
			return stateErrorf("its .git cannot be read: %v", err)
		}
	}
	if err := removeLocks(dir); err != nil {
		return stateErrorf("its .git cannot be read: %v", err)
	}
	return nil
}

// cleanIndex sees to it that the index shows all files as they are: no flags that hide changes, and nothing unmerged, which `git add` would take for
// resolved. In a merge that is being resolved a file counts as resolved when it is staged, or its conflict was between two texts: then the marks of the
// conflict, which are looked for later, show whether it is.
func (s *Space) cleanIndex(ctx context.Context, in place, w workspace, merging bool) error {
	index := filepath.Join(w.gitDir(), "index")
	var out string
	err := error(fs.ErrNotExist)
	if exists(index) {
		out, err = s.git.output(ctx, in, "ls-files", "-v", "-s", "-z")
	}
	var failed *gitError
	switch {
	case errors.As(err, &failed), errors.Is(err, fs.ErrNotExist): // it is gone, or damaged
		if err := removeAll(index); err != nil {
			return err
		}
		if _, err := s.git.output(ctx, in, "read-tree", "HEAD"); err != nil {
			return stateErrorf("its index cannot be read: %s", reasonOf(err))
		}
		return nil
	case err != nil:
		return err
	}
	var assumed, skipped []byte
	sides := make(map[string]int) // how many of the two sides of a merge have a file that is not merged
	for len(out) > 0 {
		var entry string
		entry, out, _ = strings.Cut(out, "\x00")
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
			return stateErrorf("it left a merge unfinished: %s is not merged", name)
		case entry[0] == 'h' || entry[0] == 's':
			assumed = append(append(assumed, name...), 0)
		}
		if (entry[0] == 'S' || entry[0] == 's') && !s.record.Sparse {
			skipped = append(append(skipped, name...), 0)
		}
	}
	if err := s.checkStaged(ctx, in, sides); err != nil {
		return err
	}
	for flag, names := range map[string][]byte{"--no-assume-unchanged": assumed, "--no-skip-worktree": skipped} {
		if len(names) == 0 {
			continue
		}
		if _, err := s.git.feed(ctx, in, string(names), "update-index", "-z", flag, "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// takeAll returns the tree of all files that are not ignored.
func (s *Space) takeAll(ctx context.Context, in place) (tree string, err error) {
	if err := s.addAll(ctx, in); err != nil {
		return "", err
	}
	return s.writeTree(ctx, in)
}

func (s *Space) addAll(ctx context.Context, in place) error {
	if _, err := s.git.output(ctx, in, "add", "-A", "--sparse"); err != nil {
		return s.blame(err, "its files cannot be taken")
	}
	return nil
}

func (s *Space) writeTree(ctx context.Context, in place) (tree string, err error) {
	tree, err = s.git.line(ctx, in, "write-tree")
	if err != nil {
		return "", s.blame(err, "its index cannot be read")
	}
	return tree, nil
}

// blame returns err as one of the workspace, unless the disk or a stop is to blame.
func (s *Space) blame(err error, what string) error {
	var failed *gitError
	if !errors.As(err, &failed) || failed.exit.Signal != "" {
		return err
	}
	if free, ok := freeSpace(s.WorkDir); ok && free < minFree {
		return fmt.Errorf("%w (the disk is full)", err)
	}
	return stateErrorf("%s: %s", what, failed.reason())
}

// minFree is how many bytes are free when git can be believed that a file, not the disk, is to blame.
const minFree = 1 << 20

// countChanges returns how many files are changed and not committed.
func (s *Space) countChanges(ctx context.Context, in place) (int, error) {
	out, err := s.git.output(ctx, in, "status", "--porcelain=v1", "--no-renames", "--untracked-files=all", "-z")
	return len(fields(out)), err
}

// describe counts what differs between base and tree, and refuses changed submodules.
func (s *Space) describe(ctx context.Context, in place, base, tree string, c *collected) error {
	out, err := s.git.output(ctx, in, "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", base, tree)
	if err != nil {
		return err
	}
	all := fields(out)
	for i := 0; i < len(all); i++ {
		if raw, is := strings.CutPrefix(all[i], ":"); is {
			i++
			name := all[i]
			if strings.HasPrefix(raw, gitlinkMode) || strings.HasPrefix(raw[strings.IndexByte(raw, ' ')+1:], gitlinkMode) {
				return stateErrorf("it changed the submodule %s or left a repository there: what is in it would be lost", name)
			}
			c.attributes = c.attributes || path.Base(name) == ".gitattributes"
			continue
		}
		added, rest, _ := strings.Cut(all[i], "\t")
		deleted, _, _ := strings.Cut(rest, "\t")
		c.files++
		c.insertions += count(added)
		c.deletions += count(deleted)
	}
	return nil
}

// count returns a number of lines; a binary file has "-".
func count(text string) int {
	n, _ := strconv.Atoi(text)
	return n
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
	out, err := s.git.feed(ctx, p, message, args...)
	return strings.TrimSpace(out), err
}

// fetchInto puts a commit of a workspace, with all it needs, into the hub. Where history is cut off is for the user's repository to say, not for a fetch of
// an agent: the hub, and then that repository, would become shallow.
func (s *Space) fetchInto(ctx context.Context, w workspace, commit, ref string) error {
	shallow, what := filepath.Join(w.gitDir(), "shallow"), "its commits cannot be taken"
	known := filepath.Join(s.templateDir(), "shallow")
	if exists(shallow) && !exists(known) {
		what = "its commits are not whole, since it has fetched a part of the history (--depth)"
	}
	if err := removeAll(shallow); err != nil {
		return err
	}
	if err := copyIfThere(known, shallow); err != nil {
		return err
	}
	hub := s.hub()
	hub.env = []string{"GIT_REF_PARANOIA=0"} // a ref that is just being deleted is no damage
	_, err := s.git.output(ctx, hub, "fetch", "-q", "--no-tags", "--no-write-fetch-head", w.dir, "+"+commit+":"+ref)
	s.loose.Add(1)
	return s.blame(err, what)
}

// takesAll reports whether what is not committed counts.
func (s *Space) takesAll() bool { return s.Policy.Take != workflow.TakeCommits }
