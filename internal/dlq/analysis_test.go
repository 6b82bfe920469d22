package dlq

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/retry"
)

func TestDeadLettersAreGroupedWithFewSamples(t *testing.T) {
	var a Analysis
	for n := range 5 {
		e := simple(itemID(n), 1)
		e.ErrorSignature, e.ReprocessEligible = "boom <n>", n > 0
		e.FirstAttempt, e.LastAttempt = t0, t0.Add(time.Duration(n)*20*time.Minute)
		e.FailureHistory = []Failure{{ErrorType: retry.TypeNetwork, Message: "boom", Step: "s"}}
		if n == 4 {
			e.ErrorSignature, e.FailureHistory = "denied", []Failure{{ErrorType: retry.TypePermission}}
		}
		a.Add(e)
	}
	counts := func(groups []Group) (all []int) {
		for _, g := range groups {
			all = append(all, g.Count)
		}
		return all
	}
	for what, groups := range map[string][]Group{"signature": a.BySignature(), "type": a.ByType()} {
		if diff := cmp.Diff(counts(groups), []int{4, 1}); diff != "" {
			t.Errorf("by %s (-got +want):\n%s", what, diff)
		}
	}
	if diff := cmp.Diff(counts(a.ByHour()), []int{3, 2}); diff != "" {
		t.Errorf("by hour (-got +want):\n%s", diff)
	}
	if g := a.BySignature()[0]; len(g.Samples) != samples || g.Eligible != 3 || !g.Last.Equal(t0.Add(time.Hour)) || a.Counts().Total != 5 {
		t.Errorf("got %+v of %d, want %d samples, 3 eligible, of 5", g, a.Counts().Total, samples)
	}
}

func TestEntriesAreReadOneByOneAndByTheirItem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	if _, found, err := Find(path, "a"); found || err != nil {
		t.Errorf("no file: got %v %v, want nothing", found, err)
	}
	q := open(t, path)
	for _, id := range []string{"b", "a", "c"} {
		put(t, q, simple(id, 1))
	}
	remove(t, q, "a")
	put(t, q, simple("b", 2))
	var got []string
	for e, err := range q.Each() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.ItemID)
		remove(t, q, "c") // while they are read
	}
	if diff := cmp.Diff(got, []string{"b"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	closeQueue(t, q)
	if e, found, err := Find(path, "b"); !found || err != nil || e.FailureCount != 2 {
		t.Errorf("got %+v %v %v, want the second b", e, found, err)
	}
	if ids, err := IDs(path); err != nil || !cmp.Equal(ids, []string{"b"}) {
		t.Errorf("got %v %v, want b", ids, err)
	}
}
