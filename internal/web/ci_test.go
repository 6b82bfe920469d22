package web

import (
	"encoding/xml"
	"strings"
	"testing"
)

// Whatever is in a text, XML that holds it can be read, and says the same but for what XML cannot hold.
func FuzzXMLText(f *testing.F) {
	for _, text := range []string{"plain", "a<b>&\"c\"'", "two\nlines\r\n\t", "\x00\x1b[31m", "\xff\xfe", "\uFFFE", "]]>", "ünï😀"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got struct {
			Attr string `xml:"a,attr"`
			Text string `xml:",chardata"`
		}
		if err := xml.Unmarshal([]byte(`<x a="`+xmlText(text)+`">`+xmlText(text)+`</x>`), &got); err != nil {
			t.Fatal(err)
		}
		want := strings.Map(func(r rune) rune {
			if r < ' ' && !strings.ContainsRune("\n\r\t", r) || r == 0xFFFE || r == 0xFFFF {
				return '\uFFFD'
			}
			return r
		}, text)
		if got.Attr != want || got.Text != want {
			t.Errorf("got %q and %q, want %q", got.Attr, got.Text, want)
		}
	})
}
