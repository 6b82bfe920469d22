package duration

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A length of time lies in the cell that it is counted in, and no cell is wider than a quarter of its beginning.
func TestEveryDurationHasItsCell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(20*24*time.Hour)).Draw(t, "d"))
		from, to := cellBounds(cellOf(d))
		if d < from || d >= to {
			t.Errorf("%v is counted from %v to %v", d, from, to)
		}
		if from >= 4*time.Microsecond && to-from > from/4 {
			t.Errorf("the cell from %v to %v is too wide", from, to)
		}
	})
}

func TestQuantilesAreAtMostAQuarterTooLong(t *testing.T) {
	var d Histogram
	for ms := range 100 {
		d.Add(time.Duration(ms+1) * time.Millisecond)
	}
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0.01, time.Millisecond}, {0.5, 50 * time.Millisecond}, {0.9, 90 * time.Millisecond}, {1, 100 * time.Millisecond}} {
		if got := d.Quantile(c.q); got < c.want || got > c.want*5/4 {
			t.Errorf("Quantile(%v) = %v, want %v or a quarter more", c.q, got, c.want)
		}
	}
	if got := new(Histogram).Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

// A histogram comes back from JSON as it was, and what is none is refused.
func TestAHistogramComesBackFromJSON(t *testing.T) {
	var d Histogram
	for ms := range 300 {
		d.Add(time.Duration(ms*ms) * time.Millisecond)
	}
	data, err := json.Marshal(&d)
	if err != nil {
		t.Fatal(err)
	}
	var again Histogram
	if err := json.Unmarshal(data, &again); err != nil || again != d {
		t.Errorf("got %v and another histogram from %s", err, data)
	}
	for _, bad := range []string{`{"cells": {"160": 1}}`, `{"cells": {"-1": 1}}`, `{"cells": {"3": -1}}`, `{"cells": []}`} {
		if err := json.Unmarshal([]byte(bad), &again); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}
