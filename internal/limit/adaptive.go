package limit

import (
	"fmt"
	"math"
	"time"

	"prodigy/internal/duration"
)

// AdaptiveConfig are the bounds of an Adaptive. The zero AdaptiveConfig is no limit.
type AdaptiveConfig struct {
	Min, Max int // calls at once
}

// CallKind is what the end of a call says of the service.
type CallKind int

const (
	CallOther      CallKind = iota // nothing: it failed for a reason of its own
	CallGood                       // it succeeded
	CallRefused                    // there were too many calls
	CallOverloaded                 // it did not answer, or could not
)

// CallEnd is the end of a call.
type CallEnd struct {
	Kind  CallKind
	Began time.Time
	Took  time.Duration // of a good one. It is 0 when it says nothing of the service, as with waits in it
	Asked time.Duration // of a refused one: how long the service wants to be left alone, if it says so
	Calls int           // that ran when it ended, itself among them
}

// Change is a change of an Adaptive that is worth telling. There are few: after the first ones, at most one
// in changePause.
type Change struct {
	Limit  int
	Before int
	Rate   float64 // starts in a second, 0 without a limit
	Reason string
}

const (
	// Of Gradient2.
	tolerance = 1.5 // by how much calls may take longer than usual
	headroom  = 4   // calls that may wait at the service
	smoothing = 0.2
	longTerm  = 10_000 // outcomes in which longer times become usual

	overloadCut = 2.0 / 3

	// Of the slow start, and of starts that no rate limits.
	growth   = 4    // doublings in a second, at most
	paceGain = 1.25 // starts for each call that ends, as TCP paces (RFC 9002, section 7.7)

	// Of the cubic function.
	refusalCut = 0.9
	climb      = 120 // calls after a refusal until the rate is as before
	breather   = 3   // calls that are left out after a refusal
	leastRate  = 1.0 / 600

	// Of a rate that is a guess, as after the first refusal: a bucket has let more through than is put into it.
	guessCut   = 0.5
	guessCalls = 60 // in which it doubles
	firstCalls = 4  // the same, if hardly any call has ended before the first refusal

	kept = 64 // good ends by which is told what a service takes

	firstPause  = 200 * time.Millisecond // between the first changes that are told; later ones are further apart
	changePause = 10 * time.Second
	enoughEnds  = 5
	mostHold    = time.Hour

	// times as long as calls take: when nothing has ended for so long, no calls were made
	idleFactor = 10
)

// Adaptive finds out how much a service takes: how many calls at once, and how many in a second. It is a pure
// state machine: starts, ends and the clock go in, limits come out, so that a replay of a log ends with the same.
// It has two parts, each a published algorithm:
//
//   - How many run at once follows the time that they take, by the Gradient2 limit of Netflix's concurrency-limits,
//     over windows of outcomes, after a slow start as that of TCP (RFC 5681). Overload that a service tells by 5xx,
//     a timeout or a broken connection cuts it by a third.
//   - How many start in a second follows what a service refuses with 429. As in the adaptive retries of the AWS
//     SDKs, there is no such limit before the first refusal; then it is the cubic function of CUBIC (RFC 9438)
//     around what the service has taken of late.
//
// Few calls are refused on the way, since starts are paced as those of TCP (RFC 9002, section 7.7), and the slow start
// takes its time where calls are short.
//
// It is not safe for concurrent use.
type Adaptive struct {
	config AdaptiveConfig
	adaptiveMemory
}

// adaptiveMemory is what an Adaptive remembers.
type adaptiveMemory struct {
	Limit  float64   `json:"limit,omitempty"`
	Steady bool      `json:"steady,omitempty"` // the slow start is over
	Usual  float64   `json:"usual,omitempty"`  // seconds that calls take when there are few
	Ends   int       `json:"ends,omitempty"`   // outcomes in the window
	Window int       `json:"window,omitempty"` // outcomes that make the window full
	Sum    float64   `json:"sum,omitempty"`    // seconds that they took
	Busy   bool      `json:"busy,omitempty"`   // at least half of the limit was in use at one of them
	Cut    time.Time `json:"cut,omitzero"`     // when the limit was cut last: what began before says nothing new
	Grown  time.Time `json:"grown,omitzero"`   // up to when the slow start has used the time that it has to grow in

	Good []time.Time `json:"good,omitempty"` // the newest good ends, in order, of a time in which calls were made

	// starts in a second that the service took when it refused, 0 before that
	Most    float64   `json:"most,omitempty"`
	Refused time.Time `json:"refused,omitzero"`
	Since   int       `json:"since,omitempty"` // good ends since then
	Guess   int       `json:"guess,omitempty"` // calls in which the rate doubles, if Most is a guess and not measured

	Next time.Time `json:"next,omitzero"` // when the next start has its turn
	Hold time.Time `json:"hold,omitzero"` // nothing starts before, since the service has asked for that

	Last time.Time `json:"last,omitzero"` // the last start or end

	Told     time.Time `json:"told,omitzero"` // the last change that was told
	ToldOf   int       `json:"told_of,omitempty"`
	Tellings int       `json:"tellings,omitempty"`
	ToldRate float64   `json:"told_rate,omitempty"`
}

