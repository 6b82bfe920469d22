package workflow

import (
	"fmt"
	"strconv"
	"strings"
)

// ReduceWhen says when reduce and merge run after a map phase in which not all items succeeded. All of its conditions must hold.
type ReduceWhen struct {
	SuccessRate *Bound `yaml:"success_rate"` // the part of all items that succeeded, from 0 to 1 or with `%`, such as `>= 0.95` or `>= 95%`
	Successful  *Bound `yaml:"successful"`   // the number of items that succeeded, such as `>= 100`
	Failed      *Bound `yaml:"failed"`       // the number of items that did not succeed, such as `<= 3`: dead letters, skipped and rejected ones
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

// Unmet returns the first condition that does not hold when so many of all items succeeded, and what is the case instead, or "". A nil w has no
// conditions.
func (w *ReduceWhen) Unmet(successful, total int) string {
	if total == 0 {
		return ""
	}
	values := map[string]float64{"success_rate": float64(successful) / float64(total), "successful": float64(successful), "failed": float64(total - successful)}
	for _, c := range w.named() {
		if c.bound != nil && !c.bound.Holds(values[c.name]) {
			return fmt.Sprintf("%d of %d items succeeded, and reduce_when asks for %s %s", successful, total, c.name, c.bound.Written)
		}
	}
	return ""
}

// reduceWhen reads the conditions of reduce.
func (r *reader) reduceWhen(e entry) (*ReduceWhen, bool) {
	w := &ReduceWhen{}
	b := r.block("reduce_when", e, r.fields(w))
	if b == nil {
		return nil, false
	}
	r.require(b, "success_rate", "successful", "failed")
	if w.SuccessRate != nil && (w.SuccessRate.Value < 0 || w.SuccessRate.Value > 1) {
		r.fail(b.at("success_rate"), "success_rate: %s is not from 0 to 1, nor from 0%% to 100%%", w.SuccessRate.Written)
	}
	return w, true
}

// bound reads a comparison such as ">= 0.95".
func (r *reader) bound(e entry) (*Bound, bool) {
	text, ok := r.nonBlank(e)
	if !ok {
		return nil, false
	}
	for _, op := range []string{">=", "<=", ">", "<"} {
		number, found := strings.CutPrefix(strings.TrimSpace(text), op)
		if !found {
			continue
		}
		digits, percent := strings.CutSuffix(strings.TrimSpace(number), "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || v < 0 || percent && e.name != "success_rate" || strings.ContainsAny(digits, "xXpPnNiI_") {
			break
		}
		if percent {
			v /= 100
		}
		return &Bound{Operator: op, Value: v, Written: strings.TrimSpace(text)}, true
	}
	r.fail(e.value, `%s: want a comparison such as ">= 0.95", got %q`, e.name, text)
	return nil, false
}
