package template

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func bound(t *testing.T, script string, r Resolver) (*Invocation, error) {
	t.Helper()
	tmpl, err := Compile(script, Options{Names: testNames})
	if err != nil {
		t.Fatalf("compile %q: %v", script, err)
	}
	return tmpl.Bind(r)
}

func TestScriptsPrintTheirValues(t *testing.T) {
	r := item(`{"v":"a'b $(touch pwned)","n":"-3","z":"08","list":["a b","$(touch pwned)"],"none":[],"null":null,"f":1.50,
		"b":true,"obj":{"k": [1, "x"]},"words":" a  b*\n","path":"d/é f.txt","amp":"&\\&","cmd":"printf '[%s]' pasted","objs":[{"id":1},{"x":2},{"id":"three"}]}`)
	r["count"], r["API_KEY"] = Text("007"), Text("k'$(touch pwned)")
	for _, c := range []struct{ script, want string }{
		{`printf '[%s]' $((5-${item.n})) $((${item.z}+1)) "$((${count}))"`, "[8][9][7]"},
		{`printf '[%s]' $((count + 1)) $count`, "[8][7]"},
		// The first parameter of the script is a number, and that of a program in a variable is not.
		{`set -- 1; : $(($1)); y=${item.v}; c=printf; "$c" '[%s]' "$y"; "$c" "$y" >/dev/null`, "[a'b $(touch pwned)]"},
		{`[ ${item.n} -lt 0 ] && printf yes`, "yes"},
		{`printf '[%s]' ${item.f} ${item.b} ${item.null} ${item.obj} ${item.list[0]}`, `[1.50][true][null][{"k":[1,"x"]}][a b]`},
		{`printf '[%s]' ${item.null:-none} "${item.nope:-it's \}}"`, `[none][it's }]`},
		{`printf '[%s]' ${item.list[*]} "${item.list[*]}" ${item.none[*]}`, "[a b][$(touch pwned)][a b $(touch pwned)]"},
		{`printf '[%s]' ${item.objs[*].id}`, "[1][three]"},
		{`printf '[%s]' ${item.words|words} "${item.words|words}"`, "[a][b*][a b*]"},
		{`printf '[%s]' ${item.v|json} ${item.obj|json} ${item.path|url} ${item.path|basename} ${item.n|int}`, `["a'b $(touch pwned)"][{"k":[1,"x"]}][d%2F%C3%A9%20f.txt][é f.txt][-3]`},
		{`${item.cmd|raw} x`, "[pasted][x]"},
		{`eval "printf '[%s]' ${item.list[*]|sh}"`, "[a b][$(touch pwned)]"},
		{`sh -c 'printf "[%s]" ${item.list[*]}'`, "[a b][$(touch pwned)]"},
		{`sh -c "printf '[%s]' \"\$API_KEY\""`, "[k'$(touch pwned)]"},
		{`printf '[%s]' "$API_KEY" 'x$API_KEY' ${API_KEY#k}`, "[k'$(touch pwned)][xk'$(touch pwned)]['$(touch][pwned)]"},
		{`printf '[%s]' "${shell:-unset}" "${HOME}"`, "[unset][/h]"},
		{`API_KEY=x; printf '[%s]' ${API_KEY}`, "[x]"},
		{"sh <<'E'\nprintf '[%s]' ${item.v} \"$HOME\" ${item.v|sh}\nE", "[a'b $(touch pwned)][/h][a'b $(touch pwned)]"},
		{"printf '[%s]' `printf '[%s]' ${item.z}`", "[[08]]"},
		{`x=abc; printf '[%s]' "${x/b/${item.amp}}" ${x/b/${item.amp}}`, "[a&\\&c][a&\\&c]"},
		{`printf '[%s]' "$(printf %s "${item.v}")"`, "[a'b $(touch pwned)]"},
		{"cat <<'E'\n$HOME \\ ${a.b} '${item.z}' $${item.z}\nE", "$HOME \\ ${a.b} '08' ${item.z}\n"},
	} {
		for _, shell := range shells("sh", "bash") {
			if shell == "sh" && strings.Contains(c.script, "${x/") {
				continue // no POSIX shell needs to know it
			}
			t.Run(shell+" "+c.script, func(t *testing.T) {
				if got := printed(t, shell, c.script, r); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		}
	}
}

func TestBindRefusesWhatCannotRun(t *testing.T) {
	r := item(`{"v":"a'b","nul":"a\u0000b","list":["1","x"]}`)
	r["count"] = Text("a[$(touch pwned)]")
	for _, c := range []struct{ script, want string }{
		{`echo ${item.nope}`, "${item.nope} has no value for this item"},
		{`echo ${shell.output}`, "${shell.output} has no value here"},
		{`echo $API_KEY`, "$API_KEY has no value here"},
		{`echo $((${item.v}))`, `${item.v} is used in arithmetic, and its value "a'b" is not an integer`},
		{`n=${item.v}; echo $((n + 1))`, `${item.v} is used in arithmetic, and its value "a'b" is not an integer`},
		{`declare -i n; n=${item.v}`, `${item.v} is used in arithmetic, and its value "a'b" is not an integer`},
		{`for n in ${item.list[*]}; do echo $((n)); done`, `${item.list[*]} is used in arithmetic, and its value "x" is not an integer`},
		{`echo $((count + 1))`, `$count is used in arithmetic, and its value "a[$(touch pwned)]" is not an integer`},
		{`exit ${item.v}`, `${item.v} is used in arithmetic, and its value "a'b" is not an integer`},
		{`echo ${item.v|int}`, `${item.v|int} requires an integer, and its value "a'b" is not an integer`},
		{`echo ${item.nul}`, "${item.nul} has a value with a NUL byte at offset 1; items that end with NUL need map -0, or format: nul"},
	} {
		t.Run(c.script, func(t *testing.T) {
			_, err := bound(t, c.script, r)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestLargeValuesGoThroughAFile(t *testing.T) {
	large := strings.Repeat("'\"$(touch pwned)\n", 5000)
	many := make([]string, 1_000) // bash takes longer for a list than it has words
	for i := range many {
		many[i] = fmt.Sprintf("x %d", i)
	}
	list, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	r := values{"item": Value{}.With(map[string]Value{"v": Text(large), "list": JSON(list), "s": Text("small")}), "count": Text(large)}
	for _, c := range []struct{ script, want string }{
		{`printf '%s' ${item.v}`, large},
		{"cat <<'E'\n${item.v}\nE", large + "\n"},
		{`printf '%s' "$count"`, large},
		{"# ${item.v}\nprintf '%s' ${item.v}", large},
		{`for x in ${item.list[*]}; do printf '%s\n' "$x"; done`, strings.Join(many, "\n") + "\n"},
		{`x=${item.v}; sh -c 'printf %s ${item.s}'`, "small"},
	} {
		inv, err := bound(t, c.script, r)
		if err != nil {
			t.Fatal(err)
		}
		if inv.Values == "" {
			t.Errorf("%q: got no file of values, want one", c.script)
		}
		for _, shell := range shells("sh", "bash") {
			if got := printed(t, shell, c.script, r); got != c.want {
				t.Errorf("%s %q: got %d bytes, want %d", shell, c.script, len(got), len(c.want))
			}
		}
	}
	if _, err := bound(t, `sh -c 'printf %s ${item.v}'`, r); err == nil {
		t.Error("got no error for a large value in nested code, want one")
	}
}

func TestScriptWithoutPlaceholdersPassesUntouched(t *testing.T) {
	const script = "echo 'not even (valid $HOME ${x%y}"
	tmpl, err := Compile(script, Options{Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	inv, err := tmpl.Bind(values{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Invocation{Script: script}, inv); diff != "" {
		t.Errorf("invocation (-want +got):\n%s", diff)
	}
	if got := tmpl.Render(values{}); got != script {
		t.Errorf("rendered: got %q, want %q", got, script)
	}
}

func TestRenderShowsValuesAsTheyCouldBeTyped(t *testing.T) {
	r := item(`{"v":"a'b","s":"plain","list":["a b","c"]}`)
	for _, c := range []struct{ script, want string }{
		{`p ${item.v} ${item.s} "${item.v}" '${item.v}'`, `p 'a'\''b' plain "a'b" 'a'\''b'`},
		{`p ${item.list[*]} ${item.nope}`, `p 'a b' c ${item.nope}`},
		{"cat <<'E'\n${item.v}\nE", "cat <<'E'\na'b\nE"},
		{`sh -c 'p ${item.v}'`, `sh -c 'p '\''a'\''\'\'''\''b'\'''`},
		{`p $${item.v} # ${item.v}`, `p $${item.v} # ${item.v}`},
	} {
		tmpl, err := Compile(c.script, Options{Names: testNames})
		if err != nil {
			t.Fatal(err)
		}
		if got := tmpl.Render(r); got != c.want {
			t.Errorf("%q: got %q, want %q", c.script, got, c.want)
		}
	}
}

func TestUsesKnowsTheRootsOfAScript(t *testing.T) {
	tmpl, err := Compile(`p ${item.v} $count '$API_KEY'; map=1; p ${map}`, Options{Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]bool{"item": true, "count": true, "API_KEY": true, "map": false, "shell": false} {
		if got := tmpl.Uses(root); got != want {
			t.Errorf("%s: got %v, want %v", root, got, want)
		}
	}
}

func TestOneTemplateIsBoundByManyAtOnce(t *testing.T) {
	tmpl, err := Compile(`p ${item.v} ${item.list[*]} $count`, Options{Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			r := item(fmt.Sprintf(`{"v":"%d","list":["a"]}`, n))
			r["count"] = Text("1")
			inv, err := tmpl.Bind(r)
			if err != nil || inv.Env[0] != fmt.Sprintf("PRODIGY_V0=%d", n) {
				t.Errorf("got %v (%v), want the value %d", inv, err, n)
			}
		})
	}
	wg.Wait()
}

func TestPlainTextTakesValuesAsTheyAre(t *testing.T) {
	r := item(`{"v":"a'b","list":["x","y"]}`)
	r["count"] = Text("7")
	for _, c := range []struct{ src, want string }{
		{`/fix '${item.v}' ${item.list[*]} $count ${count} ${item.nope:-no}`, `/fix 'a'b' x y 7 7 no`},
		{`$${item.v} $${HOME} $5 $${js.template}`, `${item.v} ${HOME} $5 ${js.template}`},
	} {
		p, err := CompilePlain(c.src, testNames)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Bind(r)
		if err != nil || got != c.want {
			t.Errorf("%q: got %q (%v), want %q", c.src, got, err, c.want)
		}
		if shown := p.Render(r); shown != c.want {
			t.Errorf("%q: shown %q, want %q", c.src, shown, c.want)
		}
	}
	if _, err := CompilePlain("${itme.v}", testNames); err == nil {
		t.Error("got no error for a mistyped name, want one")
	}
	for written, want := range map[string]string{"${item.}": "${item.} needs a field name: ${item.name}", "${item%x}": "${item%x} is not a placeholder"} {
		if _, err := CompilePlain(written, testNames); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", written, err, want)
		}
	}
	if _, err := CompilePlain("${validation.gaps}", Names{}); err == nil || !strings.Contains(err.Error(), "$${validation.gaps} for the literal text") {
		t.Errorf("got %v for a name of prodigy that is not known here, want an error that shows how to write the text", err)
	}
	if p, err := CompilePlain("$${validation.gaps}", Names{}); err != nil || p.Render(r) != "${validation.gaps}" {
		t.Errorf("got %v, want the text", err)
	}
	p, err := CompilePlain("a ${item.nope}", testNames)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Bind(r); err == nil {
		t.Error("got no error for a missing value, want one")
	}
	if got := p.Render(r); got != "a ${item.nope}" {
		t.Errorf("got %q, want the placeholder as written, and item in use", got)
	}
}

func TestOwnDataWinsOverGivenFields(t *testing.T) {
	given := map[string]Value{"output": Text("step"), "other": Text("o")}
	v := JSON(json.RawMessage(`{"output":"own"}`)).With(given)
	own, _ := v.Field("output")
	other, _ := v.Field("other")
	if own.String() != "own" || other.String() != "o" {
		t.Errorf("got %q and %q, want own and o", own, other)
	}
	text, _ := Text("plain").With(given).Field("output")
	if text.String() != "step" || (Value{}).String() != "" {
		t.Errorf("got %q, want step", text)
	}
}

func BenchmarkBind(b *testing.B) {
	tmpl, err := Compile(`p ${item.v} "${item.list[0]}" ${item_id}`, Options{Names: testNames})
	if err != nil {
		b.Fatal(err)
	}
	r := item(`{"v":"some text","list":["a"]}`)
	r["item_id"] = Text("item_1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Bind(r); err != nil {
			b.Fatal(err)
		}
	}
}
