package fleet

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// A worker gets all of an attempt but what is only on the machine of an earlier one: the session of an AI coding CLI.
func TestATaskHasAllOfAnAttemptButItsSession(t *testing.T) {
	due := start.Add(3 * time.Second)
	a := agent.Attempt{
		ID: "job/item_3/2", JobID: "job", Workflow: "w", CorrelationID: "job/item_3", Phase: "map", Worker: 4,
		Dir: "/run",
		Assignment: agent.Assignment{
			ItemID: "item_3", ItemIndex: 3, ItemTotal: 9, Item: json.RawMessage(`{"a":1}`), Number: 2, Token: 17,
			Workspace: agent.Workspace{Base: "aaa", Resolve: "bbb", Branch: "prodigy/job-3"}, Lost: true,
			Retrying: &events.StepRetrying{ItemID: "item_3", Step: "x"},
			Trace:    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Steps: []workflow.Step{{Shell: &workflow.Text{Value: "true"}}},
		Continued: agent.Continued{
			Due:     due,
			Session: &events.AISessionStarted{ItemID: "item_3", SessionID: "left on another machine"},
		},
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
	got := task.Attempt(spec, 1, start.Add(time.Hour))
	want := a
	want.Session, want.Worker, want.Due = nil, 1, start.Add(time.Hour+3*time.Second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is of one attempt is not what all have in common, or the others would get that of the first. A new field of an attempt is one or the other.
func TestASpecHasNothingOfOneAttempt(t *testing.T) {
	common := []string{
		"JobID", "Workflow", "Phase", "Dir", "Env", "Secrets", "PerValue", "Batch", "Producing", "Args", "Steps",
		"Handler", "Earlier", "Done", "Map", "Merge",
		"Limits", "Outputs", "Spec",
	}
	for f := range reflect.TypeFor[agent.Attempt]().Fields() {
		var a agent.Attempt
		testenv.Fill(t, reflect.ValueOf(&a).Elem().FieldByIndex(f.Index))
		has := !reflect.ValueOf(NewSpec(a).Template).FieldByIndex(f.Index).IsZero()
		if has && !slices.Contains(common, f.Name) {
			t.Errorf("a spec has the %s of the attempt that it was made of", f.Name)
		}
	}
}
