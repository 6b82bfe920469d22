//go:build unix

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/process"
	"prodigy/internal/testenv"
)

// TestProgramsRunWithoutAShellAsWithOne runs commands in both ways and compares all that can be seen of them.
func TestProgramsRunWithoutAShellAsWithOne(t *testing.T) {
	rounds := 1500 / testenv.OneIn(15, 10)
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			l := newLab(t, shell) // before any program starts: one that starts while another is written keeps that busy
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, 2))
			l.compareMany(t, rounds, rounds/6, func(int) func() {
				e := l.experiment(rnd)
				return func() { l.compare(t, e) }
			})
		})
	}
}

// TestDeathsAreToldAsTheShellTellsThem goes through all signals that end a program.
func TestDeathsAreToldAsTheShellTellsThem(t *testing.T) {
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			l := newLab(t, shell)
			for n := 1; n < 32; n++ { // the words for others, which programs may use as they like, differ
				if slices.Contains([]int{17, 18, 19, 20, 21, 22, 23, 28}, n) {
					continue // they do not end a program, or no program can send them
				}
				l.compare(t, experiment{script: fmt.Sprintf("/bin/sh -c 'kill -%d $$; exit 7'", n), env: []string{"PATH=" + os.Getenv("PATH")}, dir: l.dir})
			}
			if l.without.Load() == 0 {
				t.Error("got no command run without a shell")
			}
		})
	}
}

// lab is a directory full of programs, and an executor for either way.
type lab struct {
	dir     string
	link    string // leads to dir
	without atomic.Int64
	direct  *Executor
	asked   *Executor // always runs the shell
}

func newLab(t *testing.T, shell string) *lab {
	t.Helper()
	file, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("there is no %s", shell)
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: filepath.Join(root, "work"), link: filepath.Join(root, "link")}
	l.furnish(t, root)
	sh := filepath.Join(root, "sh")
	if err := os.Symlink(file, sh); err != nil {
		t.Fatal(err)
	}
	l.direct, l.asked = local(t), local(t)
	unknown := filepath.Join(root, "unknown") // the same shell under a name that is not known runs every command itself
	binary, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unknown, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	l.direct.shell = func() *process.Shell { return process.ShellAt(sh) }
	l.asked.shell = func() *process.Shell { return process.ShellAt(unknown) }
	l.direct.Run = func(ctx context.Context, c process.Command) (process.Exit, error) {
		exit, err := process.Run(ctx, c)
		if c.Path != sh && exit.Start == nil {
			l.without.Add(1)
		}
		return exit, err
	}
	return l
}

// compareMany makes the comparisons that next prepares, some at a time. At least so many of their commands must run
// without a shell.
func (l *lab) compareMany(t *testing.T, rounds, least int, next func(n int) func()) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for n := range rounds {
		compare := next(n)
		group.Go(func() error { compare(); return nil })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := int(l.without.Load()); n < least {
		t.Errorf("got %d of %d commands run without a shell, want %d at least", n, rounds, least)
	}
}

// furnish makes programs that say how they were started, and files that are none.
func (l *lab) furnish(t *testing.T, root string) {
	t.Helper()
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	tell := "#!/bin/sh\nprintf '<%s>' \"$0\" \"$@\"; echo; pwd -P; echo complaint >&2; exit ${#1}\n"
	files := map[string]os.FileMode{
		"first/tell": 0o644, "first/nothing": 0o644, "second/tell": 0o755, "second/bare": 0o755, "second/lost": 0o755, "second/empty": 0o755,
		"second/garbage": 0o755, "third/tell": 0o755, "work/tell": 0o755, "work/bare": 0o755, "work/refused": 0o644, "work/sub/tell": 0o755,
	}
	texts := map[string]string{
		"bare": strings.TrimPrefix(tell, "#!/bin/sh\n"), "lost": "#!/no/such/interpreter\n", "empty": "", "garbage": "\x7fELF\x00\x01",
	}
	for file, mode := range files {
		text, special := texts[filepath.Base(file)]
		if !special {
			text = tell
		}
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "work", "second/show": env, "work/show": env, "work/loop": "loop", "second/loop": "loop", "first/folder": "."} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
}

// experiment is a command to be run in both ways.
type experiment struct {
	script string
	item   string
	env    []string
	dir    string
}

