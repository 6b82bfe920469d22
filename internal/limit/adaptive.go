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
	refusalCut  = 0.9
	climb       = 120  // calls after a refusal until the rate is as before
	surest      = 2    // refusals that confirm the rate; each makes the climb longer by once its length
	near        = 0.85 // of a rate: that much of it confirms it
	breather    = 3    // calls that are left out after a refusal
	enoughCalls = 20

	// Of a rate that is a guess: after the first refusal, since a bucket has let more through than is put into it.
	guessCut   = 0.5
	guessCalls = 60   // in which it doubles
	firstCalls = 4    // the same, if hardly any call has ended before the first refusal
	limitedBy  = 0.75 // of the rate: if less was let through, it is because less was tried at first
	leastRate  = 1.0 / 600

	kept = 64 // starts and good ends by which is told what a service takes

	firstPause  = 200 * time.Millisecond // between the first changes that are told; later ones are further apart
	changePause = 10 * time.Second
	enoughEnds  = 5
	mostHold    = time.Hour

	// times as long as calls take, or as there is between their starts and ends: then no calls were made
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
// Few calls are refused on the way, since starts are paced as those of TCP (RFC 9002, section 7.7), the slow start
// takes its time where calls are short, the rate after its first refusal is found from below, and a rate that further
// refusals confirm is tried less often.
//
// It is not safe for concurrent use.
type Adaptive struct {
	config AdaptiveConfig
	memory[adaptiveMemory]
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

	Good   []time.Time `json:"good,omitempty"`   // the newest good ends, in order
	Starts []time.Time `json:"starts,omitempty"` // the newest starts

	// starts in a second that the service took when it refused, 0 before that
	Most float64 `json:"most,omitempty"`

	Refused time.Time `json:"refused,omitzero"`
	Again   int       `json:"again,omitempty"` // refusals one soon after the other
	Since   int       `json:"since,omitempty"` // good ends since then
	Sure    int       `json:"sure,omitempty"`  // refusals that confirmed Most, one after the other

	// calls in which the rate doubles, if Most is a guess and not measured
	Guess int `json:"guess,omitempty"`

	Next time.Time `json:"next,omitzero"` // when the next start has its turn
	Hold time.Time `json:"hold,omitzero"` // nothing starts before, since the service has asked for that

	Last time.Time `json:"last,omitzero"` // the last start or end
	Gap  float64   `json:"gap,omitempty"` // seconds between two of them, on average

	Told     time.Time `json:"told,omitzero"` // the last change that was told
	ToldOf   int       `json:"told_of,omitempty"`
	Tellings int       `json:"tellings,omitempty"`
	ToldRate float64   `json:"told_rate,omitempty"`
}

// NewAdaptive returns a limiter that begins with the least.
func NewAdaptive(c AdaptiveConfig) *Adaptive {
	return &Adaptive{c, memory[adaptiveMemory]{adaptiveMemory{Limit: float64(c.Min), ToldOf: c.Min}}}
}

// Limits reports whether there is a limit.
func (l *Adaptive) Limits() bool { return l.config.Max > 0 }

// AtOnce returns how many calls may run.
func (l *Adaptive) AtOnce() int {
	if !l.Limits() {
		return math.MaxInt
	}
	return min(max(int(l.mem.Limit), l.config.Min, 1), l.config.Max)
}

// Rate returns how many calls may start in a second at now. It returns 0 when there is no limit.
func (l *Adaptive) Rate(now time.Time) float64 {
	m := &l.mem
	if m.Most == 0 {
		return 0
	}
	passed := max(now.Sub(m.Refused), 0) // the clock may have been set back
	if m.Guess > 0 {
		return m.Most * math.Exp2(min(float64(passed)/float64(l.recovery(m.Guess)), 30))
	}
	first := l.recovery(climb * (1 + m.Sure))
	x := float64(passed)/float64(first) - 1
	if x > 1 { // the service takes more than it did: how sure that was counts no more
		x = 1 + float64(passed-2*first)/float64(l.recovery(climb))
	}
	if x > 10 {
		return 0 // far beyond what was refused: if the service still has a limit, that is another one
	}
	return m.Most * (1 + (1-refusalCut)*x*x*x)
}

// recovery returns how long so many calls take at the rate that the service took, within bounds.
func (l *Adaptive) recovery(calls int) time.Duration {
	return time.Duration(min(max(float64(calls)/l.mem.Most, float64(calls)/60, 1), 3600) * float64(time.Second))
}

