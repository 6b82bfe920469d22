package mapreduce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
)

// fakeSpace merges without git: a commit is a text, and the head is the list of all that was merged. It outlives the runs of a job.
type fakeSpace struct {
	unchanged func(item string) bool                            // the agent changes nothing
	reject    func(head string, w gitspace.Work) (r retry.Type) // why work is not merged; "": it is
	takes     time.Duration                                     // a merge
	broken    func() error                                      // what git itself says to a merge
	into      func() error

	mu      sync.Mutex
	opened  []string // head and work of each Open
	batches [][]string
	done    string // the published head
	busy    int    // merges at once
}

func (f *fakeSpace) Check(context.Context, gitspace.Config, bool) (gitspace.Start, error) {
	return gitspace.Start{Base: "base", Branch: "main"}, nil
}

func (f *fakeSpace) Open(_ context.Context, _ gitspace.Config, _ gitspace.Start, head string, live []gitspace.Work) (Space, error) {
	ids := make([]string, 0, len(live))
	for _, w := range live {
		ids = append(ids, w.Commit)
	}
	slices.Sort(ids)
	f.opened = append(f.opened, strings.TrimSpace(head+" "+strings.Join(ids, " ")))
	f.busy = 0
	return f, nil
}

func (f *fakeSpace) Execute(ctx context.Context, inner gitspace.Executor, a agent.Attempt) (agent.Outcome, error) {
	o, err := inner.Execute(ctx, a)
	if err == nil && (f.unchanged == nil || !f.unchanged(a.ItemID)) {
		o.Commit, o.Files, o.Insertions = fmt.Sprintf("%s@%d", a.ItemID, a.Number), 1, 2
	}
	return o, err
}

func (f *fakeSpace) Environ(environ []string) []string { return environ }

func (f *fakeSpace) Places([]string) map[string]string { return nil }

func (f *fakeSpace) Phase(_ context.Context, _ string) (string, error) { return "", nil }

func (f *fakeSpace) PhaseHead(context.Context, bool, string) (string, error) { return "", nil }

func (f *fakeSpace) Merge(ctx context.Context, head string, work []gitspace.Work) (gitspace.Merged, error) {
	f.mu.Lock()
	f.busy++
	if f.busy > 1 {
		panic("two merges at once")
	}
	ids := make([]string, 0, len(work))
	for _, w := range work {
		ids = append(ids, w.Commit)
	}
	f.batches = append(f.batches, ids)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.busy--; f.mu.Unlock() }()
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
		return gitspace.Merged{}, context.Cause(ctx)
	}
	if f.broken != nil {
		if err := f.broken(); err != nil {
			return gitspace.Merged{}, err
		}
	}
	m := gitspace.Merged{Head: head}
	for _, w := range work {
		if f.reject != nil {
			if t := f.reject(m.Head, w); t != "" {
				m.Failed = append(m.Failed, gitspace.Rejected{Work: w, Type: t, Message: "conflict in x", Conflicts: []events.Conflict{{Path: "x"}}})
				continue
			}
		}
		m.Head += "+" + w.ItemID
		m.Items = append(m.Items, gitspace.MergedItem{Work: w, Merge: "m" + w.Commit})
	}
	return m, nil
}

func (f *fakeSpace) Publish(_ context.Context, head string, _ []gitspace.Work) error {
	f.done = head
	return nil
}

func (f *fakeSpace) Deliver(_ context.Context, head string) (gitspace.Delivery, error) {
	if head == "base" {
		return gitspace.Delivery{Hidden: "hidden"}, nil
	}
	return gitspace.Delivery{Branch: "prodigy/j", Hidden: "hidden"}, nil
}

func (f *fakeSpace) Into(context.Context, string, string) error {
	if f.into == nil {
		return nil
	}
	return f.into()
}

func (f *fakeSpace) Checkout() []string { return nil }

func (f *fakeSpace) Changed(context.Context) []string { return nil }

func (f *fakeSpace) History(context.Context, string, string) (gitspace.History, error) {
	return gitspace.History{}, nil
}

