package limit

import (
	"fmt"
	"maps"
	"strings"

	"prodigy/internal/check"
)

// Tokens are counts of tokens. Input includes neither Cached nor Output.
type Tokens struct {
	Input  int64 `json:"input"`
	Cached int64 `json:"cached"`
	Output int64 `json:"output"`
}

// All returns the number of all tokens.
func (t Tokens) All() Count { return Count(t.Input + t.Cached + t.Output) }

// Use is what one attempt of an agent step has used.
type Use struct {
	Preset, Outcome string
	Cost            *USD    // nil if it is unknown
	Partial         bool    // it was cut off: it may have used more
	Assumed         USD     // with an unknown cost: what it may have cost at most
	Tokens          *Tokens // nil if they are unknown
	Stopped         bool    // the stop of a run ended it: its item goes on, and has the same limit as before
}

// Sum is what several attempts have used.
type Sum struct {
	Agents  int    `json:"agents"`                 // attempts of agent steps
	Cost    USD    `json:"cost_usd,omitzero"`      // of those whose cost is known
	Unknown int    `json:"cost_unknown,omitempty"` // those whose cost is not
	Partial int    `json:"cost_partial,omitempty"` // those whose cost is known only until they were cut off
	Tokens  Tokens `json:"tokens,omitzero"`
	Untold  int    `json:"tokens_unknown,omitempty"` // those that did not say how many tokens they used

	// what those of unknown cost may have cost at most, as far as their caps say
	Assumed USD `json:"assumed_usd,omitzero"`

	Largest  USD   `json:"largest_usd,omitzero"` // the dearest of them
	LargestN Count `json:"largest_tokens,omitzero"`
}

// Add adds an attempt.
func (s *Sum) Add(u Use) {
	s.Agents++
	if u.Cost == nil {
		s.Unknown++
		s.Assumed += u.Assumed
	} else {
		s.Cost += *u.Cost
		s.Largest = max(s.Largest, *u.Cost)
		if u.Partial {
			s.Partial++
		}
	}
	if u.Tokens == nil {
		s.Untold++
		return
	}
	s.Tokens.Input += u.Tokens.Input
	s.Tokens.Cached += u.Tokens.Cached
	s.Tokens.Output += u.Tokens.Output
	s.LargestN = max(s.LargestN, u.Tokens.All())
}

// Known reports whether the cost of anything is known.
func (s Sum) Known() bool { return s.Agents > s.Unknown }

// CostText returns the cost for people. What is not known is said, and never counts as nothing.
func (s Sum) CostText() string {
	switch {
	case s.Agents == 0:
		return "$0.00"
	case !s.Known():
		return "unknown"
	case s.Unknown+s.Partial > 0:
		return "at least " + s.Cost.String()
	}
	return s.Cost.String()
}

// Doubt returns why the cost is not exact, or "".
func (s Sum) Doubt() string {
	var parts []string
	if s.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("%s of unknown cost", check.Counted(s.Unknown, "agent")))
	}
	if s.Partial > 0 {
		parts = append(parts, fmt.Sprintf("%s cut off", check.Counted(s.Partial, "agent")))
	}
	return strings.Join(parts, ", ")
}

// TokensText returns the tokens for people, as in "3.1M tokens in (62% cached), 0.2M out", or "" if none are known.
func (s Sum) TokensText() string {
	in := Count(s.Tokens.Input + s.Tokens.Cached)
	if s.Tokens.All() == 0 {
		return ""
	}
	cached := ""
	if s.Tokens.Cached > 0 {
		cached = fmt.Sprintf(" (%.0f%% cached)", 100*float64(s.Tokens.Cached)/float64(in))
	}
	return fmt.Sprintf("%s tokens in%s, %s out", in, cached, Count(s.Tokens.Output))
}

// Total is a Sum, and its parts.
type Total struct {
	Sum
	Outcomes map[string]Sum `json:"by_outcome,omitempty"`
	Presets  map[string]Sum `json:"by_preset,omitempty"`
}

// Add adds an attempt.
func (t *Total) Add(u Use) {
	t.Sum.Add(u)
	if t.Outcomes == nil {
		t.Outcomes, t.Presets = map[string]Sum{}, map[string]Sum{}
	}
	addTo(t.Outcomes, u.Outcome, u)
	addTo(t.Presets, u.Preset, u)
}

func addTo(m map[string]Sum, name string, u Use) {
	s := m[name]
	s.Add(u)
	m[name] = s
}

// Clone returns a copy that shares nothing with t.
func (t Total) Clone() Total {
	t.Outcomes, t.Presets = maps.Clone(t.Outcomes), maps.Clone(t.Presets)
	return t
}

// InVain returns what the attempts have cost that were no success.
func (t Total) InVain() Sum {
	var sum Sum
	for name, o := range check.ByKey(t.Outcomes) {
		if name != "success" {
			sum.Agents += o.Agents
			sum.Cost += o.Cost
			sum.Unknown += o.Unknown
			sum.Partial += o.Partial
		}
	}
	return sum
}

// Account is what a job has used, and what its items have by now. The zero value is ready to use.
type Account struct {
	Total Total                  `json:"total"`
	Map   Sum                    `json:"map"`             // of the agents of items
	Items map[int]map[string]USD `json:"items,omitempty"` // of items that have no end yet, by index and step
}

// Add adds an attempt at a step of an item. An index below 0 stands for the other phases.
func (a *Account) Add(item int, step string, u Use) {
	a.Total.Add(u)
	if item >= 0 {
		a.Map.Add(u)
	}
	var cost USD
	switch {
	case u.Cost != nil:
		cost = *u.Cost
	case !u.Stopped:
		cost = u.Assumed
	}
	if cost == 0 {
		return
	}
	if a.Items == nil {
		a.Items = map[int]map[string]USD{}
	}
	if a.Items[item] == nil {
		a.Items[item] = map[string]USD{}
	}
	a.Items[item][step] += cost
}

// Clone returns a copy that shares nothing with a.
func (a Account) Clone() Account {
	a.Total = a.Total.Clone()
	a.Items = maps.Clone(a.Items)
	for item, steps := range a.Items {
		a.Items[item] = maps.Clone(steps)
	}
	return a
}
