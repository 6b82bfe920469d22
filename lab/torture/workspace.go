//go:build unix

package torture

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prodigy/lab/try"
)

// What agents do to their workspaces. All but the agents of fateNothing leave a file of their own, f/<item>.
const (
	fateCommits = "commits" // two commits, and more that is not committed
	fateUnion   = "union"   // appends to a file that is merged by union
	fateSame    = "same"    // changes a line that others change: a conflict, unless it is the first
	fateNothing = "nothing" // changes nothing
	fateStash   = "stash"   // leaves a stash
	fateBranch  = "branch"  // switches and deletes branches
	fateHide    = "hide"    // hides a change, and leaves a pipe, locks, rules and a nested repository
	fateMerge   = "merge"   // leaves a merge unfinished
	fateReset   = "reset"   // goes back behind its base
	fateNoGit   = "nogit"   // deletes .git
	fateCulprit = "culprit" // merges well, and then the verification fails
)

// spoiled are the fates of agents whose work cannot be told, so that they fail.
var spoiled = []string{fateMerge, fateReset, fateNoGit}

// makeRepository makes the directory of the round a repository, with a change that is not committed.
func (r *round) makeRepository() {
	write := func(name, text string) { try.Write(filepath.Join(r.dir, name), text) }
	run := func(args ...string) string { return try.To(try.Git(r.dir, args...)) }
	run("init", "-q", "-b", "main")
	write(".git/info/exclude", "/home/\n/effects/\n/output-*\n/unclean\n/mended\n/ignored/\n")
	write("log", "first\n")
	write("shared", "0\n")
	write(".gitattributes", "log merge=union\n")
	write("mine", "1\n")
	run("config", "user.name", "Torture")
	run("config", "user.email", "torture@example.com")
	run("commit", "-q", "--allow-empty", "-m", "root")
	run("add", "-A")
	run("commit", "-q", "-m", "first")
	write("mine", "2\n")
	r.user0, r.base = r.userState(), run("rev-parse", "HEAD")
}

// userState returns everything of the user's checkout and repository that a job must not change.
func (r *round) userState() string {
	var b strings.Builder
	try.Check(filepath.WalkDir(filepath.Join(r.dir, ".git"), func(name string, entry fs.DirEntry, err error) error {
		try.Check(err)
		rel := try.To(filepath.Rel(r.dir, name))
		if rel == ".git/objects" || strings.Contains(rel, "/prodigy") {
			return filepath.SkipDir
		}
		if !entry.IsDir() && rel != ".git/logs" {
			fmt.Fprintf(&b, "%s %x\n", rel, sha256.Sum256(try.To(os.ReadFile(name))))
		}
		return nil
	}))
	return b.String() + try.To(try.Git(r.dir, "--no-optional-locks", "status", "--porcelain"))
}

