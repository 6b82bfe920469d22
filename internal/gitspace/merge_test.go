package gitspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"

	"github.com/google/go-cmp/cmp"
)

// mergeContent is what all cases of TestWhatMergesAndWhatConflicts begin with.
var mergeContent = files{
	"a": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "dir/x": "x\n", "dir/y": "y\n", "dir/z": "z\n", "gone": "g1\ng2\ng3\ng4\n", "bin": "\x00\x01", "log": "1\n", "sum": "1\n", "README": "r\n",
	".gitattributes": "log merge=union\nsum merge=theirs\n",
}

var mergeCases = []struct {
	name, first, second string
	conflict            string // the paths; empty: it merges
	want                string // a command whose output shows it, and the output behind " = "
}{
	{name: "lines apart", first: "sed -i 1s/1/one/ a", second: "sed -i 9s/9/nine/ a", want: "git show $H:a | tr -d '\\n' = one2345678nine"},
	{name: "the same line", first: "sed -i 5s/5/x/ a", second: "sed -i 5s/5/y/ a", conflict: "a"},
	{name: "the same change", first: "sed -i 5s/5/x/ a", second: "sed -i 5s/5/x/ a", want: "git show $H:a | sed -n 5p = x"},
	{name: "lines that touch", first: "sed -i 4s/4/x/ a", second: "sed -i 5s/5/y/ a", conflict: "a"},
	{name: "changed and deleted", first: "echo x >> gone", second: "git rm -q gone", conflict: "gone"},
	{name: "renamed and deleted", first: "git mv gone new", second: "git rm -q gone", conflict: "new"},
	{name: "renamed and changed", first: "git mv gone new; git commit -qm x", second: "echo x >> gone", want: "git show $H:new | tail -1 = x"},
	{name: "both added", first: "echo x > new", second: "echo y > new", conflict: "new"},
	{name: "both added the same", first: "echo x > new", second: "echo x > new", want: "git show $H:new = x"},
	{name: "binary", first: "printf '\\0\\2' > bin", second: "printf '\\0\\3' > bin", conflict: "bin"},
	{name: "links", first: "ln -s a link", second: "ln -s b link", conflict: "link"},
	{name: "file and directory", first: "echo x > new", second: "mkdir new; echo y > new/y", conflict: "new"},
	{name: "added in a renamed directory", first: "git mv dir moved", second: "echo x > dir/new", conflict: "moved/new"},
	{name: "content and mode", first: "chmod +x a", second: "sed -i 5s/5/y/ a", want: "git ls-tree $H a | cut -c1-6 = 100755"},
	{name: "union", first: "echo x >> log", second: "echo y >> log", want: "git show $H:log | tr -d '\\n' = 1xy"},
	{name: "a driver", first: "echo x > sum", second: "echo y > sum", want: "git show $H:sum = y"},
	{name: "names that differ by case", first: "echo x > readme2", second: "echo y > README2", want: "git ls-tree --name-only $H | grep -ci readme2 = 2"},
	{name: "nothing in common", first: "git rm -rq dir", second: "echo y > other", want: "git ls-tree --name-only $H dir other = other"},
}

func TestWhatMergesAndWhatConflicts(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, mergeContent)
	sh(t, repo, environ, "git config merge.theirs.driver 'cp %B %A'")
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	base := j.head
	for i, c := range mergeCases {
		if i%testenv.OneIn(6, 2) != 0 {
			continue
		}
		j.head = base
		first, second := j.does(c.first), j.does(c.second)
		m := j.merges(first, second)
		var paths []string
		for _, f := range m.Failed {
			for _, conflict := range f.Conflicts {
				paths = append(paths, conflict.Path)
				if !strings.HasPrefix(conflict.Message, "CONFLICT") {
					t.Errorf("%s: message %q", c.name, conflict.Message)
				}
			}
		}
		if got := strings.Join(paths, " "); got != c.conflict && !strings.HasPrefix(got, c.conflict+" ") && !strings.HasPrefix(got, c.conflict+"~") || c.conflict == "" && got != "" {
			t.Errorf("%s: conflicts in %q, want %q", c.name, got, c.conflict)
		}
		if c.conflict != "" && !slices.Contains(m.Failed[0].Conflicts[0].With, first.ItemID) && c.name != "added in a renamed directory" && c.name != "file and directory" {
			t.Errorf("%s: the other item is not named: %+v", c.name, m.Failed[0].Conflicts)
		}
		if command, want, has := strings.Cut(c.want, " = "); has {
			if got := j.inHub("H=" + j.head + "; " + command); got != want {
				t.Errorf("%s: got %q, want %q", c.name, got, want)
			}
		}
	}
}

