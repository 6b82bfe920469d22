//go:build unix

package torture

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/lab/try"
)

// history is the log as the judge reads it, and what it finds wrong on the way.
type history struct {
	status   map[string]string    // item → success, failed or skipped
	attempts map[string]int       // item → attempts that have started
	errors   map[string]string    // item → error type of its failure
	crashes  map[string]int       // item → how often it was in flight when a run died
	tries    map[string]int       // item → step retries
	flights  map[string]int       // item → attempt
	unmerged map[string]bool      // items whose work waits to be merged
	steps    map[string]int       // step → how often it was completed
	letters  bool                 // dead letters are being sent again
	due      map[string]time.Time // item → when its next attempt may start
	counts   *counts              // at the end of the job
	hasty    []error              // attempts that came before their time
	wrong    []error
}

// tolerance is what the times of two records may differ by though they were decided together.
const tolerance = 5 * time.Millisecond

// read takes in a log from its beginning.
func read(all []record) *history {
	h := &history{
		status: map[string]string{}, attempts: map[string]int{}, errors: map[string]string{}, crashes: map[string]int{},
		unmerged: map[string]bool{}, tries: map[string]int{}, flights: map[string]int{}, steps: map[string]int{}, due: map[string]time.Time{},
	}
	for i, rec := range all {
		if rec.Seq != i+1 {
			h.add("record %d has the number %d", i+1, rec.Seq)
			break
		}
		h.addIf(rec.DurationMS < 0, "a duration of record %d is negative", rec.Seq)
		h.take(rec)
	}
	for item, attempt := range h.flights {
		h.add("%s: attempt %d has started and never ended", item, attempt)
	}
	return h
}

func (h *history) add(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Errorf(format, args...))
}

// addIf is add if something is so.
func (h *history) addIf(is bool, format string, args ...any) {
	if is {
		h.add(format, args...)
	}
}

func (h *history) take(rec record) {
	switch rec.Type {
	case "JobResumed":
		h.letters = rec.Reason == "dlq_retry"
		for item := range h.flights {
			h.crashes[item]++
		}
		clear(h.flights)
	case "JobCompleted":
		h.counts = rec.Metrics
	case "StepCompleted":
		h.steps[rec.ID]++
	case "StepRetrying":
		h.tries[rec.ItemID]++
	case "AgentStarted":
		h.started(rec)
	case "AgentInterrupted", "AgentLost":
		h.ended(rec)
	case "AgentCompleted":
		h.ended(rec)
		if rec.Commit == "" {
			h.settle(rec, "success")
		} else {
			h.unmerged[rec.ItemID] = true // it is settled when that is merged, which may be in the next run
		}
	case "WorktreeMerged":
		for _, id := range rec.ItemIDs {
			rec.ItemID = id
			h.settle(rec, "success")
		}
	case "AgentFailed":
		h.failed(rec)
	}
}

func (h *history) started(rec record) {
	if attempt, flies := h.flights[rec.ItemID]; flies {
		h.add("%s: attempt %d has started while attempt %d runs", rec.ItemID, rec.Attempt, attempt)
	}
	if was := h.status[rec.ItemID]; was != "" && (was != "failed" || !h.letters) {
		h.add("%s: attempt %d has started though the item was settled: %s", rec.ItemID, rec.Attempt, was)
	}
	if early := h.due[rec.ItemID].Sub(rec.Time); early > tolerance {
		h.hasty = append(h.hasty, fmt.Errorf("%s: attempt %d has started %s before it was due", rec.ItemID, rec.Attempt, early))
	}
	delete(h.due, rec.ItemID)
	h.flights[rec.ItemID] = rec.Attempt
	h.attempts[rec.ItemID]++
}

func (h *history) ended(rec record) {
	if attempt, flies := h.flights[rec.ItemID]; !flies || attempt != rec.Attempt {
		h.add("%s: %s of attempt %d, which does not run", rec.ItemID, rec.Type, rec.Attempt)
	}
	delete(h.flights, rec.ItemID)
}

func (h *history) failed(rec record) {
	if rec.AgentID != "" && rec.ErrorType != "merge_conflict" && rec.ErrorType != "verify_failed" { // those come after its end
		h.ended(rec)
	}
	h.errors[rec.ItemID] = rec.ErrorType
	switch rec.Action {
	case "retry":
		if rec.RetryAt != nil {
			h.due[rec.ItemID] = *rec.RetryAt
		}
	case "skip":
		h.settle(rec, "skipped")
	case "dlq", "stop":
		h.settle(rec, "failed")
	default:
		h.add("%s: a failure has the action %q", rec.ItemID, rec.Action)
	}
}

