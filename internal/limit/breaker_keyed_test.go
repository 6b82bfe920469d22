package limit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestEachKeyHasTheBreakerThatItWouldHaveAlone compares a Keyed with one Breaker a key, through any history
// and over checkpoints.
func TestEachKeyHasTheBreakerThatItWouldHaveAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := BreakerConfig{
			FailureThreshold: rapid.IntRange(1, 3).Draw(t, "failure_threshold"),
			SuccessThreshold: rapid.IntRange(1, 3).Draw(t, "success_threshold"),
			HalfOpenRequests: rapid.IntRange(1, 2).Draw(t, "half_open_requests"),
			Timeout:          3 * time.Second,
		}
		type start struct{ alone, keyed Ticket }
		k, alone, now := NewKeyedBreaker(c), map[string]*Breaker{}, noon
		var flying []start
		keys := []string{"", "a", "b", "c"}
		for _, key := range keys {
			alone[key] = NewBreaker(c)
		}
		same := func(got, want []Transition, key string) {
			for i := range want {
				want[i].Key = key
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("key %q: transitions (-want +got):\n%s", key, diff)
			}
		}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "seconds")) * time.Second)
			key := rapid.SampledFrom(keys).Draw(t, "key")
			if a, want := k.Admit(key, now), alone[key].Admit(now); a != want {
				t.Fatalf("key %q: got %+v, want %+v", key, a, want)
			}
			switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
			case what == 0:
				data, err := json.Marshal(k)
				if err != nil {
					t.Fatal(err)
				}
				k = NewKeyedBreaker(c)
				if err := json.Unmarshal(data, k); err != nil {
					t.Fatal(err)
				}
			case what < 3 || len(flying) == 0:
				if alone[key].Admit(now).Verdict != Run {
					continue
				}
				one, want := alone[key].Start()
				two, got := k.Start(key)
				same(got, want, key)
				flying = append(flying, start{one, two})
			default:
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				s := flying[i]
				flying = append(flying[:i], flying[i+1:]...)
				b := alone[s.keyed.Key]
				switch what {
				case 3:
					same(k.End(s.keyed, true, now), b.End(s.alone, true, now), s.keyed.Key)
				case 4:
					same(k.End(s.keyed, false, now), b.End(s.alone, false, now), s.keyed.Key)
				case 5:
					k.Release(s.keyed)
					b.Release(s.alone)
				}
			}
		}
		for _, s := range flying {
			k.End(s.keyed, true, now)
			alone[s.keyed.Key].End(s.alone, true, now)
		}
		for _, key := range keys {
			if got, want := k.Admit(key, now), alone[key].Admit(now); got != want {
				t.Fatalf("key %q at the end: got %+v, want %+v", key, got, want)
			}
		}
	})
}

func TestAKeyIsForgottenWhenNothingOfItMatters(t *testing.T) {
	k := NewKeyedBreaker(BreakerConfig{FailureThreshold: 2, SuccessThreshold: 1, Timeout: time.Second, HalfOpenRequests: 1})
	for i := range 1000 {
		ticket, _ := k.Start(strconv.Itoa(i))
		k.End(ticket, true, noon)
	}
	if k.Len() != 0 {
		t.Errorf("got %d keys of which all have succeeded, want none", k.Len())
	}
	late, _ := k.Start("a")
	for range 2 {
		ticket, _ := k.Start("a")
		k.End(ticket, false, noon)
	}
	now := noon.Add(time.Second)
	test, _ := k.Start("a")
	k.End(test, true, now)
	if k.Len() != 1 {
		t.Fatalf("got %d keys, want the one with a start from before the opening", k.Len())
	}
	if k.End(late, false, now); k.Len() != 0 || k.Admit("a", now).Verdict != Run {
		t.Errorf("a failure from before the opening counts: %d keys, %+v", k.Len(), k.Admit("a", now))
	}
}

// TestAMillionKeysAreFlat: each of them fails. The keys that are open stay known.
func TestAMillionKeysAreFlat(t *testing.T) {
	n := 300_000
	k := NewKeyedBreaker(BreakerConfig{FailureThreshold: 2, SuccessThreshold: 1, Timeout: time.Hour, HalfOpenRequests: 1})
	fail := func(key string) {
		ticket, _ := k.Start(key)
		k.End(ticket, false, noon)
	}
	for i := range 100 {
		fail(fmt.Sprint("sick", i))
		fail(fmt.Sprint("sick", i))
	}
	for i := range n {
		if fail(strconv.Itoa(i)); k.Len() > maxKeys {
			t.Fatalf("got %d keys, want at most %d", k.Len(), maxKeys)
		}
	}
	for i := range 100 {
		if got := k.Admit(fmt.Sprint("sick", i), noon).Verdict; got != Shut {
			t.Fatalf("sick%d: got %v, want that it is still open", i, got)
		}
	}
}
