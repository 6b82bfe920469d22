package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// merging is the story of a job with workspaces: one batch of which verify refuses an item, and one with a conflict.
func merging() story {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", MaxParallel: 4, Base: "aaaaaaaaaaaaaaaa"})
	s.at(0, events.PhaseCompleted{Phase: "setup", Head: "bbbbbbbbbbbbbbbb"})
	for i := range 4 {
		s.at(time.Second, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: fmt.Sprint("i", i), ItemIndex: i, Attempt: 1},
			Worker:    i + 1, Base: "bbbbbbbbbbbbbbbb",
		})
	}
	for i := range 4 {
		s.at(2*time.Second, events.AgentCompleted{
			AttemptID: events.AttemptID{ItemID: fmt.Sprint("i", i), ItemIndex: i, Attempt: 1},
			Changes:   events.Changes{Commit: "c"},
		})
	}
	s.at(3*time.Second, events.VerifyStarted{ItemIDs: []string{"i0", "i1", "i2"}, Commit: "dddddddddddddddd"})
	s.at(4*time.Second, events.VerifyCompleted{Commit: "dddddddddddddddd", Step: "test", Error: "exit code <1>", DurationMS: events.Millis(time.Second)})
	s.at(4*time.Second, events.VerifyStarted{ItemIDs: []string{"i0"}, Commit: "eeeeeeeeeeeeeeee"})
	s.at(5*time.Second, events.VerifyCompleted{Commit: "eeeeeeeeeeeeeeee", Passed: true, DurationMS: events.Millis(time.Second)})
	s.at(6*time.Second, events.WorktreeMerged{
		ItemIDs: []string{"i0", "i2"}, ItemIndexes: []int{0, 2}, Attempts: []int{1, 1}, Commits: []string{"eeeeeeeeeeeeeeee", "ffffffffffffffff"}, Head: "ffffffffffffffff",
		Files: []int{1, 2}, DurationMS: events.Millis(3 * time.Second),
	})
	s.at(6*time.Second, events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: "i1", ItemIndex: 1, AgentID: "a", Attempt: 1},
		Error:     "workspace.verify: test", ErrorType: retry.TypeVerifyFailed, Action: errorpolicy.DLQ,
	})
	s.at(6*time.Second, events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: "i3", ItemIndex: 3, AgentID: "a", Attempt: 1},
		Error:     "conflict in <b>.go with i0", ErrorType: retry.TypeMergeConflict, Action: errorpolicy.DLQ,
		Conflicts: []events.Conflict{{Path: "<b>.go", Message: "CONFLICT", With: []string{"i0"}}},
	})
	s.at(7*time.Second, events.VerifyStarted{ItemIDs: []string{"i9"}, Commit: "9999999999999999"})
	s.at(9*time.Second, events.JobResumed{Died: new(began.Add(8 * time.Second))})
	s.at(10*time.Second, events.JobCompleted{Head: "ffffffffffffffff"})
	return s
}

func TestTheMergeQueueIsDrawn(t *testing.T) {
	page := pageOf(t, merging().source())
	for _, want := range []string{
		"<h2>Merge queue</h2>",
		"<title>i0 merged as eeeeeeeeee</title>",
		"<title>i3: conflict in &lt;b&gt;.go with i0</title>",
		`class="bad" x="375.0" y="16.0" width="125.0" height="15.0"><title>verify of i0, i1, i2 failed: exit code &lt;1&gt;</title>`,
		"<title>verify of i0 passed</title>",
		"(max 4 waiting)",
		`<code title="CONFLICT">&lt;b&gt;.go</code> with <span class="id">i0</span></td><td>failed</td>`,
		`<td class="text">i0, i1, i2</td><td class="id">dddddddddd</td><td class="text">failed in test: exit code &lt;1&gt;</td>`,
		`<td class="text">i0</td><td class="id">eeeeeeeeee</td><td class="text">passed</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestAJobWithoutWorkspacesHasNoMergeQueue(t *testing.T) {
	s := merging()
	s[0].Event = events.JobStarted{Workflow: "w", MaxParallel: 4}
	if page := pageOf(t, s.source()); strings.Contains(page, "Merge queue") {
		t.Error("there is a merge queue")
	}
}

// Of many merges the newest are drawn. What waits is drawn as the most of each part of the time.
func TestOfManyMergesTheNewestAreDrawn(t *testing.T) {
	var s story
	s.at(0, events.JobStarted{Workflow: "w", MaxParallel: 1, Base: "a"})
	for i := range 600 {
		now := time.Duration(i) * time.Second
		s.at(now, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: fmt.Sprint(i), ItemIndex: i, Attempt: 1},
			Worker:    1,
		})
		s.at(now+400*time.Millisecond, events.AgentCompleted{
			AttemptID: events.AttemptID{ItemID: fmt.Sprint(i), ItemIndex: i, Attempt: 1},
			Changes:   events.Changes{Commit: "c"},
		})
		s.at(now+500*time.Millisecond, events.WorktreeMerged{
			ItemIDs: []string{fmt.Sprint(i)}, ItemIndexes: []int{i}, Attempts: []int{1}, Commits: []string{"c"}, Head: "h",
			Files: []int{1}, DurationMS: events.Millis(100 * time.Millisecond),
		})
	}
	p, err := plotted(s.source().Records, time.Time{}, pageKept)
	if err != nil {
		t.Fatal(err)
	}
	drawn := p.mergeQueue().Rects
	if len(drawn) != pageKept || drawn[pageKept-1].Title != "599 merged as c" {
		t.Errorf("%d are drawn, the last is %q", len(drawn), drawn[len(drawn)-1].Title)
	}
	if n := p.merging.most; n[0] != 1 || n[columns-1] != 1 || p.merging.now != 0 {
		t.Errorf("%v waited, and %v wait now", n, p.merging.now)
	}
}
