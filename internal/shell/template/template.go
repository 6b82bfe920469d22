// Package template puts values into command text so that a value can never become code.
//
// A shell step is parsed once, at load: each ${placeholder} of prodigy's own names becomes a reference to an
// environment variable in the right quoting for its place, and the script is a constant from then on. Per item
// only the environment differs.
package template

import (
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

// binding is one Bind under way.
type binding struct {
	vars     []variable
	values   [][]string // of each slot: its elements when they are separate words, else one text
	size     int
	elements int
	largest  int
}

// variable is a shell variable of the script.
type variable struct {
	name, value, written string
	child                bool
}
