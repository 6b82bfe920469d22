package errorpolicy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// play lets fresh items finish, one for each letter: s succeeds, f is dead-lettered, k is skipped, r is retried, x rejected.
// An item is named after its place.
func play(m *Machine, outcomes string) {
	for i, o := range outcomes {
		id := fmt.Sprintf("item_%d", i)
		if o == 'x' {
			m.Rejected(id, Pending)
			continue
		}
		ticket, _ := m.Started("", noon)
		switch o {
		case 's':
			succeed(m, ticket, Pending, noon)
		case 'f':
			m.Failed(id, ticket, DLQ, retry.TypeTimeout, "late", Pending, noon)
		case 'k':
			m.Failed(id, ticket, Skip, retry.TypeNetwork, "gone", Pending, noon)
		case 'r':
			m.Failed(id, ticket, Retry, retry.TypeNetwork, "gone", Pending, noon)
		}
	}
}

// succeed has an attempt succeed, and its item with it.
func succeed(m *Machine, t limit.Ticket, before Status, now time.Time) Effects {
	e := m.AttemptSucceeded(t, now)
	m.ItemSucceeded(before)
	return e
}

// stopped plays outcomes one by one and returns how many it took until the job was to stop, and 0 when it never was.
func stopped(m *Machine, outcomes string) (int, string) {
	for i := range outcomes {
		play(m, outcomes[i:i+1])
		if reason, stop := m.Stop(); stop {
			return i + 1, reason
		}
	}
	return 0, ""
}

func TestThresholdsStopTheJob(t *testing.T) {
	stay := Policy{ContinueOnFailure: new(false)}
	skipping := on(Skip)
	skipping.ContinueOnFailure = new(false)
	handling := Policy{OnItemFailure: ItemAction{Custom, "h"}, ContinueOnFailure: new(false)}
	quarter := Policy{FailureThreshold: new(0.25)}
	for name, c := range map[string]struct {
		policy   Policy
		total    int // -1: unknown
		outcomes string
		want     int
		reason   string
	}{
		"zero policy":                      {Policy{}, 20, "ffffffffffffffffffff", 0, ""},
		"first failure":                    {stay, 20, "ssfs", 3, "item_0 failed and continue_on_failure is false"},
		"a retry is no failure yet":        {stay, 20, "rrs", 0, ""},
		"first failure, though skipped":    {skipping, 20, "sk", 2, "item_0 failed and continue_on_failure is false"},
		"a handled failure is none":        {handling, 20, "skk", 0, ""},
		"max_failures":                     {Policy{MaxFailures: 3}, 20, "fsfsrkxf", 8, "3 failed and max_failures is 3"},
		"max_failures not reached":         {Policy{MaxFailures: 3}, 20, "fsfskkkk", 0, ""},
		"rate, ten items first":            {quarter, 20, "ffffffffff", 10, "10 of 10 failed, which is more than the failure_threshold of 0.25"},
		"rate, tenth item succeeds":        {quarter, 20, "fffsssssss", 10, "3 of 10 failed, which is more than the failure_threshold of 0.25"},
		"rate, nine items":                 {quarter, 20, "fffffffff", 0, ""},
		"rate of few items":                {quarter, 4, "fffs", 4, "3 of 4 failed, which is more than the failure_threshold of 0.25"},
		"exactly the rate":                 {quarter, 4, "fsss", 0, ""},
		"rate with an unknown total":       {quarter, -1, "fff", 0, ""},
		"rejected items are not in it":     {quarter, 20, "xxxxxxxxxxfffffffff", 0, ""},
		"skipped items are in it":          {quarter, 20, "kkkkkkkfff", 10, "3 of 10 failed, which is more than the failure_threshold of 0.25"},
		"retried attempts are not in it":   {quarter, 20, "rrrrrrrrrrfff", 0, ""},
		"a threshold of zero":              {Policy{FailureThreshold: new(0.0)}, 2, "sf", 2, "1 of 2 failed, which is more than the failure_threshold of 0"},
		"a threshold of zero, no failure":  {Policy{FailureThreshold: new(0.0)}, 2, "ss", 0, ""},
		"a threshold of one is never over": {Policy{FailureThreshold: new(1.0)}, 3, "fff", 0, ""},
		"no items":                         {Policy{FailureThreshold: new(0.0)}, 0, "", 0, ""},
	} {
		m := New(c.policy)
		if c.total >= 0 {
			m.SetTotal(c.total)
		}
		if got, reason := stopped(m, c.outcomes); got != c.want || reason != c.reason {
			t.Errorf("%s: got a stop after %d because %q, want after %d because %q", name, got, reason, c.want, c.reason)
		}
	}
}

