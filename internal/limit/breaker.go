package limit

import "time"

// BreakerState is one of the three states of a breaker.
type BreakerState int

const (
	Closed BreakerState = iota
	Open
	HalfOpen
)

// BreakerVerdict is the answer in an Admission.
type BreakerVerdict int

const (
	Run  BreakerVerdict = iota // start it
	Shut                       // open: refused until Admission.Until
	Full                       // half-open with all its tests in flight: ask again after the next outcome
)

// Admission is the answer to "may this start now?".
type Admission struct {
	Verdict BreakerVerdict
	Until   time.Time // with Shut: when the breaker will half-open
}

// Ticket is returned by Start and passed back with the outcome, so that outcomes of starts before the last
// opening are ignored.
type Ticket struct {
	Epoch int    `json:"epoch"`          // number of openings before the start
	Test  bool   `json:"test,omitempty"` // started while half-open
	Key   string `json:"key,omitempty"`  // of a Keyed
}

// Transition is a change of state, as in the events CircuitOpen, CircuitHalfOpen and CircuitClosed.
type Transition struct {
	To                  BreakerState `json:"to"`
	ConsecutiveFailures int          `json:"consecutive_failures"` // with Open: since the last success
	Until               time.Time    `json:"until"`                // with Open
	Successes           int          `json:"successes"`            // with Closed
	Key                 string       `json:"key,omitempty"`        // of a Keyed
}

// Breaker is a circuit breaker: it stops calls to something that keeps failing, and tests later whether it has
// recovered. It is a pure state machine, with starts, outcomes and the clock as input, admissions and transitions as
// output. A job has one for its items, and a step can have one for its runs. The zero Breaker never opens. It is not
// safe for concurrent use.
type Breaker struct {
	config BreakerConfig
	breakerMemory
}

// breakerMemory is what a breaker remembers: everything but its configuration. It is what a checkpoint has of the
// breaker, and restores one of the same configuration.
type breakerMemory struct {
	State     BreakerState `json:"state"`
	Failures  int          `json:"failures"`  // since the last success
	Successes int          `json:"successes"` // of tests, while half-open
	Testing   int          `json:"testing"`   // tests in flight, while half-open
	Epoch     int          `json:"epoch"`     // openings so far
	Until     time.Time    `json:"until"`
}

// NewBreaker returns a closed breaker. Thresholds of c below 1 count as 1, but a FailureThreshold below 1
// means that it never opens.
func NewBreaker(c BreakerConfig) *Breaker { return &Breaker{config: c} }

// ContinueBreaker returns a breaker in the state after last, the last transition in the log. Counts since
// then are lost: failures of a closed breaker and successes of a half-open one start at 0, and no test is in
// flight.
func ContinueBreaker(c BreakerConfig, last Transition) *Breaker {
	b := NewBreaker(c)
	b.State, b.Failures, b.Until = last.To, last.ConsecutiveFailures, last.Until
	return b
}

// Admit returns whether a start would be admitted at now. It changes nothing. No breaker is open for longer than its
// timeout, but for a second between two readings of the clock: when that was set back, it is tested at once.
func (b *Breaker) Admit(now time.Time) Admission {
	switch {
	case b.State == Open && now.Before(b.Until) && !b.Until.After(now.Add(b.config.Timeout+time.Second)):
		return Admission{Verdict: Shut, Until: b.Until}
	case b.State == HalfOpen && b.Testing >= max(b.config.HalfOpenRequests, 1):
		return Admission{Verdict: Full}
	}
	return Admission{Verdict: Run}
}

// Start records a start that Admit allowed; an open breaker becomes half-open. It does not check the time
// again, so that a replay ends in the same state as the run even if the wall clock was set back.
func (b *Breaker) Start() (Ticket, []Transition) {
	var transitions []Transition
	if b.State == Open {
		b.State, b.Successes, b.Testing = HalfOpen, 0, 0
		transitions = []Transition{{To: HalfOpen}}
	}
	if b.State == HalfOpen {
		b.Testing++
	}
	return Ticket{Epoch: b.Epoch, Test: b.State == HalfOpen}, transitions
}

// End records how the start of t ended. An outcome of a start before the last opening is ignored.
func (b *Breaker) End(t Ticket, success bool, now time.Time) []Transition {
	if t.Epoch != b.Epoch {
		return nil
	}
	if !success {
		b.Failures++
		if b.State == Closed && (b.config.FailureThreshold < 1 || b.Failures < b.config.FailureThreshold) {
			return nil
		}
		b.State, b.Until = Open, now.Add(b.config.Timeout)
		b.Epoch++
		return []Transition{{To: Open, ConsecutiveFailures: b.Failures, Until: b.Until}}
	}
	b.Release(t)
	b.Failures = 0
	if b.State != HalfOpen {
		return nil
	}
	if b.Successes++; b.Successes < b.config.SuccessThreshold {
		return nil
	}
	b.State = Closed
	return []Transition{{To: Closed, Successes: b.Successes}}
}

// Release records that the start of t was stopped without an outcome. If it was a test, another one may start.
func (b *Breaker) Release(t Ticket) {
	if t.Epoch == b.Epoch && t.Test && b.State == HalfOpen {
		b.Testing--
	}
}
