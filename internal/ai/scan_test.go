package ai

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/rawjson"
)

// slowly returns p without its fast path.
func slowly(p *Preset) *Preset {
	slow := *p
	slow.scanner = nil
	return &slow
}

// bothWays gives lines to both paths, and returns what each makes of them.
func bothWays(p *Preset, lines []string) (fast, slow string) {
	say := func(p *Preset) string {
		r := p.Read()
		var b strings.Builder
		for _, line := range lines {
			_, _ = r.Write([]byte(line + "\n"))
			_, _ = fmt.Fprintf(&b, "%+v ", r.Signs())
		}
		_, _ = fmt.Fprintf(&b, "%q %+v %v", fmt.Sprint(r.at), r.Usage(), r.Verdict(End{Now: recordedAt}))
		return b.String()
	}
	return say(p), say(slowly(p))
}

// linesLike returns lines that are like what CLIs print, and more or less hostile.
func linesLike(rnd *rand.Rand, seeds []string) []string {
	junk := []string{
		`{"type":"assistant","type":"user","message":{"content":[{"tool_use_id":"t1"}]}}`, `{"typ\u0065":"assistant","message":{"content":[{"id":"t9"}]}}`,
		`{"type":"\u0061ssistant","message":{"usage":{"input_tokens":7}}}`, ` { "type" : "assistant" , "message" : { "id" : "m" , "usage" : { "input_tokens" : 3 } } } `,
		`{"type":"assistant","message":{"id":"m","usage":{"input_tokens":1,"input_tokens":2}}}`, `{"type":"assistant","message":[{"usage":{"input_tokens":5}}]}`,
		`{"a":{"type":"result"},"type":"user","message":{"content":[]}}`, `{"type":null}`, `{"type":["assistant"]}`, `{}`, `{"type":"user","message":{"content":{"tool_use_id":"t1"}}}`,
		`{"type":"assistant","message":{"usage":{"input_tokens":"2.5k"},"content":[{"id":3},{"id":null},{}]}}`, `[{"type":"assistant"},{"type":"user"}]`,
		`{"type":"step_finish","part":{"reason":"stop","cost":0.5,"tokens":{"input":0,"output":0.0}}}`, `{"":1,"type":"user"}`, "{\"type\":\"user\",\"x\":\"\xff\"}",
		`{"type":"user","x":"\\"}`, `{"type":"user","x":"\\\"","y":"}"}`, "words", "", `{"type":"user"`, `{"type":"item.completed","item":{"type":"command_execution","id":"i","status":"completed"}}`,
	}
	var lines []string
	for range 1 + rnd.IntN(12) {
		line := junk[rnd.IntN(len(junk))]
		if rnd.IntN(2) == 0 {
			line = seeds[rnd.IntN(len(seeds))]
		}
		if rnd.IntN(3) == 0 && len(line) > 2 {
			at := rnd.IntN(len(line) - 1)
			switch mutated := ""; rnd.IntN(4) {
			case 0:
				mutated = line[:at] + string(`{}[]",:\ 0tn`[rnd.IntN(12)]) + line[at+1:]
				line = mutated
			case 1:
				line = line[:at] + line[at+1:]
			case 2:
				line = strings.ReplaceAll(line, `"type"`, ` "type" `)
			case 3:
				line = strings.Replace(line, "{", `{"type":"user",`, 1+rnd.IntN(2))
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// The fast path finds what the slow one finds in all that is JSON.
func TestTheFastPathFindsTheSame(t *testing.T) {
	set := builtInSet(t)
	var seeds []string
	for _, r := range recordings(t) {
		for line := range strings.Lines(r.Stdout) {
			if len(line) < 3000 && len(line) > 2 {
				seeds = append(seeds, strings.TrimSpace(line))
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	quick := 0
	for range 1000 {
		p := set[[]string{"claude", "codex", "opencode", "gemini", "qwen"}[rnd.IntN(5)]]
		var lines []string
		for _, line := range linesLike(rnd, seeds) {
			if rawjson.Valid([]byte(strings.ToValidUTF8(line, "\uFFFD"))) || !strings.HasPrefix(strings.TrimSpace(line), "{") {
				lines = append(lines, line)
				if p.Read().quick([]byte(strings.TrimSpace(line))) {
					quick++
				}
			}
		}
		fast, slow := bothWays(p, lines)
		if diff := cmp.Diff(slow, fast); diff != "" {
			t.Fatalf("%s: %q\n(-slow +fast)\n%s", p.Name, lines, diff)
		}
	}
	if quick < 1000 {
		t.Errorf("only %d lines took the fast path", quick)
	}
}

// Whatever is no JSON is never kept: a condition would be given it.
func FuzzTheFastPath(f *testing.F) {
	set := builtInSet(f)
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		for _, line := range linesLike(rnd, []string{goodEnd, badEnd}) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, name := range []string{"claude", "codex", "opencode"} {
			if rawjson.Valid([]byte(strings.ToValidUTF8(line, "\uFFFD"))) {
				fast, slow := bothWays(set[name], []string{line})
				if fast != slow {
					t.Errorf("%s: %q\n%s\n%s", name, line, slow, fast)
				}
				continue
			}
			r := set[name].Read()
			_, _ = r.Write([]byte(line + "\n"))
			if facts := r.facts(End{}); !rawjson.Valid(facts) {
				t.Errorf("%s: %q leads to the facts %s", name, line, facts)
			}
		}
	})
}
