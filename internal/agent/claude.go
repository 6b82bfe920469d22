package agent

import (
	"errors"
	"slices"
	"strings"

	"prodigy/internal/template"
)

// claude is a step that gives its text to the AI coding CLI, as one argument and through no shell.
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
	if strings.IndexByte(prompt, 0) >= 0 {
		return call{}, &template.BindError{Text: "the prompt holds a NUL byte, which no argument can"}
	}
	return call{argv: append(slices.Clip(x.Claude), prompt)}, nil
}

func (c claude) render(r template.Resolver) string { return c.Render(r) }
