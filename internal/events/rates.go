package events

import "slices"

// StartRate is how often agents, or a step of them, start at most.
type StartRate struct {
	Limit     string  `json:"limit"` // such as 40/s
	PerSecond float64 `json:"per_second"`
	Per       string  `json:"per,omitempty"`  // as the workflow writes it: those for which it is the same have the limit for themselves
	Step      string  `json:"step,omitempty"` // empty: agents
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

func clippedRates(rates []StartRate) []StartRate {
	rates = slices.Clone(rates)
	for i, r := range rates {
		rates[i].Limit, rates[i].Per, rates[i].Step = Clip(r.Limit, MaxError), Clip(r.Per, MaxError), Clip(r.Step, MaxError)
	}
	return rates
}
