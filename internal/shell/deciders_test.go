package shell

import (
	"slices"
	"testing"
)

func TestDecidersAreThePrograms(t *testing.T) {
	for script, want := range map[string][]string{
		"a; b":                         {"b"},
		"a | b":                        {"a", "b"},
		"a || b":                       {"b"},
		"set -e; a || true; b":         {"true", "b"},
		"a; exit 3":                    {"exit"},
		"a; exit":                      {"a", "exit"},
		"a || exit 3; b":               {"exit", "b"},
		"f() { exit 3; }; a || f; b":   {"exit", "b"},
		"/usr/bin/timeout -k 1 30 a b": {"timeout", "a"},
		"timeout 30 sh load.sh":        {"timeout", "sh"},
		"timeout 30 bash -c 'a; b'":    {"timeout", "b"},
		"env X=1 nice -n 5 a":          {"a"},
		": > /dev/tcp/$HOST/80":        {":", "bash"},
	} {
		if got := Deciders(script); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}
