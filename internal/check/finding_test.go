package check

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnderMovesFindingsBelowAKey(t *testing.T) {
	got := Under("circuit_breaker", []Finding{{"timeout", "timeout must be more than 0s, not -1s"}})
	want := []Finding{{"circuit_breaker.timeout", "timeout must be more than 0s, not -1s"}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("findings (-got +want):\n%s", diff)
	}
}
