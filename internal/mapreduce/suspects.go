package mapreduce

import (
	"fmt"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/retry"
)

// An item that kills prodigy would kill each run that tries it. But a run may also be killed from outside,
// which condemns nobody. So an item that was in flight at several deaths that nothing explains is only a
// suspect: it runs when all others have come to their end, alone, after a pause. Whoever kills runs from
// outside will mostly hit that pause, which clears all suspects. One that was running alone at several deaths
// is set aside.

// exhausted reports whether nothing is left to start but suspects.
func (p *pool) exhausted() bool {
	return p.source.found == nil && p.source.chosen == nil && p.fresh == nil && p.onlySuspects()
}

// onlySuspects reports whether nothing waits to begin, or to begin again, but suspects.
func (p *pool) onlySuspects() bool {
	return len(p.due) == 0 && len(p.suspects.lone) == 0 && p.starts.len() == len(p.gone)
}

// isolate makes the next suspect due, once nothing else is left and some time has passed, and the next of those
// that may have killed workers.
func (p *pool) isolate(now time.Time) {
	s := &p.suspects
	canary := func() bool { // of which they are: nothing else can begin before they have ended
		return p.fresh != nil && !p.mayBegin(now) && len(p.parked) == 0 && p.onlySuspects()
	}
	if len(s.waiting) > 0 && !p.runners.busy() && (p.exhausted() || canary()) {
		next := s.waiting[0]
		if s.pause.IsZero() {
			s.pause = now.Add(time.Second << min(2*p.Crashes[next.index].Alone, 4))
		}
		if now.Before(s.pause) {
			p.soon(s.pause)
		} else {
			s.alone, s.pause, s.waiting = true, time.Time{}, s.waiting[1:]
			p.due.push(next)
		}
	}
	if len(s.lone) > 0 && s.out < 0 {
		s.out = s.lone[0].index
		p.due.push(s.lone[0])
		s.lone = s.lone[1:]
	}
}

// suspect reports whether an item is to run alone.
func (j *owner) suspect(index int) bool {
	return j.config.MaxCrashes > 0 && j.Crashes[index].Together >= j.config.MaxCrashes &&
		j.Status.At(index) == errorpolicy.Pending
}

// quarantine records the failure of the items that were running alone when the run died, once that has happened
// too often. The policy decides what follows as of any failure. The breaker never learns of it.
func (j *owner) quarantine() {
	for index := range check.ByKey(j.Losses) {
		if index < j.Store.Len() {
			j.condemn(index)
		}
	}
	if j.config.MaxCrashes <= 0 {
		return
	}
	for index, c := range check.ByKey(j.Crashes) {
		w, waits := j.Waiting[index] // an attached one does not
		if !waits || !w.Due.IsZero() || c.Alone < j.config.MaxCrashes || !j.suspect(index) || index >= j.Store.Len() {
			continue
		}
		j.setAside(index, w, fmt.Sprintf("prodigy crashed %d times while only this item was running, and %d times while other items were running too", c.Alone, c.Together))
	}
}

// setAside records the failure of an item that kills what runs it.
func (j *owner) setAside(index int, w job.Waiting, message string) {
	now := time.Now()
	f := retry.Failure{Type: retry.TypeKilledRunner, Message: message, ExitCode: -1}
	d := j.Policy.Decide(errorpolicy.Outcome{Failure: f, Retry: w.Retry}, now,
		retry.NewRand(j.meta.Seed, w.ID, strconv.Itoa(w.Number)))
	failed := events.AgentFailed{AttemptID: j.notRun(w.ID, index)}
	if j.workflow.ErrorPolicy.OnItemFailure.Kind == errorpolicy.Custom {
		failed.Reason = "its handler is not run for an item that kills prodigy"
	}
	j.fail(failed, f, d, now)
}

// A worker that dies takes all its attempts with it, and mostly none of them is to blame. So an item is
// suspected only when it was among the lost at several losses; then it is sent out while no other suspect is,
// and one whose workers are lost even so has failed.
const (
	lostTogether = 2 // losses after which an item is a suspect
	lostAlone    = 3 // losses as a suspect after which it has failed

	// lostCut is how often the worker of an item may be cut off while it is well. Outages that are so many have
	// nothing to do with the item, but nobody is to try for ever.
	lostCut = 20
)

// condemn records the failure of an item that waits for its next attempt, if its workers have been lost too often.
func (j *owner) condemn(index int) {
	l := j.Losses[index]
	w, waits := j.Waiting[index]
	switch {
	case !waits || !w.Due.IsZero():
	case l.Alone >= lostAlone:
		j.setAside(index, w, fmt.Sprintf("its worker was lost %d times, %d of them while running no other suspected item", l.Alone+l.Together, l.Alone))
	case l.Cut >= lostCut:
		j.setAside(index, w, fmt.Sprintf("its worker kept running, but lost contact or no longer had the item, %d times", l.Cut))
	}
}
