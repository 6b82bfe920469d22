package filter

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// deepest is how far parentheses and nots may nest.
const deepest = 200

// parser reads an expression into nodes.
type parser struct {
	lexer

	depth int        // of parentheses and nots
	terms *[]Term    // of a condition, whose paths they are; an item has its own
	paths [][]string // of the fields, each up to an index

	typed []TypedComparison
}

// parse lets read read what is in p.src, from its first token on. An error shows the place with a caret.
func (p *parser) parse(read func()) error {
	p.src = strings.TrimRight(p.src, " \t\r\n")
	p.advance()
	read()
	if p.mistake == "" {
		return nil
	}
	return fmt.Errorf("%s\n%s", p.mistake, PointAt(p.src, p.mistakeAt))
}

// whole reads an expression up to the end.
func (p *parser) whole() node {
	root := p.or()
	p.expectEnd("an operator or the end")
	return root
}

func (p *parser) expectEnd(what string) {
	if p.token.kind != tokenEnd {
		p.fail(p.token.at, "expected %s, got %s", what, p.token)
	}
}

// accept skips the next token if it is that sign, or that word in any case.
func (p *parser) accept(sign, word string) bool {
	accepted := p.token.isSign(sign) || p.token.isWord(word)
	if accepted {
		p.advance()
	}
	return accepted
}

func (p *parser) expect(sign, why string) {
	if !p.token.isSign(sign) {
		p.fail(p.token.at, "expected %q %s, got %s", sign, why, p.token)
	}
	p.advance()
}

func (p *parser) or() node { return p.chain("||", "or", p.and, disjunction) }

func (p *parser) and() node { return p.chain("&&", "and", p.not, conjunction) }

func (p *parser) chain(sign, word string, part func() node, join func(left, right node) node) node {
	left := part()
	for p.accept(sign, word) {
		left = join(left, part())
	}
	return left
}

func (p *parser) not() node {
	at := p.token.at
	if !p.accept("!", "not") {
		return p.comparison()
	}
	return negation(p.deeper(at, p.not))
}

// deeper reads a part that nests, which begins at at.
func (p *parser) deeper(at int, part func() node) node {
	if p.depth++; p.depth > deepest {
		p.fail(at, "nested too deeply")
		return node{}
	}
	defer func() { p.depth-- }()
	return part()
}

func (p *parser) comparison() node {
	start := p.token.at
	left := p.operand()
	if p.token.kind == tokenWord {
		return p.wordOperator(left, start)
	}
	sign := p.token
	test, ok := comparisons[sign.text]
	if !ok || sign.kind != tokenSign {
		return left
	}
	p.advance()
	right := p.operand()
	if sign.text != "!=" {
		p.note(left, []node{right}, start)
		p.note(right, []node{left}, start)
	}
	return comparison(left, right, test)
}

func (p *parser) wordOperator(left node, start int) node {
	operator := p.token
	word := strings.ToLower(operator.text)
	test := textTests[word]
	if test == nil && word != "in" && word != "not" && word != "matches" {
		return left
	}
	p.advance()
	switch {
	case test != nil:
		return comparison(left, p.operand(), test)
	case word == "matches":
		return match(left, p.regex())
	case word == "in":
		is, list := p.in(left)
		p.note(left, list, start)
		return is
	case !p.token.isWord("in"):
		p.fail(p.token.at, "expected \"in\" after %q, got %s (for a negated comparison use not a == b)",
			operator.text, p.token)
		return left
	}
	p.advance()
	is, _ := p.in(left)
	return negation(is)
}

// in reads the list behind "in" or "not in".
func (p *parser) in(left node) (is node, list []node) {
	p.expect("[", "after in")
	for p.mistake == "" && !p.token.isSign("]") {
		if len(list) > 0 {
			p.expect(",", "or \"]\" in the list")
		}
		list = append(list, p.operand())
	}
	p.advance()
	return testNode(func(find lookup) bool {
		v := left.eval(find)
		for _, element := range list {
			if v.Equal(element.eval(find)) {
				return true
			}
		}
		return false
	}), list
}

func (p *parser) regex() *regexp.Regexp {
	t := p.token
	if t.kind != tokenText {
		p.fail(t.at, "expected a regular expression in quotes, got %s", t)
		return nil
	}
	if p.terms != nil && strings.Contains(t.text, "${") {
		p.fail(t.at, "a regular expression must be constant; placeholders are not allowed in it")
	}
	re, err := regexp.Compile(t.text)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		p.fail(t.at, "invalid regular expression: %s: %s", bad.Code, bad.Expr)
	} else if err != nil {
		p.fail(t.at, "invalid regular expression: %v", err)
	}
	p.advance()
	return re
}

