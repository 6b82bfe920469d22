package errorpolicy

import "fmt"

// quorum is how many items must have finished before the failure rate says anything, unless there are fewer.
const quorum = 10

// thresholds is what counts since the job was started or resumed.
type thresholds struct {
	failed, finished int
	settledBefore    int // items that were not pending then
}

// lookAt counts the final failure of an item, and stops the job when that was one too many.
func (m *Machine) lookAt(itemID string, a Action) {
	m.thresholds.finished++
	if a.row().failed {
		m.thresholds.failed++
	}
	switch p, failed := m.policy, m.thresholds.failed; {
	case a.row().stops && p.OnItemFailure.Kind != a:
		m.halt("%s timed out and timeout_action is fail", itemID)
	case a.row().stops:
		m.halt("%s failed and on_item_failure is %s", itemID, a)
	case !m.continues() && !m.handled(a):
		m.halt("%s failed and continue_on_failure is false", itemID)
	case p.MaxFailures > 0 && failed >= p.MaxFailures:
		m.halt("%d failed and max_failures is %d", failed, p.MaxFailures)
	default:
		m.lookAtRate()
	}
}

func (m *Machine) continues() bool {
	return m.policy.ContinueOnFailure == nil || *m.policy.ContinueOnFailure
}

// handled reports whether a custom handler dealt with the failure. An item that on_item_failure skips has failed all the same.
func (m *Machine) handled(a Action) bool {
	return a == Skip && m.policy.OnItemFailure.Kind == Custom
}

// lookAtRate stops the job when too large a part of the finished items failed, once enough have finished.
func (m *Machine) lookAtRate() {
	t, limit := m.thresholds, m.policy.FailureThreshold
	if limit == nil || t.finished == 0 || t.finished < m.enough() {
		return
	}
	if r := rate(t.failed, t.finished); r > *limit {
		m.halt("%d of %d failed, which is more than the failure_threshold of %v", t.failed, t.finished, *limit)
	}
}

// enough returns how many items must have finished: ten, or all that were there to run when fewer. When none were, dead
// letters are run again, and there it is ten.
func (m *Machine) enough() int {
	if left := m.total - m.thresholds.settledBefore; m.totalKnown && left > 0 {
		return min(quorum, left)
	}
	return quorum
}

// halt keeps the first reason.
func (m *Machine) halt(format string, args ...any) {
	if m.stop == "" {
		m.stop = fmt.Sprintf(format, args...)
	}
}
