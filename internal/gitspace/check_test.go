package gitspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// spoil damages an object in the hub, as a disk does that has lost what it had promised to keep.
func (j *job) spoil(object string, remove bool) {
	j.t.Helper()
	file := filepath.Join(j.hubDir(), "objects", object[:2], object[2:])
	err := os.Remove(file)
	if err == nil && !remove {
		err = os.WriteFile(file, nil, 0o444)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// goDown does what the end of a machine does to what a job knows.
func (j *job) goDown() {
	j.t.Helper()
	if err := os.WriteFile(j.bootFile(), []byte("another"), 0o644); err != nil {
		j.t.Fatal(err)
	}
}

// What git and prodigy were writing in the hub when they were killed is not taken for a ref, and in nobody's way.
func TestHalfWrittenRefsAreRemoved(t *testing.T) {
	t.Parallel()
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	work := j.does("echo 2 > a")
	for name, text := range map[string]string{"packed-refs.new": "# pack-refs with: peeled", "packed-refs.lock": "", "tmp_ref_1": ""} {
		if err := os.WriteFile(filepath.Join(j.hubDir(), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	j.reopen(work)
	j.merges(work)
	j.sound()
}

// Work that a loss of power has damaged fails with a reason; the others are merged.
func TestDamagedWorkIsToldAndTheOthersMerged(t *testing.T) {
	for name, c := range map[string]struct {
		object string // of the commit
		remove bool
	}{
		"a file is empty":       {":new", false},
		"a file is missing":     {":new", true},
		"a tree is missing":     {"^{tree}", true},
		"the commit is missing": {"^{commit}", true},
	} {
		j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
		bad, good := j.does("echo bad > new"), j.does("echo good > other")
		j.spoil(j.inHub("git rev-parse "+bad.Commit+c.object), c.remove)
		j.goDown()
		j.reopen(bad, good)
		m := j.merges(bad, good)
		if len(m.Items) != 1 || m.Items[0].ItemID != good.ItemID || len(m.Failed) != 1 {
			t.Fatalf("%s: merged %+v", name, m)
		}
		if f := m.Failed[0]; f.Type != retry.TypeWorkspace || !strings.Contains(f.Message, "are lost") {
			t.Errorf("%s: %+v", name, f)
		}
		if boot, err := os.ReadFile(j.bootFile()); err != nil || string(boot) == "another" {
			t.Errorf("%s: the hub would be looked at again: %q, %v", name, boot, err)
		}
	}
}

// When what was merged is damaged nothing goes on, and the reason says where what there is of it can be found.
func TestADamagedHeadStopsTheJob(t *testing.T) {
	for name, object := range map[string]string{"a file": ":new", "the tree": "^{tree}", "the commit": "^{commit}"} {
		j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
		j.merges(j.does("echo x > new"))
		j.spoil(j.inHub("git rev-parse "+j.head+object), true)
		j.goDown()
		_, err := Open(t.Context(), j.config, j.start, j.head, nil)
		if err == nil {
			t.Fatalf("%s: it was opened", name)
		}
		for _, want := range []string{"are damaged in " + j.hubDir(), "prodigy/mapreduce-1", "refs/prodigy/jobs/mapreduce-1", "prodigy resume"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q says nothing of %q", name, err, want)
			}
		}
	}
}

// Objects of what is merged are packed on the way, without those of the user; work that waits is still there.
func TestTheHubIsPackedOnTheWay(t *testing.T) {
	j := newJob(t, files{"a": "1\n"}, workflow.Workspace{})
	j.unpacked.Store(packEvery - 2)
	waits := j.does("echo waits > waits")
	j.merges(j.does("echo 1 > one"), j.does("echo 2 > two"))
	packs, err := filepath.Glob(filepath.Join(j.hubDir(), "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs: %v, %v", packs, err)
	}
	if out := j.inHub("git verify-pack -v objects/pack/*.pack | grep -c '^[0-9a-f]\\{40\\} commit'; git rev-parse HEAD:a; git verify-pack -v objects/pack/*.pack | grep $(git rev-parse HEAD:a) || true"); !strings.HasPrefix(out, "4\n") || strings.Count(out, "\n") != 1 {
		t.Errorf("in the pack: %q", out)
	}
	if loose := j.inHub("git count-objects"); !strings.HasPrefix(loose, "3 objects") { // blob, tree and commit of what waits
		t.Errorf("left: %s", loose)
	}
	if m := j.merges(waits); len(m.Items) != 1 {
		t.Errorf("merged: %+v", m)
	}
	j.reopen()
	j.sound()
}