func TestStopActionStopsTheJobAndDeadLettersTheItem(t *testing.T) {
	m := New(on(Stop))
	ticket, _ := m.Started("", noon)
	m.Failed("a", ticket, Stop, retry.TypeKilled, "", Pending, noon)
	if reason, stop := m.Stop(); !stop || reason != "a failed and on_item_failure is stop" {
		t.Errorf("got stop %v because %q, want a stop because of a", stop, reason)
	}
	if got := m.Metrics().Failed; got != 1 {
		t.Errorf("failed: got %d, want 1", got)
	}
}

func TestTotalThatBecomesKnownLaterIsLookedAt(t *testing.T) {
	m := New(Policy{FailureThreshold: new(0.25)})
	play(m, "ffs")
	if _, stop := m.Stop(); stop {
		t.Fatal("while the total is unknown: got a stop, want none")
	}
	m.SetTotal(3)
	if _, stop := m.Stop(); !stop {
		t.Error("with a total of 3: got no stop, want one")
	}
}

func TestStopStaysThoughTheRateRecovers(t *testing.T) {
	m := New(Policy{FailureThreshold: new(0.5)})
	m.SetTotal(40)
	play(m, "ffffffffff")
	play(m, "ssssssssssssssssssss")
	if reason, stop := m.Stop(); !stop || reason != "10 of 10 failed, which is more than the failure_threshold of 0.5" {
		t.Errorf("got stop %v because %q, want the first reason kept", stop, reason)
	}
}

func TestThresholdsCountFromTheResumeOn(t *testing.T) {
	m := New(Policy{MaxFailures: 2, FailureThreshold: new(0.5)})
	m.SetTotal(7)
	play(m, "ff")
	m.Resumed(time.Unix(0, 0), false)
	if reason, stop := m.Stop(); stop {
		t.Errorf("at the resume: got a stop because %q, want none", reason)
	}
	play(m, "ssssf")
	if reason, stop := m.Stop(); stop {
		t.Errorf("after one more failure: got a stop because %q, want none", reason)
	}
	if got := m.Metrics(); got.Failed != 3 || got.Successful != 4 {
		t.Errorf("metrics: got %d failed, %d successful, want 3, 4", got.Failed, got.Successful)
	}
}

func TestFewItemsLeftAtAResumeAfterAStopAreEnoughForTheRate(t *testing.T) {
	m := New(Policy{FailureThreshold: new(0.25)})
	m.SetTotal(20)
	play(m, "ffffffffffsssssss")
	m.Resumed(time.Unix(0, 0), false)
	if got, _ := stopped(m, "fff"); got != 3 {
		t.Errorf("three items left: got a stop after %d, want after all 3", got)
	}
}

// A crash or a signal is no reason to forget failures. Only a stop by the policy is, and a retry of dead letters.
func TestThresholdsCountOnOverAResume(t *testing.T) {
	for _, anew := range []bool{false, true} {
		m := New(Policy{MaxFailures: 3})
		m.SetTotal(9)
		play(m, "fsf")
		m.Resumed(time.Unix(0, 0), anew)
		play(m, "f")
		if reason, stop := m.Stop(); stop == anew {
			t.Errorf("anew %t, third failure: got stop %t (%s)", anew, stop, reason)
		}
	}
}

func TestDeadLettersSentAgainDoNotStopAtTheFirstFailure(t *testing.T) {
	m := New(Policy{FailureThreshold: new(0.9)})
	m.SetTotal(3)
	play(m, "ffs")
	m.Resumed(time.Unix(0, 0), true)
	ticket, _ := m.Started("", noon)
	m.Failed("item_0", ticket, DLQ, retry.TypeTimeout, "late", Dead, noon)
	if reason, stop := m.Stop(); stop {
		t.Errorf("got a stop because %q, want none", reason)
	}
	if got := m.Metrics(); got.Failed != 2 || got.TotalItems != 3 {
		t.Errorf("got %d failed of %d, want 2 of 3", got.Failed, got.TotalItems)
	}
}

