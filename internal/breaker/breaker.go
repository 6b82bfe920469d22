// Package breaker is a circuit breaker: it stops calls to something that keeps failing, and tests later whether it has recovered.
//
// A Breaker is a pure state machine, with starts, outcomes and the clock as input, admissions and transitions as output. Config is its
// block in a workflow file. A job has one for its items, and a step can have one for its runs.
package breaker

import "time"

// State is one of the three states of a breaker.
type State int

const (
	Closed State = iota
	Open
	HalfOpen
)

// Verdict says whether a start is admitted.
type Verdict int

const (
	Run  Verdict = iota // start it
	Shut                // open: refused until Admission.Until
	Full                // half-open with all its tests in flight: ask again after the next outcome
)

// Admission is the answer to "may this start now?".
type Admission struct {
	Verdict Verdict
	Until   time.Time // with Shut: when the breaker will half-open
}

// Ticket is returned by Start and passed back with the outcome, so that outcomes of starts before the last opening are ignored.
type Ticket struct {
	epoch int  // number of openings before the start
	test  bool // started while half-open
}

// Transition is a change of state, as in the events CircuitOpen, CircuitHalfOpen and CircuitClosed.
type Transition struct {
	To                  State     `json:"to"`
	ConsecutiveFailures int       `json:"consecutive_failures"` // with Open: since the last success
	Until               time.Time `json:"until"`                // with Open
	Successes           int       `json:"successes"`            // with Closed
}

// Breaker is the state machine. The zero Breaker never opens. It is not safe for concurrent use.
type Breaker struct {
	config    Config
	state     State
	failures  int // since the last success
	successes int // of tests, while half-open
	testing   int // tests in flight, while half-open
	epoch     int // openings so far
	until     time.Time
}

// New returns a closed breaker. Thresholds of c below 1 count as 1, but a FailureThreshold below 1 means that it never opens.
func New(c Config) *Breaker { return &Breaker{config: c} }

// Continue returns a breaker in the state after last, the last transition in the log. Counts since then are lost: failures of a closed
// breaker and successes of a half-open one start at 0, and no test is in flight.
func Continue(c Config, last Transition) *Breaker {
	return &Breaker{config: c, state: last.To, failures: last.ConsecutiveFailures, until: last.Until}
}

// Admit returns whether a start would be admitted at now. It changes nothing.
func (b *Breaker) Admit(now time.Time) Admission {
	switch {
	case b.state == Open && now.Before(b.until):
		return Admission{Verdict: Shut, Until: b.until}
	case b.state == HalfOpen && b.testing >= max(b.config.HalfOpenRequests, 1):
		return Admission{Verdict: Full}
	}
	return Admission{Verdict: Run}
}

// Start records a start that Admit allowed; an open breaker becomes half-open. It does not check the time again, so that a replay ends in
// the same state as the run even if the wall clock was set back.
func (b *Breaker) Start(time.Time) (Ticket, []Transition) {
	var transitions []Transition
	if b.state == Open {
		b.state, b.successes, b.testing = HalfOpen, 0, 0
		transitions = []Transition{{To: HalfOpen}}
	}
	if b.state == HalfOpen {
		b.testing++
	}
	return Ticket{epoch: b.epoch, test: b.state == HalfOpen}, transitions
}

// Success records that the start of t succeeded.
func (b *Breaker) Success(t Ticket, _ time.Time) []Transition {
	if t.epoch != b.epoch {
		return nil
	}
	b.Release(t)
	b.failures = 0
	if b.state != HalfOpen {
		return nil
	}
	b.successes++
	if b.successes < b.config.SuccessThreshold {
		return nil
	}
	b.state = Closed
	return []Transition{{To: Closed, Successes: b.successes}}
}

// Failure records that the start of t failed.
func (b *Breaker) Failure(t Ticket, now time.Time) []Transition {
	if t.epoch != b.epoch {
		return nil
	}
	b.failures++
	if b.state == Closed && (b.config.FailureThreshold < 1 || b.failures < b.config.FailureThreshold) {
		return nil
	}
	b.state, b.until = Open, now.Add(b.config.Timeout)
	b.epoch++
	return []Transition{{To: Open, ConsecutiveFailures: b.failures, Until: b.until}}
}

// Release records that the start of t was stopped without an outcome. If it was a test, another one may start.
func (b *Breaker) Release(t Ticket) {
	if t.epoch == b.epoch && t.test && b.state == HalfOpen {
		b.testing--
	}
}

// Resumed records that the job is resumed at now. An open breaker half-opens no later than its timeout after that, even if the clock was
// set back.
func (b *Breaker) Resumed(now time.Time) {
	if latest := now.Add(b.config.Timeout); b.until.After(latest) {
		b.until = latest
	}
}

// State returns the state at now: open turns into half-open when its timeout has passed.
func (b *Breaker) State(now time.Time) State {
	if b.state == Open && !now.Before(b.until) {
		return HalfOpen
	}
	return b.state
}
