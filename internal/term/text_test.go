package term

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLastLinesLeavesEmptyLinesOut(t *testing.T) {
	got := LastLines("one\n\ntwo\r\n  \nthree", 2)
	if diff := cmp.Diff([]string{"two", "three"}, got); diff != "" {
		t.Error(diff)
	}
	if got := LastLines("one\n", 5); len(got) != 1 {
		t.Errorf("got %q, want one line", got)
	}
}

func TestVisibleTakesControlFromTheTerminal(t *testing.T) {
	got, want := Visible("a\x1b[2J\tb\u009b\nc"), "a\ufffd[2J\tb\ufffd\ufffdc"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
