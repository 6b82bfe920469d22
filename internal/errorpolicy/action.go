package errorpolicy

// Action is what happens to a failed item. The row in actions holds everything about it.
type Action string

const (
	DLQ    Action = "dlq"
	Retry  Action = "retry"
	Skip   Action = "skip"
	Stop   Action = "stop"   // dead-lettered, and the job stops
	Custom Action = "custom" // only in a workflow: an outcome is decided as Skip or DLQ
)

// actionRow is one action: its name in workflows, what it does to the item and the job, and its note in explanations.
type actionRow struct {
	action  Action
	written string // as on_item_failure has it
	again   bool   // the item runs again: it keeps its status, and the rest of the row does not apply
	status  Status // of the item from then on; Dead makes it a dead letter
	failed  bool   // counts for max_failures and failure_threshold
	stops   bool   // the job stops
	note    string // what an explanation adds to "action x: reason"
}

var actions = []actionRow{
	{action: DLQ, written: "dlq", status: Dead, failed: true},
	{action: Retry, written: "retry", again: true},
	{action: Skip, written: "skip", status: Skipped},
	{
		action: Stop, written: "stop", status: Dead, failed: true, stops: true,
		note: "the item is dead-lettered and the job stops",
	},
	{action: Custom, written: "custom:<handler>"},
}

// Actions returns the words that on_item_failure takes, without those that need a handler.
func Actions() []Action {
	var words []Action
	for _, r := range actions {
		if r.written == string(r.action) {
			words = append(words, r.action)
		}
	}
	return words
}

// row returns the row of a, that of DLQ when there is none.
func (a Action) row() actionRow {
	for _, r := range actions {
		if r.action == a {
			return r
		}
	}
	return actions[0]
}

// Known reports whether there is such an action.
func (a Action) Known() bool { return a.row().action == a }

// RunsAgain reports whether the item is run again, so that the failure is not final.
func (a Action) RunsAgain() bool { return a.row().again }

// Status returns how the item is counted after the action; Pending when it runs again.
func (a Action) Status() Status { return a.row().status }

// Note returns what an explanation of the action adds to its name and reason, or "".
func (a Action) Note() string { return a.row().note }
