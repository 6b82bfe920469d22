package term

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

func TestOnlyOwnSequencesPassTheDoor(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain\ttext\r\nand a line\n", "plain\ttext\nand a line\n"},
		{"\x1b[31mred\x1b[0m \x1b]0;title\a \x1b[2J", "\ufffd[31mred\ufffd[0m \ufffd]0;title\ufffd \ufffd[2J"},
		{"over\rwritten \b\b\x7f \u0085 \u009b31m", "over\ufffdwritten \ufffd\ufffd\ufffd \ufffd \ufffd31m"},
		{"\u202egnp.exe\u202c \u2066x\u2069 \u200e\u200f\u061c \u200b\ufeff\u2028\U000e0041", "\ufffdgnp.exe\ufffd \ufffdx\ufffd \ufffd\ufffd\ufffd \ufffd\ufffd\ufffd\ufffd"},
		{"👩\u200d💻 é 漢 ن\u200cم \u0600", "👩\u200d💻 é 漢 ن\u200cم \u0600"},
		{escapeMark + "[31mred" + escapeMark + "[0m", "\x1b[31mred\x1b[0m"},
		{escapeMark + "[2A" + escapeMark + "[J" + escapeMark + "\r" + escapeMark + "[K", "\x1b[2A\x1b[J\r\x1b[K"},
		{escapeMark + "]0;title\a" + escapeMark + "[99999999999999999m" + escapeMark + "[5n", "\ufffd]0;title\ufffd\ufffd[99999999999999999m\ufffd[5n"},
		{"\xfe\xc3( \xed\xa0\x80", "\ufffd\ufffd( \ufffd\ufffd\ufffd"},
	} {
		for size := 1; size <= len(c.in); size++ {
			var b bytes.Buffer
			d := &SafeWriter{w: &b}
			for rest := c.in; rest != ""; {
				n := min(size, len(rest))
				if _, err := d.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if got := b.String(); got != c.want {
				t.Errorf("%q by %d bytes\ngot  %q\nwant %q", c.in, size, got, c.want)
			}
		}
	}
}

// rawControls returns the control and direction characters of what was printed, but for colours and moves of prodigy's own.
func rawControls(printed string) string {
	for _, own := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[90m", "\x1b[1m", "\x1b[0m"} {
		printed = strings.ReplaceAll(printed, own, "")
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control)) {
			return r
		}
		return -1
	}, printed)
}

func FuzzDoor(f *testing.F) {
	f.Add("a\x1b[31m", escapeMark+"[0m\xc3", "\r\n\u202e")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var whole, parts bytes.Buffer
		d := &SafeWriter{w: &parts}
		for _, p := range []string{a, b, c, "\n"} {
			if n, err := d.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		if _, err := (&SafeWriter{w: &whole}).Write([]byte(a + b + c + "\n")); err != nil {
			t.Fatal(err)
		}
		if whole.String() != parts.String() {
			t.Errorf("got %q in parts, %q at once", parts.String(), whole.String())
		}
		if !strings.Contains(a+b+c, escapeMark) && rawControls(whole.String()) != "" {
			t.Errorf("got %q", whole.String())
		}
	})
}
