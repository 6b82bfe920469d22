package gitspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// script is an Executor whose attempts are shell scripts. It gets the script from the name of the workflow of
// the attempt.
type script struct{ environ []string }

func (x script) Execute(_ context.Context, a agent.Attempt) (agent.Outcome, error) {
	cmd := exec.Command("sh", "-ec", a.Workflow)
	cmd.Dir, cmd.Env = a.Dir, append(x.environ, "PRODIGY_BASE="+a.Base, "N="+fmt.Sprint(a.ItemIndex))
	out, err := cmd.CombinedOutput()
	o := agent.Outcome{ItemOutput: events.ItemOutput{Output: string(out)}}
	if err != nil {
		o.ExitCode = cmd.ProcessState.ExitCode()
		o.Failure = &agent.Failure{Failure: retry.Failure{Type: "exit", ExitCode: o.ExitCode, Message: err.Error() + ": " + string(out)}}
	}
	return o, nil
}

func (script) Holds(context.Context, []string) ([]string, error) { return nil, nil }

// job is a job with workspaces in a test: a repository of a user, a Space, and what a caller records.
type job struct {
	*Space
	t       *testing.T
	repo    string // the user's checkout
	environ []string
	config  Config
	start   Start
	head    string
	next    int    // index of the next item
	clone   *Space // nil: attempts run where the repository is
}

// files are the files of a commit by their paths.
type files map[string]string

// newRepo makes the repository of a user, with an environment in which no settings of the machine count.
func newRepo(t *testing.T, content files) (dir string, environ []string) {
	t.Helper()
	root := t.TempDir()
	home := filepath.Join(root, "home")
	dir = filepath.Join(root, "repo")
	environ = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_GLOBAL=" + filepath.Join(home, "gitconfig"), "GIT_CONFIG_NOSYSTEM=1",
	}
	write(t, home, files{"gitconfig": "[user]\nname = Ada\nemail = ada@example.com\n[init]\ndefaultBranch = main\n[advice]\ndetachedHead = false\n"})
	if content == nil {
		return dir, environ
	}
	write(t, dir, content)
	key := fmt.Sprint(content)
	begun.Lock()
	defer begun.Unlock()
	if begun.repositories[key] == nil {
		sh(t, dir, environ, "git init -q && git add -A && git commit -qm first")
		begun.repositories[key] = archive(t, filepath.Join(dir, ".git"))
		return dir, environ
	}
	if err := os.CopyFS(filepath.Join(dir, ".git"), begun.repositories[key]); err != nil {
		t.Fatal(err)
	}
	return dir, environ
}

// begun has the .git directories of repositories with one commit, by their files. Most tests begin with one of a few.
var begun = struct {
	sync.Mutex
	repositories map[string]fstest.MapFS
}{repositories: map[string]fstest.MapFS{}}

