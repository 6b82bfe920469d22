package workflow

import (
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// scriptFlags are the options by which interpreters take a script as an argument, by the name of the program. A version behind the
// name, as in python3.12, does not count.
func scriptFlags() map[string]string {
	return map[string]string{
		"sh": "-c", "bash": "-c", "dash": "-c", "ash": "-c", "zsh": "-c", "ksh": "-c", "mksh": "-c", "fish": "-c", "nu": "-c",
		"python": "-c", "pypy": "-c", "node": "-e", "bun": "-e", "ruby": "-e", "perl": "-e", "lua": "-e", "Rscript": "-e", "julia": "-e",
		"elixir": "-e", "php": "-r", "pwsh": "-Command", "powershell": "-Command",
	}
}

// Interpreter is the argv that runs a script, which is appended to it.
type Interpreter []string

// interpreter reads what runs the script of a step: the name of a program that is known to take one, or the whole argv in front
// of the script.
func (r *reader) interpreter(e entry) (Interpreter, bool) {
	if e.value.Kind == yaml.SequenceNode {
		return r.argv(e)
	}
	program, ok := r.filled(e)
	if !ok || !r.constant(e, program) {
		return nil, false
	}
	flag, known := scriptFlags()[strings.TrimRight(path.Base(program), "0123456789.")]
	if !known {
		r.fail(e.value, "interpreter: it is not known how %q takes a script: list the program and its options, the script follows them, as in [bash, -eu, -c]", program)
		return nil, false
	}
	return Interpreter{program, flag}, true
}

// argv reads a list of constant arguments, at least one.
func (r *reader) argv(e entry) ([]string, bool) {
	if len(e.value.Content) == 0 {
		r.fail(e.value, "%s is empty", e.name)
		return nil, false
	}
	argv := make([]string, 0, len(e.value.Content))
	for _, n := range e.value.Content {
		word, ok := r.text(e.with(n))
		if !ok || !r.constant(e.with(n), word) {
			return nil, false
		}
		argv = append(argv, word)
	}
	if strings.TrimSpace(argv[0]) == "" {
		r.fail(e.value, "%s: the first element names the program, and it is empty", e.name)
		return nil, false
	}
	return argv, true
}

// constant reports a value in a text that is the same for all items.
func (r *reader) constant(e entry, text string) bool {
	if strings.Contains(text, "${") {
		r.fail(e.value, "%s: no value can stand here, the interpreter is the same for all", e.name)
		return false
	}
	return true
}

// ForFile returns the argv that runs a script from a file whose path is appended, when that is known.
func (i Interpreter) ForFile() ([]string, bool) {
	if len(i) != 2 {
		return nil, false
	}
	flag, known := scriptFlags()[strings.TrimRight(path.Base(i[0]), "0123456789.")]
	if !known || flag != i[1] {
		return nil, false
	}
	return slices.Clone(i[:1]), true
}
