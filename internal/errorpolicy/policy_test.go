package errorpolicy

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// read reads a text as the reader of workflow files does.
func read[T any, P interface {
	*T
	ReadText(text string) error
}](text string) (v T, err error) {
	err = P(&v).ReadText(text)
	return v, err
}

func TestItemActionReadsTheDocumentedForms(t *testing.T) {
	for text, want := range map[string]ItemAction{
		"dlq": {Kind: DLQ}, "retry": {Kind: Retry}, "skip": {Kind: Skip}, "stop": {Kind: Stop},
		"custom:notify": {Custom, "notify"}, "custom:a:b": {Custom, "a:b"},
	} {
		if got, err := read[ItemAction](text); err != nil || got != want {
			t.Errorf("ItemAction %q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "dlq, retry, skip", "dqlq": `did you mean "dlq"?`, "custom": "custom:notify", "custom:": "custom:notify", "DLQ": `did you mean "dlq"?`, "notify:x": "unknown",
	} {
		if _, err := read[ItemAction](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ItemAction %q: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestCollectionReadsTheDocumentedForms(t *testing.T) {
	for text, want := range map[string]Collection{
		"aggregate": {Kind: Aggregate}, "immediate": {Kind: Immediate}, "batched": {Batched, 10}, "batched:10": {Batched, 10}, "batched:1": {Batched, 1},
	} {
		if got, err := read[Collection](text); err != nil || got != want {
			t.Errorf("Collection %q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "aggregate, immediate", "batched:": "integer", "batched:x": "integer",
		"batched:0": "at least 1", "batched:-3": "at least 1", "batch": "unknown", "batched:99999999999999999999": "integer",
	} {
		if _, err := read[Collection](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Collection %q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"dlq", "custom:x", "batched:10", "batched:-1", "", "custom:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := read[ItemAction](text); err == nil {
			if found := (Policy{OnItemFailure: a}).Check(); len(found) != 0 {
				t.Errorf("ItemAction %q: got %v, which Check refuses: %v", text, a, found)
			}
		}
		if c, err := read[Collection](text); err == nil {
			if found := (Policy{ErrorCollection: c}).Check(); len(found) != 0 {
				t.Errorf("Collection %q: got %v, which Check refuses: %v", text, c, found)
			}
		}
	})
}

func TestCheckFindsEveryBadField(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		want   []string
	}{
		"zero":           {Policy{}, nil},
		"max_failures":   {Policy{MaxFailures: -1}, []string{"max_failures"}},
		"above one":      {Policy{FailureThreshold: new(1.5)}, []string{"failure_threshold"}},
		"below zero":     {Policy{FailureThreshold: new(-0.1)}, []string{"failure_threshold"}},
		"no number":      {Policy{FailureThreshold: new(math.NaN())}, []string{"failure_threshold"}},
		"bounds":         {Policy{FailureThreshold: new(1.0)}, nil},
		"nested breaker": {Policy{CircuitBreaker: &limit.BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, HalfOpenRequests: 1}}, []string{"circuit_breaker.timeout"}},
		"nested retry":   {Policy{RetryConfig: &retry.Policy{MaxDelay: 1}}, []string{"retry_config.attempts"}},
	} {
		var got []string
		for _, f := range c.policy.Check() {
			got = append(got, f.Field)
			if f.Message == "" {
				t.Errorf("%s: got no message for %s, want one", name, f.Field)
			}
		}
		if diff := cmp.Diff(got, c.want); diff != "" {
			t.Errorf("%s: fields (-got +want):\n%s", name, diff)
		}
	}
}
