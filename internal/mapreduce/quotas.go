package mapreduce

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/limit"
)

// starts are the AI coding CLIs of a job that were admitted: by the gates of their pools, and by the budget.
// They are used by the goroutines of the attempts. The lock is held while events are emitted, so that the log
// has them in order.
type starts struct {
	mu      sync.Mutex
	presets ai.Set
	gates   map[gateKey]*gate
	ledger  *limit.Ledger
	open    map[int64]start // by the ID of their tickets
	ends    atomic.Int64    // how many of those have ended
	ended   chan struct{}   // gets a value when one has

	reached bool  // the budget of the job is spent, and that was recorded
	stop    error // no agent starts any more that has to wait: the job stops
}

// gateKey names a gate: a limit holds for a whole plan, or for its models with a name like model.
type gateKey struct{ pool, model string }

// gate is the gate of one limit.
type gate struct {
	limit.Gate
	steps map[string]bool // of one that is for a model: the models of steps that have met it, whatever their names are
	auth  bool            // agents could not log in the last time
}

// start is an admitted start that was not reported yet.
type start struct {
	ask   agent.AgentAsk
	gates map[gateKey]limit.GateTicket
	grant limit.Grant
}

// restore begins where the run before ended: gates that it left closed, and what has been spent.
func (s *starts) restore(presets ai.Set, paused map[string]events.QuotaPaused, b limit.Budget, spent limit.Account) {
	s.presets, s.gates, s.open = presets, map[gateKey]*gate{}, map[int64]start{}
	s.ended = make(chan struct{}, 1)
	for _, e := range paused {
		g := s.gate(gateKey{e.Pool, e.Model})
		g.Restore(e.Until)
		g.steps[e.Step] = e.Model != ""
	}
	s.ledger = limit.NewLedger(b, spent)
}

func (s *starts) gate(k gateKey) *gate {
	if s.gates[k] == nil {
		s.gates[k] = &gate{steps: map[string]bool{}}
	}
	return s.gates[k]
}

// pool returns the pool of the agents of a preset.
func (s *starts) pool(preset string) string {
	if p := s.presets[preset]; p != nil {
		return p.PoolName()
	}
	return preset
}

// model returns the part of the names of models that a limit of a preset holds for; empty if it holds for all.
func (s *starts) model(preset, scope string) string {
	if p := s.presets[preset]; p != nil {
		return p.Models[scope]
	}
	return ""
}

// before returns the gates that an agent has to pass: that of its pool, and those of its model.
func (s *starts) before(ask agent.AgentAsk) []gateKey {
	pool := s.pool(ask.Preset)
	keys := []gateKey{{pool: pool}}
	for k, g := range s.gates {
		if k.pool == pool && k.model != "" &&
			(g.steps[ask.Model] || strings.Contains(strings.ToLower(ask.Model), strings.ToLower(k.model))) {
			keys = append(keys, k)
		}
	}
	return keys
}

// admit asks the gates and the ledger at once, so that nobody holds one while it waits for another. Without a
// ticket it says how long to wait.
func (s *starts) admit(item int, ask agent.AgentAsk, now time.Time) (t agent.AgentTicket, wait time.Duration,
	err error,
) {
	st := start{ask: ask, gates: map[gateKey]limit.GateTicket{}}
	for _, k := range s.before(ask) {
		ticket, wait := s.gate(k).Admit(now, ask.Inside != 0)
		if wait > 0 {
			s.release(st)
			return t, wait, s.stop
		}
		st.gates[k] = ticket
	}
	grant, busy, err := s.ledger.Admit(limit.Ask{Item: item, Step: ask.Step, Max: ask.MaxCost})
	if busy || err != nil {
		s.release(st)
		return t, limit.EndWait, err // the money that others have reserved
	}
	st.grant = grant
	s.open[grant.ID] = st
	return agent.AgentTicket{ID: grant.ID, Cap: grant.Cap, Assumed: grant.Assumed}, 0, nil
}

// release gives the gates of a start back.
func (s *starts) release(st start) {
	for k, ticket := range st.gates {
		s.gate(k).Release(ticket)
	}
}

// close ends a start. It reports false if there is none with that ticket.
func (s *starts) close(t agent.AgentTicket) (start, bool) {
	st, ok := s.open[t.ID]
	delete(s.open, t.ID)
	s.free(t)
	return st, ok
}

// free gives back the money of a start, and has those that wait for an end ask again.
func (s *starts) free(t agent.AgentTicket) {
	s.ledger.Release(t.ID)
	s.ends.Add(1)
	check.Wake(s.ended)
}
