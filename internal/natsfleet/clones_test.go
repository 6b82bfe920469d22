package natsfleet

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// repo is a repository of a user, on the machine of the coordinator.
type repo struct {
	t       testing.TB
	dir     string
	environ []string
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	root := t.TempDir()
	r := &repo{t, filepath.Join(root, "repo"), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"}}
	if err := os.MkdirAll(filepath.Join(r.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.sh(`git config --global user.name Ada; git config --global user.email ada@example.com; git config --global init.defaultBranch main
git init -q; for i in 1 2 3 4 5 6 7 8 9; do echo $i; done >shared; echo x >sub/x; echo 'ignored/' >.gitignore; git add -A; git commit -qm first; git tag -am one v1`)
	return r
}

// sh runs a script in the repository, and returns what it printed.
func (r *repo) sh(script string) string {
	r.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = r.dir, r.environ
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// run runs a workflow in the repository, on the fleet if there is one.
func (r *repo) run(f *field, source string) mapreduce.Result {
	r.t.Helper()
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	config := r.config()
	if f != nil {
		of, coordinator := f.config(func(o *fleet.JobOptions) { o.Dir = r.dir })
		config.Executor, config.OnFleet, config.Observe = of.Executor, true, of.Observe
		defer func() { _ = coordinator.Close() }()
	}
	result, err := mapreduce.Run(r.t.Context(), config, w, []byte(source))
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func (r *repo) config() mapreduce.Config {
	return mapreduce.Config{
		Home: jobs.Home{Root: filepath.Join(filepath.Dir(r.dir), "prodigy")}, Dir: r.dir, Environ: r.environ, Version: "test",
		MaxRetries: 3,
		EndConfig:  mapreduce.EndConfig{Grace: time.Second},
		Hooks:      mapreduce.Hooks{Notice: func(text string) { r.t.Log("notice: " + text) }},
		LogConfig:  job.LogConfig{Durability: events.Batch},
	}
}

// elsewhere is for a worker on a machine that has nothing of the coordinator's.
func elsewhere(t testing.TB) func(o *fleet.WorkerOptions) {
	home := t.TempDir()
	return func(o *fleet.WorkerOptions) {
		o.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}
	}
}

// isolated are workflows with workspaces, and how many of their items succeed.
var isolated = map[string]struct {
	successful int
	text       string
}{
	"all that an agent leaves is merged": {4, `
workspace: {order: items}
map:
  input: [1, 2, 3, 4]
  agent_template:
    - shell: 'git describe --exact-match "$PRODIGY_BASE" && test "$(git symbolic-ref --short HEAD)" = "${workspace.branch}" && test -z "$(git status --porcelain --ignored)"'
    - shell: "echo of ${item} >new-${item}; sed -i 's/^${item}$/& changed/' sub/x; echo left >&2"
    - shell: "[ ${item} != 2 ] || { git add -A; git commit -qm mine; }"
    - shell: "[ ${item} != 3 ] || { git stash -qu; git stash pop -q; git config user.name Eve; touch .git/index.lock; }"
    - shell: "[ ${item} != 4 ] || { mkdir ignored; echo x >ignored/y; git checkout -qb away; git rm -q sub/x; }"
`},
	"who changes nothing is done, and what a failed one did is kept": {2, `
workspace: {order: items}
map:
  input: [1, 2, 3, 4]
  agent_template: [{shell: "case ${item} in 1) ;; 2) echo kept >kept; exit 3;; 3) rm -rf .git;; 4) echo 4 >four;; esac"}]
`},
	"conflicts are dead letters": {2, `
workspace: {order: items}
map:
  input: [1, 2, 3]
  agent_template: [{shell: "sed -i '5s/$/ by ${item}/' shared; [ ${item} != 3 ] || { git checkout -q shared; echo 3 >other; }"}]
`},
	"a conflict is resolved": {2, `
workspace: {order: items, resolve: [{shell: "git checkout -q --theirs shared; echo resolved >>shared; git add shared"}]}
map:
  input: [1, 2]
  agent_template: [{shell: "sed -i '5s/$/ by ${item}/' shared"}]
`},
	"an item is tried again in a workspace that is as new": {2, `
workspace: {order: items}
error_policy: {on_item_failure: retry, retry_config: {max_attempts: 3, backoff: {type: fixed, delay: 10ms}}}
map:
  input: [1, 2]
  agent_template: [{shell: "test ! -e new-${item} && echo $PRODIGY_ATTEMPT >new-${item}; [ $PRODIGY_ATTEMPT -gt 1 ]"}]
`},
	"a workspace is made ready once, and keeps what it may": {3, `
workspace: {order: items, setup: [{shell: "mkdir ignored; date +%s%N >ignored/when; test -n \"$PRODIGY_CHECKOUT\""}], keep: [ignored]}
map:
  input: [1, 2, 3]
  agent_template: [{shell: "test -s ignored/when && echo ${item} >new-${item}"}]
`},
	"verify finds the culprit, and the history is squashed": {3, `
workspace: {order: items, history: squash, verify: {commands: [{shell: "test ! -e bad"}], batch: 4}}
map:
  input: [1, 2, 3, 4]
  agent_template: [{shell: "echo x >new-${item}; [ ${item} != 3 ] || echo x >bad"}]
`},
	"only commits count, in the directories that are asked for": {2, `
workspace: {order: items, take: commits, sparse: [other]}
map:
  input: [1, 2]
  agent_template: [{shell: "test ! -e sub && echo x >new-${item} && git add new-${item} && git commit -qm 'of ${item}' && echo y >left"}]
`},
	"phases run here, and agents begin at what setup committed": {2, `
workspace: {order: items}
setup: [{shell: "echo before >prepared; git add -A; git commit -qm setup"}]
map:
  input: [1, 2]
  agent_template: [{shell: "cp prepared new-${item}"}]
reduce: [{shell: "cat new-1 new-2 >all; git add -A; git commit -qm reduce"}]
`},
}

// Workspaces on workers that share nothing with the coordinator come to the same as those here: the same events, and the same tree.
func TestWorkspacesOfAFleetAreAsThoseHere(t *testing.T) {
	f := newField(t)
	f.lease = time.Minute
	f.worker("a", 2, elsewhere(t))
	f.worker("b", 2, elsewhere(t))
	for i, name := range slices.Sorted(maps.Keys(isolated)) {
		c := isolated[name]
		if i%testenv.OneIn(4, 2) != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stories [2]map[string][]happened
			var trees [2]string
			for i, on := range []*field{nil, f} {
				r := newRepo(t)
				before := r.sh("git status; git config -l --local; git for-each-ref")
				result := r.run(on, "mode: mapreduce"+c.text)
				if result.State != jobs.Completed || result.Metrics.Successful != c.successful {
					t.Errorf("fleet %v: %s (%s) with %+v, want %d successful", on != nil, result.State, result.Reason, result.Metrics, c.successful)
				}
				stories[i] = story(t, result.Job)
				branch := "prodigy/" + result.Job.ID
				trees[i] = r.sh("git ls-tree -r " + branch + "; git log --first-parent --format='%s by %an' " + branch + "; git log --format='%s by %an' " + branch + " | sort; git fsck --no-dangling >/dev/null 2>&1")
				if after := r.sh("git status; git config -l --local; git for-each-ref | grep -v prodigy/"); after != before {
					t.Errorf("the user's repository is changed:\n%s\nbefore:\n%s", after, before)
				}
				kept(t, r, result)
			}
			if diff := cmp.Diff(stories[0], stories[1]); diff != "" {
				t.Errorf("the fleet does otherwise (-pool +fleet):\n%s", diff)
			}
			if trees[0] != trees[1] {
				t.Errorf("pool:\n%s\nfleet:\n%s", trees[0], trees[1])
			}
		})
	}
}

// kept looks whether what failed attempts did is in the hub, as the log says. The hub goes when all is delivered.
func kept(t *testing.T, r *repo, result mapreduce.Result) {
	hub := filepath.Join(result.Job.GitDir(), "hub")
	if _, err := os.Stat(hub); os.IsNotExist(err) != (result.Metrics.Successful == result.Metrics.TotalItems) {
		t.Errorf("the hub: %v, and %d of %d items succeeded", err, result.Metrics.Successful, result.Metrics.TotalItems)
	}
	if result.Metrics.Successful == result.Metrics.TotalItems {
		return
	}
	for _, rec := range recordsOf(t, result.Job) {
		if e, ok := rec.Event.(events.AgentFailed); ok && e.Commit != "" {
			r.sh("git --git-dir='" + hub + "' cat-file -e " + e.Commit + "^{tree}")
		}
	}
}

// A worker that is lost takes what its agents did with it: they work again elsewhere, and nothing is merged twice.
func TestALostWorkerLosesItsWorkspacesAndNothingElse(t *testing.T) {
	f := newField(t)
	f.lease = 2 * time.Second
	a := f.worker("a", 3, elsewhere(t))
	f.worker("b", 3, elsewhere(t))
	began := filepath.Join(t.TempDir(), "began")
	r := newRepo(t)
	f.doing.Go(func() {
		eventually(func() bool { _, err := os.Stat(began); return err == nil })
		a.kill()
	})
	result := r.run(f, source(12, 6, `echo ${item} >new-${item}; echo x >`+began+`; sleep 0.3; git add -A; git commit -qm "of ${item}"`, "workspace: git\n"))
	if result.State != jobs.Completed || result.Metrics.Successful != 12 {
		t.Fatalf("%s (%s) with %+v", result.State, result.Reason, result.Metrics)
	}
	branch := "prodigy/" + result.Job.ID
	if got := r.sh("git ls-tree --name-only " + branch + " | grep -c new-; git log --first-parent --format=%s " + branch + " | grep -c item_ || true"); got != "12\n12" {
		t.Errorf("files and merges: %q", got)
	}
	<-a.done
	if left, _ := filepath.Glob(filepath.Join(f.root, "a", "jobs", "*")); len(left) > 0 {
		t.Errorf("the worker has left %q", left)
	}
}

// What was sent when the connection was lost may never be answered.
func TestNothingIsWaitedForThatWasLostWithTheConnection(t *testing.T) {
	f := newField(t)
	h, err := connect(t.Context(), f.address(), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	waits := make(chan struct{})
	f.doing.Go(func() {
		<-waits
		f.restart(true)
	})
	err = h.transfer(t.Context(), func(ctx context.Context, _ io.Writer) error {
		close(waits)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return nil
		}
	})
	if !errors.Is(err, errLostConnection) {
		t.Errorf("got %v", err)
	}
}

// A job that is forgotten may be announced again at once. What it had on the worker before goes with it all the same, and what it
// has then stays.
func TestWhatAJobHadBeforeItWasAnnouncedAgainGoesWithIt(t *testing.T) {
	w := newTestWorker(t)
	dir := filepath.Join(w.o.Home, "jobs", "key")
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	if err := os.MkdirAll(before, 0o700); err != nil {
		t.Fatal(err)
	}
	var j *workerJob
	w.turn(func(s *workerState) { // until it is announced again
		w.tidy(s, &workerJob{key: "key"})
		j = newTestJob(w, "key", time.Minute)
	})
	if err := os.MkdirAll(after, 0o700); err != nil {
		t.Fatal(err)
	}
	w.runs.Wait()
	if there, err := filepath.Glob(filepath.Join(w.o.Home, "jobs", "*", "*")); err != nil || !slices.Equal(there, []string{after}) {
		t.Errorf("there is %v, %v, want what it has now alone", there, err)
	}
	h, _ := w.hold(j, 1)
	forget(w, "key")
	newTestJob(w, "key", time.Minute)
	forget(w, "key")
	w.runs.Wait()
	if _, err := os.Stat(after); err != nil {
		t.Errorf("it is removed under what still runs: %v", err)
	}
	w.finish(h, fleet.Report{Kind: fleet.Returned})
	w.runs.Wait()
	if there, err := filepath.Glob(filepath.Join(w.o.Home, "jobs", "*")); err != nil || len(there) > 0 {
		t.Errorf("there is %v, %v, want nothing", there, err)
	}
}
