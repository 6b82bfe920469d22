//go:build unix

package torture

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// wild are the fates of the agents in workspaces, but for the culprits.
var wild = []string{fateCommits, fateUnion, fateSame, fateNothing, fateStash, fateBranch, fateHide, fateMerge, fateReset, fateNoGit, fateBad, fateHang}

// workspaceScript is what an agent in a workspace does before its fate. First it looks whether the workspace is as new.
const workspaceScript = `
if [ -n "$PRODIGY_BASE" ]; then
	found=$(git status --porcelain --ignored; git stash list
		[ "$(git rev-parse HEAD)" = "$PRODIGY_BASE" ] || echo "HEAD is not the base"
		[ "$(git config user.name)" = Torture ] || echo "settings of another agent"
		git branch --list fix; ls f/$PRODIGY_ITEM_ID 2>/dev/null; find . -name .git -prune -o -type p -print)
	if [ -n "$found" ]; then printf '%s/%s: %s\n' "$PRODIGY_ITEM_ID" "$PRODIGY_ATTEMPT" "$found" >> "$PRODIGY_TORTURE_DIR/unclean"; fi
	git config user.name Eve; git config core.hooksPath .git/hooks; mkdir -p .git/hooks
	own() { mkdir -p f; echo "$PRODIGY_ITEM_ID" > "f/$PRODIGY_ITEM_ID"; }
	[ "$fate" = nothing ] || own
	case $fate in
	commits) git add -A; git commit -qm one; echo x > two; git add two; git commit -qm two; rm two ;;
	union) echo "$PRODIGY_ITEM_ID" >> log ;;
	same) echo "$PRODIGY_ITEM_ID" > shared ;;
	stash) echo x > shared; git stash -q; git checkout -q stash@{0} -- shared 2>/dev/null; git checkout -q HEAD -- shared; own ;;
	branch) git checkout -q -b fix; git add -A; git commit -qm fix; git branch -q -D main ;;
	hide) echo "$PRODIGY_ITEM_ID" > "f/$PRODIGY_ITEM_ID"; git add f; git update-index --skip-worktree "f/$PRODIGY_ITEM_ID"
		mkfifo f/pipe; mkdir -p ignored; git init -q ignored/nested; echo x > ignored/nested/x; touch .git/index.lock .git/HEAD.lock; echo '*' > .git/info/exclude ;;
	merge) git add -A; git commit -qm x; git checkout -q -b other HEAD~1; echo 1 > shared; git commit -qam 1; git checkout -q -b another HEAD~1; echo 2 > shared; git commit -qam 2; git merge -q other >/dev/null 2>&1 ;;
	reset) git reset -q --hard "$PRODIGY_BASE~1" ;;
	nogit) rm -rf .git ;;
	culprit) mkdir -p culprits; own; echo x > "culprits/$PRODIGY_ITEM_ID" ;;
	esac
	printf '#!/bin/sh\nexit 1\n' > .git/hooks/pre-commit 2>/dev/null && chmod +x .git/hooks/pre-commit
fi
`

