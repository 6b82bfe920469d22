package cli

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// In whatever order items end, their output comes in the order of the items, and before an item ends that of all before it was printed.
func TestOrderedOutputHasTheOrderOfTheItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outputs := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b\nc", strings.Repeat("x", 100)}), 0, 20).Draw(t, "outputs")
		order := make([]int, len(outputs))
		for i := range order {
			order[i] = i
		}
		order = rapid.Permutation(order).Draw(t, "order")
		missing := rapid.IntRange(0, len(outputs)).Draw(t, "missing") // these items are still running when the run ends

		var got, want strings.Builder
		o := &itemOutput{w: &got, ordered: true}
		ended := order[missing:]
		for _, index := range ended {
			if err := o.ended(index, outputs[index]); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.close(); err != nil {
			t.Fatal(err)
		}
		for index, output := range outputs {
			for _, e := range ended {
				if e == index && output != "" {
					want.WriteString(output + "\n")
				}
			}
		}
		if got.String() != want.String() {
			t.Errorf("items end in the order %v: got %q, want %q", ended, got.String(), want.String())
		}
		if missing == 0 && len(o.held) > 0 {
			t.Errorf("held %v though all items have ended", o.held)
		}
	})
}
