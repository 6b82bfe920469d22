package agent

import (
	"fmt"
	"strings"

	"prodigy/internal/filter"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// condition compiles the when of s. After a mistake the condition may be nil.
func (c *compiler) condition(s *step, n template.Names) *condition {
	src := s.When.Value
	c.noteUse(s, src)
	parsed, err := filter.ParseCondition(src)
	if err != nil {
		c.failed(s, s.When.At, fmt.Errorf("when: %w", err))
		return nil
	}
	if is, _ := n.Lookup("item"); is.Seen {
		n = n.With("item", template.Name{Root: true, Declared: true, Data: true})
	}
	compiled := &condition{parsed: parsed, terms: make([]term, len(parsed.Terms))}
	for i, t := range parsed.Terms {
		if t.Text {
			compiled.terms[i].text, err = template.CompilePlain(t.Src, n)
		} else {
			compiled.terms[i].single, err = template.CompileExpression(t.Src, n)
		}
		before := src[:t.At]
		line, col := 1+strings.Count(before, "\n"), t.At-strings.LastIndexByte(before, '\n')
		c.failed(s, func(int, int) workflow.Pos { return s.When.At(line, col) }, err)
	}
	return compiled
}

// holds reports whether the condition is met. A term without a value is null.
func (c *condition) holds(r template.Resolver) (bool, error) {
	return c.parsed.Holds(func(i int) (filter.Value, error) { return c.terms[i].operand(r) })
}

func (t term) operand(r template.Resolver) (filter.Value, error) {
	if t.text != nil {
		text, err := t.text.Bind(r)
		return filter.Untyped(text), err
	}
	v, _, err := t.single.Operand(r)
	return v, err
}
