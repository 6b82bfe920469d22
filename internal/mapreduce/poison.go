package mapreduce

import (
	"fmt"
	"maps"
	"slices"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// quarantine dead-letters the items that were in flight each time the run died, once that has happened too often: one of them may be
// what kills it, and would kill the next run as well.
func (j *job) quarantine() {
	if j.config.MaxCrashes <= 0 {
		return
	}
	indexes := slices.Sorted(maps.Keys(j.state.Crashes))
	for _, index := range indexes {
		n := j.state.Crashes[index]
		w, waits := j.state.Waiting[index] // an attached one does not
		if !waits || n < j.config.MaxCrashes || j.state.Status.At(index) != errorpolicy.Pending || index >= j.store.Len() {
			continue
		}
		message := fmt.Sprintf("in flight each time the run died, %d times", n)
		j.recordFailed(events.AgentFailed{
			ItemID: w.ID, ItemIndex: index, Attempt: w.Number, Error: message, ErrorType: retry.TypeKilledRunner,
			ErrorSignature: retry.Signature(message), Action: errorpolicy.DLQ,
		}, "")
	}
}
