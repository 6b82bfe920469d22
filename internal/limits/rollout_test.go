package limits

import "testing"

func TestHowManyMayFail(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		items int
		want  int
	}{{0.95, 20, 1}, {0.95, 19, 0}, {1, 20, 0}, {0.9, 10, 1}, {0.7, 10, 3}, {0.001, 1000, 999}, {0.0001, 10, 9}} {
		if got := (Stage{Rate: c.rate}).mayFail(c.items); got != c.want {
			t.Errorf("%v of %d: got %d, want %d", c.rate, c.items, got, c.want)
		}
	}
}
