package errorpolicy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/retry"
)

// play lets fresh items finish, one for each letter: s succeeds, f is dead-lettered, k is skipped, r is retried, x rejected.
// An item is named after its place.
func play(m *Machine, outcomes string) {
	for i, o := range outcomes {
		id := fmt.Sprintf("item_%d", i)
		if o == 'x' {
			m.Rejected(id, Pending)
			continue
		}
		switch o {
		case 's':
			m.ItemSucceeded(Pending)
		case 'f':
			m.Failed(id, DLQ, retry.TypeTimeout, "late", Pending)
		case 'k':
			m.Failed(id, Skip, retry.TypeNetwork, "gone", Pending)
		case 'r':
			m.Failed(id, Retry, retry.TypeNetwork, "gone", Pending)
		}
	}
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
	m.Failed("a", Stop, retry.TypeKilled, "", Pending)
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
	m.Resumed(false)
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
	m.Resumed(false)
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
		m.Resumed(anew)
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
	m.Resumed(true)
	m.Failed("item_0", DLQ, retry.TypeTimeout, "late", Dead)
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
	m.ItemSucceeded(Dead)
	m.ItemSucceeded(Rejected)
	got := m.Metrics()
	want := Metrics{
		TotalItems: 3, Outcomes: Outcomes{Successful: 2, Failed: 1}, FailureRate: 1.0 / 3,
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
		TotalItems: 12, Outcomes: Outcomes{Successful: 3, Failed: 2, Skipped: 1, Rejected: 1}, FailureRate: 2.0 / 6,
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
			m.Failed(string(typ)+strconv.Itoa(i), DLQ, typ, "", Pending)
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
		e := m.Failed("item_"+strconv.Itoa(i), a, retry.TypeNetwork, "gone", Pending)
		sizes = append(sizes, len(e))
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
		if e := m.Failed("a", DLQ, retry.TypeNetwork, "", Pending); e != nil || m.Remainder() != nil {
			t.Errorf("%q: got a batch, want none", kind)
		}
	}
}

// anyPolicy draws a policy in which everything can happen soon.
func anyPolicy(t *rapid.T) Policy {
	return Policy{
		MaxFailures:      rapid.IntRange(0, 8).Draw(t, "max_failures"),
		FailureThreshold: rapid.Ptr(rapid.Float64Range(0, 1), true).Draw(t, "failure_threshold"),
		ErrorCollection:  Collection{Kind: Batched, Size: rapid.IntRange(1, 4).Draw(t, "size")},
	}
}

// The invariants of any history of a job:
//  1. total = successful + failed + skipped + rejected + pending, as a count of the items one by one says too.
//  2. The same calls give the same machine.
//  3. Once the job is to stop it stays so, unless resumed.
func TestAnyHistoryKeepsTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, total := anyPolicy(t), rapid.IntRange(1, 12).Draw(t, "total")
		m, twin := New(p), New(p)
		both := func(do func(*Machine)) { do(m); do(twin) }
		status := make([]Status, total)
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			i := rapid.IntRange(0, total-1).Draw(t, "item")
			id := strconv.Itoa(i)
			_, stoppedBefore := m.Stop()
			resumed := false
			switch step := rapid.IntRange(0, 7).Draw(t, "step"); {
			case step == 1 && rapid.IntRange(0, 9).Draw(t, "resume") == 0:
				resumed = true
				both(func(m *Machine) { m.Resumed(false) })
			case step == 2:
				both(func(m *Machine) { m.SetTotal(total) })
			case step == 3:
				both(func(m *Machine) { m.Rejected(id, status[i]) })
				status[i] = Rejected
			case step == 4:
				both(func(m *Machine) { m.ItemSucceeded(status[i]) })
				status[i] = Succeeded
			default:
				a := rapid.SampledFrom([]Action{Retry, DLQ, Skip, Stop}).Draw(t, "action")
				both(func(m *Machine) { m.Failed(id, a, retry.TypeNetwork, "gone", status[i]) })
				if s, final := map[Action]Status{DLQ: Dead, Stop: Dead, Skip: Skipped}[a]; final {
					status[i] = s
				}
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
