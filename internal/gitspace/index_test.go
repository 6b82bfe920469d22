package gitspace

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/workflow"
)

// What is read of an index is what git says of it.
func TestAnIndexIsReadAsGitReadsIt(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		ok     bool
	}{
		"plain":            {"", true},
		"long names":       {"mkdir -p " + strings.Repeat("d", 200) + "; echo x > " + strings.Repeat("d", 200) + "/" + strings.Repeat("f", 200) + "; git add .", true},
		"assume unchanged": {"git update-index --assume-unchanged a", true},
		"skip worktree":    {"git update-index --skip-worktree a sub/b", true},
		"intent to add":    {"echo x > new; git add -N new", true},
		"a merge":          {"git checkout -qb x; echo x > a; git commit -qam x; git checkout -q main; echo y > a; git commit -qam y; git merge -q x || true", true},
		"version 4":        {"git update-index --index-version 4", false},
		"split":            {"git update-index --split-index", false},
	} {
		repo, environ := newRepo(t, files{"a": "1\n", "sub/b": "1\n", "sub/c d": "2\n"})
		sh(t, repo, environ, c.script)
		data, err := os.ReadFile(filepath.Join(repo, ".git", "index"))
		if err != nil {
			t.Fatal(err)
		}
		entries, ok := parseIndex(data, 20)
		if ok != c.ok {
			t.Errorf("%s: understood %v", name, ok)
		}
		if !c.ok {
			continue
		}
		var got []string
		for _, e := range entries {
			flag := "H"
			switch {
			case e.skipped:
				flag = "S"
			case !e.plainFlag:
				flag = "other"
			}
			got = append(got, flag+" "+e.name)
		}
		var want []string
		for field := range strings.SplitSeq(strings.TrimSuffix(sh(t, repo, environ, "git ls-files -v -s -z | tr '\\0' '\\n'; git ls-files -z --stage | head -c0"), "\n"), "\n") {
			meta, name, _ := strings.Cut(field, "\t")
			flag := meta[:1]
			if flag == "h" || flag == "M" || name == "new" {
				flag = "other"
			}
			want = append(want, flag+" "+name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// A damaged index is either not understood or has no more than what is in the file.
func FuzzParseIndex(f *testing.F) {
	dir := f.TempDir()
	for _, script := range []string{"git init -q . && echo 1 > a && mkdir b && echo 2 > b/c && git add .", "git update-index --skip-worktree a"} {
		cmd := exec.Command("sh", "-ec", script)
		if cmd.Dir = dir; cmd.Run() != nil {
			f.Fatal("git does not run")
		}
		data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, hash := range []int{20, 32} {
			entries, ok := parseIndex(data, hash)
			for _, e := range entries {
				if e.name == "" || !bytes.Contains(data, []byte(e.name)) {
					t.Errorf("%q is not in the index", e.name)
				}
			}
			if ok && len(entries)*(40+hash+2) > len(data) {
				t.Errorf("%d entries in %d bytes", len(entries), len(data))
			}
		}
	})
}

// What an agent has left is found without git, and undone, whatever it is.
func TestWhatIsLeftInAWorkspaceIsCompared(t *testing.T) {
	j := newJob(t, files{"a": "1\n", "b": "1\n", "sub/c": "1\n", ".gitignore": "ignored\n"}, workflow.Workspace{})
	w := j.workspace("1", 1)
	for _, c := range []struct{ script, extra, changed string }{
		{"true", "", ""},
		{"touch a", "", "a"},
		{"echo 2 > sub/c; rm b", "", "b sub/c"},
		{"touch new ignored; mkdir -p dir/deep", "dir ignored new", ""},
		{"rm -r sub; ln -s /etc sub", "sub", "sub/c"},
		{"rm a; mkdir a; touch a/b", "a", "a"},
		{"chmod 600 a", "", "a"},
		{"mkfifo sub/p", "sub/p", ""},
	} {
		j.does(c.script)
		left, ok := j.compare(w, w.seal)
		if !ok {
			if changeTimesAreKnown(w) {
				t.Errorf("%s: not compared", c.script)
			}
			return
		}
		slices.Sort(left.extra)
		slices.Sort(left.changed)
		if extra, changed := strings.Join(left.extra, " "), strings.Join(left.changed, " "); extra != c.extra || changed != c.changed {
			t.Errorf("%s: extra %q, changed %q", c.script, extra, changed)
		}
	}
}

func changeTimesAreKnown(w workspace) bool { return fileID(w.seal) != "" }
