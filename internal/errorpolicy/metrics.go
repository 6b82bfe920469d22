package errorpolicy

import (
	"cmp"
	"slices"

	"prodigy/internal/retry"
)

// Metrics are the counts of a job. Each item is successful, failed, skipped, rejected or pending, by its
// latest outcome. ErrorTypes and FailurePatterns are history: they count all final failures and rejections,
// including skipped items but not retried tries, and do not go down when a dead letter succeeds later.
type Metrics struct {
	TotalItems int `json:"total_items"` // until it is known: the items that are no longer pending
	Outcomes

	// failed / (successful + failed + skipped), 0 when nothing finished
	FailureRate float64 `json:"failure_rate"`

	ErrorTypes      map[retry.Type]int `json:"error_types"`
	FailurePatterns []Pattern          `json:"failure_patterns"`
}

// Outcomes are the numbers of items by outcome. A retried dead letter counts by its last outcome.
type Outcomes struct {
	Successful int `json:"successful"`
	Failed     int `json:"failed"`
	Skipped    int `json:"skipped"`
	Rejected   int `json:"rejected"`
}

// Finished returns the number of items that have an outcome.
func (o Outcomes) Finished() int { return o.Successful + o.Unsuccessful() }

// Unsuccessful returns the number of those that did not succeed.
func (o Outcomes) Unsuccessful() int { return o.DeadLetters() + o.Skipped }

// DeadLetters returns the number of those that are dead letters.
func (o Outcomes) DeadLetters() int { return o.Failed + o.Rejected }

// Move counts an item that had one status, and now has another.
func (o *Outcomes) Move(before, after Status) {
	if n := o.of(before); n != nil && *n > 0 {
		*n--
	}
	if n := o.of(after); n != nil {
		*n++
	}
}

// of returns the number in which items with status s are counted, or nil for Pending, which has none.
func (o *Outcomes) of(s Status) *int {
	return [...]*int{Succeeded: &o.Successful, Dead: &o.Failed, Skipped: &o.Skipped, Rejected: &o.Rejected}[s]
}

// Pattern is a type of error that came at least three times.
type Pattern struct {
	PatternType     retry.Type `json:"pattern_type"`
	Frequency       int        `json:"frequency"`
	Items           []string   `json:"items"` // the first 100
	SuggestedAction string     `json:"suggested_action"`
}

const (
	patternFrequency = 3   // from which on errors of a type are a pattern
	patternItems     = 100 // that a pattern names
)

// suggestions says what to do about a type of error. All other types have defaultSuggestion.
var suggestions = map[retry.Type]string{
	retry.TypeTimeout:    "Consider increasing agent_timeout_secs in timeout_config",
	retry.TypeNetwork:    "Check network connectivity and retry settings",
	retry.TypePermission: "Verify file permissions and access rights",
}

const defaultSuggestion = "Review error logs for more details"

// tally counts the errors of one type.
type tally struct {
	Count int      `json:"count"`
	Items []string `json:"items"` // the first patternItems
}

// counts is how many items there are of each status but Pending.
type counts [Rejected + 1]int

// move moves an item from the count of before to that of after.
func (c *counts) move(before, after Status) {
	if before != Pending {
		c[before]--
	}
	c[after]++
}

// finished returns how many items have an outcome of their own: a rejected item was not run.
func (c *counts) finished() int { return c[Succeeded] + c[Dead] + c[Skipped] }

// settled returns how many items are not pending.
func (c *counts) settled() int { return c.finished() + c[Rejected] }

// Metrics returns the counts so far. Its map and lists are never nil, and the caller's own.
func (m *Machine) Metrics() Metrics {
	metrics := Metrics{
		TotalItems:  m.Counts.settled(),
		Outcomes:    Outcomes{m.Counts[Succeeded], m.Counts[Dead], m.Counts[Skipped], m.Counts[Rejected]},
		FailureRate: share(m.Counts[Dead], m.Counts.finished()),
		ErrorTypes:  map[retry.Type]int{}, FailurePatterns: []Pattern{},
	}
	if m.TotalKnown {
		metrics.TotalItems = m.Total
	}
	for typ, e := range m.Errors {
		metrics.ErrorTypes[typ] = e.Count
		if e.Count >= patternFrequency {
			metrics.FailurePatterns = append(metrics.FailurePatterns, Pattern{
				PatternType: typ, Frequency: e.Count, Items: slices.Clone(e.Items),
				SuggestedAction: cmp.Or(suggestions[typ], defaultSuggestion),
			})
		}
	}
	slices.SortFunc(metrics.FailurePatterns, func(a, b Pattern) int {
		return cmp.Or(cmp.Compare(b.Frequency, a.Frequency), cmp.Compare(a.PatternType, b.PatternType))
	})
	return metrics
}

func share(failed, finished int) float64 {
	if finished == 0 {
		return 0
	}
	return float64(failed) / float64(finished)
}
