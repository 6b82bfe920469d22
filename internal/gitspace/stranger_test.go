//go:build linux

package gitspace

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

var (
	strangerRounds = flag.Int("rounds", 0, "how many hostile repositories TestNoStrangerHarmsAnyoneElse makes; 0: as many as the environment says")
	strangerFirst  = flag.Int("first", 0, "the first of them, to repeat it with -rounds 1")
)

// Whatever an agent leaves: the job goes on, in bounded time; its work is delivered as it was, or its item alone fails
// with the type workspace; what others did is delivered; and nothing else of the user has changed, nor anything outside
// of the job.
func TestNoStrangerHarmsAnyoneElse(t *testing.T) {
	t.Parallel()
	rounds := *strangerRounds
	if rounds == 0 {
		rounds = 600 / testenv.OneIn(60, 150)
	}
	for i := range rounds {
		seed := uint64(*strangerFirst + i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			meetStranger(t, seed)
		})
	}
}

// stranger is an Executor whose attempts do the worst they can.
type stranger struct {
	t    *testing.T
	rand *rand.Rand
	user string // the user's repository
	out  string // a directory that is nobody's business
	env  []string
	git  string // a git that eats no memory

	dir   string // the workspace
	takes workflow.Take
	done  []string
	mark  string // what a file called mark is to have when the work is delivered, if it is to be there
	after string // state of out when the agent had ended
	users string // and that of the user's repository
}

func (x *stranger) Holds(context.Context, []string) ([]string, error) { return nil, nil }

func (x *stranger) Execute(_ context.Context, a agent.Attempt) (agent.Outcome, error) {
	x.act(a.Dir)
	return agent.Outcome{}, nil
}

// act works in a workspace that may begin deeper than dir is.
func (x *stranger) act(dir string) {
	for x.dir = dir; !isDir(filepath.Join(x.dir, ".git")); {
		x.dir = filepath.Dir(x.dir)
	}
	x.work()
	for range 1 + x.rand.IntN(3) {
		x.trap()
	}
	x.after, x.users = stateOf(x.t, x.out), stateOf(x.t, x.user)
}

func (x *stranger) note(format string, args ...any) {
	x.done = append(x.done, fmt.Sprintf(format, args...))
}

// sh runs a script that may fail.
func (x *stranger) sh(text string) {
	x.note("%s", text)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // it may hang in its own traps
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "ulimit -v 3000000\n"+text)
	cmd.Dir, cmd.Env = x.dir, append(slices.Clip(x.env), "OUT="+x.out, "USER_REPO="+x.user)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	_ = cmd.Run()
}

// work is what an honest agent does.
func (x *stranger) work() {
	x.mark = fmt.Sprintf("%d\n", x.rand.Uint64())
	if err := os.WriteFile(filepath.Join(x.dir, "mark"), []byte(x.mark), 0o644); err != nil {
		x.t.Fatal(err)
	}
	switch x.rand.IntN(5) {
	case 0, 1:
		if x.takes == workflow.TakeCommits {
			x.mark = ""
		}
	case 2:
		x.sh("git add -A; git commit -qm work")
	case 3:
		x.sh("git add -A; git commit -qm work; echo more > more; git add more")
	case 4:
		x.sh("git add -A; git commit -qm work; echo 2 > a; git commit -qam two; git gc -q --prune=now")
	}
}

func (x *stranger) trap() {
	switch x.rand.IntN(8) {
	case 0, 1, 2:
		x.put(pick(x, things), filepath.Join(".git", pick(x, inGit)))
	case 3:
		x.put(pick(x, things), pick(x, inTree))
	case 4, 5:
		x.badTree()
	case 6:
		x.damage()
	case 7:
		x.sh(pick(x, tricks))
	}
}

func pick[T any](x *stranger, all []T) T { return all[x.rand.IntN(len(all))] }

var inGit = []string{
	"HEAD", "index", "config", "packed-refs", "shallow", "refs", "refs/heads", "refs/heads/BRANCH", "refs/heads/x", "refs/tags/x", "refs/stash", "refs/replace/x",
	"objects", "objects/info", "objects/info/alternates", "objects/info/commit-graph", "objects/pack", "objects/pack/multi-pack-index", "objects/ab",
	"objects/OBJECT", "objects/OBJECT", "logs", "logs/HEAD", "logs/refs/heads/BRANCH", "info", "info/exclude", "info/attributes", "info/grafts",
	"info/sparse-checkout", "hooks", "hooks/pre-commit", "MERGE_HEAD", "MERGE_MSG", "ORIG_HEAD", "FETCH_HEAD", "commondir", "config.worktree", "index.lock",
	"HEAD.lock", "modules", "modules/m/HEAD", "worktrees", "worktrees/x/gitdir", "sharedindex.1", "AUTO_MERGE", "rebase-merge", "gc.log",
}