// NewAdaptive returns a limiter that begins with the least.
func NewAdaptive(c AdaptiveConfig) *Adaptive {
	return &Adaptive{c, adaptiveMemory{Limit: float64(c.Min), ToldOf: c.Min}}
}

// Limits reports whether there is a limit.
func (l *Adaptive) Limits() bool { return l.config.Max > 0 }

// AtOnce returns how many calls may run.
func (l *Adaptive) AtOnce() int {
	if !l.Limits() {
		return math.MaxInt
	}
	return min(max(int(l.Limit), l.config.Min, 1), l.config.Max)
}

// Rate returns how many calls may start in a second at now. It returns 0 when there is no limit.
func (l *Adaptive) Rate(now time.Time) float64 {
	m := &l.adaptiveMemory
	if m.Most == 0 {
		return 0
	}
	passed := max(now.Sub(later(m.Refused, m.Hold)).Seconds(), 0)
	if m.Guess > 0 {
		return m.Most * math.Exp2(min(passed/max(float64(m.Guess)/m.Most, 1), 30))
	}
	x := passed/min(max(climb/m.Most, 2), 3600) - 1
	if x > 10 {
		return 0 // far beyond what was refused: if the service still has a limit, that is another one
	}
	return m.Most * (1 + (1-refusalCut)*x*x*x)
}

// interval returns the time from one start to the next: that of the rate, or else about that in which as many
// start as end. So a number at once that has grown, or calls that end together, are no burst.
func (l *Adaptive) interval(now time.Time) time.Duration {
	rate := l.Rate(now)
	if rate == 0 && l.Usual > 0 {
		rate = paceGain * l.Limit / l.Usual
	}
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / rate)
}

// Next returns when the next call may start: at once, if that is not after now.
func (l *Adaptive) Next(now time.Time) time.Time {
	m := &l.adaptiveMemory
	switch latest := now.Add(breather * l.interval(now)); {
	case m.Last.Sub(now) > time.Second: // the clock was set back: the next start has the other times follow
		return now
	case m.Hold.After(now):
		return m.Hold
	case m.Next.After(latest): // the rate has risen
		return latest
	}
	return m.Next
}

// Start records the start of a call.
func (l *Adaptive) Start(now time.Time) {
	if !l.Limits() {
		return
	}
	l.passed(now)
	interval := l.interval(now)
	// A start that is a little late is made up for.
	l.adaptiveMemory.Next = later(l.Next(now), now.Add(-interval/2)).Add(interval)
}

// End records the end of a call. It returns a change that is worth telling, or nil.
func (l *Adaptive) End(e CallEnd, now time.Time) *Change {
	if !l.Limits() {
		return nil
	}
	m := &l.adaptiveMemory
	l.passed(now)
	reason := ""
	switch e.Kind {
	case CallGood:
		m.Good = append(m.Good, now)
		m.Good = m.Good[max(0, len(m.Good)-kept):]
		m.Since++
		reason = l.measure(e, now)
	case CallRefused:
		reason = l.refused(e, now)
	case CallOverloaded:
		if e.Began.After(m.Cut) {
			m.Limit = max(m.Limit*overloadCut, float64(l.config.Min))
			m.Cut, m.Steady = now, true
			l.resetWindow()
			reason = "the service did not respond, or was overloaded"
		}
	}
	return l.tell(reason, now)
}

// passed notes that it is now. After a time in which no calls were made, as while the job was paused, the rate is found
// anew. When the clock was set back, what was remembered for later is now.
func (l *Adaptive) passed(now time.Time) {
	m := &l.adaptiveMemory
	idle := max(m.Usual, 1.0/idleFactor)
	if rate := l.Rate(now); rate > 0 {
		idle = max(idle, 1/rate)
	}
	switch took := now.Sub(later(m.Last, m.Hold)); {
	case now.Before(m.Last):
		for _, at := range []*time.Time{&m.Cut, &m.Grown, &m.Refused, &m.Next, &m.Hold, &m.Told} {
			if at.After(now) {
				*at = now
			}
		}
	case took.Seconds() > idleFactor*idle:
		m.Good, m.Most = nil, 0
	}
	m.Last = now
}

