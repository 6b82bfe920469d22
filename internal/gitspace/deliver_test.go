package gitspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/retry"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

func TestDeliveryNeverTouchesWhatIsTheUsers(t *testing.T) {
	t.Parallel()
	const branch = "prodigy/mapreduce-1"
	for i, c := range []struct {
		name, before string // after a first delivery
		moved        bool
		notice       string
	}{
		{name: "nothing happened", moved: true},
		{name: "branch deleted", before: "git branch -qD " + branch, moved: true},
		{name: "branch checked out", before: "git checkout -q " + branch, notice: "refusing to fetch"},
		{name: "checked out elsewhere", before: "git worktree add -q ../elsewhere " + branch, notice: "refusing to fetch"},
		{name: "branch has commits of the user", before: "git checkout -q " + branch + "; git commit -q --allow-empty -m mine; git checkout -q main", notice: "it has commits missing from the result"},
		{name: "main moved on", before: "git commit -q --allow-empty -m mine; git tag -f x; git stash -q 2>/dev/null || true", moved: true},
		{name: "main rebased", before: "git commit -q --amend -m other; git reflog expire --expire=now --all; git gc -q --prune=now", moved: true},
		{name: "packed", before: "git pack-refs --all", moved: true},
		{name: "locks of ours", before: "mkdir -p .git/refs/prodigy/jobs; touch .git/refs/prodigy/jobs/mapreduce-1.lock .git/refs/heads/" + branch + ".lock", moved: true},
	} {
		if i%testenv.OneIn(4, 2) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
			j.merges(j.does("echo 2 > b"))
			if d, err := j.Deliver(t.Context(), j.head); err != nil || d.Branch != branch {
				t.Fatalf("%+v, %v", d, err)
			}
			j.in(c.before)
			files := j.in("git status --porcelain; git rev-parse HEAD main; cat a")
			old := j.in("git rev-parse -q --verify refs/heads/" + branch + " || true")
			j.reopen()
			j.merges(j.does("echo 3 > c"))
			d, err := j.Deliver(t.Context(), j.head)
			if err != nil {
				t.Fatal(err)
			}
			if got := j.in("git rev-parse " + d.Hidden); got != j.head {
				t.Errorf("%s is %s, want %s", d.Hidden, got, j.head)
			}
			want := old
			if c.moved {
				want = j.head
			}
			if got := j.in("git rev-parse refs/heads/" + branch); got != want || (d.Branch != "") != c.moved {
				t.Errorf("the branch is at %s, want %s: %+v", got, want, d)
			}
			if c.notice != "" && (len(d.Notices) != 1 || !strings.Contains(d.Notices[0], c.notice) || !strings.Contains(d.Notices[0], d.Hidden)) {
				t.Errorf("notices: %q", d.Notices)
			}
			if got := j.in("git status --porcelain; git rev-parse HEAD main; cat a"); got != files {
				t.Errorf("the user's checkout is changed:\n%s\nbefore:\n%s", got, files)
			}
			if d, err = j.Deliver(t.Context(), j.head); err != nil || (d.Branch != "") != c.moved {
				t.Errorf("delivered again: %+v, %v", d, err)
			}
		})
	}
}

func TestAHubThatIsForgottenComesAgainFromTheRepository(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
		j.merges(j.does("echo 2 > b"))
		if _, err := j.Deliver(t.Context(), j.head); err != nil {
			t.Fatal(err)
		}
		if cut {
			if err := os.Remove(j.recordFile()); err != nil {
				t.Fatal(err)
			}
		} else if err := j.Forget(); err != nil || exists(j.GitDir) {
			t.Fatalf("%v, and %s is there: %t", err, j.GitDir, exists(j.GitDir))
		}
		j.reopen()
		j.merges(j.does("echo 3 > c"))
		if d, err := j.Deliver(t.Context(), j.head); err != nil || d.Branch == "" {
			t.Errorf("%+v, %v", d, err)
		}
		j.wantTree("a: 1", "b: 2", "c: 3")
		j.sound()
	}
}

