package mapreduce

import (
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// snapshot is all of a state, as a checkpoint has it. A field that a state gets belongs here too.
type snapshot struct {
	Policy   *errorpolicy.Machine `json:"policy"` // without what the workflow says
	Started  time.Time            `json:"started"`
	Seq      int64                `json:"seq"`
	Outcome  int64                `json:"outcome"`
	Earlier  time.Duration        `json:"earlier"`
	RunBegan time.Time            `json:"run_began"`
	Last     time.Time            `json:"last"`
	Seed     uint64               `json:"seed"`
	Mode     string               `json:"mode"`
	Workflow string               `json:"workflow"`

	Phases   map[string]phaseSnapshot     `json:"phases"`
	Working  string                       `json:"working"`
	Status   errorpolicy.Statuses         `json:"status"`
	Flights  map[int]flightSnapshot       `json:"flights"`
	Waiting  map[int]triesSnapshot        `json:"waiting"`
	Retrying map[string]stepRetrySnapshot `json:"retrying"`
	Crashes  map[int]int                  `json:"crashes"`
	Failures map[int]int                  `json:"failures"`
	LastTry  map[int]int                  `json:"last_try"`
	Circuits circuits                     `json:"circuits"`
	Total    int                          `json:"total"`
	Selected bool                         `json:"selected"`
	Reducing bool                         `json:"reducing"`

	Ended  State  `json:"ended"`
	Reason string `json:"reason"`
}

type phaseSnapshot struct {
	Began     time.Duration          `json:"began"`
	Started   bool                   `json:"started"`
	Completed bool                   `json:"completed"`
	Duration  time.Duration          `json:"duration"`
	Steps     []events.StepCompleted `json:"steps,omitempty"`
}

type flightSnapshot struct {
	ID     string         `json:"id"`
	Number int            `json:"number"`
	Ticket breaker.Ticket `json:"ticket"`
	Tries  retry.State    `json:"tries"`
}

type triesSnapshot struct {
	ID     string      `json:"id"`
	Number int         `json:"number"`
	Due    time.Time   `json:"due"`
	State  retry.State `json:"state"`
}

type stepRetrySnapshot struct {
	Event events.StepRetrying `json:"event"`
	Due   time.Time           `json:"due"`
}

// snapshot returns all of the state. It shares memory with it, and so is to be written down before the state goes on.
func (s *state) snapshot() snapshot {
	return snapshot{
		Policy: s.policy, Started: s.started, Seq: s.seq, Outcome: s.outcome, Earlier: s.earlier, RunBegan: s.runBegan, Last: s.last, Seed: s.seed, Mode: s.mode,
		Workflow: s.workflow, Working: s.working, Crashes: s.crashes, Failures: s.failures, LastTry: s.lastTry, Circuits: s.circuits,
		Total: s.total, Selected: s.selected, Reducing: s.reducing, Ended: s.ended, Reason: s.reason,
		Status: s.status,
		Phases: each(s.phases, func(p *phase) phaseSnapshot {
			return phaseSnapshot{p.began, p.started, p.completed, p.duration, p.steps}
		}),
		Flights:  each(s.flights, func(f flight) flightSnapshot { return flightSnapshot{f.id, f.number, f.ticket, f.tries} }),
		Waiting:  each(s.waiting, func(t tries) triesSnapshot { return triesSnapshot{t.id, t.number, t.due, t.state} }),
		Retrying: each(s.retrying, func(r stepRetry) stepRetrySnapshot { return stepRetrySnapshot{r.StepRetrying, r.due} }),
	}
}

// state returns the state that the snapshot is of. The snapshot was read into one that had the machine of its policy.
func (r snapshot) state() *state {
	return &state{
		policy: r.Policy, started: r.Started, seq: r.Seq, outcome: r.Outcome, earlier: r.Earlier, runBegan: r.RunBegan, last: r.Last, seed: r.Seed, mode: r.Mode,
		workflow: r.Workflow, working: r.Working,
		total: r.Total, selected: r.Selected, reducing: r.Reducing, ended: r.Ended, reason: r.Reason,
		status: r.Status, crashes: each(r.Crashes, same), failures: each(r.Failures, same), lastTry: each(r.LastTry, same),
		circuits: each(r.Circuits, same),
		phases:   each(r.Phases, func(p phaseSnapshot) *phase { return &phase{p.Began, p.Started, p.Completed, p.Duration, p.Steps} }),
		flights:  each(r.Flights, func(f flightSnapshot) flight { return flight{f.ID, f.Number, f.Ticket, f.Tries} }),
		waiting:  each(r.Waiting, func(t triesSnapshot) tries { return tries{t.ID, t.Number, t.Due, t.State} }),
		retrying: each(r.Retrying, func(r stepRetrySnapshot) stepRetry { return stepRetry{r.Event, r.Due} }),
	}
}

// clone returns another state that is the same, of the same policy.
func (s *state) clone(p errorpolicy.Policy) (*state, error) {
	sum, err := sumOf(p)
	if err != nil {
		return nil, err
	}
	data, err := checkpoint{State: s.snapshot(), Mark: events.Mark{Seq: s.seq}, Policy: sum}.encode()
	if err != nil {
		return nil, err
	}
	c, err := decodeCheckpoint(data, p)
	if err != nil {
		return nil, err
	}
	return c.State.state(), nil
}

// each returns a map of what f makes of the values of m, never nil.
func each[K comparable, A, B any](m map[K]A, f func(A) B) map[K]B {
	made := make(map[K]B, len(m))
	for k, v := range m {
		made[k] = f(v)
	}
	return made
}

func same[T any](v T) T { return v }

// details is how many items a state knows more of than how they ended. Eight that are but numbers take the room of one that is more.
func (s *state) details() int {
	return len(s.flights) + len(s.waiting) + len(s.retrying) + (len(s.crashes)+len(s.failures)+len(s.lastTry))/8
}
