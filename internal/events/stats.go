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

	items, agents idSet
	lengths       []Millis
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
	if s.Types == nil {
		s.Types, s.ErrorTypes = map[string]int{}, map[retry.Type]int{}
		s.First, s.Last = r.Time, r.Time
	}
	s.Events++
	s.Types[TypeOf(r.Event)]++
	if r.Time.Before(s.First) {
		s.First = r.Time
	}
	if r.Time.After(s.Last) {
		s.Last = r.Time
	}
	if id := Subject(r.Event); id != "" {
		s.items.add(id)
	}
	if end, ok := EndOf(r.Event); ok {
		if end.Node != "" {
			if s.Nodes == nil {
				s.Nodes = map[string]int{}
			}
			s.Nodes[end.Node]++
		}
		if end.How == Failed {
			s.ErrorTypes[end.Type]++
		}
		if end.Action.RunsAgain() {
			s.Retries++
		}
		if end.AgentID != "" && !end.How.GivenBack() {
			s.lengths = append(s.lengths, Millis(end.Took))
		}
	}
	switch e := r.Event.(type) {
	case AgentStarted:
		s.Attempts++
		s.agents.add(e.AgentID)
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

// AddLine counts the record of a line that was read from a log, as Add does.
func (s *Stats) AddLine(text []byte) error {
	r, err := decode(text)
	if err == nil {
		s.Add(r)
	}
	return err
}

// Sum returns the statistics.
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

// idSet is a set of ids. It keeps a hash of each: of a million ids these take a fraction of the memory.
type idSet map[uint64]struct{}

var idSeed = maphash.MakeSeed()

// add adds an id. Two ids that have one hash count as one, which is rare enough for statistics.
func (s *idSet) add(id string) {
	if *s == nil {
		*s = idSet{}
	}
	(*s)[maphash.String(idSeed, id)] = struct{}{}
}
