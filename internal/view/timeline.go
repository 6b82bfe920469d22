package view

import "time"

// Timeline counts what happened in equal spans of time. There are at most timelineCells: when they are used up, each becomes twice as
// long. The zero Timeline begins at Began.
type Timeline struct {
	Began time.Time
	Span  time.Duration // of one cell
	Cells []Cell
}

// Cell is what happened in one span.
type Cell struct {
	Started   int `json:"started"`   // attempts
	Succeeded int `json:"succeeded"` // items
	Failed    int `json:"failed"`    // items, for good; skipped and rejected ones too
	Retried   int `json:"retried"`   // attempts that failed and will be followed by another
}

const (
	timelineCells = 512
	firstSpan     = 50 * time.Millisecond
)

// at returns the cell of a moment. A moment before Began, when the clock was set back, counts in the nearest cell.
func (t *Timeline) at(now time.Time) *Cell {
	if t.Span == 0 {
		t.Span = firstSpan
	}
	since := max(now.Sub(t.Began), 0)
	for since/t.Span >= timelineCells {
		t.double()
	}
	at := int(since / t.Span)
	for len(t.Cells) <= at {
		t.Cells = append(t.Cells, Cell{})
	}
	return &t.Cells[at]
}

func (t *Timeline) double() {
	t.Span *= 2
	for i, c := range t.Cells {
		if i%2 == 0 {
			t.Cells[i/2] = c
			continue
		}
		into := &t.Cells[i/2]
		into.Started += c.Started
		into.Succeeded += c.Succeeded
		into.Failed += c.Failed
		into.Retried += c.Retried
	}
	t.Cells = t.Cells[:(len(t.Cells)+1)/2]
}