func TestDeadLetterThatSucceedsMovesFromFailedToSuccessful(t *testing.T) {
	m := New(Policy{})
	play(m, "ffx")
	succeed(m, limit.Ticket{}, Dead, noon)
	succeed(m, limit.Ticket{}, Rejected, noon)
	got := m.Metrics()
	want := Metrics{
		TotalItems: 3, Successful: 2, Failed: 1, FailureRate: 1.0 / 3,
		ErrorTypes:      map[retry.Type]int{retry.TypeTimeout: 2, retry.TypeCircuitOpen: 1},
		FailurePatterns: []Pattern{},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("metrics (-got +want):\n%s", diff)
	}
}

func TestMetricsCountItemsOnce(t *testing.T) {
	m := New(Policy{})
	m.SetTotal(12)
	play(m, "sssrrffkx")
	got := m.Metrics()
	want := Metrics{
		TotalItems: 12, Successful: 3, Failed: 2, Skipped: 1, Rejected: 1, FailureRate: 2.0 / 6,
		ErrorTypes:      map[retry.Type]int{retry.TypeTimeout: 2, retry.TypeNetwork: 1, retry.TypeCircuitOpen: 1},
		FailurePatterns: []Pattern{},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("metrics (-got +want):\n%s", diff)
	}
}

func TestMetricsOfNothingAreEmptyNotNull(t *testing.T) {
	got, err := json.Marshal(New(Policy{}).Metrics())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"total_items":0,"successful":0,"failed":0,"skipped":0,"rejected":0,"failure_rate":0,"error_types":{},"failure_patterns":[]}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPatternsAppearAtThreeAndKeepCounting(t *testing.T) {
	m := New(Policy{})
	fail := func(typ retry.Type, n int) {
		for i := range n {
			m.Failed(string(typ)+strconv.Itoa(i), limit.Ticket{}, DLQ, typ, "", Pending, noon)
		}
	}
	fail(retry.TypeTimeout, 2)
	if got := m.Metrics().FailurePatterns; len(got) != 0 {
		t.Errorf("after two: got %v, want none", got)
	}
	fail(retry.TypeTimeout, 1)
	fail(retry.TypeNetwork, 3)
	fail(retry.TypePermission, 4)
	fail(retry.TypeInternal, 3)
	want := []Pattern{
		{retry.TypePermission, 4, []string{"permission0", "permission1", "permission2", "permission3"}, "Verify file permissions and access rights"},
		{retry.TypeInternal, 3, []string{"internal0", "internal1", "internal2"}, "Review error logs for more details"},
		{retry.TypeNetwork, 3, []string{"network0", "network1", "network2"}, "Check network connectivity and retry settings"},
		{retry.TypeTimeout, 3, []string{"timeout0", "timeout1"}, "Consider increasing agent_timeout_secs in timeout_config"},
	}
	if diff := cmp.Diff(m.Metrics().FailurePatterns, want); diff != "" {
		t.Errorf("patterns (-got +want):\n%s", diff)
	}
	fail(retry.TypeKilled, 1000)
	top := m.Metrics().FailurePatterns[0]
	if top.Frequency != 1000 || len(top.Items) != 100 || top.Items[99] != "killed99" {
		t.Errorf("got %d with %d items, want 1000 with the first 100", top.Frequency, len(top.Items))
	}
}

func TestMetricsAreACopy(t *testing.T) {
	m := New(Policy{})
	play(m, "fff")
	first := m.Metrics()
	first.ErrorTypes[retry.TypeTimeout] = 99
	first.FailurePatterns[0].Items[0] = "changed"
	if got := m.Metrics(); got.ErrorTypes[retry.TypeTimeout] != 3 || got.FailurePatterns[0].Items[0] == "changed" {
		t.Errorf("got %v, want it untouched", got)
	}
}

func TestFullBatchesComeOutAndTheRestRemains(t *testing.T) {
	m := New(Policy{ErrorCollection: Collection{Batched, 2}})
	var sizes []int
	for i, a := range []Action{DLQ, Retry, Skip, DLQ, Retry, Stop, DLQ} {
		e := m.Failed("item_"+strconv.Itoa(i), limit.Ticket{}, a, retry.TypeNetwork, "gone", Pending, noon)
		sizes = append(sizes, len(e.Batch))
	}
	if diff := cmp.Diff(sizes, []int{0, 0, 2, 0, 0, 2, 0}); diff != "" {
		t.Errorf("batches (-got +want):\n%s", diff)
	}
	want := []BatchError{{ItemID: "item_6", ErrorType: retry.TypeNetwork, Error: "gone"}}
	if diff := cmp.Diff(m.Remainder(), want); diff != "" {
		t.Errorf("remainder (-got +want):\n%s", diff)
	}
	if got := m.Remainder(); len(got) != 0 {
		t.Errorf("remainder asked twice: got %v, want none", got)
	}
}

