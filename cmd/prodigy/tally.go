package main

import (
	"fmt"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

// tally counts the items of a run, by the records of its log. It is for the eye only: the counts that matter are the
// job's metrics.
type tally struct {
	phase                 string
	total                 int // -1 while unknown
	done, failed, skipped int
	before                int // of done, failed and skipped: from before this run
	running, waiting      map[string]bool
	began                 time.Time // of the map phase, in this run
	letters               bool      // dead letters are run again
}

// dlqRetry is the reason of a JobResumed that begins a retry of dead letters.
const dlqRetry = "dlq_retry"

// newTally returns the tally of a run of a job whose earlier runs came to these metrics.
func newTally(earlier errorpolicy.Metrics) tally {
	return tally{
		total: -1, failed: earlier.Failed + earlier.Rejected, skipped: earlier.Skipped,
		running: map[string]bool{}, waiting: map[string]bool{},
	}
}

func (t *tally) apply(r events.Record) {
	switch e := r.Event.(type) {
	case events.JobStarted:
		if e.TotalItems != nil {
			t.total = *e.TotalItems
		}
	case events.JobResumed:
		t.resume(e)
		t.began = r.Time
	case events.ItemsSelected:
		t.total = e.TotalItems
	case events.PhaseStarted:
		t.phase = e.Phase
		t.began = r.Time
	case events.AgentStarted:
		delete(t.waiting, e.ItemID)
		t.running[e.ItemID] = true
	case events.AgentCompleted:
		t.leave(e.ItemID)
		t.done++
	case events.AgentFailed:
		t.fail(e)
	case events.AgentInterrupted:
		t.leave(e.ItemID)
	}
}

// resume counts what was done before. Dead letters that are run again are counted from nothing.
func (t *tally) resume(e events.JobResumed) {
	if e.Reason == dlqRetry {
		t.letters, t.failed, t.skipped = true, 0, 0
		return
	}
	t.done = max(e.Completed-t.failed-t.skipped, 0)
	t.before = t.finished()
	if t.total < 0 {
		t.total = e.Completed + e.Pending + e.InFlight
	}
}

func (t *tally) fail(e events.AgentFailed) {
	t.leave(e.ItemID)
	switch e.Action {
	case errorpolicy.Retry:
		t.waiting[e.ItemID] = true
	case errorpolicy.Skip:
		t.skipped++
	default:
		t.failed++
	}
}

func (t *tally) leave(itemID string) {
	delete(t.running, itemID)
	delete(t.waiting, itemID)
}

// finished returns the number of items that are over and done with.
func (t *tally) finished() int { return t.done + t.failed + t.skipped }

// line says it in one line, with the rate and the time that is left as they look at now.
func (t *tally) line(now time.Time) string {
	var b strings.Builder
	if t.phase != "" && t.phase != "map" {
		return t.phase + " " + duration.Format(now.Sub(t.began).Truncate(time.Second))
	}
	fmt.Fprintf(&b, "%d", t.finished())
	if t.total >= 0 {
		fmt.Fprintf(&b, "/%d", t.total)
	}
	fmt.Fprintf(&b, " done, %d failed, %d running, %d waiting", t.failed, len(t.running), len(t.waiting))
	if t.total < 0 && !t.letters {
		fmt.Fprintf(&b, ", so far %d found", t.finished()+len(t.running)+len(t.waiting))
	}
	rate := t.rate(now)
	if rate <= 0 {
		return b.String()
	}
	b.WriteString(", " + pace(rate))
	if left := t.total - t.finished(); left > 0 {
		eta := time.Duration(float64(left) / rate * float64(time.Second))
		fmt.Fprintf(&b, ", eta %s", duration.Format(max(eta.Round(time.Second), time.Second)))
	}
	return b.String()
}

// rate returns the items finished in a second.
func (t *tally) rate(now time.Time) float64 {
	spent := now.Sub(t.began).Seconds()
	if t.began.IsZero() || spent <= 0 {
		return 0
	}
	return float64(t.finished()-t.before) / spent
}

// pace prints items in a second, and slow ones in a minute or an hour.
func pace(rate float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"s", 1}, {"min", 60}} {
		if rate*unit.seconds >= 1 {
			return fmt.Sprintf("%.1f/%s", rate*unit.seconds, unit.name)
		}
	}
	return fmt.Sprintf("%.1f/h", rate*3600)
}
