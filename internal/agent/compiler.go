package agent

import (
	"errors"
	"fmt"
	"strings"

	shelltext "prodigy/internal/shell"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// compiler compiles lists of steps and collects its findings about their texts.
type compiler struct {
	findings []finding
	itemFile bool
	breakers map[string]int // steps with a breaker so far, by label
}

// finding is an error or a warning about a text of the workflow file.
type finding struct {
	at       workflow.Pos
	severity template.Severity
	message  string

	conditional bool // the step has a condition
}

// locate returns the position in the workflow file of a line and column of a text.
type locate func(line, col int) workflow.Pos

// anywhere locates texts of s whose own position is not known.
func (s *step) anywhere(_, _ int) workflow.Pos { return s.Pos }

// command compiles the text of a command for an interpreter, or for sh without one. If the interpreter is not a shell,
// the text must be constant.
func (c *compiler) command(s *step, argv workflow.Interpreter, text string, at locate, n scopeNames) command {
	c.noteUse(s, text)
	name, isShell := shellOf(argv)
	if !isShell {
		constant, err := template.CompileConstant(text, n, name)
		c.failed(s, at, err)
		return script{text: constant, argv: argv}
	}
	t, err := template.Compile(text, template.Options{Names: n, Shell: name})
	if err != nil {
		c.failed(s, at, err)
		return nil
	}
	for _, d := range t.Diags {
		c.found(s, at, d)
	}
	return shell{t, argv}
}

func (c *compiler) plain(s *step, text workflow.Text, n scopeNames) *template.Plain {
	c.noteUse(s, text.Value)
	compiled, err := template.CompilePlain(text.Value, n)
	if compiled != nil {
		for _, d := range compiled.Diags {
			c.found(s, text.At, d)
		}
	}
	c.failed(s, text.At, err)
	return compiled
}

// noteUse notes what a text uses that costs something to provide.
func (c *compiler) noteUse(s *step, text string) {
	if strings.Contains(text, itemFileVar) {
		c.itemFile = true
	}
	if s != nil && strings.Contains(strings.ReplaceAll(text, "results_file", ""), "results") {
		s.results = true
	}
}

// failed notes that a text does not compile.
func (c *compiler) failed(s *step, at locate, err error) {
	if err == nil {
		return
	}
	if s != nil && s.broken == nil {
		s.broken = err
	}
	compile, is := errors.AsType[*template.CompileError](err)
	if !is {
		c.refuse(at(1, 1), "%v", err)
		return
	}
	for _, d := range compile.Diags {
		c.found(s, at, d)
	}
}

// refuse notes an error.
func (c *compiler) refuse(at workflow.Pos, format string, args ...any) {
	c.findings = append(c.findings, finding{at: at, severity: template.Error, message: fmt.Sprintf(format, args...)})
}

func (c *compiler) found(s *step, at locate, d template.Diag) {
	c.findings = append(c.findings, finding{
		at: at(d.Line, d.Col), severity: d.Severity, message: d.Code + " " + d.Text,
		conditional: s != nil && s.When != nil,
	})
}

// env compiles a block of variables. Each sees the ones before it. Without a step it is the block of the workflow.
func (c *compiler) env(s *step, vars []workflow.EnvVar, n scopeNames) []variable {
	compiled := make([]variable, len(vars))
	for i, v := range vars {
		c.envName(v.Name, v.At())
		one := variable{name: v.Name}
		switch {
		case v.Command != nil:
			one.command = c.command(s, nil, v.Command.Value, v.Command.At, n)
		case v.Choice != nil: // it is decided before the job starts: only Check comes here
			one.value = c.plain(s, v.Choice.WhenTrue, n)
			c.plain(s, v.Choice.WhenFalse, n)
		case v.Literal:
			one.literal = v.Value.Value
		case v.Secret && v.Value.Value == "":
			one.secret = true
		default:
			one.value = c.plain(s, v.Value, n)
		}
		c.steering(v, one, n)
		compiled[i] = one
		n = withVars(n, vars[i:i+1])
	}
	return compiled
}

// valueName refuses names of captures and elements that would steer the programs of later steps, since their values
// are exported to them.
func (c *compiler) valueName(s *workflow.Step, of, name string) {
	if template.ReservedName(name) {
		c.refuse(s.Pos, "PS031 %s name %s is not allowed: it would change how the shell or its programs behave; choose another name", of, name)
	}
}

// steering reports data in a variable that makes it code: shells and programs run what they find there.
func (c *compiler) steering(v workflow.EnvVar, compiled variable, n scopeNames) {
	runs, searched := shelltext.Steering(v.Name)
	if !runs && !searched {
		return
	}
	written, isData := "the output of a command", v.Command != nil
	if compiled.value != nil {
		written, isData = compiled.value.Data(n)
	}
	if !isData && v.Choice != nil && strings.Contains(v.Choice.WhenFalse.Value, "$") {
		if other, err := template.CompilePlain(v.Choice.WhenFalse.Value, n); err == nil {
			written, isData = other.Data(n)
		}
	}
	switch {
	case !isData:
	case runs && v.Command == nil:
		c.refuse(v.At(), "PS033 %s is the value of %s, which decides what shells and programs run; use a constant", written, v.Name)
	default:
		c.findings = append(c.findings, finding{at: v.At(), severity: template.Warning, message: fmt.Sprintf(
			"PS033 %s is the value of %s; its author could choose which program runs", written, v.Name,
		)})
	}
}

// envName refuses names that prodigy sets for every command: the value of the workflow would never be seen.
func (c *compiler) envName(name string, at workflow.Pos) {
	if isOurs(name + "=") {
		c.refuse(at, "PS032 %s is set by prodigy for every command; choose another name", name)
	}
}