// interval returns the time from one start to the next: that of the rate, or else about that in which as many
// start as end. So a number at once that has grown, or calls that end together, are no burst.
func (l *Adaptive) interval(now time.Time) time.Duration {
	rate := l.Rate(now)
	if rate == 0 && l.mem.Usual > 0 {
		rate = paceGain * l.mem.Limit / l.mem.Usual
	}
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / rate)
}

// Next returns when the next call may start: at once, if that is not after now.
func (l *Adaptive) Next(now time.Time) time.Time {
	hold := l.mem.Hold
	switch back := l.mem.Last.Sub(now); {
	case back > time.Second: // the clock was set back: a time that moves along with now would never come. A start has all times moved
		return now
	case back > 0:
		hold = hold.Add(-back)
	}
	if hold.After(now) && !hold.After(now.Add(mostHold)) {
		return hold
	}
	next, interval := l.mem.Next, l.interval(now)
	if latest := now.Add(breather * interval); next.After(latest) { // the clock was set back, or the rate has risen
		next = latest
	}
	return next
}

// Start records the start of a call.
func (l *Adaptive) Start(now time.Time) {
	if !l.Limits() {
		return
	}
	l.passed(now)
	l.mem.Starts = newest(l.mem.Starts, now)
	interval := l.interval(now)
	next := l.Next(now)
	if earliest := now.Add(-interval / 2); next.Before(earliest) { // a start that is a little late is made up for
		next = earliest
	}
	l.mem.Next = next.Add(interval)
}

// End records the end of a call. It returns a change that is worth telling, or nil.
func (l *Adaptive) End(e CallEnd, now time.Time) *Change {
	if !l.Limits() {
		return nil
	}
	l.passed(now)
	reason := ""
	switch e.Kind {
	case CallGood:
		l.mem.Good = newest(l.mem.Good, now)
		l.mem.Since++
		reason = l.measure(e, now)
	case CallRefused:
		reason = l.refused(e, now)
	case CallOverloaded:
		if e.Began.After(l.mem.Cut) {
			l.mem.Limit = max(l.mem.Limit*overloadCut, float64(l.config.Min))
			l.mem.Cut, l.mem.Steady = now, true
			l.resetWindow()
			reason = "the service did not respond, or was overloaded"
		}
	}
	return l.tell(reason, now)
}

// passed notes that it is now. What is known was measured by the time in which calls were made: when the
// clock was set, the machine slept, or the job was paused, the times that are remembered are moved along, as
// if that had not been.
func (l *Adaptive) passed(now time.Time) {
	m := &l.mem
	if m.Last.IsZero() {
		m.Last = now
		return
	}
	took := now.Sub(m.Last)
	m.Last = now
	if took < 0 {
		if !m.Hold.IsZero() {
			m.Hold = m.Hold.Add(took)
		}
		m.move(took)
		took = 0
	}
	longest := time.Duration(max(idleFactor*max(m.Usual, m.Gap), 1) * float64(time.Second))
	if m.Usual > 0 && took > longest {
		usual := time.Duration(m.Gap * float64(time.Second))
		m.move(took - usual)
		took = usual
	}
	m.Gap += (took.Seconds() - m.Gap) / 32
}

// move adds d to the times that are remembered, but for what the service has asked for.
func (m *adaptiveMemory) move(d time.Duration) {
	for _, times := range [][]time.Time{m.Good, m.Starts} {
		for i := range times {
			times[i] = times[i].Add(d)
		}
	}
	for _, at := range []*time.Time{&m.Cut, &m.Grown, &m.Refused, &m.Next, &m.Told} {
		if !at.IsZero() {
			*at = at.Add(d)
		}
	}
}

// measure adds the time that a call took to the window, and moves the limit when the window is full.
func (l *Adaptive) measure(e CallEnd, now time.Time) (reason string) {
	if e.Took <= 0 {
		return ""
	}
	m := &l.mem
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
	l.mem.Ends, l.mem.Sum, l.mem.Busy, l.mem.Window = 0, 0, false, int(l.mem.Limit)
}

