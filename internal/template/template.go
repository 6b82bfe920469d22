// Package template puts values into command text so that a value can never become code.
//
// A shell step is parsed once, at load: each ${placeholder} of prodigy's own names becomes a reference to an environment
// variable in the right quoting for its place, and the script is a constant from then on. Per item only the environment differs.
package template

import "strings"

// Resolver gives the values of names while a step is bound. False means: no value, now.
type Resolver interface {
	Resolve(root string) (Value, bool)
}

// Options of Compile.
type Options struct {
	Names Names
	Shell string // sh (also when empty), bash, dash, zsh, ksh, mksh
}

// Template is a compiled step text. It is immutable and shared by all workers.
type Template struct {
	Diags []Diag // warnings and notes

	src       string
	script    string        // the whole script, when no piece of it depends on values
	pieces    []piece       // the script in pieces otherwise
	argv      []argument    // the words of the script, when it is one plain command
	redirects []redirection // of that command
	display   []piece       // the text as written, with its placeholders, for Render
	slots     []slot
	exports   []export
	roots     map[string]bool
}

// Compile compiles the text of a shell step. The error is a *CompileError. A text without prodigy's names is never
// changed or refused, so that no gap of the parser can stand in its way.
func Compile(src string, o Options) (*Template, error) {
	c := newCompiler(src, o)
	if err := c.scan(); err != nil {
		return nil, err
	}
	if !c.mentions() {
		t := c.untouched()
		return t, c.failure()
	}
	if err := c.analyze(); err != nil {
		return nil, err
	}
	return c.assemble()
}

// Uses tells whether the template holds a placeholder whose root is this name.
func (t *Template) Uses(root string) bool { return t.roots[root] }

// Render returns the script with the values quoted in place, for people to read and copy. It is never run.
// A placeholder without a value stays as it was written.
func (t *Template) Render(r Resolver) string {
	if len(t.display) == 0 {
		return t.src
	}
	var b strings.Builder
	for i := range t.display {
		b.WriteString(t.display[i].shown(t.slots, r))
	}
	return b.String()
}