func TestOtherCollectionsKeepNoErrors(t *testing.T) {
	for _, kind := range []CollectionKind{"", Aggregate, Immediate} {
		m := New(Policy{ErrorCollection: Collection{Kind: kind, Size: 1}})
		if e := m.Failed("a", limit.Ticket{}, DLQ, retry.TypeNetwork, "", Pending, noon); e.Batch != nil || m.Remainder() != nil {
			t.Errorf("%q: got a batch, want none", kind)
		}
	}
}

func TestBreakerSeesEveryAttempt(t *testing.T) {
	m := New(Policy{CircuitBreaker: &limit.BreakerConfig{FailureThreshold: 3, SuccessThreshold: 2, Timeout: time.Minute, HalfOpenRequests: 1}})
	play(m, "rfr")
	if got := m.Admit("", noon).Verdict; got != Refuse {
		t.Errorf("after three failed attempts: got %v, want %v", got, Refuse)
	}
	now := noon.Add(time.Minute)
	for range 2 {
		if got := m.Admit("", now).Verdict; got != Run {
			t.Fatalf("a test: got %v, want %v", got, Run)
		}
		ticket, _ := m.Started("", now)
		if got, want := m.Admit("", now), (Admission{Verdict: Hold}); got != want {
			t.Errorf("during the only test: got %v, want %v", got, want)
		}
		succeed(m, ticket, Pending, now)
	}
	if got := m.Admit("", now).Verdict; got != Run {
		t.Errorf("after two successes: got %v, want %v", got, Run)
	}
}

func TestEffectsTellTheTransitions(t *testing.T) {
	m := New(Policy{CircuitBreaker: &limit.BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Minute, HalfOpenRequests: 1}})
	now := noon.Add(time.Minute)
	ticket, first := m.Started("", noon)
	failed := m.Failed("a", ticket, Retry, retry.TypeKilled, "", Pending, noon)
	ticket, started := m.Started("", now)
	succeeded := succeed(m, ticket, Pending, now)
	var got [][]limit.Transition
	for _, e := range []Effects{first, failed, started, succeeded} {
		got = append(got, e.Transitions)
	}
	want := [][]limit.Transition{
		nil, {{To: limit.Open, ConsecutiveFailures: 1, Until: now}}, {{To: limit.HalfOpen}}, {{To: limit.Closed, Successes: 1}},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("transitions (-got +want):\n%s", diff)
	}
}

