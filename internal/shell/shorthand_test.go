package shell

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	tests := []struct {
		words []string
		want  string
	}{
		{[]string{"convert", "{}", "{.}.jpg"}, "convert ${item} ${item|noext}.jpg"},
		{[]string{"gzip", "-9"}, "gzip -9 ${item}"},
		{[]string{"./x", "{/}", "{//}", "{/.}", "{#}", "{%}"}, "./x ${item|basename} ${item|dirname} ${item|basename|noext} ${item_index|ordinal} ${worker.id}"},
		{[]string{"p", "a b{}'c"}, `p 'a b'${item}''\''c'`},
		{[]string{"p", "$HOME", "$(id)", "`id`", "*", "~", "", "{}"}, "p '$'HOME '$''(id)' '`id`' '*' '~' '' ${item}"},
		{[]string{"p", "${item.url}", "${item.a|json}x", "${HOME}", "${env.HOME}"}, "p ${item.url} ${item.a|json}x '$''{HOME}' '$''{env.HOME}'"},
		{[]string{"p", "$${item.url}"}, "p '$'${item.url}"},
		{[]string{"p", "{a,b}", "{1..3}", "{\"a\": 1}", "{", "}", "{print}"}, `p '{a,b}' '{1..3}' '{"a": 1}' '{' '}' '{print}' ${item}`},
		{[]string{"echo", "{}"}, "exec echo ${item}"},
		{[]string{"A=1", "{}"}, "exec 'A=1' ${item}"},
		{[]string{"!", "{}"}, "exec '!' ${item}"},
		{[]string{"{}"}, "exec ${item}"},
	}
	for _, test := range tests {
		got, err := Shorthand{}.Words(test.words)
		if err != nil || got != test.want {
			t.Errorf("%q: got %s (%v), want %s", test.words, got, err, test.want)
		}
	}
}

func TestScripts(t *testing.T) {
	tests := []struct{ script, want string }{
		{"gzip -9", "gzip -9 ${item}"},
		{"gzip -9 # all\n", ""},
		{"curl ${item.url} -o ${item.id}.json", "curl ${item.url} -o ${item.id}.json"},
		{"cat {} | wc -l > {/.}.n", "cat ${item} | wc -l > ${item|basename|noext}.n"},
		{"echo \"$(basename {})\" {a,b} {1..3} ${#} ${1}", "echo \"$(basename ${item})\" {a,b} {1..3} ${#} ${1}"},
		{"cat <<E\n{}\nE\n", "cat <<E\n${item}\nE\n"},
		{"x={}; echo $x # {1}", "x=${item}; echo $x # {1}"},
		{`echo \{} {}`, `echo \{} ${item}`},
		{"echo ${item|basename} \"${item.x:-a}\"", "echo ${item|basename} \"${item.x:-a}\""},
		{"echo ${item}${item|basename} {}", "echo ${item}${item|basename} ${item}"},
		{"jq .id <<< \"$PRODIGY_ITEM\"", "jq .id <<< \"$PRODIGY_ITEM\""},
		{"{ echo {}; }", "{ echo ${item}; }"},
		{`cp "{}" '{.}'.bak`, "cp ${item} ${item|noext}.bak"},
		{`find {} -exec rm '{}' +`, ""},
	}
	for _, test := range tests {
		got, err := Shorthand{}.Script(test.script)
		if test.want == "" {
			if err == nil {
				t.Errorf("%q: got %s, want an error", test.script, got)
			}
		} else if err != nil || got != test.want {
			t.Errorf("%q: got %s (%v), want %s", test.script, got, err, test.want)
		}
	}
}

func TestStyles(t *testing.T) {
	words := []string{"p", "a%{}", "{1}"}
	if got, err := (Shorthand{Replace: "%"}).Words(words); err != nil || got != "p a${item}'{}' '{1}'" {
		t.Errorf("-I %%: got %s, %v", got, err)
	}
	if got, err := (Shorthand{Replace: "%"}).Script(`awk '{}' "%"`); err != nil || got != `awk '{}' "${item}"` {
		t.Errorf("-I %%: got %s, %v", got, err)
	}
	if got, err := (Shorthand{Batch: true}).Words([]string{"rm", "--"}); err != nil || got != "rm -- ${items[*]}" {
		t.Errorf("batch: got %s, %v", got, err)
	}
	if got, err := (Shorthand{Batch: true}).Script("rm {/}; echo {#}"); err != nil || got != "rm ${items[*]|basename}; echo ${item_index|ordinal}" {
		t.Errorf("batch: got %s, %v", got, err)
	}
}

func TestWhatIsNoCommandIsRefused(t *testing.T) {
	for _, words := range [][]string{{}, {""}, {"p", "{2}"}, {"p", "{..}"}, {"p", "{+/}"}, {"p", "{= s/a/b/ =}"}, {"p", "\xff"}} {
		if got, err := (Shorthand{}).Words(words); err == nil {
			t.Errorf("%q: got %s, want an error", words, got)
		}
	}
	for _, script := range []string{"", " \n", "echo {2}", `echo "a {}"`, "echo '{.}b'", `echo $'{}'`, "echo a; echo b", "a | b", "(a)", "a > b", "a &", "if", "echo 'x", "echo \xff"} {
		if got, err := (Shorthand{}).Script(script); err == nil {
			t.Errorf("%q: got %s, want an error", script, got)
		}
	}
}

// Whatever stands in words without a shorthand, a shell passes it on as it was.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"a", "$(id)`id`$HOME", "it's \"x\"", "a\nb\\", "*?[a]~{a,b}", "-rf", "$", "$$", "#x", "é\xc3\xa9", "${x", "$'a'", "!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, word string) {
		code, first, err := replaced(word, Shorthand{}.at, quoteConstant)
		if err != nil || first != "" || !utf8.ValidString(word) || strings.ContainsRune(word, 0) {
			return
		}
		out, err := exec.Command("sh", "-c", "printf '<%s>' "+code).Output()
		if want := "<" + word + ">"; err != nil || string(out) != want {
			t.Errorf("%q: %s printed %q, %v", word, code, out, err)
		}
	})
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{"echo {}", "a \"$(b {})\"", "x ${item|a} {} <<E\n{}\nE", "${x:-${y}} {1", `\{} "{}" '{.}'`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		got, err := Shorthand{}.Script(script)
		if err == nil && !strings.Contains(got, "${item") && !strings.Contains(got, "${worker.id}") && !strings.Contains(got, "PRODIGY_ITEM") {
			t.Errorf("%q became %q, which names no item", script, got)
		}
	})
}
