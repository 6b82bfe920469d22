package template

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/process"
	"prodigy/internal/testenv"
)

func TestPlainCommandsGiveTheirWords(t *testing.T) {
	r := item(`{"v":"a'b $(touch pwned)","e":"","list":["x y",""],"none":[],"n":"7"}`)
	r["count"] = Text("7")
	for _, c := range []struct {
		src  string
		want []string
	}{
		{`ls -l`, []string{"ls", "-l"}},
		{"  ./bin/x.sh a  # done", []string{"./bin/x.sh", "a"}},
		{"  p \\\n  a\\\nb", []string{"p", "ab"}},
		{"p # \\\na", nil},
		{`p ${item.v} "${item.v}" '${item.v}' -x=${item.v}.txt`, []string{"p", "a'b $(touch pwned)", "a'b $(touch pwned)", "a'b $(touch pwned)", "-x=a'b $(touch pwned).txt"}},
		{`p ${item.e} ${item.list[*]} "${item.list[*]}" ${item.none[*]}`, []string{"p", "", "x y", "", "x y "}},
		{`p ${item.v|json} ${item.nope:-d e} ${count}`, []string{"p", `"a'b $(touch pwned)"`, "d e", "7"}},
		{`p "" '' a\ b "\$x \a" 'it'\''s' {} find! HEAD^ ]`, []string{"p", "", "", "a b", `$x \a`, "it's", "{}", "find!", "HEAD^", "]"}},
		{`p '${a.b}' $${item.v}`, []string{"p", "${a.b}", "${item.v}"}},
		{`sh -c 'p "$1"' _ ${item.v}`, []string{"sh", "-c", `p "$1"`, "_", "a'b $(touch pwned)"}},
		{`ssh h 'p ${item.v|sh}'`, []string{"ssh", "h", `p 'a'\''b $(touch pwned)'`}},
		{`sh -c 'p ${item.v}'`, nil},
		{`exec ls`, nil},
		{`echo a`, nil},
		{`[ a = b ]`, nil},
		{`"echo" a`, nil},
		{`ls; ls`, nil},
		{`ls &`, nil},
		{`ls > f`, nil},
		{`ls 2>&1`, []string{"ls"}},
		{`ls < f`, nil},
		{`! ls`, nil},
		{`ls <<E` + "\nx\nE", nil},
		{`a=b ls`, nil},
		{`a=b`, nil},
		{`ls | cat`, nil},
		{`ls $x`, nil},
		{`ls "$x"`, nil},
		{`ls $count`, nil},
		{`ls *`, nil},
		{`ls ~`, nil},
		{`ls a=~`, nil},
		{`ls {a,b}`, nil},
		{`ls [a]`, nil},
		{`ls a?`, nil},
		{`ls $'a'`, nil},
		{`ls $"a"`, nil},
		{`ls $(x)`, nil},
		{"ls `x`", nil},
		{`ls $((1))`, nil},
		{`ls <(x)`, nil},
		{`ls @(a)`, nil},
		{"ls a\r\n", nil},
		{`ls é`, nil},
		{`${item.n}`, nil},
		{`x${item.n} a`, nil},
		{`(ls)`, nil},
		{`time ls`, nil},
		{`ls ${item.v|raw}`, nil},
		{`# nothing`, nil},
		{``, nil},
		{`ls 'a`, nil},
	} {
		t.Run(c.src, func(t *testing.T) {
			tmpl, err := Compile(c.src, Options{Names: testNames})
			if err != nil {
				t.Fatal(err)
			}
			r["API_KEY"] = Text("k")
			inv, err := tmpl.Bind(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, inv.Argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirectionsOfPlainCommands(t *testing.T) {
	r := item(`{"v":"&1"}`)
	for _, c := range []struct {
		src  string
		want []process.Redirect // nil: the shell is needed
	}{
		{`p 2>&1`, []process.Redirect{{FD: 2, To: 1}}},
		{`p >&2`, []process.Redirect{{FD: 1, To: 2}}},
		{`p a>/dev/null 2>&1 b`, []process.Redirect{{FD: 1, To: process.Null}, {FD: 2, To: 1}}},
		{`p 2>&1 >> /dev/null`, []process.Redirect{{FD: 2, To: 1}, {FD: 1, To: process.Null}}},
		{`</dev/null p 2 > /dev/null`, []process.Redirect{{FD: 0, To: process.Null}, {FD: 1, To: process.Null}}},
		{`p 2>&1>/dev/null`, nil},
		{`p a1>/dev/null`, nil},
		{"p 2\\\n>&1", nil},
		{"p 2>\\\n&1", nil},
		{`p \2>&1`, nil},
		{`p 1</dev/null`, nil},
		{`p 0>/dev/null`, nil},
		{`p 3>/dev/null`, nil},
		{`p >|/dev/null`, nil},
		{`p &>/dev/null`, nil},
		{`p >&1`, nil},
		{`p 2>&-`, nil},
		{`p 2>&"1"`, nil},
		{`p >&${item.v}`, nil},
		{`p > ${item.v}`, nil},
		{`p > f`, nil},
		{`p < f`, nil},
		{`p > /dev/null &`, nil},
		{`p 2>&1 | q`, nil},
		{`{ p; } 2>&1`, nil},
		{`> /dev/null`, nil},
	} {
		t.Run(c.src, func(t *testing.T) {
			inv, err := bound(t, c.src, r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, inv.Redirects); diff != "" || (inv.Argv != nil) != (c.want != nil) {
				t.Errorf("got the words %q, redirections (-want +got):\n%s", inv.Argv, diff)
			}
		})
	}
}

func TestLargeValuesNeedTheShell(t *testing.T) {
	inv, err := bound(t, `p ${item.v}`, values{"item": Value{}.With(map[string]Value{"v": Text(strings.Repeat("x", 70<<10))})})
	if err != nil || inv.Argv != nil || inv.Values == "" {
		t.Errorf("got %d words (%v), want none", len(inv.Argv), err)
	}
}

// outcome is what can be seen of a command that has run.
type outcome struct {
	Stdout, Stderr string
	Code           int
}

// runArgs runs a program as a shell would: looked up in PATH, with PWD set. Without the program the words of
// the message may differ.
func runArgs(t *testing.T, dir string, env, argv []string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=/h", "PWD=" + dir}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case err == nil || exited:
	case errors.Is(err, os.ErrPermission):
		return outcome{Code: 126}
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound):
		return outcome{Code: 127}
	default:
		t.Fatalf("run %q: %v", argv, err)
	}
	o := outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if o.Code == 126 || o.Code == 127 {
		o.Stderr = ""
	}
	return o
}

// commandText draws text that is often one plain command.
func commandText(t *rapid.T) string {
	program := rapid.SampledFrom([]string{
		"env printf '[%s]'", "env printf '[%s]'", "env printf '[%s]'", "/usr/bin/env printf '<%s>'", `"env" "printf" "(%s)"`, "./args", "cat", "expr", "no-such-program", "./no-such", "./plain-file",
		"env sh -c 'exit 7'", "ls -d", "nice env printf '%s;'", "sub/args", ".",
	}).Draw(t, "program")
	pieces := rapid.SampledFrom([]string{
		"a", "b c", "${item.v}", `"${item.v}"`, `'${item.w}'`, "${item.list[*]}", `"x ${item.list[*]}"`, "${item.v|json}", "$${item.v}", `\${item.v}`, "''", `""`, `\ `, `\\`, `\`, `"`, `'`, `"\$"`, `"\\\a"`,
		"=", "~", "/", ":", "{}", "{a,b}", "{", "}", "*", "?", "[", "]", "!", "#", "%", "^", "@", "+", "-", ",", "&", ";", "|", "<", ">", "(", ")", "$", "$x", "$$", "`", "\n", "\t", "\\\n", "1", "2", "=~", "a=", "é", "'é'", "--", "in", "do",
	})
	var text strings.Builder
	text.WriteString(program)
	for _, word := range rapid.SliceOfN(rapid.SliceOfN(pieces, 1, 3), 0, 4).Draw(t, "words") {
		text.WriteString(" " + strings.Join(word, ""))
	}
	return text.String()
}

func TestRunningAProgramIsTheSameAsAShellRunningIt(t *testing.T) {
	for _, shell := range shells("sh", "bash") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, mode := range map[string]os.FileMode{"args": 0o700, "sub/args": 0o700, "plain-file": 0o600} {
				path := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("#!/bin/sh\nprintf '[%s]' \"$0\" \"$@\" \"$PWD\"; exit $#\n"), mode)); err != nil {
					t.Fatal(err)
				}
			}
			plain, tries := 0, 8/testenv.OneIn(4, 4) // rapid does less with -short itself
			rapid.Check(t, func(rt *rapid.T) {
				for range tries {
					if sameBothWays(t, rt, shell, dir) {
						plain++
					}
				}
			})
			t.Logf("%d plain commands", plain)
			if plain < 2*tries {
				t.Errorf("got %d plain commands, want more of them", plain)
			}
		})
	}
}

// sameBothWays runs one command both ways. It returns false when the text is no plain command.
func sameBothWays(t *testing.T, rt *rapid.T, shell, dir string) bool {
	src := commandText(rt)
	tmpl, err := Compile(src, Options{Names: testNames, Shell: shell})
	if err != nil {
		return false
	}
	value := strings.ReplaceAll(hostileValue(rt), "\x00", "")
	inv, err := tmpl.Bind(values{"item": Value{}.With(map[string]Value{"v": Text(value), "w": Text("w w"), "list": JSON([]byte(`["a b","","*"]`))})})
	if err != nil || inv.Argv == nil || inv.Redirects != nil {
		return false
	}
	direct := runArgs(t, dir, inv.Env, inv.Argv)
	if diff := cmp.Diff(runArgs(t, dir, inv.Env, []string{shell, "-c", inv.Script}), direct); diff != "" {
		rt.Fatalf("%q as %q and as %q (-shell +direct):\n%s", src, inv.Script, inv.Argv, diff)
	}
	return true
}
