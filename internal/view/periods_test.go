package view_test

import (
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/view"
)

func TestAgentsThatWaitForALimitAreNotCountedAsRunning(t *testing.T) {
	until := time.Now().Add(time.Hour)
	j, now := fold(view.New(), events.JobStarted{MaxParallel: 3}, begun(1), begun(2), begun(3),
		events.QuotaPaused{Pool: "claude", Kind: "quota", Scope: "five_hour", Until: until, Item: "item_1"},
		events.AgentUsage{ItemID: "item_2", ItemIndex: 2, Preset: "claude", Outcome: "quota", CostUSD: new(limit.Dollar)},
	)
	if until.Before(now) {
		t.Fatal("the pause is over")
	}
	if n := j.Running(now); n != 1 {
		t.Errorf("got %d running, want the one that met no limit", n)
	}
	if n := len(j.Paused()); n != 1 {
		t.Errorf("got %d pauses, want 1", n)
	}
	if d := j.Dearest(); len(d) != 1 || d[0].ItemID != "item_2" || d[0].Cost != limit.Dollar {
		t.Errorf("got %+v as the dearest", d)
	}
}

func TestAPauseEndsWhenAgentsComeThroughAgain(t *testing.T) {
	paused := events.QuotaPaused{Pool: "claude", Model: "opus", Kind: "quota"}
	j, _ := fold(view.New(), events.JobStarted{}, paused, paused, events.QuotaResumed{Pool: "claude"})
	if n := len(j.Paused()); n != 1 {
		t.Errorf("got %d pauses, want that of the model", n)
	}
	j, _ = fold(view.New(), events.JobStarted{}, paused, paused, events.QuotaResumed{Pool: "claude", Model: "opus"})
	if all := j.HoldPeriods.List; len(j.Paused()) != 0 || len(all) != 1 || all[0].To.IsZero() {
		t.Errorf("got %+v, want one that is over", all)
	}
}