// refused lowers the rate to a little less than what the service has taken of late. Of calls that it refuses
// at about the same time one counts. If it goes on, and the service says for how long, nothing starts until
// then.
func (l *Adaptive) refused(e CallEnd, now time.Time) (reason string) {
	m := &l.mem
	if !e.Began.After(m.Refused) {
		return ""
	}
	// It takes about as many as between what has succeeded of late, which lags behind while more and more start, and
	// what has started, which may be more than it takes.
	before, took := l.Rate(now), (l.pace(m.Good, now)+l.pace(m.Starts, now))/2
	if m.Most > 0 && now.Sub(m.Refused) < l.recovery(climb)/4 {
		m.Again++
	} else {
		m.Again = 0
	}
	// A bucket was empty at the refusal before and is now: what it let through meanwhile is its rate.
	measured := min(before, float64(m.Since)/max(now.Sub(later(m.Refused, m.Hold)), time.Millisecond).Seconds())
	sure, guess := 0, 0
	switch {
	case before == 0 && len(m.Good) < enoughEnds:
		guess = firstCalls
	case before == 0:
		took, guess = took*guessCut, guessCalls
	case m.Guess > 0 && m.Since == 0:
		took, guess = before*guessCut*guessCut, min(2*m.Guess, guessCalls)
	case m.Guess > 0 && m.Since < enoughEnds:
		took, guess = before*guessCut, min(2*m.Guess, guessCalls)
	case m.Guess > 0 && measured < before*limitedBy: // the bucket may have been full for some of the time
		took = math.Sqrt(measured * before)
	case m.Guess > 0:
		took = measured
	case m.Since >= enoughCalls && before < 1.25*m.Most:
		if took = measured; measured > near*m.Most && measured < before {
			sure = min(m.Sure+1, surest)
		}
	case m.Again > 0:
		took = min(took, before*0.8)
	default:
		took = min(took, before)
	}
	if m.Again > 1 && e.Asked > 0 {
		if hold := now.Add(min(e.Asked, mostHold)); hold.After(m.Hold) {
			m.Hold = hold
		}
	}
	took = max(took, leastRate)
	m.Most, m.Refused, m.Since, m.Steady, m.Sure, m.Guess = took, now, 0, true, sure, guess
	m.Next = now.Add(time.Duration(breather / took * float64(time.Second)))
	switch {
	case guess > 0:
		return fmt.Sprintf("the service refused a call: trying %.3g per second, then more", took)
	case sure > 0:
		return fmt.Sprintf("the service refused a call again, at about %.3g per second", took)
	}
	return fmt.Sprintf("the service refused a call; it accepts about %.3g per second", took)
}

// pace returns how many in a second the newest of times are: as many as run at once, so that those are
// counted that had the present number beside them, and since the one before, so that calls of the same time
// do not count as very many in no time.
func (l *Adaptive) pace(times []time.Time, now time.Time) float64 {
	n := min(max(l.AtOnce(), enoughEnds), len(times)-1)
	if n < 1 {
		return 1
	}
	return float64(n) / max(now.Sub(times[len(times)-1-n]), time.Millisecond).Seconds()
}

// newest appends a time and keeps the newest.
func newest(times []time.Time, now time.Time) []time.Time {
	times = append(times, now)
	if n := len(times) - kept; n > 0 {
		times = append(times[:0], times[n:]...)
	}
	return times
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tell returns a change with its reason, if it is worth that.
func (l *Adaptive) tell(reason string, now time.Time) *Change {
	m := &l.mem
	limit, rate := l.AtOnce(), l.Rate(now)
	small := float64(limit) < 1.25*float64(m.ToldOf) && float64(limit) > 0.8*float64(m.ToldOf) &&
		rate >= 0.8*m.ToldRate && (rate == 0) == (m.ToldRate == 0)
	if m.ToldRate > 0 && m.Guess == 0 && (rate == 0 || rate > 1.25*m.ToldRate) && now.Sub(m.Refused) > firstPause {
		small, reason = false, "the service refused no call for "+rough(now.Sub(m.Refused).Round(time.Second).Seconds())
	}
	if since := now.Sub(m.Told); reason == "" || small || since >= 0 &&
		since < min(changePause, time.Duration(m.Tellings)*firstPause) {
		return nil
	}
	c := &Change{Limit: limit, Before: m.ToldOf, Rate: rate, Reason: reason}
	m.Told, m.ToldOf, m.ToldRate = now, limit, rate
	m.Tellings++
	return c
}

func rough(seconds float64) string {
	return duration.Format(time.Duration(seconds * float64(time.Second)).Round(time.Millisecond))
}
