package events

import (
	"hash/maphash"
	"slices"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/retry"
)

// Stats counts what happened in a job. The zero value has seen nothing.
type Stats struct {
	Events      int                `json:"events"`
	First       time.Time          `json:"first,omitzero"`
	Last        time.Time          `json:"last,omitzero"`
	SpanMS      Millis             `json:"span_ms"`    // from the first to the last
	PerSecond   float64            `json:"per_second"` // events; 0 when there is no span
	Types       map[string]int     `json:"types"`
	ErrorTypes  map[retry.Type]int `json:"error_types"` // of failed attempts, and of steps outside the map phase that failed
	Items       int                `json:"items"`       // that something happened to
	Agents      int                `json:"agents"`      // that were started: one for each attempt, also when it was taken up again
	Attempts    int                `json:"attempts"`    // that were started
	Retries     int                `json:"retries"`     // that the policy decided on
	StepRetries int                `json:"step_retries"`
	Durations   Durations          `json:"durations"`

	seed          maphash.Seed
	items, agents map[uint64]struct{} // hashes of their ids: of a million ids these take a fraction of the memory
	lengths       []Millis
}

// Durations sums up how long the attempts took that came to an end.
type Durations struct {
	Count int    `json:"count"`
	P50   Millis `json:"p50_ms"`
	P95   Millis `json:"p95_ms"`
	Max   Millis `json:"max_ms"`
}

// Add counts a record.
func (s *Stats) Add(r Record) {
	if s.Types == nil {
		s.Types, s.ErrorTypes = map[string]int{}, map[retry.Type]int{}
		s.seed, s.items, s.agents = maphash.MakeSeed(), map[uint64]struct{}{}, map[uint64]struct{}{}
		s.First, s.Last = r.Time, r.Time
	}
	s.Events++
	s.Types[r.Event.Type()]++
	if r.Time.Before(s.First) {
		s.First = r.Time
	}
	if r.Time.After(s.Last) {
		s.Last = r.Time
	}
	if id := r.Event.About(); id != "" {
		s.items[maphash.String(s.seed, id)] = struct{}{}
	}
	s.count(r.Event)
}

func (s *Stats) count(e Event) {
	switch e := e.(type) {
	case AgentStarted:
		s.Attempts++
		s.agents[maphash.String(s.seed, e.AgentID)] = struct{}{}
	case AgentCompleted:
		s.lengths = append(s.lengths, e.DurationMS)
	case AgentFailed:
		s.ErrorTypes[e.ErrorType]++
		if e.AgentID != "" {
			s.lengths = append(s.lengths, e.DurationMS)
		}
		if e.Action == errorpolicy.Retry {
			s.Retries++
		}
	case StepRetrying:
		s.StepRetries++
	case StepFailed:
		if e.ItemID == "" {
			s.ErrorTypes[e.ErrorType]++
		}
	}
}

// Sum returns the counts with what follows from them.
func (s *Stats) Sum() Stats {
	sum := *s
	sum.Items, sum.Agents = len(s.items), len(s.agents)
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