var inTree = []string{
	".git", ".", "a", "sub", "sub/b", "sub/deep", "mark", "new", ".gitattributes", ".gitignore", ".gitmodules", "sub/.gitattributes", "sub/.gitignore", "sub/deep/.gitattributes",
	"new/.git", "new/.git/HEAD", "new/.git/refs/heads/main", "new/.git/commondir", "sub/.git", "kept", "kept/x", "kept/.gitignore", "build/.git", "build/.git/HEAD", "build/.gitignore",
}

// things are what can be put at a path.
var things = []string{
	"pipe", "link to zero", "link to a pipe", "link to the user's", "link to a file outside", "link to a directory outside", "link to nothing", "link to itself",
	"hard link to the user's", "hard link outside", "directory", "full directory", "socket", "empty file", "junk", "huge", "nothing", "no permission", "gitdir outside", "gitdir inside",
}

// put puts a thing at a path of the workspace.
func (x *stranger) put(thing, name string) {
	gitDir := filepath.Join(x.dir, ".git")
	if branch, is := strings.CutPrefix(workspace{dir: x.dir}.readRef("HEAD"), "ref: refs/heads/"); is {
		name = strings.ReplaceAll(name, "BRANCH", branch)
	}
	if strings.HasSuffix(name, "OBJECT") {
		loose, _ := filepath.Glob(filepath.Join(gitDir, "objects", "??", "*"))
		if len(loose) == 0 {
			return
		}
		object := pick(x, loose)
		name = strings.TrimSuffix(name, "OBJECT") + filepath.Base(filepath.Dir(object)) + "/" + filepath.Base(object)
	}
	x.note("put %s at %s", thing, name)
	file := filepath.Join(x.dir, name)
	twin := filepath.Join(x.user, name) // the same of the user's, if there is one
	for !exists(twin) {
		twin = filepath.Dir(twin)
	}
	if name == "mark" || name == "." {
		x.mark = ""
	}
	if name == "." && thing != "no permission" {
		file = filepath.Clean(x.dir)
	}
	if thing != "no permission" {
		_ = os.Rename(file, filepath.Join(x.out, fmt.Sprint("moved-", x.rand.Uint32())))
		_ = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	write := func(text string) { _ = os.WriteFile(file, []byte(text), 0o644) }
	switch thing {
	case "pipe":
		_ = syscall.Mkfifo(file, 0o644)
	case "link to zero":
		_ = os.Symlink("/dev/zero", file)
	case "link to a pipe":
		_ = os.Symlink(filepath.Join(x.out, "pipe"), file)
	case "link to the user's":
		_ = os.Symlink(twin, file)
	case "link to a file outside":
		_ = os.Symlink(filepath.Join(x.out, "file"), file)
	case "link to a directory outside":
		_ = os.Symlink(filepath.Join(x.out, "dir"), file)
	case "link to nothing":
		_ = os.Symlink(filepath.Join(x.out, "dir", "nothing"), file)
	case "link to itself":
		_ = os.Symlink(file, file)
	case "hard link to the user's":
		_ = os.Link(twin, file)
	case "hard link outside":
		_ = os.Link(filepath.Join(x.out, "file"), file)
	case "directory":
		_ = os.Mkdir(file, 0o755)
	case "full directory":
		_ = os.MkdirAll(filepath.Join(file, "x", "y"), 0o755)
		_ = syscall.Mkfifo(filepath.Join(file, "x", "HEAD"), 0o644)
		_ = os.WriteFile(filepath.Join(file, "x", "y", "z"), nil, 0o644)
	case "socket":
		if l, err := net.Listen("unix", file); err == nil {
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			_ = l.Close()
		}
	case "empty file":
		write("")
	case "junk":
		write("junk\x00\xff\n")
	case "huge":
		write("")
		size := int64(1 << 20)
		if strings.Contains(name, ".git") && !strings.Contains(name, "objects") {
			size = 200 << 30
		}
		_ = os.Truncate(file, size)
	case "no permission":
		_ = os.Chmod(file, 0)
	case "gitdir outside":
		write("gitdir: " + filepath.Join(x.out, "repo") + "\n")
	case "gitdir inside":
		write("gitdir: " + filepath.Join(x.dir, "sub", "evil") + "\n")
		_ = os.MkdirAll(filepath.Join(x.dir, "sub", "evil"), 0o755)
		_ = syscall.Mkfifo(filepath.Join(x.dir, "sub", "evil", "HEAD"), 0o644)
	}
}

// object writes an object into the workspace, whatever it has.
func (x *stranger) object(kind string, data []byte) (name string) {
	all := append(fmt.Appendf(nil, "%s %d\x00", kind, len(data)), data...)
	sum := sha1.Sum(all)
	name = hex.EncodeToString(sum[:])
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	_, _ = w.Write(all)
	_ = w.Close()
	file := filepath.Join(x.dir, ".git", "objects", name[:2], name[2:])
	_ = os.MkdirAll(filepath.Dir(file), 0o755)
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() { // a trap of before
		return name
	}
	_ = os.WriteFile(file, packed.Bytes(), 0o644)
	return name
}

func treeEntry(mode, name, object string) []byte {
	raw, _ := hex.DecodeString(object)
	return append([]byte(mode+" "+name+"\x00"), raw...)
}

// badTree commits a tree that no honest git would make.
func (x *stranger) badTree() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, x.git, args...)
		cmd.Dir, cmd.Env = x.dir, x.env
		out, _ := cmd.Output()
		return strings.TrimSpace(string(out))
	}
	head := git("rev-parse", "HEAD")
	if len(head) != 40 {
		return
	}
	blob := x.object("blob", []byte("* -text\n"))
	rules := x.object("tree", treeEntry("100644", ".gitattributes", blob))
	escape := x.object("tree", treeEntry("40000", "..", rules))
	link := x.object("blob", []byte(x.out))
	entry := pick(x, []struct {
		mode, name, object string
	}{
		{"40000", "..", rules},
		{"40000", "..", escape},
		{"40000", ".", rules},
		{"40000", ".git", rules},
		{"40000", ".GIT", rules},
		{"40000", "git~1", rules},
		{"100644", ".git", blob},
		{"120000", ".git", link},
		{"40000", "x/..", rules},
		{"100644", "../.gitattributes", blob},
		{"100644", "../../../evil/.gitattributes", blob},
		{"100644", "a/b", blob},
		{"100644", "", blob},
		{"100644", "/abs", blob},
		{"100644", strings.Repeat("n", 300), blob},
		{"100644", "new\nline", blob},
		{"120000", ".gitmodules", link},
		{"120000", ".gitattributes", link},
		{"120000", "sub", link},
		{"100644", "sub", blob},
		{"160000", "module", head},
		{"40000", "missing", strings.Repeat("12", 20)},
		{"100644", "missing", strings.Repeat("12", 20)},
		{"100644", "null", strings.Repeat("0", 40)},
		{"40000", "blob", blob},
		{"100644", "tree", rules},
		{"777777", "mode", blob},
		{"10644", "mode", blob},
		{"100644", ".git\u200c", blob},
		{"bomb", "bomb", ""},
		{"deep", "deep", ""},
		{"100644", "a", blob},
		{"40000", strings.Repeat("d/", 2000), rules},
	})
	x.note("commit %s %.40q", entry.mode, entry.name)
	switch entry.mode {
	case "bomb": // 10^9 files
		at := x.object("tree", treeEntry("100644", "f", blob))
		for range 9 {
			var tree []byte
			for i := range 10 {
				tree = append(tree, treeEntry("40000", fmt.Sprint(i), at)...)
			}
			at = x.object("tree", tree)
		}
		entry.mode, entry.object = "40000", at
	case "deep":
		at := rules
		for range 3000 {
			at = x.object("tree", treeEntry("40000", "d", at))
		}
		entry.mode, entry.object = "40000", at
	}
	var tree []byte
	for line := range strings.Lines(git("ls-tree", head) + "\n") {
		meta, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if columns := strings.Fields(meta); ok && len(columns) == 3 && (name != entry.name || x.rand.IntN(4) == 0) {
			tree = append(tree, treeEntry(strings.TrimPrefix(columns[0], "0"), name, columns[2])...)
		}
	}
	if x.rand.IntN(2) == 0 {
		tree = append(treeEntry(entry.mode, entry.name, entry.object), tree...)
	} else {
		tree = append(tree, treeEntry(entry.mode, entry.name, entry.object)...)
	}
	who := "Eve <eve@example.com> 1700000000 +0000"
	commit := x.object("commit", fmt.Appendf(nil, "tree %s\nparent %s\nauthor %s\ncommitter %s\n\nevil\n", x.object("tree", tree), head, who, who))
	x.sh("timeout 5 git update-ref HEAD " + commit)
	if x.rand.IntN(3) == 0 { // and hides it in the history
		x.sh("timeout 5 git reset -q --soft HEAD; timeout 5 git commit -q --allow-empty -m hidden")
	}
}