func TestAttributesThatAnAgentChangesCountForTheNextMerge(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"log": "1\n", "sub/log": "1\n"}, workflow.Workspace{})
	rule := j.does("echo 'log merge=union' > sub/.gitattributes")
	one, two := j.does("echo x >> sub/log"), j.does("echo y >> sub/log")
	three, four := j.does("echo x >> log"), j.does("echo y >> log")
	m := j.merges(rule, one, two, three, four)
	if len(m.Failed) != 1 || m.Failed[0].ItemID != four.ItemID {
		t.Fatalf("failed: %+v", m.Failed)
	}
	gone := j.does("rm sub/.gitattributes")
	five, six := j.does("echo p >> sub/log"), j.does("echo q >> sub/log")
	j.reopen(gone, five, six) // which work changed attributes is not remembered
	if m := j.merges(gone, five, six); len(m.Failed) != 1 || m.Failed[0].ItemID != six.ItemID {
		t.Fatalf("failed: %+v", m.Failed)
	}
}

func TestSquashMakesOneCommitAnItem(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{History: workflow.HistorySquash})
	j.merges(j.does("echo 2 > b; git add -A; git commit -qm one; echo 3 > c; git add -A; git commit -qm two"), j.does("echo 4 > d"))
	if got := j.inHub("git log --format='%p %s' " + j.start.Base + ".." + j.head + " | cut -d' ' -f2-"); got != "refactor: item_1\nrefactor: item_0" {
		t.Errorf("history: %s", got)
	}
	j.wantTree("a: 1", "b: 2", "c: 3", "d: 4")
}

func TestItemIDsSurviveTheirTrailers(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"item_1", "src/a b.go", "two\nlines", `"quoted"`, "", " blank ", "ünï", "\xff", "a: b", "tab\there", strings.Repeat("long", 100)} {
		if got := parseTrailer(trailerValue(id)); got != id {
			t.Errorf("%q became %q", id, got)
		}
		if strings.ContainsAny(trailerValue(id), "\n\r") {
			t.Errorf("%q: the trailer %q has several lines", id, trailerValue(id))
		}
	}
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	one, two := j.does("echo 2 > a"), j.does("echo 3 > a")
	one.ItemID = "two\nlines \"x\""
	m := j.merges(one, two)
	if len(m.Failed) != 1 || !slices.Equal(m.Failed[0].Conflicts[0].With, []string{one.ItemID}) {
		t.Errorf("failed: %+v", m.Failed)
	}
}

// verifying is a Run for a job whose verify fails when a file of a culprit is there. It counts its runs.
func (j *job) verifying(runs *int) {
	j.Space.Run = func(_ context.Context, kind, dir, base string, worker int) (agent.Outcome, error) {
		if kind != "verify" || worker != 0 {
			return agent.Outcome{}, errors.New("unexpected " + kind)
		}
		*runs++
		if found, _ := filepath.Glob(filepath.Join(dir, "culprit*")); len(found) > 0 {
			return agent.Outcome{Failure: &agent.Failure{Failure: retry.Failure{Type: "exit", Message: "found " + filepath.Base(found[0])}, Step: "shell_0"}}, nil
		}
		return agent.Outcome{}, nil
	}
}

