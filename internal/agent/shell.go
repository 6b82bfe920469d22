package agent

import (
	"path"
	"slices"
	"strings"

	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// shell is a step that a shell runs. Its values reach it through the environment only.
type shell struct {
	*template.Template
	argv workflow.Interpreter // before the script, the last option ends in c; nil means sh
}

func buildShell(c *compiler, s *step, n scopeNames) command {
	return c.command(s, s.Interpreter, s.Shell.Value, s.Shell.At, n)
}

func (s shell) bind(r template.Resolver, x *Executor) (call, error) {
	inv, err := s.Bind(r)
	if err != nil {
		return call{}, err
	}
	c := call{argv: s.argv, env: inv.Env, values: inv.Values}
	if len(s.argv) == 0 {
		c.path, c.argv, c.program = x.shell().Path, []string{"sh", "-c"}, inv.Program
	}
	if !inv.AsFile {
		c.argv = append(slices.Clip(c.argv), inv.Script)
		return c, nil
	}
	c.argv, c.script = slices.Clone(c.argv), inv.Script
	end := len(c.argv) - 1
	if c.argv[end] = strings.TrimSuffix(c.argv[end], "c"); c.argv[end] == "-" {
		c.argv = c.argv[:end]
	}
	return c, nil
}

func (s shell) render(r template.Resolver) string { return s.Render(r) }

// shellOf returns the name of an interpreter, and whether it is a shell that takes the script as an argument. Without
// one that is sh.
func shellOf(argv []string) (name string, is bool) {
	if len(argv) == 0 {
		return "sh", true
	}
	name = path.Base(argv[0])
	for _, option := range argv[1:] {
		if len(option) < 2 || option[0] != '-' || option[1] == '-' {
			return name, false
		}
	}
	return name, len(argv) > 1 && template.IsShell(name) && strings.HasSuffix(argv[len(argv)-1], "c")
}

// script is a step for an interpreter that is no shell. No value is put into its text.
type script struct {
	text string
	argv workflow.Interpreter
}

// maxScriptArgument is the size past which a script cannot be an argument: systems allow 128 KiB for one.
const maxScriptArgument = 120 << 10

func (s script) bind(template.Resolver, *Executor) (call, error) {
	if file, ok := s.argv.ForFile(); ok && len(s.text) > maxScriptArgument {
		return call{argv: file, script: s.text}, nil
	}
	return call{argv: append(slices.Clip(s.argv), s.text)}, nil
}

func (s script) render(template.Resolver) string { return s.text }