// damage spoils objects of the agent's own.
func (x *stranger) damage() {
	var all []string
	_ = filepath.WalkDir(filepath.Join(x.dir, ".git", "objects"), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			all = append(all, name)
		}
		return nil
	})
	if len(all) == 0 {
		return
	}
	file := pick(x, all)
	_ = os.Chmod(file, 0o644)
	data, err := os.ReadFile(file)
	if err != nil {
		return
	}
	how := x.rand.IntN(6)
	x.note("damage %d of %s", how, file[len(x.dir):])
	switch how {
	case 0:
		_ = os.Remove(file)
	case 1:
		_ = os.Truncate(file, int64(len(data)/2))
	case 2:
		_ = os.Truncate(file, 0)
	case 3:
		if len(data) > 0 {
			data[x.rand.IntN(len(data))] ^= 0x40
		}
		_ = os.WriteFile(file, data, 0o644)
	case 4: // another object under its name
		other, err := os.ReadFile(pick(x, all))
		if err == nil {
			_ = os.WriteFile(file, other, 0o644)
		}
	case 5: // says that it is huge
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		_, _ = w.Write([]byte("blob 99999999999999\x00x"))
		_ = w.Close()
		_ = os.WriteFile(file, packed.Bytes(), 0o644)
	}
}

// tricks are scripts that spoil what git does.
var tricks = []string{
	`git rev-parse HEAD > .git/shallow`,
	`git -c protocol.file.allow=always fetch -q --depth 1 "file://$USER_REPO"`,
	`git -c protocol.file.allow=always fetch -q --depth 1 "file://$USER_REPO" main; git commit -q --allow-empty -m x; git merge -q --allow-unrelated-histories -m y FETCH_HEAD`,
	`git -c protocol.file.allow=always fetch -q "$USER_REPO" side; git merge -q -m y FETCH_HEAD`,
	`git config core.fsmonitor "touch $OUT/ran"; git config core.hooksPath "$OUT/hooks"; git config diff.external "touch $OUT/ran"; git config core.alternateRefsCommand "touch $OUT/ran"`,
	`git config filter.x.clean "touch $OUT/ran; cat"; git config filter.x.smudge "touch $OUT/ran; cat"; echo '* filter=x' > .gitattributes`,
	`git config filter.x.clean false; git config filter.x.required true; echo '* filter=x' > .git/info/attributes`,
	`git config core.worktree "$OUT"`, `git config core.bare true`, `git config include.path /dev/zero`, `git config include.path "$OUT/pipe"`,
	`git config extensions.worktreeConfig true; printf '[core]\nworktree = %s\n' "$OUT" > .git/config.worktree`,
	`git config uploadpack.packObjectsHook "touch $OUT/ran"; git config merge.x.driver "touch $OUT/ran"; echo '* merge=x' > .gitattributes`,
	`mkdir -p .git/hooks; for h in pre-commit post-checkout post-index-change reference-transaction post-commit; do printf '#!/bin/sh\ntouch %s/ran\n' "$OUT" > .git/hooks/$h; chmod +x .git/hooks/$h; done`,
	`echo '* working-tree-encoding=UTF-16' > .gitattributes`, `echo '* text eol=crlf' > .gitattributes; git add --renormalize .; git commit -qm crlf`,
	`yes '* -text' | head -c 3000000 > .gitattributes`, `echo '*' > .gitignore`, `echo '[attr]x' > sub/.gitattributes`,
	`git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),module; git commit -qm module`,
	`printf '[submodule "../x"]\n\tpath = sub\n\turl = --upload-pack=touch\n' > .gitmodules; git add .gitmodules; git commit -qm modules`,
	`git init -q inner; git -C inner commit -q --allow-empty -m x`, `git init -q inner; mkfifo inner/.git/refs/heads/x; echo 'ref: refs/heads/x' > inner/.git/HEAD`,
	`git init -q build; mkfifo build/.git/refs/heads/x; echo 'ref: refs/heads/x' > build/.git/HEAD`, `git worktree add -q inner`, `git worktree add -q "$OUT/linked-$$"`,
	`mkdir inner; ln -s "$USER_REPO/.git" inner/.git`, `mkdir inner; echo "gitdir: $OUT/repo" > inner/.git`, `mkdir build; ln -s "$OUT/repo" build/.git`,
	`git update-index --add --cacheinfo 100644,1234567890123456789012345678901234567890,gone; true`,
	`git update-index --add --info-only a; git update-index --assume-unchanged a; echo x >> a`, `git update-index --split-index; echo x > s; git add s`,
	`git update-index --index-version 4`, `git read-tree --empty`, `git checkout -q --orphan x; git commit -qm x`, `git checkout -q -b x HEAD~1; git commit -q --allow-empty -m y`,
	`git replace HEAD HEAD~1`, `git pack-refs --all; mkfifo .git/refs/heads/zz`, `echo 'ref: refs/heads/../../../a' > .git/HEAD`, `echo 'ref: refs/heads/../../pipe' > .git/HEAD; mkfifo .git/pipe`,
	`rm -rf .git/refs`, `git repack -adq; rm -f .git/objects/pack/*.idx`, `git commit-graph write --reachable 2>/dev/null; git multi-pack-index write 2>/dev/null`,
	`ln "$USER_REPO/a" linked; chmod 600 linked`, `ln -f "$USER_REPO/a" a; chmod 777 a`, `ln -f "$OUT/file" sub/b`, `rm -rf sub; ln -s "$USER_REPO/sub" sub`, `rm -rf kept; ln -s "$USER_REPO/sub" kept`,
	`mkdir -p kept; rm -rf kept/t; ln -s "$USER_REPO" kept/t`, `rm -rf sub; echo file > sub`, `mkfifo p sub/p; ln -s p q`, `mkdir -p $(printf 'd%.0s/' $(seq 900)) && touch $(printf 'd%.0s/' $(seq 900))x`,
	`echo "$OUT/objects" >> .git/objects/info/alternates`, `printf '%s\n' "$USER_REPO/.git/objects" > .git/objects/info/alternates; git commit -q --allow-empty -m x`,
	`d=$PWD; mv "$d" "$OUT/ws-$$"; ln -s "$OUT/ws-$$" "$d"`, `mv .git "$OUT/git-$$"; ln -s "$OUT/git-$$" .git`, `mv .git "$OUT/git-$$"; echo "gitdir: $OUT/git-$$" > .git`,
	`rm -rf .git; cp -r "$USER_REPO/.git" .git`, `rm -rf .git; git init -q`, `rm -rf .git/objects; ln -s "$USER_REPO/.git/objects" .git/objects`,
	`git merge -q --no-commit --no-ff HEAD; echo $(git rev-parse HEAD) > .git/MERGE_HEAD`, `git bisect start -q HEAD HEAD~1`, `git notes add -m x; git stash -q`,
	`git commit -q --allow-empty -m "$(head -c 100000 /dev/zero | tr '\0' x)"`, `git tag -m x "t$$"; git rev-parse "t$$" > .git/HEAD`,
	`printf 'tree %s\nauthor x\n\n\0' $(git rev-parse HEAD^{tree}) | git hash-object -t commit -w --stdin --literally > .git/HEAD`,
}

