package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"prodigy/internal/testenv/scripts"
	"prodigy/internal/workflow"
)

const phasesDir = "../../testdata/phases/"

// The steps of each script are run in all places where steps can stand: the phases.yml has setup, map, reduce and merge, the handler.yml
// has them as on_item_failure: custom:all. The key that a script is named after does the same in each.
func TestEveryStepKeyWorksInEveryPhase(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts need a POSIX sh")
	}
	if testing.Short() {
		t.Skip("starts many processes")
	}
	scripts.Run(t, testscript.Params{Dir: phasesDir, Setup: func(env *testscript.Env) error {
		steps, err := os.ReadFile(filepath.Join(env.WorkDir, "steps.yml"))
		if err != nil {
			return err
		}
		for name, text := range everywhere(string(steps)) {
			if err := os.WriteFile(filepath.Join(env.WorkDir, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		return nil
	}})
}

// everywhere returns workflows, by the name of the file, that run a list of steps in six places.
func everywhere(steps string) map[string]string {
	anchored := "&all\n  " + strings.ReplaceAll(strings.TrimRight(steps, "\n"), "\n", "\n  ") + "\n"
	return map[string]string{
		"standard.yml": steps,
		"phases.yml":   "setup: " + anchored + "map: {input: [{n: 1}], agent_template: *all}\nreduce: *all\nmerge: *all\n",
		"handler.yml":  "handlers:\n all: " + anchored + "map: {input: [{n: 1}], agent_template: [{shell: exit 1}]}\non_item_failure: custom:all\n",
	}
}

func TestEveryStepKeyHasAScriptForEveryPhase(t *testing.T) {
	keys := []string{"with", "capture_output", "test"}
	for field := range reflect.TypeFor[workflow.Step]().Fields() {
		if key := field.Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if _, err := os.Stat(phasesDir + key + ".txtar"); err != nil {
			t.Errorf("the key %q has no script: %v", key, err)
		}
	}
}
