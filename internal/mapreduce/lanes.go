package mapreduce

import (
	"cmp"
	"container/heap"
	"iter"
	"time"
)

// lanes are queues of what waits for its turn, one for each key. Of the keys that may go on it is the turn of the one that could have gone on
// first, so that none waits for ever; within a key the first that came goes on first. To find the next takes time that grows with the logarithm of
// the number of keys. The zero lanes are empty.
type lanes[T any] struct {
	byKey map[string]*lane[T]
	order laneHeap[T]
	n     int
	came  int64 // how many have come so far
}

// lane is the queue of one key. It has at least one element.
type lane[T any] struct {
	key   string
	queue []T
	at    time.Time // not before: what its limit said when it was last asked
	came  int64     // when its first element came to the head, in the order of all
}

func (l *lanes[T]) len() int { return l.n }

// has reports whether something waits with a key.
func (l *lanes[T]) has(key string) bool { return l.byKey[key] != nil }

// add has v wait behind what waits with the same key.
func (l *lanes[T]) add(key string, v T) {
	l.n++
	l.came++
	if one := l.byKey[key]; one != nil {
		one.queue = append(one.queue, v)
		return
	}
	if l.byKey == nil {
		l.byKey = map[string]*lane[T]{}
	}
	one := &lane[T]{key: key, queue: []T{v}, came: l.came}
	l.byKey[key] = one
	heap.Push(&l.order, one)
}

// next returns the key and the element whose turn it is at now. Limit returns when a key may go on; it may be later than it was when it was last asked, and
// not earlier.
func (l *lanes[T]) next(now time.Time, limit func(key string, now time.Time) time.Time) (key string, v T, ok bool) {
	for len(l.order) > 0 {
		one := l.order[0]
		if one.at.After(now) {
			return "", v, false
		}
		if at := limit(one.key, now); at.After(now) {
			one.at = at
			heap.Fix(&l.order, 0)
			continue
		}
		return one.key, one.queue[0], true
	}
	return "", v, false
}

// pop removes the element that next has returned.
func (l *lanes[T]) pop() {
	one := l.order[0]
	l.n--
	var none T
	one.queue[0] = none
	if one.queue = one.queue[1:]; len(one.queue) == 0 {
		delete(l.byKey, one.key)
		heap.Pop(&l.order)
		return
	}
	l.came++
	one.came = l.came
	heap.Fix(&l.order, 0)
}

// due returns when next is to be asked again. It reports false if nothing waits.
func (l *lanes[T]) due() (at time.Time, ok bool) {
	if len(l.order) == 0 {
		return time.Time{}, false
	}
	return l.order[0].at, true
}

// all yields what waits, in no particular order.
func (l *lanes[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, one := range l.order {
			for _, v := range one.queue {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// laneHeap has the lane at its top that may go on first.
type laneHeap[T any] []*lane[T]

func (h laneHeap[T]) Len() int { return len(h) }

func (h laneHeap[T]) Less(i, k int) bool {
	return cmp.Or(h[i].at.Compare(h[k].at), cmp.Compare(h[i].came, h[k].came)) < 0
}

func (h laneHeap[T]) Swap(i, k int) { h[i], h[k] = h[k], h[i] }

func (h *laneHeap[T]) Push(x any) { *h = append(*h, x.(*lane[T])) }

func (h *laneHeap[T]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
