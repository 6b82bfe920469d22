package cli

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// In whatever order items end, their output comes in the order of the items, and before an item ends that of all before it was printed.
func TestOrderedOutputHasTheOrderOfTheItems(t *testing.T) {
	// Not by rapid: the test binary is the program of the scripts, and each start of it would prepare the tables of that.
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		outputs := make([]string, rng.IntN(21))
		for i := range outputs {
			outputs[i] = []string{"", "a", "b\nc", strings.Repeat("x", 100)}[rng.IntN(4)]
		}
		order := rng.Perm(len(outputs))
		missing := rng.IntN(len(outputs) + 1) // these items are still running when the run ends

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
	}
}
