package breaker

import (
	"encoding/json"
	"time"
)

// snapshot is the state of a breaker, without its configuration.
type snapshot struct {
	State     State     `json:"state"`
	Failures  int       `json:"failures"`
	Successes int       `json:"successes"`
	Testing   int       `json:"testing"`
	Epoch     int       `json:"epoch"`
	Until     time.Time `json:"until"`
}

// MarshalJSON encodes the state of the breaker, without its configuration.
func (b *Breaker) MarshalJSON() ([]byte, error) {
	return json.Marshal(snapshot{b.state, b.failures, b.successes, b.testing, b.epoch, b.until})
}

// UnmarshalJSON restores the state of a breaker with the same configuration.
func (b *Breaker) UnmarshalJSON(data []byte) error {
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*b = Breaker{b.config, s.State, s.Failures, s.Successes, s.Testing, s.Epoch, s.Until}
	return nil
}

// ticket is the JSON form of a Ticket.
type ticket struct {
	Epoch int  `json:"epoch"`
	Test  bool `json:"test,omitempty"`
}

// MarshalJSON encodes the ticket.
func (t Ticket) MarshalJSON() ([]byte, error) { return json.Marshal(ticket{t.epoch, t.test}) }

// UnmarshalJSON decodes what MarshalJSON encoded.
func (t *Ticket) UnmarshalJSON(data []byte) error {
	var read ticket
	err := json.Unmarshal(data, &read)
	*t = Ticket{read.Epoch, read.Test}
	return err
}
