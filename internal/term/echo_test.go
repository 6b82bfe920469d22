package term

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// In whatever order items end, their output comes in the order of the items, and before an item ends that of all before it
// was printed.
func TestOrderedOutputHasTheOrderOfTheItems(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		outputs := make([]string, rng.IntN(21))
		for i := range outputs {
			outputs[i] = []string{"", "a", "b\nc", strings.Repeat("x", 100)}[rng.IntN(4)]
		}
		order := rng.Perm(len(outputs))
		missing := rng.IntN(len(outputs) + 1) // these items are still running when the run ends

		var got, want strings.Builder
		e := NewEcho(Grouped, true, &got, nil)
		ended := order[missing:]
		for _, index := range ended {
			if err := e.Printed(index, outputs[index]); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for index, output := range outputs {
			for _, one := range ended {
				if one == index && output != "" {
					want.WriteString(output + "\n")
				}
			}
		}
		if got.String() != want.String() {
			t.Errorf("items end in the order %v: got %q, want %q", ended, got.String(), want.String())
		}
	}
}