func TestVerifyFindsExactlyTheCulprits(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{Verify: &workflow.Verify{Batch: 8}})
	base := j.head
	var runs, told, passed int
	j.verifying(&runs)
	var begun events.VerifyStarted
	j.Emit = func(_ int, e events.Event) {
		switch e := e.(type) {
		case events.VerifyStarted:
			if told++; len(e.ItemIDs) == 0 || e.Commit == begun.Commit {
				t.Errorf("verify of %s with %d items", e.Commit, len(e.ItemIDs))
			}
			begun = e
		case events.VerifyCompleted:
			if told--; e.Commit != begun.Commit {
				t.Errorf("verify of %s has ended, and %s had begun", e.Commit, begun.Commit)
			}
			if e.Passed {
				passed++
			}
		}
	}
	sound, bad := make([]Work, 8), make([]Work, 8)
	for i := range 8 {
		sound[i] = j.does("echo x > fine$N")
	}
	for n, culprits := range [][]int{{2, 3}, {0}, nil, {3}, {1, 4, 6}, {0, 7}, {7}, {0, 1, 2, 3, 4, 5, 6, 7}} {
		if n%testenv.OneIn(4, 2) != 0 && len(culprits) < 8 {
			continue
		}
		work := slices.Clone(sound)
		var want []string
		for _, i := range culprits {
			if bad[i].Commit == "" {
				bad[i] = j.does("echo x > culprit$N; echo x > fine$N")
			}
			work[i] = bad[i]
			want = append(want, bad[i].ItemID)
		}
		runs, passed = 0, 0
		m, err := j.Merge(t.Context(), base, work)
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, f := range m.Failed {
			failed = append(failed, f.ItemID)
			if f.Type != retry.TypeVerifyFailed || !strings.Contains(f.Message, "workspace.verify: shell_0: found culprit") || f.Outcome == nil {
				t.Errorf("failed: %+v", f)
			}
		}
		slices.Sort(failed)
		slices.Sort(want)
		if diff := cmp.Diff(failed, want); diff != "" || len(m.Items)+len(m.Failed) != 8 {
			t.Errorf("culprits %v, %d merged: %s", culprits, len(m.Items), diff)
		}
		if told != 0 || passed == 0 && len(culprits) < 8 {
			t.Errorf("culprits %v: %d runs of verify have no end, %d passed", culprits, told, passed)
		}
		if most := 6*len(culprits) + 1; runs > most {
			t.Errorf("%d culprits: %d runs, want at most %d", len(culprits), runs, most)
		}
		if got := j.inHub("git ls-tree --name-only " + m.Head + " | grep -c ^fine || true"); got != fmt.Sprint(8-len(culprits)) {
			t.Errorf("culprits %v: %s merged", culprits, got)
		}
	}
}

// Work that conflicts only with a culprit is no conflict once the culprit is out.
func TestAConflictWithACulpritIsNone(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{Verify: &workflow.Verify{}})
	var runs int
	j.verifying(&runs)
	for _, order := range [][]string{
		{"echo x > culprit; echo 2 > a", "echo 3 > a"},
		{"echo x > b", "echo x > culprit; echo 2 > a", "echo 3 > a", "echo y > c"},
	} {
		var work []Work
		for _, text := range order {
			work = append(work, j.does(text))
		}
		m, err := j.Merge(t.Context(), j.head, work)
		if err != nil || len(m.Failed) != 1 || m.Failed[0].Type != retry.TypeVerifyFailed || len(m.Items) != len(order)-1 {
			t.Errorf("%v: merged %+v, %v", order, m, err)
		}
		if got := j.inHub("git show " + m.Head + ":a"); got != "3" {
			t.Errorf("a is %q", got)
		}
	}
}

func TestSetupRunsOnceInEachWorkspaceAndWhatIsKeptStays(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n", ".gitignore": "node_modules/\n"}, workflow.Workspace{Setup: []workflow.Step{{}}, Keep: []string{"node_modules"}})
	runs := 0
	fails := false
	j.Space.Run = func(_ context.Context, kind, dir, base string, worker int) (agent.Outcome, error) {
		runs++
		if fails {
			return agent.Outcome{Failure: &agent.Failure{Failure: retry.Failure{Type: "exit", Message: "npm: no network"}, Step: "npm"}}, nil
		}
		write(t, dir, files{"node_modules/m": "m", "tmp": "x", "a": "changed"})
		return agent.Outcome{}, nil
	}
	for range 3 {
		if got := j.changedBy(j.does("test -e node_modules/m; test ! -e tmp; test \"$(cat a)\" = 1; echo x > node_modules/$N; mkdir -p sub; echo y > sub/y; git add -A")); got != "A sub/y" {
			t.Errorf("changed: %q", got)
		}
	}
	if runs != 1 {
		t.Errorf("the setup ran %d times in one workspace", runs)
	}
	if got := j.inHub("git rev-parse refs/items/2/1 >/dev/null; ls " + j.WorkDir + "/1/node_modules | tr '\\n' ' '"); got != "0 1 2 m" {
		t.Errorf("kept: %s", got)
	}
	fails = true
	a := j.attempt("true")
	a.Worker = 2
	o, _ := j.run(a)
	if o.Failure == nil || o.Failure.Step != "workspace.setup/npm" || exists(j.WorkDir+"/2") {
		t.Errorf("outcome: %+v", o.Failure)
	}
}

