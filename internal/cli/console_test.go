package cli

import (
	"io"
	"strings"
	"testing"
)

func TestOnlyAYesIsAYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "": false, "\n": false, "n\n": false, "yep\n": false} {
		got, err := askYesNo(strings.NewReader(answer), io.Discard, "Sure?")
		if err != nil || got != want {
			t.Errorf("%q: got %v %v, want %v", answer, got, err, want)
		}
	}
}
