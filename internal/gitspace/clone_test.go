package gitspace

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// away has the attempts of a job run in a clone from now on, as on another machine, whose objects are in store.
func (j *job) away(store string) *Space {
	j.t.Helper()
	seed, err := j.Seed(j.t.Context())
	if err != nil {
		j.t.Fatal(err)
	}
	data, err := json.Marshal(seed)
	if err != nil {
		j.t.Fatal(err)
	}
	if seed, err = ParseSeed(data); err != nil {
		j.t.Fatal(err)
	}
	root := j.t.TempDir()
	j.clone, err = OpenClone(j.t.Context(), Config{
		JobID: j.JobID, Workflow: "refactor", GitDir: filepath.Join(root, "git"), WorkDir: filepath.Join(root, "work"), Environ: j.environ, Slots: 2,
	}, seed, store)
	if err != nil {
		j.t.Fatal(err)
	}
	return j.clone
}

// pack calls write with a new file, and returns it.
func (j *job) pack(write func(*os.File) error) *os.File {
	j.t.Helper()
	f, err := os.CreateTemp(j.t.TempDir(), "pack")
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { _ = f.Close() })
	if err := write(f); err != nil {
		j.t.Fatal(err)
	}
	return f
}

// bring sends commits to the clone, and returns how many packs and bytes that took.
func (j *job) bring(commits ...string) (packs int, bytes int64) {
	j.t.Helper()
	for {
		want, have, err := j.clone.Lacks(j.t.Context(), commits)
		if err != nil {
			j.t.Fatal(err)
		}
		if len(want) == 0 {
			return packs, bytes
		}
		if packs++; packs > 3 {
			j.t.Fatalf("the clone still asks for %q", want)
		}
		f := j.pack(func(f *os.File) error { return j.Pack(j.t.Context(), want, have, f) })
		if err := j.clone.Take(j.t.Context(), want, have, f); err != nil {
			j.t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			j.t.Fatal(err)
		}
		bytes += info.Size()
	}
}

// runAway runs an attempt in the clone, and brings what it did back.
func (j *job) runAway(a agent.Attempt) agent.Outcome {
	j.t.Helper()
	if a.Resolve != "" {
		j.bring(a.Base, a.Resolve)
	} else {
		j.bring(a.Base)
	}
	o, err := j.clone.Execute(j.t.Context(), script{j.clone.Environ(j.environ)}, a)
	if err != nil {
		j.t.Fatalf("%s: %v", a.Workflow, err)
	}
	if o.Commit == "" {
		return o
	}
	f := j.pack(func(f *os.File) error { return j.clone.Export(j.t.Context(), &a, o.Commit, f) })
	if err := j.Import(j.t.Context(), &a, &o, f); err != nil {
		j.t.Fatalf("%s: %v", a.Workflow, err)
	}
	return o
}

// What a machine has of a repository is not sent again, neither to the same job nor to the next.
func TestACloneFetchesOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n", "big": strings.Repeat("some line that is long\n", 20000)})
	sh(t, repo, environ, "head -c 300000 /dev/urandom >noise; for i in $(seq 150); do echo $i >f$i; done; git add -A; git commit -qm noise; git tag -am x v1; git branch old HEAD~1; git checkout -q --orphan other; git commit -qm 'not of the job'; git checkout -q main")
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	store := filepath.Join(t.TempDir(), "store")
	j.away(store)
	if packs, bytes := j.bring(j.head); packs != 1 || bytes < 300_000 {
		t.Errorf("the base took %d packs and %d bytes", packs, bytes)
	}
	if packs, _ := j.bring(j.head); packs != 0 {
		t.Errorf("the base was sent again in %d packs", packs)
	}
	first := j.does(`git describe --exact-match HEAD; git rev-parse old; echo more >>big; ! git rev-parse -q --verify other`)
	j.merges(first)
	if packs, bytes := j.bring(j.head); packs != 1 || bytes > 2000 {
		t.Errorf("the next head took %d packs and %d bytes", packs, bytes)
	}
	j.merges(j.does("grep -c more big; git commit -q --allow-empty -m mine; echo 2 >a"))
	small := func(j *job) {
		t.Helper()
		if got := sh(t, j.clone.hubDir(), environ, "git count-objects -v | grep -e in-pack -e count"); !strings.HasSuffix(got, "in-pack: 0") || len(strings.Fields(got)[1]) > 2 {
			t.Errorf("what a commit of an agent leaves in the hub of the clone:\n%s", got)
		}
	}
	small(j)
	// Another job in the same repository.
	sh(t, repo, environ, "echo 3 >a; git commit -qam third; git tag -am y v2")
	next := openJob(t, repo, repo, environ, workflow.Workspace{})
	next.away(store)
	if packs, bytes := next.bring(next.head); packs != 1 || bytes > 2000 {
		t.Errorf("the base of the next job took %d packs and %d bytes", packs, bytes)
	}
	next.does("git describe --exact-match HEAD; git describe HEAD~1; grep 3 a; echo 4 >a; git commit -qam mine")
	small(next)
	sh(t, repo, environ, "git tag -am z v3")
	last := openJob(t, repo, repo, environ, workflow.Workspace{})
	last.away(store)
	if packs, bytes := last.bring(last.head); packs != 1 || bytes > 1000 {
		t.Errorf("a new tag took %d packs and %d bytes", packs, bytes)
	}
	last.does("git rev-parse v3^{commit}")
}

