package errorpolicy

import (
	"time"

	"prodigy/internal/breaker"
)

// Admission is the answer to "may this item start now?".
type Admission struct {
	Verdict Verdict
	Until   time.Time // with Hold: when to ask again; zero: after the next outcome
}

// Verdict is what an Admission says.
type Verdict int

const (
	Run    Verdict = iota // start it
	Refuse                // reject it: dead-lettered as circuit_open without being run
	Hold                  // ask again later
)

// Admit says whether the next item may start at now, as far as the breaker is concerned; for the thresholds see Stop.
func (m *Machine) Admit(now time.Time) Admission {
	switch a := m.breaker.Admit(now); {
	case a.Verdict == breaker.Run:
		return Admission{Verdict: Run}
	case a.Verdict == breaker.Full:
		return Admission{Verdict: Hold}
	case m.policy.CircuitBreaker.OnOpen == breaker.Wait:
		return Admission{Verdict: Hold, Until: a.Until}
	}
	return Admission{Verdict: Refuse}
}
