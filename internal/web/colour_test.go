package web

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// What commands print for a terminal keeps its colours and attributes; what else steers a terminal is left out.
func TestOutputsKeepTheirColours(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[1;31merror:\x1b[0m <b>":           `<span class="strong text1">error:</span> &lt;b&gt;`,
		"\x1b[32mon\ntwo lines\x1b[m.":          `<span class="text2">on</span>` + "\n" + `<span class="text2">two lines</span>.`,
		"\x1b[31m10 %\r\x1b[39;4mdone":          `<span class="underlined">done</span>`,
		"\x1b[31m10 %\rdone\r\n":                `<span class="text1">done</span>` + "\n",
		"\x1b[94;103mbright":                    `<span class="text4 ground3">bright</span>`,
		"\x1b[38;5;208morange\x1b[38;5;21m!":    `orange!`,
		"\x1b[38;2;10;200;30mgreen\x1b[39m!":    `green!`,
		"\x1b[48;5;232mdark\x1b[48;5;255mpale":  `darkpale`,
		"\x1b[7mswapped\x1b[31mred\x1b[27m!":    `<span class="inverse">swapped</span><span class="ground1">red</span><span class="text1">!</span>`,
		"\x1b[3;9mboth\x1b[23mone\x1b[29m.":     `<span class="italic struck">both</span><span class="struck">one</span>.`,
		"\x1b[1;2mboth\x1b[22mnone":             `<span class="strong faint">both</span>none`,
		"\x1b[1m\x1b[4:3mreset":                 `reset`,
		"\x1b[38;5m\x1b[38mkept\x1b[48;9;1m.":   `kept.`,
		"\x1b[?25l\x1b[2J\x1b(Bat\x1bM":         "at",
		"\x1b]8;;https://evil\x1b\\a\x1b]8;;\a": "a",
		"\x1bP1;2q<svg>\x1b\\\x1b]52;c;eA==":    "",
		"\u009b31mC1\u009b0m":                   `<span class="text1">C1</span>`,
		"a\u202eb\x00":                          "a\ufffdb",
	} {
		if got := string(shownText([]byte(text))); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

var outputClass = regexp.MustCompile(`^(strong|faint|italic|underlined|struck|inverse|(text|ground)[0-7]|[ ])+$`)

// Whatever a command prints, of its output come texts in spans with the classes of the style, and nothing else.
func FuzzOutputsStayText(f *testing.F) {
	for _, text := range []string{
		evil, "\x1b[31m" + evil + "\x1b[0m", "\x1b[<script>alert(1)</script>m", "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07",
		"\x1b[38;2;999;-1;\"onmouseover=1m<b", "\x1b[31\r<p>\x1b[7;41;1m\n\x1b[", "\u009b1m<\u009b", "\x1b[3\xff1m&lt;",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		shown := string(shownText(text))
		if strings.Count(shown, "\n") != strings.Count(string(text), "\n") {
			t.Errorf("the lines of %q are %q", text, shown)
		}
		depth := 0
		for z := html.NewTokenizer(strings.NewReader(shown)); ; {
			switch kind := z.Next(); kind {
			case html.ErrorToken:
				if depth != 0 || !errors.Is(z.Err(), io.EOF) {
					t.Fatalf("%q: depth %d, %v", shown, depth, z.Err())
				}
				return
			case html.StartTagToken:
				tag := z.Token()
				if tag.Data != "span" || len(tag.Attr) != 1 || tag.Attr[0].Key != "class" || !outputClass.MatchString(tag.Attr[0].Val) {
					t.Fatalf("%q has the tag %s", shown, tag)
				}
				depth++
			case html.EndTagToken:
				depth--
			case html.TextToken:
				if strings.ContainsAny(z.Token().Data, "\x1b\u009b\r\u202e") {
					t.Fatalf("%q has a control character", shown)
				}
			default:
				t.Fatalf("%q has a %s", shown, kind)
			}
		}
	})
}
