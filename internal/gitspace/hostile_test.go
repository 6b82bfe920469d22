package gitspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// look prints everything of a workspace that an attempt can find, but for times and its own branch.
const look = `
find . -path ./.git -prune -o -printf '%p %y %m\n' -o -path './.git/objects' -prune | sort
git status --porcelain --ignored
git ls-files -v -s
git for-each-ref | grep -v prodigy/
cut -d- -f1,2 .git/HEAD
cat .git/config .git/info/exclude a sub/b
ls .git .git/refs
`

// hostile are the agents that have spoilt a workspace for others, in other tools or in a prototype. Each works
// in the workspace of the one before.
var hostile = []struct {
	name, script string
	refused      string // what the failure says; empty: its work is taken
	want         string // the files it changed
}{
	{name: "leaves changes", script: "echo x > a; echo y > new; rm sub/b", want: "M a A new D sub/b"},
	{name: "commits twice", script: "echo x > a; git commit -qam 1; echo y > new; git add -A; git commit -qm 2", want: "M a A new"},
	{name: "stages a part", script: "echo x > a; git add a; echo y >> a; echo z > sub/b", want: "M a M sub/b"},
	{name: "leaves a merge", script: "git checkout -qb x; echo x > a; git commit -qam x; git checkout -q -; echo y > a; git commit -qam y; git merge -q x || true", refused: "it left a merge unfinished"},
	{name: "hides a merge", script: "git checkout -qb x; echo x > a; git commit -qam x; git checkout -q -; echo y > a; git commit -qam y; git merge -q x || true; rm .git/MERGE_*", refused: "it left an unfinished merge: a is unmerged"},
	{name: "leaves a rebase", script: "git checkout -qb x; echo x > a; git commit -qam x; git checkout -q -; echo y > a; git commit -qam y; git rebase -q x || true", refused: "it left a rebase unfinished"},
	{name: "leaves a cherry-pick", script: "git checkout -qb x; echo x > a; git commit -qam x; git checkout -q -; echo y > a; git commit -qam y; git cherry-pick x || true", refused: "it left a cherry-pick unfinished"},
	{name: "leaves a stash", script: "echo x > a; git stash -q"},
	{name: "uses a stash", script: "echo x > a; git stash -q; git stash pop -q", want: "M a"},
	{name: "another branch", script: "git checkout -q -b fix; echo x > a; git commit -qam x; git branch -q -D main \"prodigy/mapreduce-1-$N\"; git branch -m prodigy", want: "M a"},
	{name: "no branch", script: "git checkout -q --detach; echo x > a; git commit -qam x", want: "M a"},
	{name: "goes back", script: "git reset -q --hard HEAD~1", refused: "does not contain the commit"},
	{name: "another history", script: "git checkout -q --orphan x; git commit -qm x", refused: "does not contain the commit"},
	{name: "unborn", script: "git checkout -q --orphan x", refused: "cannot read HEAD of its workspace"},
	{name: "deletes .git", script: "rm -rf .git; echo x > a", refused: "no .git directory any more"},
	{name: "makes .git anew", script: "rm -rf .git; git init -q; git add -A; git commit -qm x", refused: "does not contain the commit"},
	{name: "deletes everything", script: `rm -rf "$PWD"`, refused: "no longer a directory"},
	{name: "deletes all files", script: "rm -rf ./* .gitignore", want: "D .gitignore D a D keep.log D sub/b D sub/deep/c"},
	{name: "moves it away", script: `d=$PWD; mv "$d" "$d.moved"; ln -s "$d.moved" "$d"; cd "$d"; echo x > a`, refused: "no longer a directory"},
	{name: "skip-worktree", script: "git update-index --skip-worktree a; echo x > a", want: "M a"},
	{name: "assume-unchanged", script: "git update-index --assume-unchanged a sub/b; echo x > a", want: "M a"},
	{name: "both flags", script: "git update-index --assume-unchanged a; git update-index --skip-worktree a; echo x > a", want: "M a"},
	{name: "pipes", script: "mkfifo sub/pipe; mkdir z; mkfifo z/pipe; echo x > a", want: "M a"},
	{name: "locks", script: "touch .git/index.lock .git/HEAD.lock .git/config.lock .git/refs/heads/x.lock; echo x > a", want: "M a"},
	{name: "ignores everything", script: "echo '*' > .git/info/exclude; echo x > new", want: "A new"},
	{name: "rules of its own", script: "echo '* text eol=crlf -diff' > .git/info/attributes; git config core.autocrlf true; echo x > a", want: "M a"},
	{name: "leaves a repository", script: "git init -q inner; cd inner; echo x > x; git add x; git commit -qm x", refused: "left a repository there"},
	{name: "leaves an empty repository", script: "git init -q inner; echo x > inner/x", refused: "cannot read its files"},
	{name: "ignores a repository", script: "git init -q build; cd build; echo x > x; git add x; git commit -qm x"},
	{name: "collects garbage", script: "echo x > a; git commit -qam x; git reflog expire --expire=now --all; git gc -q --prune=now", want: "M a"},
	{name: "linked worktree", script: "git worktree add -q ../linked-$N; echo x > a", want: "M a"},
	{name: "deletes the index", script: "rm .git/index; echo x > a; rm sub/b", want: "M a D sub/b"},
	{name: "spoils the index", script: "echo junk > .git/index; echo x > a", want: "M a"},
	{name: "an index of its own", script: "git rm -q --cached a; git read-tree --empty; echo x > a", want: "M a D keep.log"},
	{name: "no permissions", script: "echo x > a; chmod 400 a; chmod -R a-w sub; chmod 700 sub/deep", want: "M a"},
	{name: "settings", script: "git config core.fsmonitor false; git config core.hooksPath .git/hooks; git config user.name Eve; git config core.worktree /; git config extensions.worktreeConfig true; printf '[core]\\nbare = true\\n' > .git/config.worktree; echo x > a", want: "M a"},
	{name: "bad settings", script: "echo 'not a file of git' > .git/config; echo x > a", want: "M a"},
	{name: "hooks", script: "git config core.hooksPath .git/hooks; mkdir -p .git/hooks; printf '#!/bin/sh\\nexit 1\\n' | tee .git/hooks/pre-commit .git/hooks/post-checkout .git/hooks/reference-transaction >/dev/null; chmod +x .git/hooks/*; echo x > a", want: "M a"},
	{name: "filters", script: "git config filter.x.clean false; git config filter.x.required true; echo '* filter=x' > .git/info/attributes; echo x > a", want: "M a"},
	{name: "alternates", script: "rm .git/objects/info/alternates; echo x > a", want: "M a"},
	{name: "replaced commits", script: "echo x > a; git commit -qam x; git replace HEAD HEAD~1", want: "M a"},
	{name: "shallow", script: "git rev-parse HEAD > .git/shallow; echo x > a", want: "M a"},
	{name: "much untracked", script: "mkdir -p build/x; head -c 5000000 /dev/zero > build/x/big; echo x > a", want: "M a"},
	{name: "names", script: "echo x > 'new\nline'; echo y > ' blank '; echo z > \"$(printf '\\377')\"; echo w > -rf", want: `A blank A -rf A "new\nline" A "\377"`},
	{name: "a file for a directory", script: "rm -r sub; echo x > sub; rm a; mkdir a; echo y > a/x", want: "D a A a/x A sub D sub/b D sub/deep/c"},
	{name: "a link for a directory", script: "mv sub ../moved-$N; ln -s ../moved-$N sub", want: "A sub D sub/b D sub/deep/c"},
	{name: "execute bit", script: "chmod +x a", want: "M a"},
	{name: "forced ignored file", script: "mkdir build; echo x > build/y; git add -f build/y; git commit -qm y", want: "A build/y"},
	{name: "file time", script: "touch -r sub/b ../time; printf 'Z\\n' > sub/b; touch -r ../time sub/b", want: "M sub/b"},
}

