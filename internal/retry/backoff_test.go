package retry

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/check"
)

const ms = time.Millisecond

func seconds(s ...float64) []time.Duration {
	delays := make([]time.Duration, 0, len(s))
	for _, v := range s {
		delays = append(delays, time.Duration(v*float64(time.Second)))
	}
	return delays
}

// with returns the default policy with another backoff.
func with(b Backoff) Policy {
	p := Default()
	p.Backoff = b
	return p
}

// starting returns p with another initial_delay.
func (p Policy) starting(d time.Duration) Policy {
	p.InitialDelay = d
	return p
}

// capped returns p with another max_delay.
func (p Policy) capped(d time.Duration) Policy {
	p.MaxDelay = d
	return p
}

func TestDelaysFollowTheDocumentedSequences(t *testing.T) {
	halves := []time.Duration{500 * ms, time.Second}
	five := []time.Duration{500 * ms, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}
	for name, c := range map[string]struct {
		policy Policy
		want   []time.Duration
	}{
		"default":                       {Default(), seconds(1, 2, 4, 8, 16, 30, 30)},
		"no strategy":                   {with(Backoff{}), seconds(1, 2, 4)},
		"fixed":                         {with(Backoff{Strategy: Fixed}), seconds(1, 1, 1)},
		"fixed 2s":                      {with(Backoff{Strategy: Fixed}).starting(2 * time.Second), seconds(2, 2, 2)},
		"fixed delay":                   {with(Backoff{Strategy: Fixed, Delay: new(5 * time.Second)}), seconds(5, 5, 5)},
		"fixed delay 1s":                {with(Backoff{Strategy: Fixed, Delay: new(time.Second)}).starting(9 * time.Second), seconds(1, 1, 1)},
		"linear":                        {with(Backoff{Strategy: Linear}), seconds(1, 2, 3, 4)},
		"linear increment":              {with(Backoff{Strategy: Linear, Increment: new(2 * time.Second)}), seconds(1, 3, 5)},
		"linear initial and increment":  {with(Backoff{Strategy: Linear, Initial: new(time.Second), Increment: new(500 * ms)}), seconds(1.5, 2, 2.5)},
		"linear initial":                {with(Backoff{Strategy: Linear, Initial: new(3 * time.Second)}), seconds(3, 6, 9)},
		"exponential":                   {with(Backoff{Strategy: Exponential}), seconds(1, 2, 4, 8, 16)},
		"exponential base 2":            {with(Backoff{Strategy: Exponential, Base: new(2.0)}).capped(100 * time.Second), seconds(1, 2, 4, 8, 16, 32, 64, 100)},
		"exponential initial":           {with(Backoff{Strategy: Exponential, Initial: new(time.Second), Multiplier: new(2.0)}), seconds(1, 2, 4, 8)},
		"exponential base 3 from 500ms": {with(Backoff{Strategy: Exponential, Base: new(3.0)}).starting(500 * ms), seconds(0.5, 1.5, 4.5, 13.5, 30)},
		"fibonacci":                     {with(Backoff{Strategy: Fibonacci}), seconds(1, 1, 2, 3, 5, 8)},
		"fibonacci initial":             {with(Backoff{Strategy: Fibonacci, Initial: new(time.Second)}), seconds(1, 1, 2, 3, 5, 8)},
		"fibonacci 10s, long cap":       {with(Backoff{Strategy: Fibonacci}).starting(10 * time.Second).capped(time.Hour), seconds(10, 10, 20, 30, 50)},
		"custom":                        {with(Backoff{Strategy: Custom, Delays: halves}), seconds(0.5, 1, 30, 30)},
		"custom with five delays":       {with(Backoff{Strategy: Custom, Delays: five}), seconds(0.5, 1, 2, 5, 10, 30)},
		"custom over the cap":           {with(Backoff{Strategy: Custom, Delays: seconds(1, 60)}), seconds(1, 30, 30)},
		"custom without delays":         {with(Backoff{Strategy: Custom}).capped(7 * time.Second), seconds(7, 7)},
		"rate limits from 100ms":        {with(Backoff{Strategy: Exponential}).starting(100 * ms), seconds(0.1, 0.2, 0.4, 0.8, 1.6)},
		"calls from 500ms":              {with(Backoff{Strategy: Exponential}).starting(500 * ms), seconds(0.5, 1, 2, 4)},
		"no delay at all":               {Default().starting(0), seconds(0, 0, 0)},
		"no cap written":                {Default().capped(0), seconds(1, 2, 4, 8, 16, 30)},
	} {
		var got []time.Duration
		for n := range c.want {
			got = append(got, c.policy.Computed(n+1))
		}
		if diff := cmp.Diff(got, c.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
	}
}

func TestRFC006DelaysPerAttempt(t *testing.T) {
	const d = 700 * ms
	for strategy, factors := range map[Strategy][]int{
		Fixed:       {1, 1, 1, 1, 1, 1, 1, 1, 1},
		Linear:      {1, 2, 3, 4, 5, 6, 7, 8, 9},
		Exponential: {1, 2, 4, 8, 16, 32, 64, 128, 256},
	} {
		p := with(Backoff{Strategy: strategy}).starting(d)
		for i, factor := range factors {
			if got, want := p.Computed(i+1), min(time.Duration(factor)*d, 30*time.Second); got != want {
				t.Errorf("%s, attempt %d to %d: got %v, want %v", strategy, i+1, i+2, got, want)
			}
		}
	}
}

func TestRFC006CapsAtThirtySeconds(t *testing.T) {
	p := Default()
	p.Attempts = 10
	if diff := cmp.Diff(p.Worst(), seconds(1, 2, 4, 8, 16, 30, 30, 30, 30)); diff != "" {
		t.Errorf("delays of nine retries (-got +want):\n%s", diff)
	}
}

func TestDelaysStayBetweenNothingAndTheCap(t *testing.T) {
	anyDelay := rapid.Custom(func(t *rapid.T) *time.Duration {
		return rapid.Ptr(rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }), true).Draw(t, "delay")
	})
	anyFactor := rapid.Ptr(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -2})), true)
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			InitialDelay: time.Duration(rapid.Int64().Draw(t, "initial_delay")),
			MaxDelay:     time.Duration(rapid.Int64().Draw(t, "max_delay")),
			Backoff: Backoff{
				Strategy: rapid.SampledFrom(append(Strategies(), "", "unheard of")).Draw(t, "strategy"),
				Delay:    anyDelay.Draw(t, "delay"), Initial: anyDelay.Draw(t, "initial"), Increment: anyDelay.Draw(t, "increment"),
				Base: anyFactor.Draw(t, "base"), Multiplier: anyFactor.Draw(t, "multiplier"),
				Delays: seconds(rapid.SliceOfN(rapid.Float64Range(-5, 500), 0, 4).Draw(t, "delays")...),
			},
		}
		n := rapid.SampledFrom([]int{-1, 0, 1, 2, 3, 5, 92, 93, 94, 1000, 10_000, math.MaxInt}).Draw(t, "n")
		if got := p.Computed(n); got < 0 || got > p.limit() {
			t.Fatalf("delay %d: got %v, want between 0s and %v", n, got, p.limit())
		}
	})
}

