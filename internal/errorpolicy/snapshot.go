package errorpolicy

import (
	"encoding/json"
	"errors"

	"prodigy/internal/breaker"
	"prodigy/internal/retry"
)

// snapshot is the state of a machine, without its policy.
type snapshot struct {
	Breaker    *breaker.Breaker            `json:"breaker"`
	Total      int                         `json:"total"`
	TotalKnown bool                        `json:"total_known"`
	Counts     counts                      `json:"counts"`
	Errors     map[retry.Type]errorsOfType `json:"errors"`
	Batch      []BatchError                `json:"batch"`
	Failed     int                         `json:"failed"`
	Finished   int                         `json:"finished"`
	Before     int                         `json:"settled_before"`
	Stop       string                      `json:"stop"`
}

// errorsOfType is the JSON form of a tally.
type errorsOfType struct {
	Count int      `json:"count"`
	Items []string `json:"items"`
}

// MarshalJSON encodes the state of the machine, without its policy.
func (m *Machine) MarshalJSON() ([]byte, error) {
	s := snapshot{
		Breaker: m.breaker, Total: m.total, TotalKnown: m.totalKnown, Counts: m.counts, Errors: map[retry.Type]errorsOfType{}, Batch: m.batch,
		Failed: m.thresholds.failed, Finished: m.thresholds.finished, Before: m.thresholds.settledBefore, Stop: m.stop,
	}
	for typ, t := range m.errors {
		s.Errors[typ] = errorsOfType{t.count, t.items}
	}
	return json.Marshal(s)
}

// UnmarshalJSON restores the state of a machine with the same policy.
func (m *Machine) UnmarshalJSON(data []byte) error {
	s := snapshot{Breaker: newBreaker(m.policy)}
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s.Breaker == nil {
		return errors.New("no breaker")
	}
	*m = Machine{
		policy: m.policy, breaker: s.Breaker, total: s.Total, totalKnown: s.TotalKnown, counts: s.Counts, errors: map[retry.Type]*tally{}, batch: s.Batch,
		thresholds: thresholds{s.Failed, s.Finished, s.Before}, stop: s.Stop,
	}
	for typ, t := range s.Errors {
		m.errors[typ] = &tally{t.Count, t.Items}
	}
	return nil
}
