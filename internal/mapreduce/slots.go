package mapreduce

import "time"

// newSlots returns n free slots, of which 1 is taken first.
func newSlots(n int) slotsHeld {
	s := slotsHeld{taken: map[int]int{}}
	s.resize(n)
	return s
}

func (p *pool) takeSlot() int {
	slot := p.slots.free[len(p.slots.free)-1]
	p.slots.free = p.slots.free[:len(p.slots.free)-1]
	p.slots.taken[slot] = 1
	if p.slots.seeker.slot != nil {
		p.shared.put(slot, p.slots.seeker.slot)
		p.slots.seeker.slot = nil
	}
	return slot
}

// freeSlot gives a slot back for one of those that hold it.
func (p *pool) freeSlot(slot int) {
	if slot == 0 {
		return
	}
	p.shared.yield(slot)
	if p.slots.taken[slot]--; p.slots.taken[slot] > 0 {
		return
	}
	delete(p.slots.taken, slot)
	if slot <= p.parallel { // else the job was scaled down
		p.slots.free = append(p.slots.free, slot)
	}
}

// resize changes the number of slots.
func (p *pool) resize(n int) {
	p.parallel = n
	if p.flights != nil { // else the next pool begins with as many
		p.slots.resize(n)
	}
}

// maxParked bounds the agents that wait outside the slots: each is a goroutine with its variables.
const maxParked = 1024

// goOn has a parked agent go on in a free slot. One that waits for something else since then gets its slot with that.
func (p *pool) goOn(k *parking) {
	f := p.flights[k.token]
	if f.waits != k {
		k.wake <- k.slot
		return
	}
	f.slot, f.waits, f.began = p.takeSlot(), nil, time.Now()
	k.wake <- f.slot
}

// leaveSlot frees the slot of an agent that waits.
func (p *pool) leaveSlot(k *parking) {
	f := p.flights[k.token]
	if f.waits == nil || f.waits.step == nil { // else this was said before it asked for the turn of a step, and comes after that
		f.waits = k
	}
	p.freeSlot(f.slot)
	f.slot = 0
}
