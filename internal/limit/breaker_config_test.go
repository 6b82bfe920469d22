package limit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/check"
)

func TestDefaultConfigIsSound(t *testing.T) {
	if got := DefaultBreaker().Check(); len(got) != 0 {
		t.Errorf("findings: got %v, want none", got)
	}
}

func TestCheckNamesEveryBadKey(t *testing.T) {
	got := BreakerConfig{FailureThreshold: 0, SuccessThreshold: -1, HalfOpenRequests: 0}.Check()
	want := []check.Finding{
		{Field: "failure_threshold", Message: "failure_threshold must be at least 1, got 0"},
		{Field: "success_threshold", Message: "success_threshold must be at least 1, got -1"},
		{Field: "half_open_requests", Message: "half_open_requests must be at least 1, got 0"},
		{Field: "timeout", Message: "timeout must be more than 0s, not 0s"},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("findings (-got +want):\n%s", diff)
	}
}
