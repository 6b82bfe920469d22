package simulate

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

// Tally counts what the records of a job say about how it was run. Create one with NewTally.
type Tally struct {
	// The number of attempts at items that started.
	Attempts int `json:"attempts"`

	// The number of attempts that a policy has asked for after a failure.
	ItemRetries int `json:"item_retries"`

	StepRetries int `json:"step_retries"`
	Stragglers  int `json:"stragglers,omitempty"`
	DeadLetters int `json:"dead_letters"`

	// How often breakers have opened, by their scope.
	Openings map[string]int `json:"breaker_openings"`

	// The most attempts at items at a time.
	AtOnce int `json:"most_at_once"`

	// The lowest limit of attempts at a time. It is the highest too, unless the concurrency adapts.
	LowestLimit int `json:"lowest_limit"`

	TopLimit int `json:"highest_limit"`

	// How long as many attempts ran as may.
	AtLimit events.Millis `json:"at_limit_ms"`

	// How long no attempt might start, because of windows or a guard.
	Held events.Millis `json:"held_ms"`

	// The number of items whose work was merged, of a job with workspaces.
	Merged int `json:"merged,omitempty"`

	Conflicts int `json:"conflicts,omitempty"`

	// The number of runs of the steps that verify what was merged.
	Verified int `json:"verified,omitempty"`

	// The number of items that were left out, because these steps fail with them.
	Unverified int `json:"verify_failed,omitempty"`

	Verifying events.Millis `json:"verifying_ms,omitempty"`

	// How often agents began to wait for the limit of a plan to reset.
	Pauses int `json:"quota_pauses,omitempty"`

	Paused events.Millis `json:"quota_paused_ms,omitempty"`

	// Job is the job after the records so far.
	Job *view.Job `json:"-"`

	// Since the last record, at its time: how many attempts run.
	last    time.Time
	running int
}

// NewTally returns a Tally of no records.
func NewTally() *Tally {
	j := view.New()
	return &Tally{Openings: j.Openings, Job: j}
}

// Observe adds records.
func (t *Tally) Observe(records []events.Record) {
	for _, r := range records {
		t.Apply(r)
	}
}

// Apply adds a record.
func (t *Tally) Apply(r events.Record) {
	j := t.Job
	if passed := events.Millis(r.Time.Sub(t.last)); !t.last.IsZero() {
		if n := j.Slots(); n > 0 && t.running >= n {
			t.AtLimit += passed
		}
		if len(j.StartsHeld()) > 0 {
			t.Held += passed
		}
		if len(j.Paused()) > 0 {
			t.Paused += passed
		}
	}
	j.Apply(r)
	t.last, t.running = r.Time, j.Running(r.Time)
	switch e := r.Event.(type) {
	case events.AgentStarted:
		t.Attempts++
		t.AtOnce = max(t.AtOnce, t.running)
	case events.VerifyCompleted:
		t.Verified++
		t.Verifying += e.DurationMS
	case events.QuotaPaused:
		t.Pauses++
	}
	if end, ok := events.EndOf(r.Event); ok { // of an attempt, or the rejection of its work
		switch end.Type {
		case retry.TypeMergeConflict:
			t.Conflicts++
		case retry.TypeVerifyFailed:
			t.Unverified++
		}
		if end.How == events.Failed && !end.Settles {
			t.ItemRetries++
		}
	}
	t.Stragglers, t.Merged, t.DeadLetters = j.Stragglers.Found, j.Merged, j.Counts.DeadLetters()
	t.StepRetries = j.Retries - t.ItemRetries
	if n := j.Slots(); n > 0 {
		t.LowestLimit, t.TopLimit = min(cmp.Or(t.LowestLimit, n), n), max(t.TopLimit, n)
	}
}

// Words returns what was counted, a line for each thing that happened. merges says that items are merged.
func (t *Tally) Words(merges bool) (lines []string) {
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if t.Attempts > 0 {
		line("starts: %s of items, at most %d at a time", check.Counted(t.Attempts, "attempt"), t.AtOnce)
	}
	if t.Job.Retries > 0 {
		line("%s (%d item attempts, %d step attempts)", view.RetryCounts(t.Job, ""), t.ItemRetries, t.StepRetries)
	}
	if t.Stragglers > 0 {
		line("stragglers: %s", t.Job.Stragglers.Words())
	}
	if t.DeadLetters > 0 {
		line("dead letters: %d", t.DeadLetters)
	}
	if len(t.Openings) > 0 {
		var scopes []string
		for scope, n := range check.ByKey(t.Openings) {
			scopes = append(scopes, fmt.Sprintf("%s %d", term.Visible(scope), n))
		}
		line("circuit breakers opened %s: %s", check.Counted(t.Opened(), "time"), check.Few(scopes, 5))
	}
	if t.AtLimit > 0 {
		slots := strconv.Itoa(t.TopLimit)
		if t.LowestLimit != t.TopLimit {
			slots = fmt.Sprintf("%d to %d", t.LowestLimit, t.TopLimit)
		}
		line("at full concurrency (%s): %s", slots, duration.Seconds(t.AtLimit))
	}
	if t.Held > 0 {
		line("outside windows, nothing started: %s", duration.Seconds(t.Held))
	}
	if merges {
		text := "merged: " + check.Counted(t.Merged, "item")
		if t.Conflicts > 0 {
			text += ", " + check.Counted(t.Conflicts, "conflict")
		}
		if t.Verified > 0 {
			text += fmt.Sprintf(", verified %s in %s", check.Counted(t.Verified, "time"), duration.Seconds(t.Verifying))
		}
		line("%s%s", text, check.Some(", %d rejected by verify", t.Unverified))
	}
	if t.Pauses > 0 {
		line("waited %s for %s to reset", duration.Seconds(t.Paused), check.Counted(t.Pauses, "limit"))
	}
	return lines
}

// Opened returns how often breakers have opened in all.
func (t *Tally) Opened() int {
	n := 0
	for _, times := range t.Openings {
		n += times
	}
	return n
}
