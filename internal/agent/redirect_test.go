//go:build linux

package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/testenv"
)

// TestRedirectionsLeaveTheSameWithoutAShellAsWithOne runs commands with redirections in both ways, and compares
// what is seen of them and all that lies in their directory afterwards.
func TestRedirectionsLeaveTheSameWithoutAShellAsWithOne(t *testing.T) {
	rounds := 2000 / testenv.OneIn(20, 10)
	l := newYard(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	l.compareMany(t, rounds, rounds/20, func(n int) func() {
		e := l.redirection(rnd, n)
		return func() { l.compareFiles(t, e) }
	})
}

// TestRedirectionsOfEachKindNeedAShellOrNot names what is opened without one.
func TestRedirectionsOfEachKindNeedAShellOrNot(t *testing.T) {
	l := newYard(t)
	for i, c := range []struct {
		script string
		alone  bool
	}{
		{"tell 2>&1", true},
		{"tell >&2", true},
		{"tell > /dev/null", true},
		{"tell > /dev/null 2>&1 < /dev/null", true},
		{"tell 2>&1 > /dev/null", true},
		{"head -c 9 < old", false},
		{"head -c 9 < ${item.b}", false},
		{"fds < /dev/null 2>> /dev/null", true},
		{"fds 0> /dev/null 1< /dev/null", false},
		{"/bin/sh -c 'echo o; kill -KILL $$' 2> /dev/null", true},
		{"/bin/sh -c 'echo o; kill -KILL $$' 2>&1 < /dev/null", true},
		{"/bin/sh -c 'echo o; kill -KILL $$' 2< /dev/null", false},
		{"/bin/sh -c 'echo o; echo e >&2; kill -KILL $$' >&2", true},
		{"missing 2>&1", false},
		{"./missing 2> /dev/null", false},
		{"bare 2>&1", false},
		{"tell > new", false},
		{"tell >> old 2>&1", false},
		{"tell 2>&1 > old", false},
		{"tell > ${item.b}", false},
		{"tell 2> /dev/fd/1", false},
		{"tell 2>&1>/dev/null", false},
	} {
		t.Run(c.script, func(t *testing.T) {
			before := l.without.Load()
			l.compareFiles(t, experiment{script: c.script, item: `{"b":"-n &1 $(touch x)","c":"old"}`, env: l.path(), dir: l.yard(1000000 + i)})
			if got := l.without.Load() > before; got != c.alone {
				t.Errorf("run without a shell: got %t, want %t", got, c.alone)
			}
		})
	}
}

// newYard is a lab whose experiments have a directory each.
func newYard(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, "dash")
	fds := "#!/bin/sh\nseen=$(for n in 0 1 2; do readlink /proc/$$/fd/$n | sed 's/[0-9][0-9]*/N/g'; grep ^pos /proc/$$/fdinfo/$n; done)\necho \"$seen\" > seen; echo o; echo e >&2\n"
	for name, text := range map[string]string{"second/fds": fds, "run": "#!/bin/sh\necho ran; echo complained >&2; exit 5\n"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(l.dir), name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *lab) path() []string {
	return []string{"PATH=" + filepath.Dir(l.dir) + "/second:" + os.Getenv("PATH")}
}

func (l *lab) yard(n int) string {
	return filepath.Join(filepath.Dir(l.dir), "yard", strconv.Itoa(n), "here")
}

// redirection makes a command up that has redirections.
func (l *lab) redirection(rnd *rand.Rand, n int) experiment {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	names := []string{
		"new", "new", "new", "new", "old", "old", "old", "other", "${item.b}", "${item.b}", "x${item.b}y", `"${item.a}"`, "'a b'", "/dev/null", "/dev/null", "link", "dangling", "sub/f", "sub/../f",
		"missing/f", "missing/../f", "folder", "folder/", "old/", "old/f", "new/", "closed/new", "closed/in", "locked", "unreadable", "loop", "null", "''", "${item.list[*]}", `"${item.list[*]}"`, "${item.a|opt}",
		"~", "*", "$x", "{a,b}", "-n", "a=b", l.dir + "/../yard/" + strconv.Itoa(n) + "/abs", strings.Repeat("n", 256), "./" + strings.Repeat("sub/../", 700) + "f",
	}
	outs := append([]string{"pipe", "out", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/2", "/dev/full"}, names...)
	ins := append([]string{"/proc/self/cmdline", "cmdline"}, names...)
	script := pick("tell a", "tell ${item.a} 'b c'", "./run", "head -c 9", "fds", `/bin/sh -c 'echo o; echo e >&2; head -c 3; echo p; exit 4'`, `/bin/sh -c 'echo o; echo e >&2; kill -KILL $$'`,
		"/bin/sh -c 'kill -PIPE $$'", "missing", "./missing", "bare x", "lost", "garbage", "empty", "tell a 2", `tell \2`, "tell a1")
	var redirects strings.Builder
	for range 1 + rnd.IntN(3) {
		space := pick("", " ")
		switch rnd.IntN(12) {
		case 0, 1, 2, 3:
			redirects.WriteString(pick(" 2>&1", " 2>&1", " 2>&1", " >&2", " 1>&2", ">&2", " >&1", " 3>&1"))
		case 4, 5, 6:
			redirects.WriteString(pick(" > /dev/null", " 2> /dev/null", " 2>> /dev/null", " >/dev/null"))
		case 7, 8, 9:
			redirects.WriteString(pick(" <", " <", " <", " 0<", " 1<", " 2<") + space + pick(ins...))
		default:
			redirects.WriteString(pick(" >", " >", " >", " >", ">", " 1>", " 2>", " 2>", " 2>", " >>", " >>", " 2>>", " 0>", " 3>", " >|") + space + pick(outs...))
		}
	}
	script += redirects.String()
	if rnd.IntN(8) == 0 {
		script = redirects.String() + " tell z"
	}
	item := map[string]any{"a": pick("", "one", "two words", "$(touch x)"), "b": pick("'", `"`, `\`, "*", "~", "-", "-n", "&1", "&", "line\nline", "é", "..", "folder/../old", "missing/../old", ">", " "), "list": []string{"p q", ""}}
	data, err := json.Marshal(item)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return experiment{script: script, item: string(data), env: l.path(), dir: l.yard(n)}
}

// leftover is what a command left in its directory.
type leftover struct {
	Seen  sight
	Files map[string]string
}

func (l *lab) compareFiles(t *testing.T, e experiment) {
	t.Helper()
	direct, asked := l.leave(t, l.direct, e), l.leave(t, l.asked, e)
	if diff := cmp.Diff(direct, asked); diff != "" {
		t.Errorf("%s\nitem %s: alone -, by the shell +:\n%s", e.script, e.item, diff)
	}
}

// leave performs e in a directory that was made for it, and removes that.
func (l *lab) leave(t *testing.T, x *Executor, e experiment) leftover {
	t.Helper()
	lay(t, e.dir)
	defer clearAway(t, filepath.Dir(e.dir))
	pipe, err := os.OpenFile(filepath.Join(e.dir, "pipe"), os.O_RDWR|syscall.O_NONBLOCK, 0) // so that nobody waits for its other end
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	left := leftover{Seen: l.perform(t, x, e), Files: map[string]string{}}
	left.Files["in pipe"] = drained(t, pipe)
	err = filepath.WalkDir(filepath.Dir(e.dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		left.Files[path], err = holds(path, entry)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// drained returns what lies in a pipe.
func drained(t *testing.T, pipe *os.File) string {
	t.Helper()
	if err := pipe.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	conn, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	buf := make([]byte, 64<<10)
	err = conn.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) }) // an empty one has nothing
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:max(0, n)])
}

// holds returns the mode of a file, and what it holds.
func holds(path string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if err != nil {
		return "", err
	}
	text := info.Mode().String()
	switch {
	case info.Mode().IsRegular():
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return "", err
		}
		return text + " " + string(data), nil
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return text + " " + to, err
	}
	return text, nil
}

// lay makes a directory with files of all kinds.
func lay(t *testing.T, dir string) {
	t.Helper()
	for _, folder := range []string{"folder", "sub", "closed"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]fs.FileMode{"old": 0o640, "other": 0o600, "locked": 0o444, "unreadable": 0o200, "closed/in": 0o666}
	for name, mode := range files {
		const text = "some text to be seen\nand more of it\n"
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"link": "old", "dangling": "made", "loop": "loop", "null": "/dev/null", "out": "/dev/stdout", "cmdline": "/proc/self/cmdline"}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// A program that is written while others are started may be held by one of them, and cannot run then.
	program := os.Link(filepath.Join(dir, "../../../run"), filepath.Join(dir, "run"))
	if err := errors.Join(program, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Chmod(filepath.Join(dir, "closed"), 0o555)); err != nil {
		t.Fatal(err)
	}
}

func clearAway(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.Chmod(filepath.Join(dir, "here/closed"), 0o755), os.RemoveAll(dir)); err != nil {
		t.Error(err)
	}
}
