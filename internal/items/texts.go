package items

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/workflow"
)

// textFormats are the formats in which all is text.
var textFormats = []string{"csv", "tsv", "lines", "nul"}

// Warnings tells of what in a filter can hold for no item, or only for all of them, because the workflow says of its input that all in it
// is text. Messages hold a caret under the place. The File of a problem is left for the caller to fill in.
func Warnings(m *workflow.Map) []workflow.Problem {
	if m.Filter == "" {
		return nil
	}
	format := toldFormat(m.Input)
	f, err := ParseFilter(m.Filter)
	if err != nil || !slices.Contains(textFormats, format) {
		return nil
	}
	var found []workflow.Problem
	for _, t := range f.typed {
		found = append(found, workflow.Problem{
			Line: m.FilterPos.Line, Col: m.FilterPos.Col,
			Message: fmt.Sprintf("filter: %s has texts only, so that %s holds for %s item: write %s\n%s",
				format, t.written, t.holdsFor(), t.instead, pointAt(m.Filter, t.at)),
		})
	}
	return found
}

// toldFormat returns the format of the input given in the workflow, by a key or the name of the file, or "".
func toldFormat(in workflow.Input) string {
	name := in.File
	if !looksLikeCommand(withoutPlaceholders(in.Text)) {
		name = cmp.Or(name, in.Text)
	}
	return cmp.Or(in.Format, extensions()[strings.ToLower(filepath.Ext(name))])
}

// typed is a comparison in a filter of a field with a number or boolean, which a text never equals.
type typed struct {
	at      int    // where it stands
	sign    string // its operator
	written string
	instead string // what means the same of texts
}

func (t typed) holdsFor() string {
	if t.sign == "!=" {
		return "every"
	}
	return "no"
}

// noteComparison keeps a comparison that starts at start when it is typed.
func (p *parser) noteComparison(c comparison, start int, sign token) {
	left, right := p.between(start, sign.at), p.between(sign.at+len(sign.text), p.token.at)
	switch {
	case isField(c.left) && isTyped(c.right):
		right, left = asText(c.right, right, left)
	case isField(c.right) && isTyped(c.left):
		left, right = asText(c.left, left, right)
	default:
		return
	}
	p.note(typed{at: start, sign: sign.text, instead: left + " " + sign.text + " " + right})
}

// noteList keeps a search of a field among numbers.
func (p *parser) noteList(n oneOf, start int, word token) {
	other := func(e node) bool { return constantKind(e) != number }
	if !isField(n.left) || len(n.list) == 0 || slices.ContainsFunc(n.list, other) {
		return
	}
	left, list := p.between(start, word.at), p.between(word.at+len(word.text), p.token.at)
	p.note(typed{at: start, sign: word.text, instead: "number(" + left + ") in " + list})
}

// note keeps a typed place that ends before the token. In a condition there is none: what is a text there is known only when it runs.
func (p *parser) note(t typed) {
	if p.terms == nil {
		t.written = p.between(t.at, p.token.at)
		p.typed = append(p.typed, t)
	}
}

// between returns a part of the expression.
func (p *parser) between(from, to int) string { return strings.TrimSpace(p.lexer.src[from:to]) }

// asText returns how a constant and the field that it is compared with are written for fields that are texts.
func asText(constant node, written, field string) (constantText, fieldText string) {
	if constantKind(constant) == boolean {
		return `"` + written + `"`, field
	}
	return written, "number(" + field + ")"
}

// isTyped reports whether n is a constant that no text can equal.
func isTyped(n node) bool {
	k := constantKind(n)
	return k == number || k == boolean
}

func isField(n node) bool {
	_, ok := n.(field)
	return ok
}

// constantKind is the kind of a constant, or null.
func constantKind(n node) kind {
	c, _ := n.(constant)
	return c.value.kind
}
