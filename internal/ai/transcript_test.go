package ai

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write the golden files")

func transcriptOf(p *Preset, stdout string, piece int) string {
	var b strings.Builder
	tr := p.Transcript(false)
	for rest := stdout; rest != ""; {
		n := min(piece, len(rest))
		b.Write(tr.Write([]byte(rest[:n])))
		rest = rest[n:]
	}
	b.Write(tr.Close())
	return b.String()
}

func TestTranscriptsOfTheRecordedOutputs(t *testing.T) {
	set := builtInSet(t)
	golden := map[string]bool{}
	for _, name := range []string{
		"claude.tool_edit.stream", "claude.tool_wait.stream.term", "codex.tool_edit.json.denied", "codex.tool_bg.json", "gemini.tool_edit.stream", "gemini.400_context.stream",
		"opencode.tool_edit.json", "opencode.403.json", "qwen.tool_edit.json", "aider.ok.text",
	} {
		golden[name] = true
	}
	for name, r := range recordings(t) {
		got := transcriptOf(set[r.CLI], r.Stdout, len(r.Stdout)+1)
		if again := transcriptOf(set[r.CLI], r.Stdout, 7); again != got {
			t.Errorf("%s: in pieces it is another:\n%s\n%s", name, again, got)
		}
		if r.CLI != "aider" && strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) {
			t.Errorf("%s: got control characters in %q", name, got)
		}
		// Whatever the agent answered can be read.
		if v := verdictOf(t, set, r, 1000); v.Outcome == Success && !v.Whole && !strings.Contains(got, strings.TrimSpace(v.Text)) && strings.Contains(r.Stdout, `"type":"assistant"`) {
			t.Errorf("%s: got %q, want %q in it", name, got, v.Text)
		}
		if !golden[name] {
			continue
		}
		path := filepath.Join("testdata", "transcripts", name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s(%v)", name, got, want, err)
		}
	}
}

func TestATranscriptOfHostileLines(t *testing.T) {
	says := func(text string) string {
		return `{"type":"assistant","message":{"content":[{"type":"text","text":"` + text + `"}]}}` + "\n"
	}
	uses := func(fields string) string {
		return `{"type":"assistant","message":{"content":[{"type":"tool_use",` + fields + `}]}}` + "\n"
	}
	long := strings.Repeat("x", 1000)
	tests := []struct{ name, stdout, want string }{
		{"escapes", says(`a\u001b[31mred\u0007\u202e\r\nb`), "a�[31mred��\nb\n"},
		{"escapes that are written", says(`a\\u001b[31m`), `a\u001b[31m` + "\n"},
		{"words", "hello\n", "hello\n"},
		{"words with escapes", "he\x1b[31mllo\n", "he�[31mllo\n"},
		{"no UTF-8", "h\xff\n", "h�\n"},
		{"half of a document", says("a")[:30] + "\n", says("a")[:30] + "\n"},
		{"unknown documents", `{"type":"new"}` + "\n" + `{"x":1}` + "\n", ""},
		{"a line without an end", strings.TrimSpace(says("a")), "a\n"},
		{"a tool", uses(`"name":"Bash","input":{"command":"echo\n\nhi","n":3,"deep":{"a":[1]}}`), `→ Bash command="echo hi" n=3 deep={"a":[1]}` + "\n"},
		{"a tool without anything", uses(`"id":"a"`), ""},
		{"a tool with much", uses(`"name":"Write","input":{"content":"` + long + `"}`), `→ Write content="` + strings.Repeat("x", 79) + `…"` + "\n"},
		{"a name of a tool with escapes", uses(`"name":"\u001b[2J\n","input":{}`), "→ �[2J\n"},
		{"a list", "[" + strings.TrimSpace(says("a")) + "," + strings.TrimSpace(says("b")) + "]\n", "a\nb\n"},
		{"results", `{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":"text","text":"a\nb\nc"},{"type":"image"}]},{"type":"tool_result","content":""}]}}` + "\n", "  ← a  (2 more lines)\n  ← (nothing)\n"},
		{"a line of 5 MB", says(strings.Repeat("y", 5<<20)) + says("b"), "· a line longer than 4 MiB\nb\n"},
	}
	p := builtInSet(t)["claude"]
	for _, test := range tests {
		if got := transcriptOf(p, test.stdout, 1<<14); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	tr := p.Transcript(true)
	if got := string(tr.Write([]byte(`xt":"half"}]}}` + "\n" + says("whole")))); got != "whole\n" {
		t.Errorf("of a beginning that is missing: got %q", got)
	}
	tr.Write([]byte(says("lost")[:20]))
	tr.Gap()
	if got := string(tr.Write([]byte(`half"}]}}` + "\n" + says("whole")))); got != "whole\n" {
		t.Errorf("after a gap: got %q", got)
	}
}
