package mapreduce

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"time"
)

// lanes are queues of what waits for its turn, one for each key. Of the keys that may go on it is the turn of
// the one that could have gone on first, so that none waits for ever; within a key the first that came goes on
// first. To find the next takes time that grows with the logarithm of the number of keys. The zero lanes are
// empty.
type lanes[K comparable, T any] struct {
	byKey map[K]*lane[K, T]
	order ordered[*lane[K, T]]
	n     int
	came  int64     // how many have come so far
	asked time.Time // when next was last called, by the wall clock
}

// lane is the queue of one key. It has at least one element.
type lane[K comparable, T any] struct {
	key   K
	queue []T
	at    time.Time // not before: what its limit said when it was last asked
	came  int64     // when its first element came to the head, in the order of all
}

// Before puts the lane first that may go on first.
func (a *lane[K, T]) Before(b *lane[K, T]) bool {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.came, b.came)) < 0
}

func (l *lanes[K, T]) len() int { return l.n }

// has reports whether something waits with a key.
func (l *lanes[K, T]) has(key K) bool { return l.byKey[key] != nil }

// add has v wait behind what waits with the same key.
func (l *lanes[K, T]) add(key K, v T) {
	l.n++
	l.came++
	if one := l.byKey[key]; one != nil {
		one.queue = append(one.queue, v)
		return
	}
	if l.byKey == nil {
		l.byKey = map[K]*lane[K, T]{}
	}
	one := &lane[K, T]{key: key, queue: []T{v}, came: l.came}
	l.byKey[key] = one
	l.order.push(one)
}

// addFirst has v wait before what waits with the same key.
func (l *lanes[K, T]) addFirst(key K, v T) {
	one := l.byKey[key]
	if one == nil {
		l.add(key, v)
		return
	}
	l.n++
	one.queue = slices.Insert(one.queue, 0, v)
}

// next returns the key and the element whose turn it is at now. Limit returns when a key may go on; it may be
// later than it was when it was last asked, and not earlier, but for what again is called for, and for all when
// the clock was set back.
func (l *lanes[K, T]) next(now time.Time, limit func(key K, now time.Time) time.Time) (key K, v T, ok bool) {
	wall := now.Round(0)
	if wall.Before(l.asked) { // the clock was set back: what the limits said before is no time that will come soon
		for _, one := range l.order {
			one.at = time.Time{}
		}
		heap.Init(&l.order)
	}
	l.asked = wall
	for len(l.order) > 0 {
		one := l.order[0]
		if one.at.After(now) {
			return key, v, false
		}
		if at := limit(one.key, now); at.After(now) {
			one.at = at
			heap.Fix(&l.order, 0)
			continue
		}
		return one.key, one.queue[0], true
	}
	return key, v, false
}

// pop removes the element that next has returned.
func (l *lanes[K, T]) pop() {
	one := l.order[0]
	l.n--
	var none T
	one.queue[0] = none
	if one.queue = one.queue[1:]; len(one.queue) == 0 {
		delete(l.byKey, one.key)
		l.order.pop()
		return
	}
	l.came++
	one.came = l.came
	heap.Fix(&l.order, 0)
}

// again has next ask the limit of a key again, which may be earlier than it was.
func (l *lanes[K, T]) again(key K) {
	if one := l.byKey[key]; one != nil {
		one.at = time.Time{}
		heap.Fix(&l.order, slices.Index(l.order, one))
	}
}

// due returns when next is to be asked again; the zero time if nothing waits.
func (l *lanes[K, T]) due() time.Time {
	if len(l.order) == 0 {
		return time.Time{}
	}
	return l.order[0].at
}

// all yields what waits, in no particular order.
func (l *lanes[K, T]) all() iter.Seq[T] {
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
