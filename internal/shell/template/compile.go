package template

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// Compile compiles the text of a shell step. The error is a *CompileError. A text without prodigy's names is never
// changed or refused, so that no gap of the parser can stand in its way.
func Compile(src string, o Options) (*Template, error) {
	c := newCompiler(src, o)
	if err := c.scan(); err != nil {
		return nil, err
	}
	if len(c.refs) == 0 && len(c.natives) == 0 && !c.usesDeclaredName() { // which need not be parsed
		t := c.passthrough()
		return t, c.failure()
	}
	if err := c.analyze(); err != nil {
		return nil, err
	}
	return c.assemble()
}

// usesDeclaredName reports whether a declared name stands in the text. It needs no dollar in arithmetic, as in
// $((count + 1)), nor behind [[ -v and printenv.
func (c *compiler) usesDeclaredName() bool {
	for rest := c.src; rest != ""; {
		n := shell.NameLen(rest)
		if n > 0 && c.names.declared(rest[:n]) {
			return true
		}
		rest = rest[max(1, n):]
	}
	return false
}

// passthrough returns the template of a text without names that prodigy fills in. It is parsed to see whether it
// needs a shell at all, and to warn of what no shell will take; it runs all the same, since a shell may take
// more than the parser.
func (c *compiler) passthrough() *Template {
	whole := []piece{constant(c.src)}
	t := &Template{pieces: whole, display: whole}
	if c.dialects == nil {
		return t
	}
	file, err := shell.Parse(c.src, c.dialects)
	if err != nil {
		c.warnInvalid(err)
		t.Diags = c.diags
		return t
	}
	c.collectVariables(file, "")
	c.lintUnresolved(file)
	if strings.Contains(c.src, itemVar) { // which the other variables with the data of an item begin with
		c.checkValues(c.src)
	}
	t.Diags = c.diags
	t.argv, t.redirects = c.plainCommand(file)
	return t
}

// warnInvalid warns of a text that the parser does not take and that is run all the same.
func (c *compiler) warnInvalid(err error) {
	c.report(Warning, shell.ErrorOffset(err), finding{codeShell, "this may not be valid sh: " + shell.ErrorText(err)})
}

// analyze parses the text and finds the place of each ref in it.
func (c *compiler) analyze() error {
	if at := reservedForm().FindStringIndex(c.src); at != nil && len(c.refs) > 0 {
		c.fail(at[0], codeReserved, "names starting with PRODIGY_V are reserved")
		return c.failure()
	}
	if c.dialects == nil {
		c.fail(c.firstOffset(), codeShellName,
			"placeholders are not supported in %s code; pass the value with env: (supported shells: sh, bash, dash, zsh, ksh, mksh)",
			c.shell)
		return c.failure()
	}
	c.parseText = c.withSentinels()
	file, err := shell.Parse(c.parseText, c.dialects)
	if err != nil {
		// Only a declared name stands in the text, perhaps by chance. It is run all the same, as in passthrough.
		if len(c.refs) == 0 && len(c.natives) == 0 {
			c.warnInvalid(err)
			return nil
		}
		c.fail(c.sourceOffset(shell.ErrorOffset(err)), codeShell, "this is not valid sh: %s",
			c.restorePlaceholders(shell.ErrorText(err)))
		return c.failure()
	}
	c.file = file
	c.constants = shell.Constants(file)
	c.place(file)
	return nil
}

// place finds the place of each ref. Nested code, which only a walk finds, may set and count variables of the
// code around it, as in n=${item.n}; eval 'echo $((n))': so a second walk sees them from the start, and all that the
// first one noted is taken back but for them.
func (c *compiler) place(file *syntax.File) {
	faults := check.Each(c.refs, func(r *ref) finding { return r.fault })
	diags := len(c.diags)
	for range 2 {
		for i, r := range c.refs {
			r.fault, r.places = faults[i], nil
		}
		c.diags, c.heredocs = c.diags[:diags], nil
		clear(c.exports)
		clear(c.rootUses)
		clear(c.used)
		c.collectVariables(file, "")
		w := &walker{c: c, roles: map[int]role{}}
		w.comments(file)
		w.stmts(file.Stmts)
	}
}

// CompileConstant returns the text for an interpreter that no value can be put into the text of: a value would
// be code there. $${name} becomes ${name}; what nobody declared stays as it is. The error is a *CompileError.
func CompileConstant(src string, n Names, interpreter string) (string, error) {
	c := newCompiler(src, Options{Names: n})
	if err := c.scan(); err != nil {
		return "", err
	}
	var b strings.Builder
	last := 0
	for _, r := range c.refs {
		b.WriteString(src[last:r.start])
		last = r.end
		switch r.kind {
		case literal:
			b.WriteString(r.written[1:])
		case unknownRef, short:
			b.WriteString(r.written)
		default:
			c.fail(r.start, codeShellName,
				"%s cannot be inserted into %s code: pass it with the step's env and read the variable there, or use $%s for the literal text",
				r.written, interpreter, r.written)
		}
	}
	b.WriteString(src[last:])
	return b.String(), c.failure()
}

// IsShell reports whether name is a shell whose texts can hold placeholders.
func IsShell(name string) bool {
	_, ok := shell.Dialects(name)
	return ok && name != ""
}