// archive reads a directory into memory.
func archive(t *testing.T, dir string) fstest.MapFS {
	t.Helper()
	all := fstest.MapFS{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil || d.IsDir() {
			all[name] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			return err
		}
		data, err := os.ReadFile(path)
		all[name] = &fstest.MapFile{Data: data, Mode: info.Mode()}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func write(t *testing.T, dir string, content files) {
	t.Helper()
	for name, text := range content {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sh runs a shell script, which must succeed, and returns what it printed.
func sh(t *testing.T, dir string, environ []string, text string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir, cmd.Env = dir, environ
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return strings.TrimSpace(string(out))
}

// in runs a script in the user's checkout.
func (j *job) in(text string) string { j.t.Helper(); return sh(j.t, j.repo, j.environ, text) }

// inHub runs a script in the hub.
func (j *job) inHub(text string) string {
	j.t.Helper()
	return sh(j.t, j.hubDir(), append(slices.Clip(j.environ), "GIT_DIR="+j.hubDir()), text)
}

// newJob makes a repository with content and opens a Space for it.
func newJob(t *testing.T, content files, policy workflow.Workspace) *job {
	t.Helper()
	repo, environ := newRepo(t, content)
	return openJob(t, repo, repo, environ, policy)
}

// openJob opens a Space for a job that is started in dir of a repository.
func openJob(t *testing.T, repo, dir string, environ []string, policy workflow.Workspace) *job {
	t.Helper()
	root := t.TempDir()
	j := &job{t: t, repo: repo, environ: environ}
	j.config = Config{
		JobID: "mapreduce-1", Workflow: "refactor", Dir: dir, GitDir: filepath.Join(root, "state", "git"), WorkDir: filepath.Join(root, "work"),
		Environ: environ, Policy: policy, Slots: 2,
	}
	var err error
	if j.start, err = Check(t.Context(), j.config, false); err != nil {
		t.Fatal(err)
	}
	j.head = j.start.Base
	j.reopen()
	return j
}

// reopen opens the Space as a resume does.
func (j *job) reopen(live ...Work) {
	j.t.Helper()
	s, err := Open(j.t.Context(), j.config, Start{Base: j.start.Base, Branch: j.start.Branch}, j.head, live)
	if err != nil {
		j.t.Fatal(err)
	}
	j.Space = s
}

// attempt runs a script as an attempt for a new item.
func (j *job) attempt(text string) agent.Attempt {
	j.next++
	return agent.Attempt{
		ID: "x", JobID: j.JobID, Phase: "map", Assignment: agent.Assignment{
			ItemID:    fmt.Sprintf("item_%d", j.next-1),
			ItemIndex: j.next - 1, Number: 1, Workspace: agent.Workspace{Base: j.head},
		},
		Worker: 1,
		Dir:    j.Dir, Workflow: text,
	}
}

// run runs an attempt, and returns its work when it succeeded and changed something.
func (j *job) run(a agent.Attempt) (agent.Outcome, Work) {
	j.t.Helper()
	var o agent.Outcome
	if j.clone != nil {
		o = j.runAway(a)
	} else {
		x := script{j.Space.Environ(j.environ)}
		var err error
		if o, err = j.Execute(j.t.Context(), x, a); err != nil {
			j.t.Fatalf("%s: %v", a.Workflow, err)
		}
	}
	return o, Work{
		ItemID: a.ItemID, Index: a.ItemIndex, Attempt: a.Number, Base: a.Base,
		Changes: events.Changes{Commit: o.Commit},
		Date:    time.Unix(1700000000+int64(a.ItemIndex), 0),
	}
}

// does runs a script as an attempt that must succeed, and returns its work.
func (j *job) does(text string) Work {
	j.t.Helper()
	o, w := j.run(j.attempt(text))
	if o.Failure != nil {
		j.t.Fatalf("%s: %s", text, o.Failure.Message)
	}
	return w
}

// merges merges work, publishes it, and returns the result.
func (j *job) merges(work ...Work) Merged {
	j.t.Helper()
	m, err := j.Merge(j.t.Context(), j.head, work)
	if err != nil {
		j.t.Fatal(err)
	}
	j.head = m.Head
	var settled []Work
	for _, one := range m.Items {
		settled = append(settled, one.Work)
	}
	if err := j.Publish(j.t.Context(), m.Head, settled); err != nil {
		j.t.Fatal(err)
	}
	return m
}

// tree returns the files of the head, one a line, with their content.
func (j *job) tree() string {
	j.t.Helper()
	return j.inHub("git ls-tree -r --name-only " + j.head + " | while read -r f; do echo \"$f: $(git show " + j.head + ":\"$f\" | tr '\\n' ' ')\"; done")
}

func (j *job) wantTree(want ...string) {
	j.t.Helper()
	if got := strings.Split(j.tree(), "\n"); !slices.EqualFunc(got, want, func(a, b string) bool { return strings.TrimSpace(a) == b }) {
		j.t.Errorf("files of the head:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// sound checks both repositories.
func (j *job) sound() {
	j.t.Helper()
	j.inHub("git fsck --strict --no-dangling 2>&1 | grep -v '^notice\\|^Checking' | sed 's/^/fsck: /' | tee /dev/stderr | grep . && exit 1 || true")
	j.in("git fsck --no-dangling")
}

func TestWorkOfAgentsIsMergedAndDelivered(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n", "sub/b": "1\n"}, workflow.Workspace{})
	before := userState(t, j.repo)
	one := j.does("echo 2 > a")
	two := j.does("echo new > sub/c; git add -A; git commit -qm mine; echo more >> sub/c; rm sub/b")
	m := j.merges(one, two)
	if len(m.Items) != 2 || len(m.Failed) != 0 {
		t.Fatalf("merged: %+v", m)
	}
	j.wantTree("a: 2", "sub/c: new more")
	if got := j.inHub("git log --first-parent --format='%an %s' " + j.start.Base + ".." + j.head); got != "Ada refactor: item_1\nAda refactor: item_0" {
		t.Errorf("history: %s", got)
	}
	if got := j.inHub("git for-each-ref --format='%(refname)'"); got != headRef {
		t.Errorf("refs in the hub: %s", got)
	}
	if diff := userState(t, j.repo); diff != before {
		t.Errorf("the user's checkout is changed:\n%s\nbefore:\n%s", diff, before)
	}
	d, err := j.Deliver(t.Context(), j.head)
	if err != nil || d.Branch != "prodigy/mapreduce-1" || len(d.Notices) != 0 {
		t.Fatalf("delivery: %+v, %v", d, err)
	}
	if got := j.in("git rev-parse prodigy/mapreduce-1 refs/prodigy/jobs/mapreduce-1"); got != j.head+"\n"+j.head {
		t.Errorf("delivered: %s, want %s", got, j.head)
	}
	j.sound()
	if err := j.Clean(t.Context()); err != nil || exists(j.WorkDir) {
		t.Errorf("the workspaces are still there: %v", err)
	}
	if err := Remove(t.Context(), j.config); err != nil || exists(j.GitDir) {
		t.Errorf("the hub is still there: %v", err)
	}
	if got := j.in("git for-each-ref --format='%(refname)'"); got != "refs/heads/main\nrefs/heads/prodigy/mapreduce-1" {
		t.Errorf("refs of the user: %s", got)
	}
}

// userState is all that must not change in the user's checkout, but for the refs of the job.
func userState(t *testing.T, repo string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(repo, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(repo, name)
		switch {
		case entry.IsDir() && (rel == ".git/objects" || rel == ".git/refs/prodigy" || rel == ".git/refs/heads/prodigy"):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		fmt.Fprintf(&b, "%s %s %x\n", rel, info.ModTime().Format(time.RFC3339Nano), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAnAttemptThatChangedNothingHasNoWork(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n", ".gitignore": "*.log\n"}, workflow.Workspace{})
	for _, text := range []string{"true", "echo x > a; git commit -qam x; git revert --no-edit HEAD >/dev/null", "echo x > x.log", "touch a; chmod 600 a"} {
		if w := j.does(text); w.Commit != "" {
			t.Errorf("%s: has work %s: %s", text, w.Commit, j.inHub("git show --stat "+w.Commit))
		}
	}
}

func TestWorkThatConflictsNamesThePathsAndTheOtherItems(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n2\n3\n", "b": "1\n", "dir/c": "1\n"}, workflow.Workspace{})
	one := j.does("sed -i 1s/1/one/ a; echo more >> dir/c")
	other := j.does("echo x > d")
	two := j.does("sed -i 1s/1/uno/ a; git rm -q dir/c; echo 2 > b")
	m := j.merges(one, other, two)
	if len(m.Items) != 2 || len(m.Failed) != 1 {
		t.Fatalf("merged: %+v", m)
	}
	f := m.Failed[0]
	if f.Type != retry.TypeMergeConflict || f.ItemID != "item_2" || f.Message != "conflict in a, dir/c with item_0" {
		t.Errorf("failed: %+v", f)
	}
	if len(f.Conflicts) != 2 || !strings.HasPrefix(f.Conflicts[0].Message, "CONFLICT (content)") || !slices.Equal(f.Conflicts[1].With, []string{"item_0"}) {
		t.Errorf("conflicts: %+v", f.Conflicts)
	}
	if got := j.inHub("git cat-file -t refs/items/2/1"); got != "commit" {
		t.Errorf("the work that conflicts is not kept: %s", got)
	}
}

func TestWorkOfAFailedAttemptIsKept(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	o, _ := j.run(j.attempt("echo 2 > a; echo new > n; exit 3"))
	if o.Failure == nil || o.ExitCode != 3 || o.Commit == "" || o.Files != 2 || o.Insertions != 2 || o.Deletions != 1 {
		t.Fatalf("outcome: %+v", o)
	}
	if got := j.inHub("git show refs/items/0/1:n"); got != "new" {
		t.Errorf("kept: %s", got)
	}
	o, _ = j.run(j.attempt("git checkout -q --orphan x; git rm -rfq .; exit 3")) // cannot be taken: only noted
	if o.Failure == nil || o.Failure.Type != "exit" || o.Commit != "" {
		t.Errorf("outcome: %+v", o)
	}
}

func TestMergingAgainMakesTheSameCommits(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n", "b": "1\n"}, workflow.Workspace{})
	work := []Work{j.does("echo 2 > a"), j.does("echo 2 > b"), j.does("echo 3 > c")}
	first, err := j.Merge(t.Context(), j.head, work)
	if err != nil {
		t.Fatal(err)
	}
	// A crash before the record: the head has not moved, and git was killed while it held locks.
	write(t, j.hubDir(), files{headRef + ".lock": "", "packed-refs.lock": "", "objects/pack/tmp_pack_x": ""})
	write(t, j.repo, files{".git/refs/prodigy/jobs/mapreduce-1.lock": ""})
	j.reopen(work...)
	again := j.merges(work...)
	if again.Head != first.Head {
		t.Errorf("heads: %s, then %s", first.Head, again.Head)
	}
	if locks := j.inHub("find . -name '*.lock' -o -name 'tmp_*'"); locks != "" {
		t.Errorf("locks: %s", locks)
	}
	if _, err := j.Deliver(t.Context(), j.head); err != nil {
		t.Error(err)
	}
}

func TestARestoredHubHasTheRefsOfTheLog(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	kept := j.does("echo 2 > b")
	merged := j.does("echo 3 > c")
	failed, _ := j.run(j.attempt("echo 4 > d; exit 1"))
	m, err := j.Merge(t.Context(), j.head, []Work{merged})
	if err != nil {
		t.Fatal(err)
	}
	j.head = m.Head // recorded, and killed before the refs were set
	j.inHub("git update-ref -d " + kept.ref())
	j.reopen(kept)
	want := strings.Join([]string{headRef + " " + j.head, "refs/items/0/1 " + kept.Commit, "refs/items/2/1 " + failed.Commit}, "\n")
	if got := j.inHub("git for-each-ref --format='%(refname) %(objectname)'"); got != want {
		t.Errorf("refs:\n%s\nwant:\n%s", got, want)
	}
}

func TestAStateErrorIsNoGitError(t *testing.T) {
	t.Parallel()
	var state *StateError
	if err := stateErrorf("x %d", 1); !errors.As(err, &state) || state.Reason != "x 1" {
		t.Errorf("%v", err)
	}
}

// A ref that is deleted while git lists the refs looks broken, and git takes that for a damaged repository.
func TestWorkIsCollectedWhileOtherIsPublished(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	first := j.does("echo 2 > b")
	w := j.workspace("1", 1)
	var published sync.WaitGroup
	done := make(chan struct{})
	for k := range 2 { // by the files themselves, to be as fast as many jobs
		published.Go(func() {
			dir := filepath.Join(j.hubDir(), "refs", "items", fmt.Sprint(100+k))
			_ = os.MkdirAll(dir, 0o777)
			fresh := filepath.Join(j.hubDir(), fmt.Sprint("new", k))
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				ref := filepath.Join(dir, fmt.Sprint(n%50))
				_ = os.WriteFile(fresh, []byte(first.Commit+"\n"), 0o666)
				_ = os.Rename(fresh, ref)
				_ = os.Remove(filepath.Join(dir, fmt.Sprint((n+25)%50)))
			}
		})
	}
	for n := range 12 / testenv.OneIn(3, 2) {
		commit := sh(t, w.dir, j.Space.Environ(j.environ), fmt.Sprintf("git commit -q --allow-empty -m %d; git rev-parse HEAD", n))
		if _, err := j.receive(t.Context(), w, commit, itemRef(1, n), j.head); err != nil {
			t.Errorf("commit %d: %v", n, err)
			break
		}
	}
	close(done)
	published.Wait()
}

// Two jobs share nothing but the objects they read, and nothing of theirs is in the way of the user.
func TestTwoJobsAndTheirUserWorkInOneRepository(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n", "b": "1\n"})
	jobs := []*job{openJob(t, repo, repo, environ, workflow.Workspace{}), openJob(t, repo, repo, environ, workflow.Workspace{})}
	jobs[1].config.JobID = "mapreduce-2"
	jobs[1].config.GitDir += "2"
	jobs[1].reopen()
	done := make(chan struct{})
	var user sync.WaitGroup
	user.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			cmd := exec.Command("sh", "-ec", "git worktree list >/dev/null; git status --porcelain; echo more >> mine; git add -A; git commit -qm mine; git branch -qf moving; git gc -q; git stash list")
			cmd.Dir, cmd.Env = repo, environ
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("round %d of the user: %v\n%s", n, err, out)
				return
			}
		}
	})
	var both sync.WaitGroup
	for i, j := range jobs {
		both.Go(func() {
			for n := range 3 {
				a := j.attempt(fmt.Sprintf("echo %d >> b; git add -A; git commit -qm mine", i))
				o, err := j.Execute(t.Context(), script{j.Space.Environ(environ)}, a)
				if err != nil || o.Failure != nil {
					t.Errorf("job %d, item %d: %v %+v", i, n, err, o.Failure)
					return
				}
				m, err := j.Merge(t.Context(), j.head, []Work{{
					ItemID: a.ItemID, Index: a.ItemIndex, Attempt: 1,
					Base: a.Base, Changes: events.Changes{Commit: o.Commit},
				}})
				if err != nil || len(m.Items) != 1 {
					t.Errorf("job %d: %v %+v", i, err, m)
					return
				}
				j.head = m.Head
				if _, err := j.Deliver(t.Context(), j.head); err != nil {
					t.Errorf("job %d: %v", i, err)
				}
			}
		})
	}
	both.Wait()
	close(done)
	user.Wait()
	for i, j := range jobs {
		if got := j.in("git show prodigy/mapreduce-" + fmt.Sprint(i+1) + ":b | tr '\\n' ' '"); got != "1 "+strings.TrimSpace(strings.Repeat(fmt.Sprint(i)+" ", 3)) {
			t.Errorf("job %d delivered %q", i, got)
		}
		j.sound()
	}
}
