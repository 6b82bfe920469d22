package shell

import (
	"slices"
	"testing"
)

func TestDecidersAreThePrograms(t *testing.T) {
	for script, want := range map[string][]string{
		"a; b":                         {"a", "b"},
		"a | b && { c || exit 3; }":    {"a", "b", "c", "exit"},
		"f() { exit 3; }; X=$(a) f":    {"exit", "f", "a"},
		"/usr/bin/timeout -k 1 30 a b": {"timeout", "a"},
		"timeout 30 sh load.sh":        {"timeout", "sh"},
		"timeout 30 bash -c 'a; b'":    {"timeout", "a", "b"},
		"env X=1 nice -n 5 a":          {"a"},
	} {
		if got := Deciders(script); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}
