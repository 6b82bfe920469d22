package limit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/check"
)

func TestDefaultConfigIsSound(t *testing.T) {
	var got check.Findings
	if DefaultBreaker().Check(&got); len(got) != 0 {
		t.Errorf("findings: got %v, want none", got)
	}
}

func TestCheckNamesABadTimeout(t *testing.T) {
	var got check.Findings
	BreakerConfig{}.Check(&got)
	want := check.Findings{
		{Field: "timeout", Message: "timeout must be more than 0s, not 0s"},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("findings (-got +want):\n%s", diff)
	}
}
