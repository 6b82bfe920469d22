package view

import (
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
// The two rates (of now, and of the whole run) give the range; a retry that is due later, or an open breaker, moves it.
func (j *Job) Remaining(now time.Time) (Estimate, bool) {
	left := float64(j.ToGo())
	recent, mean := j.Rate(now), j.meanRate(now)
	if !j.Complete || j.Letters || j.speed.n < enoughForEstimate || left == 0 || min(recent, mean) <= 0 ||
		j.LacksWorkers(now) {
		return Estimate{}, false
	}
	// Not before the last waiting retry is due, and the breaker probes.
	var floor time.Duration
	for _, it := range j.waiting {
		floor = max(floor, it.due.Sub(now))
	}
	if b, known := j.Breaker(events.WorkflowScope, ""); known && b.State == Open {
		floor = max(floor, b.Until.Sub(now))
	}
	return Estimate{
		Low: max(floor, seconds(left/max(recent, mean))), High: max(floor, seconds(left/min(recent, mean))),
	}, true
}

// seconds returns a duration of at most thirty years, so that an estimate from a tiny rate does not overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second))
}
