package retry

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/check"
	"prodigy/internal/limit"
)

func TestDefaultPolicyIsSound(t *testing.T) {
	if got := Default().Check(); len(got) != 0 {
		t.Errorf("findings: got %v, want none", got)
	}
}

func TestCheckFindsEveryBadField(t *testing.T) {
	good := Default()
	for name, c := range map[string]struct {
		change func(p *Policy)
		want   []string
	}{
		"attempts":       {func(p *Policy) { p.Attempts = 0 }, []string{"attempts"}},
		"delays":         {func(p *Policy) { p.InitialDelay, p.MaxDelay = -1, 0 }, []string{"initial_delay", "max_delay"}},
		"jitter":         {func(p *Policy) { p.Jitter = "yes" }, []string{"jitter"}},
		"factor":         {func(p *Policy) { p.JitterFactor = 1.01 }, []string{"jitter_factor"}},
		"no factor":      {func(p *Policy) { p.JitterFactor = math.NaN() }, []string{"jitter_factor"}},
		"budget":         {func(p *Policy) { p.Budget = -time.Second }, []string{"retry_budget"}},
		"strategy":       {func(p *Policy) { p.Backoff.Strategy = "quadratic" }, []string{"backoff.strategy"}},
		"base":           {func(p *Policy) { p.Backoff.Base = new(0.0) }, []string{"backoff.base"}},
		"infinite base":  {func(p *Policy) { p.Backoff.Base = new(math.Inf(1)) }, []string{"backoff.base"}},
		"multiplier":     {func(p *Policy) { p.Backoff.Multiplier = new(-2.0) }, []string{"backoff.multiplier"}},
		"both":           {func(p *Policy) { p.Backoff.Base, p.Backoff.Multiplier = new(2.0), new(2.0) }, []string{"backoff.multiplier"}},
		"custom delays":  {func(p *Policy) { p.Backoff.Delays = []time.Duration{1, -1} }, []string{"backoff.delays.1"}},
		"delay":          {func(p *Policy) { p.Backoff.Delay = new(-time.Second) }, []string{"backoff.delay"}},
		"initial":        {func(p *Policy) { p.Backoff.Initial = new(-time.Second) }, []string{"backoff.initial"}},
		"increment":      {func(p *Policy) { p.Backoff.Increment = new(-time.Second) }, []string{"backoff.increment"}},
		"matchers":       {func(p *Policy) { p.RetryOn = []Matcher{{Name: "network"}, {Name: "x"}} }, []string{"retry_on.1"}},
		"failure action": {func(p *Policy) { p.OnFailure.Kind = "ignore" }, []string{"on_failure"}},
		"empty fallback": {func(p *Policy) { p.OnFailure.Kind = Fallback }, []string{"on_failure"}},
		"fallback":       {func(p *Policy) { p.OnFailure = FailureAction{Fallback, "true"} }, nil},
		"breaker": {func(p *Policy) {
			p.CircuitBreaker = &limit.BreakerConfig{Timeout: 1, FailureThreshold: 1, SuccessThreshold: 1}
		}, []string{"circuit_breaker.half_open_requests"}},
		"no initial wait": {func(p *Policy) { p.InitialDelay = 0 }, nil},
	} {
		p := good
		c.change(&p)
		var got []string
		for _, f := range p.Check() {
			got = append(got, f.Field)
		}
		if diff := cmp.Diff(got, c.want); diff != "" {
			t.Errorf("%s: fields (-got +want):\n%s", name, diff)
		}
	}
}

func TestUnknownStrategySuggestsTheNearest(t *testing.T) {
	got := Backoff{Strategy: "exponental"}.Check()
	want := []check.Finding{{
		Field:   "strategy",
		Message: `unknown backoff "exponental" (did you mean "exponential"?)`,
	}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("findings (-got +want):\n%s", diff)
	}
}
