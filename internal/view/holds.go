package view

import (
	"fmt"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/limit"
)

// IsHeld reports whether a hold is in force.
func (j *Job) IsHeld(name string) bool { return j.held[name].Event != nil }

// Hold is a pause that a person asked for, which lasts until the job is continued or resumed.
type Hold struct {
	By    string
	Since time.Time
}

// Hold returns the pause that a person asked for, or nil.
func (j *Job) Hold() *Hold {
	r := j.held[events.ByPerson]
	if e, ok := r.Event.(events.PauseRequested); ok {
		return &Hold{By: e.By, Since: r.Time}
	}
	return nil
}

// Words says who has paused the job and since when.
func (h Hold) Words(now time.Time) string {
	return fmt.Sprintf("by %s for %s, since %s", h.By, duration.Format(max(0,
		now.Sub(h.Since)).Truncate(time.Second)), h.Since.Local().Format(time.TimeOnly))
}

// Stopping says who has asked for the end of the run, or has cancelled the job; it is empty if nobody has.
func (j *Job) Stopping() string {
	ending, _ := events.EndingOf(j.held[events.ByEnd].Event)
	return ending.Words()
}

// StartsHeld returns what holds back all starts, by its name.
func (j *Job) StartsHeld() []events.StartsHeld { return heldBy[events.StartsHeld](j) }

// heldBy returns the events of one type that hold the job back, by the names of their holds.
func heldBy[E events.Event](j *Job) (list []E) {
	for _, r := range check.ByKey(j.held) {
		if e, ok := r.Event.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

// Budget returns what AI agents have spent, if that allows no further one.
func (j *Job) Budget() *limit.JobSpent {
	if e, ok := j.held[events.ByBudget].Event.(events.BudgetReached); ok {
		spent := e.Spent()
		return &spent
	}
	return nil
}

// Holding says what keeps the job from going on, beginning with what people have asked for.
func (j *Job) Holding(now time.Time) (list []string) {
	if ending := j.Stopping(); ending != "" {
		list = append(list, ending)
	} else if h := j.Hold(); h != nil {
		list = append(list, "paused "+h.Words(now))
	}
	for _, e := range j.StartsHeld() {
		list = append(list, e.Words(now))
	}
	if e, ok := j.held[events.ByRollout].Event.(events.RolloutStage); ok && j.AtItems() {
		list = append(list, e.Words())
	}
	if e, ok := j.held[events.ByRetries].Event.(events.RetriesHeld); ok {
		list = append(list, e.Words())
	}
	for _, p := range j.Paused() {
		list = append(list, "paused: "+p.Words(now))
	}
	return list
}

// Paused returns the pauses that agents of the job are in, by what waits.
func (j *Job) Paused() []events.QuotaPaused { return heldBy[events.QuotaPaused](j) }
