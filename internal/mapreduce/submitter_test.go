package mapreduce

import (
	"testing"

	"prodigy/internal/agent"
)

func TestASubmitterHasRoomForSoMany(t *testing.T) {
	s := submitter{room: make(chan struct{}, 1), at: 1}
	for i := range mostUnsent {
		if s.full() {
			t.Fatalf("it is full with %d", i)
		}
		s.waiting = append(s.waiting, agent.Attempt{Assignment: agent.Assignment{ItemIndex: i}})
	}
	if !s.full() {
		t.Fatalf("it is not full with %d", mostUnsent)
	}
	next := 0
	for some := s.next(); some != nil; some = s.next() {
		for _, a := range some {
			if a.ItemIndex != next {
				t.Fatalf("got item %d, want %d", a.ItemIndex, next)
			}
			next++
		}
		if len(some) > mostAtOnce {
			t.Errorf("one goroutine takes %d", len(some))
		}
		if told, low := len(s.room) > 0, len(s.waiting) < mostUnsent/2; told != low {
			t.Errorf("told of room: %v, with %d that wait", told, len(s.waiting))
		}
	}
	if next != mostUnsent || s.at != 0 || s.full() {
		t.Errorf("got %d attempts, and %d goroutines are left, want %d and none", next, s.at, mostUnsent)
	}
}

// A value that nobody has received yet must not hold up who submits.
func TestASubmitterTellsOfRoomWithoutWaiting(t *testing.T) {
	s := submitter{room: make(chan struct{}, 1), at: 1}
	for range 2 {
		s.waiting = make([]agent.Attempt, mostUnsent)
		if !s.full() {
			t.Fatal("it is not full")
		}
		for len(s.waiting) > 0 {
			s.next()
		}
	}
	if len(s.room) != 1 {
		t.Errorf("told %d times, want once until it is received", len(s.room))
	}
}
