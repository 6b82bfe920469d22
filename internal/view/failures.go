package view

import (
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// Failures are the final failures of items, grouped by type and signature, and the newest of them. The zero
// Failures is empty.
type Failures struct {
	// The newest failures, at most newestKept, the newest last.
	Newest []Failure

	// How many failures are in none of the groups that are kept.
	Ungrouped int

	groups []*FailureGroup
	byKey  map[string]int // their positions in groups

	// The number of the group of each item, by index, from 1: a byte for each. Those in none of them have groupsKept+1.
	groupOf []uint8
}

// Failure is the final failure of an item.
type Failure struct {
	Time time.Time
	events.AgentFailed
}

// FailureGroup is a group of failures with the same type, signature and outcome.
type FailureGroup struct {
	Type      retry.Type
	Signature string
	Count     int

	// One of the failures. It has no item if all that are kept of the group have succeeded since.
	Example Failure

	Last time.Time

	newest []Failure // at most newestKept besides the example

	// Their messages are not all the same, so that the signature names the group better.
	varied bool
}

// Title returns the message of the failures if they all have the same, else their signature.
func (g FailureGroup) Title() string {
	if g.varied || g.Example.Error == "" {
		return g.Signature
	}
	return g.Example.Error
}

// Outcome returns how the items of g are counted: as failed, skipped or rejected.
func (g FailureGroup) Outcome() string { return g.Example.Status().String() }

// ItemStatus returns the status that the items of g have.
func (g FailureGroup) ItemStatus() Status { return StatusOf(g.Example.Status()) }

const (
	groupsKept = 200 // bounds the memory of a job whose errors are all different
	newestKept = 5
)

// add counts a failure in its group. A new group is not kept once there are groupsKept.
func (f *Failures) add(now time.Time, e events.AgentFailed) {
	f.forget(e.ItemIndex)
	failure := Failure{now, e}
	f.Newest = withNewest(f.Newest, failure)
	key := e.Status().String() + "\x00" + string(e.ErrorType) + "\x00" + e.ErrorSignature
	f.groupOf = append(f.groupOf, make([]uint8, max(e.ItemIndex+1-len(f.groupOf), 0))...)
	n, known := f.byKey[key]
	if !known && len(f.groups) == groupsKept {
		f.Ungrouped++
		f.groupOf[e.ItemIndex] = groupsKept + 1
		return
	}
	if !known {
		if f.byKey == nil {
			f.byKey = map[string]int{}
		}
		n = len(f.groups)
		f.byKey[key] = n
		f.groups = append(f.groups, &FailureGroup{Type: e.ErrorType, Signature: e.ErrorSignature})
	}
	f.groupOf[e.ItemIndex] = uint8(n + 1)
	g := f.groups[n]
	g.varied = g.Count > 0 && (g.varied || g.Example.Error != e.Error)
	if g.Count == 0 || g.Example.ItemID == "" {
		g.Example = failure
	} else {
		g.newest = withNewest(g.newest, failure)
	}
	g.Count++
	g.Last = now
}

// forget takes back the failure of an item that has got another end.
func (f *Failures) forget(index int) {
	if index >= len(f.groupOf) || f.groupOf[index] == 0 {
		return
	}
	if n := int(f.groupOf[index]); n > groupsKept {
		f.Ungrouped--
	} else {
		f.groups[n-1].forget(index)
	}
	f.groupOf[index] = 0
	f.Newest = without(f.Newest, index)
}

// forget takes the failure of an item out of g, and names another as the example if it was that.
func (g *FailureGroup) forget(index int) {
	g.Count--
	g.newest = without(g.newest, index)
	switch {
	case g.Example.ItemIndex != index:
	case len(g.newest) > 0:
		g.Example, g.newest = g.newest[0], g.newest[1:]
	default:
		e := &g.Example.AgentFailed
		e.ItemID, e.Step, e.StdoutTail, e.StderrTail, e.Outputs = "", "", "", "", nil
	}
}

// withNewest appends a failure to the newest ones.
func withNewest(list []Failure, f Failure) []Failure {
	if len(list) == newestKept {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, f)
}

// without returns the failures of all other items than that with an index.
func without(list []Failure, index int) []Failure {
	return slices.DeleteFunc(list, func(f Failure) bool { return f.ItemIndex == index })
}

// Count returns how many failures there are.
func (f *Failures) Count() int {
	n := f.Ungrouped
	for _, g := range f.groups {
		n += g.Count
	}
	return n
}

// Groups returns the groups by size, the largest first; groups of equal size in the order of their first failure.
func (f *Failures) Groups() []FailureGroup {
	var list []FailureGroup
	for _, g := range f.groups {
		if g.Count > 0 {
			list = append(list, *g)
		}
	}
	slices.SortStableFunc(list, func(a, b FailureGroup) int { return b.Count - a.Count })
	return list
}
