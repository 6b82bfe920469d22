package agent

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/workflow"
)

func TestEveryKindOfStepCanBeCompiled(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(maps.Keys(kinds())), slices.Sorted(slices.Values(workflow.Kinds()))); diff != "" {
		t.Errorf("kinds of steps (-internal/agent/kinds.go +internal/workflow/workflow.go):\n%s", diff)
	}
}
