package workflow

import (
	"fmt"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// ReduceWhen says when reduce and merge run after a map phase in which not all items succeeded. All of its
// conditions must hold.
type ReduceWhen struct {
	// success rate of all items, from 0 to 1 or with `%`, such as `>= 0.95` or `>= 95%`
	SuccessRate *Bound `yaml:"success_rate" required:"some"`

	Successful *Bound `yaml:"successful" required:"some"` // number of items that succeeded, such as `>= 100`

	// number of items that did not succeed (dead letters, skipped and rejected ones), such as `<= 3`
	Failed *Bound `yaml:"failed" required:"some"`
}

// Bound is a comparison with a number.
type Bound struct {
	Operator string // >=, >, <= or <
	Value    float64
	Written  string
}

// Holds reports whether the comparison is true of v.
func (b Bound) Holds(v float64) bool {
	switch b.Operator {
	case ">=":
		return v >= b.Value
	case ">":
		return v > b.Value
	case "<=":
		return v <= b.Value
	}
	return v < b.Value
}

// Conditions returns the conditions as they are written.
func (w *ReduceWhen) Conditions() []string {
	var all []string
	for _, c := range w.named() {
		if c.bound != nil {
			all = append(all, c.name+" "+c.bound.Written)
		}
	}
	return all
}

type namedBound struct {
	name  string
	bound *Bound
}

func (w *ReduceWhen) named() []namedBound {
	if w == nil {
		return nil
	}
	return []namedBound{{"success_rate", w.SuccessRate}, {"successful", w.Successful}, {"failed", w.Failed}}
}

// Unmet returns the first condition that does not hold when so many of all items succeeded, and what is the
// case instead, or "". A nil w has no conditions.
func (w *ReduceWhen) Unmet(successful, total int) string {
	if total == 0 {
		return ""
	}
	values := map[string]float64{
		"success_rate": float64(successful) / float64(total),
		"successful":   float64(successful), "failed": float64(total - successful),
	}
	for _, c := range w.named() {
		if c.bound != nil && !c.bound.Holds(values[c.name]) {
			return fmt.Sprintf("%d of %d items succeeded, reduce_when requires %s %s", successful, total,
				c.name, c.bound.Written)
		}
	}
	return ""
}

// Check finds what is wrong with w.
func (w *ReduceWhen) Check(found *check.Findings) {
	for _, c := range w.named() {
		if c.bound == nil {
			continue
		}
		rate, written := c.name == "success_rate", c.bound.Written
		found.Require(!rate || c.bound.Value <= 1, c.name,
			"success_rate: %s must be between 0 and 1, or 0%% and 100%%", written)
		found.Require(rate || !strings.HasSuffix(written, "%"), c.name, "%s: %v", c.name, noBound(written))
	}
}

// ReadText reads a comparison such as ">= 0.95" or ">= 95%".
func (b *Bound) ReadText(text string) error {
	written := strings.TrimSpace(text)
	for op := range strings.FieldsSeq(">= <= > <") {
		number, found := strings.CutPrefix(written, op)
		if !found {
			continue
		}
		digits, percent := strings.CutSuffix(strings.TrimSpace(number), "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || v < 0 || strings.ContainsAny(digits, "xXpPnNiI_") {
			break
		}
		if percent {
			v /= 100
		}
		*b = Bound{Operator: op, Value: v, Written: written}
		return nil
	}
	return noBound(text)
}

func noBound(text string) error {
	return fmt.Errorf(`expected a comparison such as ">= 0.95", got %q`, text)
}
