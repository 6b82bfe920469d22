package view

import "time"

// speed counts the items finished in each of the last seconds of a run.
type speed struct {
	// How many items had finished before this run.
	before int

	// How many have finished in this run.
	n int

	// How many finished in each second, by the second modulo speedSeconds. A ring of a fixed size makes a rate
	// cheap, however many items finish.
	seconds [speedSeconds]int

	// The second, since 1970, that was counted last.
	newest int64
}

const speedSeconds = 64

// add counts an item that finished now.
func (s *speed) add(now time.Time) {
	s.n++
	s.forget(now)
	if second := now.Unix(); second > s.newest-speedSeconds {
		s.seconds[second%speedSeconds]++
	}
}

// forget empties the cells of the seconds that have passed.
func (s *speed) forget(now time.Time) {
	second := now.Unix()
	for at := max(s.newest+1, second-speedSeconds+1); at <= second; at++ {
		s.seconds[at%speedSeconds] = 0
	}
	s.newest = max(s.newest, second)
}

// last returns the number of items finished in the last n whole seconds, without the current one.
func (s *speed) last(now time.Time, n int64) int {
	s.forget(now)
	count := 0
	for at := now.Unix() - n; at < now.Unix(); at++ {
		count += s.seconds[at%speedSeconds]
	}
	return count
}
