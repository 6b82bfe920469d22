package dlq

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Analysis groups dead letters by signature, type and hour. Add them one by one to the zero Analysis.
type Analysis struct {
	signatures, types map[string]*Group
	hours             map[time.Time]*Group
	total             int
}

// Group is a group of dead letters. Exactly one of Signature, Type and Hour is set.
type Group struct {
	Signature string     `json:"signature,omitempty"`
	Type      string     `json:"error_type,omitempty"`
	Hour      *time.Time `json:"hour,omitempty"` // in which they failed last, UTC

	Count    int       `json:"count"`
	Eligible int       `json:"eligible"`
	First    time.Time `json:"first_attempt"`
	Last     time.Time `json:"last_attempt"`
	Samples  []Sample  `json:"samples"`
}

// Sample is an example of a group.
type Sample struct {
	ItemID  string `json:"item_id"`
	Step    string `json:"step"`
	Message string `json:"message"`
}

// samples is how many examples a group keeps.
const samples = 3

// Add counts a dead letter.
func (a *Analysis) Add(e Entry) {
	if a.signatures == nil {
		a.signatures, a.types, a.hours = map[string]*Group{}, map[string]*Group{}, map[time.Time]*Group{}
	}
	a.total++
	last := e.Last()
	hour := e.LastAttempt.UTC().Truncate(time.Hour)
	group(a.signatures, e.ErrorSignature, Group{Signature: e.ErrorSignature}).add(e, last)
	group(a.types, string(last.ErrorType), Group{Type: string(last.ErrorType)}).add(e, last)
	group(a.hours, hour, Group{Hour: &hour}).add(e, last)
}

// group returns the group that is known by key, which begins as empty.
func group[K comparable](groups map[K]*Group, key K, empty Group) *Group {
	g, ok := groups[key]
	if !ok {
		g = &empty
		groups[key] = g
	}
	return g
}

func (g *Group) add(e Entry, last Failure) {
	g.Count++
	if e.ReprocessEligible {
		g.Eligible++
	}
	if g.Count == 1 || e.FirstAttempt.Before(g.First) {
		g.First = e.FirstAttempt
	}
	if e.LastAttempt.After(g.Last) {
		g.Last = e.LastAttempt
	}
	if len(g.Samples) < samples {
		g.Samples = append(g.Samples, Sample{ItemID: e.ItemID, Step: last.Step, Message: last.Message})
	}
}

// Total returns the number of dead letters added.
func (a *Analysis) Total() int { return a.total }

// BySignature returns the groups by signature, the largest first.
func (a *Analysis) BySignature() []Group { return largest(a.signatures) }

// ByType returns the groups by error type, the largest first.
func (a *Analysis) ByType() []Group { return largest(a.types) }

// ByHour returns the groups by the hour of the last failure, the earliest first.
func (a *Analysis) ByHour() []Group {
	groups := []Group{}
	for _, hour := range slices.SortedFunc(maps.Keys(a.hours), time.Time.Compare) {
		groups = append(groups, *a.hours[hour])
	}
	return groups
}

// largest returns groups in order, the largest first.
func largest(groups map[string]*Group) []Group {
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(groups[b].Count, groups[a].Count), cmp.Compare(a, b))
	})
	sorted := []Group{}
	for _, key := range keys {
		sorted = append(sorted, *groups[key])
	}
	return sorted
}