func TestGrowingStrategiesSaturateAtAttemptTenThousand(t *testing.T) {
	for _, s := range []Strategy{Linear, Exponential, Fibonacci, Custom} {
		if got := with(Backoff{Strategy: s}).Computed(10_000); got != 30*time.Second {
			t.Errorf("%s: got %v, want the cap of 30s", s, got)
		}
		if got := with(Backoff{Strategy: s}).capped(forever).starting(forever).Computed(10_000); got != forever {
			t.Errorf("%s from the longest delay: got %v, want %v", s, got, forever)
		}
	}
}

func TestFibonacciNeverFallsAgain(t *testing.T) {
	p := with(Backoff{Strategy: Fibonacci}).starting(1).capped(forever)
	for n := 2; n < 200; n++ {
		if before, got := p.Computed(n-1), p.Computed(n); got < before {
			t.Errorf("delay %d: got %v, want at least %v", n, got, before)
		}
	}
}

func TestStrategiesAndTheirParameters(t *testing.T) {
	want := map[Strategy][]string{
		Fixed: {"delay"}, Linear: {"initial", "increment"}, Exponential: {"initial", "base", "multiplier"},
		Fibonacci: {"initial"}, Custom: {"delays"},
	}
	got := map[Strategy][]string{}
	for _, s := range Strategies() {
		got[s], _ = Parameters(s)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("parameters (-got +want):\n%s", diff)
	}
	if p, ok := Parameters("quadratic"); ok {
		t.Errorf("an unknown strategy: got %v, want none", p)
	}
}

