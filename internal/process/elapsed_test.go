package process

import (
	"testing"
	"time"

	"prodigy/internal/testenv"
)

func TestTimeElapsesWhileAMachineIsSuspended(t *testing.T) {
	from := time.Now()
	for name, c := range map[string]struct {
		to   time.Time
		want time.Duration
	}{
		"both clocks agree":    {from.Add(time.Minute), time.Minute},
		"it was suspended":     {testenv.Suspended(from.Add(time.Minute), time.Hour), time.Hour + time.Minute},
		"set forward":          {testenv.Suspended(from.Add(time.Minute), time.Second), time.Minute + time.Second},
		"set back":             {testenv.Suspended(from.Add(time.Minute), -time.Hour), time.Minute},
		"set back a little":    {testenv.Suspended(from.Add(time.Minute), -time.Second), time.Minute},
		"still to come":        {from.Add(-time.Minute), -time.Minute},
		"come while suspended": {testenv.Suspended(from.Add(-time.Minute), time.Hour), 59 * time.Minute},
		"no monotonic reading": {from.Add(time.Minute).Round(0), time.Minute},
	} {
		if got := Elapsed(from, c.to); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