func TestNothingIsDeliveredWhenNothingWasMerged(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	if d, err := j.Deliver(t.Context(), j.head); err != nil || d.Branch != "" || j.in("git branch --format='%(refname:short)'") != "main" {
		t.Errorf("%+v, %v", d, err)
	}
}

// git gc of the user may remove the directories of loose objects while the result is fetched.
func TestTheResultComesAsAPack(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	j.merges(j.does("echo 2 > b"))
	const loose = "git count-objects | cut -d' ' -f1"
	before := j.in(loose)
	if _, err := j.Deliver(t.Context(), j.head); err != nil {
		t.Fatal(err)
	}
	if after := j.in(loose); after != before {
		t.Errorf("the user has %s loose objects, had %s", after, before)
	}
}

func TestIntoFastForwardsOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name, before, into string
		refused            string
		want               string // content of b in the checkout
	}{
		{name: "checked out", into: "main", want: "2"},
		{name: "not checked out", before: "git checkout -q -b other", into: "main"},
		{name: "new branch", into: "fresh"},
		{name: "checked out elsewhere", before: "git checkout -q -b other; git worktree add -q ../elsewhere main", into: "main"},
		{name: "untouched changes", before: "echo dirty > a", into: "main", want: "2"},
		{name: "no fast-forward", before: "git commit -q --allow-empty -m mine", into: "main", refused: "cannot be fast-forwarded"},
		{name: "changes in the way", before: "echo mine > b", into: "main", refused: "main was not updated"},
	} {
		if i%testenv.OneIn(3, 1) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
			j.merges(j.does("echo 2 > b"))
			j.in(c.before)
			before := j.in("git rev-parse -q --verify " + c.into + " || true; git status --porcelain; cat b 2>/dev/null || true")
			if _, err := j.Deliver(t.Context(), j.head); err != nil {
				t.Fatal(err)
			}
			err := j.Into(t.Context(), c.into, j.head)
			if c.refused != "" {
				var state *StateError
				if !errors.As(err, &state) || !strings.Contains(state.Reason, c.refused) {
					t.Errorf("error %v, want %q", err, c.refused)
				}
				if after := j.in("git rev-parse -q --verify " + c.into + "; git status --porcelain; cat b 2>/dev/null || true"); after != before {
					t.Errorf("after a refusal:\n%s\nbefore:\n%s", after, before)
				}
				return
			}
			if err != nil || j.in("git rev-parse "+c.into) != j.head {
				t.Errorf("%v", err)
			}
			if c.want != "" && j.in("cat b") != c.want {
				t.Errorf("b is %q", j.in("cat b"))
			}
			if c.name == "checked out" { // and somebody went on from there
				j.in("git commit -q --allow-empty -m later")
			}
			if err := j.Into(t.Context(), c.into, j.head); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	}
}

