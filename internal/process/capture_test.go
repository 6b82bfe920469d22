package process

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCaptureKeepsHeadAndTailAndSaysWhatIsLeftOut(t *testing.T) {
	tests := []struct {
		name   string
		limit  int
		writes []string
		want   string
	}{
		{"nothing", 8, nil, ""},
		{"below the limit", 8, []string{"abc", "def"}, "abcdef"},
		{"exactly the limit", 8, []string{"abcd", "efgh"}, "abcdefgh"},
		{"one more", 8, []string{"abcdefghi"}, "abcd… [1 bytes left out] …fghi"},
		{"a ring that has turned", 8, []string{"abcdefgh", "ij", "k", "lmnopq"}, "abcd… [9 bytes left out] …nopq"},
		{"one write that is longer than all", 8, []string{"abcdefghijklmnopqrstuvwxyz"}, "abcd… [18 bytes left out] …wxyz"},
		{"an odd limit", 7, []string{"abcdefgh"}, "abc… [1 bytes left out] …efgh"},
		{"characters are left whole", 8, []string{"abcäxxxxxöyyy"}, "abc… [9 bytes left out] …yyy"},
		{"no UTF-8", 8, []string{strings.Repeat("\x80", 10)}, "\x80\x80\x80\x80… [2 bytes left out] …\x80\x80\x80\x80"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := Capture{Limit: test.limit}
			for _, w := range test.writes {
				if n, err := c.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("Write(%q): got %d, %v, want %d, nil", w, n, err, len(w))
				}
			}
			if got := c.Text(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCaptureIsTheSameHoweverItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		all := rapid.StringOfN(rapid.RuneFrom([]rune("abcäö…🙂")), 0, 60, -1).Draw(t, "all")
		whole, pieces := Capture{Limit: limit}, Capture{Limit: limit}
		_, _ = whole.Write([]byte(all))
		for rest := all; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			_, _ = pieces.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got, want := pieces.Text(), whole.Text(); got != want {
			t.Fatalf("text in pieces: got %q, want %q", got, want)
		}
		if len(all) <= limit && whole.Text() != all {
			t.Fatalf("text: got %q, want all of %q", whole.Text(), all)
		}
		if !utf8.ValidString(whole.Text()) {
			t.Fatalf("text: got half a character in %q", whole.Text())
		}
		n := rapid.IntRange(0, 70).Draw(t, "tail")
		tail := whole.Tail(n)
		if len(tail) > n || !strings.HasSuffix(all, tail) || !utf8.ValidString(tail) {
			t.Fatalf("tail of %d: got %q of %q", n, tail, all)
		}
		if n <= limit/2 && len(tail) < min(n, len(all))-utf8.UTFMax+1 {
			t.Fatalf("tail of %d: got only %q of %q", n, tail, all)
		}
		if got := pieces.Total(); got != int64(len(all)) {
			t.Fatalf("total: got %d, want %d", got, len(all))
		}
	})
}