// stateOf is all there is in a directory: names, permissions, times, content.
func stateOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if rel == "moved" || strings.HasPrefix(rel, "moved-") { // what the agent itself has moved away
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v ", rel, info.Mode())
		if info.Mode().IsRegular() && info.Size() < 1<<20 {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%v %x", info.ModTime().UnixNano(), sha1.Sum(data))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// usersOwn returns the lines of a state of the user's repository that are not the job's: neither its refs nor objects
// that are new. Git dates an object that it would write and finds, so the times of objects do not count.
func usersOwn(state, before string) string {
	objects := map[string]bool{}
	for line := range strings.Lines(before) {
		name, _, _ := strings.Cut(line, " ")
		objects[name] = true
	}
	var b strings.Builder
	for line := range strings.Lines(state) {
		name, _, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(name, ".git/refs/prodigy"), strings.HasPrefix(strings.Replace(name, "/logs", "", 1), ".git/refs/heads/prodigy"):
		case !strings.HasPrefix(name, ".git/objects/"):
			b.WriteString(line)
		case objects[name]:
			columns := strings.Fields(line)
			b.WriteString(name + " " + columns[len(columns)-1] + "\n")
		}
	}
	return b.String()
}

// difference returns the lines that only one of two texts has.
func difference(a, b string) string {
	var out strings.Builder
	for line := range strings.Lines(a) {
		if !strings.Contains("\n"+b, "\n"+line) {
			out.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(b) {
		if !strings.Contains("\n"+a, "\n"+line) {
			out.WriteString("+ " + line)
		}
	}
	return out.String()
}

// A round is over long before, unless something hangs.
const roundEnds = 100 * time.Second

func meetStranger(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(25, seed))
	repo, environ := newRepo(t, files{"a": "1\n", "sub/b": "1\n", "sub/deep/c": "1\n", ".gitignore": "build/\n", "sub/.gitattributes": "*.bin binary\n"})
	sh(t, repo, environ, "echo 2 > second; git add -A; git commit -qm second; git checkout -q -b side; echo s > side; git add -A; git commit -qm side; git checkout -q main; git branch -q other")
	if r.IntN(3) == 0 {
		sh(t, repo, environ, "git repack -adq; git pack-refs --all")
	}
	out := filepath.Join(filepath.Dir(repo), "out")
	write(t, out, files{"file": "outside\n", "dir/x": "x\n", "dir/HEAD": "ref: refs/heads/main\n", "repo/config": "", "objects/x": ""})
	for _, pipe := range []string{"pipe", "repo/HEAD"} {
		if err := syscall.Mkfifo(filepath.Join(out, pipe), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	policy := workflow.Workspace{Take: pick(&stranger{rand: r}, []workflow.Take{"", workflow.TakeCommits}), History: pick(&stranger{rand: r}, []workflow.History{"", workflow.HistorySquash})}
	if r.IntN(3) == 0 {
		policy.Keep = []string{"kept"}
	}
	dir := repo
	if r.IntN(3) == 0 {
		dir = filepath.Join(repo, "sub")
	}
	j := openJob(t, repo, dir, environ, policy)
	// A git that eats all memory is to harm nobody here. Another process writes it: no test that forks meanwhile has
	// it open.
	limited := filepath.Join(filepath.Dir(repo), "git")
	sh(t, "/", environ, "printf '#!/bin/sh\\nulimit -v 3000000\\nexec %s \"$@\"\\n' "+j.git.path+" > "+limited+"; chmod 755 "+limited)
	mode := pick(&stranger{rand: r}, []string{"here", "here", "here", "away", "pack", "resolve", "phase", "damage"})
	guard := func(s *Space) { s.git.path, s.git.patience = limited, 20*time.Second }
	guard(j.Space)
	if mode == "away" {
		j.away(filepath.Join(filepath.Dir(j.GitDir), "store"))
		guard(j.clone)
	}
	x := &stranger{t: t, rand: r, user: repo, out: out, git: limited, env: j.Space.Environ(environ), takes: policy.Take}
	if mode == "pack" || mode == "phase" {
		x.takes = ""
	}
	top := names(t, filepath.Dir(repo), filepath.Dir(j.GitDir))
	complain := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, take %q, agents begin in %q, keep %v: %s\n\tthe agent: %s", mode, policy.Take, filepath.Base(dir), policy.Keep, fmt.Sprintf(format, args...), strings.Join(x.done, "\n\t\t"))
	}
	watch := time.AfterFunc(roundEnds, func() {
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("round %d, %s: it hangs after\n%s\n%s", seed, mode, strings.Join(x.done, "\n"), stacks[:runtime.Stack(stacks, true)]))
	})
	defer watch.Stop()

	// run runs an attempt, and returns what became of it.
	run := func(inner Executor, a agent.Attempt) (agent.Outcome, Work, bool) {
		s := j.Space
		if j.clone != nil {
			if s = j.clone; a.Resolve == "" {
				j.bring(a.Base)
			}
		}
		o, err := s.Execute(t.Context(), inner, a)
		if err == nil && j.clone != nil && o.Commit != "" {
			f := j.pack(func(f *os.File) error { return j.clone.Export(t.Context(), &a, o.Commit, f) })
			err = j.Import(t.Context(), &a, &o, f)
		}
		if err != nil {
			complain("an error that stops the job: %v", err)
			return o, Work{}, false
		}
		return o, Work{
			ItemID: a.ItemID, Index: a.ItemIndex, Attempt: a.Number, Base: a.Base,
			Changes: events.Changes{Commit: o.Commit},
			Date:    time.Unix(1700000000, 0),
		}, true
	}
	// good is an agent that needs a clean workspace.
	good := func(worker int) (Work, bool) {
		a := j.attempt(fmt.Sprintf("test -z \"$(git status --porcelain)\"; top=$(git rev-parse --show-toplevel); echo good > \"$top/good-%[1]d\"; git add -f \"$top/good-%[1]d\"; git commit -qm good", j.next))
		a.Worker = worker
		o, w, ok := run(script{j.Space.Environ(environ)}, a)
		if ok && (o.Failure != nil || w.Commit == "") {
			complain("an honest agent fails: %+v", o.Failure)
			ok = false
		}
		return w, ok
	}
	judge := func(f *agent.Failure) {
		if f == nil {
			return
		}
		if f.Type != retry.TypeWorkspace {
			complain("it fails with %s: %s", f.Type, f.Message)
		}
		if strings.Contains(f.Message, "did not end") {
			complain("git hung: %s", f.Message)
		}
	}

	first, ok := good(1)
	if !ok {
		return
	}
	var live []Work
	bad := Work{}
	switch mode {
	case "here", "away", "damage":
		o, w, ok := run(x, j.attempt(""))
		if !ok {
			return
		}
		judge(o.Failure)
		if o.Failure == nil && x.mark != "" && w.Commit == "" && o.Discarded == 0 {
			if exists(filepath.Join(x.dir, "mark")) && !slices.ContainsFunc(x.done, func(d string) bool { return strings.Contains(d, "'*' > .gitignore") || strings.Contains(d, "stash") }) {
				complain("its work is lost without a word")
			}
		}
		if o.Failure == nil {
			bad = w
		}
	case "resolve":
		one, two := j.does("echo one > a"), j.does("echo two > a")
		j.merges(one)
		a := j.attempt("")
		a.Resolve = two.Commit
		x.mark = ""
		o, w, ok := run(x, a)
		if !ok {
			return
		}
		judge(o.Failure)
		x.mark = ""
		if o.Failure == nil {
			bad = w
		}
	case "pack": // a worker of a fleet sends what it likes
		elsewhere := filepath.Join(filepath.Dir(repo), "elsewhere")
		sh(t, "/", environ, "git clone -q --no-hardlinks "+repo+" "+elsewhere+"; mkdir -p "+elsewhere+"/.git/refs/tags")
		top[filepath.Base(elsewhere)] = true
		x.act(elsewhere)
		if !exists(elsewhere) {
			delete(top, filepath.Base(elsewhere))
		}
		f := j.pack(func(f *os.File) error { return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		cmd := exec.CommandContext(ctx, limited, "pack-objects", "-q", "--revs", "--stdout", pick(x, []string{"--thin", "--all", "--missing=allow-any"}))
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = elsewhere, environ, strings.NewReader("HEAD\n^"+j.head+"\n"), f
		_ = cmd.Run()
		commit, _ := exec.CommandContext(ctx, limited, "-C", elsewhere, "rev-parse", "HEAD").Output()
		cancel()
		a := j.attempt("")
		o := agent.Outcome{Changes: events.Changes{Commit: strings.TrimSpace(string(commit))}}
		if err := j.Import(t.Context(), &a, &o, f); err != nil {
			complain("an error that stops the job: %v", err)
			return
		}
		judge(o.Failure)
		x.mark = ""
		if o.Failure == nil {
			bad = Work{
				ItemID: a.ItemID, Index: a.ItemIndex, Attempt: 1, Base: a.Base,
				Changes: events.Changes{Commit: o.Commit},
				Date:    time.Unix(1, 0),
			}
		}
	case "phase":
		place, err := j.Phase(t.Context(), j.head)
		if err != nil {
			t.Fatal(err)
		}
		x.act(place)
		all := r.IntN(2) == 0
		head, err := j.PhaseHead(t.Context(), all, "phase")
		var state *StateError
		switch {
		case errors.As(err, &state):
			judge(&agent.Failure{Failure: retry.Failure{Type: retry.TypeWorkspace, Message: state.Reason}})
		case err != nil:
			complain("an error that stops the job: %v", err)
		default:
			j.head = head
		}
		x.mark = ""
		if _, err := j.Phase(t.Context(), j.head); err != nil && !errors.As(err, &state) {
			complain("an error that stops the job: %v", err)
		}
	}
	if now := stateOf(t, out); now != x.after {
		complain("outside of the job is changed:\n%s", difference(x.after, now))
	}
	second, ok := good(1)
	if !ok {
		return
	}
	third, ok := good(2)
	if !ok {
		return
	}
	live = []Work{first, second, third}
	if bad.Commit != "" {
		live = slices.Insert(live, r.IntN(4), bad)
	}
	if mode == "damage" && bad.Commit != "" {
		mine := strings.Fields(j.inHub("git rev-list --objects --no-object-names " + bad.Commit + " ^" + bad.Base))
		file := filepath.Join(j.hubDir(), "objects", mine[0][:2], mine[0][2:])
		if one := pick(x, mine); exists(filepath.Join(j.hubDir(), "objects", one[:2], one[2:])) {
			file = filepath.Join(j.hubDir(), "objects", one[:2], one[2:])
		}
		if err := os.Remove(file); err == nil {
			x.mark = ""
		}
		j.goDown() // only then it is looked for
	}
	if mode == "damage" || r.IntN(4) == 0 { // another run takes the work up
		s, err := Open(t.Context(), j.config, Start{Base: j.start.Base, Branch: j.start.Branch}, j.head, live)
		if err != nil {
			complain("it cannot be resumed: %v", err)
			return
		}
		j.Space = s
		guard(s)
	}
	m, err := j.Merge(t.Context(), j.head, live)
	if err != nil {
		complain("the merge stops the job: %v", err)
		return
	}
	for _, f := range m.Failed {
		if f.ItemID != bad.ItemID || f.Type != retry.TypeWorkspace && f.Type != retry.TypeMergeConflict {
			complain("%s is not merged: %s %s", f.ItemID, f.Type, f.Message)
		}
	}
	j.head = m.Head
	if err := j.Publish(t.Context(), m.Head, live); err != nil {
		complain("publish: %v", err)
		return
	}
	if last, ok := good(1); ok { // that works in what was merged
		if m, err = j.Merge(t.Context(), j.head, []Work{last}); err != nil || len(m.Items) != 1 {
			complain("the next is not merged: %v %+v", err, m.Failed)
			return
		}
		j.head = m.Head
	}
	d, err := j.Deliver(t.Context(), j.head)
	if err != nil || d.Branch == "" {
		complain("delivery: %+v, %v", d, err)
		return
	}
	if now := stateOf(t, out); now != x.after && mode != "phase" {
		complain("outside of the job is changed:\n%s", difference(x.after, now))
	}
	if now := stateOf(t, repo); usersOwn(now, x.users) != usersOwn(x.users, x.users) {
		complain("the user's repository is changed:\n%s", difference(usersOwn(x.users, x.users), usersOwn(now, x.users)))
	}
	if now := names(t, filepath.Dir(repo), filepath.Dir(j.GitDir)); fmt.Sprint(now) != fmt.Sprint(top) {
		complain("there is more beside the job: %v, before: %v", now, top)
	}
	delivered := filepath.Join(filepath.Dir(repo), "delivered")
	cmd := exec.Command("sh", "-ec", "git clone -q --no-local --single-branch -b prodigy/mapreduce-1 . "+delivered+" 2>&1; cd "+delivered+"; git fsck --strict 2>&1; ls good-*; cat mark 2>/dev/null || true")
	cmd.Dir, cmd.Env = repo, environ
	text, err := cmd.Output()
	if err != nil || strings.Count(string(text), "good-") != 4 {
		complain("what is delivered cannot be used: %v\n%s", err, text)
	}
	if merged := slices.ContainsFunc(live, func(w Work) bool { return w.Commit == bad.Commit }) && len(m.Failed) == 0; merged && bad.Commit != "" && x.mark != "" && !strings.Contains(string(text), strings.TrimSpace(x.mark)) {
		complain("its work is not delivered as it was: %s", text)
	}
}

// names are the names of what is in directories.
func names(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all[e.Name()] = true
		}
	}
	return all
}
