package term

import (
	"testing"
	"time"
)

// Of any number of events there are so many lines, and one more for each time that has passed; none is left out of the counts.
func TestThousandsOfEventsMakeFewLines(t *testing.T) {
	var f Flood
	now := time.Unix(1_000_000, 0)
	lines, summaries := 0, []string{}
	for i := range 5_000 {
		now = now.Add(5 * time.Millisecond)
		if f.Admit("circuit breakers opened", now) {
			lines++
		}
		if i%5 == 0 && f.Admit("closed", now) {
			lines++
		}
		if text := f.Summary(now, false); text != "" {
			summaries = append(summaries, text)
		}
	}
	if text := f.Summary(now, true); text != "" {
		summaries = append(summaries, text)
	}
	want := "… and 2001 more circuit breakers opened, 400 more closed: prodigy status, why and events ls show them"
	if lines != floodLines || len(summaries) != 3 || summaries[1] != want {
		t.Errorf("got %d lines and %q, want %d and three, the second of them %q", lines, summaries, floodLines, want)
	}
	if text := f.Summary(now, true); text != "" {
		t.Errorf("got %q twice", text)
	}
}
