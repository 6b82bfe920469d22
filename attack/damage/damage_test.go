//go:build unix

package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// A sample of what make attack-damage does on a larger scale. Damage that is never told would mean that nothing is damaged at all.
func TestASampleOfDamagesIsHarmlessOrTold(t *testing.T) {
	o := options{seed: 10, trials: 80, dir: t.TempDir()}
	made, err := prepare(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range made {
		for _, name := range []string{"checkpoint", "workflow.1.yml"} {
			if !slices.ContainsFunc(j.files, func(path string) bool { return filepath.Base(path) == name }) {
				t.Errorf("no %s among the files that are damaged: %v", name, j.files)
			}
		}
	}
	counts := map[string]int{}
	for n := range o.trials {
		class, detail, err := try(o, made, n)
		if err != nil {
			t.Fatal(err)
		}
		if counts[class]++; class == silent {
			t.Errorf("trial %d: %s", n, detail)
		}
	}
	if counts[told] < 20 || counts[harmless] == 0 {
		t.Errorf("got %v, want many that are told and some that are harmless", counts)
	}
}
