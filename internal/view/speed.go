package view

import "time"

// speed counts the items finished in each of the last seconds of a run.
type speed struct {
	before  int // finished before this run
	n       int // finished in this run
	seconds [speedSeconds]int
	newest  int64 // the second, since the epoch, that was counted last
}

const speedSeconds = 64

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