func (h *history) settle(rec record, status string) {
	if was := h.status[rec.ItemID]; was != "" && (was != "failed" || !h.letters && !h.unmerged[rec.ItemID]) {
		h.add("%s: settled twice, %s and %s", rec.ItemID, was, status)
	}
	delete(h.unmerged, rec.ItemID)
	h.status[rec.ItemID] = status
}

// judge fails with everything that is wrong with the job now that it is done.
func (r *round) judge() {
	data := r.logBytes()
	all := try.To(parseLog(data))
	h := read(all)
	h.wrong = append(h.wrong, r.early...)
	r.judgePast(h, data)
	if !r.clockSet {
		h.wrong = append(h.wrong, h.hasty...)
	}
	if r.kind.Standard {
		r.judgeSteps(h, "c", standardSteps)
	} else {
		r.judgeItems(h)
		r.judgeResults(h)
		r.judgeLetters(h)
		r.judgePhases(h)
		r.judgeCounts(h)
	}
	if r.kind.Workspace != "" {
		r.judgeWorkspaces(h, all)
	}
	// Where not every process shows its environment, one overlap is allowed for each kill: a command that had only just been started
	// may not have been registered.
	if runtime.GOOS == "linux" || len(r.overlaps) > len(r.before) {
		h.wrong = append(h.wrong, r.overlaps...)
	}
	if pids := r.alive(); len(pids) > 0 {
		h.add("processes of the job are still alive: %v", pids)
	}
	const most = 20
	if left := len(h.wrong) - most; left > 0 {
		h.wrong = append(h.wrong[:most], fmt.Errorf("… and %d more", left))
	}
	r.failIf(len(h.wrong) > 0, "%v", errors.Join(h.wrong...))
}

// judgePast looks whether what was certain at a kill still holds: nothing of the log was changed, nothing that was done ran again.
func (r *round) judgePast(h *history, data []byte) {
	for i, s := range r.before {
		h.addIf(!bytes.HasPrefix(data, s.log), "the log no longer begins with what it was at kill %d", i+1)
		for name, n := range s.settled {
			// The reduce phase runs again when it is asked for over mended items.
			if r.kind.Mends && strings.HasPrefix(name, "step.r") {
				continue
			}
			if now := begins(r.effects(name)); now != n {
				h.add("%s was done before kill %d and began again: %d times, then %d", name, i+1, n, now)
			}
		}
	}
}

// judgeItems looks at each item: settled as it had to be, by as many tries as the log and the kills explain.
func (r *round) judgeItems(h *history) {
	for i, fate := range r.fates {
		id := "item_" + strconv.Itoa(i)
		effects := r.effects(id)
		r.judgeStatus(h, id, fate)
		r.judgeTries(h, id, fate, effects)
		r.findOverlap(id, effects)
	}
	h.addIf(len(h.status) > len(r.fates), "%d items are settled, there are %d", len(h.status), len(r.fates))
}

func (r *round) judgeStatus(h *history, id, fate string) {
	status, want := h.status[id], "success"
	if fate == fateBad || fate == fateCulprit || slices.Contains(spoiled, fate) {
		want = "failed"
	}
	switch {
	case status == "":
		h.add("%s is lost: it was never settled", id)
	case status == want,
		fate == fateSame && status == "failed" && h.errors[id] == "merge_conflict",
		h.errors[id] == "circuit_open" && r.kind.Refuses:
	default:
		h.add("%s (%s): %s (%s), want %s", id, fate, status, h.errors[id], want)
	}
}

func (r *round) judgeTries(h *history, id, fate string, effects []effect) {
	n, kills := begins(effects), r.cuts(effects)
	// What was in flight at a kill begins once more, and so does a try of the step whose record was still in the last batch.
	unlogged := max(0, n-h.attempts[id]-h.tries[id])
	r.unlogged += unlogged
	if n > 1 && h.crashes[id]+unlogged > 0 {
		r.again++
	}
	// A run gives each of its attempts of an item a number of its own.
	attempts := distinct(effects, func(e effect) string { return e.run + " " + e.attempt })
	h.addIf(attempts > h.attempts[id], "%s: %d attempts began, the log knows of %d", id, attempts, h.attempts[id])
	h.addIf(h.status[id] == "success" && !ended(effects), "%s succeeded without having run to its end", id)
	h.addIf(unlogged > kills*mostUnlogged, "%s began %d times, the log knows of %d attempts and %d retries of the step", id, n, h.attempts[id], h.tries[id])
	h.addIf(fate == fateBad && r.kind.Tries > 0 && n > r.kind.Tries+kills+unlogged,
		"%s began %d times in %d runs, want at most %d tries and one for each kill", id, n, distinctRuns(effects), r.kind.Tries)
}

