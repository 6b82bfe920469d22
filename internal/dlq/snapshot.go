package dlq

import "time"

// Snapshot is what a projection knows of the items that are between their first start and their final outcome, behind some record of
// the log.
type Snapshot struct {
	Applied int64                     `json:"applied"` // the record that the last line of the journal followed
	Resent  bool                      `json:"resent"`
	Active  map[string]ActiveSnapshot `json:"active"`
}

// ActiveSnapshot is an item in a Snapshot.
type ActiveSnapshot struct {
	First   time.Time   `json:"first"`
	History []Failure   `json:"history,omitempty"`
	Retries []StepRetry `json:"retries,omitempty"`
}

// Snapshot returns the state of the projection. Call it between two calls of Apply. It reports false if some failures are in the spill file.
func (p *Projection) Snapshot() (s Snapshot, ok bool) {
	if p.kept.out > 0 {
		return Snapshot{}, false
	}
	s = Snapshot{Applied: p.queue.Applied(), Resent: p.resent, Active: make(map[string]ActiveSnapshot, len(p.active))}
	for id, a := range p.active {
		known := ActiveSnapshot{First: a.first, Retries: a.retries}
		for _, x := range a.history {
			known.History = append(known.History, *x.failure)
		}
		s.Active[id] = known
	}
	return s, true
}

// Restore puts a projection that has followed nothing to where another was behind record seq. It is false, and nothing has changed,
// when the journal lacks what that one had written: then the log is to be followed from its beginning.
func (p *Projection) Restore(s Snapshot, seq int64) (bool, error) {
	if p.applied < s.Applied {
		return false, nil
	}
	p.resent = s.Resent
	for id, known := range s.Active {
		a := &active{first: known.First, retries: known.Retries}
		for _, f := range known.History {
			x, err := p.kept.keep(f)
			if err != nil {
				return false, err
			}
			a.history = append(a.history, x)
		}
		p.active[id] = a
	}
	if seq > p.applied {
		p.queue.Follow(seq)
		p.queue.Followed()
	}
	return true, nil
}
