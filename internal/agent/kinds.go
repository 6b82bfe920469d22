package agent

import "prodigy/internal/workflow"

// kind is what makes a kind of step: text and compile for one that is a single text, build for any other.
type kind struct {
	text    func(*workflow.Step) *workflow.Text
	compile compileText
	build   func(c *compiler, s *step, n scopeNames) command
}

// kinds returns the kinds of steps by their key in the workflow file.
func kinds() map[string]kind {
	return map[string]kind{
		"shell":  {text: func(s *workflow.Step) *workflow.Text { return s.Shell }, compile: compileShell},
		"claude": {text: func(s *workflow.Step) *workflow.Text { return s.Claude }, compile: compileClaude},

		"agent":      {build: buildAgent},
		"write_file": {build: buildWriteFile},
		"foreach":    {build: buildForeach},
		"validate":   {build: buildValidate},
	}
}
