package agent

import (
	"strings"

	"prodigy/internal/filter"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// condition is the compiled when of a step.
type condition struct {
	parsed *filter.Condition
	terms  []term
}

// term is one of the values in a condition: exactly one of its fields is set.
type term struct {
	single *template.Single
	text   *template.Plain
}

// condition compiles the when of s, which may be absent.
func (c *compiler) condition(s *step, p place) *condition {
	if s.When == nil {
		return nil
	}
	c.look(s, s.When.Value)
	parsed, err := filter.ParseCondition(s.When.Value)
	if err != nil {
		c.failed(s, s.When.At, &whenError{err})
		return nil
	}
	compiled := &condition{parsed: parsed, terms: make([]term, len(parsed.Terms))}
	for i, t := range parsed.Terms {
		compiled.terms[i] = c.term(s, t, p)
	}
	return compiled
}

// whenError is the mistake in a condition.
type whenError struct{ err error }

func (e *whenError) Error() string { return "when: " + e.err.Error() }

func (e *whenError) Unwrap() error { return e.err }

func (c *compiler) term(s *step, t filter.Term, p place) term {
	at := func(int, int) workflow.Pos { return s.When.At(lineCol(s.When.Value, t.At)) }
	var compiled term
	var err error
	if t.Text {
		compiled.text, err = template.CompilePlain(t.Src, p.names())
	} else {
		compiled.single, err = template.CompileSingle(t.Src, p.names())
	}
	c.failed(s, at, err)
	return compiled
}

// lineCol returns where an offset of a text is, both from 1.
func lineCol(text string, offset int) (line, col int) {
	before := text[:offset]
	return 1 + strings.Count(before, "\n"), offset - strings.LastIndexByte(before, '\n')
}

// wanted tells whether st is to be run. A step with a text that does not compile is, and fails by that.
func (st *step) wanted(s *scope) (bool, error) {
	if st.when == nil || st.broken != nil {
		return true, nil
	}
	return st.when.holds(s.binding(st))
}

// holds tells whether the condition is met. A term without a value is null.
func (c *condition) holds(s *scope) (bool, error) {
	operands := make([]filter.Operand, len(c.terms))
	for i, t := range c.terms {
		var err error
		if operands[i], err = t.operand(s); err != nil {
			return false, err
		}
	}
	return c.parsed.Holds(func(i int) filter.Operand { return operands[i] }), nil
}

func (t term) operand(s *scope) (filter.Operand, error) {
	if t.text != nil {
		text, err := t.text.Bind(s)
		return filter.Untyped(text), err
	}
	v, ok, err := t.single.Value(s)
	if !ok || err != nil {
		return filter.Operand{}, err
	}
	if doc, ok := v.Document(); ok {
		return filter.Typed(doc), nil
	}
	return filter.Untyped(v.String()), nil
}