func TestAWorkspaceIsAsNewAfterAnyAgent(t *testing.T) {
	t.Parallel()
	for i, where := range []string{"here", "elsewhere"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			withHostileAgents(t, i)
		})
	}
}

// withHostileAgents runs some of them, in a clone if shift is not 0.
func withHostileAgents(t *testing.T, shift int) {
	content := files{"a": "1\n", "sub/b": "1\n", "sub/deep/c": "1\n", ".gitignore": "build/\n*.log\n"}
	repo, environ := newRepo(t, content)
	sh(t, repo, environ, "echo x > keep.log; git add -f keep.log; git commit -qm second")
	before := userState(t, repo)
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	first := j.attempt(look)
	o, w := j.run(first)
	if o.Failure != nil || w.Commit != "" {
		t.Fatalf("looking: %+v", o)
	}
	want := o.Output
	if shift > 0 {
		j.away(filepath.Join(t.TempDir(), "store"))
	}
	for i, h := range hostile {
		if (i+shift)%testenv.OneIn(10, 6) != 0 {
			continue
		}
		o, w := j.run(j.attempt(h.script))
		if h.refused != "" {
			if o.Failure == nil || o.Failure.Type != retry.TypeWorkspace || !strings.Contains(o.Failure.Message, h.refused) {
				t.Errorf("%s: outcome %+v, want it refused: %s", h.name, o.Failure, h.refused)
			}
		} else if o.Failure != nil {
			t.Errorf("%s: failed: %s", h.name, o.Failure.Message)
		} else if got := j.changedBy(w); got != h.want {
			t.Errorf("%s: changed %q, want %q", h.name, got, h.want)
		}
		if o, _ := j.run(j.attempt(look)); o.Failure != nil || o.Output != want {
			t.Fatalf("after %s: the workspace is not clean:\n%s\nwant:\n%s", h.name, o.Output, want)
		}
	}
	if userState(t, repo) != before {
		t.Error("the user's repository is changed")
	}
	j.sound()
}

