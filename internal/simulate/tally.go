package simulate

import (
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Tally counts what the records of a job say about how it was run. Create one with NewTally.
type Tally struct {
	Attempts    int            `json:"attempts"`     // at items
	ItemRetries int            `json:"item_retries"` // attempts that a policy has asked for after a failure
	StepRetries int            `json:"step_retries"`
	Stragglers  int            `json:"stragglers,omitempty"`
	DeadLetters int            `json:"dead_letters"`
	Openings    map[string]int `json:"breaker_openings"` // by the scope of the breaker

	AtOnce int `json:"most_at_once"` // attempts at items

	// of attempts at once; the same as the highest without concurrency that adapts
	LowestLimit int `json:"lowest_limit"`

	TopLimit int           `json:"highest_limit"`
	AtLimit  events.Millis `json:"at_limit_ms"` // how long as many ran as may
	Held     events.Millis `json:"held_ms"`     // how long no attempt might start, because of windows or a guard

	Merged     int           `json:"merged,omitempty"` // items, of a job with workspaces
	Conflicts  int           `json:"conflicts,omitempty"`
	Verified   int           `json:"verified,omitempty"`      // runs of the steps that verify what was merged
	Unverified int           `json:"verify_failed,omitempty"` // items that were left out, because these fail with them
	Verifying  events.Millis `json:"verifying_ms,omitempty"`

	// how often agents began to wait for the limit of a plan to end
	Pauses int `json:"quota_pauses,omitempty"`

	Paused events.Millis `json:"quota_paused_ms,omitempty"`

	begun, limit int // attempts at items that have not ended, and how many may run
	slotWait     workflow.ParkAfter
	parked       map[string]absence // by item
	last         time.Time
	held         map[string]bool
	pausedUntil  time.Time
}

// absence is the time in which an attempt has no slot, since it waits for the next try of a step.
type absence struct{ from, until time.Time }

// NewTally returns a Tally of no records of a job of w.
func NewTally(w *workflow.Workflow) *Tally {
	t := &Tally{
		Openings: map[string]int{}, held: map[string]bool{}, slotWait: workflow.ParkAfter{Never: true},
		parked: map[string]absence{},
	}
	if w.Map != nil && !w.Workspace.Isolated() {
		t.slotWait = w.Map.SlotWait()
	}
	return t
}

// Apply adds a record.
func (t *Tally) Apply(r events.Record) {
	if passed := r.Time.Sub(t.last); !t.last.IsZero() && passed > 0 {
		t.AtLimit += events.Millis(t.atLimit(r.Time))
		if len(t.held) > 0 {
			t.Held += events.Millis(passed)
		}
		if until := t.pausedUntil.Sub(t.last); until > 0 {
			t.Paused += events.Millis(min(until, passed))
		}
	}
	t.last = r.Time
	switch e := r.Event.(type) {
	case events.JobStarted:
		t.limited(e.MaxParallel)
	case events.ConcurrencyChanged:
		t.limited(e.Limit)
	case events.AgentStarted:
		t.started(r.Time)
	case events.AgentStraggling:
		t.Stragglers++
	case events.AgentCompleted, events.AgentInterrupted, events.AgentLost:
		t.ended(events.Subject(r.Event))
	case events.AgentFailed:
		switch {
		case e.ErrorType == retry.TypeMergeConflict: // the attempt itself has completed
			t.Conflicts++
		case e.ErrorType == retry.TypeVerifyFailed:
			t.Unverified++
		case e.AgentID != "": // else a breaker refused it
			t.ended(e.ItemID)
		}
		if e.RetryAt != nil {
			t.ItemRetries++
		}
	case events.StepRetrying:
		t.StepRetries++
		if wait := time.Duration(e.DelayMS); t.TopLimit > 1 && !t.slotWait.Never && wait > t.slotWait.Time {
			t.parked[e.ItemID] = absence{from: r.Time.Add(t.slotWait.Time), until: r.Time.Add(wait)}
		}
	case events.DLQItemAdded:
		t.DeadLetters++
	case events.CircuitOpen:
		t.Openings[e.Scope]++
	case events.StartsHeld:
		t.held[e.By] = true
	case events.StartsAllowed:
		delete(t.held, e.By)
	case events.WorktreeMerged:
		t.Merged += len(e.ItemIDs)
	case events.VerifyCompleted:
		t.Verified++
		t.Verifying += e.DurationMS
	case events.QuotaPaused:
		t.Pauses++
		if e.Until.After(t.pausedUntil) {
			t.pausedUntil = e.Until
		}
	}
}

func (t *Tally) started(now time.Time) {
	t.Attempts++
	t.begun++
	t.AtOnce = max(t.AtOnce, t.running(now))
}

func (t *Tally) ended(itemID string) {
	t.begun--
	delete(t.parked, itemID)
}

// running returns how many attempts have a slot. Of those that are due again, some may wait for one.
func (t *Tally) running(now time.Time) int {
	n := t.begun
	for _, a := range t.parked {
		if !a.from.After(now) && a.until.After(now) {
			n--
		}
	}
	return min(n, t.TopLimit)
}

// atLimit returns how long as many ran as may, since the record before.
func (t *Tally) atLimit(now time.Time) time.Duration {
	var sum time.Duration
	for at := t.last; at.Before(now); {
		next := now
		for _, a := range t.parked {
			for _, change := range []time.Time{a.from, a.until} {
				if change.After(at) && change.Before(next) {
					next = change
				}
			}
		}
		if t.limit > 0 && t.running(at) >= t.limit {
			sum += next.Sub(at)
		}
		at = next
	}
	return sum
}

func (t *Tally) limited(n int) {
	if t.limit = n; t.TopLimit == 0 {
		t.LowestLimit = n
	}
	t.LowestLimit, t.TopLimit = min(t.LowestLimit, n), max(t.TopLimit, n)
}

// Opened returns how often breakers have opened in all.
func (t *Tally) Opened() int {
	n := 0
	for _, times := range t.Openings {
		n += times
	}
	return n
}
