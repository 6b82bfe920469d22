package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/workflow"
)

// A worker gets all of an attempt but what is only on the machine of an earlier one: the session of an AI coding CLI.
func TestATaskHasAllOfAnAttemptButItsSession(t *testing.T) {
	due := start.Add(3 * time.Second)
	a := agent.Attempt{
		ID: "job/item_3/2", JobID: "job", Workflow: "w", CorrelationID: "job/item_3", Phase: "map", ItemID: "item_3", ItemIndex: 3, ItemTotal: 9,
		Item: json.RawMessage(`{"a":1}`), Number: 2, Worker: 4, Token: 17, Dir: "/run", Lost: true, Due: due, Base: "aaa", Resolve: "bbb", Branch: "prodigy/job-3",
		Steps:    []workflow.Step{{Shell: &workflow.Text{Value: "true"}}},
		Retrying: &events.StepRetrying{ItemID: "item_3", Step: "x"},
		Session:  &events.AISessionStarted{ItemID: "item_3", SessionID: "left on another machine"},
	}
	spec, task := NewSpec(a), NewTask(&a, "spec", start)
	for _, v := range []any{&spec, &task} {
		data, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(data, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got := task.Attempt(spec, "job", 1, start.Add(time.Hour))
	want := a
	want.Session, want.Worker, want.Due = nil, 1, start.Add(time.Hour+3*time.Second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
