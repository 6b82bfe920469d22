package check

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"retry", "retry", 0},
		{"rety", "retry", 1},
		{"retryy", "retry", 1},
		{"retrx", "retry", 1},
		{"rtery", "retry", 1},
		{"kitten", "sitting", 3},
		{long, long, 64},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("from %q to %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if there, back := Distance(tt.a, tt.b), Distance(tt.b, tt.a); there != back {
			t.Errorf("from %q to %q: got %d there and %d back", tt.a, tt.b, there, back)
		}
	}
}

func TestNearestFindsWhatWasMeant(t *testing.T) {
	words := []string{"retry_config", "timeout", "on_failure", "shell", "max_parallel", "id", "exponential"}
	for wrong, want := range map[string]string{
		"retry_cofig": "retry_config", "timeuot": "timeout", "onFailure": "on_failure", "on-failure": "on_failure",
		"maxParallel": "max_parallel", "Shell": "shell", "expo": "exponential", "zebra": "", "x": "", "": "",
		strings.Repeat("a", 1000): "",
	} {
		if got := Nearest(wrong, words); got != want {
			t.Errorf("of %.20q: got %q, want %q", wrong, got, want)
		}
	}
}