func (f *fakeSpace) Adopt(_ context.Context, head, revision string, index, attempt int) (gitspace.Work, error) {
	if revision == "unknown" {
		return gitspace.Work{}, &gitspace.StateError{Reason: "no commit is called unknown"}
	}
	return gitspace.Work{Index: index, Attempt: attempt, Base: head, Changes: events.Changes{
		Commit: revision,
		Files:  1,
	}}, nil
}

func (f *fakeSpace) Clean(context.Context) error { return nil }

func (f *fakeSpace) Forget() error { return nil }

// once holds what a log must have of n items, however often the runs were stopped or killed: each is merged, unchanged or dead exactly once, no agent
// ran after its work was recorded, and head is what was merged.
func once(t *testing.T, records []events.Record, n int) (head string) {
	t.Helper()
	settled, waits, head := map[string]int{}, map[string]bool{}, "base"
	for _, r := range records {
		switch e := r.Event.(type) {
		case events.AgentStarted:
			if waits[e.ItemID] {
				t.Errorf("record %d: %s is run again, and its work waits to be merged", r.Seq, e.ItemID)
			}
			if e.Base == "" {
				t.Errorf("record %d: %s has no base", r.Seq, e.ItemID)
			}
		case events.AgentCompleted:
			if waits[e.ItemID] = e.Commit != ""; !waits[e.ItemID] {
				settled[e.ItemID]++
			}
		case events.AgentFailed:
			delete(waits, e.ItemID)
			if !e.Action.RunsAgain() {
				settled[e.ItemID]++
			}
		case events.WorktreeMerged:
			for _, id := range e.ItemIDs {
				if !waits[id] {
					t.Errorf("record %d: %s is merged, and had no work", r.Seq, id)
				}
				delete(waits, id)
				settled[id]++
				head += "+" + id
			}
			if e.Head != head {
				t.Errorf("record %d: head is %s, want %s", r.Seq, e.Head, head)
			}
		}
	}
	if len(settled) != n || len(waits) > 0 {
		for id, w := range waits {
			if w {
				t.Errorf("%s was never merged", id)
			}
		}
		if len(settled) != n {
			t.Errorf("got %d items settled, want %d", len(settled), n)
		}
	}
	for id, times := range settled {
		if times != 1 {
			t.Errorf("%s: settled %d times, want once", id, times)
		}
	}
	return head
}

func spaced(t *testing.T, f *fakeSpace, runner agent.Runner) Config {
	t.Helper()
	c := config(t, runner)
	c.Workspaces = f
	return c
}

func TestWorkIsMergedByOneMergerAndSettlesItsItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSpace{takes: time.Second, unchanged: func(item string) bool { return item == "item_3" }}
		f.reject = func(_ string, w gitspace.Work) retry.Type {
			if w.ItemID == "item_5" {
				return retry.TypeMergeConflict
			}
			return ""
		}
		c := spaced(t, f, fake(func(c call) answer {
			if c.item == "item_7" {
				return answer{code: 1}
			}
			return answer{takes: 100 * time.Millisecond}
		}))
		r := run(t, c, workflowOf(12, 4, "workspace: git\n"))
		records := recordsOf(t, r.Job)
		head := once(t, records, 12)
		if r.State != jobs.Completed || r.Metrics.Successful != 10 || r.Metrics.Failed != 2 || r.Merge.Merged != 9 || r.Merge.Head != head || f.done != head {
			t.Errorf("got %s, %+v, %+v, published %s, want 10 of 12 successful, 9 of them merged, and head %s", r.State, r.Metrics, r.Merge, f.done, head)
		}
		letters, err := dlq.Read(r.Job.DLQFile())
		if err != nil || len(letters) != 2 {
			t.Fatalf("got %d letters, %v, want 2", len(letters), err)
		}
		slices.SortFunc(letters, func(a, b dlq.Entry) int { return a.ItemIndex - b.ItemIndex })
		last := letters[0].Last()
		if diff := cmp.Diff(last.Conflicts, []events.Conflict{{Path: "x"}}); diff != "" || last.ErrorType != retry.TypeMergeConflict || last.Commit != "item_5@1" {
			t.Errorf("got the letter %+v, want one with its commit and the conflict (-got +want)\n%s", last, diff)
		}
		if got := resultRows(t, r.Job); got[5].Status != "failed" || got[5].Commit != "" || got[4].Commit != "mitem_4@1" || got[3].Commit != "" {
			t.Errorf("got the rows %+v, want the commit of each that was merged", got)
		}
	})
}