// operand reads what can stand beside an operator.
func (p *parser) operand() node {
	t := p.token
	switch {
	case t.kind == tokenPlace, t.kind == tokenText && p.terms != nil && strings.Contains(t.text, "$"):
		p.advance()
		return p.newTerm(Term{Src: t.text, Text: t.kind == tokenText, At: t.at})
	case t.kind == tokenNumber:
		p.advance()
		return constantNode(Value{kind: Number, text: t.text})
	case t.kind == tokenText:
		p.advance()
		return constantNode(Value{kind: Text, text: t.text})
	case t.kind == tokenWord:
		return p.word()
	case t.isSign("["):
		return p.steps(nil, t.at)
	case t.isSign("("):
		return p.deeper(t.at, func() node {
			p.advance()
			inner := p.or()
			p.expect(")", "to close the parenthesis")
			return inner
		})
	}
	p.fail(t.at, "expected a field, value or \"(\", got %s", t)
	return node{}
}

// word reads what begins with a word: a constant, a call or a path.
func (p *parser) word() node {
	t := p.token
	p.advance()
	if p.token.isSign("(") && !isOperator(t.text) {
		return p.call(t)
	}
	switch word := strings.ToLower(t.text); {
	case t.text == "null":
		return constantNode(Value{})
	case t.text == "true", t.text == "false":
		return constantNode(booleanValue(t.text == "true"))
	case word == "null", word == "true", word == "false":
		p.fail(t.at, "use %s for the constant, or item.%s for a field of that name", word, t.text)
	case t.text == "None":
		p.fail(t.at, "use null for the constant, or item.None for a field of that name")
	case isOperator(t.text), textTests[t.text] != nil:
		p.fail(t.at, "expected a field or a value, got %q (use item.%s for a field of that name)", t.text, t.text)
	}
	return p.steps([]step{{name: t.text}}, t.at)
}

// isOperator reports whether word is an operator that is a word in any case.
func isOperator(word string) bool {
	switch strings.ToLower(word) {
	case "and", "or", "not", "in":
		return true
	}
	return false
}

// call reads the arguments of a function.
func (p *parser) call(name token) node {
	function, test := functions[name.text], textTests[name.text]
	if function == nil && test == nil && name.text != "matches" {
		names := slices.Concat(slices.Collect(maps.Keys(functions)), slices.Collect(maps.Keys(textTests)),
			[]string{"matches"})
		slices.Sort(names)
		p.fail(name.at, "unknown function %q (known: %s)", name.text, check.OneOf(names))
	}
	p.advance()
	first := p.operand()
	if function != nil {
		p.expect(")", "after the argument of "+name.text)
		return node{eval: func(find lookup) Value { return function(first.eval(find)) }}
	}
	p.expect(",", "between the arguments of "+name.text)
	var n node
	if test != nil {
		n = comparison(first, p.operand(), test)
	} else {
		n = match(first, p.regex())
	}
	p.expect(")", "after the arguments of "+name.text)
	return n
}

// steps reads the rest of a path that starts at start.
func (p *parser) steps(path []step, start int) node {
	for {
		switch {
		case p.accept(".", ""):
			t := p.token
			if t.kind != tokenWord {
				p.fail(t.at, "expected a name after \".\", got %s", t)
			}
			path = append(path, step{name: t.text})
			p.advance()
		case p.accept("[", ""):
			path = append(path, p.bracket())
		default:
			return p.pathNode(path, start)
		}
	}
}

func (p *parser) bracket() step {
	t := p.token
	s := step{name: t.text}
	if t.kind == tokenNumber {
		n, err := strconv.Atoi(t.text)
		if err != nil || n < 0 {
			p.fail(t.at, "expected an index, an integer from 0, got %s", t)
		}
		s = step{index: n, indexed: true}
	} else if t.kind != tokenText {
		p.fail(t.at, "expected an index or a name in quotes, got %s", t)
	}
	p.advance()
	p.expect("]", "after it")
	return s
}

// field reads the path of a field.
func (p *parser) field() []step {
	t := p.token
	switch {
	case t.isSign("["):
		return p.steps(nil, t.at).path
	case t.kind == tokenWord:
		p.advance()
		return p.steps([]step{{name: t.text}}, t.at).path
	}
	p.fail(t.at, "expected the path of a field, got %s", t)
	return nil
}

// Term is a variable of a condition.
type Term struct {
	Src  string // a text with placeholders, or what would stand between the braces of one
	Text bool   // it is the former
	At   int    // where in the condition it starts
}

// newTerm returns the node of a new variable of the expression.
func (p *parser) newTerm(t Term) node {
	*p.terms = append(*p.terms, t)
	return fieldNode([]step{{index: len(*p.terms) - 1, indexed: true}})
}

// pathNode returns the node of a path: of an item, or in a condition the term that is written like it.
func (p *parser) pathNode(path []step, start int) node {
	if p.terms == nil {
		var names []string
		for _, s := range path {
			if s.indexed {
				break
			}
			names = append(names, s.name)
		}
		p.paths = append(p.paths, names)
		return fieldNode(path)
	}
	return p.newTerm(Term{Src: strings.TrimRight(p.src[start:p.token.at], " \t\r\n"), At: start})
}

// between returns a part of the expression.
func (p *parser) between(from, to int) string { return strings.TrimSpace(p.src[from:to]) }
