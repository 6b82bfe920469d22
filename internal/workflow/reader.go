package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// reader turns the nodes of a YAML document into a workflow. It goes on after a problem, so that all are told at once.
type reader struct {
	file     string
	lines    []string // of the file, for places inside values
	options  ParseOptions
	w        *Workflow
	defaults *placed          // retry_defaults, when there are any
	policy   map[string]entry // the fields of the error policy that were written, wherever that was

	handlerKeys map[string]*yaml.Node // by name
	breakers    map[Pos]*yaml.Node    // the keys circuit_breaker of steps, by the place of the step
	limits      map[Pos]entry         // the timeouts of phases, by the place of the phase

	problems []Problem
	warnings []Problem
}

func newReader(file string, data []byte, o ParseOptions) *reader {
	return &reader{
		file: file, lines: strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n"), options: o,
		w: &Workflow{File: file}, policy: map[string]entry{}, handlerKeys: map[string]*yaml.Node{},
		breakers: map[Pos]*yaml.Node{}, limits: map[Pos]entry{},
	}
}

// fail records that something is wrong at n.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.failAt(place(n), format, args...)
}

func (r *reader) failAt(at Pos, format string, args ...any) {
	r.problems = append(r.problems, r.problem(at, format, args...))
}

// warn records something that is no error, but that who wrote it should know.
func (r *reader) warn(n *yaml.Node, format string, args ...any) {
	r.warnings = append(r.warnings, r.problem(place(n), format, args...))
}

func (r *reader) problem(at Pos, format string, args ...any) Problem {
	return Problem{File: r.file, Line: max(1, at.Line), Col: max(1, at.Col), Message: fmt.Sprintf(format, args...)}
}

// wrong records that the value of e is of another kind than is wanted.
func (r *reader) wrong(e entry, want string) {
	r.fail(e.value, "%s: want %s, got %s", e.name, want, describe(e.value))
}

func place(n *yaml.Node) Pos { return Pos{Line: n.Line, Col: n.Column} }

// describe names a value in words for people.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!bool":
		return n.Value
	case n.Tag == "!!int", n.Tag == "!!float":
		return "the number " + n.Value
	}
	return fmt.Sprintf("text %q", shorten(n.Value))
}

func shorten(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// follow returns n, or what it is an alias of.
func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// inOrder sorts problems by place and drops those told twice, as of a value that has several aliases.
func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems)
}