// mostUnlogged is how many tries of one item may be in the last batch that a kill takes.
const mostUnlogged = 3

// distinct returns how many names the effects have, but for empty ones.
func distinct(effects []effect, name func(effect) string) int {
	seen := map[string]bool{"": true}
	for _, e := range effects {
		seen[name(e)] = true
	}
	return len(seen) - 1
}

func distinctRuns(effects []effect) int {
	return distinct(effects, func(e effect) string { return e.run })
}

func ended(effects []effect) bool {
	return slices.ContainsFunc(effects, func(e effect) bool { return e.word == "end" })
}

// cuts returns how many of the runs that the effects are from were killed or interrupted.
func (r *round) cuts(effects []effect) int {
	return distinct(effects, func(e effect) string {
		if run, err := strconv.Atoi(e.run); err != nil || !r.cut[run] {
			return ""
		}
		return e.run
	})
}

// findOverlap finds agents of a run that was killed which went on after the next one had begun.
func (r *round) findOverlap(id string, effects []effect) {
	newest := 0
	for _, e := range effects {
		run, err := strconv.Atoi(e.run)
		if err != nil || run < newest {
			r.overlaps = append(r.overlaps, fmt.Errorf("%s: an agent of run %q went on after run %d had started it again", id, e.run, newest))
			return
		}
		newest = run
	}
}

// judgeResults looks for exactly one row an item, in order.
func (r *round) judgeResults(h *history) {
	rows := r.results()
	h.addIf(len(rows) != len(r.fates), "results.jsonl has %d rows, want %d", len(rows), len(r.fates))
	for i, found := range rows {
		id := "item_" + strconv.Itoa(i)
		h.addIf(found.ItemID != id || found.Index != i || found.Status != h.status[id], "row %d of the results is %+v, want %s %s", i+1, found, id, h.status[id])
		if err := judgeOutput(found, r.fates[i]); err != nil {
			h.add("%w", err)
		}
	}
}

func judgeOutput(found row, fate string) error {
	if found.Status != "success" {
		return nil
	}
	want := "done " + found.ItemID
	if fate == fateBig {
		want = strings.Repeat("x", bigOutput) + "\n" + want
	}
	if got := strings.TrimSpace(found.Output); got != want {
		return fmt.Errorf("the results have %d bytes of output of %s, want %d: …%q", len(got), found.ItemID, len(want), got[max(0, len(got)-80):])
	}
	return nil
}

// judgeCounts compares what the job says of itself with the fates of its items.
func (r *round) judgeCounts(h *history) {
	if h.counts == nil {
		h.add("the job never said how many items it had")
		return
	}
	got, want := *h.counts, counts{Total: len(r.fates)}
	for id, status := range h.status {
		switch {
		case status == "success":
			want.Successful++
		case status == "skipped":
			want.Skipped++
		case h.errors[id] == "circuit_open":
			want.Rejected++
		default:
			want.Failed++
		}
	}
	h.addIf(got != want, "the job counts %+v, the log %+v", got, want)
}

// judgeLetters compares the dead letter queue with the items that the log says have failed.
func (r *round) judgeLetters(h *history) {
	left := r.deadLetters()
	for item, status := range h.status {
		if dead := status == "failed"; dead != left[item] {
			h.add("%s is %s, in the dead letter queue: %t", item, status, left[item])
		}
		delete(left, item)
	}
	for item := range left {
		h.add("dead letter %s is no item of the job", item)
	}
}

// judgePhases looks at setup and reduce.
func (r *round) judgePhases(h *history) {
	first := strconv.Itoa(len(r.fates))
	if r.kind.Setup {
		r.judgeSteps(h, "s", 2)
		first += " nothing s0 s1"
	}
	if effects := r.effects("step.r0"); len(effects) > 0 && effects[len(effects)-1].value != first {
		h.add("the first step of reduce was given %q, want %q", effects[len(effects)-1].value, first)
	}
	if !r.kind.Mends {
		r.judgeSteps(h, "r", lastSteps)
	}
}

// judgeSteps looks for each of n steps that it was completed exactly once and ran once, and once more for each kill at most.
func (r *round) judgeSteps(h *history, prefix string, n int) {
	for i := range n {
		id := prefix + strconv.Itoa(i)
		effects := r.effects("step." + id)
		if h.steps[id] != 1 || !ended(effects) {
			h.add("step %s: completed %d times in the log, want once; ran to its end: %t",
				id, h.steps[id], ended(effects))
		}
		if began, runs := begins(effects), distinctRuns(effects); began > runs {
			h.add("step %s began %d times in %d runs", id, began, runs)
		}
		r.findOverlap("step "+id, effects)
	}
}
