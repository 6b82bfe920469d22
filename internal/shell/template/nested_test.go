package template

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"prodigy/internal/shell"
)

// hole stands for the placeholder while code is wrapped into quotes.
const hole = "\x01"

// printers print the value in brackets.
var printers = []string{
	`printf '[%s]' ` + hole,
	`printf '[%s]' "` + hole + `"`,
	`printf '[%s]' '` + hole + `'`,
	`printf "[%s]" '` + hole + `'`,
	`printf '%s' [` + hole + `]`,
	`printf '%s' "[` + hole + `]"`,
	`printf '%s' '['"` + hole + `"']'`,
	`unset u; printf '[%s]' "${u:-` + hole + `}"`,
	`unset u; printf '[%s]' ${u:-'` + hole + `'}`,
	`y=` + hole + `; printf '[%s]' "$y"`,
	`case x` + hole + ` in "x` + hole + `") printf '[%s]' ` + hole + `;; esac`,
	`for f in ` + hole + `; do printf '[%s]' "$f"; done`,
	`f() { printf '[%s]' "$1"; }; f ` + hole,
	"printf '[%s]' " + hole + " # it's " + hole,
	`printf '[%s]' "$(printf '%s' ` + hole + `; printf x)" | sed '$s/x]$/]/'`,
}

// wrappers put code into a place where it runs just the same.
var wrappers = []func(code string) string{
	func(code string) string { return "( " + code + "\n)" },
	func(code string) string { return "{ " + code + "\n}" },
	func(code string) string { return "if true; then " + code + "\nfi" },
	func(code string) string { return "x=$( " + code + "\nprintf x); printf '%s' \"${x%x}\"" },
	func(code string) string { return "sh -c " + shell.Quote(code) },
	func(code string) string { return "sh -c \"" + double.write(code) + "\"" },
	func(code string) string { return "env X=1 sh -eu -c \"" + double.write(code) + "\" _ a b" },
	func(code string) string { return "eval " + shell.Quote(code) },
	func(code string) string { return "eval \"" + double.write(code) + "\"" },
	func(code string) string { return "( trap " + shell.Quote(code) + " EXIT; : )" },
	func(code string) string { return "sh <<PEOF\n" + heredoc.write(code) + "\nPEOF\n" },
}

// nestedScript draws a script of some depth that prints the value once.
func nestedScript(t *rapid.T) string {
	code := rapid.SampledFrom(printers).Draw(t, "printer")
	heredocs := 0
	for range rapid.IntRange(0, 3).Draw(t, "depth") {
		n := rapid.IntRange(0, len(wrappers)-1).Draw(t, "wrapper")
		if n == len(wrappers)-1 {
			if heredocs++; heredocs > 1 {
				continue
			}
		}
		code = wrappers[n](code)
	}
	return strings.ReplaceAll(code, hole, "${item.v}")
}

func hostileValue(t *rapid.T) string {
	pieces := rapid.SampledFrom([]string{
		"$(touch pwned)", "`touch pwned`", "'", `"`, `\`, "$", "${", "}", "\n", " ", "*", ";touch pwned;", "PEOF\n", "a[$(touch pwned)]", "!", "#",
		"&", "|touch pwned|", "(", ")", "~", "%", "-n", "\t", "é", "\xff", "${IFS}", "$x", "a", "0",
	})
	return strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(t, "value"), "")
}

func TestAnyValueInAnyNestingIsPrintedAsItIs(t *testing.T) {
	for _, shell := range shells("sh", "bash") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rapid.Check(t, func(rt *rapid.T) {
				script, value := nestedScript(rt), hostileValue(rt)
				if strings.Contains(script, "| sed") {
					value = strings.ToValidUTF8(value, "") // sed stops at bytes that are no characters
				}
				tmpl, err := Compile(script, Options{Names: testNames, Shell: shell})
				if err != nil {
					rt.Fatalf("compile %q: %v", script, err)
				}
				inv, err := tmpl.Bind(values{"item": Value{}.With(map[string]Value{"v": Text(value)})})
				if err != nil {
					rt.Fatalf("bind %q: %v", script, err)
				}
				got, err := run(t.Context(), shell, dir, inv)
				if want := "[" + value + "]"; err != nil || string(got) != want {
					rt.Errorf("%q as %q: got %q (%v), want %q", script, inv.Script, got, err, want)
				}
				if files := pwned(dir); len(files) > 0 {
					rt.Fatalf("%q as %q ran the payload of %q", script, inv.Script, value)
				}
			})
		})
	}
}

// FuzzPlaceholder checks that a placeholder, written in its plainest spelling, means the same.
func FuzzPlaceholder(f *testing.F) {
	for _, s := range []string{
		"${item}", "${item.a.b[0]}", `${item["a b"].c}`, "${item['x'][*]|sh}", "${env:HOME}", "${item.x:-a \\} b}", "${item.x##*/}", "${item.x[-1]}", "${item.", "${item.x|nope}", "$${item.x}", "${#item.x}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &scanner{src: text, names: testNames}
		s.run()
		for _, r := range s.refs {
			if text[r.start:r.end] != r.written {
				t.Fatalf("%q: got span %q, want %q", text, text[r.start:r.end], r.written)
			}
			if r.expr == nil || r.fault.code != "" || r.kind == literal {
				continue
			}
			spelled := r.expr.String()
			again, end, fault := parseExpr(spelled, 0, 2+len(r.expr.root))
			if fault.code != "" || end != len(spelled) || again.String() != spelled {
				t.Errorf("%q became %q, and that %q (%s)", text, spelled, again, fault.text)
			}
		}
	})
}

// FuzzCompile checks that any text is compiled or refused, and that no value becomes part of a script.
func FuzzCompile(f *testing.F) {
	for s := range strings.SplitSeq(attackList, "\n") {
		f.Add(strings.NewReplacer("NL", "\n", "HERE", "${item.v}", "BQ", "`").Replace(s))
	}
	f.Add(`"${0/}item"`)
	f.Fuzz(func(t *testing.T, text string) {
		tmpl, err := Compile(text, Options{Names: testNames})
		if err != nil {
			return
		}
		const marker = "qZ9qZ9"
		r := item(`{"v":"` + marker + `","list":["` + marker + `"]}`)
		if inv, err := tmpl.Bind(r); err == nil && strings.Contains(inv.Script, marker) && !strings.Contains(text, "|raw") {
			t.Errorf("%q: the value is part of the script %q", text, inv.Script)
		}
		_ = tmpl.Render(r)
	})
}

func TestJSONFieldsAreWhatEncodingJSONReads(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		doc := rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return s }),
			rapid.Map(rapid.Int(), func(n int) any { return n }),
			rapid.Just[any](nil),
		)).Draw(rt, "doc")
		raw, err := json.MarshalIndent(doc, " ", "\t")
		if err != nil {
			rt.Fatal(err)
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(raw, &want); err != nil {
			rt.Fatal(err)
		}
		for key := range want {
			got, ok := JSON(raw).Field(key)
			if !ok || got.literal() != JSON(want[key]).literal() {
				rt.Errorf("field %q of %s: got %q, want %q", key, raw, got, want[key])
			}
		}
	})
}