// resultRows returns the rows of a job as they are now.
func resultRows(t *testing.T, place jobs.Job) []job.Result {
	t.Helper()
	var text bytes.Buffer
	if err := job.WriteResults(place, &text); err != nil {
		t.Fatal(err)
	}
	var rows []job.Result
	for line := range strings.Lines(text.String()) {
		var r job.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// beginsUpToDate holds what an agent begins at: the head, with the work of all that ended in its slot before. With
// one slot that is all work.
func beginsUpToDate(t *testing.T, records []events.Record, slots int) {
	t.Helper()
	head, waits := "base", map[string]int{} // the slots of items whose work is not merged
	for _, r := range records {
		switch e := r.Event.(type) {
		case events.AgentStarted:
			for id, slot := range waits {
				if slot == e.Worker || slots == 1 {
					t.Errorf("record %d: %s begins in slot %d before the work of %s is merged, which ended in slot %d", r.Seq, e.ItemID, e.Worker, id, slot)
				}
			}
			if e.Base != head {
				t.Errorf("record %d: %s begins at %s, want the head %s", r.Seq, e.ItemID, e.Base, head)
			}
		case events.AgentCompleted:
			if e.Commit != "" {
				waits[e.ItemID] = e.Worker
			}
		case events.AgentFailed:
			delete(waits, e.ItemID)
		case events.WorktreeMerged:
			head = e.Head
			for _, id := range e.ItemIDs {
				delete(waits, id)
			}
		}
	}
}

func TestAnAgentBeginsAtTheWorkOfAllThatEndedInItsSlot(t *testing.T) {
	for _, test := range []struct {
		name, source string
		slots        int
		fleet        bool // that has these slots
	}{
		{"one slot", workflowOf(20, 1, "workspace: git\n"), 1, false},
		{"one slot, in the order of the items", workflowOf(20, 1, "workspace: {order: items}\n"), 1, false},
		{"one slot, in batches that are verified", workflowOf(20, 1, "workspace: {verify: {batch: 4, commands: [{shell: x}]}}\n"), 1, false},
		{"four slots", workflowOf(40, 4, "workspace: git\n"), 4, false},
		{"one slot of a fleet", workflowOf(20, 4, "workspace: git\n"), 1, true},
		{"three slots of a fleet", workflowOf(40, 8, "workspace: git\n"), 3, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeSpace{takes: 700 * time.Millisecond, unchanged: func(item string) bool { return item == "item_3" }}
				c := spaced(t, f, fake(func(c call) answer {
					n, _ := strconv.Atoi(strings.TrimPrefix(c.item, "item_"))
					return answer{takes: time.Duration(n%7*100) * time.Millisecond, code: boolInt(n%5 == 4)}
				}))
				if test.fleet {
					w := newCrew(func(a agent.Attempt) fate {
						return fate{takes: time.Duration(1+a.ItemIndex%7) * 100 * time.Millisecond, fails: a.ItemIndex%5 == 4}
					})
					w.slots = func(set func(int, int)) { set(1, test.slots) }
					c = w.config(t)
					c.Workspaces = f
				}
				r := run(t, c, test.source)
				records := recordsOf(t, r.Job)
				once(t, records, r.Metrics.Successful+r.Metrics.Failed)
				beginsUpToDate(t, records, test.slots)
			})
		})
	}
}

