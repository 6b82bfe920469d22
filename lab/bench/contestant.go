//go:build unix

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// contestant does one thing in its own way.
type contestant struct {
	name    string
	items   int // of a run; what is compared is what an item takes
	times   int // how often a run starts the command, 0: once
	command func() *exec.Cmd
	after   func() error // cleans up, not measured
}

// compete lets all run in turn, and returns what each took by its name, in the order of the rounds.
func (s *stage) compete(all ...contestant) (map[string][]usage, error) {
	took := map[string][]usage{}
	for range s.rounds {
		for _, c := range all {
			u, err := c.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			took[c.name] = append(took[c.name], u)
		}
	}
	return took, nil
}

func (c contestant) run() (usage, error) {
	var sum usage
	for range max(1, c.times) {
		u, err := measure(c.command())
		if err != nil {
			return usage{}, err
		}
		sum = sum.plus(u)
	}
	if c.after != nil {
		if err := c.after(); err != nil {
			return usage{}, err
		}
	}
	return sum.per(max(1, c.items) * max(1, c.times)), nil
}

// ratios returns by round what a took in terms of b.
func ratios(a, b []usage, of func(usage) float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = of(a[i]) / of(b[i])
	}
	return all
}

func values(runs []usage, of func(usage) float64) []float64 {
	all := make([]float64, len(runs))
	for i, u := range runs {
		all[i] = of(u)
	}
	return all
}

// quantile returns the value that part of all do not exceed, between two of them where it falls between.
func quantile(all []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	at := part * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

func median(all []float64) float64 { return quantile(all, 0.5) }

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// numbers returns n lines.
func numbers(n int) *bytes.Buffer {
	list := new(bytes.Buffer)
	for i := range n {
		fmt.Fprintln(list, i)
	}
	return list
}