func TestWhatIsRefusedBeforeAnythingRuns(t *testing.T) {
	repo, environ := newRepo(t, files{"a": "1\n", "b": "1\n"})
	root := filepath.Dir(repo)
	sh(t, root, environ, "git init -q empty; git clone -q --bare repo bare; mkdir plain; git clone -q repo dirty; cd dirty; echo 2 > a; git mv b c; echo x > new")
	config := func(dir string) Config {
		return Config{JobID: "m", Dir: filepath.Join(root, dir), WorkDir: filepath.Join(root, "work", "m"), Environ: environ, Slots: 3}
	}
	huge := config("repo")
	huge.Slots = 1 << 40
	unknown := config("repo")
	unknown.Policy.Base = "nowhere"
	option := config("repo")
	option.Policy.Base = "--all"
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no repository", config("plain"), "workspaces need a git repository"},
		{"bare", config("bare"), "is a bare repository"},
		{"inside of .git", config("repo/.git"), "is inside a .git directory"},
		{"no commit", config("empty"), "has no commit yet"},
		{"dirty", config("dirty"), "would not see uncommitted changes: a, b, c;"},
		{"base", unknown, `commit "nowhere" not found`},
		{"base like an option", option, `commit "--all" not found`},
		{"disk", huge, "are free in"},
	} {
		_, err := Check(t.Context(), c.config, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	start, err := Check(t.Context(), config("dirty"), true)
	if err != nil || len(start.Notices) != 2 || !strings.Contains(start.Notices[0], "a, b, c") || !strings.Contains(start.Notices[1], "new") {
		t.Errorf("%+v, %v", start, err)
	}
	if start.Files != 2 || start.Bytes != 8192 || start.Branch != "main" {
		t.Errorf("%+v", start)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Check(t.Context(), config("repo"), false); err == nil || !strings.Contains(err.Error(), "which is not on PATH") {
		t.Errorf("without git: %v", err)
	}
	for version, want := range map[string]string{"2.34.1": "this is 2.34", "1.9": "this is 1.9", "junk": "cannot parse its version"} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho git version "+version+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin)
		if _, err := Check(t.Context(), config("repo"), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("git %s: %v", version, err)
		}
	}
}

func TestVersionsOfGit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		"git version 2.39.5\n": {2, 39}, "git version 2.39.5 (Apple Git-154)\n": {2, 39}, "git version 2.55.0.windows.1\n": {2, 55},
		"git version 2.50.GIT\n": {2, 50}, "git version 3.0-rc1\n": {3, 0},
	} {
		if major, minor, ok := parseVersion(text); !ok || major != want[0] || minor != want[1] {
			t.Errorf("%q: %d.%d", text, major, minor)
		}
	}
}

func TestABaseOfTheUser(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	sh(t, repo, environ, "git tag old; echo 2 > a; git commit -qam second")
	j := openJob(t, repo, repo, environ, workflow.Workspace{Base: "old"})
	if got := j.changedBy(j.does("test \"$(cat a)\" = 1; echo 3 > b")); got != "A b" {
		t.Errorf("changed: %s", got)
	}
}

func TestAnAgentThatWroteIntoTheCheckoutIsNoticed(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n", "b": "1\n"})
	sh(t, repo, environ, "echo mine > untracked")
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	j.does("echo 2 > a")
	if got := j.Changed(t.Context()); got != nil {
		t.Errorf("changed: %q", got)
	}
	j.does("echo 2 > " + repo + "/a; echo 3 > '" + repo + "/a new'")
	if got := j.Changed(t.Context()); !slices.Equal(got, []string{"a", "a new"}) {
		t.Errorf("changed: %q", got)
	}
	j.in("git commit -qam x")
	want := []string{"HEAD", "a new"} // a is committed, and so it is as git knows it
	if got := j.Changed(t.Context()); !slices.Equal(got, want) {
		t.Errorf("changed: %q", got)
	}
	if j.reopen(); j.Changed(t.Context()) != nil {
		t.Errorf("changed since it was opened again: %q", j.Changed(t.Context()))
	}
	s, err := Open(t.Context(), j.config, j.start, j.head, nil) // with what was recorded, after the run died
	if err != nil || !slices.Equal(s.Changed(t.Context()), want) {
		t.Errorf("changed since the run before: %q, %v", s.Changed(t.Context()), err)
	}
}

func TestOfManyChangesInTheCheckoutTheLastAreComparedAsOne(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	sh(t, repo, environ, "for i in $(seq 1000 1500); do echo > $i; done")
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	if got := j.Checkout(); len(got) != 1+mostChanges+1 || j.Changed(t.Context()) != nil {
		t.Errorf("%d changes are kept, and these differ: %q", len(got), j.Changed(t.Context()))
	}
	j.in("rm 1500")
	if got := j.Changed(t.Context()); !slices.Equal(got, []string{"others"}) {
		t.Errorf("changed: %q", got)
	}
}

