package gitspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// sources are repositories of kinds that have broken tools which copy or borrow them. Each script runs in a
// directory beside `origin`, which has two commits, and makes `repo`.
var sources = []struct {
	name, script string
	dir          string // where the job is started, in repo
	check        string // run by an agent
}{
	{name: "ordinary", script: "git clone -q origin repo", check: "git rev-parse origin/main origin/HEAD v1"},
	{name: "shallow", script: "git clone -q --depth 1 file://$PWD/origin repo", check: "test $(git log --oneline | wc -l) = 1"},
	{name: "partial", script: "git -C origin config uploadpack.allowFilter true; git clone -q --filter=blob:none --no-checkout file://$PWD/origin repo; git -C repo checkout -q main", check: "git show HEAD~1:a"},
	{name: "sha256", script: "git init -q --object-format=sha256 repo; cp -r origin/a origin/sub repo; cd repo; git add -A; git commit -qm 1"},
	{name: "linked worktree", script: "git clone -q origin main; git -C main worktree add -q ../repo -b other", check: "git rev-parse main other"},
	{name: "borrowing", script: "git clone -q --shared origin repo"},
	{name: "sparse", script: "git clone -q origin repo; cd repo; git sparse-checkout set sub/x", check: "test ! -e other; test -e sub/x/f"},
	{name: "subdirectory", script: "git clone -q origin repo", dir: "sub/x", check: "test -e f; test \"$(git rev-parse --show-prefix)\" = sub/x/"},
	{name: "packed", script: "git clone -q origin repo; cd repo; git gc -q"},
	{name: "detached", script: "git clone -q origin repo; cd repo; git checkout -q --detach"},
	{name: "commit graph", script: "git clone -q origin repo; cd repo; git commit-graph write --reachable 2>/dev/null; git repack -adqb"},
	{name: "names with blanks", script: "git clone -q origin 'repo'; cd repo; git remote add other '../a b \"c\"'; git config 'branch.x y.remote' origin; git config --add x.y \"a\nb ; # \\\\ c\"", check: "test \"$(git config x.y)\" = \"$(printf 'a\\nb ; # \\\\ c')\"; git config 'branch.x y.remote'"},
	{name: "relative remote", script: "git init -q repo; cd repo; git remote add origin ../origin; git fetch -q; git checkout -q main", check: "git ls-remote -q origin >/dev/null"},
	{name: "a tag of a tag", script: "git clone -q origin repo; cd repo; git tag -am x v2; git tag -am x v3 v2", check: "git describe --exact-match HEAD; git rev-parse v3^{commit}"},
	{name: "a branch prodigy", script: "git clone -q origin repo; cd repo; git branch prodigy"},
	{name: "a branch of the job", script: "git clone -q origin repo; cd repo; git branch prodigy/mapreduce-1-0"},
	{name: "identity of a directory", script: "git clone -q origin repo; git config --global includeIf.gitdir:$PWD/repo/.path $PWD/work.config; git config -f work.config user.email at@work.example", check: "test \"$(git config user.email)\" = at@work.example"},
	{name: "identity of the repository", script: "git clone -q origin repo; cd repo; git config user.name Bob; git config user.email bob@example.com; git config lfs.storage x", check: "test \"$(git config user.name)\" = Bob; git config user.name Eve; git config core.logAllRefUpdates false; git config gc.auto 1"},
	{name: "hooks", script: "git clone -q origin repo; cd repo; mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch ../hook-ran' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", check: "git commit -q --allow-empty -m x; rm ../hook-ran; git reset -q --soft HEAD~1"},
	{name: "hooks in the tree", script: "git clone -q origin repo; cd repo; mkdir hooks; printf '#!/bin/sh\\ntouch ../hook-ran' > hooks/pre-commit; chmod +x hooks/pre-commit; git add -A; git commit -qm hooks; git config core.hooksPath hooks", check: "git commit -q --allow-empty -m x; rm ../hook-ran; git reset -q --soft HEAD~1"},
	{name: "an index that is split", script: "git clone -q origin repo; cd repo; git config core.splitIndex true; git config core.untrackedCache true; git config feature.manyFiles true"},
	{name: "signing that fails", script: "git clone -q origin repo; cd repo; git config commit.gpgSign true; git config gpg.program false", check: "echo y > y; git add y; git commit -qm y; git reset -q --hard HEAD~1"},
	{name: "line ends", script: "git clone -q origin repo; cd repo; printf '* text=auto\\n' > .gitattributes; git add -A; git commit -qm x; git config core.autocrlf true"},
	{name: "prunes", script: "git clone -q origin repo; cd repo; git config fetch.prune true; git config gc.pruneExpire now; git config transfer.fsckObjects true"},
	{name: "defaults of another kind", script: "git clone -q origin repo; git config --global init.defaultRefFormat reftable; git config --global init.defaultObjectFormat sha256; git config --global init.templateDir /nonexistent; git config --global clone.defaultRemoteName up"},
	{name: "diff settings", script: "git clone -q origin repo; cd repo; git config diff.noprefix true; git config diff.renames copies; git config diff.external false; git config color.ui always; git config core.quotePath false; git config log.showSignature true; git config status.short true; git config core.pager false"},
}

