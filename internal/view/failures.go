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

	// The first failure of the group.
	Example Failure

	Last time.Time

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
	if len(f.Newest) == newestKept {
		f.Newest = slices.Delete(f.Newest, 0, 1)
	}
	f.Newest = append(f.Newest, failure)
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
	if g.Count == 0 {
		g.Example, g.varied = failure, false
	}
	g.Count++
	g.Last = now
	g.varied = g.varied || g.Example.Error != e.Error
}

// forget takes back the failure of an item that has got another end.
func (f *Failures) forget(index int) {
	if index >= len(f.groupOf) || f.groupOf[index] == 0 {
		return
	}
	if n := int(f.groupOf[index]); n > groupsKept {
		f.Ungrouped--
	} else {
		f.groups[n-1].Count--
	}
	f.groupOf[index] = 0
	f.Newest = slices.DeleteFunc(f.Newest, func(old Failure) bool { return old.ItemIndex == index })
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
