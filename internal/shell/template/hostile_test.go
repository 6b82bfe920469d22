package template

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/testenv"
)

// hostileCase is a case of testdata/hostile.json: a step, a value that tries to become code, and what must be printed.
type hostileCase struct {
	ID          string          `json:"id"`
	Shells      []string        `json:"shells"`
	Shell       string          `json:"shell"`
	Value       string          `json:"value"`
	ValueRepeat *repeat         `json:"value_repeat"`
	Item        json.RawMessage `json:"item"`
	Expected    *string         `json:"expected"`
	SHA256      string          `json:"expected_sha256"`
	Len         int             `json:"expected_len"`
	Refuse      bool            `json:"refuse"`
}

type repeat struct {
	Unit  string `json:"unit"`
	Count int    `json:"count"`
}

func (c hostileCase) item(t *testing.T) json.RawMessage {
	if len(c.Item) > 0 {
		return c.Item
	}
	v := c.Value
	if c.ValueRepeat != nil {
		v = strings.Repeat(c.ValueRepeat.Unit, c.ValueRepeat.Count)
	}
	doc, err := json.Marshal(map[string]any{
		"v": v, "list": []any{v, "x", v}, "none_list": []any{}, "obj": map[string]any{"k": []any{1, "a'b"}},
		"o": map[string]any{"k": []any{map[string]any{"a b": map[string]any{"v": v}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// check compares what was printed.
func (c hostileCase) check(t *testing.T, got []byte, err error) {
	t.Helper()
	if c.Expected != nil {
		if err != nil || string(got) != *c.Expected {
			t.Errorf("got %q (%v), want %q", got, err, *c.Expected)
		}
		return
	}
	sum := sha256.Sum256(got)
	if err != nil || len(got) != c.Len || hex.EncodeToString(sum[:]) != c.SHA256 {
		t.Errorf("got %d bytes (%v), want %d with another sum", len(got), err, c.Len)
	}
}

func hostileCases(t *testing.T) []hostileCase {
	t.Helper()
	data, err := os.ReadFile("testdata/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []hostileCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 700 {
		t.Fatalf("got %d cases, want the whole corpus", len(cases))
	}
	return cases
}

// shellsOf maps the shells that a case names to the two that are run here: sh stands for dash.
func (c hostileCase) runsIn(shell string) bool {
	return slices.Contains(c.Shells, shell) || shell == "sh" && slices.Contains(c.Shells, "dash")
}

func TestHostileValuesNeverBecomeCode(t *testing.T) {
	cases := hostileCases(t)
	const chunks = 8
	every := testenv.OneIn(12, 6)
	for _, shell := range shells("sh", "bash") {
		for n := range chunks {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				for i, c := range cases {
					if i%chunks == n && c.runsIn(shell) && (i/chunks)%every == 0 {
						t.Run(c.ID, func(t *testing.T) { c.run(t, shell, dir) })
					}
				}
			})
		}
	}
}

func (c hostileCase) run(t *testing.T, shell, dir string) {
	tmpl, err := Compile(c.Shell, Options{Names: testNames, Shell: shell})
	if err != nil {
		t.Fatalf("compile %q: %v", c.Shell, err)
	}
	inv, err := tmpl.Bind(values{"item": JSON(c.item(t))})
	if c.Refuse {
		if err == nil {
			t.Errorf("got an invocation of %q, want a refusal", inv.Script)
		}
		return
	}
	if err != nil {
		t.Fatalf("bind %q: %v", c.Shell, err)
	}
	got, err := run(t.Context(), shell, dir, inv)
	c.check(t, bytes.Clone(got), err)
	if files := pwned(dir); len(files) > 0 {
		t.Errorf("%q as %q ran the payload", c.Shell, inv.Script)
	}
	if err := emptyDir(dir); err != nil {
		t.Fatal(err)
	}
}