func TestWorkspacesOfEveryKindOfRepository(t *testing.T) {
	t.Parallel()
	for i, source := range sources {
		if i%testenv.OneIn(20, 6) != 0 {
			continue
		}
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			origin, environ := newRepo(t, files{"a": "1\n", "sub/b": "1\n", "sub/x/f": "1\n", "other/f": "1\n"})
			root := filepath.Dir(origin)
			sh(t, root, environ, "mv repo origin; cd origin; echo 2 > a; git commit -qam second; git tag -am x v1")
			sh(t, root, environ, source.script)
			repo := filepath.Join(root, "repo")
			j := openJob(t, repo, filepath.Join(repo, source.dir), environ, workflow.Workspace{})
			before := sh(t, repo, environ, "git status; git config -l --show-origin; git for-each-ref; cat .git/* 2>/dev/null | cksum")
			first := j.does(source.check + "\necho more >> \"$(git rev-parse --show-toplevel)/a\"; echo new > new")
			second := j.does("echo more >> \"$(git rev-parse --show-toplevel)/sub/b\"; git add -A; git commit -qm mine")
			third := j.does("echo other >> \"$(git rev-parse --show-toplevel)/a\"")
			if m := j.merges(first, second, third); len(m.Items) != 2 || len(m.Failed) != 1 {
				t.Fatalf("merged: %+v", m)
			}
			prefix := source.dir
			if prefix != "" {
				prefix += "/"
			}
			if got := j.inHub("git diff --no-renames --name-only " + j.start.Base + " " + j.head); strings.Join(sorted(got), " ") != strings.Join(sorted("a\nsub/b\n"+prefix+"new"), " ") {
				t.Errorf("changed: %q", got)
			}
			if !slices.Contains([]string{"names with blanks"}, source.name) { // settings of no use elsewhere stay here
				j.away(filepath.Join(t.TempDir(), "store"))
				a := j.attempt(source.check + "\ngit fsck --no-dangling >/dev/null 2>&1; git log --stat >/dev/null; echo away >> new")
				a.Base = j.start.Base
				o, _ := j.run(a)
				j.clone = nil
				if o.Failure != nil || o.Files != 1 {
					t.Errorf("elsewhere: %+v", o)
				}
			}
			after := sh(t, repo, environ, "git status; git config -l --show-origin; git for-each-ref | grep -v refs/prodigy; cat .git/* 2>/dev/null | cksum")
			if before := strings.Join(slices.DeleteFunc(strings.Split(before, "\n"), func(l string) bool { return strings.Contains(l, "refs/prodigy") }), "\n"); after != before {
				t.Errorf("the user's repository is changed:\n%s\nbefore:\n%s", after, before)
			}
			d, err := j.Deliver(t.Context(), j.head)
			if err != nil {
				t.Fatal(err)
			}
			if got := sh(t, repo, environ, "git rev-parse refs/prodigy/jobs/mapreduce-1; git fsck --no-dangling >/dev/null 2>&1"); got != j.head {
				t.Errorf("delivered %s, want %s", got, j.head)
			}
			if source.name == "a branch prodigy" {
				if d.Branch != "" || len(d.Notices) != 1 {
					t.Errorf("delivery: %+v", d)
				}
			} else if d.Branch == "" {
				t.Errorf("delivery: %+v", d)
			}
			j.inHub("git fsck --strict --no-dangling >/dev/null 2>&1")
			// The user's repository forgets everything that no ref holds; the job goes on.
			if source.name != "linked worktree" {
				sh(t, repo, environ, "git gc -q --prune=now 2>/dev/null")
			}
			j.reopen(third)
			if m := j.merges(j.does("echo z > z")); len(m.Items) != 1 {
				t.Errorf("after gc: %+v", m)
			}
		})
	}
}

func sorted(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}

