package breaker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDefaultConfigIsSound(t *testing.T) {
	if got := Default().Check(); len(got) != 0 {
		t.Errorf("findings: got %v, want none", got)
	}
}

func TestCheckNamesEveryBadKey(t *testing.T) {
	got := Config{FailureThreshold: 0, SuccessThreshold: -1, HalfOpenRequests: 0, OnOpen: "hold"}.Check()
	want := []Finding{
		{"failure_threshold", "failure_threshold must be at least 1, not 0"},
		{"success_threshold", "success_threshold must be at least 1, not -1"},
		{"half_open_requests", "half_open_requests must be at least 1, not 0"},
		{"timeout", "timeout must be more than 0s, not 0s"},
		{"on_open", `unknown on_open "hold" (want reject or wait)`},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("findings (-got +want):\n%s", diff)
	}
}

func TestUnderMovesFindingsBelowAKey(t *testing.T) {
	c := Default()
	c.Timeout = -time.Second
	got := Under("circuit_breaker", c.Check())
	want := []Finding{{"circuit_breaker.timeout", "timeout must be more than 0s, not -1s"}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("findings (-got +want):\n%s", diff)
	}
}