// With order: items no slot waits for its work, which may have to wait for others. No agent is started all the same
// while very many wait.
func TestDispatchPausesWhileTooManyWaitToBeMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSpace{takes: time.Minute}
		c := spaced(t, f, fake(func(call) answer { return answer{takes: time.Second} }))
		r := run(t, c, workflowOf(40, 2, "workspace: {order: items}\n"))
		waiting, most := 0, 0
		for _, rec := range recordsOf(t, r.Job) {
			switch e := rec.Event.(type) {
			case events.AgentCompleted:
				waiting++
				most = max(most, waiting)
			case events.WorktreeMerged:
				waiting -= len(e.ItemIDs)
			}
		}
		if r.State != jobs.Completed || most < 8 || most > 4*2+1 {
			t.Errorf("got %s, and up to %d waiting, want no more than 4 times the slots, and those that ran then", r.State, most)
		}
	})
}

func TestOrderOfItemsDoesNotDependOnWhoIsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSpace{takes: time.Second}
		f.reject = func(_ string, w gitspace.Work) retry.Type {
			if w.ItemID == "item_6" && w.Attempt == 1 {
				return retry.TypeMergeConflict
			}
			return ""
		}
		c := spaced(t, f, fake(func(c call) answer {
			n, _ := strconv.Atoi(strings.TrimPrefix(c.item, "item_"))
			return answer{takes: time.Duration(20-n) * time.Second, code: boolInt(c.item == "item_0" && c.attempt == "1")}
		}))
		r := run(t, c, workflowOf(12, 4, "workspace: {order: items}\nerror_policy:\n  on_item_failure: retry\n  retry_config: {attempts: 2, initial_delay: 1m}\n"))
		records := recordsOf(t, r.Job)
		head := once(t, records, 12)
		if want := "base+item_0+item_1+item_2+item_3+item_4+item_5+item_7+item_8+item_9+item_10+item_11+item_6"; r.State != jobs.Completed || head != want {
			t.Errorf("got %s with %s, want %s", r.State, head, want)
		}
		for _, rec := range records {
			if e, ok := rec.Event.(events.AgentStarted); ok && e.Attempt == 1 && e.Base != "base" {
				t.Errorf("%s began at %s, want the commit that all begin at", e.ItemID, e.Base)
			}
		}
	})
}

// What is skipped while it waits for its turn holds back nothing that is merged in the order of the items.
func TestSkippedItemsHoldBackNoMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := spaced(t, &fakeSpace{takes: time.Second}, fake(func(call) answer { return answer{takes: time.Second} }))
		source := rated(2, `{limit: 1/h, burst: 1, per: "${item.host}"}`, "", "a", "a", "b", "c") + "workspace: {order: items}\n"
		began := time.Now()
		r := steered(t, c, source, func(ask func(job.Request) job.Answer) {
			time.Sleep(10 * time.Second)
			done(t, ask(job.Request{Do: job.Skip, Items: []job.Item{{ID: "item_1", Index: 1}}}), "skipped: item_1")
		})
		if head, took := once(t, recordsOf(t, r.Job), 4), time.Since(began); head != "base+item_0+item_2+item_3" || r.State != jobs.Completed || took > time.Minute {
			t.Errorf("got %s with %s after %s", r.State, head, took)
		}
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The policy decides about a conflict as about any failure, but asks no handler. The breaker only hears of the agent, which was well.
func TestThePolicyDecidesAboutConflicts(t *testing.T) {
	conflict := func(_ string, w gitspace.Work) retry.Type {
		if w.Attempt == 1 {
			return retry.TypeMergeConflict
		}
		return ""
	}
	for policy, want := range map[string]errorpolicy.Outcomes{
		"on_item_failure: dlq":  {Failed: 4},
		"on_item_failure: skip": {Skipped: 4},
		"on_item_failure: custom:h\nhandlers: {h: [{shell: handle}]}":                                                        {Failed: 4},
		"error_policy: {on_item_failure: retry, retry_config: {attempts: 2, retry_on: [merge_conflict], initial_delay: 1s}}": {Successful: 4},
		"error_policy: {on_item_failure: retry, retry_config: {attempts: 2, retry_on: [network], initial_delay: 1s}}":        {Failed: 4},
		"error_policy: {circuit_breaker: {failure_threshold: 1, timeout: 1h}}":                                               {Failed: 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := spaced(t, &fakeSpace{reject: conflict}, fake(func(c call) answer {
				if c.script == "handle" {
					t.Errorf("%s: the handler was asked", policy)
				}
				return answer{takes: time.Second}
			}))
			r := run(t, c, workflowOf(4, 1, "workspace: git\n"+policy+"\n"))
			m := r.Metrics
			if m.Failed != want.Failed || m.Skipped != want.Skipped || m.Successful != want.Successful || m.Rejected != 0 {
				t.Errorf("%s: got %+v, want %+v", policy, m, want)
			}
		})
	}
}

