package errorpolicy

import (
	"testing"
	"time"

	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

func TestAMendedBreakerAdmitsAtOnce(t *testing.T) {
	m := New(Policy{CircuitBreaker: &limit.BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Hour, HalfOpenRequests: 1, OnOpen: limit.Reject}})
	now := time.Unix(0, 0)
	ticket, _ := m.Started("", now)
	m.Failed("item_0", ticket, DLQ, retry.TypeNetwork, "down", Pending, now)
	if got := m.Admit("", now).Verdict; got != Refuse {
		t.Fatalf("before: got verdict %d, want Refuse", got)
	}
	m.ResetBreaker()
	if got := m.Admit("", now).Verdict; got != Run {
		t.Errorf("after: got verdict %d, want Run", got)
	}
}
