package gitspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/workflow"
)

// A git that is killed in the hub leaves its locks and half written files. Nobody else works there, so they go.
func TestLocksOfAKilledGitAreRemovedFromTheHub(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	w := j.does("echo 2 > b")
	left := []string{"refs/heads/job.lock", "refs/items/0/1.lock", "packed-refs.lock", "config.lock", "objects/pack/tmp_pack_x", "shallow.lock"}
	for _, name := range left {
		write(t, j.hubDir(), files{name: ""})
	}
	// In the user's repository only those of the job's own refs go.
	mine, theirs := filepath.Join(j.repo, ".git", "refs/heads/prodigy/mapreduce-1.lock"), filepath.Join(j.repo, ".git", "refs/heads/main.lock")
	write(t, "/", files{mine: "", theirs: ""})
	j.reopen(w)
	for _, name := range left {
		if exists(filepath.Join(j.hubDir(), name)) {
			t.Errorf("%s is left", name)
		}
	}
	if exists(mine) || !exists(theirs) {
		t.Errorf("in the user's repository: own lock %v, another %v", exists(mine), exists(theirs))
	}
	if m := j.merges(w); len(m.Items) != 1 {
		t.Errorf("merged: %+v", m)
	}
}

// Refs make each fetch slower, so those of merged work are deleted.
func TestRefsOfTheHubStayFew(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	waits, merged := j.does("echo 1 > b"), j.does("echo 2 > c")
	j.merges(merged)
	if got := j.inHub("git for-each-ref --format='%(refname)'"); got != headRef+"\n"+waits.ref() {
		t.Errorf("refs: %q", got)
	}
}

// Without the merge base git looks for it among all that was merged since. A git that stands for a newer one
// notes how it was called.
func TestTheMergeBaseIsGivenWhereGitTakesIt(t *testing.T) {
	t.Parallel()
	repo, environ := newRepo(t, files{"a": "1\n"})
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(t.TempDir(), "calls")
	for _, c := range []struct {
		version string
		given   bool
	}{{"2.39.1", false}, {"2.45.0", true}} {
		dir := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *merge-tree*) echo \"$*\" >> %s ;; version|*' version') echo git version %s; exit ;; esac\nfor arg; do shift; case $arg in --merge-base=*) ;; *) set -- \"$@\" \"$arg\" ;; esac; done\nexec %s \"$@\"\n", calls, c.version, real)
		if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		j := openJob(t, repo, repo, environ, workflow.Workspace{})
		j.git.path = filepath.Join(dir, "git")
		out, err := place{git: &j.git}.output(t.Context(), "version")
		if err != nil || !strings.Contains(out, c.version) {
			t.Fatalf("%q, %v", out, err)
		}
		_, minor, _ := parseVersion(out)
		j.git.mergeBase = minor >= 40
		base := j.head
		first, second := j.does("echo 1 > b"), j.does("echo 2 > c")
		if m := j.merges(first, second); len(m.Items) != 2 {
			t.Fatalf("merged: %+v", m)
		}
		lines := strings.Split(strings.TrimSpace(sh(t, "/", environ, "cat "+calls+"; : > "+calls)), "\n")
		if given := slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "--merge-base="+base) }); given != c.given || lines[0] == "" {
			t.Errorf("git %s: %q", c.version, lines)
		}
		if err := Remove(t.Context(), j.config); err != nil {
			t.Fatal(err)
		}
	}
}