// Jobs are stopped, killed and resumed at any time: what was recorded is merged, and never done again.
func TestAStoppedJobMergesWhatWaitsAndRunsNoAgentAgain(t *testing.T) {
	for seed := uint64(0); seed < 8; seed += uint64(testenv.OneIn(8, 4)) {
		for _, order := range []string{"completion", "items"} {
			synctest.Test(t, func(t *testing.T) {
				rnd, mu := rand.New(rand.NewPCG(seed, 1)), sync.Mutex{}
				below := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return rnd.IntN(n)
				}
				f := &fakeSpace{takes: 700 * time.Millisecond}
				f.reject = func(_ string, w gitspace.Work) retry.Type {
					if below(6) == 0 {
						return retry.TypeMergeConflict
					}
					return ""
				}
				c := spaced(t, f, fake(func(call) answer {
					return answer{takes: time.Duration(below(3000)) * time.Millisecond, code: below(4) / 3}
				}))
				c.Grace = time.Second
				source := workflowOf(120, 8, "workspace: {order: "+order+"}\nerror_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 3, initial_delay: 1s, jitter: true}\n")
				r := interrupted(t, c, source, func() time.Duration { return time.Duration(100+below(5000)) * time.Millisecond })
				records := recordsOf(t, r.Job)
				if head := once(t, records, 120); head != r.Merge.Head {
					t.Errorf("got head %s, want %s", r.Merge.Head, head)
				}
				if order == "completion" {
					beginsUpToDate(t, records, 8)
				}
				if len(f.opened) < 3 || !slices.ContainsFunc(f.opened, func(o string) bool { return strings.Contains(o, " ") }) {
					t.Errorf("got no resume with work that waits: this shows nothing")
				}
				if m := r.Metrics; m.Successful+m.Failed != 120 {
					t.Errorf("got %+v, want 120 in all", m)
				}
			})
		}
	}
}

// What git or the disk says stops the job, and blames nobody. A resume goes on.
func TestTroubleOfGitStopsTheJobAndBlamesNoItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		f := &fakeSpace{takes: time.Second}
		n := 0
		f.broken = func() error {
			if n++; n == 2 {
				return full
			}
			return nil
		}
		c := spaced(t, f, fake(func(call) answer { return answer{takes: time.Second} }))
		source := workflowOf(12, 2, "workspace: git\n")
		r := run(t, c, source)
		if r.State != jobs.Failed || !errors.Is(r.Cause, full) || r.Metrics.Failed != 0 || r.Merge.Merging == 0 {
			t.Fatalf("got %s (%v), %+v, %+v, want the error, work that waits, and no failure", r.State, r.Cause, r.Metrics, r.Merge)
		}
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 12 {
			t.Fatalf("got %v %s %+v, want all 12 merged", err, r.State, r.Metrics)
		}
		once(t, recordsOf(t, r.Job), 12)
	})
}

