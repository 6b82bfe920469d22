package gitspace

import (
	"errors"
	"strings"
	"testing"

	"prodigy/internal/retry"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// conflicted makes work that conflicts with the head.
func conflicted(t *testing.T, content files, first, second string) (*job, Work) {
	t.Helper()
	j := newJob(t, content, workflow.Workspace{})
	one, two := j.does(first), j.does(second)
	if m := j.merges(one, two); len(m.Failed) != 1 {
		t.Fatalf("merged: %+v", m)
	}
	return j, two
}

func TestAConflictIsResolvedInAWorkspaceThatHasIt(t *testing.T) {
	t.Parallel()
	content := files{"a": "1\n2\n3\n", "gone": "x\n", "bin": "\x00\x01", "other": "1\n"}
	const text1, text2 = "echo one > a", "echo two > a; echo 2 > other"
	for i, c := range []struct {
		name, first, second, resolve string
		refused                      string
		want                         string // tree
	}{
		{name: "edits the file", first: text1, second: text2, resolve: "grep -q '<<<<<<<' a; test \"$(cat other)\" = 2; echo both > a", want: "a: both bin: gone: x other: 2"},
		{name: "commits it", first: text1, second: text2, resolve: "echo both > a; git add -A; git commit -qm resolved; echo more > new", want: "a: both bin: gone: x new: more other: 2"},
		{name: "takes one side", first: text1, second: text2, resolve: "git checkout -q --theirs a; git add a", want: "a: two bin: gone: x other: 2"},
		{name: "does nothing", first: text1, second: text2, resolve: "true", refused: "the conflict in a:1 is not resolved"},
		{name: "stages the marks", first: text1, second: text2, resolve: "git add -A; git commit -qm x", refused: "the conflict in a:1 is not resolved"},
		{name: "gives up", first: text1, second: text2, resolve: "git merge --abort", refused: "was abandoned"},
		{name: "forgets the other side", first: text1, second: text2, resolve: "git checkout -q -f HEAD; rm -f .git/MERGE_*; echo x > a", refused: "was abandoned"},
		{name: "deleted, staged", first: "git rm -q gone", second: "echo y >> gone", resolve: "git add gone", want: "a: 1 2 3 bin: gone: x y other: 1"},
		{name: "deleted, left", first: "git rm -q gone", second: "echo y >> gone", resolve: "true", refused: "the conflict in gone is not resolved"},
		{name: "binary, left", first: "printf '\\0\\2' > bin", second: "printf '\\0\\3' > bin", resolve: "true", refused: "the conflict in bin is not resolved"},
		{name: "binary, staged", first: "printf '\\0\\2' > bin", second: "printf '\\0\\3' > bin; echo 2 > other", resolve: "git checkout -q --ours bin; git add bin", want: "a: 1 2 3 bin: gone: x other: 2"},
		{name: "another merge", first: text1, second: text2, resolve: "git merge --abort; git checkout -qb x HEAD~1; git commit -q --allow-empty -m x; git checkout -q -; git merge -q --no-commit --no-ff x || true", refused: "it left a merge unfinished"},
	} {
		if i%testenv.OneIn(6, 2) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j, w := conflicted(t, content, c.first, c.second)
			a := j.attempt(c.resolve)
			a.Resolve = w.Commit
			o, work := j.run(a)
			if c.refused != "" {
				if o.Failure == nil || o.Failure.Type != retry.TypeWorkspace || !strings.Contains(o.Failure.Message, c.refused) {
					t.Errorf("outcome %+v, want it refused: %s", o.Failure, c.refused)
				}
				return
			}
			if o.Failure != nil {
				t.Fatal(o.Failure.Message)
			}
			if m := j.merges(work); len(m.Items) != 1 {
				t.Fatalf("merged: %+v", m)
			}
			if got := strings.Join(strings.Fields(strings.Map(printable, j.tree())), " "); got != c.want {
				t.Errorf("files %q, want %q", got, c.want)
			}
			j.sound()
			if got := j.changedBy(j.does("test ! -e .git/MERGE_HEAD")); got != "" {
				t.Errorf("the next attempt finds %s", got)
			}
		})
	}
}

func printable(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}

func TestAResolutionOfAPersonIsMerged(t *testing.T) {
	t.Parallel()
	j, w := conflicted(t, files{"a": "1\n"}, "echo one > a", "echo two > a; echo 2 > other")
	if _, err := j.Deliver(t.Context(), j.head); err != nil {
		t.Fatal(err)
	}
	j.in("git fetch -q " + j.hubDir() + " " + w.ref() + "; git checkout -q prodigy/mapreduce-1; git merge -q FETCH_HEAD || true; echo both > a; git add -A; git commit -qm resolved; git tag mine; git checkout -q main")
	j.merges(j.does("echo later > later")) // the head has moved on
	for revision, want := range map[string]string{"nothing": "not found in", "prodigy/mapreduce-1~1": "is already part of the result", "--all": "not found in"} {
		var state *StateError
		if _, err := j.Adopt(t.Context(), j.head, revision, 1, 2); !errors.As(err, &state) || !strings.Contains(state.Reason, want) {
			t.Errorf("%s: %v, want %q", revision, err, want)
		}
	}
	work, err := j.Adopt(t.Context(), j.head, "mine", 1, 2)
	if err != nil || work.Files != 2 {
		t.Fatalf("%+v, %v", work, err)
	}
	// The user deletes the commit; the job has it.
	j.in("git tag -d mine >/dev/null; git update-ref -d refs/heads/prodigy/mapreduce-1; git reflog expire --expire=now --all; git gc -q --prune=now; git cat-file -e " + work.Commit + " && exit 1 || true")
	work.ItemID = "item_1"
	if m := j.merges(work); len(m.Items) != 1 {
		t.Fatalf("merged: %+v", m)
	}
	j.wantTree("a: both", "later: later", "other: 2")
	if d, err := j.Deliver(t.Context(), j.head); err != nil || d.Branch == "" {
		t.Errorf("%+v, %v", d, err)
	}
	j.sound()
}
