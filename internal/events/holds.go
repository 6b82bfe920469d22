package events

// A Hold is what keeps a job, or some of its starts, from going on until it is lifted.
type Hold struct {
	Name   string // of which one can be in force at a time
	Lifted bool
}

// Names of holds, besides those that StartsHeld gives, and the gates of quotas.
const (
	ByPerson  = "person"
	ByEnd     = "end" // somebody wants the run to end
	ByRollout = "rollout"
	ByRetries = "retries"
	ByBudget  = "budget"
)

// HoldOf returns the hold that an event begins or lifts. It reports false for other events.
func HoldOf(e Event) (Hold, bool) {
	switch e := e.(type) {
	case PauseRequested:
		return Hold{Name: ByPerson}, true
	case ContinueRequested:
		return Hold{ByPerson, true}, true
	case DrainRequested, StopRequested, CancelRequested:
		return Hold{Name: ByEnd}, true
	case StartsHeld:
		return Hold{Name: e.By}, true
	case StartsAllowed:
		return Hold{e.By, true}, true
	case RolloutStage:
		return Hold{ByRollout, e.Name == ""}, true
	case RetriesHeld:
		return Hold{Name: ByRetries}, true
	case RetriesAllowed:
		return Hold{ByRetries, true}, true
	case QuotaPaused:
		return Hold{Name: "agents of " + e.Gate()}, true
	case QuotaResumed:
		return Hold{"agents of " + e.Gate(), true}, true
	case BudgetReached:
		return Hold{Name: ByBudget}, true
	}
	return Hold{}, false
}

// Ending is how a run is about to end, because somebody wants that. The zero Ending is of a run that goes on.
type Ending struct {
	How string `json:"how"` // draining, stopping or cancelling

	// The name of the user, or the reason of a stop.
	By string `json:"by"`
}

// EndingOf returns the ending that an event begins. It reports false for other events.
func EndingOf(e Event) (Ending, bool) {
	switch e := e.(type) {
	case DrainRequested:
		return Ending{"draining", e.By}, true
	case StopRequested:
		return Ending{"stopping", e.Reason}, true
	case CancelRequested:
		return Ending{"cancelling", e.By}, true
	}
	return Ending{}, false
}

// Words says it in the middle of a sentence. They are empty for the zero Ending.
func (e Ending) Words() string {
	switch e.How {
	case "draining":
		return "draining, as " + e.By + " asked"
	case "stopping":
		return "stopping: " + e.By
	case "cancelling":
		return "being cancelled by " + e.By
	}
	return ""
}
