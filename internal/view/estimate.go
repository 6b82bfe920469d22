package view

import (
	"math"
	"time"

	"prodigy/internal/events"
)

// Rate returns the current throughput in items per second: over the shortest of the last 5, 15 and 60 seconds
// in which enough items finished, else over the whole run; 0 if it is not known yet.
func (j *Job) Rate(now time.Time) float64 {
	run := now.Sub(j.mapBegan())
	for _, window := range []int64{5, 15, 60} {
		if run < time.Duration(window)*time.Second {
			break
		}
		if n := j.speed.last(now, window); n >= enoughForRate {
			return float64(n) / float64(window)
		}
	}
	return j.meanRate(now)
}

// enoughForRate is the minimum number of items to compute a rate from.
const enoughForRate = 10

// meanRate returns the throughput over the whole run.
func (j *Job) meanRate(now time.Time) float64 {
	run := now.Sub(j.mapBegan())
	if run <= 0 {
		return 0
	}
	return float64(j.speed.n) / run.Seconds()
}

// mapBegan returns when this run began to work on items.
func (j *Job) mapBegan() time.Time {
	if j.Phase == "map" && j.PhaseBegan.After(j.RunBegan) {
		return j.PhaseBegan
	}
	return j.RunBegan
}

// Estimate is the range of the remaining time of the map phase.
type Estimate struct {
	Low, High time.Duration
}

// enoughForEstimate is the minimum number of finished items for an estimate.
const enoughForEstimate = 5

// Remaining estimates the remaining time of the map phase. It reports false if it cannot: items are still
// being selected, too few have finished, dead letters are being retried, or nothing runs before a worker of
// the fleet takes part.
//
// The two rates (of now, and of the whole run) give the range. It is widened by 1/√n, the relative error of
// counting n events, and by what the last attempts take longer than the others; a retry that is due later, or
// an open breaker, moves its beginning.
func (j *Job) Remaining(now time.Time) (Estimate, bool) {
	left := float64(j.ToGo())
	recent, mean := j.Rate(now), j.meanRate(now)
	if !j.Complete || j.Letters || j.speed.n < enoughForEstimate || left == 0 || min(recent, mean) <= 0 ||
		j.LacksWorkers(now) {
		return Estimate{}, false
	}
	spread := 1 / math.Sqrt(float64(j.speed.n))
	e := Estimate{
		Low:  seconds(left / max(recent, mean) / (1 + spread)),
		High: seconds(left/min(recent, mean)*(1+spread)) + j.Durations.Quantile(0.9),
	}
	if floor := j.notBefore(now); floor > e.Low {
		e.High += floor - e.Low
		e.Low = floor
	}
	return e, true
}

// notBefore returns a lower bound: the time until the last waiting retry, or until the breaker tests.
func (j *Job) notBefore(now time.Time) time.Duration {
	var floor time.Duration
	if len(j.waiting.due) > 0 {
		floor = j.waiting.latest.Sub(now) + j.Durations.Quantile(0.5)
	}
	for _, b := range j.circuit.breakers {
		if b.Scope == events.WorkflowScope && b.Key == "" && b.State == Open {
			floor = max(floor, b.Until.Sub(now))
		}
	}
	return floor
}

// seconds returns a duration of at most thirty years, so that an estimate from a tiny rate does not overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second))
}