// experiment makes one up, of parts that are ordinary more often than not.
func (l *lab) experiment(rnd *rand.Rand) experiment {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	root := filepath.Dir(l.dir)
	e := experiment{dir: pick(l.dir, l.dir, l.dir, l.dir, l.dir, l.dir, l.link, l.link, filepath.Join(l.dir, "sub"), root+"/missing")}
	program := pick("show", "show", "show", "show", "show", "show", "tell", "tell", "tell", "tell", "tell", "tell", "./tell", "./show", l.dir+"/tell", "../third/tell", "bare", "./bare", "lost", "empty",
		"garbage", "nothing", "missing", "./missing", "folder", "./sub", "refused", "./refused", "loop", "./loop", "setsid", "/bin/sh", "timeout", "cat")
	e.script = program
	switch program {
	case "show", "./show":
	case "/bin/sh":
		e.script += " -c " + pick("'exit 3'", "'kill -9 $$'", "'kill -TERM $$'", "'echo $PPID | grep -c .'", `'echo "$1"' x ${item.a}`)
	case "timeout":
		e.script += pick(" 5 true", " -s KILL 0.01 sleep 5", " 0.01 sleep 5", " 5 sh -c 'exit 9'")
	case "cat":
		e.script += pick("", " /dev/null", " /no/such", " tell")
	default:
		for range rnd.IntN(4) {
			e.script += " " + pick("a", "'b c'", `"d e"`, `f\ g`, "${item.a}", `"x${item.b}y"`, `'${item.b}'`, "${item.list[*]}", "--k=${item.a}", `""`, "${item.n|json}")
		}
	}
	item := map[string]any{"a": pick("", "one", "two words", "$(touch x)", "é\n\n", "-n"), "b": pick("'", `"`, `\`, "*", "~"), "n": rnd.IntN(300), "list": []string{"p q", ""}}
	data, err := json.Marshal(item)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	e.item = string(data)
	e.env = l.environ(rnd, pick, root)
	return e
}

func (l *lab) environ(rnd *rand.Rand, pick func(...string) string, root string) []string {
	system := os.Getenv("PATH")
	all := root + "/first:" + root + "/none:" + root + "/second:" + system
	env := []string{
		"PATH=" + pick(all, all, all, all, all, all, all, all, all, all, root+"/third:"+all, ":"+all, "sub:"+all, root+"/first:"+root+"/second/:"+system, root+"/first", system, ""),
	}
	if rnd.IntN(12) == 0 {
		env = nil // no PATH
	}
	odd := []string{
		"PWD=" + l.dir, "PWD=" + l.link, "PWD=/", "PWD=/no/such", "PWD=work", "PWD=" + l.dir + "/sub/..", "PWD=", "OLDPWD=/", "OLDPWD=/no/such", "OLDPWD=",
		"SHLVL=3", "SHLVL=x", "SHLVL=", "_=/usr/bin/prodigy", "ENV=/no/such", "BASH_ENV=/no/such", "IFS=x", "OPTIND=4", "OPTARG=4", "PPID=1", "UID=7", "PS1=$ ", "PS2=x",
		"PS4=x", "LINENO=9", "RANDOM=3", "POSIXLY_CORRECT=1", "SHELLOPTS=xtrace", "BASH_FUNC_tell%%=() { echo taken; }", "a.b=c", "1x=y", "HOME=/", "CDPATH=/", "TERM=dumb",
		"COLUMNS=7", "MAIL=x", "TMOUT=5", "LC_ALL=C", "HISTFILE=x", "HOSTNAME=h", "empty=", "twice=1", "twice=2", "text=two\nlines", "high=\xff\xfe", "tell=x", "PATH_X=1",
		"GROUPS=1", "SECONDS=9", "FUNCNAME=f", "MACHTYPE=m", "SHELL=/bin/zsh", "LINES=3", "EDITOR=e", "POSIX_PEDANTIC=1", "IGNOREEOF=1", "HISTCONTROL=x", "FPATH=x",
	}
	for range max(0, rnd.IntN(6)-2) {
		env = append(env, pick(odd...))
	}
	return env
}

// sight is what the world sees of a command.
type sight struct {
	Outcome Outcome
	Error   string
}

func (l *lab) compare(t *testing.T, e experiment) {
	t.Helper()
	direct, asked := l.perform(t, l.direct, e), l.perform(t, l.asked, e)
	if diff := cmp.Diff(direct, asked); diff != "" {
		t.Errorf("%s\nin %s, item %s, env %q: alone -, by the shell +:\n%s", e.script, e.dir, e.item, e.env, diff)
	}
}

func (l *lab) perform(t *testing.T, x *Executor, e experiment) sight {
	t.Helper()
	a := ofItem(shellStep(e.script))
	a.Item, a.Dir = json.RawMessage(e.item), e.dir
	y := New(Config{Run: x.Run, Environ: e.env, TempDir: x.TempDir, Grace: time.Second}, new(noJob))
	y.shell = x.shell
	o, err := y.Execute(t.Context(), a)
	o.Duration = 0
	lines := strings.Split(o.Output, "\n")
	slices.Sort(lines) // the order of an environment is nobody's business
	o.Output = strings.Join(lines, "\n")
	if o.Failure != nil {
		failure := *o.Failure
		failure.Stdout = strconv.Itoa(len(failure.Stdout))
		o.Failure = &failure
	}
	return sight{Outcome: o, Error: fmt.Sprint(err)}
}
