package events

import (
	"hash/maphash"
	"slices"
	"time"

	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Stats counts what happened in a job. The zero value has seen nothing.
type Stats struct {
	Events    int            `json:"events"`
	First     time.Time      `json:"first,omitzero"`
	Last      time.Time      `json:"last,omitzero"`
	SpanMS    Millis         `json:"span_ms"`    // from the first to the last
	PerSecond float64        `json:"per_second"` // events; 0 when there is no span
	Types     map[string]int `json:"types"`

	// Of failed attempts, and of steps outside the map phase that failed.
	ErrorTypes map[retry.Type]int `json:"error_types"`

	Items int `json:"items"` // that something happened to

	// That were started: one for each attempt, also when it was taken up again.
	Agents int `json:"agents"`

	Attempts    int            `json:"attempts"` // that were started
	Retries     int            `json:"retries"`  // that the policy decided on
	StepRetries int            `json:"step_retries"`
	Durations   Durations      `json:"durations"`
	Nodes       map[string]int `json:"nodes,omitempty"` // attempts that ended on workers of a fleet, by their names
	Spent       *limit.Total   `json:"spent,omitempty"` // by AI agents; absent when there were none

	items   idSet // marked: the agent of the first attempt was started
	agents  idSet // the others
	lengths []Millis
}

// Durations summarizes the durations of finished attempts.
type Durations struct {
	Count int    `json:"count"`
	P50   Millis `json:"p50_ms"`
	P95   Millis `json:"p95_ms"`
	Max   Millis `json:"max_ms"`
}

// Add counts a record.
func (s *Stats) Add(r Record) {
	s.seen(TypeOf(r.Event), r.Time)
	if id := Subject(r.Event); id != "" {
		s.items.add([]byte(id))
	}
	if e, ok := r.Event.(AgentStarted); ok {
		s.started([]byte(e.ItemID), []byte(e.AgentID), r.CorrelationID+firstAgent == e.AgentID)
		return
	}
	s.count(r.Event)
}

// AddLine counts the record of a line that was read from a log, as Add does.
func (s *Stats) AddLine(text []byte) error {
	r, err := decode(text)
	if err == nil {
		s.Add(r)
	}
	return err
}

// seen counts an event of a type.
func (s *Stats) seen(name string, at time.Time) {
	if s.Types == nil {
		s.Types, s.ErrorTypes = map[string]int{}, map[retry.Type]int{}
		s.First, s.Last = at, at
	}
	s.Events++
	s.Types[name]++
	if at.Before(s.First) {
		s.First = at
	}
	if at.After(s.Last) {
		s.Last = at
	}
}

// firstAgent follows the correlation id in the agent id of the first attempt of an item.
const firstAgent = "/1"

// started counts an attempt. Most are the first of their item, which is remembered with the item.
func (s *Stats) started(item, agent []byte, first bool) {
	s.Attempts++
	if first {
		s.items.mark(item)
		return
	}
	s.items.add(item)
	s.agents.add(agent)
}

// ranOn counts an attempt that has ended on a worker. Node is empty if it ran here, or nobody knows where.
func (s *Stats) ranOn(node string) {
	if node == "" {
		return
	}
	if s.Nodes == nil {
		s.Nodes = map[string]int{}
	}
	s.Nodes[node]++
}

func (s *Stats) count(e Event) {
	switch e := e.(type) {
	case AgentCompleted:
		s.lengths = append(s.lengths, e.DurationMS)
		s.ranOn(e.Node)
	case AgentInterrupted:
		s.ranOn(e.Node)
	case AgentLost:
		s.ranOn(e.Node)
	case AgentFailed:
		s.ranOn(e.Node)
		s.ErrorTypes[e.ErrorType]++
		if e.AgentID != "" {
			s.lengths = append(s.lengths, e.DurationMS)
		}
		if e.Action.RunsAgain() {
			s.Retries++
		}
	case StepRetrying:
		s.StepRetries++
	case AgentUsage:
		if s.Spent == nil {
			s.Spent = new(limit.Total)
		}
		s.Spent.Add(e.Use())
	case StepFailed:
		if e.ItemID == "" {
			s.ErrorTypes[e.ErrorType]++
		}
	}
}

// Sum returns the statistics.
func (s *Stats) Sum() Stats {
	sum := *s
	sum.Items, sum.Agents = s.items.n, s.items.marked+s.agents.n
	span := s.Last.Sub(s.First)
	sum.SpanMS = Millis(span)
	if span > 0 {
		sum.PerSecond = float64(s.Events) / span.Seconds()
	}
	if n := len(s.lengths); n > 0 {
		slices.Sort(s.lengths)
		sum.Durations = Durations{Count: n, P50: s.rank(50), P95: s.rank(95), Max: s.lengths[n-1]}
	}
	if sum.Types == nil {
		sum.Types, sum.ErrorTypes = map[string]int{}, map[retry.Type]int{}
	}
	return sum
}

// rank returns the shortest length that percent of all do not exceed.
func (s *Stats) rank(percent int) Millis {
	n := len(s.lengths)
	return s.lengths[(n*percent+99)/100-1]
}

// idSet counts different ids, and how many of them were marked. It keeps a hash of each: of a million ids
// these take a fraction of the memory. The zero value is empty.
type idSet struct {
	seed maphash.Seed

	// Each where its lower bits say, or behind that when the place is taken; 0: free. The lowest bit is the
	// mark.
	slots []uint64

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
