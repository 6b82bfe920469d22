package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// tools are what a job finds on this machine: the home of all jobs, the argv of the AI coding CLI of claude steps, and
// how such CLIs are called and read.
type tools struct {
	home jobs.Home
	// claude is the argv of the CLI of claude steps.
	claude []string
	// agents are the presets that the workflow uses. It is nil if it uses none.
	agents ai.Set
}

// findTools returns the tools for w. It fails if a CLI is not installed that a step needs which runs on this machine.
func findTools(w *workflow.Workflow, here func(workflow.StepRef) bool) (t tools, err error) {
	if t.home, err = jobs.FromEnv(); err == nil {
		t.claude, err = claudeCommand(t.home)
	}
	if err == nil {
		t.agents, err = agentsOf(t.home, w)
	}
	if err == nil {
		err = t.agents.CheckInstalled(w, t.claude, here)
	}
	return t, err
}

// claudeCommand returns the argv of the AI coding CLI: the environment's, else the configured one, else the usual one.
func claudeCommand(home jobs.Home) ([]string, error) {
	if argv := strings.Fields(os.Getenv("PRODIGY_CLAUDE_COMMAND")); len(argv) > 0 {
		return argv, nil
	}
	c, err := settings.ReadConfig(home.Root)
	if err != nil || len(c.Agent.Command) > 0 {
		return c.Agent.Command, err
	}
	return agent.DefaultClaude(), nil
}

// noSteps is for findTools when nothing is run.
func noSteps(workflow.StepRef) bool { return false }

// homePresets returns the changes to presets that are in PRODIGY_HOME.
func homePresets(home jobs.Home) ([]ai.Layer, error) {
	path := filepath.Join(home.Root, agentsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read agent presets: %w", err)
	}
	layer, err := ai.ReadLayer(path, data)
	if err != nil {
		return nil, refusef("%w", err)
	}
	return []ai.Layer{layer}, nil
}

// agentsFile is the file in PRODIGY_HOME that changes presets.
const agentsFile = "agents.yml"

// loadPresets returns the presets of a workflow.
func loadPresets(home jobs.Home, w *workflow.Workflow) (ai.Set, error) {
	layers, err := homePresets(home)
	if err != nil {
		return nil, err
	}
	return ai.Of(w, layers)
}

// agentsOf returns how the AI coding CLIs are called and read that a workflow needs: of the presets that are built in,
// changed by those in PRODIGY_HOME and by its own, those that it uses. Without a step that needs one, nothing is read,
// and it is nil.
func agentsOf(home jobs.Home, w *workflow.Workflow) (ai.Set, error) {
	if !ai.Wanted(w) {
		return nil, nil
	}
	set, err := loadPresets(home, w)
	if wrong, ok := errors.AsType[*ai.Error](err); ok {
		return nil, &workflow.InvalidError{Problems: []workflow.Problem{wrong.Problem}}
	}
	if err != nil {
		return nil, refusef("%w", err)
	}
	return set.UsedBy(w)
}

// presetTexts returns how AI coding CLIs are called, beside what is built in, as YAML.
func presetTexts(home jobs.Home, w *workflow.Workflow) ([]string, error) {
	layers, err := homePresets(home)
	if err != nil {
		return nil, err
	}
	if w.Agents != nil {
		layers = append(layers, ai.Layer{Node: w.Agents.Node})
	}
	var texts []string
	for _, l := range layers {
		text, err := yaml.Marshal(l.Node)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}
