package retry

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/check"
)

func TestDefaultPolicyIsSound(t *testing.T) {
	var got check.Findings
	if Default().Check(&got); len(got) != 0 {
		t.Errorf("findings: got %v, want none", got)
	}
}

func TestCheckFindsEveryBadField(t *testing.T) {
	good := Default()
	for name, c := range map[string]struct {
		change func(p *Policy)
		want   []string
	}{
		"attempts":        {func(p *Policy) { p.Attempts = 0 }, []string{"attempts"}},
		"delays":          {func(p *Policy) { p.MaxDelay = 0 }, []string{"max_delay"}},
		"no initial wait": {func(p *Policy) { p.InitialDelay = 0 }, nil},
	} {
		p := good
		c.change(&p)
		var got []string
		var found check.Findings
		p.Check(&found)
		for _, f := range found {
			got = append(got, f.Field)
		}
		if diff := cmp.Diff(got, c.want); diff != "" {
			t.Errorf("%s: fields (-got +want):\n%s", name, diff)
		}
	}
}
