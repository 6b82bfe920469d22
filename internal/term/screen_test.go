package term

import (
	"strings"
	"testing"
)

func TestScreenKeepsItsLinesBelowWhatIsWritten(t *testing.T) {
	var b strings.Builder
	width := 40
	s := Screen{w: NewSafeWriter(&b), Live: true, size: func() (int, int) { return width, 24 }}
	s.Draw([]string{"one", "two"})
	if _, err := s.Write([]byte("text\n")); err != nil {
		t.Fatal(err)
	}
	s.Clear()
	s.Draw([]string{strings.Repeat("x", 30)})
	width = 10 // the terminal wraps the line into three rows
	s.Clear()
	const up2, up1, begin = "\x1b[2A\x1b[J", "\x1b[1A\x1b[J", "\r\x1b[K"
	want := "one\ntwo\n" + up2 + begin + "text\none\ntwo\n" + up2 + begin + strings.Repeat("x", 30) + "\n" + up1 + begin + up2
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What is written after a terminal has become narrower stays, and the lines below it are cut to the new width.
func TestANarrowerTerminalLosesNoText(t *testing.T) {
	var b strings.Builder
	width := 40
	s := Screen{w: NewSafeWriter(&b), Live: true, size: func() (int, int) { return width, 24 }}
	s.Draw([]string{strings.Repeat("x", 30)})
	width = 10
	write(t, &s, "text\n")
	write(t, &s, "more\n")
	const up2, up1, begin, cut = "\x1b[2A\x1b[J", "\x1b[1A\x1b[J", "\r\x1b[K", "xxxxxxxx…\n"
	want := strings.Repeat("x", 30) + "\n" + up1 + begin + up2 + "text\n" + cut + up1 + begin + "more\n" + cut
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// However many lines come at once, the lines below them are drawn once.
func TestLinesThatComeTogetherAreDrawnOnce(t *testing.T) {
	var b strings.Builder
	s := Screen{w: NewSafeWriter(&b), Live: true, size: func() (int, int) { return 40, 24 }}
	s.Draw([]string{"region"})
	s.Together(func() {
		for range 3 {
			write(t, &s, "line\n")
		}
		s.Clear() // for what another stream prints
		write(t, &s, "after\n")
	}, nil)
	const up = "\x1b[1A\x1b[J\r\x1b[K"
	if got, want := b.String(), "region\n"+up+"line\nline\nline\n"+"after\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What lines say that were drawn before may not be so any more when others come.
func TestLinesAreMadeAnewWhenOthersCame(t *testing.T) {
	var b strings.Builder
	s := Screen{w: NewSafeWriter(&b), Live: true, size: func() (int, int) { return 40, 24 }}
	s.Draw([]string{"map: item_0 is running"})
	s.Together(func() { write(t, &s, "map took 2s\n") }, func(int, int) []string { return []string{"reduce: 0s"} })
	const up = "\x1b[1A\x1b[J\r\x1b[K"
	if got, want := b.String(), "map: item_0 is running\n"+up+"map took 2s\nreduce: 0s\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func write(t *testing.T, s *Screen, text string) {
	t.Helper()
	if _, err := s.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}
