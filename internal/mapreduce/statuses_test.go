package mapreduce

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"prodigy/internal/errorpolicy"
)

// What is written is read again, and never takes more than a byte for each item.
func TestStatusesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list statuses
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			s := errorpolicy.Status(rapid.IntRange(0, int(errorpolicy.Turned)).Draw(t, "status"))
			list = append(list, slices.Repeat(statuses{s}, rapid.IntRange(1, 1000).Draw(t, "length"))...)
		}
		text, err := list.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got statuses
		if err := got.UnmarshalText(text); err != nil || !slices.Equal(got, list) {
			t.Errorf("%q: got %v (%v), want %v", text, got, err, list)
		}
		if len(text) > len(list) {
			t.Errorf("%d statuses take %d bytes", len(list), len(text))
		}
	})
}

func TestWhatIsNoListOfStatusesIsRefused(t *testing.T) {
	for _, text := range []string{"7", "a0", "a-1", "A", "a99999999999999999999", "a67108865", "a67108864b"} {
		if err := new(statuses).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