func TestWorstTakesJitterAtItsTop(t *testing.T) {
	for jitter, want := range map[Jitter][]time.Duration{
		NoJitter:     seconds(1, 2, 4),
		Proportional: seconds(1.5, 3, 6),
		FullJitter:   seconds(1, 2, 4),
		EqualJitter:  seconds(1, 2, 4),
		Decorrelated: seconds(3, 9, 20),
	} {
		p := Default().capped(20 * time.Second)
		p.Attempts, p.Jitter, p.JitterFactor = 4, jitter, 0.5
		if diff := cmp.Diff(p.Worst(), want); diff != "" {
			t.Errorf("jitter %q (-got +want):\n%s", jitter, diff)
		}
	}
}

func TestWorstEndsWithTheBudget(t *testing.T) {
	p := Default()
	p.Attempts, p.Budget = 100, 2*time.Minute
	if diff := cmp.Diff(p.Worst(), seconds(1, 2, 4, 8, 16, 30, 30)); diff != "" {
		t.Errorf("delays (-got +want):\n%s", diff)
	}
	p.Budget = 7 * time.Second
	if diff := cmp.Diff(p.Worst(), seconds(1, 2, 4)); diff != "" {
		t.Errorf("delays that use the budget up (-got +want):\n%s", diff)
	}
}

// What is certain of a budget is counted off; where jitter decides, a plan promises no less than what may be.
func TestTriesAndWaitingAreBoundsWithABudget(t *testing.T) {
	for _, c := range []struct {
		attempts int
		budget   time.Duration
		jitter   Jitter
		tries    int
		waiting  time.Duration
	}{
		{4, 0, NoJitter, 4, 7 * time.Second},
		{10, 10 * time.Second, NoJitter, 4, 7 * time.Second},
		{10, 7 * time.Second, NoJitter, 4, 7 * time.Second},
		{10, 500 * time.Millisecond, NoJitter, 1, 0},
		{3, 10 * time.Second, NoJitter, 3, 3 * time.Second},
		{10, 10 * time.Second, FullJitter, 10, 10 * time.Second},
		{3, 10 * time.Second, FullJitter, 3, 3 * time.Second},
		{0, time.Second, NoJitter, 1, 0},
	} {
		p := Default()
		p.Attempts, p.Budget, p.Jitter = c.attempts, c.budget, c.jitter
		if p.Tries() != c.tries || p.MaxWait() != c.waiting {
			t.Errorf("attempts %d, budget %v, jitter %q: got %d tries waiting %v, want %d waiting %v",
				c.attempts, c.budget, c.jitter, p.Tries(), p.MaxWait(), c.tries, c.waiting)
		}
	}
}

func TestWorstOfAbsurdPoliciesIsBounded(t *testing.T) {
	p := Default().capped(forever).starting(forever)
	p.Attempts, p.Jitter = math.MaxInt, Proportional
	if got := p.Worst(); len(got) != 10_000 || slices.Min(got) != forever {
		t.Errorf("got %d delays from %v, want 10000 from %v", len(got), slices.Min(got), forever)
	}
	if got := (Policy{}).Worst(); got != nil {
		t.Errorf("zero policy: got %v, want none", got)
	}
}

// Check refuses a negative value for each field of a backoff that is a plain number.
func TestCheckFindsEveryNegativeNumber(t *testing.T) {
	for field := range reflect.TypeFor[Backoff]().Fields() {
		if field.Type != reflect.TypeFor[*float64]() {
			continue
		}
		var b Backoff
		reflect.ValueOf(&b).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(new(-3.0)))
		key := field.Tag.Get("yaml")
		var found check.Findings
		if b.Check(&found); len(found) != 1 || found[0].Field != key {
			t.Errorf("%s: -3: got %v, want one finding: give it bounds in Check", key, found)
		}
	}
	var found check.Findings
	if (Backoff{Base: new(2.0), Multiplier: new(2.0)}).Check(&found); len(found) != 1 {
		t.Errorf("both words for the base: got %v, want one finding", found)
	}
}

// Worst returns the longest possible delay before each retry, up to the end of the budget. The list has at most 10,000
// delays.
func (p Policy) Worst() []time.Duration {
	var delays []time.Duration
	for _, s := range p.Spreads() {
		delays = append(delays, s.To)
	}
	return delays
}
