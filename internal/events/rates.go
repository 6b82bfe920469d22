package events

// StartRate is how often agents, or a step of them, start at most.
type StartRate struct {
	Limit     string  `json:"limit" log:"clip"` // such as 40/s
	PerSecond float64 `json:"per_second"`

	// As the workflow writes it: those for which it is the same have the limit for themselves.
	Per string `json:"per,omitempty" log:"clip"`

	Step string `json:"step,omitempty" log:"clip"` // empty: agents
}

// Words returns the limit, for people.
func (r StartRate) Words() string {
	text := r.Limit
	if r.Per != "" {
		text += " for each " + r.Per
	}
	if r.Step != "" {
		text = "step " + r.Step + ": " + text
	}
	return text
}