// Git never cleans what is called .git, and the next agent in that directory would work in whatever repository it
// leads to; its git would wait for a pipe.
func TestNoRepositoryIsLeftForTheNextAgent(t *testing.T) {
	t.Parallel()
	for _, policy := range []workflow.Workspace{{}, {Keep: []string{"kept"}}} {
		j := newJob(t, files{"a": "1\n", "sub/b": "1\n"}, policy)
		for _, leave := range []string{"ln -s $PWD/../../repo/.git sub/.git", "echo 'gitdir: /nowhere' > sub/.git", "mkdir -p sub/x/.git; mkfifo sub/x/.git/HEAD", "mkfifo sub/.gitignore"} {
			for _, again := range []bool{false, true} { // another process knows nothing of the workspace, and has git clean it
				o, _ := j.run(j.attempt(leave))
				if again {
					j.reopen()
				}
				if got, _ := j.run(j.attempt("! ls -d sub/.git sub/x sub/.gitignore 2>/dev/null | grep .")); got.Failure != nil {
					t.Errorf("keep %v, %s (%+v): %s", policy.Keep, leave, o.Failure, got.Failure.Message)
				}
			}
		}
	}
}

// changedBy returns the files that work changed.
func (j *job) changedBy(w Work) string {
	if w.Commit == "" {
		return ""
	}
	return strings.Join(strings.Fields(j.inHub("git diff --no-renames --name-status "+w.Base+" "+w.Commit)), " ")
}

func TestAWorkspaceThatAProcessIsLeftInIsThrownAway(t *testing.T) {
	t.Parallel()
	if !exists("/proc/self/cwd") {
		return // only Linux shows where a process works
	}
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	var cleaned []string
	j.Emit = func(_ int, e events.Event) {
		if e, is := e.(events.WorktreeCleaned); is {
			cleaned = append(cleaned, e.Reason)
		}
	}
	pid := filepath.Join(t.TempDir(), "pid")
	j.does("setsid sleep 60 >/dev/null 2>&1 & echo $! > " + pid)
	j.does("test ! -e x")
	if len(cleaned) != 1 || !strings.Contains(cleaned[0], "a leftover process") {
		t.Errorf("thrown away: %q", cleaned)
	}
	sh(t, "/", j.environ, "kill $(cat "+pid+")")
}

func TestAWorkspaceIsMadeAnewWhenItWasLeftHalfClean(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	made := 0
	j.Emit = func(_ int, e events.Event) {
		if _, is := e.(events.WorktreeCreated); is {
			made++
		}
	}
	w := j.workspace("1", 1)
	j.does("true")
	for _, spoil := range []func() error{
		func() error { return os.Remove(w.seal) },
		func() error { return os.Rename(w.seal, w.seal+".taken") },
		func() error { return os.WriteFile(w.seal, []byte("DIRC junk"), 0o644) },
		func() error { return removeAll(w.dir) },
		func() error { return os.WriteFile(filepath.Join(w.dir, ".git", "HEAD"), nil, 0o644) }, // harmless
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got := j.changedBy(j.does("test \"$(cat a)\" = 1; git status --porcelain | grep . && exit 1; echo 2 > a")); got != "M a" {
			t.Errorf("changed: %q", got)
		}
	}
	if made != 5 {
		t.Errorf("%d workspaces were made, want 5", made)
	}
}