// What a fetch of a part of the history has left out is missing in the workspace alone.
func TestNoRepositoryBecomesShallowByAnAgent(t *testing.T) {
	t.Parallel()
	origin, environ := newRepo(t, files{"a": "1\n"})
	sh(t, origin, environ, "git commit -q --allow-empty -m second")
	repo := filepath.Join(filepath.Dir(origin), "clone")
	sh(t, filepath.Dir(origin), environ, "git clone -q repo clone; cd repo; for n in 3 4; do git commit -q --allow-empty -m $n; done; cd ../clone; git remote set-url origin file://$PWD/../repo")
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	dir, err := j.Phase(t.Context(), j.head)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, dir, j.Space.Environ(environ), "git fetch -q --depth 1; echo 1 > phase; git add phase; git commit -qm phase")
	if j.head, err = j.PhaseHead(t.Context(), false, ""); err != nil {
		t.Fatal(err)
	}
	j.merges(j.does("git fetch -q --depth 1; echo 1 > b"), j.does("git fetch -q --depth 1; echo 1 > c; git add c; git commit -qm c"))
	o, _ := j.run(j.attempt("git fetch -q --depth 1; git merge -q --allow-unrelated-histories origin/main; echo 1 > d"))
	if o.Failure == nil || o.Failure.Type != retry.TypeWorkspace || !strings.Contains(o.Failure.Message, "a part of the history (--depth)") {
		t.Errorf("history that is cut off was merged: %+v", o)
	}
	if _, err := j.Deliver(t.Context(), j.head); err != nil {
		t.Fatal(err)
	}
	if got := j.in("git rev-parse --is-shallow-repository; git log --format=%s --no-merges prodigy/mapreduce-1 | sort | xargs"); got != "false\nChanges of item_0, attempt 1 c first phase second" {
		t.Errorf("delivered: %q", got)
	}
	j.sound()
}

func TestPhasesShareOneWorkspaceThatNobodyCleans(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	phase := func(text string) (string, error) {
		t.Helper()
		dir, err := j.Phase(t.Context(), j.head)
		if err != nil {
			return "", err
		}
		sh(t, dir, j.Space.Environ(j.environ), text)
		return j.PhaseHead(t.Context(), false, "")
	}
	head, err := phase("echo s > setup; git add -A; git commit -qm setup; echo x > left")
	if err != nil || head == j.head {
		t.Fatalf("%s, %v", head, err)
	}
	j.head = head
	j.merges(j.does("test -e setup; test ! -e left; echo 2 > a"))
	// A resume goes on with commits that no record names yet.
	if _, err := phase("test \"$(cat a)\" = 2; test -e left; echo r > reduce; git add reduce; git commit -qm reduce"); err != nil {
		t.Fatal(err)
	}
	j.reopen()
	if head, err = phase("test -e reduce; test -e left"); err != nil {
		t.Fatal(err)
	}
	j.head = head
	j.wantTree("a: 2", "reduce: r", "setup: s")
	// What setup left changed is not lost.
	if _, err := phase("echo mine > a"); err != nil {
		t.Fatal(err)
	}
	j.merges(j.does("echo 3 > a"))
	var state *StateError
	if _, err := phase("true"); !errors.As(err, &state) || !strings.Contains(state.Reason, "'a'") {
		t.Errorf("moved over a change: %v", err)
	}
	if _, err := os.ReadFile(filepath.Join(j.WorkDir, "job", "a")); err != nil {
		t.Error(err)
	}
	sh(t, filepath.Join(j.WorkDir, "job"), j.Space.Environ(j.environ), "git checkout -q a")
	if _, err := phase("test \"$(cat a)\" = 3; git reset -q --hard HEAD~2"); !errors.As(err, &state) {
		t.Errorf("a head that was lost: %v", err)
	}
}

