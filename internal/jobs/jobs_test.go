package jobs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

var day = time.Date(2026, 11, 20, 16, 15, 30, 722e6, time.UTC)

func create(t *testing.T, h Home, repo, mode string, now time.Time) Job {
	t.Helper()
	job, err := h.Create(repo, mode, now)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestAnIDIsModeTimeInUTCAndFourDigits(t *testing.T) {
	now := day.In(time.FixedZone("CET", 3600))
	if got, want := newID("mapreduce", now, 15*36+9), "mapreduce-20261120-161530-k2f9"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := newID("standard", day.Truncate(time.Second), suffixes-1), "standard-20261120-161530-00zz"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestIDsSortByTheMillisecondTheyWereMadeIn(t *testing.T) {
	last := ""
	for ms := range 2000 {
		id := newID("mapreduce", day.Add(time.Duration(ms)*time.Millisecond), (ms*977)%suffixes)
		if id <= last {
			t.Fatalf("got %s after %s", id, last)
		}
		last = id
	}
}

func TestJobsOfOneMillisecondGetDifferentIDsInAllRepos(t *testing.T) {
	h := Home{Root: t.TempDir()}
	ids := make([]string, 120)
	var group errgroup.Group
	group.SetLimit(50)
	for i := range ids {
		group.Go(func() error {
			job, err := h.Create([]string{"a", "b"}[i%2], "mapreduce", day)
			ids[i] = job.ID
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	if got := len(slices.Compact(ids)); got != 120 {
		t.Errorf("got %d ids, want 120", got)
	}
}

func TestAnIDThatAnotherRepoHasIsNotClaimed(t *testing.T) {
	h := Home{Root: t.TempDir()}
	job := create(t, h, "a", "mapreduce", day)
	for _, repo := range []string{"a", "b"} {
		ok, err := h.claim(Job{ID: job.ID, Repo: repo, home: h})
		if ok || err != nil {
			t.Errorf("%s: got %v %v, want false", repo, ok, err)
		}
	}
	if n, err := h.places(job.ID); n != 1 || err != nil {
		t.Errorf("got the id at %d places %v, want 1", n, err)
	}
}

func TestAJobHasItsFilesUnderItsRepoAndID(t *testing.T) {
	h := Home{Root: t.TempDir()}
	job := create(t, h, "repo", "standard", day)
	for got, want := range map[string]string{
		job.EventsDir():       "events/repo/ID",
		job.DLQFile():         "dlq/repo/ID/dlq.jsonl",
		job.StateDir():        "state/repo/ID",
		job.WorkflowFile():    "state/repo/ID/workflow.yml",
		job.MetaFile():        "state/repo/ID/job.json",
		job.ItemsFile():       "state/repo/ID/items.jsonl",
		job.ResultsFile():     "state/repo/ID/results.jsonl",
		job.ResultsMetaFile(): "state/repo/ID/results.meta.json",
		job.OutputsDir():      "state/repo/ID/outputs",
	} {
		want = filepath.Join(h.Root, filepath.FromSlash(strings.ReplaceAll(want, "ID", job.ID)))
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDirectoriesOfAJobArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	h := Home{Root: filepath.Join(t.TempDir(), "home")}
	job := create(t, h, "repo", "standard", day)
	for _, dir := range []string{h.Root, job.EventsDir(), filepath.Dir(job.EventsDir()), filepath.Dir(job.DLQFile()), job.StateDir(), job.OutputsDir()} {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: got %v %v, want 0700", dir, info, err)
		}
	}
}

func TestJobsAreFoundByIDPrefixTimeOrLatest(t *testing.T) {
	h := Home{Root: t.TempDir()}
	old := create(t, h, "a", "standard", day)
	middle := create(t, h, "a", "mapreduce", day.Add(time.Minute))
	newest := create(t, h, "b", "mapreduce", day.Add(24*time.Hour))
	if err := os.MkdirAll(filepath.Join(h.Root, "state", "a", "zzz"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		id   string
		want string
		err  error
	}{
		{old.ID, old.ID, nil},
		{"latest", newest.ID, nil},
		{"standard", old.ID, nil},
		{"mapreduce-20261120", middle.ID, nil},
		{"20261121", newest.ID, nil},
		{"20261120-1616", middle.ID, nil},
		{"1121-1615", newest.ID, nil},
		{"1120-16", "", ErrAmbiguous},
		{"121", "", ErrNotFound},
		{newest.ID[:len(newest.ID)-1], newest.ID, nil},
		{"mapreduce-20261121-161530-0000", "", ErrNotFound},
		{"20261120", "", ErrAmbiguous},
		{"mapreduce", "", ErrAmbiguous},
		{"", "", ErrNotFound},
		{"nothing", "", ErrNotFound},
		{"zzz", "", ErrNotFound},
		{"../a/" + old.ID, "", ErrNotFound},
		{"..", "", ErrNotFound},
	}
	for _, tt := range tests {
		got, err := h.Find(tt.id)
		if got.ID != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q: got %s %v, want %s %v", tt.id, got.ID, err, tt.want, tt.err)
		}
	}
	found, err := h.Find(newest.ID)
	if err != nil || found != newest {
		t.Errorf("got %v %v, want %v", found, err, newest)
	}
}

func TestAnAmbiguousPrefixNamesTheJobsItFits(t *testing.T) {
	h := Home{Root: t.TempDir()}
	for i := range 7 {
		create(t, h, "a", "mapreduce", day.Add(time.Duration(i)*time.Second))
	}
	_, err := h.Find("mapreduce")
	if err == nil || strings.Count(err.Error(), "mapreduce-2026") != 5 || !strings.Contains(err.Error(), "2 more") {
		t.Errorf("got %v, want five ids and 2 more", err)
	}
}

func TestJobsAreListedNewestFirstWhateverTheirMode(t *testing.T) {
	h := Home{Root: t.TempDir()}
	if got, err := h.List(); got != nil || err != nil {
		t.Errorf("no home yet: got %v %v, want nothing", got, err)
	}
	var want []string
	for i, mode := range []string{"standard", "mapreduce", "standard", "mapreduce"} {
		want = append(want, create(t, h, mode[:1], mode, day.Add(time.Duration(i)*time.Second)).ID)
	}
	slices.Reverse(want)
	all, err := h.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, job := range all {
		got = append(got, job.ID)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestNoTextLeavesTheHome(t *testing.T) {
	h := Home{Root: t.TempDir()}
	for repo, want := range map[string]string{"..": "unnamed", "": "unnamed", "../../etc": "_.._etc", "a/b": "a_b", ".hidden": "hidden", "grün": "gr_n", "a\x00b": "a_b"} {
		job := create(t, h, repo, "standard", day)
		if job.Repo != want || !strings.HasPrefix(job.StateDir(), filepath.Join(h.Root, "state")+string(filepath.Separator)) {
			t.Errorf("%q: got %q at %s, want %q", repo, job.Repo, job.StateDir(), want)
		}
	}
}

func TestTheRepoIsTheGitTopLevelElseTheDirectory(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "my repo", "sub", "deep")
	linked := filepath.Join(root, "linked", "sub")
	for _, dir := range []string{deep, linked, filepath.Join(root, "my repo", ".git")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "linked", ".git"), []byte("gitdir: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{deep: "my_repo", linked: "linked", filepath.Join(root, "my repo"): "my_repo"} {
		if got := Repo(dir); got != want {
			t.Errorf("%s: got %s, want %s", dir, got, want)
		}
	}
	t.Chdir(linked)
	if got := Repo("."); got != "linked" {
		t.Errorf("relative: got %s, want linked", got)
	}
}

func TestTheRepoOutsideOfGitIsTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plain")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Repo(dir); got != "plain" {
		t.Errorf("got %s, want plain", got)
	}
}

func TestTheHomeIsTakenFromTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("USERPROFILE", dir)
	for env, want := range map[string]string{"": filepath.Join(dir, ".prodigy"), "sub": filepath.Join(dir, "sub"), dir: dir} {
		t.Setenv("PRODIGY_HOME", env)
		got, err := FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		if got.Root != want {
			t.Errorf("%q: got %s, want %s", env, got.Root, want)
		}
	}
}

func TestMetaIsReadAsItWasWritten(t *testing.T) {
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	if _, err := job.ReadMeta(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before it was written: got %v, want os.ErrNotExist", err)
	}
	want := Meta{
		JobID: job.ID, Workflow: "w", WorkflowPath: "/w.yml", Mode: "standard", Dir: "/d", Started: day, Version: "1",
		Seed: 1 << 63, MaxParallel: 3, MaxDelayMS: 4, Args: []string{"run", "w.yml"},
	}
	if err := job.WriteMeta(Meta{}); err != nil {
		t.Fatal(err)
	}
	if err := job.WriteMeta(want); err != nil {
		t.Fatal(err)
	}
	got, err := job.ReadMeta()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestWriteFileReplacesTheFileAndLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, want := range []string{"first", "second"} {
		if err := WriteFile(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("got %q %v, want %q", got, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v %v, want one file", entries, err)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v, want 0600", info.Mode(), err)
	}
}

func TestWriteFileLeavesNothingWhenItCannotFinish(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("x")); err == nil {
		t.Error("over a directory: got no error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v %v, want only the directory", entries, err)
	}
}

func TestMakeDirsMakesWhatIsMissingAndLeavesWhatIsThere(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "c")
	for range 2 {
		if err := MakeDirs(dir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("got %v %v, want a directory", info, err)
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", filepath.Join(file, "sub")} {
		if err := MakeDirs(bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

// What no job was started with would hang or panic later.
func TestAJobFileThatNoJobWroteIsRefused(t *testing.T) {
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	good := Meta{JobID: job.ID, Mode: "standard", Started: day, MaxParallel: 1}
	if err := job.WriteMeta(good); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(job.MetaFile())
	if err != nil {
		t.Fatal(err)
	}
	old := func(fields string) string {
		return `{"job_id":"` + job.ID + `","mode":"standard","started":"2026-01-02T03:04:05Z"` + fields + "}\n"
	}
	for text, want := range map[string]string{
		old(`,"max_parallel":1`):        "",
		"{}":                            `it belongs to job ""`,
		"":                              "EOF",
		old(``):                         "invalid max_parallel 0",
		old(`,"max_parallel":-1`):       "invalid max_parallel -1",
		old(`,"max_parallel":1,"x":1`):  `unknown field "x"`,
		old(`,"max_parallel":1`) + "{}": "trailing data after the object",
		old(`,"max_parallel":1,"max_delay_ms":-1`):        "invalid max_delay_ms -1",
		old(`,"max_parallel":1,"workflow_sha256":["00"]`): "no checksum",
	} {
		if err := os.WriteFile(job.MetaFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := job.ReadMeta()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	for at := range written[:len(written)-1] {
		flipped := slices.Clone(written)
		flipped[at] ^= 4
		if err := os.WriteFile(job.MetaFile(), flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := job.ReadMeta(); err == nil {
			t.Fatalf("a bit of byte %d flipped is not noticed: %s", at, flipped)
		}
	}
}

func TestAWorkflowThatIsNotTheRecordedOneIsDamaged(t *testing.T) {
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	if err := os.WriteFile(job.WorkflowFile(), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		digests []string
		sound   bool
	}{{nil, true}, {[]string{Digest([]byte("a"))}, true}, {[]string{Digest([]byte("b")), Digest([]byte("a"))}, true}, {[]string{Digest([]byte("b"))}, false}} {
		_, err := job.ReadWorkflow(Meta{Digests: tt.digests})
		if damaged := new(DamagedError); errors.As(err, &damaged) == tt.sound {
			t.Errorf("%v: got %v", tt.digests, err)
		}
	}
}

func TestAFormerWorkflowThatWasChangedIsDamaged(t *testing.T) {
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	m := Meta{JobID: job.ID, Mode: "standard", Started: day, MaxParallel: 1}
	texts := []string{"a", "b", "c"}
	if err := os.WriteFile(job.WorkflowFile(), []byte(texts[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts[1:], "c") { // the last one changes nothing
		if err := job.ReplaceWorkflow(&m, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	read, err := job.ReadMeta()
	if err != nil || len(read.Former) != 2 || len(read.Digests) != 1 {
		t.Fatalf("got %v, %v, want two former workflows", read, err)
	}
	if source, err := job.ReadWorkflow(read); err != nil || string(source) != "c" {
		t.Fatalf("got %q, %v, want the last workflow", source, err)
	}
	for number, change := range map[int]func(path string) error{
		1: func(path string) error { return os.WriteFile(path, []byte("b"), 0o600) },
		2: os.Remove,
	} {
		path := job.formerWorkflow(number)
		before, err := os.ReadFile(path)
		if err := errors.Join(err, change(path)); err != nil {
			t.Fatal(err)
		}
		damaged := new(DamagedError)
		if _, err := job.ReadWorkflow(read); !errors.As(err, &damaged) || damaged.Path != path {
			t.Errorf("got %v, want that %s is damaged", err, path)
		}
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A resume that was killed while it replaced the workflow leaves a job that reads as before or after.
func TestAWorkflowIsReplacedOrNotWhereverARunIsKilled(t *testing.T) {
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	m := Meta{JobID: job.ID, Mode: "standard", Started: day, MaxParallel: 1}
	m.Digests, m.Former = []string{Digest([]byte("b")), Digest([]byte("a"))}, []string{Digest([]byte("a"))}
	if err := errors.Join(job.WriteMeta(m), os.WriteFile(job.WorkflowFile(), []byte("a"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(job.formerWorkflow(1), []byte("a"), 0o600) },
		func() error { return os.WriteFile(job.WorkflowFile(), []byte("b"), 0o600) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if _, err := job.ReadWorkflow(m); err != nil {
			t.Error(err)
		}
	}
}
