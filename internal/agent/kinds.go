package agent

import (
	"context"

	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// kind is what makes a kind of step.
type kind struct {
	text    func(*workflow.Step) *workflow.Text
	compile func(text string, n template.Names) (command, []template.Diag, error)
	build   func(c *compiler, s *step, p place) command // instead of both: of a step that is more than a text
}

// kinds returns the kinds of steps by their command key; each has a file of its own.
func kinds() map[string]kind {
	return map[string]kind{
		"shell":  {text: func(s *workflow.Step) *workflow.Text { return s.Shell }, compile: compileShell},
		"claude": {text: func(s *workflow.Step) *workflow.Text { return s.Claude }, compile: compileClaude},

		"write_file": {build: buildWriteFile},
		"foreach":    {build: buildForeach},
		"validate":   {build: buildValidation},
	}
}

// command is the compiled text of a step.
type command interface {
	// bind puts the values in. An error fails the step before anything runs.
	bind(r template.Resolver, x *Executor) (call, error)
	// render returns the text with its values, for people.
	render(r template.Resolver) string
}

// call is a command with its values in place.
type call struct {
	path      string // of the program; empty: it is looked up
	argv      []string
	words     []string            // of the program that argv would run and nothing else; empty: argv has to be asked
	redirects []template.Redirect // of that program
	env       []string
	input     string // what it reads from its standard input
	ai        bool   // it is an AI coding CLI: what its tools have started ends with it
	values    string // to be put into a private file that PRODIGY_VALUES names
	script    string // to be put into a private file whose path is the last argument

	does action // instead of all above: what is done without one process of its own
}

// action does a bound step once. Its result counts when it failed, too; the error is for a stop, and for what prodigy could not do.
type action func(ctx context.Context, r *run, st *step, b bound) (result, *Failure, error)
