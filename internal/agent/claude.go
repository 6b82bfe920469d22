package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/template"
)

// claude is a step that gives its text to the AI coding CLI, through no shell. Values in it are data: the CLI must not take them for
// options. So claude reads the prompt from its standard input. Other programs get it as their last argument, since not all of them
// would read it, and no prompt that looks like an option.
type claude struct{ *template.Plain }

var errNoCLI = errors.New("no AI coding CLI is configured")

func compileClaude(text string, n template.Names) (command, []template.Diag, error) {
	p, err := template.CompilePlain(text, n)
	if err != nil {
		return nil, nil, err
	}
	return claude{p}, nil, nil
}

func (c claude) bind(r template.Resolver, x *Executor) (call, error) {
	if len(x.Claude) == 0 {
		return call{}, errNoCLI
	}
	prompt, err := c.Bind(r)
	if err != nil {
		return call{}, err
	}
	if readsPrompt(x.Claude[0]) {
		return call{argv: x.Claude, input: prompt, ai: true}, nil
	}
	switch {
	case strings.IndexByte(prompt, 0) >= 0:
		return call{}, &template.BindError{Text: "the prompt holds a NUL byte, which no argument can"}
	case strings.HasPrefix(prompt, "-"):
		return call{}, &template.BindError{Text: fmt.Sprintf(
			"the prompt begins with a dash, so that %s would take it for an option: begin it with words of your own", filepath.Base(x.Claude[0]),
		)}
	}
	return call{argv: append(slices.Clip(x.Claude), prompt), ai: true}, nil
}

// readsPrompt reports whether a program takes its prompt from its standard input.
func readsPrompt(program string) bool {
	switch filepath.Base(program) {
	case "claude", "claude.exe", "claude.cmd":
		return true
	}
	return false
}

func (c claude) render(r template.Resolver) string { return c.Render(r) }
