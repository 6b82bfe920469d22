package simulate

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestDistributionsHaveTheirBoundsAndMeans(t *testing.T) {
	for text, want := range map[string]struct{ least, most, mean time.Duration }{
		"2s":                   {2 * time.Second, 2 * time.Second, 2 * time.Second},
		" const( 250ms ) ":     {250 * time.Millisecond, 250 * time.Millisecond, 250 * time.Millisecond},
		"0s":                   {0, 0, 0},
		"uniform(1s,3s)":       {time.Second, 3 * time.Second, 2 * time.Second},
		"uniform(2s, 2s)":      {2 * time.Second, 2 * time.Second, 2 * time.Second},
		"exponential(1m)":      {0, longest, time.Minute},
		"lognormal(2s, 0.8)":   {0, longest, 2754 * time.Millisecond}, // 2s × e^(0.8²/2)
		"lognormal(2s, 0)":     {2 * time.Second, 2 * time.Second, 2 * time.Second},
		"exponential(1000d)":   {0, longest, 0},
		"lognormal(1d30m5s,5)": {0, longest, 0},
	} {
		var d Distribution
		if err := d.ReadText(text); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		const n = 20_000
		r, sum := rand.New(rand.NewPCG(1, 2)), 0.0
		for range n {
			one := d.Draw(r)
			if one < want.least || one > want.most {
				t.Fatalf("%q: drew %v, want %v to %v", text, one, want.least, want.most)
			}
			sum += float64(one)
		}
		if mean := time.Duration(sum / n); want.mean > 0 && (mean < want.mean*95/100 || mean > want.mean*105/100) {
			t.Errorf("%q: got a mean of %v, want %v", text, mean, want.mean)
		}
	}
	if got := (Distribution{}).Draw(nil); got != 0 {
		t.Errorf("without a distribution it takes %v", got)
	}
}

func TestWhatIsNoDistributionIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                   `"": invalid duration "": use a number and a unit, such as 500ms, 30s or 1h30m`,
		"gauss(1s)":          `"gauss(1s)" must be one of 2s, const(2s), uniform(1s, 3s), exponential(2s), lognormal(2s, 0.8)`,
		"uniform(1s)":        `"uniform(1s)" must be one of 2s, const(2s), uniform(1s, 3s), exponential(2s), lognormal(2s, 0.8)`,
		"uniform(1s, 2s":     `"uniform(1s, 2s" must be one of 2s, const(2s), uniform(1s, 3s), exponential(2s), lognormal(2s, 0.8)`,
		"uniform(3s, 1s)":    `"uniform(3s, 1s)": 3s is more than 1s`,
		"lognormal(1s, -1)":  `"lognormal(1s, -1)": sigma "-1" must be a number between 0 and 5`,
		"lognormal(1s, NaN)": `"lognormal(1s, NaN)": sigma "NaN" must be a number between 0 and 5`,
	} {
		if err := new(Distribution).ReadText(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestWhatAgentsUseHasTheSameForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for text, want := range map[string]string{
		"$0.05": "$0.05", "0": "$0.00", "$0": "$0.00", "lognormal($0.05, 0)": "$0.05", "uniform(2, $2)": "$2.00",
	} {
		var c Costs
		if err := c.ReadText(text); err != nil || c.Draw(r).String() != want {
			t.Errorf("%q: got %s, %v, want %s", text, c.Draw(r), err, want)
		}
	}
	for text, want := range map[string]int64{"20k": 20_000, "0": 0, "uniform(1M, 1M)": 1_000_000} {
		var c Counts
		if err := c.ReadText(text); err != nil || c.Draw(r) != want {
			t.Errorf("%q: got %d, %v, want %d", text, c.Draw(r), err, want)
		}
	}
	if err := new(Costs).ReadText("gauss($1)"); err == nil || err.Error() != `"gauss($1)" must be one of $0.05, const($0.05), uniform($0.01, $0.10), exponential($0.05), lognormal($0.05, 0.8)` {
		t.Errorf("got %v", err)
	}
	if err := new(Counts).ReadText("20 k"); err == nil {
		t.Error("20 k is taken for a number of tokens")
	}
}
