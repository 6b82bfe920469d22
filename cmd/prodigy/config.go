package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// claudeCommand returns the argv of the AI coding CLI: the environment's, else the configured one, else the usual one.
func claudeCommand(home jobs.Home) ([]string, error) {
	if argv := strings.Fields(os.Getenv("PRODIGY_CLAUDE_COMMAND")); len(argv) > 0 {
		return argv, nil
	}
	argv, err := readConfig(filepath.Join(home.Root, "config.yml"))
	if err != nil || len(argv) > 0 {
		return argv, err
	}
	return []string{"claude", "--print"}, nil
}

// checkClaude finds the executable of argv, when w has a step that needs it.
func checkClaude(w *workflow.Workflow, argv []string) error {
	for _, step := range stepsOf(w) {
		if step.Claude == nil {
			continue
		}
		if _, err := exec.LookPath(argv[0]); err != nil {
			return &workflow.InvalidError{Problems: []workflow.Problem{{
				File: w.File, Line: step.Claude.Pos.Line, Col: step.Claude.Pos.Col,
				Message: fmt.Sprintf("claude: %q is not an executable on PATH: install it, or set PRODIGY_CLAUDE_COMMAND, or agent.command in config.yml",
					argv[0]),
			}}}
		}
		return nil
	}
	return nil
}

// readConfig reads agent.command of a config file. A missing file is an empty one.
func readConfig(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c := configReader{file: path}
	argv := c.read(data)
	if len(c.problems) > 0 {
		return nil, &workflow.InvalidError{Problems: c.problems}
	}
	return argv, nil
}

// configReader reads a config file strictly and collects its problems.
type configReader struct {
	file     string
	problems []workflow.Problem
}

func (c *configReader) read(data []byte) []string {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		c.complain(&yaml.Node{Line: 1, Column: 1}, "this is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	agent := c.only(doc.Content[0], "agent", "the configuration")
	if agent == nil {
		return nil
	}
	command := c.only(agent, "command", "agent")
	if command == nil {
		return nil
	}
	return c.argv(command)
}

// only returns the value of key in a mapping that may hold no other.
func (c *configReader) only(n *yaml.Node, key, where string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		c.complain(n, "%s must be a mapping with the key %q", where, key)
		return nil
	}
	var found *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i]; {
		case k.Value != key:
			c.complain(k, "unknown key %q in %s (the only key is %q)", k.Value, where, key)
		case found != nil:
			c.complain(k, "the key %q is given twice", key)
		default:
			found = n.Content[i+1]
		}
	}
	return found
}

// argv reads a text, which is split at blanks, or a list of texts.
func (c *configReader) argv(n *yaml.Node) []string {
	var argv []string
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		argv = strings.Fields(n.Value)
	case n.Kind == yaml.SequenceNode:
		if n.Decode(&argv) != nil {
			argv = nil
		}
	}
	if len(argv) == 0 || argv[0] == "" {
		c.complain(n, "agent.command must be a command line, or a list of its words")
		return nil
	}
	return argv
}

func (c *configReader) complain(n *yaml.Node, format string, args ...any) {
	c.problems = append(c.problems, workflow.Problem{File: c.file, Line: n.Line, Col: n.Column, Message: fmt.Sprintf(format, args...)})
}
