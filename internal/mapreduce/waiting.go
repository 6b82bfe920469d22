package mapreduce

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// dueItem is an item that waits for its next attempt. It holds no slot and no goroutine.
type dueItem struct {
	id    string
	index int
	due   time.Time
}

// dueHeap has the item that is due first at its top; of two due at once, the one selected first.
type dueHeap []dueItem

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, k int) bool {
	return cmp.Or(h[i].due.Compare(h[k].due), cmp.Compare(h[i].index, h[k].index)) < 0
}
func (h dueHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueItem)) }

func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h *dueHeap) push(d dueItem) { heap.Push(h, d) }
func (h *dueHeap) pop() dueItem   { return heap.Pop(h).(dueItem) }

// parking is an agent that waits for the next try of a step and has left its slot to others.
type parking struct {
	index int // of its item
	due   time.Time
	wake  chan int // the slot it goes on in, or sameSlot
}

// sameSlot answers an agent that it had better wait in its slot, since so many wait already.
const sameSlot = -1

// maxParked bounds the agents that wait outside the slots: each is a goroutine with its variables.
const maxParked = 1024

// parkHeap has the agent that is due first at its top.
type parkHeap []*parking

func (h parkHeap) Len() int           { return len(h) }
func (h parkHeap) Less(i, k int) bool { return h[i].due.Before(h[k].due) }
func (h parkHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *parkHeap) Push(x any)        { *h = append(*h, x.(*parking)) }

func (h *parkHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// park takes the slot of an agent that waits, unless too many wait already.
func (p *pool) park(k *parking) {
	if len(p.parked) >= maxParked {
		k.wake <- sameSlot
		return
	}
	p.freeSlot(p.slotOf[k.index])
	p.slotOf[k.index] = 0
	heap.Push(&p.parked, k)
}

// unpark forgets an agent that ended while it waited, as its time was up.
func (p *pool) unpark(index int) {
	at := slices.IndexFunc(p.parked, func(k *parking) bool { return k.index == index })
	if at >= 0 {
		heap.Remove(&p.parked, at)
	}
}

// wake gives a free slot to the agent that has been due longest. It returns false when none is due.
func (p *pool) wake(now time.Time) bool {
	if len(p.parked) == 0 || p.parked[0].due.After(now) {
		return false
	}
	k := heap.Pop(&p.parked).(*parking)
	slot := p.takeSlot()
	p.slotOf[k.index] = slot
	k.wake <- slot
	return true
}

func (p *pool) takeSlot() int {
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return slot
}