// A kill in the middle of the move of the job's workspace leaves some files of one commit and some of the
// other. The next run finishes the move, and keeps what the phase before did not commit.
func TestAMoveThatWasKilledIsFinished(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		killed string // what git did before it was killed, in the workspace: $to is the commit to move to
		again  string // the same, of the run after that
		sparse []string
	}{
		"before anything":        {killed: "true"},
		"a file is new":          {killed: "git show $to:new > new"},
		"a file is half written": {killed: "rm a; printf 2 > a; : > .git/index.lock"},
		"a file is gone":         {killed: "rm gone; rmdir gone 2> /dev/null || true"},
		"a directory is a file":  {killed: "rm d/x; rmdir d; git show $to:d > d"},
		"a directory is a link":  {killed: "rm e/x; rmdir e; ln -s keep e"},
		"a file is a directory":  {killed: "rm f; mkdir f; git show $to:f/x > f/x; : > .git/index.lock"},
		"all files are written":  {killed: "git read-tree -u -m HEAD $to"},
		"all is done":            {killed: "git reset -q --keep $to"},
		"killed twice":           {killed: "git show $to:new > new; rm a", again: "rm -f new gone"},
		"only some directories":  {killed: "git show $to:new > new; rm a", sparse: []string{"d", "e", "keep"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := files{"a": "1\n", "gone": "1\n", "d/x": "1\n", "e/x": "1\n", "f": "1\n", "keep/x": "kept\n", "other/y": "1\n"}
			j := newJob(t, content, workflow.Workspace{Sparse: c.sparse})
			dir, err := j.Phase(t.Context(), j.head)
			if err != nil {
				t.Fatal(err)
			}
			sh(t, dir, j.Space.Environ(j.environ), "echo mine > keep/x; echo left > untracked; git add keep/x")
			change := "echo 22 > a; rm gone d/x f; rmdir d; echo 2 > d; mkdir f; echo 2 > f/x; rm e/x; rmdir e; ln -s keep e; echo 2 > new"
			if c.sparse != nil {
				change = "echo 22 > a; rm gone; echo 2 > new"
			}
			j.merges(j.does(change))
			kill := func(command, text string) {
				t.Helper()
				shim := filepath.Join(t.TempDir(), "git")
				text = "#!/bin/sh\nset -e\ncase \"$*\" in *'" + command + "'*) to=" + j.head + "\n" + text + "\nkill -9 $$;; esac\nexec git \"$@\"\n"
				if err := os.WriteFile(shim, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
				j.git.path = shim
				if dir, err := j.Phase(t.Context(), j.head); err == nil {
					t.Fatalf("%s: nothing was killed", dir)
				}
				j.reopen()
			}
			kill("reset -q --keep", c.killed)
			if c.again != "" {
				kill("--reset -u", c.again)
			}
			if _, err := j.Phase(t.Context(), j.head); err != nil {
				t.Fatal(err)
			}
			got := sh(t, dir, j.Space.Environ(j.environ), "git rev-parse HEAD; git status --porcelain --untracked-files=all; cat keep/x")
			if want := j.head + "\n M keep/x\n?? untracked\nmine"; got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestAStandardWorkflowIsCollectedAtItsEnd(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	dir, err := j.Phase(t.Context(), j.head)
	if err != nil {
		t.Fatal(err)
	}
	if head, err := j.PhaseHead(t.Context(), true, "x"); err != nil || head != j.head {
		t.Errorf("nothing changed: %s, %v", head, err)
	}
	sh(t, dir, j.Space.Environ(j.environ), "echo 2 > a; git commit -qam two; echo 3 > b")
	head, err := j.PhaseHead(t.Context(), true, "standard: everything else")
	if err != nil {
		t.Fatal(err)
	}
	j.head = head
	j.wantTree("a: 2", "b: 3")
	if got := j.inHub("git log --format=%s " + head); got != "standard: everything else\ntwo\nfirst" {
		t.Errorf("history: %s", got)
	}
	if got := sh(t, dir, j.Space.Environ(j.environ), "git status --porcelain; git rev-parse HEAD"); got != head {
		t.Errorf("the workspace is at %s", got)
	}
}
