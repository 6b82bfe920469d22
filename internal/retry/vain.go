package retry

import (
	"fmt"
	"strconv"
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/duration"
)

// vain collects what a policy says without effect.
type vain struct {
	Policy
	written func(key string) bool
	found   []breaker.Finding
}

// Vain returns what p says without effect, or with another one than it seems to have. Keys that were not written say nothing.
func (p Policy) Vain(written func(key string) bool) []breaker.Finding {
	v := &vain{Policy: p, written: written}
	if p.Attempts == 1 {
		v.singleTry()
		return v.found
	}
	v.budget()
	v.delays()
	v.cap()
	v.jitter()
	v.exitCodes()
	return v.found
}

// say keeps a finding about the first of the keys that was written; without one there is nothing to say.
func (v *vain) say(format string, args []any, keys ...string) {
	for _, key := range keys {
		if v.written(key) {
			v.found = append(v.found, breaker.Finding{Field: key, Message: fmt.Sprintf(format, args...)})
			return
		}
	}
}

func (v *vain) singleTry() {
	for _, key := range []string{"backoff", "initial_delay", "max_delay", "jitter", "jitter_factor", "retry_on", "retry_budget"} {
		v.say("%s has no effect with attempts: 1, which is the first try alone", []any{key}, key)
	}
}

// budget looks for tries that the budget leaves no time to wait for.
func (v *vain) budget() {
	fit := 1 + len(v.Worst())
	if v.Budget <= 0 || fit >= min(v.Attempts, mostListed) {
		return
	}
	may := "ends"
	if v.Jitter != NoJitter {
		may = "may end"
	}
	v.say("retry_budget %s %s the retrying after %s of %d: the wait before the next one does not fit in",
		[]any{duration.Format(v.Budget), may, counted(fit), v.Attempts}, "retry_budget", "attempts")
}

func counted(tries int) string {
	if tries == 1 {
		return "1 try"
	}
	return strconv.Itoa(tries) + " tries"
}

// delays looks at how the delays grow.
func (v *vain) delays() {
	b := v.Backoff
	switch {
	case b.Strategy == Custom && len(b.Delays) == 0:
		v.say("custom without delays waits max_delay before every retry, %s", []any{duration.Format(v.limit())}, "backoff")
	case b.Strategy == Custom && len(b.Delays) > v.Attempts-1:
		v.say("delays has %d entries, but there are only %d retries", []any{len(b.Delays), v.Attempts - 1}, "backoff", "attempts")
	case b.factor() < 1:
		v.say("a factor of %v makes each delay shorter than the one before", []any{b.factor()}, "backoff")
	}
	if b.Strategy == Custom || b.Delay != nil || b.Initial != nil {
		v.say("initial_delay has no effect: the backoff names its own delays", nil, "initial_delay")
	}
}

// cap looks for delays that are cut from the first on.
func (v *vain) cap() {
	first := v.first()
	if v.Backoff.Strategy == Custom {
		first = longest(v.Backoff.Delays)
	}
	if first > v.limit() {
		v.say("max_delay cuts a delay of %s to %s", []any{duration.Format(first), duration.Format(v.limit())},
			"max_delay", "initial_delay", "backoff")
	}
}

func longest(delays []time.Duration) time.Duration {
	var most time.Duration
	for _, d := range delays {
		most = max(most, d)
	}
	return most
}

func (v *vain) jitter() {
	if v.Jitter != Proportional {
		v.say("jitter_factor has no effect without jitter: true", nil, "jitter_factor")
		return
	}
	if v.JitterFactor == 0 {
		v.say("a jitter_factor of 0 spreads nothing", nil, "jitter_factor", "jitter")
	}
}

// exitCodes looks for codes that no process ends with.
func (v *vain) exitCodes() {
	const most = 255
	for _, m := range v.RetryOn {
		for _, code := range m.ExitCodes {
			if code > most {
				v.say("no command exits with %d: exit codes go up to %d", []any{code, most}, "retry_on")
			}
		}
	}
}
