package main

import (
	"strings"
	"testing"
)

func TestScreenKeepsItsLinesBelowWhatIsWritten(t *testing.T) {
	var b strings.Builder
	width := 40
	s := screen{w: &b, live: true, size: func() (int, int) { return width, 24 }}
	s.draw([]string{"one", "two"})
	if _, err := s.Write([]byte("text\n")); err != nil {
		t.Fatal(err)
	}
	s.clear()
	s.draw([]string{strings.Repeat("x", 30)})
	width = 10 // the terminal wraps the line into three rows
	s.clear()
	const up2, up1 = "\x1b[2A\x1b[J", "\x1b[1A\x1b[J"
	want := "one\ntwo\n" + up2 + "text\none\ntwo\n" + up2 + strings.Repeat("x", 30) + "\n" + up1 + up2
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
