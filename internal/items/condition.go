package items

import (
	"encoding/json"
	"strings"

	"prodigy/internal/rawjson"
)

// Condition is an expression in the language of filters over the variables of a step. It may be used by several goroutines at once.
// A variable is written bare, as in build.success, or as ${build.success}; in a quoted text ${…} is a part of that text. Values are put
// in after the expression was read, so none can become a part of it.
type Condition struct {
	// Terms are the variables of the expression, in the order of the text.
	Terms []Term

	root node
}

// Term is a variable of a condition.
type Term struct {
	Src  string // a text with placeholders, or what would stand between the braces of one
	Text bool   // it is the former
	At   int    // where in the condition it starts
}

// ParseCondition compiles a condition. An error shows the place with a caret.
func ParseCondition(src string) (*Condition, error) {
	c := new(Condition)
	p := &parser{lexer: lexer{src: src, places: true}, terms: &c.Terms}
	err := p.run(func(p *parser) (err error) {
		c.root, err = p.whole()
		return err
	})
	return c, err
}

// Holds reports whether the condition is true. operand returns the value of a term by its index.
func (c *Condition) Holds(operand func(term int) Operand) bool {
	find := func(path []step) (value, bool) {
		return operand(path[0].index).value, true
	}
	return c.root.eval(find).truth()
}

// Operand is the value of a term. The zero Operand is null.
type Operand struct{ value value }

// Typed returns the operand of a JSON document, which must be valid.
func Typed(raw json.RawMessage) Operand { return Operand{newValue(raw)} }

// Loose returns the operand of a text that nothing is known of, as the output of a command: where it meets a number or a boolean
// it is one, if it is spelled like one.
func Loose(s string) Operand { return Operand{value{kind: text, text: s, loose: true}} }

// named makes a term of a placeholder or of a text with placeholders.
func (p *parser) named(t token) (node, error) {
	n := p.newTerm(Term{Src: t.text, Text: t.kind == tokenText, At: t.at})
	return n, p.advance()
}

func (p *parser) newTerm(t Term) node {
	*p.terms = append(*p.terms, t)
	return field{path: []step{{index: len(*p.terms) - 1, indexed: true}}}
}

// pathNode returns the node of a path: of an item, or in a condition the term that is written like it.
func (p *parser) pathNode(path []step, start int) node {
	if p.terms == nil {
		return field{path}
	}
	return p.newTerm(Term{Src: strings.TrimRight(p.lexer.src[start:p.token.at], " \t\r\n"), At: start})
}

// place reads a ${…}. Its token is what stands between the braces.
func (l *lexer) place(rest string) (token, error) {
	var quote byte
	for i := len("${"); i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case rest[i-1] == '[' && (c == '"' || c == '\''):
			quote = c
		case c == '}':
			t := token{kind: tokenPlace, text: rest[len("${"):i], at: l.at}
			l.at += i + 1
			return t, nil
		}
	}
	return token{}, mistake(l.at, "the brace that opens here is not closed")
}

// agree returns a and b as what they are to each other: a loose text beside a number or a boolean is one if it is spelled like one,
// and so are two loose numbers.
func agree(a, b value) (value, value) {
	switch {
	case a.loose && b.loose:
		if x, y := a.as(number), b.as(number); x.kind == number && y.kind == number {
			return x, y
		}
		return a.as(text), b.as(text)
	case a.loose:
		return a.as(b.kind), b
	case b.loose:
		return a, b.as(a.kind)
	}
	return a, b
}

// as returns a loose text as a value of kind k, or as a plain text when it is not spelled like one.
func (v value) as(k kind) value {
	spelled := strings.TrimSpace(v.text)
	switch {
	case k == number && isJSONNumber(spelled):
		return value{kind: number, text: spelled}
	case k == boolean && strings.EqualFold(spelled, "true"):
		return booleanValue(true)
	case k == boolean && strings.EqualFold(spelled, "false"):
		return booleanValue(false)
	}
	return value{kind: text, text: v.text}
}

func isJSONNumber(s string) bool {
	return s != "" && (s[0] == '-' || isDigit(s[0])) && rawjson.Valid([]byte(s))
}

// looseTruth is what a loose text counts as where a condition is wanted: false, 0 and nothing do not hold.
func (v value) looseTruth() bool {
	for _, k := range []kind{boolean, number} {
		if w := v.as(k); w.kind == k {
			return w.truth()
		}
	}
	return v.text != ""
}
