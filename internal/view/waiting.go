package view

import (
	"container/heap"
	"time"
)

// waiting are the items between two attempts. The heap may hold outdated moments; due has the valid ones.
type waiting struct {
	// When each waiting item is due, by index.
	due map[int]time.Time

	// The ids of the items in due, for requests that name items.
	ids map[int]string

	moments moments

	// The latest time that any item was ever due.
	latest time.Time
}

// add makes an item wait until it is due. An item that waits already gets the new time.
func (w *waiting) add(index int, due time.Time) {
	w.due[index] = due
	heap.Push(&w.moments, moment{due, index})
	if due.After(w.latest) {
		w.latest = due
	}
}

// remove takes an item out, whether it waits or not.
func (w *waiting) remove(index int) {
	delete(w.due, index)
	delete(w.ids, index)
	w.first()
}

// first returns the earliest valid moment, and drops outdated ones before it.
func (w *waiting) first() time.Time {
	for len(w.moments) > 0 {
		m := w.moments[0]
		if due, ok := w.due[m.index]; ok && due.Equal(m.due) {
			return m.due
		}
		heap.Pop(&w.moments)
	}
	return time.Time{}
}

// moment is when an item is due.
type moment struct {
	due   time.Time
	index int
}

// moments is a heap with the earliest first.
type moments []moment

func (m moments) Len() int { return len(m) }

func (m moments) Less(a, b int) bool { return m[a].due.Before(m[b].due) }

func (m moments) Swap(a, b int) { m[a], m[b] = m[b], m[a] }

func (m *moments) Push(x any) { *m = append(*m, x.(moment)) }

func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