func TestSparseWorkspacesHaveOnlyTheirDirectories(t *testing.T) {
	t.Parallel()
	content := files{"top": "1\n", "services/api/x": "1\n", "services/web/x": "1\n", "services/f": "1\n", "docs/x": "1\n"}
	j := newJob(t, content, workflow.Workspace{Sparse: []string{"services/api"}})
	if j.start.Files != 3 {
		t.Errorf("%d files, want 3", j.start.Files)
	}
	for range 2 {
		w := j.does("test \"$(git ls-files -t | grep -c ^S)\" = 2; test \"$(find . -name .git -prune -o -type f -print | sort | tr '\\n' ' ')\" = './services/api/x ./services/f ./top '; echo 2 > services/api/x; mkdir -p docs; echo new > docs/new; git update-index --assume-unchanged top")
		if got := j.changedBy(w); got != "A docs/new M services/api/x" {
			t.Errorf("changed: %q", got)
		}
	}
	m := j.merges(j.does("echo 3 > services/api/x"))
	if len(m.Items) != 1 {
		t.Fatal(m)
	}
	j.wantTree("docs/x: 1", "services/api/x: 3", "services/f: 1", "services/web/x: 1", "top: 1")
}

func TestWhatIsNotCommittedIsThrownAwayAndCounted(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n", "b": "1\n"}, workflow.Workspace{Take: workflow.TakeCommits})
	o, w := j.run(j.attempt("echo 2 > a; git commit -qam two; echo 3 > b; mkdir d; echo x > d/x; echo y > d/y"))
	if o.Discarded != 3 || j.changedBy(w) != "M a" {
		t.Errorf("outcome: %+v, changed %s", o, j.changedBy(w))
	}
	if o, w := j.run(j.attempt("echo 3 > b")); w.Commit != "" || o.Discarded != 1 {
		t.Errorf("outcome: %+v", o)
	}
}

func TestTheOutputOfMergeTreeIsParsed(t *testing.T) {
	t.Parallel()
	out := strings.Join([]string{
		"aaaa", "a b", "c", "", "1", "x", "Auto-merging", "Auto-merging x\n",
		"1", "a b", "CONFLICT (contents)", "CONFLICT (content): Merge conflict in a b\n", "2", "c", "d", "CONFLICT (rename/delete)", "CONFLICT (rename/delete): c\n", "",
	}, "\x00")
	tree, conflicts, err := parseMergeTree(out)
	want := []events.Conflict{{Path: "a b", Message: "CONFLICT (content): Merge conflict in a b"}, {Path: "c", Message: "CONFLICT (rename/delete): c"}}
	if diff := cmp.Diff(conflicts, want); diff != "" || tree != "aaaa" || err != nil {
		t.Errorf("%s %v %s", tree, err, diff)
	}
	for _, bad := range []string{"", "aaaa", "aaaa\x00\x00x\x00", "aaaa\x00\x003\x00a\x00", "aaaa\x00\x00-1\x00a\x00b\x00"} {
		if _, _, err := parseMergeTree(bad); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}

func FuzzMergeTreeOutput(f *testing.F) {
	f.Add("aaaa\x00a\x00\x001\x00a\x00CONFLICT (contents)\x00text\x00")
	f.Fuzz(func(t *testing.T, out string) { _, _, _ = parseMergeTree(out) })
}

func TestAMergeThatIsStoppedBlamesNobody(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{Verify: &workflow.Verify{}})
	w := j.does("echo 2 > b")
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	j.Space.Run = func(ctx context.Context, _, _, _ string, _ int) (agent.Outcome, error) {
		cancel(stop)
		return agent.Outcome{}, context.Cause(ctx)
	}
	if m, err := j.Merge(ctx, j.head, []Work{w}); !errors.Is(err, stop) || len(m.Items)+len(m.Failed) > 0 {
		t.Errorf("merged %+v, %v", m, err)
	}
}

// Work that is not there any more is the failure of its item, and the others are merged.
func TestWorkThatIsGoneFailsAlone(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	good, gone := j.does("echo 2 > b"), Work{
		ItemID: "gone", Index: 9, Base: j.head, Changes: events.Changes{Commit: strings.Repeat("1", 40)},
		Date: time.Now(),
	}
	m := j.merges(gone, good)
	if len(m.Items) != 1 || len(m.Failed) != 1 || m.Failed[0].ItemID != "gone" || m.Failed[0].Type != retry.TypeWorkspace {
		t.Errorf("merged: %+v", m)
	}
}