// git runs a git command of the judge, who trusts nothing else.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = string(exit.Stderr)
		}
		return "", fmt.Errorf("git %s in %s: %w: %s", strings.Join(args, " "), dir, err, stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// makeRepository makes the directory of the round a repository, with a change that is not committed.
func (r *round) makeRepository() error {
	write := func(name, text string) error {
		file := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		return os.WriteFile(file, []byte(text), 0o644)
	}
	for _, step := range []func() error{
		func() error { _, err := git(r.dir, "init", "-q", "-b", "main"); return err },
		func() error {
			return write(".git/info/exclude", "/home/\n/effects/\n/output-*\n/unclean\n/mended\n/ignored/\n")
		},
		func() error { return write("log", "first\n") },
		func() error { return write("shared", "0\n") },
		func() error { return write(".gitattributes", "log merge=union\n") },
		func() error { return write("mine", "1\n") },
		func() error { _, err := git(r.dir, "config", "user.name", "Torture"); return err },
		func() error { _, err := git(r.dir, "config", "user.email", "torture@example.com"); return err },
		func() error { _, err := git(r.dir, "commit", "-q", "--allow-empty", "-m", "root"); return err },
		func() error { _, err := git(r.dir, "add", "-A"); return err },
		func() error { _, err := git(r.dir, "commit", "-q", "-m", "first"); return err },
		func() error { return write("mine", "2\n") },
		func() (err error) { r.user0, err = r.userState(); return err },
		func() (err error) { r.base, err = git(r.dir, "rev-parse", "HEAD"); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// userState returns everything of the user's checkout and repository that a job must not change.
func (r *round) userState() (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(filepath.Join(r.dir, ".git"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(r.dir, name)
		if err != nil {
			return err
		}
		if rel == ".git/objects" || strings.Contains(rel, "/prodigy") {
			return filepath.SkipDir
		}
		if entry.IsDir() || rel == ".git/logs" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(&b, "%s %x\n", rel, sha256.Sum256(data))
		return err
	})
	if err != nil {
		return "", err
	}
	status, err := git(r.dir, "--no-optional-locks", "status", "--porcelain")
	return b.String() + status, err
}

// judgeWorkspaces looks at the repositories of a job, by git alone.
func (r *round) judgeWorkspaces(all []record) (wrong []error) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	log, ok := r.logFile()
	if !ok {
		return []error{errors.New("there is no log")}
	}
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
		if at, err := git(w.dir, "rev-parse", "--verify", w.ref); err != nil || at != head {
			add("%s in %s is %s, want %s (%v)", w.ref, w.dir, at, head, err)
		}
	}
	history, err := git(hub, "log", "--reverse", "--first-parent", "--format=%(trailers:key=Prodigy-Item,valueonly,separator=%x2C)", r.base+".."+head)
	if err != nil {
		return append(wrong, err)
	}
	if got := strings.Fields(history); !slices.Equal(got, merged) {
		add("merged by the history: %v, by the log: %v", got, merged)
	}
	for i, id := range merged {
		if slices.Contains(merged[:i], id) {
			add("%s was merged twice", id)
		}
	}
	if strings.Contains(r.kind.workspace, "order: items") && !r.kind.mends && !slices.IsSortedFunc(merged, func(a, b string) int { return itemNumber(a) - itemNumber(b) }) {
		add("items were merged out of their order: %v", merged)
	}
	wrong = append(wrong, r.judgeContent(hub, head, merged)...)
	for id, commit := range kept {
		if _, err := git(hub, "cat-file", "-e", commit+"^{tree}"); err != nil {
			add("the kept work of %s is not there: %v", id, err)
		}
	}
	for _, dir := range []string{hub, r.dir} {
		if out, err := git(dir, "fsck", "--strict", "--no-dangling", "--no-progress"); err != nil || strings.Contains(out, "missing") {
			add("fsck: %s (%v)", out, err)
		}
		if locks := lockFiles(dir, dir == hub); len(locks) > 0 {
			add("locks: %v", locks)
		}
	}
	if now, err := r.userState(); err != nil || now != r.user0 {
		add("the user's repository is changed (%v):\n%s\nbefore:\n%s", err, now, r.user0)
	}
	if data, err := os.ReadFile(filepath.Join(r.dir, "unclean")); err == nil {
		add("agents found a workspace that was not clean:\n%s", bytes.TrimSpace(data))
	}
	if left, _ := filepath.Glob(filepath.Join(r.home(), "work", "*", "*")); len(left) > 0 {
		add("workspaces of a job that is done are left: %v", left)
	}
	return wrong
}

func itemNumber(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "item_"))
	return n
}

// judgeContent looks for what each item wrote.
func (r *round) judgeContent(hub, head string, merged []string) (wrong []error) {
	names, err := git(hub, "ls-tree", "-r", "--name-only", head, "f/", "culprits/", "two", "ignored/")
	if err != nil {
		return []error{err}
	}
	union := []string{"first"}
	var files []string
	for _, id := range merged {
		fate := r.fates[itemNumber(id)]
		files = append(files, "f/"+id)
		if fate == fateUnion {
			union = append(union, id)
		}
		if fate == fateCulprit || slices.Contains(spoiled, fate) || fate == fateNothing {
			wrong = append(wrong, fmt.Errorf("%s (%s) was merged", id, fate))
		}
	}
	got := strings.Fields(names)
	slices.Sort(files)
	slices.Sort(got)
	if !slices.Equal(got, files) {
		wrong = append(wrong, fmt.Errorf("files of the items: %v, want %v", got, files))
	}
	text, err := git(hub, "show", head+":log")
	lines := strings.Fields(text)
	slices.Sort(lines)
	slices.Sort(union)
	if err != nil || !slices.Equal(lines, union) {
		wrong = append(wrong, fmt.Errorf("lines of the union: %v, want %v (%v)", lines, union, err))
	}
	for _, id := range merged {
		if text, err := git(hub, "show", head+":f/"+id); err != nil || text != id {
			wrong = append(wrong, fmt.Errorf("f/%s is %q (%v)", id, text, err))
		}
	}
	return wrong
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