func TestOnOpenWaitHoldsUntilTheTimeout(t *testing.T) {
	m := New(Policy{CircuitBreaker: &limit.BreakerConfig{FailureThreshold: 1, Timeout: time.Minute, OnOpen: limit.Wait}})
	play(m, "f")
	if got, want := m.Admit("", noon), (Admission{Hold, noon.Add(time.Minute)}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWithoutABreakerEverythingRuns(t *testing.T) {
	m := New(Policy{})
	play(m, "ffffffffffffffffffff")
	if got := m.Admit("", noon).Verdict; got != Run {
		t.Errorf("got %v, want %v", got, Run)
	}
}

func TestReleasedTestGivesItsPlaceBack(t *testing.T) {
	m := New(Policy{CircuitBreaker: &limit.BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Minute, HalfOpenRequests: 1}})
	play(m, "f")
	now := noon.Add(time.Minute)
	ticket, _ := m.Started("", now)
	m.Released(ticket)
	if got := m.Admit("", now).Verdict; got != Run {
		t.Errorf("got %v, want %v", got, Run)
	}
}

// anyPolicy draws a policy in which everything can happen soon.
func anyPolicy(t *rapid.T) Policy {
	return Policy{
		MaxFailures:      rapid.IntRange(0, 8).Draw(t, "max_failures"),
		FailureThreshold: rapid.Ptr(rapid.Float64Range(0, 1), true).Draw(t, "failure_threshold"),
		ErrorCollection:  Collection{Kind: Batched, Size: rapid.IntRange(1, 4).Draw(t, "size")},
		CircuitBreaker: &limit.BreakerConfig{
			FailureThreshold: rapid.IntRange(1, 3).Draw(t, "opens"),
			SuccessThreshold: rapid.IntRange(1, 3).Draw(t, "closes"),
			HalfOpenRequests: rapid.IntRange(1, 2).Draw(t, "half_open_requests"),
			Timeout:          time.Second,
		},
	}
}

// The invariants of any history of a job:
//  1. total = successful + failed + skipped + rejected + pending, as a count of the items one by one says too.
//  2. The same calls give the same machine.
//  3. No more items than half_open_requests are in flight that were started since the last half-opening.
//  4. Once the job is to stop it stays so, unless resumed.
func TestAnyHistoryKeepsTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, total := anyPolicy(t), rapid.IntRange(1, 12).Draw(t, "total")
		m, twin := New(p), New(p)
		both := func(do func(*Machine)) { do(m); do(twin) }
		status, flying := make([]Status, total), map[int]limit.Ticket{}
		now, tests := noon, map[int]bool{}
		transitions := func(ts []limit.Transition) {
			if len(ts) > 0 {
				clear(tests)
			}
		}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			i := rapid.IntRange(0, total-1).Draw(t, "item")
			id := strconv.Itoa(i)
			_, stoppedBefore := m.Stop()
			resumed := false
			ticket, isFlying := flying[i]
			switch step := rapid.IntRange(0, 7).Draw(t, "step"); {
			case step == 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			case step == 1 && rapid.IntRange(0, 9).Draw(t, "resume") == 0:
				resumed = true
				both(func(m *Machine) { m.Resumed(now, false) })
			case step == 2:
				both(func(m *Machine) { m.SetTotal(total) })
			case !isFlying:
				switch m.Admit("", now).Verdict {
				case Run:
					var e Effects
					both(func(m *Machine) { flying[i], e = m.Started("", now) })
					transitions(e.Transitions)
					tests[i] = true
				case Refuse:
					both(func(m *Machine) { m.Rejected(id, status[i]) })
					status[i] = Rejected
				}
			case step == 3:
				both(func(m *Machine) { m.Released(ticket) })
				delete(flying, i)
				delete(tests, i)
			default:
				a := rapid.SampledFrom([]Action{"success", Retry, DLQ, Skip, Stop}).Draw(t, "action")
				var e Effects
				both(func(m *Machine) {
					if a == "success" {
						e = succeed(m, ticket, status[i], now)
						return
					}
					e = m.Failed(id, ticket, a, retry.TypeNetwork, "gone", status[i], now)
				})
				delete(flying, i)
				delete(tests, i)
				transitions(e.Transitions)
				if s, final := map[Action]Status{"success": Succeeded, DLQ: Dead, Stop: Dead, Skip: Skipped}[a]; final {
					status[i] = s
				}
			}
			if m.mem.Breaker.State(now) == limit.HalfOpen && len(tests) > p.CircuitBreaker.HalfOpenRequests {
				t.Fatalf("tests in flight: got %d, want at most %d", len(tests), p.CircuitBreaker.HalfOpenRequests)
			}
			if _, stop := m.Stop(); stoppedBefore && !stop && !resumed {
				t.Fatal("got no stop, want that it stays")
			}
		}
		both(func(m *Machine) { m.SetTotal(total) })
		checkCounts(t, m.Metrics(), status)
		if !reflect.DeepEqual(m, twin) {
			t.Fatalf("got %+v and %+v from the same calls, want them equal", m, twin)
		}
	})
}

func checkCounts(t *rapid.T, got Metrics, status []Status) {
	var want counts
	for _, s := range status {
		want[s]++
	}
	if have := (counts{want[Pending], got.Successful, got.Failed, got.Skipped, got.Rejected}); have != want {
		t.Fatalf("counts by status: got %v, want %v", have, want)
	}
	if sum := want[Pending] + got.Successful + got.Failed + got.Skipped + got.Rejected; sum != got.TotalItems {
		t.Fatalf("total: got %d, want the sum %d", got.TotalItems, sum)
	}
	if got.FailureRate < 0 || got.FailureRate > 1 {
		t.Fatalf("failure rate: got %v, want from 0 to 1", got.FailureRate)
	}
}