// An attempt with a submodule may work in it; what it commits there would be lost.
func TestSubmodulesAreLeftAlone(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	root := filepath.Dir(repo)
	sh(t, root, environ, "git config --global protocol.file.allow always; git clone -q repo inner; cd repo; git submodule --quiet add ../inner inner; git commit -qm sub")
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	if w := j.does("git submodule --quiet update --init; test -e inner/a; grep -q repo/.git/modules .git/modules/inner/objects/info/alternates; echo 2 > a"); j.changedBy(w) != "M a" {
		t.Errorf("changed: %s", j.changedBy(w))
	}
	if w := j.does("test ! -e inner/a; test -d inner; git submodule --quiet update --init; test -e inner/a"); w.Commit != "" {
		t.Errorf("changed: %s", j.changedBy(w))
	}
	const update = "git submodule --quiet update --init; "
	for _, does := range []string{
		update + "cd inner; git commit -q --allow-empty -m x; cd ..; git add -A; git commit -qm moved",
		update + "echo 2 > inner/a",
		update + "echo 2 > inner/new; git config submodule.inner.ignore all",
		update + "echo 2 > inner/a; rm .gitmodules",
		"echo 2 > inner/a",
	} {
		o, _ := j.run(j.attempt(does))
		if o.Failure == nil || !strings.Contains(o.Failure.Message, "the submodule inner") {
			t.Errorf("%s: outcome: %+v", does, o.Failure)
		}
	}
	dir, err := j.Phase(t.Context(), j.head)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, dir, j.Space.Environ(j.environ), update+"echo 2 > inner/a")
	if _, err := j.PhaseHead(t.Context(), true, "x"); err == nil || !strings.Contains(err.Error(), "the submodule inner") {
		t.Errorf("a phase: %v", err)
	}
}

func TestNoVariableLeadsToAnotherRepository(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	before := userState(t, repo)
	hostile := append(slices.Clip(environ), "GIT_DIR="+repo+"/.git", "GIT_WORK_TREE="+repo, "GIT_INDEX_FILE="+repo+"/.git/index", "GIT_PREFIX=x/",
		"GIT_COMMON_DIR="+repo+"/.git", "GIT_OBJECT_DIRECTORY="+repo+"/.git/objects", "GIT_NAMESPACE=x", "GIT_LITERAL_PATHSPECS=1", "GIT_AUTHOR_DATE=@1 +0000",
		"GIT_CEILING_DIRECTORIES=/somewhere", "GIT_EXTERNAL_DIFF=false", "GIT_CONFIG_PARAMETERS='core.bare=true'", "GIT_ICASE_PATHSPECS=1", "GIT_DEFAULT_HASH=sha256")
	j := openJob(t, repo, repo, hostile, workflow.Workspace{})
	j.environ = hostile
	x := script{j.Space.Environ(hostile)}
	a := j.attempt("echo 2 > a; git commit -qam mine; echo 3 > b")
	o, err := j.Execute(t.Context(), x, a)
	if err != nil || o.Failure != nil || o.Files != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	j.environ = environ
	j.merges(Work{ItemID: "i", Base: a.Base, Changes: events.Changes{Commit: o.Commit}, Attempt: 1})
	j.wantTree("a: 2", "b: 3")
	if userState(t, repo) != before {
		t.Error("the user's repository is changed")
	}
}

// A home directory is a repository for some. Whoever has deleted the .git of a workspace below it must not reach that.
func TestAnAgentWithoutARepositoryDoesNotFindOneAbove(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	home, _ := newRepo(t, files{"dotfile": "1\n"})
	j := &job{t: t, repo: repo, environ: environ}
	j.config = Config{JobID: "mapreduce-1", Dir: repo, GitDir: filepath.Join(home, ".prodigy/git"), WorkDir: filepath.Join(home, ".prodigy/work"), Environ: environ}
	var err error
	if j.start, err = Check(t.Context(), j.config, false); err != nil {
		t.Fatal(err)
	}
	j.head = j.start.Base
	j.reopen()
	o, _ := j.run(j.attempt("rm -rf .git; git add -A && exit 0; git rev-parse --show-toplevel && exit 0; exit 7"))
	if o.ExitCode != 7 {
		t.Errorf("an agent found a repository above its workspace: %+v", o)
	}
	if got := sh(t, home, environ, "git diff --cached --name-only"); got != "" {
		t.Errorf("staged in the home directory: %s", got)
	}
}

// prodigy is started by `git rebase --exec` in a linked worktree, which sets GIT_DIR for it.
func TestARebaseThatRunsTheJobKeepsItsBranch(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	tree := filepath.Join(filepath.Dir(repo), "tree")
	dump := filepath.Join(filepath.Dir(repo), "environ")
	sh(t, repo, environ, "git worktree add -q ../tree -b side; cd ../tree; echo 2 > b; git add -A; git commit -qm b; GIT_SEQUENCE_EDITOR=true git rebase -q --exec 'env > "+dump+"' HEAD~1")
	data, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	main := sh(t, repo, environ, "git rev-parse main side")
	j := openJob(t, tree, tree, strings.Split(strings.TrimSpace(string(data)), "\n"), workflow.Workspace{})
	j.merges(j.does("echo 3 > c; git add -A; git commit -qm c"))
	if got := sh(t, repo, environ, "git rev-parse main side"); got != main {
		t.Errorf("branches %s, before %s", got, main)
	}
}
