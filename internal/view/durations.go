package view

import (
	"math"
	"math/bits"
	"time"
)

// Durations is a histogram of durations. Each power of two of microseconds is split into four equal cells, so that a quantile is at most a
// quarter too long. The zero Durations is empty.
type Durations struct {
	cells [durationCells]int
	n     int
	sum   time.Duration
	max   time.Duration
}

// durationCells reach to 2^41 microseconds, which is 25 days; the last cell holds all that is longer.
const durationCells = 4 * 40

// DurationCell is one cell of the histogram.
type DurationCell struct {
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"` // excluded
	Count int           `json:"count"`
}

func (d *Durations) add(t time.Duration) {
	d.cells[durationCell(t)]++
	d.n++
	d.sum += t
	d.max = max(d.max, t)
}

// N returns the number of durations.
func (d *Durations) N() int { return d.n }

// Max returns the longest duration.
func (d *Durations) Max() time.Duration { return d.max }

// Mean returns the arithmetic mean; 0 when there are none.
func (d *Durations) Mean() time.Duration {
	if d.n == 0 {
		return 0
	}
	return d.sum / time.Duration(d.n)
}

// Quantile returns the q-quantile, q from 0 to 1; 0 if there are no durations.
func (d *Durations) Quantile(q float64) time.Duration {
	want := int(math.Ceil(q * float64(d.n)))
	seen := 0
	for i, count := range d.cells {
		if seen += count; seen >= want && count > 0 {
			_, to := cellBounds(i)
			return min(to, d.max)
		}
	}
	return 0
}

// Cells returns the cells from the first to the last non-empty one.
func (d *Durations) Cells() []DurationCell {
	var list []DurationCell
	last := 0
	for i, count := range d.cells {
		if count == 0 && len(list) == 0 {
			continue
		}
		from, to := cellBounds(i)
		list = append(list, DurationCell{From: from, To: to, Count: count})
		if count > 0 {
			last = len(list)
		}
	}
	return list[:last]
}

// durationCell returns the index of the cell of t.
func durationCell(t time.Duration) int {
	us := uint64(max(t.Microseconds(), 0))
	if us < 4 {
		return int(us)
	}
	power := bits.Len64(us) - 1 // at least 2
	quarter := int(us>>(power-2)) & 3
	return min(4*(power-1)+quarter, durationCells-1)
}

// cellBounds is the inverse of durationCell.
func cellBounds(i int) (from, to time.Duration) {
	if i < 4 {
		return time.Duration(i) * time.Microsecond, time.Duration(i+1) * time.Microsecond
	}
	power, quarter := i/4+1, i%4
	step := time.Microsecond << (power - 2)
	from = time.Duration(4+quarter) * step
	return from, from + step
}