// A dead letter stays one until the work of its retry is merged.
func TestADeadLetterGoesWhenItsWorkIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSpace{takes: time.Second, reject: func(head string, w gitspace.Work) retry.Type {
			if w.ItemID == "item_2" && w.Attempt < 3 {
				return retry.TypeMergeConflict
			}
			return ""
		}}
		c := spaced(t, f, fake(func(call) answer { return answer{takes: time.Second} }))
		r := run(t, c, workflowOf(4, 2, "workspace: git\n"))
		all := func(q *dlq.Queue) (ids []string, _ error) { return []string{"item_2"}, nil }
		r, err := RetryDead(t.Context(), c, r.Job, all, false)
		if err != nil || r.Recovered != 0 || r.Reprocessed != 1 || r.Metrics.Failed != 1 {
			t.Fatalf("got %v, %d of %d recovered, %+v, want a conflict again", err, r.Recovered, r.Reprocessed, r.Metrics)
		}

		// The run dies when the work of the next retry is done, and not merged.
		kill, cancel := context.WithCancelCause(t.Context())
		f.takes = time.Hour
		time.AfterFunc(time.Minute, func() { cancel(process.ErrKill) })
		if r, err = RetryDead(kill, c, r.Job, all, false); err != nil || r.State != jobs.Stopped || r.Recovered != 0 {
			t.Fatalf("got %v %s with %d recovered, want a pause", err, r.State, r.Recovered)
		}
		if letters, err := dlq.Read(r.Job.DLQFile()); err != nil || len(letters) != 1 {
			t.Fatalf("got %d letters, %v, want the one that is not merged", len(letters), err)
		}
		f.takes = time.Second
		if r, err = Resume(t.Context(), c, r.Job); err != nil || r.State != jobs.Completed || r.Metrics.Successful != 4 {
			t.Fatalf("got %v %s %+v, want all merged", err, r.State, r.Metrics)
		}
		if letters, err := dlq.Read(r.Job.DLQFile()); err != nil || len(letters) != 0 {
			t.Errorf("got %d letters, %v, want none", len(letters), err)
		}
		records := recordsOf(t, r.Job)
		if started, _ := told[events.AgentStarted](records); len(started) != 6 {
			t.Errorf("got %d attempts, want 4 and 2 retries", len(started))
		}
	})
}

// A branch that cannot be fast-forwarded fails the job; mended, a resume does that and nothing else.
func TestIntoIsTriedAgainByAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSpace{into: func() error { return &gitspace.StateError{Reason: "main cannot be fast-forwarded"} }}
		c := spaced(t, f, fake(func(call) answer { return answer{takes: time.Second} }))
		r := run(t, c, workflowOf(2, 2, "workspace: {into: main}\n"))
		if r.State != jobs.Failed || r.Cause != nil || !strings.Contains(r.Reason, "cannot be fast-forwarded") {
			t.Fatalf("got %s (%s), want the reason", r.State, r.Reason)
		}
		f.into = nil
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.State != jobs.Completed || r.Merge.Into != "main" {
			t.Fatalf("got %v %s %+v, want main moved", err, r.State, r.Merge)
		}
		if started, _ := told[events.AgentStarted](recordsOf(t, r.Job)); len(started) != 2 {
			t.Errorf("got %d attempts, want 2", len(started))
		}
	})
}

// A job with workspaces that is taken up at any point of its log, also before its first record, comes to the same result: no agent runs whose work was
// recorded, and nothing is merged twice.
func TestALogOfMergesCutAnywhereResumesToTheSameResult(t *testing.T) {
	space := func() *fakeSpace {
		return &fakeSpace{
			takes: time.Second, unchanged: func(item string) bool { return item == "item_3" },
			reject: func(_ string, w gitspace.Work) retry.Type {
				if w.ItemID == "item_1" || w.ItemID == "item_4" {
					return retry.TypeMergeConflict
				}
				return ""
			},
		}
	}
	c := spaced(t, space(), fake(func(call) answer { return answer{takes: time.Second} }))
	c.CheckpointRecords = 1
	source := workflowOf(8, 3, "workspace: {order: items}\nsetup:\n  - shell: s\nreduce:\n  - shell: r\n")
	whole := runInBubble(t, c, source)
	if whole.State != jobs.Completed || whole.Merge.Head != "base+item_0+item_2+item_5+item_6+item_7" {
		t.Fatalf("got %s with %+v", whole.State, whole.Merge)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(readLog(t, whole.Job), "\n"), "\n")
	for _, cut := range append(cuts(lines), 0) {
		place := copyJob(t, c, whole.Job, strings.Join(lines[:cut], ""))
		synctest.Test(t, func(t *testing.T) {
			c := withHome(c, place)
			c.Workspaces = space()
			r, err := Resume(t.Context(), c, place.job)
			if err != nil || r.State != jobs.Completed || r.Merge.Head != whole.Merge.Head {
				t.Fatalf("cut after record %d: got %s (%s), %+v, %v, want the head of the whole", cut, r.State, r.Reason, r.Merge, err)
			}
			if diff := cmp.Diff(whole.Metrics, r.Metrics); diff != "" {
				t.Errorf("cut after record %d: metrics (-want +got)\n%s", cut, diff)
			}
			once(t, recordsOf(t, place.job), 8)
		})
	}
}

