package errorpolicy

import "fmt"

// quorum is how many items must have finished before the failure rate counts, unless there are fewer.
const quorum = 10

// thresholds counts since the job was started, or resumed after the policy had stopped it.
type thresholds struct {
	Failed        int `json:"failed"`
	Finished      int `json:"finished"`
	SettledBefore int `json:"settled_before"` // items that were not pending then
}

// countFailure counts the final failure of an item, and stops the job if that exceeds a limit.
func (m *Machine) countFailure(itemID string, a Action) {
	m.Thresholds.Finished++
	if a.row().failed {
		m.Thresholds.Failed++
	}
	switch p, failed := m.policy, m.Thresholds.Failed; {
	case a.row().stops && p.OnItemFailure.Kind != a:
		m.halt("%s timed out and timeout_action is fail", itemID)
	case a.row().stops:
		m.halt("%s failed and on_item_failure is %s", itemID, a)
	// An item that a custom handler dealt with has not failed, but one that on_item_failure skips has.
	case p.ContinueOnFailure != nil && !*p.ContinueOnFailure && (a != Skip || p.OnItemFailure.Kind != Custom):
		m.halt("%s failed and continue_on_failure is false", itemID)
	case p.MaxFailures > 0 && failed >= p.MaxFailures:
		m.halt("%d failed and max_failures is %d", failed, p.MaxFailures)
	default:
		m.checkRate()
	}
}

// checkRate stops the job if too large a part of the finished items failed, once enough have finished.
func (m *Machine) checkRate() {
	t, limit := m.Thresholds, m.policy.FailureThreshold
	if limit == nil || t.Finished == 0 || t.Finished < m.enough() {
		return
	}
	if r := share(t.Failed, t.Finished); r > *limit {
		m.halt("%d of %d failed, which is more than the failure_threshold of %v", t.Failed, t.Finished, *limit)
	}
}

// enough returns how many items must have finished: ten, or all that were left to run if fewer. If none were
// left, dead letters are retried, and it is ten.
func (m *Machine) enough() int {
	if left := m.Total - m.Thresholds.SettledBefore; m.TotalKnown && left > 0 {
		return min(quorum, left)
	}
	return quorum
}

// halt stops the job. The first reason stays.
func (m *Machine) halt(format string, args ...any) {
	if m.Halt == "" {
		m.Halt = fmt.Sprintf(format, args...)
	}
}
