package main

import (
	"strings"
	"testing"
)

func TestScreenKeepsItsLineBelowWhatIsWritten(t *testing.T) {
	var b strings.Builder
	s := screen{w: &b, live: true, width: func() int { return 10 }}
	s.draw("0123456789abc")
	if _, err := s.Write([]byte("text\n")); err != nil {
		t.Fatal(err)
	}
	s.clear()
	s.draw("x")
	s.clear()
	got, want := b.String(), "\r\x1b[K012345678"+"\r\x1b[K"+"text\n"+"\r\x1b[Kx"+"\r\x1b[K"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