// A conflict is resolved by steps of the workflow, once; when they fail, or what they left conflicts too, the conflict stands and the policy decides.
func TestStepsResolveAConflictOnce(t *testing.T) {
	for _, tt := range []struct {
		name       string
		code       int  // of the steps that resolve
		again      bool // what they leave conflicts too
		successful int
	}{
		{"resolved", 0, false, 3},
		{"the steps fail", 1, false, 2},
		{"it conflicts again", 0, true, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var resolved []string
			f := &fakeSpace{takes: time.Second, reject: func(_ string, w gitspace.Work) retry.Type {
				if w.ItemID == "item_1" && (w.Attempt == 1 || tt.again) {
					return retry.TypeMergeConflict
				}
				return ""
			}}
			c := spaced(t, f, fake(func(c call) answer {
				if strings.HasPrefix(c.script, "resolve ") {
					resolved = append(resolved, c.attempt)
					return answer{code: tt.code}
				}
				return answer{takes: time.Second}
			}))
			r := run(t, c, workflowOf(3, 1, "workspace: {resolve: [{shell: 'resolve ${item_id}'}]}\n"))
			records := recordsOf(t, r.Job)
			once(t, records, 3)
			if r.State != jobs.Completed || r.Metrics.Successful != tt.successful || !slices.Equal(resolved, []string{"2"}) {
				t.Errorf("%s: got %s, %+v, resolved in attempts %v, want %d successful and one resolution", tt.name, r.State, r.Metrics, resolved, tt.successful)
			}
			failed, _ := told[events.AgentFailed](records)
			if !failed[0].Resolve || failed[0].Action != errorpolicy.Retry {
				t.Errorf("%s: got %+v, want that it is to be resolved", tt.name, failed[0])
			}
			if tt.successful < 3 && (failed[1].ErrorType != retry.TypeMergeConflict || failed[1].Action != errorpolicy.DLQ) {
				t.Errorf("%s: got %+v, want a conflict that stands", tt.name, failed[1])
			}
		})
	}
}

// A commit of the user is merged as the work of a dead letter, and no agent runs.
func TestACommitIsTheWorkOfADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSpace{reject: func(_ string, w gitspace.Work) retry.Type {
			if w.ItemID == "item_1" && w.Commit != "mine" {
				return retry.TypeMergeConflict
			}
			return ""
		}}
		n := 0
		c := spaced(t, f, fake(func(call) answer { n++; return answer{takes: time.Second} }))
		r := run(t, c, workflowOf(3, 1, "workspace: git\n"))
		item := func(*dlq.Queue) ([]string, error) { return []string{"item_1"}, nil }
		before := len(recordsOf(t, r.Job))
		c.With = "unknown"
		var refused *job.RefusedError
		if _, err := RetryDead(t.Context(), c, r.Job, item, false); !errors.As(err, &refused) || len(recordsOf(t, r.Job)) != before {
			t.Errorf("got %v and %d records, want it refused, and none", err, len(recordsOf(t, r.Job))-before)
		}
		c.With = "mine"
		again, err := RetryDead(t.Context(), c, r.Job, item, false)
		if err != nil || again.State != jobs.Completed || again.Recovered != 1 || again.Metrics.Successful != 3 || n != 3 {
			t.Fatalf("got %v, %s, %d recovered, %+v, %d agents, want the commit merged and no agent", err, again.State, again.Recovered, again.Metrics, n)
		}
		if letters, err := dlq.Read(r.Job.DLQFile()); err != nil || len(letters) != 0 {
			t.Errorf("got %d letters, %v, want none", len(letters), err)
		}
	})
}
