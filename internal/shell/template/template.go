// Package template puts values into command text so that a value can never become code.
//
// A shell step is parsed once, at load: each ${placeholder} of prodigy's own names becomes a reference to an
// environment variable in the right quoting for its place, and the script is a constant from then on. Per item
// only the environment differs.
package template

import (
	"fmt"
	"strings"

	"prodigy/internal/process"
)

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
	exports   []exportedVar
	roots     map[string]bool
}

// Uses reports whether the template holds a placeholder whose root is this name.
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

// Severity of a Diag.
type Severity int

// The severities, the mildest first.
const (
	Info Severity = iota
	Warning
	Error
)

// Diag is a finding about the text of a step, at a byte offset and line:col (from 1) of that text.
type Diag struct {
	Code     string // PS001 ...
	Severity Severity
	Offset   int
	Line     int
	Col      int
	Text     string
}

func (d Diag) String() string { return fmt.Sprintf("%d:%d: %s %s", d.Line, d.Col, d.Code, d.Text) }

// CompileError holds all the error diagnoses of a text.
type CompileError struct {
	Diags []Diag
}

func (e *CompileError) Error() string {
	lines := make([]string, len(e.Diags))
	for i, d := range e.Diags {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// BindError is the error of a Bind: a missing value, a value that is not a whole number in arithmetic, a NUL, ...
type BindError struct {
	Placeholder string // as written
	Text        string // what is wrong with it, for people; holds the placeholder
	Missing     bool   // it has no value
}

func (e *BindError) Error() string { return e.Text }

// finding is what a rule says about a placeholder before its position is known. The zero finding says nothing.
type finding struct {
	code, text string
}

func newDiag(src string, offset int, severity Severity, f finding) Diag {
	offset = min(max(offset, 0), len(src))
	before := src[:offset]
	return Diag{
		Code: f.code, Severity: severity, Offset: offset, Text: f.text,
		Line: 1 + strings.Count(before, "\n"),
		Col:  offset - strings.LastIndexByte(before, '\n'),
	}
}

// piece is a part of a script: constant text, or what a slot's value becomes at its place.
type piece struct {
	text   string // constant, when slot is negative; else the placeholder as written
	slot   int
	ref    int // that it stands for, with a slot
	quote  quoting
	around []quoting
}

func constant(text string) piece { return piece{text: text, slot: -1} }

// slot is a value of a script in one form; all placeholders for it share the variable.
type slot struct {
	variable string
	expr     *expr
	written  string
	mode     slotMode
	number   bool // the shell evaluates it
	plain    bool // a negative number has no parentheses
	child    bool // another shell reads it, so it must stay in the environment
}

type slotMode uint8

const (
	oneText    slotMode = iota // the elements of a list with blanks between
	separate                   // a variable for each element
	pastedCode                 // no variable: part of the script
)

// exportedVar is a declared name that the script uses as $name: the shell finds it in its environment, and
// expands it natively.
type exportedVar struct {
	name     string
	number   bool // the shell evaluates it
	required bool // some use has no default
	child    bool // another shell reads it
}

// argument is a word of a plain command: its parts are joined, but a list that stands alone is an argument for
// each element.
type argument []argumentPart

// argumentPart is constant text when slot is negative.
type argumentPart struct {
	text string
	slot int
}

// redirection is a process.Redirect whose File is not known before the values are.
type redirection struct {
	process.Redirect
	file argument // nil: there is none
}
