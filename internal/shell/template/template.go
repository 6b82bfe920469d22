// Package template puts values into command text so that a value can never become code.
//
// A shell step is parsed once, at load: each ${placeholder} of prodigy's own names becomes a reference to an
// environment variable in the right quoting for its place, and the script is a constant from then on. Per item
// only the environment differs.
//
// Compile works in three steps:
//
//   - scan finds the refs: the pieces of the text that may be prodigy's, whatever the quotes around them.
//   - analyze replaces each ref by a sentinel, an expansion such as ${PRODIGY_V0}, and parses the result as shell. A
//     walk over the tree notes the place of each ref: its quotes, and what the shell does with what stands there.
//   - assemble edits the parsed text: a ref becomes a reference to the variable of its slot, or text again. Then
//     checkValues reads the script as it will be run, and reports the values that it runs as code.
//
// Bind makes an Invocation of the Template for each item. A Plain is a text without a shell, of which only scan is
// needed.
package template

import "prodigy/internal/process"

// Resolver gives the values of names while a step is bound. It returns false for a name that has no value at that time.
type Resolver interface {
	Resolve(root string) (Value, bool)
}

// Options of Compile.
type Options struct {
	Names Names

	// Shell is the interpreter of the text: sh, bash, dash, zsh, ksh or mksh. Empty means sh. A text for any other
	// can hold no placeholders.
	Shell string
}

// Template is a compiled step text. It is immutable and shared by all workers.
type Template struct {
	Diags []Diag // warnings and notes

	pieces []piece

	// argv are the words of the script if it is one plain command, and redirects the redirections of that.
	argv      []argument
	redirects []process.Redirect

	// display is the text as written, with its placeholders, for Render.
	display []piece

	slots []slot

	// roots are the roots of the placeholders that are filled in, for Uses.
	roots map[string]bool
}

// Uses reports whether the template holds a placeholder whose root is this name.
func (t *Template) Uses(root string) bool { return t.roots[root] }

// piece is a part of a script: constant text, or what a slot's value becomes at its place.
type piece struct {
	// text is constant if slot is negative. Otherwise it is the placeholder as written.
	text string

	slot int

	// ref is the index of the ref that a piece with a slot stands for.
	ref int

	// quote and around are those of the place.
	quote  quoting
	around []quoting
}

func constant(text string) piece { return piece{text: text, slot: -1} }

// slot is a value of a script in one form; all placeholders for it share the variable. A declared name that the script
// uses as $name has one, too: the shell finds it in its environment, and expands it natively.
type slot struct {
	variable string
	expr     *expr
	written  string
	mode     slotMode

	// number reports whether the shell evaluates the value, which must be a whole number then.
	number bool

	// plain reports whether a negative number stands without parentheses. In $((1-${item.n})) it needs them, and in
	// test ${item.n} -eq 1 they would be an error.
	plain bool

	// child reports whether another shell reads the value, so that it must stay in the environment, however large.
	child bool

	// optional reports whether every use has a default of the shell's, so that a missing value is no error.
	optional bool
}

type slotMode uint8

const (
	// oneText is one variable. The elements of a list have blanks between them.
	oneText slotMode = iota
	// separate is a variable for each element of a list, PRODIGY_V0_0 and so on: rm ${item.files[*]}.
	separate
	// pastedCode is no variable but a part of the script: ${item.command|raw}.
	pastedCode
)

// argument is a word of a plain command: its pieces are joined, but a list that stands alone is an argument for
// each element.
type argument []piece

// binding is one Bind under way.
type binding struct {
	vars []variable

	// values has for each slot its elements when they are separate words, else one text.
	values [][]string
}

// variable is a shell variable of the script.
type variable struct {
	name, value, written string
	child                bool
}