func TestNoPasswordIsInASeed(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	sh(t, repo, environ, `git remote add origin https://me:hunter2@example.com/r.git; git remote add token https://hunter2@example.com/r; git remote add s ssh://git:hunter2@example.com/r
git config http.extraheader 'Authorization: hunter2'; git config credential.helper '!echo hunter2'; git config url.https://hunter2@h/.insteadOf gh:; git config remote.origin.proxy http://x:hunter2@p
git config core.autocrlf input; git config x.token hunter2`)
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	seed, err := j.Seed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(seed)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter2") {
		t.Errorf("%s", data)
	}
	for _, want := range []string{"https://example.com/r.git", "ssh://git@example.com/r", "autocrlf"} {
		if !strings.Contains(seed.Config, want) {
			t.Errorf("there is no %s in\n%s", want, seed.Config)
		}
	}
}

// A worker can send anything. What does not go together is a failure of the attempt, and nothing is merged.
func TestWorkThatDoesNotHangTogetherIsRefused(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	w := j.does("echo 2 >a")
	whole := func(want string, have ...string) *os.File {
		return j.pack(func(f *os.File) error { return j.Pack(t.Context(), []string{want}, have, f) })
	}
	stranger := j.inHub("git commit-tree -m stranger $(git write-tree)")
	gone := strings.Repeat("ab", 20)
	for name, c := range map[string]struct {
		commit, want string
		pack         *os.File
	}{
		"another history":   {stranger, "do not contain the commit", whole(stranger)},
		"a missing commit":  {gone, "cannot list", whole(w.Commit, w.Base)},
		"no name":           {"--all", "invalid commit name", whole(w.Commit, w.Base)},
		"no pack":           {w.Commit, "not a pack", j.pack(func(f *os.File) error { _, err := f.WriteString("PACK"); return err })},
		"half a pack":       {w.Commit, "cannot read", j.pack(func(f *os.File) error { _, err := f.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x09x"); return err })},
		"a count too large": {w.Commit, "cannot read", j.pack(func(f *os.File) error { _, err := f.WriteString("PACK\x00\x00\x00\x02\xff\xff\xff\xff"); return err })},
	} {
		a := j.attempt("")
		o := agent.Outcome{Changes: events.Changes{Commit: c.commit}}
		if err := j.Import(t.Context(), &a, &o, c.pack); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if o.Failure == nil || o.Failure.Type != retry.TypeWorkspace || !strings.Contains(o.Failure.Message, c.want) || o.Commit != "" {
			t.Errorf("%s: %+v with %q, want %s", name, o.Failure, o.Commit, c.want)
		}
	}
	a := j.attempt("")
	o := agent.Outcome{Changes: events.Changes{Commit: w.Commit, Files: 99}}
	if err := j.Import(t.Context(), &a, &o, whole(w.Commit, w.Base)); err != nil || o.Failure != nil || o.Files != 1 || o.Commit != w.Commit {
		t.Errorf("what hangs together: %+v, %v", o, err)
	}
	if err := j.Pack(t.Context(), []string{"--all"}, nil, nil); err == nil {
		t.Error("what is not a commit name is packed")
	}
}

// Many packs of a store become one, unless it is in use.
func TestStoresArePacked(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, environ := newRepo(t, nil)
	for _, name := range []string{"r", "used"} {
		sh(t, root, environ, `git init -q --bare `+name+`; cd `+name+`; for i in $(seq 21); do echo $i | git hash-object -w --stdin | git pack-objects -q objects/pack/pack >/dev/null; done; git prune-packed`)
	}
	if err := RepackStores(t.Context(), root, environ, func(name string) bool { return name == "used" }); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, root, environ, "ls r/objects/pack/*.pack | wc -l; git -C r cat-file --batch-all-objects --batch-check | wc -l; ls used/objects/pack/*.pack | wc -l"); got != "1\n21\n21" {
		t.Errorf("packs and objects: %q", got)
	}
}
