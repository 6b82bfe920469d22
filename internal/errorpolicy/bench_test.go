package errorpolicy

import (
	"math/rand/v2"
	"testing"

	"prodigy/internal/retry"
)

// BenchmarkDecide measures what the policy costs an item that fails: its start, the decision and the record of it.
func BenchmarkDecide(b *testing.B) {
	p := on(Retry)
	p.FailureThreshold = new(0.99)
	m := New(p)
	rnd := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		failure := retry.Failure{ExitCode: 1, Message: "exit code 1"}
		d := m.Decide(Outcome{Failure: failure}, noon, rnd)
		m.Failed("item_1", d.Action, retry.Classify(failure), failure.Message, Pending)
	}
}
