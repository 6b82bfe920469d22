package events

import "hash/maphash"

// idSet counts different ids, and how many of them were marked. It keeps a hash of each: of a million ids these take a fraction of the memory.
// The zero value is empty.
type idSet struct {
	seed   maphash.Seed
	slots  []uint64 // each where its lower bits say, or behind that when the place is taken; 0: free. The lowest bit is the mark
	n      int
	marked int
}

const markBit = 1

// add notes an id.
func (s *idSet) add(id []byte) { s.slot(id) }

// mark notes an id and marks it.
func (s *idSet) mark(id []byte) {
	slot := s.slot(id)
	if *slot&markBit == 0 {
		*slot |= markBit
		s.marked++
	}
}

// slot returns where the id is kept. It is good until the next call.
func (s *idSet) slot(id []byte) *uint64 {
	if 4*s.n >= 3*len(s.slots) {
		s.grow()
	}
	h := maphash.Bytes(s.seed, id) &^ markBit
	if h == 0 {
		h = markBit + 1
	}
	slot := s.find(h)
	if *slot == 0 {
		*slot = h
		s.n++
	}
	return slot
}

// find returns the slot that holds the hash, or the free one that it belongs in.
func (s *idSet) find(h uint64) *uint64 {
	mask := uint64(len(s.slots) - 1)
	for i := h >> 1 & mask; ; i = (i + 1) & mask {
		if slot := &s.slots[i]; *slot == 0 || *slot&^markBit == h {
			return slot
		}
	}
}

func (s *idSet) grow() {
	before := s.slots
	if before == nil {
		s.seed = maphash.MakeSeed()
	}
	s.slots = make([]uint64, max(64, 2*len(before)))
	for _, kept := range before {
		if kept != 0 {
			*s.find(kept &^ markBit) = kept
		}
	}
}
