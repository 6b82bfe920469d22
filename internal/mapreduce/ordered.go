package mapreduce

import (
	"container/heap"
)

// ordered has the element at its top that comes before all others. It is a heap: who changes elements in place calls
// heap.Fix or heap.Init.
type ordered[T interface{ Before(T) bool }] []T

func (h ordered[T]) Len() int           { return len(h) }
func (h ordered[T]) Less(i, k int) bool { return h[i].Before(h[k]) }
func (h ordered[T]) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push and Pop are for package heap.
func (h *ordered[T]) Push(x any) { *h = append(*h, x.(T)) }

func (h *ordered[T]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h *ordered[T]) push(v T) { heap.Push(h, v) }

func (h *ordered[T]) pop() T { return heap.Pop(h).(T) }
