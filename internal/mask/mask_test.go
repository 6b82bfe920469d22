package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
)

const secret = `s3cr3t/"V'al<ue>+é`

func TestASecretIsFoundInEveryForm(t *testing.T) {
	m := New([]string{secret})
	quoted, _ := json.Marshal(secret)
	for name, text := range map[string]string{
		"as it is":      "a " + secret + " b",
		"twice":         secret + secret,
		"JSON":          `{"x":` + string(quoted) + `}`,
		"shell":         "'" + strings.ReplaceAll(secret, "'", `'\''`) + "'",
		"URL":           "https://u:" + url.QueryEscape(secret) + "@h",
		"base64":        base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 of URL": base64.RawURLEncoding.EncodeToString([]byte(secret)),
		"echo | base64": base64.StdEncoding.EncodeToString([]byte(secret + "\n")),
	} {
		got := m.Text(text)
		if !strings.Contains(got, Mark) || strings.Contains(got, "s3cr") || len(got) >= len(text) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// tr -d '\n' joins the lines of a key, and parsers of URLs leave out the same characters.
func TestLinesOfASecretMayBeJoined(t *testing.T) {
	for _, c := range []struct{ secret, text, want string }{
		{"-----BEGIN KEY-----\nMIIabc\tdef\r\n-----END KEY-----\n", "k=-----BEGIN KEY-----MIIabcdef-----END KEY-----;", "k=***;"},
		{"0123456789\n012345", "http://h/?0123456789012345/", "http://h/?***/"},
		{"ab\ncd", "abcd", "abcd"}, // any accident would be one
	} {
		if got := New([]string{c.secret}).Text(c.text); got != c.want {
			t.Errorf("%q: got %q, want %q", c.secret, got, c.want)
		}
	}
}

func TestTheMiddleOfASecretIsFoundInLongerBase64(t *testing.T) {
	m := New([]string{"correct-horse-battery"})
	for before := range 6 {
		for after := range 6 {
			whole := strings.Repeat("x", before) + "correct-horse-battery" + strings.Repeat("y", after)
			got := m.Text(base64.StdEncoding.EncodeToString([]byte(whole)))
			left, right, found := strings.Cut(got, Mark)
			if !found {
				t.Fatalf("%d before, %d after: got %s", before, after, got)
			}
			if plain, _ := base64.RawStdEncoding.DecodeString(left); strings.Contains(string(plain), "corr") {
				t.Errorf("%d before, %d after: got %s in front", before, after, plain)
			}
			if strings.Contains(right, Mark) {
				t.Errorf("got %s", got)
			}
		}
	}
}

func TestALineOfASecretIsASecret(t *testing.T) {
	m := New([]string{"-----BEGIN KEY-----\nabcdefgh\r\n}\n"})
	if got, want := m.Text("key:\n  abcdefgh\n}"), "key:\n  ***\n}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAShortSecretIsAWholeWord(t *testing.T) {
	m := New([]string{"123"})
	for text, want := range map[string]string{
		"123": "***", "pin=123.": "pin=***.", "1234": "1234", "x123": "x123", "_123": "_123", "123 123": "*** ***",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestSecretsThatOverlapAreMaskedAsOne(t *testing.T) {
	m := New([]string{"abcdef", "defghi", "abcd"})
	for text, want := range map[string]string{"abcdefghi": "***", "abcdx": "***x", "xabcdefx": "x***x", "abcabcdef": "abc***"} {
		if got := m.Text(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestNoSecretsMeansNoMasker(t *testing.T) {
	m := New([]string{""})
	if m != nil || m.Text("a") != "a" || string(m.JSON([]byte("1"))) != "1" {
		t.Errorf("got %v", m)
	}
}

func TestMaskedJSONStaysJSON(t *testing.T) {
	m := New([]string{"hunter2", "12345", `{"key":"value"}`})
	for raw, want := range map[string]string{
		`{"b":"hunter2","a":[1,true,null,{}]}`: `{"b":"***","a":[1,true,null,{}]}`,
		`{"hunter2":1}`:                        `{"***":1}`,
		`[123456, "x"]`:                        `["***6","x"]`,
		`{"a":{"key":"value"}}`:                `"***"`,
		`"clean"`:                              `"clean"`,
		`{ "clean" : 1 }`:                      `{ "clean" : 1 }`,
	} {
		got := m.JSON(json.RawMessage(raw))
		if string(got) != want || !json.Valid(got) {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// However a text is divided, what comes out is the same, and holds nothing of the secrets.
func FuzzAWriterMasksWhatATextMasks(f *testing.F) {
	f.Add("say hunter2 hunter2hunter2", "hunter2", "2hun", 3)
	f.Add("aaaaaaaa", "aaaa", "aa", 1)
	f.Add("hunter", "hunter2", "x", 2)
	f.Fuzz(func(t *testing.T, text, one, two string, size int) {
		m := New([]string{one, two})
		var b bytes.Buffer
		w := m.Writer(&b)
		for rest := text; rest != ""; {
			n := min(max(size, 1), len(rest))
			_, _ = w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		_ = w.Close()
		if b.String() != m.Text(text) {
			t.Errorf("in pieces of %d: got %q, want %q", size, b.String(), m.Text(text))
		}
		for _, s := range []string{one, two} {
			if !Short(s) && !strings.Contains(s, "*") && strings.Contains(b.String(), s) {
				t.Errorf("%q is still in %q", s, b.String())
			}
		}
	})
}

func BenchmarkTextWithoutSecrets(b *testing.B) {
	m := New([]string{"correct-horse-battery", "hunter2hunter2"})
	text := strings.Repeat(fmt.Sprintln("an ordinary line of output, with numbers like 42"), 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.Text(text)
	}
}

func BenchmarkWriter(b *testing.B) {
	var jsonLines, logs strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&jsonLines, `{"id":%d,"name":"item \"%d\"","path":"\/tmp\/x%%20y","ok":true,"sum":"%x"}`+"\n", i, i*7919, i*1048573)
		fmt.Fprintf(&logs, "2026-03-04T10:%02d:07Z [info] request=%d status=200 url=https://example.com/a?x=%d&y=1 took 12ms\n", i%60, i*31, i)
	}
	hash := strings.Repeat("c3VjaCBhcyB0aGlzIG9uZSwgd2hpY2ggaXMgbG9uZ2Vy 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n", 1000)
	secrets := []string{"correct-horse-battery", "hunter2hunter2", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "x9/Kq+LmZ3==", "Tr0ub4dor&3"}
	for name, text := range map[string]string{
		"words": strings.Repeat("an ordinary line of output, with numbers like 42\n", 1000), "json": jsonLines.String(), "logs": logs.String(), "hashes": hash,
	} {
		b.Run(name, func(b *testing.B) {
			w := New(secrets).Writer(io.Discard)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = io.WriteString(w, text)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New([]string{"correct-horse-battery"})
	}
}