// measure adds the time that a call took to the window, and moves the limit when the window is full.
func (l *Adaptive) measure(e CallEnd, now time.Time) (reason string) {
	if e.Took <= 0 {
		return ""
	}
	m := &l.adaptiveMemory
	m.Ends++
	m.Sum += e.Took.Seconds()
	m.Busy = m.Busy || 2*e.Calls >= int(m.Limit)
	if !m.Steady && m.Busy && (m.Usual == 0 || e.Took.Seconds() < 2*m.Usual) {
		step := time.Duration(float64(time.Second) / (growth * math.Ln2 * m.Limit))
		// At least one step may be taken at once: else calls shorter than a step would never let a limit of one grow.
		allowance := max(e.Took, time.Second/growth, step)
		if spent := later(m.Grown, now.Add(-allowance)).Add(step); !spent.After(now) {
			m.Grown, m.Limit = spent, min(m.Limit+1, float64(l.config.Max))
			reason = "calls take no longer than with less concurrency"
		}
	}
	if m.Ends < max(enoughEnds, m.Window) {
		return reason
	}
	mean, busy, n := m.Sum/float64(m.Ends), m.Busy, m.Ends
	l.resetWindow()
	switch {
	case m.Usual == 0:
		m.Usual = mean
	case mean < m.Usual:
		m.Usual += (mean - m.Usual) * 0.3
	default:
		m.Usual += (mean - m.Usual) * min(1, float64(n)/longTerm)
	}
	if !busy {
		return reason
	}
	gradient := min(1, max(0.5, tolerance*m.Usual/mean))
	if gradient == 1 && !m.Steady {
		return reason
	}
	m.Steady = true
	next := m.Limit*gradient + headroom
	m.Limit = min(max(m.Limit+(next-m.Limit)*smoothing, float64(l.config.Min)), float64(l.config.Max))
	if gradient < 1 {
		return fmt.Sprintf("calls took %s, compared to %s with less concurrency", rough(mean), rough(m.Usual))
	}
	return "calls take no longer than with less concurrency"
}

func (l *Adaptive) resetWindow() {
	l.Ends, l.Sum, l.Busy, l.Window = 0, 0, false, int(l.Limit)
}

// refused lowers the rate to a little less than what the service has taken of late. Of calls that it refuses
// at about the same time one counts. If it goes on, and the service says for how long, nothing starts until
// then.
func (l *Adaptive) refused(e CallEnd, now time.Time) (reason string) {
	m := &l.adaptiveMemory
	if !e.Began.After(m.Refused) {
		return ""
	}
	before, took, guess := l.Rate(now), l.pace(now), 0
	switch {
	case before == 0 && len(m.Good) < enoughEnds: // hardly anything is known
		took, guess = 1, firstCalls
	case before == 0:
		took, guess = took*guessCut, guessCalls
	case m.Since < enoughEnds: // it goes on
		took = before * guessCut
		guess = guessCalls
		m.Hold = later(m.Hold, now.Add(min(e.Asked, mostHold)))
	default:
		took = min(took, before)
	}
	took = max(took, leastRate)
	m.Most, m.Refused, m.Since, m.Steady, m.Guess = took, now, 0, true, guess
	m.Next = now.Add(time.Duration(breather / took * float64(time.Second)))
	return fmt.Sprintf("the service refused a call; it accepts about %.3g per second", took)
}

// pace returns how many calls have ended well in a second of late: of as many as run at once, so that those are
// counted that had the present number beside them.
func (l *Adaptive) pace(now time.Time) float64 {
	n := min(max(l.AtOnce(), enoughEnds), len(l.Good)-1)
	if n < 1 {
		return 1
	}
	return float64(n) / max(now.Sub(l.Good[len(l.Good)-1-n]), time.Millisecond).Seconds()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tell returns a change with its reason, if it is worth that.
func (l *Adaptive) tell(reason string, now time.Time) *Change {
	m := &l.adaptiveMemory
	limit, rate := l.AtOnce(), l.Rate(now)
	differs := func(is, was float64) bool { return is > 1.25*was || is < 0.8*was }
	if reason == "" && (rate == 0 || rate > m.ToldRate) && differs(rate, m.ToldRate) {
		reason = "the service refused no call of late"
	}
	if reason == "" || !differs(float64(limit), float64(m.ToldOf)) && !differs(rate, m.ToldRate) ||
		now.Sub(m.Told) < min(changePause, time.Duration(m.Tellings)*firstPause) {
		return nil
	}
	c := &Change{Limit: limit, Before: m.ToldOf, Rate: rate, Reason: reason}
	m.Told, m.ToldOf, m.ToldRate = now, limit, rate
	m.Tellings++
	return c
}

func rough(seconds float64) string {
	return duration.Milliseconds(time.Duration(seconds * float64(time.Second)))
}
