package term

import "testing"

// Of any number of events there are so many lines, and one more at the end; none is left out of the counts.
func TestThousandsOfEventsMakeFewLines(t *testing.T) {
	var f Flood
	if text := f.Rest(); text != "" {
		t.Errorf("got %q of nothing", text)
	}
	lines := 0
	for i := range 5_000 {
		if f.Admit("circuit breakers opened") {
			lines++
		}
		if i%5 == 0 && f.Admit("closed") {
			lines++
		}
	}
	want := "… and 4984 more circuit breakers opened, 996 more closed: prodigy status, why and events ls show them"
	if got := f.Rest(); lines != floodLines || got != want {
		t.Errorf("got %d lines and %q, want %d and %q", lines, got, floodLines, want)
	}
}
