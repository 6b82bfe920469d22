package errorpolicy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What is set is there, whatever was set around it and before, and a copy goes its own way.
func TestStatusesAreAsTheyWereSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list Statuses
		want := make([]Status, 5000)
		last := 0
		for range rapid.IntRange(0, 20).Draw(t, "sets") {
			s := Status(rapid.IntRange(0, int(Rejected)).Draw(t, "status"))
			from := rapid.IntRange(0, len(want)-1).Draw(t, "from")
			for i := from; i < min(from+rapid.IntRange(1, 3000).Draw(t, "length"), len(want)); i++ {
				list.Set(i, s)
				want[i], last = s, max(last, i+1)
			}
		}
		copied := list.Clone()
		for i := range want {
			copied.Set(i, Dead)
		}
		if got := all(list, len(want)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		pending := 0
		for _, s := range want {
			if s == Pending {
				pending++
			}
		}
		if got, want := list.Settled(), len(want)-pending; got != want || list.Len() != last {
			t.Errorf("got %d of %d settled, want %d of %d", got, list.Len(), want, last)
		}
	})
}

// What is written is read again, and never takes more than a byte for each item.
func TestStatusesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list Statuses
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			s := Status(rapid.IntRange(0, int(Rejected)).Draw(t, "status"))
			for range rapid.IntRange(1, 1000).Draw(t, "length") {
				list.Set(list.Len(), s)
			}
		}
		text, err := list.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got Statuses
		if err := got.UnmarshalText(text); err != nil || got.Len() != list.Len() || !slices.Equal(all(got, got.Len()), all(list, got.Len())) {
			t.Errorf("%q: got %v (%v), want %v", text, got, err, list)
		}
		if len(text) > list.Len() {
			t.Errorf("%d statuses take %d bytes", list.Len(), len(text))
		}
	})
}

func TestWhatIsNoListOfStatusesIsRefused(t *testing.T) {
	for _, text := range []string{"7", "a0", "a-1", "A", "f", "z3", "a99999999999999999999", "a67108865", "a67108864b"} {
		if err := new(Statuses).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// all returns the first n statuses.
func all(l Statuses, n int) []Status {
	list := make([]Status, n)
	for i := range list {
		list[i] = l.At(i)
	}
	return list
}