// judgeWorkspaces looks at the repositories of a job, by git alone.
func (r *round) judgeWorkspaces(h *history, all []record) {
	log := r.logFile()
	job := filepath.Base(filepath.Dir(log))
	hub := filepath.Join(r.home(), "state", filepath.Base(filepath.Dir(filepath.Dir(log))), job, "git", "hub")
	head := r.base
	var merged []string
	kept := map[string]string{} // item → commit of its last failure
	for _, rec := range all {
		if rec.Head != "" {
			head = rec.Head
		}
		if rec.Type == "WorktreeMerged" {
			merged = append(merged, rec.ItemIDs...)
		}
		if rec.Type == "AgentFailed" && rec.Commit != "" {
			kept[rec.ItemID] = rec.Commit
		}
	}
	var want []struct{ dir, ref string }
	if _, err := os.Stat(hub); err == nil {
		want = append(want, struct{ dir, ref string }{hub, "refs/heads/job"})
	} else { // all was delivered
		hub = r.dir
		maps.DeleteFunc(kept, func(id, _ string) bool { return slices.Contains(merged, id) })
	}
	if head != r.base {
		want = append(want, []struct{ dir, ref string }{{r.dir, "refs/prodigy/jobs/" + job}, {r.dir, "refs/heads/prodigy/" + job}}...)
	}
	for _, w := range want {
		if at, err := try.Git(w.dir, "rev-parse", "--verify", w.ref); err != nil || at != head {
			h.add("%s in %s is %s, want %s (%v)", w.ref, w.dir, at, head, err)
		}
	}
	history := try.To(try.Git(hub, "log", "--reverse", "--first-parent", "--format=%(trailers:key=Prodigy-Item,valueonly,separator=%x2C)", r.base+".."+head))
	if got := strings.Fields(history); !slices.Equal(got, merged) {
		h.add("merged by the history: %v, by the log: %v", got, merged)
	}
	for i, id := range merged {
		h.addIf(slices.Contains(merged[:i], id), "%s was merged twice", id)
	}
	if strings.Contains(r.kind.Workspace, "order: items") && !r.kind.Mends && !slices.IsSortedFunc(merged, func(a, b string) int { return itemNumber(a) - itemNumber(b) }) {
		h.add("items were merged out of their order: %v", merged)
	}
	r.judgeContent(h, hub, head, merged)
	for id, commit := range kept {
		if _, err := try.Git(hub, "cat-file", "-e", commit+"^{tree}"); err != nil {
			h.add("the kept work of %s is not there: %v", id, err)
		}
	}
	for _, dir := range []string{hub, r.dir} {
		if out, err := try.Git(dir, "fsck", "--strict", "--no-dangling", "--no-progress"); err != nil || strings.Contains(out, "missing") {
			h.add("fsck: %s (%v)", out, err)
		}
		if locks := lockFiles(dir, dir == hub); len(locks) > 0 {
			h.add("locks: %v", locks)
		}
	}
	if now := r.userState(); now != r.user0 {
		h.add("the user's repository is changed:\n%s\nbefore:\n%s", now, r.user0)
	}
	if data, err := os.ReadFile(filepath.Join(r.dir, "unclean")); err == nil {
		h.add("agents found a workspace that was not clean:\n%s", bytes.TrimSpace(data))
	}
	if left, _ := filepath.Glob(filepath.Join(r.home(), "work", "*", "*")); len(left) > 0 {
		h.add("workspaces of a job that is done are left: %v", left)
	}
}

func itemNumber(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "item_"))
	return n
}

// judgeContent looks for what each item wrote.
func (r *round) judgeContent(h *history, hub, head string, merged []string) {
	names := try.To(try.Git(hub, "ls-tree", "-r", "--name-only", head, "f/", "culprits/", "two", "ignored/"))
	union := []string{"first"}
	var files []string
	for _, id := range merged {
		fate := r.fates[itemNumber(id)]
		files = append(files, "f/"+id)
		if fate == fateUnion {
			union = append(union, id)
		}
		h.addIf(fate == fateCulprit || slices.Contains(spoiled, fate) || fate == fateNothing, "%s (%s) was merged", id, fate)
	}
	got := strings.Fields(names)
	slices.Sort(files)
	slices.Sort(got)
	h.addIf(!slices.Equal(got, files), "files of the items: %v, want %v", got, files)
	text, err := try.Git(hub, "show", head+":log")
	lines := strings.Fields(text)
	slices.Sort(lines)
	slices.Sort(union)
	h.addIf(err != nil || !slices.Equal(lines, union), "lines of the union: %v, want %v (%v)", lines, union, err)
	for _, id := range merged {
		if text, err := try.Git(hub, "show", head+":f/"+id); err != nil || text != id {
			h.add("f/%s is %q (%v)", id, text, err)
		}
	}
}

// lockFiles returns the locks that git has left in a repository.
func lockFiles(dir string, bare bool) (locks []string) {
	if !bare {
		dir = filepath.Join(dir, ".git")
	}
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".lock") {
			locks = append(locks, name)
		}
		return nil
	})
	return locks
}
