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
	counts            Counts
}

// Counts are numbers of dead letters.
type Counts struct {
	Total int `json:"total"`
	// Eligible counts those that a retry can help.
	Eligible     int `json:"reprocess_eligible"`
	ManualReview int `json:"manual_review_required"`
	// SentAgain counts those that were retried at least once.
	SentAgain int `json:"sent_again"`
	// Failures counts all failed attempts, not only the last ones.
	Failures int         `json:"failures"`
	ByType   []TypeCount `json:"by_type"`
	// Oldest and Newest are the times of the last attempts.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
}

// TypeCount is the number of dead letters with one error type.
type TypeCount struct {
	Type  string `json:"error_type"`
	Count int    `json:"count"`
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

	// SuggestedAction is what to do about errors of Type, for whoever shows the group to fill in.
	SuggestedAction string `json:"suggested_action,omitempty"`
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
	a.counts.add(e)
	last := e.Last()
	hour := e.LastAttempt.UTC().Truncate(time.Hour)
	group(a.signatures, e.ErrorSignature, Group{Signature: e.ErrorSignature}).add(e, last)
	group(a.types, string(last.ErrorType), Group{Type: string(last.ErrorType)}).add(e, last)
	group(a.hours, hour, Group{Hour: &hour}).add(e, last)
}

// add counts a dead letter.
func (c *Counts) add(e Entry) {
	c.Total++
	c.Failures += e.FailureCount
	if e.ReprocessEligible {
		c.Eligible++
	}
	if e.ManualReviewRequired {
		c.ManualReview++
	}
	if e.RetryCount > 0 {
		c.SentAgain++
	}
	if c.Oldest.IsZero() || e.LastAttempt.Before(c.Oldest) {
		c.Oldest = e.LastAttempt
	}
	if e.LastAttempt.After(c.Newest) {
		c.Newest = e.LastAttempt
	}
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

// Counts returns the numbers of the dead letters added.
func (a *Analysis) Counts() Counts {
	c := a.counts
	c.ByType = []TypeCount{}
	for _, g := range a.ByType() {
		c.ByType = append(c.ByType, TypeCount{g.Type, g.Count})
	}
	return c
}

// BySignature returns the groups by signature, the largest first.
func (a *Analysis) BySignature() []Group { return listed(a.signatures, largestFirst(a.signatures)) }

// ByType returns the groups by error type, the largest first.
func (a *Analysis) ByType() []Group { return listed(a.types, largestFirst(a.types)) }

// ByHour returns the groups by the hour of the last failure, the earliest first.
func (a *Analysis) ByHour() []Group { return listed(a.hours, time.Time.Compare) }

// largestFirst orders the keys of groups.
func largestFirst(groups map[string]*Group) func(a, b string) int {
	return func(a, b string) int {
		return cmp.Or(cmp.Compare(groups[b].Count, groups[a].Count), cmp.Compare(a, b))
	}
}

// listed returns groups in the order of their keys.
func listed[K comparable](groups map[K]*Group, order func(a, b K) int) []Group {
	list := []Group{}
	for _, key := range slices.SortedFunc(maps.Keys(groups), order) {
		list = append(list, *groups[key])
	}
	return list
}
