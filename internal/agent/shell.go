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
	argv []string // before the script, the last option ends in c; nil means sh
}

func buildShell(c *compiler, s *step, n scopeNames) command {
	compile := compileShell
	if len(s.Interpreter) > 0 {
		compile = interpreted(s.Interpreter)
	}
	return c.command(s, compile, s.Shell.Value, s.Shell.At, n)
}

func compileShell(text string, n template.Names) (command, []template.Diag, error) {
	return compileFor("sh", nil, text, n)
}

func compileFor(name string, argv []string, text string, n template.Names) (command, []template.Diag, error) {
	t, err := template.Compile(text, template.Options{Names: n, Shell: name})
	if err != nil {
		return nil, nil, err
	}
	return shell{t, argv}, t.Diags, nil
}

func (s shell) bind(r template.Resolver, x *Executor) (call, error) {
	inv, err := s.Bind(r)
	if err != nil {
		return call{}, err
	}
	c := call{argv: s.argv, env: inv.Env, values: inv.Values}
	if s.argv == nil {
		c.path, c.argv, c.program = x.shell().Path(), []string{"sh", "-c"}, inv.Program
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

// interpreted returns how steps for an interpreter are compiled: for a shell like those of sh, for anything
// else as a constant text.
func interpreted(argv []string) compileText {
	if name, ok := shellOf(argv); ok {
		return func(text string, n template.Names) (command, []template.Diag, error) {
			return compileFor(name, argv, text, n)
		}
	}
	return func(text string, n template.Names) (command, []template.Diag, error) {
		constant, err := template.CompileConstant(text, n, path.Base(argv[0]))
		return script{text: constant, argv: argv}, nil, err
	}
}

// shellOf returns the name of the shell that an interpreter is, if it takes the script as an argument.
func shellOf(argv []string) (string, bool) {
	name := path.Base(argv[0])
	if !template.IsShell(name) || len(argv) < 2 {
		return "", false
	}
	for _, option := range argv[1:] {
		if len(option) < 2 || option[0] != '-' || option[1] == '-' {
			return "", false
		}
	}
	return name, strings.HasSuffix(argv[len(argv)-1], "c")
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
