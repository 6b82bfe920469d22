package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/template"
)

// claude is a step that gives its text to the AI coding CLI, without a shell. Values in it are data, which the CLI must not take for
// options: so claude reads the prompt from its standard input. Other programs get it as their last argument, since not all of them
// would read it; a prompt that looks like an option is refused.
type claude struct{ *template.Plain }

var errNoCLI = errors.New("no AI coding CLI is configured")

func compileClaude(text string, n template.Names) (command, []template.Diag, error) {
	p, err := template.CompilePlain(text, n)
	if err != nil {
		return nil, nil, err
	}
	return claude{p}, p.Diags, nil
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

func (c claude) render(r template.Resolver) string { return c.Render(r) }

// readsPrompt reports whether a program takes its prompt from its standard input.
func readsPrompt(program string) bool {
	switch filepath.Base(program) {
	case "claude", "claude.exe", "claude.cmd":
		return true
	}
	return false
}

// lastWords returns the line that says best why an AI coding CLI failed: the last one on stdout, where they write their errors, or the error in
// it when it is a JSON object; else the last line of stderr. exact reports whether it came from JSON.
func lastWords(p Printed) (line string, exact bool) {
	line = lastLine(p.Output)
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(line), &o) != nil {
		return cmp.Or(line, lastLine(p.Stderr)), false
	}
	if words := errorIn(o); words != "" {
		return words, true
	}
	return lastLine(p.Stderr), false
}

// errorIn returns the first line of the error that a JSON object, or an object in it, has under one of the usual keys.
func errorIn(o map[string]json.RawMessage) string {
	for _, key := range []string{"result", "error", "errors", "data", "message"} {
		value := o[key]
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && len(list) > 0 {
			value = list[0]
		}
		var text string
		if json.Unmarshal(value, &text) == nil {
			value = json.RawMessage(text)
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) == nil && len(inner) > 0 {
			text = errorIn(inner)
		}
		if text, _, _ = strings.Cut(strings.TrimSpace(text), "\n"); text != "" {
			return text
		}
	}
	return ""
}
