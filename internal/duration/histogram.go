package duration

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations in log-linear cells, as an HdrHistogram does: each power of two of microseconds
// is split into four equal cells, so that a quantile is at most a quarter too long. Its size does not grow.
// The zero Histogram is empty.
type Histogram struct {
	cells [cellCount]int
	sum   time.Duration
	max   time.Duration
}

// cellCount reach to 2^41 microseconds, which is 25 days; the last cell holds all that is longer.
const cellCount = 4 * 40

// Cell is one cell of the histogram.
type Cell struct {
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"` // excluded
	Count int           `json:"count"`
}

// Add counts a duration.
func (d *Histogram) Add(t time.Duration) {
	d.cells[cellOf(t)]++
	d.sum += t
	d.max = max(d.max, t)
}

// N returns the number of durations.
func (d *Histogram) N() (n int) {
	for _, count := range d.cells {
		n += count
	}
	return n
}

// Max returns the longest duration.
func (d *Histogram) Max() time.Duration { return d.max }

// Mean returns the arithmetic mean; 0 when there are none.
func (d *Histogram) Mean() time.Duration {
	n := d.N()
	if n == 0 {
		return 0
	}
	return d.sum / time.Duration(n)
}

// Quantile returns the q-quantile, q from 0 to 1; 0 if there are no durations.
func (d *Histogram) Quantile(q float64) time.Duration {
	want := int(math.Ceil(q * float64(d.N())))
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
func (d *Histogram) Cells() []Cell {
	var list []Cell
	last := 0
	for i, count := range d.cells {
		if count == 0 && len(list) == 0 {
			continue
		}
		from, to := cellBounds(i)
		list = append(list, Cell{From: from, To: to, Count: count})
		if count > 0 {
			last = len(list)
		}
	}
	return list[:last]
}

// cellOf returns the index of the cell of t.
func cellOf(t time.Duration) int {
	us := uint64(max(t.Microseconds(), 0))
	if us < 4 {
		return int(us)
	}
	power := bits.Len64(us) - 1 // at least 2
	quarter := int(us>>(power-2)) & 3
	return min(4*(power-1)+quarter, cellCount-1)
}

// cellBounds is the inverse of cellOf.
func cellBounds(i int) (from, to time.Duration) {
	if i < 4 {
		return time.Duration(i) * time.Microsecond, time.Duration(i+1) * time.Microsecond
	}
	power, quarter := i/4+1, i%4
	step := time.Microsecond << (power - 2)
	from = time.Duration(4+quarter) * step
	return from, from + step
}

// histogramForm is how a Histogram is written as JSON: only the cells that are not empty, by their indexes.
type histogramForm struct {
	Cells map[int]int   `json:"cells,omitempty"`
	Sum   time.Duration `json:"sum,omitempty"`
	Max   time.Duration `json:"max,omitempty"`
}

// MarshalJSON encodes the histogram.
func (d *Histogram) MarshalJSON() ([]byte, error) {
	f := histogramForm{Cells: map[int]int{}, Sum: d.sum, Max: d.max}
	for i, count := range d.cells {
		if count > 0 {
			f.Cells[i] = count
		}
	}
	return json.Marshal(f)
}

// UnmarshalJSON decodes what MarshalJSON has encoded.
func (d *Histogram) UnmarshalJSON(data []byte) error {
	var f histogramForm
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*d = Histogram{sum: f.Sum, max: f.Max}
	for i, count := range f.Cells {
		if i < 0 || i >= cellCount || count < 0 {
			return fmt.Errorf("a histogram has no cell %d with a count of %d", i, count)
		}
		d.cells[i] = count
	}
	return nil
}
