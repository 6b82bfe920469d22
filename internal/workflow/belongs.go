package workflow

import (
	"reflect"
	"slices"

	"prodigy/internal/breaker"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/retry"
)

// belongs is the end of a message about a key that is unknown in the block where it stands, but is known elsewhere: there it may have
// been meant to be, indented otherwise.
func belongs(name, where string) string {
	var places []string
	for _, block := range []struct {
		name string
		zero any
	}{
		{"workflow", Workflow{}},
		{"map", Map{}},
		{"step", Step{}},
		{"retry_config", retry.Policy{}},
		{"error_policy", errorpolicy.Policy{}},
		{"circuit_breaker", breaker.Config{}},
		{"timeout_config", Timeouts{}},
		{"input", Input{}},
		{"on_failure", OnFailure{}},
	} {
		if block.name != where && hasKey(reflect.TypeOf(block.zero), name) {
			places = append(places, block.name)
		}
	}
	if len(places) == 0 {
		return ""
	}
	return ": it is a key of " + oneOf(places) + "; is it indented wrongly?"
}

// hasKey tells whether a type has a field of that name in workflow files.
func hasKey(t reflect.Type, name string) bool {
	fields := slices.Collect(t.Fields())
	return slices.ContainsFunc(fields, func(f reflect.StructField) bool {
		return f.Tag.Get("yaml") == name || f.Tag.Get("alias") == name
	})
}
