package web

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// What commands print for a terminal keeps its colours and what is bold; what else steers a terminal is left out.
func TestOutputsKeepTheirColours(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[1;31merror:\x1b[0m <b>":           `<span class="text1  strong">error:</span> &lt;b&gt;`,
		"\x1b[32mon\ntwo lines\x1b[m.":          "<span class=\"text2\">on\ntwo lines</span>.",
		"\x1b[31m10 %\r\x1b[39;4mdone":          "done",
		"10 %\r\x1b[32;1m\x1b[44mdone\r\n":      `<span class="text2 ground4 strong">done` + "\n</span>",
		"all\r\x1b[0m\n":                        "all\n",
		"all\r\r\n":                             "all\n",
		"\x1b[94;103mbright\x1b[49m!":           `<span class="text4 ground3">bright</span><span class="text4">!</span>`,
		"\x1b[31m!\x1b[38;5;208morange":         `<span class="text1">!</span>orange`,
		"\x1b[1mbold\x1b[38;2;10;1;30mgreen":    `<span class="strong">bold</span><span class="strong">green</span>`,
		"\x1b[48;5;41mdark":                     "dark",
		"\x1b[3;4;7;9;53mattributes":            "attributes",
		"\x1b[1;2mboth\x1b[22mnone":             `<span class="strong">both</span>none`,
		"\x1b[1m\x1b[4:3mkept\x1b[;mreset":      `<span class="strong">kept</span>reset`,
		"\x1b[99999999999999999999mlarge":       "large",
		"\x1b[?25l\x1b[2J\x1b(Bat\x1bM":         "at",
		"\x1b]8;;https://evil\x1b\\a\x1b]8;;\a": "a",
		"\x1bP1;2q<svg>\x1b\\\x1b]52;c;eA==":    "",
		"\u009b31mC1\u009b0m":                   "C1",
		"a\u202eb\x00":                          "a\ufffdb\ufffd",
	} {
		if got := string(plain([]byte(shownText(text)))); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

var outputClass = regexp.MustCompile(`^(strong|(text|ground)[0-7]|[ ])+$`)

// Whatever a command prints, of its output come texts in spans with the classes of the style, and nothing else.
func FuzzOutputsStayText(f *testing.F) {
	for _, text := range []string{
		evil, "\x1b[31m" + evil + "\x1b[0m", "\x1b[<script>alert(1)</script>m", "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07",
		"\x1b[38;2;999;-1;\"onmouseover=1m<b", "\x1b[31\r<p>\x1b[7;41;1m\n\x1b[", "\u009b1m<\u009b", "\x1b[3\xff1m&lt;",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		shown := string(plain([]byte(shownText(text))))
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
